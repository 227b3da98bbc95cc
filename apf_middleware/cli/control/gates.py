"""What several workers say of their gates, as one table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apf_middleware.classification.text import printable
from apf_middleware.cli.control.together import MIXED
from apf_middleware.cli.control.workers import Reply

__all__ = ["GateTogether", "combine_gates", "gate_disagreements", "gate_table"]

_HELD: Final = "held"
_HEAD: Final = ("GATE", "KEY", "STATE", "PARKED", "OLDEST", "ACQUIRED/LIMIT", "EVENTS", "RESCUES")
_TEXTS: Final = 3
_SUMS: Final = ("parked", "acquired", "limit", "events", "rescues")


@dataclass(frozen=True, slots=True)
class GateTogether:
    """One gate, or one key of it where somebody waits, in all workers that have it."""

    gate: str
    key: str | None
    fields: Mapping[str, Any]
    states: Mapping[str, str]

    def as_dict(self) -> dict[str, object]:
        return {"gate": self.gate, "key": self.key, **self.fields, "states": dict(self.states)}


def combine_gates(replies: Sequence[Reply]) -> list[GateTogether]:
    """The gates of all workers that answered, in the order of the first that has them."""
    found: dict[tuple[str, str | None], dict[str, Mapping[str, Any]]] = {}
    for reply in replies:
        for record in reply.document.get("gates", ()) if reply.is_done else ():
            found.setdefault((record["gate"], record["key"]), {})[reply.worker] = record
    keyed = {gate for gate, key in found if key is not None}
    return [
        _combine_one(gate, key, records)
        for (gate, key), records in sorted(found.items(), key=lambda item: (item[0][0], item[0][1] or ""))
        # A worker where nobody waits tells a gate without its keys, which is no row beside theirs.
        if key is not None or gate not in keyed or any(record["parked"] for record in records.values())
    ]


def _combine_one(gate: str, key: str | None, records: Mapping[str, Mapping[str, Any]]) -> GateTogether:
    states = {worker: str(record["state"]) for worker, record in records.items()}
    oldest = [record["oldest"] for record in records.values() if record["oldest"] is not None]
    fields: dict[str, Any] = {"state": _state(list(states.values())), "oldest": max(oldest, default=None)}
    for name in _SUMS:
        numbers = [record[name] for record in records.values() if record[name] is not None]
        fields[name] = sum(numbers) if numbers else None
    return GateTogether(gate, key, fields, states)


def _state(states: Sequence[str]) -> str:
    """Whether a gate blocks for the moment is each worker's own; whether an operator holds it is the same in all."""
    if len({state == _HELD for state in states}) > 1:
        return MIXED
    return "blocking" if "blocking" in states else states[0]


def gate_disagreements(gates: Sequence[GateTogether]) -> list[str]:
    """Where some workers hold a gate and others don't."""
    return [
        f"{one.gate}: {', '.join(f'worker {worker} has it {state}' for worker, state in one.states.items())}"
        for one in gates
        if one.fields["state"] == MIXED
    ]


def gate_table(gates: Sequence[GateTogether]) -> list[str]:
    """The lines."""
    rows = [_HEAD, *map(_cells, gates)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < _TEXTS else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _cells(one: GateTogether) -> tuple[str, ...]:
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
