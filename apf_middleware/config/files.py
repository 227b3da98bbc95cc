"""The files of a configuration: found in directories and by globs, read, and checked before they are parsed.

A directory stands for the YAML and JSON files directly in it. Names that begin with a dot are ignored: editors use them
for temporary files, and mounted ConfigMaps for their versions.
"""

import glob
import re
from collections.abc import Iterable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Final

from apf_middleware.config.problems import Place, Problems
from apf_middleware.config.yaml_nodes import Document, compose

__all__ = ["MAX_BYTES", "MAX_FILES", "MAX_TOTAL_BYTES", "SUFFIXES", "find_files", "read_files", "read_text", "start_of"]

MAX_BYTES: Final = 2**20
"""The maximum size of a file, in bytes."""

MAX_TOTAL_BYTES: Final = 8 * MAX_BYTES
"""The maximum size of all files of one configuration together, in bytes."""

MAX_FILES: Final = 1_000
"""The most files of one configuration."""

SUFFIXES: Final = (".yaml", ".yml", ".json")
"""The suffixes of the files in a directory that belong to the configuration."""

_MARK: Final = re.compile("^\ufeff+", re.MULTILINE)
"""Byte order marks: of a file, or of a later part of files that were concatenated."""

_SURROGATES: Final = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


def find_files(paths: Iterable[str | PathLike[str]], problems: Problems) -> list[Path]:
    """Return the files that these paths stand for, each once, sorted."""
    found: dict[Path, Path] = {}
    for given in [fspath(path) for path in paths]:
        try:
            for path in _expand(given):
                found.setdefault(path.resolve(), path)
        except (OSError, ValueError, RuntimeError) as error:
            problems.error(Place(given), f"it must be readable: {_reason(error)}", hint=start_of(given))
    if len(found) > MAX_FILES:
        problems.error(Place(str(next(iter(found.values())).parent)), f"there must not be more than {MAX_FILES} files")
    return sorted(found.values())[:MAX_FILES]


def start_of(given: str) -> str:
    """Say where a relative path starts: servers are often started elsewhere than expected."""
    if not given or Path(given).is_absolute():
        return ""
    try:
        return f"A relative path starts in the working directory, {Path.cwd()}"
    except OSError:  # it has been removed
        return "A relative path starts in the working directory, which is missing"


def _expand(given: str) -> Iterator[Path]:
    if not given:
        raise ValueError("the path is empty; write . for the current directory")
    path = Path(given)
    if path.is_dir():
        inside = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES and not one.name.startswith("."))
        files = [one for one in inside if one.is_file()]
        if not files:
            raise ValueError(f"the directory has no {', '.join(SUFFIXES)} file")
        yield from files
    elif path.exists() or not glob.has_magic(given):
        # an existing path is used as it is, even if it looks like a pattern
        if not path.exists():
            raise ValueError("there is no such file or directory")
        if not path.is_file():  # a pipe or a device may never end
            raise ValueError("it must be a regular file")
        yield path
    else:
        names = sorted(glob.glob(given, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute patterns)
        files = [one for one in map(Path, names) if one.is_file()]
        if not files:
            raise ValueError("no file matches this pattern")
        yield from files


def read_files(paths: Iterable[str | PathLike[str]], problems: Problems) -> list[Document]:
    """Return the documents of all files that these paths stand for."""
    documents = []
    total = 0
    for path in find_files(paths, problems):
        try:
            with path.open("rb") as file:
                # One byte more than allowed is enough to see that a file is too long.
                raw = file.read(MAX_BYTES + 1)
        except OSError as error:
            problems.error(Place(str(path)), f"it must be readable: {_reason(error)}")
            continue
        total += len(raw)
        if total > MAX_TOTAL_BYTES:
            problems.error(Place(str(path)), f"all files together must not be longer than {MAX_TOTAL_BYTES} bytes")
            break
        found = read_text(raw, str(path), problems)
        if not found and not problems.errors:
            problems.warn(Place(str(path)), "there is no document in it", hint="Remove it, or write something")
        documents += found
    return documents


def read_text(text: str | bytes, name: str, problems: Problems) -> list[Document]:
    """Return the documents of one text; problems show ``name`` as its file."""
    try:
        raw = text if isinstance(text, bytes) else text.encode()
        if len(raw) > MAX_BYTES:
            problems.error(Place(name), f"a file must not be longer than {MAX_BYTES} bytes", hint="Split it")
            return []
        decoded = _MARK.sub("", raw.decode())
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError | UnicodeEncodeError) else 0
        line = text[:start].count(b"\n" if isinstance(text, bytes) else "\n") + 1  # type: ignore[arg-type]
        problems.error(Place(name, 0, line), "the text must be UTF-8", hint="Save the file in this encoding")
        return []
    if name.endswith(".json") or decoded.lstrip()[:1] in ("{", "["):
        decoded = _as_yaml(decoded)
    return compose(decoded, name, problems)


def _as_yaml(text: str) -> str:
    """Convert JSON to YAML: they differ in tabs, and in characters that JSON writes as two surrogates."""

    def joined(halves: re.Match[str]) -> str:
        return chr(0x10000 + (int(halves[1], 16) - 0xD800) * 0x400 + int(halves[2], 16) - 0xDC00)

    return _SURROGATES.sub(joined, text.replace("\t", " "))


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
