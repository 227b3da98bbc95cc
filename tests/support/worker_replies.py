"""Workers' replies as tests need them."""

from dataclasses import dataclass, field, replace
from typing import Any

from apf_middleware.asgi.admin.documents import GateList, NamedQueueList, Worker
from apf_middleware.cli.control.workers import Reply
from apf_middleware.snapshots import GateSnapshot, NamedQueueSnapshot

__all__ = ["TWO_WORKERS", "WORKER", "Workers", "gate", "has_gates", "queue", "refuses", "says", "silent"]

WORKER = Worker(1, "shop", "1.0")
_QUEUE: dict[str, Any] = {
    "parent": None,
    "state": "Open",
    "weight": 1,
    "min": 0,
    "deserved": 2.5,
    "used": 1,
    "max": 10,
    "capacity": 8,
    "inqueue": 3,
    "pending": 0,
    "running": 1,
    "completed": 100,
    "failed": 1,
    "aborted": 2,
    "rejected": {"time-out": 4},
    "share": 0.4,
    "source": "file",
    "generation": 1,
    "priority": 0,
    "reclaimable": True,
    "dequeue_strategy": "traverse",
    "exempt": False,
    "closed_by_parent": False,
    "children": (),
}


def queue(name: str, **more: object) -> NamedQueueSnapshot:
    """Return a queue's snapshot in one worker."""
    return NamedQueueSnapshot(name, **_QUEUE | more)


def says(worker: str, *queues: NamedQueueSnapshot) -> Reply[NamedQueueList]:
    return Reply(worker, 200, NamedQueueList(WORKER, queues))


def silent(worker: str, why: str = "connection refused") -> Reply[Any]:
    return Reply(worker, silence=why)


def refuses(worker: str, status: int, detail: str) -> Reply[Any]:
    return Reply(worker, status, detail=detail)


def gate(name: str, key: str | None = None, **more: Any) -> GateSnapshot:  # noqa: ANN401 - fields of several types
    gate = GateSnapshot(name, key, "capacity", "passing", 0, None, acquired=1, limit=5, events=10, rescues=0)
    return replace(gate, **more)


def has_gates(worker: str, *gates: GateSnapshot, kicked: int = 0) -> Reply[GateList]:
    return Reply(worker, 200, GateList(WORKER, gates, kicked))


TWO_WORKERS = [
    has_gates(
        "1", gate("db", "shard-3", state="blocking", parked=15, oldest=2.14), gate("quota", acquired=None, limit=None)
    ),
    has_gates(
        "2", gate("db", "shard-3", parked=2, oldest=0.5), gate("db", "shard-4", parked=1, oldest=1.0), gate("quota")
    ),
]


@dataclass
class Workers:
    """Workers that answer as they are told to, and record what they are asked."""

    replies: list[Reply[Any]] = field(default_factory=list)
    asked: list[tuple[object, ...]] = field(default_factory=list)
