"""The outcome of a command in all workers: messages on standard error, and exit statuses for scripts."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, NoReturn

import typer

from apf_middleware.classification.text import printable
from apf_middleware.cli.control.merging import MergedQueue, disagreements
from apf_middleware.cli.control.workers import Reply

__all__ = ["Exit", "end", "fail", "failures", "note", "require_success"]


class Exit(IntEnum):
    """Exit statuses. 0: all workers have done it. As with all commands, 2 is a wrong command line."""

    DONE = 0
    REFUSED = 1
    """No worker has succeeded: an unknown queue, a state that forbids it, a wrong value. With `diff`: there is drift.
    """

    UNREACHED = 3
    """There is no server, or none that answers, or the caller is not authorized."""

    PARTIAL = 4
    """Some workers have succeeded or answered, and others have not; or the workers don't agree."""


def note(message: str) -> None:
    """Write a message that isn't the result; what a server says in it can't control the terminal."""
    lines = (printable(line, most=len(line)) for line in message.split("\n"))
    typer.echo("apf: " + "\n".join(lines), err=True)


def fail(message: str, status: Exit) -> NoReturn:
    """End the command with a message."""
    note(message)
    raise typer.Exit(status)


def require_success(replies: Sequence[Reply[Any]]) -> None:
    """End the command unless at least one worker has succeeded; write why others have not."""
    if any(reply.is_done for reply in replies):
        _note_failures(replies)
    else:
        _fail(replies)


def _fail(replies: Sequence[Reply[Any]]) -> None:
    if not replies:
        fail("no worker has a socket in the directory any more", Exit.UNREACHED)
    answered = [reply for reply in replies if not reply.is_silent]
    is_unauthorized = all(reply.status in {401, 403} for reply in answered)
    status = Exit.UNREACHED if is_unauthorized else Exit.REFUSED
    if len({reply.trouble for reply in replies}) == 1:  # all for the same reason
        fail(_named(replies[0]) if replies[0].is_silent else replies[0].trouble, status)
    _note_failures(replies)
    raise typer.Exit(status)


def _note_failures(replies: Sequence[Reply[Any]]) -> None:
    for failure in failures(replies):
        note(failure)


def failures(replies: Iterable[Reply[Any]]) -> list[str]:
    """Return which workers have not succeeded, and why."""
    return [_named(reply) for reply in replies if not reply.is_done]


def _named(reply: Reply[Any]) -> str:
    return f"worker {reply.worker}: {reply.trouble}"


def end(replies: Sequence[Reply[Any]], queues: Sequence[MergedQueue] = (), *, odd: Sequence[str] = ()) -> None:
    """Write where the workers don't agree; end the command if they don't, or if any has not succeeded."""
    odd = (*disagreements(queues), *odd)
    for one in odd:
        note(one)
    if odd or not all(reply.is_done for reply in replies):
        raise typer.Exit(Exit.PARTIAL)
