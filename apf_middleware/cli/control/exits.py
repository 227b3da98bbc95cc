"""Exit statuses of the commands that operate servers, for scripts to tell apart what has happened."""

from enum import IntEnum
from typing import NoReturn

import typer

__all__ = ["Exit", "fail", "note"]


class Exit(IntEnum):
    """0: done, by all workers alike. 2 is a command that makes no sense, as with all commands."""

    DONE = 0
    REFUSED = 1
    """No worker did it: there is no such queue, its state forbids it, a value is wrong. With `diff`: there is drift."""

    UNREACHED = 3
    """There is no server, or none that answers, or it lets nobody in."""

    PARTIAL = 4
    """Some workers did it, or answered, and others didn't; or they don't agree."""


def note(message: str) -> None:
    """Say something that isn't the result."""
    typer.echo(f"apf: {message}", err=True)


def fail(message: str, status: Exit) -> NoReturn:
    """End, and say why."""
    note(message)
    raise typer.Exit(status)
