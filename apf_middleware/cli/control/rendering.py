"""Views of queues and gates for operators: tables, one queue in detail, or documents for programs and files.

A table has the columns that fit on the terminal; without a terminal, it has all columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Any, Final

import typer

from apf_middleware.asgi.admin.documents import HoldingGate, WaitingDocument, WaitingFlow
from apf_middleware.classification.text import printable
from apf_middleware.cli.control.merging import MergedGate, MergedQueue, QueueReply, merge_flows, merge_holding
from apf_middleware.cli.control.workers import Reply
from apf_middleware.cli.output import align, narrow, show_json, terminal_width
from apf_middleware.config.emit import to_yaml

__all__ = ["Form", "format_number", "gate_table", "queue_table", "show_queue", "show_queues"]

_Cell = Callable[[MergedQueue], str]


def _field(name: str) -> _Cell:
    return lambda queue: format_number(queue.field(name))


def format_number(value: object) -> str:
    """Return a number with at most two decimals, or yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)


_COLUMNS: Final[dict[str, _Cell]] = {
    "NAME": lambda queue: printable(queue.total.name, most=60),
    "PARENT": lambda queue: printable(queue.field("parent") or "root", most=60),
    **{name.upper(): _field(name) for name in ("state", "weight", "min", "deserved", "used", "max")},
    **{name.upper(): _field(name) for name in ("inqueue", "pending", "running", "completed", "failed", "aborted")},
    "REJECTED": lambda queue: str(queue.total.rejections),
    "SHARE": lambda queue: f"{queue.total.share:.2f}",
}
_WIDE: Final[dict[str, _Cell]] = {
    **{name.upper(): _field(name) for name in ("capacity", "priority", "reclaimable")},
    "STRATEGY": _field("dequeue_strategy"),
    "SOURCE": _field("source"),
    "WORKERS": lambda queue: str(len(queue.states)),
}
_TEXTS: Final = frozenset({"NAME", "PARENT", "STATE", "STRATEGY", "SOURCE", "RECLAIMABLE"})
_DISPENSABLE: Final = ("ABORTED", "PENDING", "PARENT", "FAILED", "COMPLETED", "RUNNING", "WEIGHT", "SHARE", "MIN")
"""Columns that a narrow terminal leaves out, in this order."""


def queue_table(queues: Sequence[MergedQueue], *, width: int | None = None, wide: bool = False) -> list[str]:
    """Return the lines; to fit into ``width``, the least important columns are omitted, and then names are cut."""
    columns = _COLUMNS | _WIDE if wide else _COLUMNS
    cells = {name: [name, *map(cell, queues)] for name, cell in columns.items()}
    narrow(cells, None if wide else width, _DISPENSABLE)
    return align(list(zip(*cells.values(), strict=True)), _TEXTS)


# Gates

_GATE_HEAD: Final = ("GATE", "KEY", "STATE", "PARKED", "OLDEST", "ACQUIRED/LIMIT", "EVENTS", "RESCUES")


def gate_table(gates: Sequence[MergedGate]) -> list[str]:
    """Return the lines."""
    return align([_GATE_HEAD, *map(_gate_cells, gates)], _GATE_HEAD[:3])


def _gate_cells(one: MergedGate) -> tuple[str, ...]:
    gate = one.total
    acquired = "-" if gate.acquired is None else str(gate.acquired)
    return (
        printable(gate.gate, most=40),
        "-" if gate.key is None else printable(str(gate.key), most=40),
        gate.state,
        str(gate.parked),
        "-" if gate.oldest is None else f"{gate.oldest:.1f}s",
        acquired if gate.limit is None else f"{acquired}/{gate.limit}",
        str(gate.events),
        str(gate.rescues),
    )


# Forms

_MOST_LISTED: Final = 5


class Form(StrEnum):
    """The form of results."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def _show_documents(replies: Sequence[QueueReply]) -> None:
    """Write the YAML documents of the first worker that has any; disagreements are noted elsewhere."""
    documents = (reply.document.documents for reply in replies if reply.document and reply.document.documents)
    typer.echo(to_yaml(next(documents, ())), nl=False)


def show_queues(queues: Sequence[MergedQueue], replies: Sequence[QueueReply], form: Form) -> None:
    """Show several queues."""
    if form is Form.JSON:
        show_json({"queues": [queue.as_dict() for queue in queues], "workers": _workers(replies)})
    elif form is Form.YAML:
        _show_documents(replies)
    else:
        wide = form is Form.WIDE
        for line in queue_table(queues, width=None if wide else terminal_width(), wide=wide):
            typer.echo(line)


def show_queue(
    queue: MergedQueue, replies: Sequence[QueueReply], waiting: Sequence[Reply[WaitingDocument]], form: Form
) -> None:
    """Show one queue and the requests that wait in it."""
    flows, holding = merge_flows(waiting), merge_holding(waiting)
    if form is Form.JSON:
        more = {
            "workers": _workers(replies),
            "oldest": max((flow.oldest for flow in flows), default=0.0),
            "flows": list(map(asdict, flows)),
            "gates": list(map(asdict, holding)),
        }
        show_json({"queue": queue.as_dict(), **more})
    elif form is Form.YAML:
        _show_documents(replies)
    else:
        for name, value in _facts(queue, flows, holding).items():
            if value != "":
                typer.echo(f"{name + ':':11}{value}")


def _workers(replies: Sequence[Reply[Any]]) -> list[dict[str, object]]:
    return [
        {"worker": reply.worker, "answered": reply.is_done, "trouble": "" if reply.is_done else reply.trouble}
        for reply in replies
    ]


def _facts(queue: MergedQueue, flows: Sequence[WaitingFlow], holding: Sequence[HoldingGate]) -> dict[str, object]:
    total, field = queue.total, queue.field
    rejected = ", ".join(f"{reason} {number}" for reason, number in total.rejected.items())
    return {
        "name": total.name,
        "state": total.state + (" by its parent" if field("closed_by_parent") is True else ""),
        "parent": field("parent") or "root",
        "children": field("children") if "children" in queue.mixed else ", ".join(total.children),
        "weight": field("weight"),
        "seats": f"{total.used} used, {format_number(total.deserved)} deserved, min {total.min}, max {total.max}",
        "share": f"{total.share:.2f}",
        "requests": f"{total.inqueue} in queue, {total.pending} pending, {total.running} running",
        "ended": f"{total.completed} completed, {total.failed} failed, {total.aborted} aborted",
        "rejected": f"{total.rejections}{f': {rejected}' if rejected else ''}",
        "borrowing": f"priority {field('priority')}, {'' if field('reclaimable') else 'not '}reclaimable, "
        f"{field('dequeue_strategy')}",
        "source": "as in the files" if total.source == "file" else "changed live",
        "workers": ", ".join(f"{worker} {state}" for worker, state in queue.states.items()),
        "gates": _listed(list(map(_describe_gate, holding))),
        "waiting": _listed(list(map(_describe_flow, flows))),
    }


def _listed(items: Sequence[str]) -> str:
    return "; ".join((*items[:_MOST_LISTED], *("…" for _ in items[_MOST_LISTED:][:1])))


def _describe_gate(gate: HoldingGate) -> str:
    key = "" if gate.key is None else f"[{printable(gate.key, most=40)}]"
    return f"{printable(gate.gate, most=40)}{key} {gate.parked}, oldest {gate.oldest:.1f} s"


def _describe_flow(flow: WaitingFlow) -> str:
    name = printable(flow.flow, most=60) or "(all requests)"
    return f"{name} {flow.waiting}, oldest {flow.oldest:.1f} s"
