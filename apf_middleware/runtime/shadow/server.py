"""The server that a second configuration would make of this one, fed with the same requests.

The second server has a controller of its own on a clock of its own, which follows the real clock and sometimes stops.
A request that gets its seats here earlier than in the real server ends here earlier, too, but how long it takes is
known only when the real one has ended. Until then, no later event may happen here. So the clock never passes the
earliest moment at which such a request may end. It is late by at most the longest wait of the real server, and what
happens here is exactly what would have happened with these arrivals, durations and hang-ups.

Nothing happens between two requests: all that is due is done when the next one arrives or a report is asked for.
"""

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from apf_middleware.config import Configuration
from apf_middleware.fairqueuing import Reason, TicketState
from apf_middleware.fairqueuing.sharing.grant import SeatGrant
from apf_middleware.runtime.controller import Controller
from apf_middleware.runtime.event_queue import EventQueue, VirtualTimer
from apf_middleware.runtime.fleet.budget import derive_budget
from apf_middleware.runtime.shadow.durations import TypicalDurations
from apf_middleware.runtime.shadow.request import ShadowRequest
from apf_middleware.runtime.shadow.tallies import AT_ONCE, REJECTED, WAITED, ShadowTallies
from apf_middleware.runtime.time_limits import limit_time
from apf_middleware.runtime.virtual_waits import VirtualWaits

if TYPE_CHECKING:
    from apf_middleware.estimation import LearnedCosts
    from apf_middleware.runtime.shadow.place import ShadowPlace

__all__ = ["ShadowServer"]

_SEATED: Final = TicketState.SEATED
_WAITING: Final = TicketState.WAITING
_LEAST_KEPT: Final = 64

_Part = tuple[int, int]  # beside the whole


class ShadowServer:
    """The server of another ``configuration``; ``now`` is the clock of the real one.

    It ends when ``is_over`` is set, or at the first error, with which ``on_failure`` is called.

    At most ``most_delayed`` arrivals wait for the durations of others; beyond that, durations are assumed. When a
    request arrives, at most ``most_steps`` events are caught up with, so that no request is delayed much.
    """

    def __init__(
        self, configuration: Configuration, now: Callable[[], int], on_failure: Callable[[Exception], None]
    ) -> None:
        def alarm(ring: Callable[[], None], _now: Callable[[], int]) -> VirtualTimer:
            return VirtualTimer(self._events, ring)

        self.is_over: bool = False
        self.most_delayed: int = 10_000
        self.most_steps: int = 64
        self._now = now
        self._on_failure = on_failure
        self._events = EventQueue(now())
        self.costs: LearnedCosts = configuration.server.estimation.learning.costs()
        self.controller: Controller = Controller(configuration, costs=self.costs, now=self._events.read, alarm=alarm)
        self.tallies: ShadowTallies = ShadowTallies()
        self.durations: TypicalDurations = TypicalDurations()
        self._waits = VirtualWaits(self._events)
        self._newest: ShadowRequest | None = None  # that hasn't been told yet whether the real server seats it
        self._delayed = 0
        self._parts: tuple[_Part, dict[str, _Part]] | None = None  # of a fleet's seats and maxes
        # Requests that have seats here while the real ones still wait, in the order in which they got them.
        self._ahead: dict[ShadowRequest, None] = {}
        # Requests that run at both, and by how much earlier they got their seats here, negated.
        self._earlier: list[tuple[int, int, ShadowRequest]] = []
        self._most_earlier = _LEAST_KEPT
        self._number = 0

    # What the real server does

    def begin(self, place: "ShadowPlace", left_ns: int | None = None) -> ShadowRequest:
        """Let a request arrive that is about to ask the real server for seats.

        If it has a deadline in the second configuration, it has ``left_ns`` until then.
        """
        now = self._now()
        if self._newest is not None or self._events.heap:
            self.advance(now, self.most_steps)
        self._newest = request = ShadowRequest(self, place, now)
        if left_ns is not None:
            request.left_ns = left_ns
        return request

    def note_seated(self, request: ShadowRequest, decision: int) -> None:
        """Note that the real request has begun."""
        request.real = decision
        if request is self._newest and self._is_next(now := request.arrived_at):
            # Nothing can happen before the arrival of this request, so its place among the events needn't be found.
            self._newest = None
            self._events.now = now
            admission = request.admission
            if request.left_ns is None or self._may_arrive(now, request):
                self.controller.arrive(now, admission)
            if admission.state is _SEATED and decision == AT_ONCE:  # most requests: they have begun now in both
                request.own = AT_ONCE
                request.place.tally.numbers[0] += 1
            else:
                self._note_arrived(request)
            return
        self._expect_newest()
        if request.own >= 0:
            request.place.tally.compare(decision, request.own)
        if request in self._ahead:
            del self._ahead[request]
            self._note_earlier(request)

    def note_ended(self, request: ShadowRequest, lasted_ns: int) -> None:
        """Note how long the real request has had its seats."""
        if self._newest is not None:
            self._expect_newest()
        self.durations.observe(request.place.durations, lasted_ns)
        began_at, admission, controller = request.began_at, request.admission, self.controller
        if began_at is not None and admission.state is _SEATED and admission.seated_at == began_at:
            end = began_at + lasted_ns
            if not controller.backlog.waiting and self._is_next(end):
                request.lasted_ns = lasted_ns
                self._events.now = end
                controller.release(admission)
                return
        self._settle(request, lasted_ns)

    def note_unserved(self, request: ShadowRequest, decision: int, hung_up_at: int | None = None) -> None:
        """Note that the duration of a request will stay unknown."""
        self._expect_newest()
        self._note_real(request, decision)
        if request.lasted_ns is None:  # otherwise it has been assumed already
            self._assume(request)
        if hung_up_at is not None and request.own < 0:
            self._events.at(hung_up_at, self._hang_up, request)

    def _is_next(self, at: int) -> bool:
        """Return whether nothing happens before the time ``at``, which has come."""
        events = self._events
        if self._ahead or self._earlier or events.now > at:
            return False
        heap = events.heap
        return not heap or heap[0][0] > at

    def _note_real(self, request: ShadowRequest, decision: int) -> None:
        request.real = decision
        if request.own >= 0:
            request.place.tally.compare(decision, request.own)

    def _settle(self, request: ShadowRequest, lasted_ns: int) -> None:
        """Set the duration of a request, and schedule its end if it has seats."""
        request.lasted_ns = lasted_ns
        self._ahead.pop(request, None)
        if request.admission.state is _SEATED:
            self._end_later(request, lasted_ns)

    def _end_later(self, request: ShadowRequest, lasted_ns: int) -> None:
        if request.is_assumed:
            request.place.tally.assumed += 1
        self._events.at(request.admission.seated_at + lasted_ns, self._end, request)

    def _expect_newest(self) -> None:
        """Schedule the arrival of the newest request: the real server has decided about it, or has let it wait."""
        newest = self._newest
        if newest is not None:
            self._newest = None
            self._delayed += 1
            self._events.at(newest.arrived_at, self._arrive_later, newest)

    def fail(self, error: Exception) -> None:
        """End because of an error."""
        self.is_over = True
        self._on_failure(error)

    def restrict(self, seats: _Part, maxes: Mapping[str, _Part]) -> None:
        """Use the parts that the real server has of a fleet's ``seats`` and ``maxes``, each beside the whole.

        Of other maxes, it has the same part as of the seats.
        """
        parts = seats, dict(maxes)
        if parts != self._parts:
            self._parts = parts
            now = self._now()
            self._events.at(now, self._restrict, parts)
            self.advance(now, self.most_steps)

    def _restrict(self, parts: tuple[_Part, Mapping[str, _Part]]) -> None:
        seats, maxes = parts
        budget = derive_budget(self.controller.configuration, self.controller.seats)
        own = {name: _part_of(most, maxes.get(name, seats)) for name, most in budget.maxes.items()}
        granted, total = seats
        self.controller.restrict(SeatGrant(budget.seats * granted // total, maxes=own), {})

    # Time

    @property
    def lag_ns(self) -> int:
        """By how much the clock of this server is behind."""
        now = self._now()
        return now - self._horizon(now)

    def advance(self, now: int, most: int) -> bool:
        """Play at most ``most`` events that are certain to happen until ``now``; return whether those were all."""
        self._expect_newest()
        events = self._events
        while (at := events.next_at()) is not None:
            if at <= self._horizon(now):
                if not most:
                    return False
                most -= 1
                events.step()
            elif self._delayed > self.most_delayed:
                self._assume_one()
            else:
                break
        return True

    def settle(self, most: int) -> bool:
        """Bring all counters up to date; return False if there is more to catch up with than ``most`` events."""
        now = self._now()
        is_done = self.advance(now, most)
        if is_done:
            self._events.now = max(self._events.now, self._horizon(now))
        self.controller.look(self._events.now)
        return is_done

    def _horizon(self, now: int) -> int:
        """Return the time that nothing may pass, because a request may end then."""
        if self._ahead:
            return self._events.now  # the clock has stopped when the first of them got its seats
        earlier = self._earlier
        while earlier:
            by, _, request = earlier[0]
            if request.lasted_ns is None:
                return now + by
            heappop(earlier)
        return now

    def _assume_one(self) -> None:
        """Assume the duration of the request that holds the clock back, because too many others wait for it."""
        self._assume(next(iter(self._ahead), None) or self._earlier[0][2])

    def _assume(self, request: ShadowRequest) -> None:
        request.is_assumed = True
        self._settle(request, self.durations.guess(request.place.durations))

    # What happens here

    def _arrive_later(self, request: ShadowRequest) -> None:
        now = self._events.now
        self._delayed -= 1
        if (request.refused is None and request.left_ns is None) or self._may_arrive(now, request):
            self.controller.arrive(now, request.admission)
        self._note_arrived(request)

    def _note_arrived(self, request: ShadowRequest) -> None:
        """Note what the second configuration has decided about a request on its arrival."""
        admission = request.admission
        state = admission.state
        if state is _SEATED:
            self._decide(request, AT_ONCE)
            self._note_begun(request)
        elif state is _WAITING:
            admission.waiter = request
            self._waits.begin(admission)
        else:
            self._note_rejected(request)

    def _may_arrive(self, now: int, request: ShadowRequest) -> bool:
        """Return whether a request may ask for seats; refuse it otherwise."""
        admission, reason = request.admission, request.refused
        if reason is None:
            left_ns = request.left_ns
            if left_ns is None or limit_time(admission, now, left_ns, self.costs):
                return True
            reason = Reason.DEADLINE
        self.controller.refuse(now, admission, reason)
        return False

    def note_woken(self, request: ShadowRequest) -> None:
        """Note that a wait has ended."""
        admission = request.admission
        admission.waiter = None
        if admission.state is _SEATED:
            if request.place.flow is not None:
                request.place.flow.waits.observe(admission.seated_at - admission.arrived_at)
            self._decide(request, WAITED)
            self._note_begun(request)
        else:
            self._note_rejected(request)

    def _note_begun(self, request: ShadowRequest) -> None:
        """Schedule the end of a request that has got its seats; if its duration isn't known yet, wait for that."""
        lasted_ns = request.lasted_ns
        if lasted_ns is not None:
            self._end_later(request, lasted_ns)
        elif request.began_at is None:
            self._ahead[request] = None
        else:
            self._note_earlier(request)

    def _note_earlier(self, request: ShadowRequest) -> None:
        """Hold the clock back for a running request that has begun earlier here than in the real server."""
        assert request.began_at is not None
        by = request.began_at - request.admission.seated_at
        if by > 0:
            if len(self._earlier) >= self._most_earlier:
                self._earlier = [one for one in self._earlier if one[2].lasted_ns is None]
                heapify(self._earlier)
                self._most_earlier = _LEAST_KEPT + 2 * len(self._earlier)
            self._number += 1
            heappush(self._earlier, (-by, self._number, request))

    def _note_rejected(self, request: ShadowRequest) -> None:
        reason = request.admission.reason
        assert reason is not None
        if request.place.flow is not None:
            request.place.flow.reject(reason)
        self._decide(request, REJECTED)

    def _decide(self, request: ShadowRequest, decision: int) -> None:
        request.own = decision
        if request.real >= 0:
            request.place.tally.compare(request.real, decision)

    def _end(self, request: ShadowRequest) -> None:
        if request.admission.state is _SEATED:
            self.controller.release(request.admission)

    def _hang_up(self, request: ShadowRequest) -> None:
        self.controller.hang_up(request.admission)

    def __repr__(self) -> str:
        return f"<ShadowServer: {self.tallies!r}>"


def _part_of(most: int, part: _Part) -> int:
    """Return a member's part of a level's max, rounded up: of the max in force, it is exactly the ``part``."""
    own, whole = part
    return -(-most * own // whole)
