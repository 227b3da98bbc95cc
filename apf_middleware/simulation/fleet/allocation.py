"""The allocator of one epoch of a simulated fleet: the production allocator, and the times of its divisions."""

from collections.abc import Callable, Collection

from apf_middleware.fleet.allocator import Allocator
from apf_middleware.fleet.messages import Grant, Report
from apf_middleware.runtime.event_queue import EventQueue, VirtualTimer

__all__ = ["SimulatedAllocation"]


class SimulatedAllocation:
    """Runs ``allocator``: it divides the seats ``division_ns`` after a report, and at each interval.

    Reports that arrive until then are taken together. ``send`` takes the grants by the names of members. If the store
    ``passes_on`` seats, it does so when a report arrives. ``live_members`` returns the members that may have grants of
    an earlier epoch. ``divisions`` counts the rounds, and ``divide`` can be replaced to measure them.
    """

    def __init__(
        self,
        allocator: Allocator,
        events: EventQueue,
        *,
        division_ns: int,
        interval_ns: int,
        send: Callable[[str, Grant], None],
        live_members: Callable[[], Collection[str]],
        passes_on: bool = False,
    ) -> None:
        self.allocator: Allocator = allocator
        self.divide: Callable[[int, Collection[str]], dict[str, Grant]] = allocator.divide
        self.has_ended: bool = False
        self.divisions: int = 0
        self._events = events
        self._division_ns = division_ns
        self._interval_ns = interval_ns
        self._send = send
        self._live_members = live_members
        self._passes_on = passes_on
        self._asking: set[str] = set()
        self._timer = VirtualTimer(events, self._divide)
        self._timer.ask(events.now + interval_ns)

    def receive(self, report: Report) -> None:
        """Take a report that has arrived."""
        allocator, now = self.allocator, self._events.now
        if not self.has_ended and report.epoch == allocator.epoch:
            allocator.receive(now, report)
            standing = allocator.standing
            if standing is not None and standing.is_due(report):
                allocator.take(now)
                self._send(standing.member, standing.grant)
            self._asking.add(report.member)
            self._timer.ask(now + self._division_ns)

    def forget(self, member: str) -> None:
        """Free the seats of a member whose process has certainly ended."""
        if not self.has_ended:
            self.allocator.leave(self._events.now, member)
            self._timer.ask(self._events.now + self._division_ns)

    def end(self) -> None:
        """End with the process."""
        self.has_ended = True

    def _divide(self) -> None:
        if self.has_ended:
            return
        now = self._events.now
        self.divisions += 1
        self._timer.ask(now + self._interval_ns)
        if self.allocator.is_learning(now):
            self.allocator.expect(self._live_members())
        asking, self._asking = self._asking, set()
        for name, grant in self.divide(now, asking).items():
            self._send(name, grant)
        if self._passes_on:
            self.allocator.standing = self.allocator.stand(now)

    def __repr__(self) -> str:
        return f"<SimulatedAllocation after {self.divisions} divisions: {self.allocator!r}>"
