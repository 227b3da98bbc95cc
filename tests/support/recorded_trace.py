"""A trace of a queue set, with its results."""

from pathlib import Path

from apf_middleware.testing import replay
from apf_middleware.testing.trace import parse, store

__all__ = ["write_recorded_trace"]


def write_recorded_trace(path: Path) -> Path:
    """Replay twenty requests of one flow, write them with their results to this file, and return its path."""
    settings = {"concurrency": 1, "queues": 4, "handSize": 2, "queueLengthLimit": 5, "estimatedServiceDuration_ns": 0}
    arrivals = [
        {"t_ns": n, "op": "arrive", "id": n, "flow": "a", "flow_hash": 3, "seats": 1, "duration_ns": 10}
        for n in range(20)
    ]
    trace = parse({"format": "apf-queueset-trace/1", "name": "t", "config": settings, "events": arrivals})
    store(path, replay(trace).document())
    return path
