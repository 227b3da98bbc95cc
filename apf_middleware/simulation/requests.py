"""Simulated clients and their requests: the data that arrival processes, servers and measurements share."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from apf_middleware.config.scenario import Retries, Tenant
from apf_middleware.runtime import Admission, Destination
from apf_middleware.simulation.destinations import RequestTemplate
from apf_middleware.simulation.events import FifoTimeouts
from apf_middleware.simulation.meters import TenantMeter

if TYPE_CHECKING:
    from apf_middleware.runtime.admission import Wakeable

__all__ = ["ClientGroup", "SimulatedClient", "SimulatedRequest"]


class SimulatedRequest(Admission):
    """One attempt at a request that ``client`` has wanted served since ``due``; ``tries`` attempts came before it.

    It takes ``service_ns`` on an idle backend and loads the backend with ``weight`` seats: the ``asked_seats`` of the
    scenario, or else those that the configuration estimates. ``parent`` is the request in the course of which it is
    made, and ``called`` the number of requests that it has made itself. ``on_conclusion`` is called with whether it
    was rejected, ``on_wake`` when its wait in a queue is over. ``is_settled`` means that the client no longer waits
    for it, with a response or without.
    """

    __slots__ = (
        "asked_at",
        "asked_seats",
        "called",
        "client",
        "due",
        "has_failed",
        "is_settled",
        "on_conclusion",
        "on_wake",
        "parent",
        "server_index",
        "service_ns",
        "tries",
        "weight",
    )

    asked_at: int
    due: int

    on_wake: "Callable[[SimulatedRequest], None]"

    def __init__(
        self,
        client: "SimulatedClient",
        due: int,
        service_ns: int,
        destination: Destination,
        *,
        server_index: int = 0,
        asked_seats: int = 0,
        tries: int = 0,
        parent: "SimulatedRequest | None" = None,
        on_conclusion: Callable[[bool], None] | None = None,
    ) -> None:
        super().__init__(destination)
        self.client: SimulatedClient = client
        self.due = self.asked_at = due
        self.service_ns: int = service_ns
        self.server_index: int = server_index
        self.asked_seats: int = asked_seats
        self.weight: int = asked_seats or self.width
        self.tries: int = tries
        self.called: int = 0
        self.is_settled: bool = False
        self.has_failed: bool = False
        self.parent: SimulatedRequest | None = parent
        self.on_conclusion: Callable[[bool], None] | None = on_conclusion

    def wake(self) -> None:
        """End the wait. The server schedules what follows, because the caller is in the midst of a state change."""
        self.waiter: Wakeable | None = None
        self.on_wake(self)


class ClientGroup:
    """What all clients of a tenant have in common. ``callees`` are the clients of each tenant that it calls."""

    __slots__ = ("callees", "meter", "retries", "timeout_ns", "timeouts")

    def __init__(
        self,
        meter: TenantMeter,
        timeouts: FifoTimeouts[SimulatedRequest],
        timeout_ns: int = 0,
        retries: Retries | None = None,
    ) -> None:
        self.meter: TenantMeter = meter
        self.timeouts: FifoTimeouts[SimulatedRequest] = timeouts
        self.timeout_ns: int = timeout_ns
        self.retries: Retries | None = retries
        self.callees: tuple[tuple[SimulatedClient, ...], ...] = ()


class SimulatedClient:
    """One client of a tenant, with a random generator of its own and the work that it asked for and got.

    All works are seat-nanoseconds. ``open_ns`` is the work that it waits for. In the current window, ``begun_ns`` is
    the work that it waited for at the start, ``asked_ns`` what it has asked for since, and ``got_ns`` what it got.
    ``all_asked_ns`` and ``all_got_ns`` are the sums over all windows that count.
    """

    __slots__ = (
        "all_asked_ns",
        "all_got_ns",
        "asked_ns",
        "begun_ns",
        "dice",
        "got_ns",
        "group",
        "meter",
        "open_ns",
        "template",
        "tenant",
    )

    all_asked_ns: int
    all_got_ns: int
    asked_ns: int
    begun_ns: int
    got_ns: int
    open_ns: int

    def __init__(
        self, group: ClientGroup, template: RequestTemplate, tenant: Tenant | None = None, seed: str = ""
    ) -> None:
        self.group: ClientGroup = group
        self.meter: TenantMeter = group.meter
        self.template: RequestTemplate = template
        self.tenant: Tenant | None = tenant
        self.dice: Random = Random(seed)  # noqa: S311 - a simulation
        self.open_ns = self.begun_ns = self.asked_ns = self.got_ns = 0
        self.all_asked_ns = self.all_got_ns = 0
