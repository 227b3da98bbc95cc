"""What operators see of queues and gates: tables, one queue in detail, or documents for programs and files.

A table has as many columns as the terminal is wide, and all of them where there is no terminal.
"""

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import typer

from apf_middleware.classification.text import printable
from apf_middleware.cli.control.merging import MergedGate, MergedQueue
from apf_middleware.cli.control.workers import Reply
from apf_middleware.config.emit import written

__all__ = [
    "Form",
    "gate_table",
    "queue_table",
    "show_json",
    "show_queue",
    "show_queues",
    "terminal_width",
    "written_number",
]

_Cell = Callable[[MergedQueue], str]


def _field(name: str) -> _Cell:
    return lambda queue: written_number(queue.fields[name])


def written_number(value: object) -> str:
    """Return a number with at most two digits, or yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)


_COLUMNS: Final[dict[str, _Cell]] = {
    "NAME": lambda queue: printable(queue.name, most=60),
    "PARENT": lambda queue: printable(queue.fields["parent"] or "root", most=60),
    "STATE": _field("state"),
    "WEIGHT": _field("weight"),
    "MIN": _field("min"),
    "DESERVED": _field("deserved"),
    "USED": _field("used"),
    "MAX": _field("max"),
    "INQUEUE": _field("inqueue"),
    "PENDING": _field("pending"),
    "RUNNING": _field("running"),
    "COMPLETED": _field("completed"),
    "FAILED": _field("failed"),
    "ABORTED": _field("aborted"),
    "REJECTED": lambda queue: str(queue.rejected),
    "SHARE": lambda queue: f"{queue.fields['share']:.2f}",
}
_WIDE: Final[dict[str, _Cell]] = {
    "CAPACITY": _field("capacity"),
    "PRIORITY": _field("priority"),
    "RECLAIMABLE": _field("reclaimable"),
    "STRATEGY": _field("dequeue_strategy"),
    "SOURCE": _field("source"),
    "WORKERS": lambda queue: str(len(queue.states)),
}
_TEXTS: Final = frozenset({"NAME", "PARENT", "STATE", "STRATEGY", "SOURCE", "RECLAIMABLE"})
_DISPENSABLE: Final = ("ABORTED", "PENDING", "PARENT", "FAILED", "COMPLETED", "RUNNING", "WEIGHT", "SHARE", "MIN")
"""Columns that a narrow terminal leaves out, in this order."""

_GAP: Final = 2
_SHORTEST_NAME: Final = 8


def terminal_width() -> int | None:
    """Return the width of the terminal; None where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def queue_table(queues: Sequence[MergedQueue], *, width: int | None = None, wide: bool = False) -> list[str]:
    """Return the lines, no wider than ``width`` if possible: columns that matter least go, and names become shorter."""
    columns = {**_COLUMNS, **(_WIDE if wide else {})}
    cells = {name: [name, *map(cell, queues)] for name, cell in columns.items()}
    widths = {name: max(map(len, column)) for name, column in cells.items()}
    if width is not None and not wide:
        _narrow(widths, width)
    return [
        (" " * _GAP).join(_aligned(name, cells[name][row], size) for name, size in widths.items()).rstrip()
        for row in range(len(queues) + 1)
    ]


def _narrow(widths: dict[str, int], most: int) -> None:
    """Remove columns until the others fit."""
    for name in _DISPENSABLE:
        if _total(widths) <= most:
            return
        del widths[name]
    widths["NAME"] = max(_SHORTEST_NAME, widths["NAME"] - max(0, _total(widths) - most))


def _total(widths: dict[str, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _aligned(name: str, cell: str, size: int) -> str:
    if len(cell) > size:
        return f"{cell[: size - 1]}…"
    return cell.ljust(size) if name in _TEXTS else cell.rjust(size)


# Gates

_GATE_HEAD: Final = ("GATE", "KEY", "STATE", "PARKED", "OLDEST", "ACQUIRED/LIMIT", "EVENTS", "RESCUES")
_GATE_TEXTS: Final = 3


def gate_table(gates: Sequence[MergedGate]) -> list[str]:
    """Return the lines."""
    rows = [_GATE_HEAD, *map(_gate_cells, gates)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < _GATE_TEXTS else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _gate_cells(one: MergedGate) -> tuple[str, ...]:
    fields = one.fields
    acquired = "-" if fields["acquired"] is None else str(fields["acquired"])
    return (
        printable(one.gate, most=40),
        "-" if one.key is None else printable(one.key, most=40),
        fields["state"],
        str(fields["parked"]),
        "-" if fields["oldest"] is None else f"{fields['oldest']:.1f}s",
        acquired if fields["limit"] is None else f"{acquired}/{fields['limit']}",
        str(fields["events"]),
        str(fields["rescues"]),
    )


# Forms

_MOST_FLOWS: Final = 5
Record = Mapping[str, Any]


class Form(StrEnum):
    """The form of results."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def show_json(document: object) -> None:
    """Write JSON, for programs."""
    typer.echo(json.dumps(document, indent=2))


def _show_yaml(documents: Sequence[Mapping[str, Any]]) -> None:
    """Write YAML, for files."""
    typer.echo(written(documents), nl=False)


def _first_documents(replies: Sequence[Reply]) -> list[dict[str, Any]]:
    """Return the documents of the first worker that has any; disagreements are noted elsewhere."""
    return next((list(reply.document["documents"]) for reply in replies if reply.document.get("documents")), [])


def show_queues(queues: Sequence[MergedQueue], replies: Sequence[Reply], form: Form) -> None:
    """Show several queues."""
    if form is Form.JSON:
        show_json({"queues": [_as_dict(queue) for queue in queues], "workers": _workers(replies)})
    elif form is Form.YAML:
        _show_yaml(_first_documents(replies))
    else:
        wide = form is Form.WIDE
        for line in queue_table(queues, width=None if wide else terminal_width(), wide=wide):
            typer.echo(line)


def show_queue(queue: MergedQueue, replies: Sequence[Reply], waiting: Sequence[Reply], form: Form) -> None:
    """Show one queue and the requests that wait in it."""
    flows, holding = _flows(waiting), _holding(waiting)
    if form is Form.JSON:
        oldest = max((flow["oldest"] for flow in flows), default=0.0)
        more = {"workers": _workers(replies), "oldest": oldest, "flows": flows, "gates": holding}
        show_json({"queue": _as_dict(queue), **more})
    elif form is Form.YAML:
        _show_yaml(_first_documents(replies))
    else:
        for line in _lines(queue, flows, holding):
            typer.echo(line)


def _as_dict(queue: MergedQueue) -> dict[str, object]:
    return {**queue.fields, "states": dict(queue.states)}


def _workers(replies: Sequence[Reply]) -> list[dict[str, object]]:
    return [
        {"worker": reply.worker, "answered": reply.is_done, "trouble": "" if reply.is_done else reply.trouble}
        for reply in replies
    ]


def _flows(waiting: Sequence[Reply]) -> list[dict[str, Any]]:
    """Return the waiting flows of all workers, those with the most requests first."""
    found: dict[str, dict[str, Any]] = {}
    for reply in waiting:
        for flow in reply.document.get("flows", ()) if reply.is_done else ():
            one = found.setdefault(flow["flow"], {"flow": flow["flow"], "waiting": 0, "seats": 0, "oldest": 0.0})
            one["waiting"] += flow["waiting"]
            one["seats"] += flow["seats"]
            one["oldest"] = max(one["oldest"], flow["oldest"])
    return sorted(found.values(), key=lambda one: (-one["waiting"], one["flow"]))


def _holding(waiting: Sequence[Reply]) -> list[dict[str, Any]]:
    """Return the gates that hold requests in any worker, those with the most first."""
    found: dict[tuple[str, str | None], dict[str, Any]] = {}
    for reply in waiting:
        for gate in reply.document.get("gates", ()) if reply.is_done else ():
            key = gate["gate"], gate["key"]
            one = found.setdefault(key, {"gate": key[0], "key": key[1], "parked": 0, "oldest": 0.0})
            one["parked"] += gate["parked"]
            one["oldest"] = max(one["oldest"], gate["oldest"])
    return sorted(found.values(), key=lambda one: (-one["parked"], one["gate"]))


def _held_gate(gate: Mapping[str, Any]) -> str:
    key = "" if gate["key"] is None else f"[{printable(gate['key'], most=40)}]"
    return f"{printable(gate['gate'], most=40)}{key} {gate['parked']}, oldest {gate['oldest']:.1f} s"


def _lines(
    queue: MergedQueue, flows: Sequence[Mapping[str, Any]], holding: Sequence[Mapping[str, Any]] = ()
) -> list[str]:
    fields = queue.fields
    rejected = ", ".join(f"{reason} {number}" for reason, number in fields["rejected"].items())
    facts = {
        "name": queue.name,
        "state": queue.state + (" by its parent" if fields["closed_by_parent"] is True else ""),
        "parent": fields["parent"] or "root",
        "children": ", ".join(fields["children"]) if isinstance(fields["children"], list) else fields["children"],
        "weight": fields["weight"],
        "seats": f"{_field_number(fields, 'used')} used, {_field_number(fields, 'deserved')} deserved, "
        f"min {_field_number(fields, 'min')}, max {_field_number(fields, 'max')}",
        "share": f"{fields['share']:.2f}",
        "requests": f"{fields['inqueue']} in queue, {fields['pending']} pending, {fields['running']} running",
        "ended": f"{fields['completed']} completed, {fields['failed']} failed, {fields['aborted']} aborted",
        "rejected": f"{queue.rejected}{f': {rejected}' if rejected else ''}",
        "borrowing": f"priority {fields['priority']}, {'' if fields['reclaimable'] else 'not '}reclaimable, "
        f"{fields['dequeue_strategy']}",
        "source": "as in the files" if fields["source"] == "file" else "changed live",
        "workers": ", ".join(f"{worker} {state}" for worker, state in queue.states.items()),
        "gates": "; ".join(map(_held_gate, holding[:_MOST_FLOWS])) + ("; …" if holding[_MOST_FLOWS:] else ""),
        "waiting": "; ".join(_flow(flow) for flow in flows[:_MOST_FLOWS]) + ("; …" if flows[_MOST_FLOWS:] else ""),
    }
    return [f"{name + ':':11}{value}" for name, value in facts.items() if value != ""]


def _field_number(fields: Mapping[str, Any], name: str) -> str:
    return written_number(fields[name])


def _flow(flow: Mapping[str, Any]) -> str:
    name = printable(flow["flow"], most=60) or "(all alike)"
    return f"{name} {flow['waiting']}, oldest {flow['oldest']:.1f} s"
