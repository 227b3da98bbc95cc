"""What is counted of a gate, as plain integers, where it happens."""

from collections.abc import Hashable

from apf_middleware.counters import DURATION_BOUNDS_NS, Histogram

__all__ = ["GateTally"]


class GateTally:
    """A gate's counters. ``evaluations`` are by result: passed, parked, rejected, error.

    ``last`` is the key and the result of the last one; None if something has happened since.
    """

    __slots__ = ("evaluations", "events", "hint_errors", "last", "rejected", "rescues", "waits")

    def __init__(self) -> None:
        self.evaluations: dict[str, int] = {"passed": 0, "parked": 0, "rejected": 0, "error": 0}
        self.last: tuple[Hashable, str] | None = None
        self.events: int = 0
        self.rescues: int = 0
        self.rejected: int = 0
        self.hint_errors: int = 0
        self.waits: Histogram = Histogram(DURATION_BOUNDS_NS)

    def note(self, key: Hashable, result: str) -> None:
        """The gate was asked about ``key``."""
        self.evaluations[result] += 1
        self.last = key, result

    def has_stopped(self, key: Hashable) -> bool:
        """Whether the last request that the gate was asked about, of this ``key``, had to wait or was rejected."""
        return self.last is not None and self.last[0] == key and self.last[1] != "passed"

    @property
    def evaluated(self) -> int:
        return sum(self.evaluations.values())

    def __repr__(self) -> str:
        return f"<GateTally: {self.evaluations}, {self.events} events, {self.rescues} rescues>"
