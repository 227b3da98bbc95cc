"""Arrival processes: when clients make requests.

Each client draws times, kinds and durations from a random generator that nothing else uses. Two configurations
therefore meet exactly the same arrivals and service times (common random numbers), and the results differ only by what
the configurations do.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Protocol

from apf_middleware.config.scenario import (
    BurstArrivals,
    CalledArrivals,
    ClosedArrivals,
    PoissonArrivals,
    ReplayedArrivals,
    SteadyArrivals,
    Tenant,
)
from apf_middleware.simulation.destinations import RequestTemplate, identity_of
from apf_middleware.simulation.events import EventQueue
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
        identity=identity_of(numbered(tenant.user), tuple(map(numbered, tenant.groups))),
        method=tenant.method,
        path=numbered(tenant.path),
        host=numbered(tenant.host),
        headers={name: numbered(value) for name, value in tenant.headers.items()},
        client_address=numbered(tenant.client_address),
    )


def draw_seats(tenant: Tenant, dice: Random) -> int:
    """Return the seats that the next request needs; 0 leaves them to the configuration's estimate."""
    widths = tenant.widths
    if not widths:
        return 0
    if len(widths) == 1:
        return widths[0][1]
    return dice.choices([seats for _, seats in widths], cum_weights=list(accumulate(weight for weight, _ in widths)))[0]


@dataclass(frozen=True, slots=True)
class Arrivals:
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
                _Connection(self, client, tenant, arrivals, dice=dice, until=until)
        elif isinstance(arrivals, PoissonArrivals):
            _OpenLoop(self, client, tenant, _Poisson(arrivals.rate), until)
        elif isinstance(arrivals, SteadyArrivals):
            _OpenLoop(self, client, tenant, _Steady(arrivals.rate), until)
        elif isinstance(arrivals, BurstArrivals):
            _OpenLoop(self, client, tenant, _Bursts(arrivals, tenant.begin_ns, until), until)
        else:
            assert isinstance(arrivals, CalledArrivals | ReplayedArrivals), f"unknown arrivals: {arrivals!r}"


class _Gaps(ABC):
    """The distribution of the times between arrivals, in nanoseconds."""

    __slots__ = ()

    def offset(self, dice: Random) -> float:  # noqa: ARG002 - most have none
        """Return how long before the tenant's start the first gap begins."""
        return 0.0

    @abstractmethod
    def draw(self, dice: Random, at: float) -> float:
        """Return the gap that begins at ``at``."""


class _Poisson(_Gaps):
    __slots__ = ("_mean_ns",)

    def __init__(self, rate: float) -> None:
        self._mean_ns = _SECOND / rate

    def draw(self, dice: Random, at: float) -> float:  # noqa: ARG002 - the same at any time
        return dice.expovariate(1.0) * self._mean_ns


class _Steady(_Gaps):
    """Equal gaps; each client starts somewhere within its first one."""

    __slots__ = ("_mean_ns",)

    def __init__(self, rate: float) -> None:
        self._mean_ns = _SECOND / rate

    def offset(self, dice: Random) -> float:
        return dice.random() * self._mean_ns

    def draw(self, dice: Random, at: float) -> float:  # noqa: ARG002 - always the same
        return self._mean_ns


class _Bursts(_Gaps):
    """Poisson arrivals at two rates in turn; a gap that reaches into the next phase goes on at that phase's rate."""

    __slots__ = ("_arrivals", "_is_on", "_phase_ends", "_until")

    def __init__(self, arrivals: BurstArrivals, begin: float, until: int) -> None:
        self._arrivals = arrivals
        self._is_on = False
        self._phase_ends = begin
        self._until = until

    def draw(self, dice: Random, at: float) -> float:
        arrivals, begin = self._arrivals, at
        expected = dice.expovariate(1.0)  # arrivals until the next one; a phase contributes its rate times its length
        while at < self._until:
            if at >= self._phase_ends:
                self._is_on = not self._is_on
                length = (arrivals.on if self._is_on else arrivals.off).draw(dice)
                self._phase_ends = at + max(1, length)
            rate = (arrivals.rate if self._is_on else arrivals.idle_rate) / _SECOND
            in_phase = rate * (self._phase_ends - at)
            if in_phase > expected:
                return at + expected / rate - begin
            expected -= in_phase
            at = self._phase_ends
        return at - begin


class _OpenLoop:
    """Makes requests at times that don't depend on the responses."""

    __slots__ = ("_at", "_client", "_events", "_gaps", "_submit", "_tenant", "_until")

    def __init__(self, arrivals: Arrivals, client: SimulatedClient, tenant: Tenant, gaps: _Gaps, until: int) -> None:
        self._events = arrivals.events
        self._submit = arrivals.submit
        self._client = client
        self._tenant = tenant
        self._gaps = gaps
        self._until = until
        self._at = tenant.begin_ns - gaps.offset(client.dice)
        self._schedule()

    def _schedule(self) -> None:
        self._at += self._gaps.draw(self._client.dice, self._at)
        if self._at < self._until:
            self._events.at(int(self._at), self._make_request, None)

    def _make_request(self, _: None) -> None:
        client, tenant = self._client, self._tenant
        service_ns = tenant.service.draw(client.dice)
        seats = draw_seats(tenant, client.dice)
        self._schedule()
        self._submit(client, service_ns, seats)


class _Connection:
    """Makes requests in a closed loop: each some time after the response to the one before."""

    __slots__ = ("_arrivals", "_client", "_dice", "_events", "_submit", "_tenant", "_until")

    def __init__(
        self,
        arrivals: Arrivals,
        client: SimulatedClient,
        tenant: Tenant,
        closed: ClosedArrivals,
        *,
        dice: Random,
        until: int,
    ) -> None:
        self._events = arrivals.events
        self._submit = arrivals.submit
        self._client = client
        self._tenant = tenant
        self._arrivals = closed
        self._dice = dice
        self._until = until
        think = closed.think.draw(dice)
        self._events.at(tenant.begin_ns + int(dice.random() * think), self._make_request, None)

    def _make_request(self, _: None) -> None:
        if self._events.now < self._until:
            service_ns = self._tenant.service.draw(self._dice)
            seats = draw_seats(self._tenant, self._dice)
            self._submit(self._client, service_ns, seats, on_conclusion=self._continue)

    def _continue(self, is_rejected: bool) -> None:  # noqa: FBT001 - called with what became of the request
        wait = (self._arrivals.pause if is_rejected else self._arrivals.think).draw(self._dice)
        self._events.at(self._events.now + wait, self._make_request, None)
