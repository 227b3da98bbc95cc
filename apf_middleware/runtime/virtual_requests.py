"""Requests that run at once, while their admissions wait and hold seats as they would have.

So a server shows what its configuration would do, without doing it. A virtual request waits in the queue of its flow
until it gets seats, and then holds them for as long as the real one has run, or still runs. So all that is counted is
as if requests were limited, with one difference: the real requests run all at once, and may take longer for that.

What the app does with the seats that it doesn't have is done with the virtual ones: `Admission.release` gives them back
after the time for which the real request had run, and `Admission.charge` bills them.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from apf_middleware.fairqueuing import Reason, TicketState
from apf_middleware.runtime.admission import Admission
from apf_middleware.runtime.alarm import Alarm, AnyAlarm
from apf_middleware.runtime.timeouts import Timeouts

if TYPE_CHECKING:
    from apf_middleware.runtime.open_streams import Stream

__all__ = ["VirtualRequest", "VirtualRequests"]

_SEATED: Final = TicketState.SEATED
_WAITING: Final = TicketState.WAITING


class VirtualRequest:
    """One request that has begun at ``began_at``; ``lasted_ns`` is None while it runs and needs its seats.

    It ``is_long_lived`` if it has given its seats back before its response has ended.
    """

    __slots__ = (
        "_charged",
        "_failure",
        "_requests",
        "admission",
        "began_at",
        "is_long_lived",
        "lasted_ns",
    )

    def __init__(self, admission: Admission, began_at: int, requests: "VirtualRequests") -> None:
        self.admission: Admission = admission
        self.began_at: int = began_at
        self.lasted_ns: int | None = None
        self._requests = requests
        self.is_long_lived: bool = False
        self._failure: tuple[int, bool] | None = None
        self._charged: float | None = None

    def wake(self) -> None:
        """Note that the virtual wait is over."""
        self._requests.note_woken(self)

    def fail(self, status: int = 500, *, aborted: bool = False) -> None:
        """Note how the real request has failed; this counts when the virtual one has had its seats."""
        if self._failure is None:
            self._failure = status, aborted
            if self.admission.state is TicketState.RELEASED:
                self.count_failure()

    def count_failure(self) -> None:
        """Count the failure, if there is one."""
        if self._failure is not None:
            status, aborted = self._failure
            self.admission.fail(status, aborted=aborted)

    def finish(self) -> None:
        """Note that the real request needs its seats no longer; further calls do nothing."""
        if self.lasted_ns is None:
            self._requests.note_finished(self)

    def release(self, long_term: "Callable[[], Stream]") -> None:
        """Give the seats back before the response has ended, if there is a place for the stream."""
        # Afterwards the request can't become one, but a task that its app has left behind may still try.
        if self.lasted_ns is None and self.admission.reason is None and (stream := long_term()).enter():
            self.admission.stream, self.is_long_lived = stream, True
            self.finish()

    def leave_streams(self) -> None:
        """Give the place among the streams back, because the request would have been rejected."""
        if self.admission.stream is not None:
            self.admission.stream.leave()

    def charge(self, seats: float) -> bool:
        """Bill the flow for ``seats``; return False if the seats have been given back already."""
        if self.lasted_ns is None:
            self._charged = seats
        return self.lasted_ns is None

    def settle(self) -> None:
        """Bill the flow as the app has said, and count the failure, if there is one; the seats are given back next."""
        if self._charged is not None:
            self.admission.charge(self._charged)
        self.count_failure()


class VirtualRequests:
    """The virtual requests of a server; ``on_rejected`` is called with each admission that would have been rejected."""

    def __init__(
        self,
        now: Callable[[], int],
        on_rejected: Callable[[Admission], None],
        *,
        alarm: Callable[[Callable[[], None], Callable[[], int]], AnyAlarm] = Alarm,
    ) -> None:
        self._now = now
        self._on_rejected = on_rejected
        self._new_alarm = alarm
        self._alarm = alarm(self._look, now)
        self._limits: dict[int, Timeouts[VirtualRequest]] = {}  # by wait limit, of which there are a few
        self._ends: list[tuple[int, int, VirtualRequest]] = []  # of seats, and of waits with deadlines of their own
        self._number = 0
        self._is_over = False

    def begin(self, now: int, admission: Admission) -> VirtualRequest:
        """Ask for seats, unless the request has been rejected already, and return the virtual request."""
        if self._ends:  # usually the alarm is set already, unless the event loop that had it has ended
            self._alarm.ask(self._ends[0][0])
        request = VirtualRequest(admission, now, self)
        destination = admission.destination
        if admission.reason is None:
            destination.controller.arrive(now, admission)
        if admission.state is _WAITING:
            admission.waiter = request
            limit_ns, latest = destination.runtime.wait_limit_ns, admission.latest_start_ns
            if latest is not None and latest < now + limit_ns:
                self._schedule(latest, request)
            else:
                self._timeouts(limit_ns).begin(request, now)
        elif admission.reason is not None:
            self._note_rejected(request)
        return request

    def _note_rejected(self, request: VirtualRequest) -> None:
        request.leave_streams()
        self._on_rejected(request.admission)

    def note_woken(self, request: VirtualRequest) -> None:
        """Note the end of a virtual wait."""
        admission = request.admission
        admission.waiter = None
        self._timeouts(admission.destination.runtime.wait_limit_ns).end(request)
        if admission.state is not _SEATED:
            if admission.reason is not None:
                self._note_rejected(request)
        elif request.lasted_ns is not None:
            self._schedule(admission.seated_at + request.lasted_ns, request)

    def note_finished(self, request: VirtualRequest) -> None:
        """Note how long the real request took, and end the virtual one at once if it hasn't waited."""
        now, admission = self._now(), request.admission
        request.lasted_ns = now - request.began_at
        if admission.state is _SEATED:
            at = admission.seated_at + request.lasted_ns
            if self._is_over:
                self._end(at, request)
                return
            self._schedule(at, request)
            self._look()

    def clear(self) -> None:
        """Free the seats of virtual requests as soon as the real ones have ended; waits have ended already."""
        self._is_over = True
        ends, self._ends = self._ends, []
        for at, _, request in ends:
            self._end(at, request)

    def _timeouts(self, limit_ns: int) -> Timeouts[VirtualRequest]:
        found = self._limits.get(limit_ns)
        if found is None:
            found = self._limits[limit_ns] = Timeouts(limit_ns, self._now, _time_out, self._new_alarm)
        return found

    def _schedule(self, at: int, request: VirtualRequest) -> None:
        self._number += 1
        heappush(self._ends, (at, self._number, request))
        self._alarm.ask(at)

    def _look(self) -> None:
        """End what is due, and set the alarm for the next end."""
        now, ends = self._now(), self._ends
        while ends and ends[0][0] <= now:
            at, _, request = heappop(ends)
            self._end(at, request)
        if ends:
            self._alarm.ask(ends[0][0])

    def _end(self, at: int, request: VirtualRequest) -> None:
        """Free the seats of a request that ends at the time ``at``, or end a wait whose deadline that is."""
        admission = request.admission
        controller = admission.destination.controller
        if admission.state is _WAITING:
            controller.abandon(admission, Reason.DEADLINE)
            return
        lasted_ns = request.lasted_ns
        # a request that was seated before its deadline doesn't end then
        if admission.state is _SEATED and lasted_ns is not None and admission.seated_at + lasted_ns <= at:
            request.settle()
            controller.release(admission, long_lived=request.is_long_lived)
            if admission.destination.gates:
                controller.release_leases(admission)

    def __repr__(self) -> str:
        return f"<VirtualRequests, {len(self._ends)} to end>"


def _time_out(request: VirtualRequest) -> None:
    request.admission.destination.controller.abandon(request.admission, Reason.TIME_OUT)
