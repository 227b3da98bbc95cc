"""One attempt of a client: the production's admission, and what the client knows of it."""

from typing import TYPE_CHECKING

from apf_middleware.runtime import Admission, Destination

if TYPE_CHECKING:
    from apf_middleware.runtime.vigil import Wakeable
    from apf_middleware.simulation.clients import Client, Connection
    from apf_middleware.simulation.site import Site

__all__ = ["Call"]


class Call(Admission):
    """A request that ``client`` has been meaning to make since ``due``; ``tries`` went before this one.

    It takes ``service_ns`` where nothing is busy, and presses on the backend with ``weight`` seats: those that it was
    said to need, ``asked_seats``, or else those that the configuration estimates. ``parent`` is the call in the course
    of which it is made, and ``called`` how many it has made itself. ``is_settled`` says that the client doesn't wait
    for it any more, with an answer or without.
    """

    __slots__ = (
        "asked_at",
        "asked_seats",
        "called",
        "client",
        "connection",
        "due",
        "has_failed",
        "is_settled",
        "parent",
        "service_ns",
        "site",
        "tries",
        "weight",
    )

    asked_at: int
    due: int

    site: "Site"

    def __init__(
        self, client: "Client", due: int, service_ns: int, destination: Destination, asked_seats: int = 0
    ) -> None:
        super().__init__(destination)
        self.client: Client = client
        self.due = self.asked_at = due
        self.service_ns: int = service_ns
        self.asked_seats: int = asked_seats
        self.weight: int = asked_seats or self.width
        self.tries: int = 0
        self.called: int = 0
        self.is_settled: bool = False
        self.has_failed: bool = False
        self.parent: Call | None = None
        self.connection: Connection | None = None

    def wake(self) -> None:
        """Its wait is over; what follows is planned, for whoever wakes it is in the midst of something."""
        self.waiter: Wakeable | None = None
        self.site.woken(self)
