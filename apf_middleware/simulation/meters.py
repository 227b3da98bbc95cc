"""Meters of one tenant and of one level during a simulation, in bounded memory."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apf_middleware.simulation.quantiles import QuantileSketch
from apf_middleware.simulation.results import TenantResult

if TYPE_CHECKING:
    from apf_middleware.fairqueuing import Reason

__all__ = ["LevelMeter", "TenantMeter", "milliseconds"]

_SECOND = 10**9
_MS = 10**6


@dataclass(slots=True, eq=False)
class TenantMeter:
    """Outcomes and latencies of a tenant's requests.

    ``requests``, ``served`` and ``failed`` count requests that were due in the counted time, ``tries``, ``rejected``
    and ``timeouts`` the tries that were made in it. ``turned_away`` includes tries that don't count. ``fresh`` are the
    counted latencies of the current window, ``aside`` those that don't count, and ``latencies`` the counted ones of
    earlier windows. ``useful_ns`` is work in seat-nanoseconds.
    """

    name: str
    requests: int = 0
    served: int = 0
    failed: int = 0
    tries: int = 0
    timeouts: int = 0
    rejected: "Counter[Reason]" = field(default_factory=Counter)
    turned_away: int = 0
    turned_away_before: int = 0
    useful_ns: int = 0
    got_s: float = 0.0
    fair_s: float = 0.0
    latencies: QuantileSketch = field(default_factory=QuantileSketch)
    fresh: QuantileSketch = field(default_factory=QuantileSketch)
    aside: QuantileSketch = field(default_factory=QuantileSketch)

    def close_window(self) -> tuple[float | None, float | None, int, int]:
        """Return p50, p99, requests served and tries turned away of the current window, and begin the next one."""
        both = QuantileSketch()
        both.merge(self.fresh)
        both.merge(self.aside)
        turned_away, self.turned_away_before = self.turned_away - self.turned_away_before, self.turned_away
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


@dataclass(slots=True, eq=False)
class LevelMeter:
    """Seats in use at a level over time, and the outcomes of the tries that count.

    ``window_ns`` are the seat-nanoseconds of the current window up to ``changed_at``, ``total_ns`` those of the counted
    windows before it.
    """

    seats: int = 0
    changed_at: int = 0
    window_ns: int = 0
    total_ns: int = 0
    dispatched: int = 0
    rejected: int = 0
    waits: QuantileSketch = field(default_factory=QuantileSketch)
    latencies: QuantileSketch = field(default_factory=QuantileSketch)

    def begin(self, now: int) -> None:
        """Begin to count: seats in use before ``now`` don't count."""
        self.change(now, 0)
        # The window that is under way began before ``now``; its sum is added whole when it ends.
        self.total_ns = -self.window_ns

    def change(self, now: int, by: int) -> None:
        """Add ``by`` to the seats in use."""
        self.window_ns += self.seats * (now - self.changed_at)
        self.changed_at = now
        self.seats += by

    def close_window(self, now: int, length_ns: int) -> float:
        """Return the average number of seats in use in the current window, and begin the next one."""
        self.change(now, 0)
        seat_ns, self.window_ns = self.window_ns, 0
        self.total_ns += seat_ns
        return round(seat_ns / length_ns, 3)


def milliseconds(duration_ns: float | None) -> float | None:
    """Convert nanoseconds for a result, rounded to a microsecond."""
    return None if duration_ns is None else round(duration_ns / _MS, 3)
