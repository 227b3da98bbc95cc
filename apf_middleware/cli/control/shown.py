"""What operators are shown of queues: a table, one queue in detail, or documents for programs and for files."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import typer

from apf_middleware.classification.text import printable
from apf_middleware.cli.control.table import queue_table, terminal_width, written_number
from apf_middleware.cli.control.together import Together
from apf_middleware.cli.control.workers import Reply
from apf_middleware.config.emit import written

__all__ = ["Form", "first_documents", "show_json", "show_one", "show_queues", "show_yaml"]

_MOST_FLOWS: Final = 5


class Form(StrEnum):
    """How results are written."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def show_json(document: object) -> None:
    """For programs."""
    typer.echo(json.dumps(document, indent=2))


def show_yaml(documents: Sequence[Mapping[str, Any]]) -> None:
    """To be written to a file."""
    typer.echo(written(documents), nl=False)


def first_documents(replies: Sequence[Reply]) -> list[dict[str, Any]]:
    """The documents of the first worker that has any; whether all have the same is told by what they disagree in."""
    return next((list(reply.document["documents"]) for reply in replies if reply.document.get("documents")), [])


def show_queues(queues: Sequence[Together], replies: Sequence[Reply], form: Form) -> None:
    """All of these."""
    if form is Form.JSON:
        show_json({"queues": [_as_dict(queue) for queue in queues], "workers": _workers(replies)})
    elif form is Form.YAML:
        show_yaml(first_documents(replies))
    else:
        wide = form is Form.WIDE
        for line in queue_table(queues, width=None if wide else terminal_width(), wide=wide):
            typer.echo(line)


def show_one(queue: Together, replies: Sequence[Reply], waiting: Sequence[Reply], form: Form) -> None:
    """One queue, with who waits in it."""
    flows, holding = _flows(waiting), _holding(waiting)
    if form is Form.JSON:
        oldest = max((flow["oldest"] for flow in flows), default=0.0)
        more = {"workers": _workers(replies), "oldest": oldest, "flows": flows, "gates": holding}
        show_json({"queue": _as_dict(queue), **more})
    elif form is Form.YAML:
        show_yaml(first_documents(replies))
    else:
        for line in _lines(queue, flows, holding):
            typer.echo(line)


def _as_dict(queue: Together) -> dict[str, object]:
    return {**queue.fields, "states": dict(queue.states)}


def _workers(replies: Sequence[Reply]) -> list[dict[str, object]]:
    return [
        {"worker": reply.worker, "answered": reply.is_done, "trouble": "" if reply.is_done else reply.trouble}
        for reply in replies
    ]


def _flows(waiting: Sequence[Reply]) -> list[dict[str, Any]]:
    """Who waits in any worker, the most first."""
    found: dict[str, dict[str, Any]] = {}
    for reply in waiting:
        for flow in reply.document.get("flows", ()) if reply.is_done else ():
            one = found.setdefault(flow["flow"], {"flow": flow["flow"], "waiting": 0, "seats": 0, "oldest": 0.0})
            one["waiting"] += flow["waiting"]
            one["seats"] += flow["seats"]
            one["oldest"] = max(one["oldest"], flow["oldest"])
    return sorted(found.values(), key=lambda one: (-one["waiting"], one["flow"]))


def _holding(waiting: Sequence[Reply]) -> list[dict[str, Any]]:
    """Which gates keep requests waiting in any worker, the most first."""
    found: dict[tuple[str, str | None], dict[str, Any]] = {}
    for reply in waiting:
        for gate in reply.document.get("gates", ()) if reply.is_done else ():
            key = gate["gate"], gate["key"]
            one = found.setdefault(key, {"gate": key[0], "key": key[1], "parked": 0, "oldest": 0.0})
            one["parked"] += gate["parked"]
            one["oldest"] = max(one["oldest"], gate["oldest"])
    return sorted(found.values(), key=lambda one: (-one["parked"], one["gate"]))


def _gate(gate: Mapping[str, Any]) -> str:
    key = "" if gate["key"] is None else f"[{printable(gate['key'], most=40)}]"
    return f"{printable(gate['gate'], most=40)}{key} {gate['parked']}, oldest {gate['oldest']:.1f} s"


def _lines(queue: Together, flows: Sequence[Mapping[str, Any]], holding: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    fields = queue.fields
    rejected = ", ".join(f"{reason} {number}" for reason, number in fields["rejected"].items())
    told = {
        "name": queue.name,
        "state": queue.state + (" by its parent" if fields["closed_by_parent"] is True else ""),
        "parent": fields["parent"] or "root",
        "children": ", ".join(fields["children"]) if isinstance(fields["children"], list) else fields["children"],
        "weight": fields["weight"],
        "seats": f"{_number(fields, 'used')} used, {_number(fields, 'deserved')} deserved, "
        f"min {_number(fields, 'min')}, max {_number(fields, 'max')}",
        "share": f"{fields['share']:.2f}",
        "requests": f"{fields['inqueue']} in queue, {fields['pending']} pending, {fields['running']} running",
        "ended": f"{fields['completed']} completed, {fields['failed']} failed, {fields['aborted']} aborted",
        "rejected": f"{queue.rejected}{f': {rejected}' if rejected else ''}",
        "borrowing": f"priority {fields['priority']}, {'' if fields['reclaimable'] else 'not '}reclaimable, "
        f"{fields['dequeue_strategy']}",
        "source": "as in the files" if fields["source"] == "file" else "changed live",
        "workers": ", ".join(f"{worker} {state}" for worker, state in queue.states.items()),
        "gates": "; ".join(map(_gate, holding[:_MOST_FLOWS])) + ("; …" if holding[_MOST_FLOWS:] else ""),
        "waiting": "; ".join(_flow(flow) for flow in flows[:_MOST_FLOWS]) + ("; …" if flows[_MOST_FLOWS:] else ""),
    }
    return [f"{name + ':':11}{value}" for name, value in told.items() if value != ""]


def _number(fields: Mapping[str, Any], name: str) -> str:
    return written_number(fields[name])


def _flow(flow: Mapping[str, Any]) -> str:
    name = printable(flow["flow"], most=60) or "(all alike)"
    return f"{name} {flow['waiting']}, oldest {flow['oldest']:.1f} s"
