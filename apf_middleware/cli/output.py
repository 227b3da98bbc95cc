"""What several commands share: how to write results, and which paths to read.

Colours are for terminals only. Elsewhere the same lines come out plain and unbroken, for people who grep.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

__all__ = ["Output", "OutputOption", "Paths", "is_there", "require_folder", "require_paths", "tell"]


_MOST_SHOWN: Final = 80  # characters of a name
_WILDCARDS: Final = frozenset("*?[")  # a glob that matches nothing is told with the other problems


class Output(StrEnum):
    """For people or for programs."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="For people or for programs.")]

Paths = Annotated[list[Path], typer.Argument(help="Files, directories or globs of YAML or JSON.", show_default=False)]


def require_paths(paths: list[Path]) -> None:
    """End with status 2 when one of these isn't there."""
    missing = [path for path in paths if not _WILDCARDS & set(str(path)) and not is_there(path, "PATH")]
    if missing:
        raise typer.BadParameter(f"there is no {', '.join(map(str, missing))}", param_hint="PATH")


def is_there(path: Path, hint: str) -> bool:
    """Return whether there is such a file or folder; end with status 2 when nothing can have this name."""
    try:
        return path.exists()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else str(error)) or "it can't be a file's name"
        shown = str(path) if len(str(path)) <= _MOST_SHOWN else f"{str(path)[:_MOST_SHOWN]}…"
        raise typer.BadParameter(f"{shown} can't be read: {reason.lower()}", param_hint=hint) from None


def require_folder(option: str, path: Path) -> None:
    """End with status 2 before anything is computed when there is no folder to write this file into."""
    is_there(path, f"--{option}")
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}", param_hint=f"--{option}")
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder", param_hint=f"--{option}")


def tell(line: object, style: str = "") -> None:
    """One line on standard output; ``style`` is rich's name for a colour or weight."""
    Console(highlight=False, soft_wrap=True).print(Text(str(line), style=style))
