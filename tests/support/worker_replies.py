"""Workers' replies as tests need them."""

from collections.abc import Mapping

from apf_middleware.cli.control.workers import Reply

__all__ = ["queue", "refuses", "says", "silent"]


def queue(name: str, **more: object) -> dict[str, object]:
    """One queue's record as an admin tells it."""
    return {
        "name": name,
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
        "children": [],
        **more,
    }


def says(worker: str, *queues: Mapping[str, object]) -> Reply:
    return Reply(worker, 200, {"queues": list(queues)})


def silent(worker: str, why: str = "connection refused") -> Reply:
    return Reply(worker, silence=why)


def refuses(worker: str, status: int, detail: str) -> Reply:
    return Reply(worker, status, {"detail": detail})
