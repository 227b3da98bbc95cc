"""All measurements of one simulation, in bounded memory: no single request is kept.

**Fairness** compares what each client got with its max-min fair share. A client's demand is the work that it asked for
or still waited for at the start; the capacity that is divided is the backend's; what a client got is the work of
responses in time. The measure is therefore the same for servers with and without protection. The fairness of a window
is that of all the time so far: in a single window, most clients make too few requests, and clients whose requests are
under way at its end look disadvantaged.
"""

from collections.abc import Iterator, Sequence

from apf_middleware.simulation.fairness import jain_index, max_min_fair
from apf_middleware.simulation.meters import LevelMeter, TenantMeter, milliseconds
from apf_middleware.simulation.requests import SimulatedClient
from apf_middleware.simulation.results import QUANTILES, LevelResult, Result, Window
from apf_middleware.simulation.server import SimulatedServer

__all__ = ["Measurements"]

_SECOND = 10**9


class Measurements:
    """The meters of all tenants, levels and clients, and the windows so far."""

    def __init__(
        self, tenants: Sequence[str], servers: Sequence[SimulatedServer], window_ns: int, warm_up_ns: int
    ) -> None:
        self.tenants: list[TenantMeter] = [TenantMeter(name) for name in tenants]
        self.levels: dict[str, LevelMeter] = {name: LevelMeter() for name in servers[0].controller.levels}
        self.clients: list[SimulatedClient] = []
        self.windows: list[Window] = []
        self._servers = servers
        self._places = sum(backend.places for backend in {server.backend for server in servers})
        self._window_ns = window_ns
        self._warm_up_ns = warm_up_ns
        self._windows_counted = 0
        self._is_counting = False
        self._capacity_ns = self._places * window_ns

    def begin(self) -> None:
        """Begin to count: the warm-up is over."""
        for level in self.levels.values():
            level.begin(self._warm_up_ns)

    def close_window(self, now: int) -> None:
        """End the current window."""
        begin = now - self._window_ns
        by_tenant = [tenant.close_window() for tenant in self.tenants]
        self.windows.append(
            Window(
                begin_s=begin / _SECOND,
                p50_ms=tuple(one[0] for one in by_tenant),
                p99_ms=tuple(one[1] for one in by_tenant),
                served=tuple(one[2] for one in by_tenant),
                turned_away=tuple(one[3] for one in by_tenant),
                seats=tuple(level.close_window(now, self._window_ns) for level in self.levels.values()),
                waiting=tuple(map(self._waiting, self.levels)),
                fairness=self._fairness(counted=begin >= self._warm_up_ns),
                total=self._total(),
            )
        )

    def _waiting(self, name: str) -> int:
        return sum(server.controller.levels[name].shared.queueset.waiting for server in self._servers)

    def _total(self) -> int | None:
        controllers = [server.controller for server in self._servers]
        if all(controller.adaptive is None for controller in controllers):
            return None
        seats = [controller.seats for controller in controllers]
        return sum(seats) if controllers[0].sampler is None else max(seats)  # a fleet has one total

    def _fairness(self, *, counted: bool) -> float | None:
        """Return the fairness of all windows so far; those of the warm-up are forgotten when it is over."""
        if counted and not self._is_counting:
            self._is_counting, self._windows_counted = True, 0
        is_first = not self._windows_counted
        for client in self.clients:
            if is_first:
                client.all_asked_ns, client.all_got_ns = client.begun_ns, 0
            client.all_asked_ns += client.asked_ns
            client.all_got_ns += client.got_ns
            client.begun_ns, client.asked_ns, client.got_ns = client.open_ns, 0, 0
        self._windows_counted += 1
        return _rounded_jain_index([got / fair for _, got, fair in self._fair_shares()])

    def _fair_shares(self) -> list[tuple[SimulatedClient, float, float]]:
        """Return each client with a demand, what it got of its fair share, and that share, in seat-seconds."""
        clients = [client for client in self.clients if client.all_asked_ns]
        # Clients can get more than the capacity: work counts when it is answered, even if it was done before.
        capacity_ns = max(self._capacity_ns * self._windows_counted, sum(client.all_got_ns for client in clients))
        shares = max_min_fair(capacity_ns / _SECOND, [client.all_asked_ns / _SECOND for client in clients])
        return [
            (client, min(client.all_got_ns / _SECOND, share), share)
            for client, share in zip(clients, shares, strict=True)
        ]

    def finish(self, scenario: str, configuration: str, seconds: float, events: int) -> Result:
        """Return all that was measured; ``seconds`` is the counted time."""
        fair_shares = self._fair_shares()
        for client, got, fair in fair_shares:
            client.meter.got_s += got
            client.meter.fair_s += fair
        useful = sum(tenant.useful_ns for tenant in self.tenants)
        return Result(
            scenario=scenario,
            configuration=configuration,
            seconds=seconds,
            window_s=self._window_ns / _SECOND,
            tenants=tuple(tenant.result(seconds) for tenant in self.tenants),
            levels=tuple(self._level_result(name, seconds) for name in self.levels),
            windows=tuple(self.windows),
            fairness=_rounded_jain_index([got / fair for _, got, fair in fair_shares]),
            goodput=round(useful / (self._places * seconds * _SECOND), 4),
            wasted=self._wasted_part(),
            requests=sum(tenant.requests for tenant in self.tenants),
            events=events,
        )

    def _wasted_part(self) -> float:
        worked = sum(server.ended_ns for server in self._servers)
        return round(sum(server.wasted_ns for server in self._servers) / worked, 4) if worked else 0.0

    def _counted_windows(self) -> Iterator[Window]:
        """Yield the windows that lie at least partly in the counted time."""
        return (one for one in self.windows if one.begin_s * _SECOND + self._window_ns > self._warm_up_ns)

    def _level_result(self, name: str, seconds: float) -> LevelResult:
        meter, place = self.levels[name], list(self.levels).index(name)
        # each member of a fleet knows the seats of the whole fleet
        is_fleet = self._servers[0].controller.configuration.server.fleet is not None
        runtime = [server.controller.levels[name] for server in (self._servers[:1] if is_fleet else self._servers)]
        return LevelResult(
            name=name,
            nominal=sum(one.shared.limits.nominal for one in runtime),
            exempt=runtime[0].level.exempt,
            seats=round(meter.total_ns / (seconds * _SECOND), 3),
            most_seats=max((window.seats[place] for window in self._counted_windows()), default=0.0),
            dispatched=meter.dispatched,
            rejected=meter.rejected,
            wait_p50_ms=milliseconds(meter.waits.quantile(0.5)),
            wait_p99_ms=milliseconds(meter.waits.quantile(0.99)),
            quantiles_ms={name: milliseconds(meter.latencies.quantile(part)) for name, part in QUANTILES.items()},
        )


def _rounded_jain_index(parts: Sequence[float]) -> float | None:
    if not parts:
        return None
    return round(jain_index(parts), 4) if any(parts) else 0.0
