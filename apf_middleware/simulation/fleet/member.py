"""A member of a simulated fleet: the production member of a simulated server, and the times of its reports."""

from collections.abc import Callable

from apf_middleware.config.fleet import FleetSettings
from apf_middleware.fairqueuing import Lending
from apf_middleware.fleet.membership import Membership
from apf_middleware.fleet.messages import Grant, Report
from apf_middleware.runtime import Controller
from apf_middleware.runtime.event_queue import EventQueue, VirtualTimer
from apf_middleware.runtime.fleet.budget import StatedBudget
from apf_middleware.runtime.fleet.member import FleetMember

__all__ = ["SimulatedMember"]

_SECOND = 10**9


class SimulatedMember:
    """The member ``name``, in the place ``number``, with the seats of ``controller``; ``send`` takes its reports.

    It reports as the processes of a store do: at once when it is woken, but not sooner than the gap of the member after
    its last report, and otherwise after its pause.
    """

    def __init__(
        self,
        name: str,
        number: int,
        controller: Controller,
        *,
        settings: FleetSettings,
        events: EventQueue,
        send: Callable[["SimulatedMember", Report], None],
    ) -> None:
        sharing = controller.sharing
        assert isinstance(sharing, Lending), "the configuration requires it"
        configured = StatedBudget(controller)
        membership = Membership(name, lease_ns=settings.lease_ns, floor=configured.budget().floor)
        self.name: str = name
        self.number: int = number
        self.has_ended: bool = False
        self.production: FleetMember = FleetMember(
            membership,
            sharing,
            controller,
            now=events.read,
            interval_ns=settings.interval_ns,
            configured=configured,
            fleet=settings.name,
        )
        self._events = events
        self._send = send
        self._timer = VirtualTimer(events, self._report)
        self.production.wake = self._wake
        controller.member = self.production

    def begin(self, epoch: int, at: int) -> None:
        """Report to the allocator of this ``epoch``, for the first time ``at``."""
        self.production.membership.join(epoch)
        self._timer.ask(at)

    def join(self, epoch: int) -> None:
        """Report to the allocator of this ``epoch`` from now on, and at once."""
        if not self.has_ended:
            self.production.membership.join(epoch)
            self._wake()

    def end(self) -> None:
        """End with the process."""
        self.has_ended = True

    def receive(self, grant: Grant) -> None:
        """Apply a grant that has arrived."""
        if not self.has_ended:
            self.production.receive(grant)

    def _wake(self) -> None:
        self._timer.ask(self._events.now + int(self.production.gap_s() * _SECOND))

    def _report(self) -> None:
        if not self.has_ended:
            report = self.production.report()
            self._timer.ask(self._events.now + max(1, int(self.production.pause_s() * _SECOND)))
            self._send(self, report)

    def __repr__(self) -> str:
        return f"<SimulatedMember {self.name!r}: {self.production!r}>"
