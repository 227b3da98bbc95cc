"""What several workers say of their queues, as one: sums, and where they don't agree, who is the odd one.

Each worker has seats and counters of its own, so what a server has is their sum. What they should have in common (the
state, the weight) is shown if they have it; otherwise it is ``Mixed``, and ``Unknown`` while one doesn't answer. A
queue that closes is done in one worker before it is in another: that is no disagreement.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apf_middleware.cli.control.workers import Reply

__all__ = ["MIXED", "UNKNOWN", "Together", "combine", "disagreements"]

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

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Together:
    """One queue in all workers: ``fields`` are sums or what they have in common, ``states`` each worker's own."""

    name: str
    fields: Record
    states: Mapping[str, str]

    @property
    def state(self) -> str:
        return str(self.fields["state"])

    @property
    def rejected(self) -> int:
        """All rejections, whatever the reason."""
        return sum(self.fields["rejected"].values())


def combine(replies: Sequence[Reply]) -> list[Together]:
    """The queues of all workers that answered, in the order of the first that has them."""
    answered = [reply for reply in replies if reply.is_done or reply.status == _NOT_FOUND]
    records = {reply.worker: {one["name"]: one for one in _queues(reply)} for reply in answered}
    names = dict.fromkeys(name for own in records.values() for name in own)
    silent = [reply.worker for reply in replies if reply not in answered]
    return [_combine_one(name, records, silent) for name in names]


def _queues(reply: Reply) -> Iterable[Record]:
    """A list of queues, or one."""
    document = reply.document
    return document.get("queues") or ([document["queue"]] if "queue" in document else [])


def _combine_one(name: str, records: Mapping[str, Mapping[str, Record]], silent: Sequence[str]) -> Together:
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
    return Together(name, fields, states | dict.fromkeys(silent, UNKNOWN))


def _total(numbers: Iterable[float]) -> float:
    total = sum(numbers)
    return total if isinstance(total, int) else round(total, 2)


def _common(values: Sequence[object]) -> object:
    return values[0] if all(value == values[0] for value in values) else MIXED


def _state(states: Sequence[str], *, is_one_silent: bool) -> str:
    wishes = set(map(_wish, states))
    if len(wishes) > 1:
        return MIXED
    if is_one_silent:
        return UNKNOWN
    return "Closing" if "Closing" in states else states[0]


def _wish(state: str) -> str:
    """What was wanted of a queue in this state."""
    return "Closed" if state == "Closing" else state


def disagreements(queues: Sequence[Together]) -> list[str]:
    """Who is otherwise than most, in words."""
    told = []
    for queue in queues:
        known = {worker: state for worker, state in queue.states.items() if state != UNKNOWN}
        wishes = Counter(map(_wish, known.values()))
        if len(wishes) < 2:
            continue
        usual, most = wishes.most_common(1)[0]
        if 2 * most <= len(known):  # nobody is the odd one
            usual = ""
        odd = ", ".join(f"worker {worker} has it {state}" for worker, state in known.items() if _wish(state) != usual)
        told.append(f"{queue.name}: {odd}{f'; {most} others {usual}' if usual else ''}")
    return told
