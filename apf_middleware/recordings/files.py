"""Files of recordings: plain, or compressed as the end of their name says."""

import gzip
import sys
import zlib
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, Literal

from apf_middleware.exceptions import MissingExtraError

__all__ = ["MOST_ROWS_HELD", "damage_errors", "open_recording", "require_compression"]

MOST_ROWS_HELD: Final = 65_536
"""The number of rows that are held for sorting: servers write a request when it has ended."""

_Mode = Literal["r", "w", "x"]


def require_compression(path: Path) -> None:
    """Raise MissingExtraError if a package is missing that the file needs."""
    if path.suffix == ".zst":
        _zstd()


def open_recording(path: Path, mode: _Mode = "r") -> IO[str]:
    """Open a file as text, to read it or to write it; ``x`` fails if it exists.

    Bytes that aren't UTF-8 are replaced, and a byte order mark is skipped. A file that was cut off raises EOFError
    where it ends.
    """
    encoding, errors = ("utf-8-sig", "replace") if mode == "r" else ("utf-8", "strict")
    opened: Any = open
    if path.suffix == ".gz":
        opened = gzip.open
    elif path.suffix == ".zst":
        opened = _zstd().open
    found: IO[str] = opened(path, f"{mode}t", encoding=encoding, errors=errors)
    return found


def damage_errors(path: Path) -> tuple[type[Exception], ...]:
    """Return the errors that reading a damaged file raises; one that was cut off raises EOFError instead."""
    more: tuple[type[Exception], ...] = (_zstd().ZstdError,) if path.suffix == ".zst" else ()
    return (OSError, zlib.error, *more)


def _zstd() -> Any:  # noqa: ANN401 - one of two modules of the same form
    """Return the module for zstd: that of the standard library, or its copy for Python before 3.14."""
    if sys.version_info >= (3, 14):
        return import_module("compression.zstd")
    try:
        return import_module("backports.zstd")
    except ImportError as error:
        raise MissingExtraError("backports.zstd", "zstd") from error
