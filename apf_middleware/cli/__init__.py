"""The command ``apf``. It needs the extra ``cli``; without it, the command says how to get it."""

import sys

from apf_middleware.exceptions import MissingExtraError

__all__ = ["main"]


def main() -> None:
    """Run ``apf`` with the arguments of this process."""
    try:
        from apf_middleware.cli.app import app  # noqa: PLC0415 - the extra may be missing
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in {"typer", "rich"}:
            raise
        sys.exit(f"apf: {MissingExtraError(package, 'cli')}")
    app(prog_name="apf")
