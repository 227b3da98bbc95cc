"""The command ``apf``. It needs the extra ``cli``; without the extra, the command says how to install it."""

import io
import os
import sys
from collections.abc import Sequence
from typing import Final

from apf_middleware.exceptions import MissingExtraError

__all__ = ["main"]

_SENSELESS: Final = 2
_MOST_SHOWN: Final = 60


def main() -> None:
    """Run ``apf`` with the arguments of this process."""
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
