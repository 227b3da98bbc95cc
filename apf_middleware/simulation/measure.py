"""What is measured while a simulation runs, in bounded memory: nothing is kept of a single request.

**Fairness** compares what each caller got with its max-min fair part. Its demand is the work that it asked for or was
still waiting for at the begin; what is divided is the backend's capacity; what it got is the work of answers that came
in time. So it tells the same of a server that protects nothing and of one that does. A window tells it of all the time
so far, for in a single one those are behind whose requests are under way when it ends, and few ask often enough.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from apf_middleware.simulation.results import QUANTILES, LevelResult, Result, TenantResult, Window
from apf_middleware.simulation.sketch import Sketch
from apf_middleware.testing.fairness import jain_index, max_min_fair

if TYPE_CHECKING:
    from apf_middleware.fairqueuing import Reason
    from apf_middleware.simulation.clients import Client
    from apf_middleware.simulation.site import Site

__all__ = ["Ledger", "LevelMeter", "TenantMeter"]

_SECOND = 10**9
_MS = 10**6


class TenantMeter:
    """What becomes of a tenant's requests; ``fresh`` are the latencies of this window, ``aside`` those not counted."""

    __slots__ = (
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
        "served_before",
        "timeouts",
        "tries",
        "turned_away",
        "turned_away_before",
        "useful_ns",
        "window_served",
    )

    aside: Sketch
    failed: int
    fair_s: float
    fresh: Sketch
    got_s: float
    latencies: Sketch
    requests: int
    served: int
    timeouts: int
    tries: int
    turned_away: int
    turned_away_before: int

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.requests = self.served = self.failed = self.tries = self.timeouts = 0
        self.rejected: dict[Reason, int] = {}
        self.latencies, self.fresh, self.aside = Sketch(), Sketch(), Sketch()
        self.useful_ns: int = 0  # seat-nanoseconds
        self.turned_away = self.turned_away_before = 0  # counted or not
        self.got_s = self.fair_s = 0.0

    def window(self) -> tuple[float | None, float | None, int, int]:
        """p50, p99, how many were served and turned away; the next window begins."""
        both = Sketch()
        both.merge(self.fresh)
        both.merge(self.aside)
        turned_away, self.turned_away_before = self.turned_away - self.turned_away_before, self.turned_away
        self.latencies.merge(self.fresh)
        self.fresh, self.aside = Sketch(), Sketch()
        return _ms(both.quantile(0.5)), _ms(both.quantile(0.99)), both.count, turned_away

    def result(self, seconds: float) -> TenantResult:
        latencies = self.latencies
        return TenantResult(
            name=self.name,
            requests=self.requests,
            served=self.served,
            failed=self.failed,
            tries=self.tries,
            rejected={str(reason): count for reason, count in sorted(self.rejected.items())},
            timeouts=self.timeouts,
            mean_ms=_ms(latencies.mean),
            p50_ms=_ms(latencies.quantile(0.5)),
            p90_ms=_ms(latencies.quantile(0.9)),
            p99_ms=_ms(latencies.quantile(0.99)),
            worst_ms=_ms(float(latencies.most)) if latencies.count else None,
            rate=round(self.served / seconds, 3),
            seats=round(self.useful_ns / (seconds * _SECOND), 4),
            fairness=round(min(1.0, self.got_s / self.fair_s), 4) if self.fair_s else None,
        )


class LevelMeter:
    """Seats in use over time, and what became of the tries that count: those made while it is counted."""

    __slots__ = ("_changed_at", "_seat_ns", "dispatched", "latencies", "rejected", "seats", "total_ns", "waits")

    dispatched: int
    latencies: Sketch
    rejected: int
    total_ns: int
    waits: Sketch

    def __init__(self) -> None:
        self.seats: int = 0
        self._seat_ns = self._changed_at = self.total_ns = 0
        self.dispatched = self.rejected = 0
        self.waits, self.latencies = Sketch(), Sketch()

    def begin(self, now: int) -> None:
        """What was in use until now doesn't count."""
        self.change(now, 0)
        self.total_ns = -self._seat_ns

    def change(self, now: int, by: int) -> None:
        """So many more seats are in use."""
        self._seat_ns += self.seats * (now - self._changed_at)
        self._changed_at = now
        self.seats += by

    def window(self, now: int, length_ns: int) -> float:
        """Seats on average; the next window begins."""
        self.change(now, 0)
        seat_ns, self._seat_ns = self._seat_ns, 0
        self.total_ns += seat_ns
        return round(seat_ns / length_ns, 3)


class Ledger:
    """All meters of one simulation, and its windows."""

    def __init__(self, tenants: Sequence[str], sites: Sequence["Site"], window_ns: int, warm_up_ns: int) -> None:
        self.tenants: list[TenantMeter] = [TenantMeter(name) for name in tenants]
        self.levels: dict[str, LevelMeter] = {name: LevelMeter() for name in sites[0].controller.levels}
        self.clients: list[Client] = []
        self.windows: list[Window] = []
        self._sites = sites
        self._window_ns = window_ns
        self.warm_up_ns: int = warm_up_ns
        self._counted = 0  # windows
        self._is_counting = False
        self._capacity_ns = sum(site.places for site in sites) * window_ns

    def begin(self, now: int) -> None:
        """The warm-up is over."""
        for level in self.levels.values():
            level.begin(now)

    def close_window(self, now: int) -> None:
        """A window has ended."""
        begin = now - self._window_ns
        by_tenant = [tenant.window() for tenant in self.tenants]
        self.windows.append(
            Window(
                begin_s=begin / _SECOND,
                p50_ms=tuple(one[0] for one in by_tenant),
                p99_ms=tuple(one[1] for one in by_tenant),
                served=tuple(one[2] for one in by_tenant),
                turned_away=tuple(one[3] for one in by_tenant),
                seats=tuple(level.window(now, self._window_ns) for level in self.levels.values()),
                waiting=tuple(map(self._waiting, self.levels)),
                fairness=self._fairness(counted=begin >= self.warm_up_ns),
            )
        )

    def _waiting(self, name: str) -> int:
        return sum(site.controller.levels[name].shared.queueset.waiting for site in self._sites)

    def _fairness(self, *, counted: bool) -> float | None:
        """Of all windows so far; that of the warm-up is forgotten when it is over."""
        if counted and not self._is_counting:
            self._is_counting, self._counted = True, 0
        is_first = not self._counted
        for client in self.clients:
            if is_first:
                client.all_asked_ns, client.all_got_ns = client.begun_ns, 0
            client.all_asked_ns += client.asked_ns
            client.all_got_ns += client.got_ns
            client.begun_ns, client.asked_ns, client.got_ns = client.open_ns, 0, 0
        self._counted += 1
        return _jain([got / fair for _, got, fair in self._parts()])

    def _parts(self) -> list[tuple["Client", float, float]]:
        demands = [(client, client.all_asked_ns, client.all_got_ns) for client in self.clients]
        return _parts(demands, self._capacity_ns * self._counted)

    def _settle(self) -> float | None:
        """Of all windows that count, and of each tenant."""
        parts = self._parts()
        for client, got, fair in parts:
            client.meter.got_s += got
            client.meter.fair_s += fair
        return _jain([got / fair for _, got, fair in parts])

    def finish(self, scenario: str, configuration: str, seconds: float, events: int) -> Result:
        """Everything that was measured; ``seconds`` are those that count."""
        for tenant in self.tenants:
            tenant.latencies.merge(tenant.fresh)
        fairness = self._settle()
        useful = sum(tenant.useful_ns for tenant in self.tenants)
        return Result(
            scenario=scenario,
            configuration=configuration,
            seconds=seconds,
            window_s=self._window_ns / _SECOND,
            tenants=tuple(tenant.result(seconds) for tenant in self.tenants),
            levels=tuple(self._level(name, seconds) for name in self.levels),
            windows=tuple(self.windows),
            fairness=fairness,
            goodput=round(useful / (sum(site.places for site in self._sites) * seconds * _SECOND), 4),
            wasted=self._wasted(),
            requests=sum(tenant.requests for tenant in self.tenants),
            events=events,
        )

    def _wasted(self) -> float:
        worked, wasted = (sum(getattr(site, name) for site in self._sites) for name in ("ended_ns", "wasted_ns"))
        return round(wasted / worked, 4) if worked else 0.0

    def _counted_windows(self) -> Iterator[Window]:
        """Those that are counted, or end so."""
        return (one for one in self.windows if one.begin_s * _SECOND + self._window_ns > self.warm_up_ns)

    def _level(self, name: str, seconds: float) -> LevelResult:
        meter, place = self.levels[name], list(self.levels).index(name)
        at_work = [site.controller.levels[name] for site in self._sites]
        return LevelResult(
            name=name,
            nominal=sum(one.shared.limits.nominal for one in at_work),
            exempt=at_work[0].level.exempt,
            seats=round(meter.total_ns / (seconds * _SECOND), 3),
            most_seats=max((window.seats[place] for window in self._counted_windows()), default=0.0),
            dispatched=meter.dispatched,
            rejected=meter.rejected,
            wait_p50_ms=_ms(meter.waits.quantile(0.5)),
            wait_p99_ms=_ms(meter.waits.quantile(0.99)),
            quantiles_ms={name: _ms(meter.latencies.quantile(part)) for name, part in QUANTILES.items()},
        )


def _parts(demands: Sequence[tuple["Client", int, int]], capacity_ns: int) -> list[tuple["Client", float, float]]:
    """Who wanted anything, what of its fair part it got, and the fair part."""
    wanting = [one for one in demands if one[1]]
    capacity = max(capacity_ns, sum(got for _, _, got in wanting))
    fair = max_min_fair(capacity / _SECOND, [demand / _SECOND for _, demand, _ in wanting])
    return [(client, min(got / _SECOND, part), part) for (client, _, got), part in zip(wanting, fair, strict=True)]


def _jain(parts: Sequence[float]) -> float | None:
    if not parts:
        return None
    return round(jain_index(parts), 4) if any(parts) else 0.0


def _ms(duration_ns: float | None) -> float | None:
    return None if duration_ns is None else round(duration_ns / _MS, 3)
