"""What is counted of a gate, as plain integers, where it happens."""

from bisect import bisect_left
from collections.abc import Hashable
from typing import Final

__all__ = ["WAIT_BOUNDS_NS", "GateTally"]

_MS: Final = 10**6
WAIT_BOUNDS_NS: Final = tuple(
    ms * _MS for ms in (0, 5, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000)
)
"""Buckets for how long requests waited for a gate, those of all durations."""


class GateTally:
    """A gate's counters. ``evaluations`` are by result: passed, parked, rejected, error.

    ``last`` is the key and the result of the last one; None if something has happened since.
    """

    __slots__ = ("evaluations", "events", "hint_errors", "last", "rejected", "rescues", "wait_counts", "wait_total")

    def __init__(self) -> None:
        self.evaluations: dict[str, int] = {"passed": 0, "parked": 0, "rejected": 0, "error": 0}
        self.last: tuple[Hashable, str] | None = None
        self.events: int = 0
        self.rescues: int = 0
        self.rejected: int = 0
        self.hint_errors: int = 0
        self.wait_counts: list[int] = [0] * (len(WAIT_BOUNDS_NS) + 1)
        self.wait_total: int = 0

    def note(self, key: Hashable, result: str) -> None:
        """The gate was asked about ``key``."""
        self.evaluations[result] += 1
        self.last = key, result

    def has_stopped(self, key: Hashable) -> bool:
        """Whether the last request that the gate was asked about, of this ``key``, had to wait or was rejected."""
        return self.last is not None and self.last[0] == key and self.last[1] != "passed"

    def observe_wait(self, waited_ns: int) -> None:
        """A request that it had kept waiting goes on, or away."""
        self.wait_counts[bisect_left(WAIT_BOUNDS_NS, waited_ns)] += 1
        self.wait_total += waited_ns

    @property
    def evaluated(self) -> int:
        return sum(self.evaluations.values())

    def __repr__(self) -> str:
        return f"<GateTally: {self.evaluations}, {self.events} events, {self.rescues} rescues>"
