"""The merged answers of several workers: sums, and the workers that differ from others.

Each worker has seats and counters of its own, so a server has their sum; the members of a fleet have their limits in
common, so these count once. A value that the workers should have in common (the state, the weight) is shown if it is
the same in all; otherwise it is ``Mixed``. If a worker doesn't answer and the others agree, the state is ``Unknown``.
Closing and Closed count as the same, because a closing queue is closed in one worker before it is in another.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from apf_middleware.asgi.admin.documents import (
    GateList,
    HoldingGate,
    NamedQueueDocument,
    NamedQueueList,
    WaitingDocument,
    WaitingFlow,
)
from apf_middleware.cli.control.workers import Reply
from apf_middleware.snapshots import GateSnapshot, NamedQueueSnapshot

__all__ = [
    "MIXED",
    "UNKNOWN",
    "MergedGate",
    "MergedQueue",
    "QueueReply",
    "disagreements",
    "gate_disagreements",
    "grouped",
    "merge_flows",
    "merge_gates",
    "merge_holding",
    "merge_queues",
]

MIXED: Final = "Mixed"
UNKNOWN: Final = "Unknown"

_MISSING: Final = "not there"
_NOT_FOUND: Final = 404
_COMMON: Final = (
    *("parent", "weight", "priority", "reclaimable", "dequeue_strategy", "exempt", "closed_by_parent", "children"),
)
_LIMITS: Final = ("min", "deserved", "max", "capacity")
_SUMS: Final = ("used", "inqueue", "pending", "running", "completed", "failed", "aborted")
_SHOWN: Final = ("name", "state", *_COMMON, *_LIMITS, *_SUMS, "rejected", "share", "source")
_GATE_SUMS: Final = ("parked", "acquired", "limit", "events", "rescues")
_GATE_SHOWN: Final = ("gate", "key", "state", "oldest", *_GATE_SUMS)
_HELD: Final = "held"

QueueReply = Reply[NamedQueueList] | Reply[NamedQueueDocument]
RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class MergedQueue:
    """A queue in all workers: ``total`` has the sums and the common values, ``states`` the state in each worker.

    In the ``mixed`` fields the workers differ, and ``total`` has the values of the first worker.
    """

    total: NamedQueueSnapshot
    states: Mapping[str, str]
    mixed: frozenset[str] = frozenset()

    def field(self, name: str) -> Any:  # noqa: ANN401 - fields have several types
        """Return the value of a field that is shown."""
        return MIXED if name in self.mixed else getattr(self.total, name)

    def as_dict(self) -> dict[str, object]:
        return {name: self.field(name) for name in _SHOWN} | {"states": dict(self.states)}


def merge_queues(replies: Sequence[QueueReply]) -> list[MergedQueue]:
    """Return the queues of all workers that answered, in the order of the first that has them."""
    answered = [reply for reply in replies if reply.is_done or reply.status == _NOT_FOUND]
    queues = {reply.worker: {one.name: one for one in _queues(reply)} for reply in answered}
    names = dict.fromkeys(name for own in queues.values() for name in own)
    silent = [reply.worker for reply in replies if reply not in answered]
    is_fleet = any(reply.document is not None and reply.document.shared for reply in answered)
    return [_merge_queue(name, queues, silent, is_fleet=is_fleet) for name in names]


def _queues(reply: QueueReply) -> tuple[NamedQueueSnapshot, ...]:
    match reply.document:
        case NamedQueueList(queues=queues):
            return queues
        case NamedQueueDocument(queue=queue):
            return (queue,)
    return ()


def _merge_queue(
    name: str, queues: Mapping[str, Mapping[str, NamedQueueSnapshot]], silent: Sequence[str], *, is_fleet: bool
) -> MergedQueue:
    states = {worker: own[name].state if name in own else _MISSING for worker, own in queues.items()}
    found = [own[name] for own in queues.values() if name in own]
    sums: dict[str, Any] = {field: _total(getattr(one, field) for one in found) for field in _SUMS}
    merge_limits = max if is_fleet else _total
    sums |= {field: merge_limits(getattr(one, field) for one in found) for field in _LIMITS}
    rejected = Counter[str]()
    for one in found:
        rejected.update(one.rejected)
    deserved, used = sums["deserved"], sums["used"]
    total = replace(
        found[0],
        state=_state(list(states.values()), is_one_silent=bool(silent)),
        rejected=dict(sorted(rejected.items())),
        share=round(used / deserved, 4) if deserved else float(used > 0),
        source="live" if any(one.source == "live" for one in found) else "file",
        **sums,
    )
    mixed = frozenset(field for field in _COMMON if any(getattr(one, field) != getattr(total, field) for one in found))
    return MergedQueue(total, states | dict.fromkeys(silent, UNKNOWN), mixed)


def _total(numbers: Iterable[float]) -> float:
    total = sum(numbers)
    return total if isinstance(total, int) else round(total, 2)


def _state(states: Sequence[str], *, is_one_silent: bool) -> str:
    wanted = set(map(_wanted, states))
    if len(wanted) > 1:
        return MIXED
    if is_one_silent:
        return UNKNOWN
    return "Closing" if "Closing" in states else states[0]


def _wanted(state: str) -> str:
    """Return the state that an operator asked for."""
    return "Closed" if state == "Closing" else state


def disagreements(queues: Sequence[MergedQueue]) -> list[str]:
    """Describe which workers differ from the majority, or how all differ if there is none."""
    found = []
    for queue in queues:
        known = {worker: state for worker, state in queue.states.items() if state != UNKNOWN}
        wanted = Counter(map(_wanted, known.values()))
        if len(wanted) < 2:
            continue
        usual, most = wanted.most_common(1)[0]
        if 2 * most <= len(known):  # there is no majority
            usual = ""
        odd = ", ".join(f"{state} in worker {worker}" for worker, state in known.items() if _wanted(state) != usual)
        found.append(f"{queue.total.name} is {odd}{f', but {usual} in {most} others' if usual else ''}")
    return found


# Requests that wait in a queue


def merge_flows(replies: Sequence[Reply[WaitingDocument]]) -> list[WaitingFlow]:
    """Return the waiting flows of all workers, those with the most requests first."""
    rows = (flow for reply in replies if reply.document for flow in reply.document.flows)
    merged = [
        WaitingFlow(
            flow, sum(one.waiting for one in own), sum(one.seats for one in own), max(one.oldest for one in own)
        )
        for flow, own in grouped(rows, lambda one: one.flow)
    ]
    return sorted(merged, key=lambda one: (-one.waiting, one.flow))


def merge_holding(replies: Sequence[Reply[WaitingDocument]]) -> list[HoldingGate]:
    """Return the gates that hold requests in any worker, those with the most first."""
    rows = (gate for reply in replies if reply.document for gate in reply.document.gates)
    merged = [
        HoldingGate(gate, key, sum(one.parked for one in own), max(one.oldest for one in own))
        for (gate, key), own in grouped(rows, lambda one: (one.gate, one.key))
    ]
    return sorted(merged, key=lambda one: (-one.parked, one.gate))


KeyT = TypeVar("KeyT", bound=Hashable)


def grouped(rows: Iterable[RowT], key: Callable[[RowT], KeyT]) -> Iterable[tuple[KeyT, list[RowT]]]:
    """Return the rows by their keys, in the order in which the keys occur first."""
    groups: dict[KeyT, list[RowT]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups.items()


# Gates


@dataclass(frozen=True, slots=True)
class MergedGate:
    """A gate, or one of its keys for which requests wait: ``total`` has the sums of all workers that list it."""

    total: GateSnapshot
    states: Mapping[str, str]

    def as_dict(self) -> dict[str, object]:
        return {name: getattr(self.total, name) for name in _GATE_SHOWN} | {"states": dict(self.states)}


def merge_gates(replies: Sequence[Reply[GateList]]) -> list[MergedGate]:
    """Return the gates of all workers that answered, by name."""
    rows = ((reply.worker, gate) for reply in replies if reply.document for gate in reply.document.gates)
    found = dict(grouped(rows, lambda row: (row[1].gate, row[1].key)))
    keyed = {gate for gate, key in found if key is not None}
    return [
        _merge_gate(dict(own))
        for (gate, key), own in sorted(found.items(), key=lambda item: (item[0][0], _sortable(item[0][1])))
        # A worker in which no request waits lists the gate without keys. Omit this row if other workers list keys.
        if key is not None or gate not in keyed or any(one.parked for _, one in own)
    ]


def _merge_gate(gates: Mapping[str, GateSnapshot]) -> MergedGate:
    states = {worker: one.state for worker, one in gates.items()}
    found = list(gates.values())
    oldest = max((one.oldest for one in found if one.oldest is not None), default=None)
    sums: dict[str, Any] = {}
    for name in _GATE_SUMS:
        numbers = [number for one in found if (number := getattr(one, name)) is not None]
        sums[name] = sum(numbers) if numbers else None
    return MergedGate(replace(found[0], state=_gate_state(list(states.values())), oldest=oldest, **sums), states)


def _sortable(key: Hashable) -> str:
    return "" if key is None else str(key)


def _gate_state(states: Sequence[str]) -> str:
    """Return the state of a gate: workers may differ in whether it blocks, but not in whether an operator holds it."""
    if len({state == _HELD for state in states}) > 1:
        return MIXED
    return "blocking" if "blocking" in states else states[0]


def gate_disagreements(gates: Sequence[MergedGate]) -> list[str]:
    """Describe gates that are held in some workers and not in others."""
    return [
        f"{one.total.gate} is {', '.join(f'{state} in worker {worker}' for worker, state in one.states.items())}"
        for one in gates
        if one.total.state == MIXED
    ]
