"""``apf queue``: show, create, change, operate and delete the named queues of a running server.

Every command asks all workers, or the one that answers at a URL, and merges their answers.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Final, Literal

import typer

from apf_middleware.asgi.admin.documents import DeletedQueue, NamedQueueDocument, NamedQueueList, WaitingDocument
from apf_middleware.cli.control.drift import differences
from apf_middleware.cli.control.merging import QueueReply, merge_queues
from apf_middleware.cli.control.options import parse_duration, require_seconds, with_options
from apf_middleware.cli.control.outcomes import Exit, end, failures, note, require_success
from apf_middleware.cli.control.rendering import Form, show_queue, show_queues
from apf_middleware.cli.control.server import Server, for_server
from apf_middleware.cli.control.top import watch
from apf_middleware.cli.control.workers import page
from apf_middleware.cli.output import Output, OutputOption, Paths, require_paths, show_json, tell
from apf_middleware.config import read
from apf_middleware.config.emit import emit_documents
from apf_middleware.config.level_conflicts import broken_promise
from apf_middleware.config.problems import Problems
from apf_middleware.runtime.queues import QueueAction

__all__ = [
    "create",
    "delete",
    "diff",
    "get",
    "list_queues",
    "operate",
    "queues",
    "top",
    "update",
]

_NONE: Final = "none"
_SEATS: Final = re.compile("[0-9]{1,10}")

queues: typer.Typer = typer.Typer(
    help="Operate the named queues of a running server. Exit status 0: done; 1: refused, or drift; 2: no such "
    "command; 3: no server that answers; 4: only some workers, or they don't agree.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


_Name = Annotated[str, typer.Argument(help="The queue's name.", show_default=False)]
_FormOption = Annotated[
    Form,
    typer.Option("--output", "-o", help="For people (text, wide), for programs (json), or documents to commit (yaml)."),
]
_Weight = Annotated[
    int | None,
    typer.Option("--weight", "-w", min=1, help="Its part of the seats, relative to the weights of other queues."),
]
_Min = Annotated[int | None, typer.Option("--min", min=0, help="Seats that are reserved for it in each worker.")]
_Max = Annotated[
    str | None, typer.Option("--max", metavar="SEATS|none", help="The maximum number of its seats in each worker.")
]
_Parent = Annotated[str | None, typer.Option("--parent", metavar="NAME|none", help="The queue of which it is a part.")]
_Priority = Annotated[int | None, typer.Option("--priority", help="Its rank among queues that borrow seats.")]
_Reclaimable = Annotated[
    bool | None,
    typer.Option("--reclaimable/--not-reclaimable", help="Whether its requests may be asked to give seats back."),
]
_Interval = Annotated[
    float, typer.Option("--interval", "-n", callback=require_seconds, help="Seconds between two updates.")
]
_WaitLimit = Annotated[
    str | None, typer.Option("--wait-limit", metavar="DURATION|none", help="How long a request may wait, like 2s.")
]
_Strategy = Annotated[
    Literal["traverse", "fifo"] | None,
    typer.Option("--dequeue-strategy", help="fifo: requests wait behind one that waits for a gate."),
]


def _changes(
    max: str | None,  # noqa: A002 - as the field is called
    parent: str | None,
    wait_limit: str | None,
    **plain: object,
) -> dict[str, object]:
    """Return the changes that the options ask for."""
    changes = {field: value for field, value in plain.items() if value is not None}
    if max is not None:
        if max != _NONE and not _SEATS.fullmatch(max):
            raise typer.BadParameter(f"{max!r} must be a number of seats or none", param_hint="--max")
        changes["max"] = None if max == _NONE else int(max)
    if wait_limit is not None:
        changes["wait_limit"] = None if wait_limit == _NONE else parse_duration(wait_limit, "--wait-limit")
    if parent is not None:
        changes["parent"] = None if parent == _NONE else parent
    return changes


_with_changes = with_options(
    "changes",
    {
        "weight": (_Weight, None),
        "min": (_Min, None),
        "max": (_Max, None),
        "parent": (_Parent, None),
        "priority": (_Priority, None),
        "reclaimable": (_Reclaimable, None),
        "wait_limit": (_WaitLimit, None),
        "dequeue_strategy": (_Strategy, None),
    },
    _changes,
)


@queues.command("list")
@for_server
def list_queues(server: Server, *, output: _FormOption = Form.TEXT) -> None:
    """Show all queues; -o yaml prints the documents to commit."""
    path = page("queues") + ("?documents=1" if output is Form.YAML else "")
    replies = server.ask("GET", path, NamedQueueList)
    require_success(replies)
    found = merge_queues(replies)
    show_queues(found, replies, output)
    end(replies, found)


def get(server: Server, *, name: _Name, output: _FormOption = Form.TEXT) -> None:
    """Show one queue: its state, seats and counts, and its waiting requests."""
    replies = server.ask("GET", page("queues", name), NamedQueueDocument)
    require_success(replies)
    [found] = merge_queues(replies)
    waiting = [] if output is Form.YAML else server.ask("GET", page("queues", name, "waiting"), WaitingDocument)
    show_queue(found, replies, waiting, output)
    known = {reply.worker for reply in replies if reply.is_done}
    missing = failures(one for one in waiting if one.worker in known)
    end(replies, [found], odd=[f"without the requests that wait in {one}" for one in missing])


queues.command("get")(for_server(get))
queues.command("view", help="The same as get.")(for_server(get))


@queues.command()
@for_server
@_with_changes
def create(server: Server, changes: dict[str, object], *, name: _Name, output: _FormOption = Form.TEXT) -> None:
    """Create a queue in every worker; it is lost when they end, unless you add it to the files."""
    _show_change(server.ask("POST", page("queues"), NamedQueueDocument, {"name": name, **changes}), output, server)


@queues.command()
@for_server
@_with_changes
def update(server: Server, changes: dict[str, object], *, name: _Name, output: _FormOption = Form.TEXT) -> None:
    """Change a queue in every worker, in any state."""
    if not changes:
        raise typer.BadParameter("nothing to change: give --weight, --min, --max, --parent or another option")
    _show_change(server.ask("PATCH", page("queues", name), NamedQueueDocument, changes), output, server)


@queues.command()
@for_server
def operate(
    server: Server,
    *,
    name: _Name,
    action: Annotated[QueueAction, typer.Option("--action", "-a", help="What to do.", show_default=False)],
    mode: Annotated[
        Literal["drain", "shed"] | None,
        typer.Option(help="Serve waiting requests (drain, the default), or reject them."),
    ] = None,
    output: _FormOption = Form.TEXT,
) -> None:
    """Open, close or pause a queue in every worker."""
    if mode is not None and action is not QueueAction.CLOSE:
        raise typer.BadParameter("only --action close has a mode", param_hint="--mode")
    body = {} if mode is None else {"mode": mode}
    _show_change(server.ask("POST", page("queues", name, action.value), NamedQueueDocument, body), output)


@queues.command()
@for_server
def delete(
    server: Server,
    *,
    name: _Name,
    cascade: Annotated[
        bool,
        typer.Option("--cascade", help="In any state, with its children; waiting requests are rejected."),
    ] = False,
) -> None:
    """Delete a queue that is closed, in every worker."""
    replies = server.ask("DELETE", page("queues", name) + ("?cascade=1" if cascade else ""), DeletedQueue)
    require_success(replies)
    tell(f"deleted {name}")
    end(replies)


@queues.command()
@for_server
def diff(server: Server, *, paths: Paths, output: OutputOption = Output.TEXT) -> None:
    """Show how the queues of the server differ from files. Exit status 1 if there are differences."""
    require_paths(paths)
    reading = read(paths)
    if reading.configuration is None:
        for problem in reading.errors:
            note(str(problem))
        raise typer.Exit(2)
    replies = server.ask("GET", page("queues") + "?documents=1", NamedQueueList)
    require_success(replies)
    found = differences(list(emit_documents(reading.configuration, "apf", Problems())), replies)
    if output is Output.JSON:
        show_json({"drift": list(map(asdict, found))})
    else:
        answered = [reply.worker for reply in replies if reply.is_done]
        for one in found:
            only = f" (worker {', '.join(one.workers)} only)" if len(one.workers) < len(answered) else ""
            tell(f"{one}{only}")
    if found and all(reply.is_done for reply in replies):
        raise typer.Exit(Exit.REFUSED)
    end(replies)


@queues.command()
@for_server
def top(
    server: Server,
    *,
    interval: _Interval = 1.0,
    fleet: Annotated[bool, typer.Option("--fleet", help="Show the members of the server's fleet, too.")] = False,
) -> None:
    """Watch the queues, and pause, open or close them by a key; without a terminal, print one table."""
    watch(server, interval, with_fleet=fleet)


def _show_change(replies: Sequence[QueueReply], output: Form, promising: Server | None = None) -> None:
    """Show the queue after a change; of the server ``promising`` a min, note if it can't keep its mins."""
    require_success(replies)
    found = merge_queues(replies)
    show_queues(found, replies, output)
    if promising is not None and any(queue.total.min for queue in found):
        for problem in sorted(_broken_promises(promising)):
            note(problem)
    end(replies, found)


def _broken_promises(server: Server) -> set[str]:
    """Return what is wrong if the mins add up to all seats or more, as `apf check` does for files."""
    problems = set()
    for reply in server.ask("GET", page("queues") + "?documents=1", NamedQueueList):
        if reply.document is None:
            continue
        specs = {one["metadata"]["name"]: one.get("spec", {}) for one in reply.document.documents}
        mins = {name: spec.get("minSeats", 0) for name, spec in specs.items() if "parent" not in spec}
        adaptive = reply.document.adaptive
        seats = max(one.max for one in reply.document.queues) if adaptive is None else adaptive.min
        problems.add(broken_promise(mins, seats, "queue"))
    return problems - {""}
