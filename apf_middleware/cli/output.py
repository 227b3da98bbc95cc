"""Functions and options that several commands share: to read paths and headers, and to write results.

Colours are for terminals only. Other outputs get the same lines, plain and not wrapped, so that grep finds them.
"""

import json
import shutil
import sys
from collections.abc import Container, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from apf_middleware.config import Configuration, ConfigurationError, load
from apf_middleware.config.values import is_token

__all__ = [
    "Output",
    "OutputOption",
    "Paths",
    "align",
    "is_there",
    "load_files",
    "narrow",
    "parse_headers",
    "parse_path",
    "require_folder",
    "require_paths",
    "shorten",
    "show_json",
    "tell",
    "terminal_width",
]

_GAP: Final = 2  # the spaces between two columns of a table
_SHORTEST_NAME: Final = 8
_MOST_SHOWN: Final = 80  # characters of a name
_WILDCARDS: Final = frozenset("*?[")  # a glob that matches nothing is reported with the other problems


class Output(StrEnum):
    """The form of the output: for people or for programs."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="For people or for programs.")]


# Input


def parse_path(text: str) -> Path:
    """Return a path; end with status 2 if it is empty, as that of a variable that isn't set, not the current folder."""
    if not text:
        raise typer.BadParameter("a path must not be empty; write . for the current folder")
    return Path(text)


Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH", help="Files, directories or globs of YAML or JSON.", parser=parse_path, show_default=False
    ),
]


def require_paths(paths: list[Path]) -> None:
    """End with status 2 if one of these paths doesn't exist."""
    missing = [path for path in paths if not _WILDCARDS & set(str(path)) and not is_there(path, "PATH")]
    if missing:
        raise typer.BadParameter(f"there is no {', '.join(map(str, missing))}", param_hint="PATH")


def load_files(paths: list[Path]) -> Configuration:
    """Return the configuration in these files; end with status 2 without files, and with status 1 if it has errors."""
    require_paths(paths)
    try:
        return load(*paths)
    except ConfigurationError as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from error


def is_there(path: Path, hint: str) -> bool:
    """Return whether there is such a file or folder; end with status 2 if no file can have this name."""
    try:
        return path.exists()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else str(error)) or "it can't be a file's name"
        shown = shorten(str(path), _MOST_SHOWN + 1)
        raise typer.BadParameter(f"{shown} can't be read: {reason.lower()}", param_hint=hint) from None


def require_folder(option: str, path: Path) -> None:
    """End with status 2, before anything is computed, if there is no folder for this file."""
    is_there(path, f"--{option}")
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}", param_hint=f"--{option}")
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder", param_hint=f"--{option}")


def parse_headers(given: Sequence[str]) -> list[tuple[str, str]]:
    """Return the names and values of headers that are written as NAME:VALUE."""
    headers = []
    for header in given:
        name, colon, value = header.partition(":")
        name = name.strip()
        if not colon or not name:
            raise typer.BadParameter(f"{header!r} is not NAME:VALUE", param_hint="--header")
        if not is_token(name):
            raise typer.BadParameter(f"no header can have the name {name!r}", param_hint="--header")
        headers.append((name, value.strip()))
    return headers


# Output


def tell(line: object, style: str = "") -> None:
    """Write one line to standard output; ``style`` is rich's name for a colour or weight."""
    from rich.console import Console  # noqa: PLC0415 - output for programs doesn't need it
    from rich.text import Text  # noqa: PLC0415

    Console(highlight=False, soft_wrap=True).print(Text(str(line), style=style))


def show_json(document: object) -> None:
    """Write JSON, for programs."""
    typer.echo(json.dumps(document, indent=2))


def terminal_width() -> int | None:
    """Return the width of the terminal; None without a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def align(rows: Sequence[Sequence[str]], left: Container[str]) -> list[str]:
    """Return rows as lines; the first row names the columns, of which those in ``left`` are left-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (" " * _GAP)
        .join(
            cell.ljust(width) if name in left else cell.rjust(width)
            for name, cell, width in zip(rows[0], row, widths, strict=True)
        )
        .rstrip()
        for row in rows
    ]


def narrow(columns: dict[str, list[str]], most: int | None, dispensable: Sequence[str]) -> None:
    """Remove ``dispensable`` columns until the others fit into ``most`` characters, then shorten the first column."""
    if most is None:
        return
    for name in dispensable:
        if _width(columns) <= most:
            return
        del columns[name]
    first = next(iter(columns))
    surplus = max(0, _width(columns) - most)
    room = max(_SHORTEST_NAME, max(map(len, columns[first])) - surplus)
    columns[first] = [shorten(cell, room) for cell in columns[first]]


def _width(columns: Mapping[str, Sequence[str]]) -> int:
    return sum(max(map(len, column)) for column in columns.values()) + _GAP * (len(columns) - 1)


def shorten(text: str, most: int) -> str:
    """Return ``text`` in at most ``most`` characters; if any are omitted, the last one is an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
