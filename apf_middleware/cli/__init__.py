"""The command ``apf``. It needs the extra ``cli``; without the extra, the command says how to install it."""

import errno
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn

from apf_middleware.exceptions import MissingExtraError, reason_of

__all__ = ["main"]

_UNWRITTEN: Final = 1
_SENSELESS: Final = 2
_MOST_SHOWN: Final = 60
_CANT_WRITE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EAGAIN})


def main() -> None:
    """Run ``apf`` with the arguments of this process."""
    _replace_closed_streams()
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files may not be valid text
    _require_text(sys.argv[1:])
    try:
        from apf_middleware.cli.app import app  # noqa: PLC0415 - the extra may be missing

        app(prog_name="apf")  # imports the command
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in {"typer", "rich"}:
            raise
        sys.exit(f"apf: {MissingExtraError(package, 'cli')}")
    except OSError as error:  # a pipe whose reader has left is typer's matter
        if error.filename is not None or error.errno not in _CANT_WRITE:
            raise
        _end_unwritten(error)


def _terminate(number: int, _frame: FrameType | None) -> NoReturn:
    """End with the status that shells show for a signal, after the terminal is restored and temporary files removed."""
    sys.exit(128 + number)


def _replace_closed_streams() -> None:
    """Connect the standard streams that are closed, which Python leaves out as None, with the null device."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _end_unwritten(error: OSError) -> NoReturn:
    """End with status 1, because the output can't be written."""
    with suppress(OSError):  # it may be standard error that can't be written
        sys.stderr.write(f"apf: the output can't be written: {reason_of(error)}\n")
    sink = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):  # what they still hold would be a second error when Python ends
        with suppress(OSError, ValueError):
            os.dup2(sink, stream.fileno())
    sys.exit(_UNWRITTEN)


def _require_text(arguments: Sequence[str]) -> None:
    """End with status 2 at an argument that isn't UTF-8, unless it names a file that exists."""
    for number, argument in enumerate(arguments, 1):
        try:
            argument.encode()
        except UnicodeEncodeError:
            if not os.path.lexists(argument):
                shown = argument[:_MOST_SHOWN].encode(errors="backslashreplace").decode()
                sys.stderr.write(f"apf: argument {number} is {shown}, but it must be UTF-8\n")
                sys.exit(_SENSELESS)
