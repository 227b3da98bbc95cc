"""What became of an order that all workers were given: in words on standard error, and as an exit status."""

from collections.abc import Sequence

import typer

from apf_middleware.cli.control.exits import Exit, fail, note
from apf_middleware.cli.control.together import Together, disagreements
from apf_middleware.cli.control.workers import Reply

__all__ = ["end", "require_some"]


def require_some(replies: Sequence[Reply]) -> None:
    """End unless at least one worker has done as it was asked; tell who hasn't, and why."""
    if any(reply.is_done for reply in replies):
        _tell_others(replies)
    else:
        _fail(replies)


def _fail(replies: Sequence[Reply]) -> None:
    heard = [reply for reply in replies if not reply.is_silent]
    may_not = all(reply.status in {401, 403} for reply in heard)
    status = Exit.UNREACHED if may_not else Exit.REFUSED
    if len({reply.trouble for reply in replies}) == 1:  # all for the same reason
        fail(_named(replies[0]) if replies[0].is_silent else replies[0].trouble, status)
    _tell_others(replies)
    raise typer.Exit(status)


def _tell_others(replies: Sequence[Reply]) -> None:
    for reply in replies:
        if not reply.is_done:
            note(_named(reply))


def _named(reply: Reply) -> str:
    return f"worker {reply.worker}: {reply.trouble}"


def end(replies: Sequence[Reply], queues: Sequence[Together] = (), *, odd: Sequence[str] = ()) -> None:
    """Tell where the workers don't agree, and end with a status that says whether all is well."""
    odd = (*disagreements(queues), *odd)
    for one in odd:
        note(one)
    if odd or not all(reply.is_done for reply in replies):
        raise typer.Exit(Exit.PARTIAL)
