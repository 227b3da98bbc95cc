"""Arrival processes: the times at which clients make requests.

Each client draws times, kinds and durations from a random generator that nothing else uses. Two configurations
therefore meet exactly the same arrivals and service times (common random numbers), and the results differ only by what
the configurations do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Protocol

from apf_middleware.classification.digest import identity_of
from apf_middleware.config.scenario import (
    BurstArrivals,
    CalledArrivals,
    ClosedArrivals,
    PoissonArrivals,
    ReplayedArrivals,
    SteadyArrivals,
    Tenant,
)
from apf_middleware.copying import Value
from apf_middleware.runtime.event_queue import EventQueue
from apf_middleware.simulation.destinations import RequestTemplate
from apf_middleware.simulation.requests import ClientGroup, SimulatedClient

__all__ = ["Arrivals", "Submit", "clients_of", "draw_seats"]

_SECOND = 10**9


class Submit(Protocol):
    """Makes a request of a client now."""

    def __call__(
        self,
        client: SimulatedClient,
        service_ns: int,
        seats: int,
        *,
        on_conclusion: Callable[[bool], None] | None = None,
    ) -> None: ...


def clients_of(tenant: Tenant, group: ClientGroup, seed: int) -> list[SimulatedClient]:
    """Return the clients of a tenant."""
    return [
        SimulatedClient(group, _template(tenant, str(number)), tenant, f"{seed}/{tenant.name}/{number}")
        for number in range(tenant.count)
    ]


def _template(tenant: Tenant, number: str) -> RequestTemplate:
    def numbered(text: str) -> str:
        return text.replace("{n}", number)

    return RequestTemplate(
        identity=identity_of(numbered(tenant.user_name), tuple(map(numbered, tenant.groups))),
        method=tenant.request.method,
        path=numbered(tenant.request.path),
        host=numbered(tenant.request.host),
        headers={name: numbered(value) for name, value in tenant.request.headers.items()},
        client_address=numbered(tenant.request.client_address),
    )


def draw_seats(tenant: Tenant, dice: Random) -> int:
    """Return the seats that the next request needs; 0 leaves them to the configuration's estimate."""
    widths = tenant.widths
    if not widths:
        return 0
    if len(widths) == 1:
        return widths[0].seats
    weights = list(accumulate(width.weight for width in widths))
    return dice.choices(widths, cum_weights=weights)[0].seats


@dataclass(frozen=True, slots=True)
class Arrivals(Value):
    """Makes the requests of clients: schedules them in ``events`` and calls ``submit`` for each."""

    events: EventQueue
    submit: Submit

    def begin(self, client: SimulatedClient, tenant: Tenant, limit: int) -> None:
        """Let a client make requests until its tenant ends, or until ``limit``.

        A client that is only called by others makes none by itself; a recorded one gets its requests from a file.
        """
        arrivals = tenant.arrivals
        until = limit if tenant.end_ns is None else min(limit, tenant.end_ns)
        if isinstance(arrivals, ClosedArrivals):
            for number in range(arrivals.connections):
                dice = Random(f"{client.dice.random()}/{number}")  # noqa: S311 - a simulation
                self._begin_closed_loop(client, tenant, arrivals, dice, until)
        elif isinstance(arrivals, PoissonArrivals):
            self._begin_open_loop(client, tenant, _poisson_times(client.dice, arrivals.rate, tenant.begin_ns), until)
        elif isinstance(arrivals, SteadyArrivals):
            self._begin_open_loop(client, tenant, _steady_times(client.dice, arrivals.rate, tenant.begin_ns), until)
        elif isinstance(arrivals, BurstArrivals):
            self._begin_open_loop(client, tenant, _burst_times(client.dice, arrivals, tenant.begin_ns, until), until)
        else:
            assert isinstance(arrivals, CalledArrivals | ReplayedArrivals), f"unknown arrivals: {arrivals!r}"

    def _begin_open_loop(self, client: SimulatedClient, tenant: Tenant, times: Iterator[float], until: int) -> None:
        """Make requests at ``times``, which don't depend on the responses."""

        def schedule() -> None:
            at = next(times)
            if at < until:
                self.events.at(int(at), make_request, None)

        def make_request(_: None) -> None:
            # Service time, seats and next arrival are always drawn in this order, for any outcome of the request.
            service_ns = tenant.service.draw(client.dice)
            seats = draw_seats(tenant, client.dice)
            schedule()
            self.submit(client, service_ns, seats)

        schedule()

    def _begin_closed_loop(
        self, client: SimulatedClient, tenant: Tenant, arrivals: ClosedArrivals, dice: Random, until: int
    ) -> None:
        """Make requests on one connection, each some time after the response to the one before."""

        def make_request(_: None) -> None:
            if self.events.now < until:
                service_ns = tenant.service.draw(dice)
                self.submit(client, service_ns, draw_seats(tenant, dice), on_conclusion=wait)

        def wait(is_rejected: bool) -> None:  # noqa: FBT001 - called with the outcome of the request
            pause = (arrivals.pause if is_rejected else arrivals.think).draw(dice)
            self.events.at(self.events.now + pause, make_request, None)

        think = arrivals.think.draw(dice)
        self.events.at(tenant.begin_ns + int(dice.random() * think), make_request, None)


def _poisson_times(dice: Random, rate: float, at: float) -> Iterator[float]:
    mean_ns = _SECOND / rate
    while True:
        at += dice.expovariate(1.0) * mean_ns
        yield at


def _steady_times(dice: Random, rate: float, at: float) -> Iterator[float]:
    """Yield times at equal intervals; each client starts at a random time within the first one."""
    mean_ns = _SECOND / rate
    at -= dice.random() * mean_ns
    while True:
        at += mean_ns
        yield at


def _burst_times(dice: Random, arrivals: BurstArrivals, at: float, until: int) -> Iterator[float]:
    """Yield Poisson arrivals at two rates in turn; a gap that reaches into the next phase continues at that rate."""
    is_on, phase_ends = False, at
    while True:
        begin = at
        expected = dice.expovariate(1.0)  # arrivals until the next one; a phase contributes its rate times its length
        while at < until:
            if at >= phase_ends:
                is_on = not is_on
                phase_ends = at + max(1, (arrivals.on if is_on else arrivals.off).draw(dice))
            rate = (arrivals.rate if is_on else arrivals.idle_rate) / _SECOND
            in_phase = rate * (phase_ends - at)
            if in_phase > expected:
                at += expected / rate
                break
            expected -= in_phase
            at = phase_ends
        at = begin + (at - begin)  # rounded like a sum of gaps
        yield at
