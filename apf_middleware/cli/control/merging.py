"""The answers of several workers, merged: sums, and where the workers don't agree, which one is the odd one.

Each worker has seats and counters of its own, so what a server has is their sum. What the workers should have in common
(the state, the weight) is shown if they have it in common; otherwise it is ``Mixed``, and ``Unknown`` while one doesn't
answer. A closing queue is closed in one worker before it is in another: that is no disagreement.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apf_middleware.cli.control.workers import Reply

__all__ = [
    "MIXED",
    "UNKNOWN",
    "MergedGate",
    "MergedQueue",
    "disagreements",
    "gate_disagreements",
    "merge_gates",
    "merge_queues",
]

MIXED: Final = "Mixed"
UNKNOWN: Final = "Unknown"

_MISSING: Final = "not there"
_NOT_FOUND: Final = 404
_SUMS: Final = (
    "min",
    "deserved",
    "used",
    "max",
    "capacity",
    "inqueue",
    "pending",
    "running",
    "completed",
    "failed",
    "aborted",
)
_COMMON: Final = (
    "parent",
    "weight",
    "priority",
    "reclaimable",
    "dequeue_strategy",
    "exempt",
    "closed_by_parent",
    "children",
)

_HELD: Final = "held"
_GATE_SUMS: Final = ("parked", "acquired", "limit", "events", "rescues")

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MergedQueue:
    """A queue in all workers: ``fields`` are sums or what the workers have in common, ``states`` each worker's own."""

    name: str
    fields: Record
    states: Mapping[str, str]

    @property
    def state(self) -> str:
        return str(self.fields["state"])

    @property
    def rejected(self) -> int:
        """Return the rejections for all reasons."""
        return sum(self.fields["rejected"].values())


def merge_queues(replies: Sequence[Reply]) -> list[MergedQueue]:
    """Return the queues of all workers that answered, in the order of the first that has them."""
    answered = [reply for reply in replies if reply.is_done or reply.status == _NOT_FOUND]
    records = {reply.worker: {one["name"]: one for one in _queues(reply)} for reply in answered}
    names = dict.fromkeys(name for own in records.values() for name in own)
    silent = [reply.worker for reply in replies if reply not in answered]
    return [_merge_queue(name, records, silent) for name in names]


def _queues(reply: Reply) -> Iterable[Record]:
    """Return the queues of a document, which has a list or one."""
    document = reply.document
    return document.get("queues") or ([document["queue"]] if "queue" in document else [])


def _merge_queue(name: str, records: Mapping[str, Mapping[str, Record]], silent: Sequence[str]) -> MergedQueue:
    found = {worker: own[name] for worker, own in records.items() if name in own}
    states = {worker: str(own[name]["state"]) if name in own else _MISSING for worker, own in records.items()}
    all_of_them = list(found.values())
    fields: dict[str, Any] = {"name": name, "state": _state(list(states.values()), is_one_silent=bool(silent))}
    fields |= {field: _common([one.get(field) for one in all_of_them]) for field in _COMMON}
    fields |= {field: _total(one.get(field, 0) for one in all_of_them) for field in _SUMS}
    rejected: Counter[str] = Counter()
    for one in all_of_them:
        rejected.update(one.get("rejected", {}))
    deserved, used = fields["deserved"], fields["used"]
    fields["rejected"] = dict(sorted(rejected.items()))
    fields["share"] = round(used / deserved, 4) if deserved else float(used > 0)
    fields["source"] = "live" if any(one.get("source") == "live" for one in all_of_them) else "file"
    return MergedQueue(name, fields, states | dict.fromkeys(silent, UNKNOWN))


def _total(numbers: Iterable[float]) -> float:
    total = sum(numbers)
    return total if isinstance(total, int) else round(total, 2)


def _common(values: Sequence[object]) -> object:
    return values[0] if all(value == values[0] for value in values) else MIXED


def _state(states: Sequence[str], *, is_one_silent: bool) -> str:
    wanted = set(map(_wanted, states))
    if len(wanted) > 1:
        return MIXED
    if is_one_silent:
        return UNKNOWN
    return "Closing" if "Closing" in states else states[0]


def _wanted(state: str) -> str:
    """Return the state that a queue was asked for."""
    return "Closed" if state == "Closing" else state


def disagreements(queues: Sequence[MergedQueue]) -> list[str]:
    """Describe which workers differ from most."""
    found = []
    for queue in queues:
        known = {worker: state for worker, state in queue.states.items() if state != UNKNOWN}
        wanted = Counter(map(_wanted, known.values()))
        if len(wanted) < 2:
            continue
        usual, most = wanted.most_common(1)[0]
        if 2 * most <= len(known):  # there is no majority
            usual = ""
        odd = ", ".join(f"worker {worker} has it {state}" for worker, state in known.items() if _wanted(state) != usual)
        found.append(f"{queue.name}: {odd}{f'; {most} others {usual}' if usual else ''}")
    return found


# Gates


@dataclass(frozen=True, slots=True)
class MergedGate:
    """A gate, or a key of it where requests wait, in all workers that have it."""

    gate: str
    key: str | None
    fields: Mapping[str, Any]
    states: Mapping[str, str]

    def as_dict(self) -> dict[str, object]:
        return {"gate": self.gate, "key": self.key, **self.fields, "states": dict(self.states)}


def merge_gates(replies: Sequence[Reply]) -> list[MergedGate]:
    """Return the gates of all workers that answered, by name."""
    found: dict[tuple[str, str | None], dict[str, Mapping[str, Any]]] = {}
    for reply in replies:
        for record in reply.document.get("gates", ()) if reply.is_done else ():
            found.setdefault((record["gate"], record["key"]), {})[reply.worker] = record
    keyed = {gate for gate, key in found if key is not None}
    return [
        _merge_gate(gate, key, records)
        for (gate, key), records in sorted(found.items(), key=lambda item: (item[0][0], item[0][1] or ""))
        # A worker where no request waits lists a gate without its keys: that is no row beside the keys of others.
        if key is not None or gate not in keyed or any(record["parked"] for record in records.values())
    ]


def _merge_gate(gate: str, key: str | None, records: Mapping[str, Mapping[str, Any]]) -> MergedGate:
    states = {worker: str(record["state"]) for worker, record in records.items()}
    oldest = [record["oldest"] for record in records.values() if record["oldest"] is not None]
    fields: dict[str, Any] = {"state": _gate_state(list(states.values())), "oldest": max(oldest, default=None)}
    for name in _GATE_SUMS:
        numbers = [record[name] for record in records.values() if record[name] is not None]
        fields[name] = sum(numbers) if numbers else None
    return MergedGate(gate, key, fields, states)


def _gate_state(states: Sequence[str]) -> str:
    """Return the state of a gate: workers may differ in whether it blocks, but not in whether an operator holds it."""
    if len({state == _HELD for state in states}) > 1:
        return MIXED
    return "blocking" if "blocking" in states else states[0]


def gate_disagreements(gates: Sequence[MergedGate]) -> list[str]:
    """Describe gates that are held in some workers and not in others."""
    return [
        f"{one.gate}: {', '.join(f'worker {worker} has it {state}' for worker, state in one.states.items())}"
        for one in gates
        if one.fields["state"] == MIXED
    ]
