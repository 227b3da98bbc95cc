"""A simulation: clients, servers and meters put together, and run from the first request to the last.

The configuration's own controllers decide; here is only what clients do when they are served, rejected or kept waiting.
Arrivals go on for a while after the end, uncounted, until all that is counted has come to its end: otherwise the last
ones would have it easier than the rest.
"""

from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, Literal

from apf_middleware.config import Configuration
from apf_middleware.config.scenario import Scenario, Tenant
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import TicketState
from apf_middleware.runtime import retry_after_s
from apf_middleware.simulation.agenda import Agenda, Deadlines
from apf_middleware.simulation.call import Call
from apf_middleware.simulation.clients import Client, Connection, Party, begin, clients_of, draw_seats
from apf_middleware.simulation.directory import Directory
from apf_middleware.simulation.feed import Crowd, Feed, Recording
from apf_middleware.simulation.measure import Ledger
from apf_middleware.simulation.results import Result
from apf_middleware.simulation.site import Site
from apf_middleware.simulation.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["WINDOWS", "OnProgress", "Simulation", "simulate"]

WINDOWS: Final = 120
"""Into how many parts the time is divided at most; none is shorter than half a second, unless there were too few."""

_SECOND: Final = 10**9
_GRACE_NS: Final = 10 * _SECOND
_LEAST_WINDOWS: Final = 12
_SHORTEST_WINDOW_NS: Final = _SECOND // 2

_WAITING: Final = TicketState.WAITING

Outcome = Literal["served", "rejected", "timeout", "failed"]
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
    """Run a scenario before servers of this configuration, which the result calls ``name``.

    With a ``recording``, its requests come beside those of the scenario's tenants, and it lasts as long as they did.
    ``on_progress`` hears what part of the time is over, and how many requests have been asked.
    """
    simulation = Simulation(scenario, configuration, recording=recording, windows=windows, on_progress=on_progress)
    return simulation.run(name)


class Simulation:
    """One run."""

    def __init__(
        self,
        scenario: Scenario,
        configuration: Configuration,
        *,
        recording: Recording | None = None,
        windows: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.agenda: Agenda = Agenda()
        self.scenario = scenario
        self.asked: int = 0
        self._on_progress = on_progress
        self._from_ns = scenario.warm_up_ns
        self._end_ns = recording.span_ns if recording else scenario.duration_ns
        if self._from_ns >= self._end_ns:
            rule = f"it must be shorter than what is watched, {self._end_ns / _SECOND:g}s"
            raise InvalidValueError("warmUp", f"{self._from_ns / _SECOND:g}s", rule)
        windows = windows or max(_LEAST_WINDOWS, min(WINDOWS, self._end_ns // _SHORTEST_WINDOW_NS))
        self._window_ns = -(-self._end_ns // windows)
        self._end_ns = self._window_ns * windows
        self._windows = windows
        self._open = 0
        self._is_over = False
        self._dice = Random(f"{scenario.seed}/simulation")  # noqa: S311 - a simulation
        self.sites: list[Site] = [
            Site(self.agenda, configuration, scenario.backend, self) for _ in range(scenario.servers)
        ]
        self._directories = [Directory(configuration, site.controller) for site in self.sites]
        self._turns: Iterator[int] | None = cycle(range(len(self.sites))) if self._in_turn(scenario) else None
        self._responses = configuration.server.responses
        names = [tenant.name for tenant in scenario.tenants]
        recorded = [f"{name} (recorded)" if name in names else name for name in recording.names] if recording else []
        self.ledger: Ledger = Ledger([*names, *recorded], self.sites, self._window_ns, self._from_ns)
        self._prepare(recording)

    @staticmethod
    def _in_turn(scenario: Scenario) -> bool:
        return scenario.servers == 1 or scenario.balancing == "round-robin"

    def _prepare(self, recording: Recording | None) -> None:
        scenario, ledger = self.scenario, self.ledger
        patience = max((tenant.timeout_ns for tenant in scenario.tenants), default=0)
        self._limit_ns = self._end_ns + max(_GRACE_NS, patience)
        clients: dict[str, list[Client]] = {}
        parties = {}
        for tenant, meter in zip(scenario.tenants, ledger.tenants, strict=False):
            parties[tenant.name] = party = Party(meter, self._deadlines(), tenant.timeout_ns, tenant.retries)
            clients[tenant.name] = clients_of(tenant, party, scenario.seed)
            ledger.clients += clients[tenant.name]
        for tenant in scenario.tenants:
            parties[tenant.name].calls = tuple(tuple(clients[name]) for name in tenant.calls)
            for client in clients[tenant.name]:
                begin(self, client, tenant, self._limit_ns)
        if recording is not None:
            meters = ledger.tenants[len(scenario.tenants) :]
            crowd = Crowd([Party(meter, self._deadlines()) for meter in meters], recording, ledger.clients)
            Feed(self, recording.rows(scenario.seed), crowd.client, None, self._limit_ns).begin()
        if self._from_ns:
            self.agenda.at(self._from_ns, _begin_to_count, ledger)
        for number in range(1, self._windows + 1):
            self.agenda.at(number * self._window_ns, self._close_window, number)

    def _deadlines(self) -> Deadlines[Call]:
        return Deadlines(self.agenda, self._give_up, _is_settled)

    def run(self, name: str) -> Result:
        """To the end."""
        events = self.agenda.run()
        return self.ledger.finish(self.scenario.name, name, (self._end_ns - self._from_ns) / _SECOND, events)

    def _close_window(self, number: int) -> None:
        self.ledger.close_window(self.agenda.now)
        if self._on_progress is not None:
            self._on_progress(number / self._windows, self.asked)
        if number == self._windows:
            self._is_over = True
            if self._open:
                self.agenda.at(self._limit_ns, _stop, self.agenda)
            else:
                self.agenda.stop()

    # What clients do

    def ask(
        self,
        client: Client,
        service_ns: int,
        seats: int,
        *,
        connection: Connection | None = None,
        parent: Call | None = None,
    ) -> None:
        """A client means to have something done, from now on."""
        site = self._choose() if parent is None else self.sites.index(parent.site)
        call = Call(client, self.agenda.now, service_ns, self._directories[site].find(client.asker, seats), seats)
        call.connection, call.parent = connection, parent
        work = service_ns * call.weight
        client.asked_ns += work
        client.open_ns += work
        self.asked += 1
        if self._from_ns <= call.due < self._end_ns:
            client.meter.requests += 1
            self._open += 1
        self._try(call, site)

    def replay(self, client: Client, tenant: Tenant, file: str, until: int) -> None:
        """A tenant's requests come when the rows of this file did."""
        rows = Trace(Path(self.scenario.folder) / file).rows(self.scenario.seed)
        Feed(self, rows, lambda _: client, tenant, until).begin()

    def _choose(self) -> int:
        if self._turns is not None:
            return next(self._turns)
        return self._dice.randrange(len(self.sites))

    def _try(self, call: Call, site: int) -> None:
        call.asked_at = now = self.agenda.now
        party = call.client.party
        if self._counts(call):
            party.meter.tries += 1
        if party.timeout_ns:
            party.timeouts.add(now + party.timeout_ns, call)
        self.sites[site].ask(call)

    def _give_up(self, call: Call) -> None:
        """The client has waited long enough."""
        if self._counts(call):
            call.client.meter.timeouts += 1
            self.ledger.levels[call.level].rejected += call.state is _WAITING
        call.client.meter.turned_away += 1
        call.is_settled = True
        call.site.hang_up(call)
        self._conclude(call, "timeout")

    # What becomes of calls

    def _counts(self, call: Call) -> bool:
        """Whether it was made while it is counted."""
        return self._from_ns <= call.asked_at < self._end_ns

    def seated(self, call: Call) -> None:
        now = self.agenda.now
        level = self.ledger.levels[call.level]
        level.change(now, call.width)
        if self._counts(call):
            level.dispatched += 1
            level.waits.add(now - call.arrived_at)

    def served(self, call: Call) -> None:
        """Its own work is done; it makes the calls that it has to."""
        party = call.client.party
        if call.called == len(party.calls) or call.has_failed:
            call.site.end(call)
            return
        callees = party.calls[call.called]
        call.called += 1
        callee = callees[self._dice.randrange(len(callees))] if len(callees) > 1 else callees[0]
        tenant = callee.tenant
        assert tenant is not None, "only tenants of a scenario are called"
        self.ask(callee, tenant.service.draw(callee.dice), draw_seats(tenant, callee.dice), parent=call)

    def answered(self, call: Call) -> None:
        now = self.agenda.now
        level = self.ledger.levels[call.level]
        level.change(now, -call.width)
        if self._counts(call):
            level.latencies.add(now - call.asked_at)
        if not call.is_settled:
            self._conclude(call, "failed" if call.has_failed else "served")

    def rejected(self, call: Call) -> None:
        is_counted = self._counts(call)
        self.ledger.levels[call.level].rejected += is_counted
        if call.is_settled:
            return
        meter = call.client.meter
        meter.turned_away += 1
        if is_counted and call.reason is not None:
            meter.rejected[call.reason] = meter.rejected.get(call.reason, 0) + 1
        self._conclude(call, "rejected")

    def _conclude(self, call: Call, outcome: Outcome) -> None:
        """The client knows what became of this try."""
        call.is_settled = True
        client, now = call.client, self.agenda.now
        retries = client.party.retries
        if retries is not None and outcome in retries.on and call.tries < retries.most:
            self._plan_retry(call)
            return
        work = call.service_ns * call.weight
        client.open_ns -= work
        meter = client.meter
        is_counted = self._from_ns <= call.due < self._end_ns
        if outcome == "served":
            client.got_ns += work
            if self._from_ns <= now < self._end_ns:
                meter.useful_ns += work
            if is_counted:
                meter.served += 1
                meter.fresh.add(now - call.due)
            else:
                meter.aside.add(now - call.due)
        elif is_counted:
            meter.failed += 1
        if call.connection is not None:
            call.connection.go_on(rejected=outcome == "rejected")
        if call.parent is not None:
            call.parent.has_failed = outcome != "served"
            self.agenda.at(now, self.served, call.parent)
        if is_counted:
            self._open -= 1
            if self._is_over and not self._open:
                self.agenda.stop()

    def _plan_retry(self, call: Call) -> None:
        retries = call.client.party.retries
        assert retries is not None, "only who retries plans to"
        wait = retries.back_off.draw(self._dice) * retries.factor**call.tries
        wait = min(wait, retries.longest_ns) * self._dice.uniform(1 - retries.jitter, 1 + retries.jitter)
        if retries.obey and call.reason is not None:
            wait = max(wait, self._told(call) * _SECOND)
        self.agenda.at(self.agenda.now + int(wait), self._again, call)

    def _told(self, call: Call) -> int:
        """The Retry-After that a rejected request is answered with."""
        at_work, settings = call.destination.at_work, self._responses
        return retry_after_s(
            at_work.shared.queueset.waiting + 1,
            at_work.drain.sample(self.agenda.now, at_work.dispatched),
            least=settings.retry_after_least_s,
            most=settings.retry_after_most_s,
            chance=self._dice,
        )

    def _again(self, before: Call) -> None:
        site = self._choose() if before.parent is None else self.sites.index(before.site)
        destination = self._directories[site].find(before.client.asker, before.asked_seats)
        call = Call(before.client, before.due, before.service_ns, destination, before.asked_seats)
        call.connection, call.parent, call.tries = before.connection, before.parent, before.tries + 1
        self._try(call, site)


def _is_settled(call: Call) -> bool:
    return call.is_settled


def _begin_to_count(ledger: Ledger) -> None:
    ledger.begin(ledger.warm_up_ns)


def _stop(agenda: Agenda) -> None:
    agenda.stop()
