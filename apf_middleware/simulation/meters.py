"""What one tenant and one level got during a simulation, in bounded memory."""

from typing import TYPE_CHECKING

from apf_middleware.simulation.quantiles import QuantileSketch
from apf_middleware.simulation.results import TenantResult

if TYPE_CHECKING:
    from apf_middleware.fairqueuing import Reason

__all__ = ["LevelMeter", "TenantMeter", "milliseconds"]

_SECOND = 10**9
_MS = 10**6


class TenantMeter:
    """Outcomes and latencies of a tenant's requests.

    ``fresh`` are the counted latencies of the current window, ``aside`` those that don't count, and ``latencies`` the
    counted ones of earlier windows. ``turned_away`` includes tries that don't count.
    """

    __slots__ = (
        "_turned_away_before",
        "aside",
        "failed",
        "fair_s",
        "fresh",
        "got_s",
        "latencies",
        "name",
        "rejected",
        "requests",
        "served",
        "timeouts",
        "tries",
        "turned_away",
        "useful_ns",
    )

    aside: QuantileSketch
    failed: int
    fair_s: float
    fresh: QuantileSketch
    got_s: float
    latencies: QuantileSketch
    requests: int
    served: int
    timeouts: int
    tries: int
    turned_away: int

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.requests = self.served = self.failed = self.tries = self.timeouts = 0
        self.rejected: dict[Reason, int] = {}
        self.latencies, self.fresh, self.aside = QuantileSketch(), QuantileSketch(), QuantileSketch()
        self.useful_ns: int = 0  # seat-nanoseconds
        self.turned_away = self._turned_away_before = 0
        self.got_s = self.fair_s = 0.0

    def close_window(self) -> tuple[float | None, float | None, int, int]:
        """Return p50, p99, requests served and tries turned away of the current window, and begin the next one."""
        both = QuantileSketch()
        both.merge(self.fresh)
        both.merge(self.aside)
        turned_away, self._turned_away_before = self.turned_away - self._turned_away_before, self.turned_away
        self.latencies.merge(self.fresh)
        self.fresh, self.aside = QuantileSketch(), QuantileSketch()
        return milliseconds(both.quantile(0.5)), milliseconds(both.quantile(0.99)), both.count, turned_away

    def result(self, seconds: float) -> TenantResult:
        """Return what the tenant got in ``seconds`` of counted time."""
        self.latencies.merge(self.fresh)
        self.fresh = QuantileSketch()
        latencies = self.latencies
        return TenantResult(
            name=self.name,
            requests=self.requests,
            served=self.served,
            failed=self.failed,
            tries=self.tries,
            rejected={str(reason): count for reason, count in sorted(self.rejected.items())},
            timeouts=self.timeouts,
            mean_ms=milliseconds(latencies.mean),
            p50_ms=milliseconds(latencies.quantile(0.5)),
            p90_ms=milliseconds(latencies.quantile(0.9)),
            p99_ms=milliseconds(latencies.quantile(0.99)),
            worst_ms=milliseconds(float(latencies.most)) if latencies.count else None,
            rate=round(self.served / seconds, 3),
            seats=round(self.useful_ns / (seconds * _SECOND), 4),
            fairness=round(min(1.0, self.got_s / self.fair_s), 4) if self.fair_s else None,
        )


class LevelMeter:
    """Seats in use at a level over time, and the outcomes of the tries that count."""

    __slots__ = ("_changed_at", "_seat_ns", "dispatched", "latencies", "rejected", "seats", "total_ns", "waits")

    dispatched: int
    latencies: QuantileSketch
    rejected: int
    total_ns: int
    waits: QuantileSketch

    def __init__(self) -> None:
        self.seats: int = 0
        self._seat_ns = self._changed_at = self.total_ns = 0
        self.dispatched = self.rejected = 0
        self.waits, self.latencies = QuantileSketch(), QuantileSketch()

    def begin(self, now: int) -> None:
        """Begin to count: seats in use before ``now`` don't count."""
        self.change(now, 0)
        self.total_ns = -self._seat_ns

    def change(self, now: int, by: int) -> None:
        """Change the seats in use by so many."""
        self._seat_ns += self.seats * (now - self._changed_at)
        self._changed_at = now
        self.seats += by

    def close_window(self, now: int, length_ns: int) -> float:
        """Return the average number of seats in use in the current window, and begin the next one."""
        self.change(now, 0)
        seat_ns, self._seat_ns = self._seat_ns, 0
        self.total_ns += seat_ns
        return round(seat_ns / length_ns, 3)


def milliseconds(duration_ns: float | None) -> float | None:
    """Convert nanoseconds for a result, rounded to a microsecond."""
    return None if duration_ns is None else round(duration_ns / _MS, 3)
