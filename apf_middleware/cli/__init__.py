"""The command ``apf``. It needs the extra ``cli``; without it, the command says how to get it."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run ``apf`` with the arguments of this process."""
    try:
        from apf_middleware.cli.app import app  # noqa: PLC0415 - the extra may be missing
    except ImportError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.exit(f"apf: the package {error.name!r} is not installed: pip install 'apf-middleware[cli]'")
    app(prog_name="apf")
