"""Simulated clients and their requests: the data that arrival processes, servers and measurements share."""

from dataclasses import InitVar, dataclass, field
from random import Random
from typing import TYPE_CHECKING

from apf_middleware.config.scenario import Retries, Tenant
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime import Admission, Destination
from apf_middleware.runtime.event_queue import FifoTimeouts
from apf_middleware.simulation.destinations import RequestTemplate
from apf_middleware.simulation.meters import TenantMeter

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ClientGroup", "SimulatedClient", "SimulatedRequest"]


class SimulatedRequest:
    """One attempt at a request that ``client`` wanted to make at the time ``due``, after ``tries`` earlier attempts.

    ``admission`` is the attempt's outcome at the server. It takes ``service_ns`` on an idle backend and loads the
    backend with ``weight`` seats: the ``asked_seats`` of the scenario, or else those that the configuration estimates.
    ``parent`` is the request that makes it while it is served, and ``called`` the number of requests that it has made
    itself. ``on_conclusion`` is called at its end, with True if it was rejected; ``on_wake`` when its wait in a queue
    is over. ``told_ns`` is the time limit that the client tells the server, if any. ``refused`` is the reason for which
    the server refuses it before it asks for seats. ``is_settled`` means that the client no longer waits for it, whether
    or not it got a response. It ``is_cut_off`` if its server has crashed.
    """

    __slots__ = (
        "admission",
        "asked_at",
        "asked_seats",
        "called",
        "client",
        "due",
        "has_failed",
        "is_cut_off",
        "is_settled",
        "on_conclusion",
        "on_wake",
        "parent",
        "refused",
        "server_index",
        "service_ns",
        "told_ns",
        "tries",
        "weight",
    )

    on_wake: "Callable[[SimulatedRequest], None]"

    def __init__(
        self,
        client: "SimulatedClient",
        due: int,
        service_ns: int,
        destination: Destination,
        *,
        server_index: int,
        asked_seats: int,
        parent: "SimulatedRequest | None",
    ) -> None:
        self.admission: Admission = Admission(destination)
        self.client: SimulatedClient = client
        self.due: int = due
        self.asked_at: int = due
        self.service_ns: int = service_ns
        self.server_index: int = server_index
        self.asked_seats: int = asked_seats
        self.weight: int = asked_seats or destination.work.width
        self.told_ns: int | None = None
        self.refused: Reason | None = None
        self.tries: int = 0
        self.called: int = 0
        self.is_settled: bool = False
        self.has_failed: bool = False
        self.is_cut_off: bool = False
        self.parent: SimulatedRequest | None = parent
        self.on_conclusion: Callable[[bool], None] | None = None

    @property
    def has_caller(self) -> bool:
        """Whether a caller can still repeat it: a process that has crashed repeats none of its calls."""
        return self.parent is None or not self.parent.is_cut_off

    def wake(self) -> None:
        """End the wait. The server schedules what follows, because the caller is still changing the state."""
        self.admission.waiter = None
        self.on_wake(self)


@dataclass(slots=True, eq=False)
class ClientGroup:
    """The properties that all clients of a tenant share. ``callees`` are the clients of each tenant that it calls."""

    meter: TenantMeter
    timeouts: FifoTimeouts[SimulatedRequest]
    timeout_ns: int = 0
    retries: Retries | None = None
    callees: "tuple[tuple[SimulatedClient, ...], ...]" = ()


@dataclass(slots=True, eq=False)
class SimulatedClient:
    """One client of a tenant, with a random generator of its own and the work that it asked for and got.

    Amounts of work are in seat-nanoseconds. ``open_ns`` is the work that it waits for. In the current window,
    ``begun_ns`` is the work that it waited for at the start, ``asked_ns`` what it has asked for since, and ``got_ns``
    what it got. ``all_asked_ns`` and ``all_got_ns`` are the sums over all windows that count. Of a recorded request,
    ``patience_ns`` is the time after which its client has hung up, 0 if it hasn't, and ``told_ns`` the time limit that
    it has brought, if any. ``refused`` is the reason for which it was refused before it asked for seats.
    """

    group: ClientGroup
    template: RequestTemplate
    tenant: Tenant | None = None
    seed: InitVar[str] = ""
    dice: Random = field(init=False)
    open_ns: int = 0
    begun_ns: int = 0
    asked_ns: int = 0
    got_ns: int = 0
    all_asked_ns: int = 0
    all_got_ns: int = 0
    patience_ns: int = 0
    told_ns: int | None = None
    refused: Reason | None = None

    def __post_init__(self, seed: str) -> None:
        self.dice = Random(seed)  # noqa: S311 - a simulation

    @property
    def meter(self) -> TenantMeter:
        return self.group.meter
