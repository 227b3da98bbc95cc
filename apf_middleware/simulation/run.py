"""A simulation: clients, servers and measurements put together, and run from the first request to the last.

Requests are admitted by the same controllers as in production. This module implements what clients do when they are
served, rejected or kept waiting. After the measured time, new requests keep arriving but aren't counted, until all
counted requests have finished, or a time limit ends the run. Otherwise the last counted requests would have less
competition than the others.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, Literal

from apf_middleware.compilation import mypyc_attr
from apf_middleware.config import Configuration
from apf_middleware.config.scenario import ReplayedArrivals, Scenario, Tenant
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import TicketState
from apf_middleware.runtime import retry_after_s
from apf_middleware.runtime.event_queue import EventQueue, FifoTimeouts
from apf_middleware.simulation.arrivals import Arrivals, clients_of, draw_seats
from apf_middleware.simulation.backend import SimulatedBackend
from apf_middleware.simulation.balancers import RecordedServer, balancer
from apf_middleware.simulation.destinations import DestinationResolver
from apf_middleware.simulation.fleet import SimulatedFleet
from apf_middleware.simulation.fleet.layouts import of_members
from apf_middleware.simulation.fleet.meters import FleetMeters
from apf_middleware.simulation.measurements import Measurements
from apf_middleware.simulation.meters import LevelMeter
from apf_middleware.simulation.recording import RecordedArrivals, RecordedClients, Recording
from apf_middleware.simulation.requests import ClientGroup, SimulatedClient, SimulatedRequest
from apf_middleware.simulation.results import Result
from apf_middleware.simulation.server import SimulatedServer
from apf_middleware.simulation.trace import RequestTrace

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["WINDOWS", "OnProgress", "Simulation", "simulate"]

WINDOWS: Final = 120
"""The default maximum number of windows in a result.

A window lasts at least half a second, unless the result would then have fewer than `_LEAST_WINDOWS`.
"""

_SECOND: Final = 10**9
_GRACE_NS: Final = 10 * _SECOND
_LEAST_WINDOWS: Final = 12
_SHORTEST_WINDOW_NS: Final = _SECOND // 2

_WAITING: Final = TicketState.WAITING

_Outcome = Literal["served", "rejected", "timeout", "failed"]
OnProgress = Callable[[float, int], None]


def simulate(
    scenario: Scenario,
    configuration: Configuration,
    *,
    name: str = "own",
    recording: Recording | None = None,
    windows: int | None = None,
    on_progress: OnProgress | None = None,
) -> Result:
    """Simulate a scenario on servers with this configuration, which is called ``name`` in the result.

    The requests of a ``recording`` are added to those of the scenario's tenants, and the recording's duration applies.
    ``on_progress`` is called with the fraction of the duration that has passed and the number of requests so far.
    """
    simulation = Simulation(scenario, configuration, recording=recording, windows=windows, on_progress=on_progress)
    return simulation.run(name)


@mypyc_attr(allow_interpreted_subclasses=True)
class Simulation:
    """One run of a scenario."""

    def __init__(
        self,
        scenario: Scenario,
        configuration: Configuration,
        *,
        recording: Recording | None = None,
        windows: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.scenario = scenario
        self._on_progress = on_progress
        self._plan_windows(recording.span_ns if recording else scenario.duration_ns, windows)
        self._events = EventQueue()
        self._arrivals = Arrivals(self._events, self._submit)
        self._submitted = 0
        self._counted_open = 0  # counted requests that haven't finished
        self._is_over = False
        self._dice = Random(f"{scenario.seed}/simulation")  # noqa: S311 - a simulation
        header = None if recording is None else recording.survey.header
        self._is_as_recorded = recording is not None and recording.is_placed_by(configuration)
        self._configuration = configuration = of_members(scenario, configuration)
        self.servers: list[SimulatedServer] = list(self._new_servers())
        self._resolvers = [DestinationResolver(configuration, server.controller) for server in self.servers]
        self._balancer = balancer(scenario.balancing, self.servers, self._dice, scenario.seed)
        if header is not None and header.workers == len(self.servers):
            self._balancer = RecordedServer(self.servers, self._balancer)
        self._responses = configuration.server.responses
        names = [tenant.name for tenant in scenario.tenants]
        recorded = [f"{name} (recorded)" if name in names else name for name in recording.names] if recording else []
        self.measurements: Measurements = Measurements(
            [*names, *recorded], self.servers, self._window_ns, self._from_ns
        )
        self.fleet: SimulatedFleet | None = self._new_fleet()
        members = scenario.members
        self.fleet_meters: FleetMeters | None = None if members is None else FleetMeters(members.count, self._budget)
        self._schedule_arrivals(recording)
        self._schedule_windows()

    @property
    def now(self) -> int:
        """The time in the simulation; it ends after the counted time, when all counted requests have finished."""
        return self._events.now

    @property
    def _budget(self) -> int:
        """The most seats that all members may ever use together."""
        server, members = self._configuration.server, self.scenario.members
        return server.largest_total * (1 if members is None or server.fleet is not None else members.count)

    def _new_servers(self) -> "Iterator[SimulatedServer]":
        """Yield servers, each with a backend of its own, or members, all with the same backend."""
        scenario, seats = self.scenario, self._configuration.server.total
        shared = None if scenario.members is None else SimulatedBackend(scenario.backend, seats)
        for _ in range(scenario.servers if scenario.members is None else scenario.members.count):
            yield self._new_server(shared or SimulatedBackend(scenario.backend, seats))

    def _new_server(self, backend: SimulatedBackend) -> SimulatedServer:
        members = self.scenario.members
        return SimulatedServer(
            self._events,
            self._configuration,
            backend,
            self,
            overhead_ns=self.scenario.backend.overhead_ns,
            may_crash=members is not None and bool(members.events),
        )

    def _new_fleet(self) -> SimulatedFleet | None:
        members, settings = self.scenario.members, self._configuration.server.fleet
        if members is None or settings is None:
            return None
        return SimulatedFleet(
            self._events,
            self.servers,
            self._configuration,
            settings,
            members,
            start=self._start_again,
            seed=self.scenario.seed,
        )

    def _start_again(self, number: int) -> None:
        """Start a process in the place of one that has crashed."""
        before = self.servers[number]
        self.servers[number] = server = self._new_server(before.backend)
        server.ended_ns, server.wasted_ns = before.ended_ns, before.wasted_ns
        self._resolvers[number] = DestinationResolver(self._configuration, server.controller)

    def _plan_windows(self, span_ns: int, windows: int | None) -> None:
        self._from_ns = self.scenario.warm_up_ns
        if self._from_ns >= span_ns:
            rule = f"it must be shorter than the simulated time, {span_ns / _SECOND:g}s"
            raise InvalidValueError("warmUp", f"{self._from_ns / _SECOND:g}s", rule)
        self._windows = windows or max(_LEAST_WINDOWS, min(WINDOWS, span_ns // _SHORTEST_WINDOW_NS))
        self._window_ns = -(-span_ns // self._windows)
        self._end_ns = self._window_ns * self._windows
        longest_timeout = max((tenant.timeout_ns for tenant in self.scenario.tenants), default=0)
        self._limit_ns = self._end_ns + max(_GRACE_NS, longest_timeout)

    def _schedule_arrivals(self, recording: Recording | None) -> None:
        scenario, measurements = self.scenario, self.measurements
        clients: dict[str, list[SimulatedClient]] = {}
        groups = {}
        for tenant, meter in zip(scenario.tenants, measurements.tenants, strict=False):
            group = ClientGroup(meter, self._new_timeouts(), tenant.timeout_ns, tenant.retries)
            groups[tenant.name] = group
            clients[tenant.name] = clients_of(tenant, group, scenario.seed)
            measurements.clients += clients[tenant.name]
        for tenant in scenario.tenants:
            groups[tenant.name].callees = tuple(tuple(clients[name]) for name in tenant.calls)
            for client in clients[tenant.name]:
                if isinstance(tenant.arrivals, ReplayedArrivals):
                    self._schedule_replay(client, tenant, tenant.arrivals.file)
                else:
                    self._arrivals.begin(client, tenant, self._limit_ns)
        if recording is not None:
            meters = measurements.tenants[len(scenario.tenants) :]
            recorded = [ClientGroup(meter, self._new_timeouts()) for meter in meters]
            find = RecordedClients(recorded, recording, measurements.clients, as_placed=self._is_as_recorded).client
            # One generator for all clients: equal ones would draw equal durations for the first request of each.
            dice = Random(f"{scenario.seed}/durations")  # noqa: S311 - a simulation
            draw = partial(recording.draw_duration, dice=dice)
            RecordedArrivals(self._arrivals, recording.rows(scenario.seed), find, None, self._limit_ns, draw).begin()

    def _schedule_replay(self, client: SimulatedClient, tenant: Tenant, file: str) -> None:
        until = self._limit_ns if tenant.end_ns is None else min(self._limit_ns, tenant.end_ns)
        rows = RequestTrace(Path(self.scenario.folder) / file).rows(self.scenario.seed)
        RecordedArrivals(self._arrivals, rows, lambda _: client, tenant, until).begin()

    def _new_timeouts(self) -> FifoTimeouts[SimulatedRequest]:
        return FifoTimeouts(self._events, self._time_out, _is_settled)

    def _schedule_windows(self) -> None:
        if self._from_ns:
            self._events.at(self._from_ns, Measurements.begin, self.measurements)
            if self.fleet_meters is not None:
                self._events.at(self._from_ns, self.fleet_meters.begin, self._from_ns)
        for number in range(1, self._windows + 1):
            self._events.at(number * self._window_ns, self._close_window, number)

    def run(self, name: str) -> Result:
        """Run to the end, and return the result under ``name``."""
        events = self._events.run()
        seconds = (self._end_ns - self._from_ns) / _SECOND
        result = self.measurements.finish(self.scenario.name, name, seconds, events)
        meters = self.fleet_meters
        return result if meters is None else replace(result, fleet=meters.finish(seconds, self.fleet))

    def _close_window(self, number: int) -> None:
        self.measurements.close_window(self._events.now)
        if self._on_progress is not None:
            self._on_progress(number / self._windows, self._submitted)
        if number == self._windows:
            self._is_over = True
            if self.fleet_meters is not None:
                self.fleet_meters.end(self._events.now)
            if self._counted_open:
                self._events.at(self._limit_ns, EventQueue.stop, self._events)
            else:
                self._events.stop()

    # What clients do

    def _submit(
        self,
        client: SimulatedClient,
        service_ns: int,
        seats: int,
        *,
        on_conclusion: Callable[[bool], None] | None = None,
        parent: SimulatedRequest | None = None,
    ) -> None:
        """Make a new request of ``client`` now."""
        request = self._new_request(client, self._events.now, service_ns, seats, parent=parent)
        request.on_conclusion = on_conclusion
        work = service_ns * request.weight
        client.asked_ns += work
        client.open_ns += work
        self._submitted += 1
        if self._from_ns <= request.due < self._end_ns:
            client.meter.requests += 1
            self._counted_open += 1
        self._try(request)

    def _try(self, request: SimulatedRequest) -> None:
        request.asked_at = now = self._events.now
        group = request.client.group
        if self._counts(request):
            group.meter.tries += 1
        if group.timeout_ns:
            group.timeouts.add(now + group.timeout_ns, request)
        if request.client.patience_ns:
            self._events.at(now + request.client.patience_ns, self._hang_up, request)
        self.servers[request.server_index].receive(request)

    def _hang_up(self, request: SimulatedRequest) -> None:
        """Let the client of a recorded request hang up when it did so, unless it has its answer by then."""
        if not request.is_settled:
            self._time_out(request)

    def _time_out(self, request: SimulatedRequest) -> None:
        """Let the client give up this try, because it has waited too long."""
        meter = request.client.meter
        if self._counts(request):
            meter.timeouts += 1
            # For the level, a waiting request that times out counts as rejected; one that already runs continues.
            self._count_rejection(request, request.admission.state is _WAITING)
        meter.turned_away += 1
        request.is_settled = True
        self.servers[request.server_index].disconnect(request)
        self._conclude(request, "timeout")

    def _counts(self, request: SimulatedRequest) -> bool:
        """Return whether this try was made in the measured time."""
        return self._from_ns <= request.asked_at < self._end_ns

    # Outcomes of requests, as the servers report them

    def seated(self, request: SimulatedRequest) -> None:
        now = self._events.now
        admission = request.admission
        level = self.measurements.levels[admission.level]
        level.change(now, admission.width)
        if self._counts(request):
            level.dispatched += 1
            level.waits.add(now - admission.arrived_at)
        if self.fleet_meters is not None:
            meter = self._change_seats(request, admission.width)
            if self._counts(request):
                meter.dispatched += 1
                meter.waits.add(now - admission.arrived_at)

    def _change_seats(self, request: SimulatedRequest, by: int) -> LevelMeter:
        """Add ``by`` to the seats in use at the member that has ``request``, and return its meter."""
        assert self.fleet_meters is not None, "only members have meters of their own"
        self.fleet_meters.change(self._events.now, request.server_index, request.admission, by)
        return self.fleet_meters.members[request.server_index]

    def served(self, request: SimulatedRequest) -> None:
        """Make the next call to another tenant for ``request`` (see ``calls``), or finish ``request``."""
        if request.is_cut_off:
            return
        group = request.client.group
        if request.called == len(group.callees) or request.has_failed:
            self.servers[request.server_index].finish(request)
            return
        callees = group.callees[request.called]
        request.called += 1
        callee = callees[self._dice.randrange(len(callees))] if len(callees) > 1 else callees[0]
        tenant = callee.tenant
        assert tenant is not None, "only tenants of a scenario are called"
        self._submit(callee, tenant.service.draw(callee.dice), draw_seats(tenant, callee.dice), parent=request)

    def answered(self, request: SimulatedRequest) -> None:
        if self._counts(request):
            level = self.measurements.levels[request.admission.level]
            level.latencies.add(self._events.now - request.asked_at)
        if not request.is_settled:
            self._conclude(request, "failed" if request.has_failed else "served")

    def vacated(self, request: SimulatedRequest) -> None:
        admission = request.admission
        self.measurements.levels[admission.level].change(self._events.now, -admission.width)
        if self.fleet_meters is not None:
            self._change_seats(request, -admission.width)

    def broken(self, request: SimulatedRequest) -> None:
        request.client.meter.turned_away += 1
        self._conclude(request, "rejected")

    def rejected(self, request: SimulatedRequest) -> None:
        is_counted, admission = self._counts(request), request.admission
        self._count_rejection(request, is_counted)
        if request.is_settled:
            return
        meter = request.client.meter
        meter.turned_away += 1
        if is_counted and admission.reason is not None:
            meter.rejected[admission.reason] += 1
        self._conclude(request, "rejected")

    def _count_rejection(self, request: SimulatedRequest, by: int) -> None:
        self.measurements.levels[request.admission.level].rejected += by
        if self.fleet_meters is not None:
            self.fleet_meters.members[request.server_index].rejected += by

    def _conclude(self, request: SimulatedRequest, outcome: _Outcome) -> None:
        """Report the outcome of this try to the client, which may then retry."""
        request.is_settled = True
        retries, parent = request.client.group.retries, request.parent
        if retries is not None and outcome in retries.on and request.tries < retries.most and request.has_caller:
            self._schedule_retry(request)
            return
        self._measure(request, outcome)
        if request.on_conclusion is not None:
            request.on_conclusion(outcome == "rejected")
        if parent is not None:
            parent.has_failed = outcome != "served"
            # The parent continues in a separate event, because its controller may still be changing its state.
            self._events.at(self._events.now, self.served, parent)
        if self._from_ns <= request.due < self._end_ns:
            self._counted_open -= 1
            if self._is_over and not self._counted_open:  # all counted requests have finished
                self._events.stop()

    def _measure(self, request: SimulatedRequest, outcome: _Outcome) -> None:
        client, now = request.client, self._events.now
        work = request.service_ns * request.weight
        client.open_ns -= work
        meter = client.meter
        is_counted = self._from_ns <= request.due < self._end_ns
        if outcome == "served":
            client.got_ns += work
            if self._from_ns <= now < self._end_ns:
                meter.useful_ns += work
            if is_counted:
                meter.served += 1
                meter.fresh.add(now - request.due)
            else:
                meter.aside.add(now - request.due)
        elif is_counted:
            meter.failed += 1

    def _schedule_retry(self, request: SimulatedRequest) -> None:
        retries = request.client.group.retries
        assert retries is not None, "only a client with retries repeats a request"
        wait = retries.back_off.draw(self._dice) * retries.factor**request.tries
        wait = min(wait, retries.longest_ns) * self._dice.uniform(1 - retries.jitter, 1 + retries.jitter)
        if retries.obey_retry_after and request.admission.reason is not None:
            wait = max(wait, self._retry_after_s(request) * _SECOND)
        self._events.at(self._events.now + int(wait), self._retry, request)

    def _retry_after_s(self, request: SimulatedRequest) -> int:
        """Return the Retry-After of the response to a rejected request."""
        runtime, settings = request.admission.destination.runtime, self._responses
        return retry_after_s(
            runtime.shared.queueset.waiting + 1,
            runtime.service_rate(self._events.now),
            least=settings.retry_after.least_s,
            most=settings.retry_after.most_s,
            chance=self._dice,
        )

    def _retry(self, before: SimulatedRequest) -> None:
        if not before.has_caller:
            self._conclude(before, "failed")
            return
        request = self._new_request(
            before.client, before.due, before.service_ns, before.asked_seats, parent=before.parent
        )
        request.tries = before.tries + 1
        request.on_conclusion = before.on_conclusion
        self._try(request)

    def _new_request(
        self,
        client: SimulatedClient,
        due: int,
        service_ns: int,
        seats: int,
        *,
        parent: SimulatedRequest | None,
    ) -> SimulatedRequest:
        """Create a request to the server of its ``parent``, or to the next server if it has none."""
        index = self._balancer.choose(client) if parent is None else parent.server_index
        destination = self._resolvers[index].destination(client.template, seats)
        request = SimulatedRequest(
            client, due, service_ns, destination, server_index=index, asked_seats=seats, parent=parent
        )
        request.told_ns = (client.group.timeout_ns or None) if client.told_ns is None else client.told_ns
        request.refused = client.refused
        return request


def _is_settled(request: SimulatedRequest) -> bool:
    return request.is_settled
