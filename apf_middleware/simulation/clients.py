"""Those who ask: callers with dice of their own, and when they ask.

Each caller draws when, what and how long from dice that nothing else touches. So two configurations meet the very same
arrivals and service times (common random numbers), and what differs in the end is the configurations' doing.
"""

from abc import ABC, abstractmethod
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING

from apf_middleware.config.scenario import (
    BurstArrivals,
    CalledArrivals,
    ClosedArrivals,
    PoissonArrivals,
    Retries,
    SteadyArrivals,
    Tenant,
)
from apf_middleware.simulation.agenda import Deadlines
from apf_middleware.simulation.call import Call
from apf_middleware.simulation.directory import Asker, identity_of

if TYPE_CHECKING:
    from apf_middleware.simulation.agenda import Agenda
    from apf_middleware.simulation.measure import TenantMeter
    from apf_middleware.simulation.run import Simulation

__all__ = ["Client", "Connection", "Party", "begin", "clients_of", "draw_seats"]

_SECOND = 10**9


class Party:
    """What all callers of a tenant have in common."""

    __slots__ = ("calls", "meter", "retries", "timeout_ns", "timeouts")

    def __init__(
        self, meter: "TenantMeter", timeouts: Deadlines[Call], timeout_ns: int = 0, retries: Retries | None = None
    ) -> None:
        self.meter: TenantMeter = meter
        self.timeouts: Deadlines[Call] = timeouts
        self.timeout_ns: int = timeout_ns
        self.retries: Retries | None = retries
        self.calls: tuple[tuple[Client, ...], ...] = ()


class Client:
    """One caller. In seat-nanoseconds: ``open_ns`` is what it waits for; of this window, ``begun_ns`` is what it waited
    for at its begin, ``asked_ns`` what it has asked for since, and ``got_ns`` what it was given. ``all_asked_ns`` and
    ``all_got_ns`` are of all windows that count.
    """

    __slots__ = (
        "all_asked_ns",
        "all_got_ns",
        "asked_ns",
        "asker",
        "begun_ns",
        "dice",
        "got_ns",
        "meter",
        "open_ns",
        "party",
        "tenant",
    )

    all_asked_ns: int
    all_got_ns: int
    asked_ns: int
    begun_ns: int
    got_ns: int
    open_ns: int

    def __init__(self, party: Party, asker: Asker, tenant: Tenant | None = None, seed: str = "") -> None:
        self.party: Party = party
        self.meter: TenantMeter = party.meter
        self.asker: Asker = asker
        self.tenant: Tenant | None = tenant
        self.dice: Random = Random(seed)  # noqa: S311 - a simulation
        self.open_ns = self.begun_ns = self.asked_ns = self.got_ns = 0
        self.all_asked_ns = self.all_got_ns = 0


def clients_of(tenant: Tenant, party: Party, seed: int) -> list[Client]:
    """The callers of a tenant."""
    return [
        Client(party, _asker(tenant, str(number)), tenant, f"{seed}/{tenant.name}/{number}")
        for number in range(tenant.count)
    ]


def _asker(tenant: Tenant, number: str) -> Asker:
    def numbered(text: str) -> str:
        return text.replace("{n}", number)

    return Asker(
        identity=identity_of(numbered(tenant.user), tuple(map(numbered, tenant.groups))),
        method=tenant.method,
        path=numbered(tenant.path),
        host=numbered(tenant.host),
        headers={name: numbered(value) for name, value in tenant.headers.items()},
        client_address=numbered(tenant.client_address),
    )


def begin(simulation: "Simulation", client: Client, tenant: Tenant, end_ns: int) -> None:
    """Let a caller begin to ask; it stops at ``end_ns``, or when the tenant does."""
    until = end_ns if tenant.end_ns is None else min(end_ns, tenant.end_ns)
    arrivals = tenant.arrivals
    if isinstance(arrivals, ClosedArrivals):
        for number in range(arrivals.connections):
            dice = Random(f"{client.dice.random()}/{number}")  # noqa: S311 - a simulation
            Connection(simulation, client, tenant, arrivals, dice=dice, until=until)
    elif isinstance(arrivals, PoissonArrivals):
        _Poisson(simulation, client, tenant, arrivals.rate, until).plan_first()
    elif isinstance(arrivals, SteadyArrivals):
        _Steady(simulation, client, tenant, arrivals.rate, until).plan_first()
    elif isinstance(arrivals, BurstArrivals):
        _Bursts(simulation, client, tenant, arrivals, until).plan_first()
    elif not isinstance(arrivals, CalledArrivals):
        simulation.replay(client, tenant, arrivals.file, until)


def draw_seats(tenant: Tenant, dice: Random) -> int:
    """How many seats the next request is wide; 0 leaves it to the configuration."""
    widths = tenant.widths
    if not widths:
        return 0
    if len(widths) == 1:
        return widths[0][1]
    return dice.choices([seats for _, seats in widths], cum_weights=list(accumulate(weight for weight, _ in widths)))[0]


class _Open(ABC):
    """Asks at times that don't depend on what becomes of it."""

    __slots__ = ("_agenda", "_at", "_client", "_mean_ns", "_simulation", "_tenant", "_until")

    def __init__(self, simulation: "Simulation", client: Client, tenant: Tenant, rate: float, until: int) -> None:
        self._simulation = simulation
        self._agenda: Agenda = simulation.agenda
        self._client = client
        self._tenant = tenant
        self._mean_ns = _SECOND / rate
        self._until = until
        self._at = float(tenant.begin_ns)

    def plan_first(self) -> None:
        self._plan()

    def _plan(self) -> None:
        self._at += self._gap()
        if self._at < self._until:
            self._agenda.at(int(self._at), self._fire, None)

    @abstractmethod
    def _gap(self) -> float:
        """How long it is to the next one, in nanoseconds."""

    def _fire(self, _: None) -> None:
        client, tenant = self._client, self._tenant
        service_ns = tenant.service.draw(client.dice)
        seats = draw_seats(tenant, client.dice)
        self._plan()
        self._simulation.ask(client, service_ns, seats)


class _Poisson(_Open):
    __slots__ = ()

    def _gap(self) -> float:
        return self._client.dice.expovariate(1.0) * self._mean_ns


class _Steady(_Open):
    __slots__ = ()

    def plan_first(self) -> None:
        self._at -= self._client.dice.random() * self._mean_ns
        self._plan()

    def _gap(self) -> float:
        return self._mean_ns


class _Bursts(_Open):
    """Poisson at two rates in turns; a gap that reaches into the next phase goes on there at its rate."""

    __slots__ = ("_arrivals", "_is_on", "_phase_ends")

    def __init__(
        self, simulation: "Simulation", client: Client, tenant: Tenant, arrivals: BurstArrivals, until: int
    ) -> None:
        super().__init__(simulation, client, tenant, arrivals.rate, until)
        self._arrivals = arrivals
        self._is_on = False
        self._phase_ends = self._at

    def _gap(self) -> float:
        dice, arrivals, at = self._client.dice, self._arrivals, self._at
        units = dice.expovariate(1.0)  # of arrivals expected, of which each phase has rate * length
        while at < self._until:
            if at >= self._phase_ends:
                self._is_on = not self._is_on
                length = (arrivals.on if self._is_on else arrivals.off).draw(dice)
                self._phase_ends = at + max(1, length)
            rate = (arrivals.rate if self._is_on else arrivals.idle_rate) / _SECOND
            expected = rate * (self._phase_ends - at)
            if expected > units:
                return at + units / rate - self._at
            units -= expected
            at = self._phase_ends
        return at - self._at


class Connection:
    """One connection of a closed loop."""

    __slots__ = ("_arrivals", "_client", "_dice", "_simulation", "_tenant", "_until")

    def __init__(
        self,
        simulation: "Simulation",
        client: Client,
        tenant: Tenant,
        arrivals: ClosedArrivals,
        *,
        dice: Random,
        until: int,
    ) -> None:
        self._simulation = simulation
        self._client = client
        self._tenant = tenant
        self._arrivals = arrivals
        self._dice = dice
        self._until = until
        think = arrivals.think.draw(dice)
        simulation.agenda.at(tenant.begin_ns + int(dice.random() * think), self._ask, None)

    def _ask(self, _: None) -> None:
        if self._simulation.agenda.now < self._until:
            service_ns = self._tenant.service.draw(self._dice)
            seats = draw_seats(self._tenant, self._dice)
            self._simulation.ask(self._client, service_ns, seats, connection=self)

    def go_on(self, *, rejected: bool) -> None:
        """It has its answer."""
        wait = (self._arrivals.pause if rejected else self._arrivals.think).draw(self._dice)
        self._simulation.agenda.at(self._simulation.agenda.now + wait, self._ask, None)
