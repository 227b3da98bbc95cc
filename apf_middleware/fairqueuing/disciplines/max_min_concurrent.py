"""`max-min-concurrent`: max-min fair shares, and many requests of a queue at once in the virtual world.

The KEP's third solution. A queue's share mu is as in `max-min-serial`, but the requests that share it run side by side.
In the virtual world a queue starts its requests in order of arrival as long as they occupy fewer seats than the level
has, as if it were alone; ``occupied`` is how many they occupy. Each of these seats makes the same progress: the meter P
runs at mu / occupied. A request that starts at P ends at P plus its length, however mu varies meanwhile, so a heap of
ends on P tells what ends next. P is no faster than time itself, since mu is at most what is occupied: nothing ends
earlier in the virtual world than it could in the real one. (A level that shrinks while many run is the exception, until
its queues have no line any more: they ask for more than they may occupy.) While ``occupied`` stays the same, P is a
straight line on the work meter W of `virtual_world`, and a position on the one is a position on the other.

The KEP leaves open who leaves, what comes late, and how the next ticket to serve is found. Here:

*Unknown lengths.* A request counts as the guess. When its guessed end comes and it hasn't finished, or hasn't even
begun, in the real world, the guess is doubled: nothing ends in the virtual world before its length is known and its
seats are free, so no past is ever revised. A length that is learned to be shorter than the progress made ends it now.

*One iterator.* The next ticket to serve is the one with the least expected end by its first guess. A queue serves in
order of arrival, so that of its oldest waiting ticket is all that is needed, and its start is known if it has started
virtually; otherwise it is expected to start when the next request of its queue ends. No second iterator is kept:
virtual ends are walked as time passes, and the queue's expected end moves along with them.

*Ghosts.* What is over in the real world leaves nothing behind but its end on P and its width.

*Who need not be moved.* With more seats occupied a limited queue's P runs slower: what is ahead on it comes later. Then
the queue stays where it stands on the agendas and is stale (see `timetable`). With fewer seats occupied, or when the
oldest is overdue, it is moved. While all that a granted queue asks for runs, its P runs as time does, and neither
brings anything forward.

*Leaving.* Who leaves while it runs virtually is taken out at once, with its demand, and the next in line starts. The
progress that was made for it is lost: given to the others of its queue, it would let a flow gain by sending requests
and taking them back.

*Late calls.* Everything is caught up with by `advance`, in the order in which it was due.

A request's work is length times width for its whole stay, linger included, as in the KEP. Each call is
O((1 + crossings) log n + log c), c being what a queue runs at once.
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING, ClassVar, Final

from apf_middleware.fairqueuing.disciplines.concurrent_queue import NOT_YET, MaxMinConcurrentQueue
from apf_middleware.fairqueuing.disciplines.max_min import WIDEST, WIDTH_BITS
from apf_middleware.fairqueuing.disciplines.timetable import GRAINS_PER_SEAT_NS
from apf_middleware.fairqueuing.disciplines.virtual_world import VirtualWorld
from apf_middleware.fairqueuing.ticket import TicketState
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.ticket import Ticket

__all__ = ["MaxMinConcurrent"]


_RELEASED: Final = TicketState.RELEASED


class MaxMinConcurrent(VirtualWorld[MaxMinConcurrentQueue]):
    """The KEP's third solution. ``guess_ns`` is what a request is taken to last at first."""

    __slots__ = ("_asked", "_guess", "_serial")

    name: ClassVar[str] = "max-min-concurrent"

    def __init__(self, concurrency: int, guess_ns: int = DEFAULT_GUESS_NS) -> None:
        super().__init__(concurrency, guess_ns)
        self._guess = self._guess_ns * GRAINS_PER_SEAT_NS
        self._serial = 0
        self._asked: dict[Ticket, int] = {}  # width on arrival, of those who may be cut at dispatch

    def open_queue(self, index: int) -> MaxMinConcurrentQueue:
        return self._open(MaxMinConcurrentQueue(index))

    # The virtual world

    def _move(self, queue: MaxMinConcurrentQueue, way: int) -> None:
        queue.since += way

    def progress(self, queue: MaxMinConcurrentQueue) -> int:
        """How far the queue's meter P has come, in grains of a second on each seat."""
        if not queue.occupied:
            return queue.progress
        position = self.r if queue.on_r else self.position(queue)
        return queue.progress + (position - queue.since) // queue.occupied

    def _occupy(self, queue: MaxMinConcurrentQueue, seats: int) -> int:
        """So many more seats are occupied virtually, or fewer: P goes on at another rate. Returns P."""
        position, occupied = self.r if queue.on_r else self._here(queue), queue.occupied
        if occupied:
            queue.progress += (position - queue.since) // occupied
        queue.since = position
        queue.occupied = occupied + seats
        return queue.progress

    def _begin(self, queue: MaxMinConcurrentQueue, ticket: "Ticket") -> None:
        ticket.start_r = begin = self._occupy(queue, ticket.width)
        if ticket.state is _RELEASED:
            queue.pass_away(ticket, begin + ticket.settled)
        else:
            ticket.charged = end = begin + self._guess
            queue.guesses.append((end, ticket))

    def _outgrow(self, queue: MaxMinConcurrentQueue, end: int) -> None:
        """What was guessed to end at ``end`` hasn't ended by then: the guess is doubled."""
        guesses = queue.guesses
        ticket = guesses.popleft()[1] if guesses and guesses[0][0] == end else heappop(queue.overdue)[2]
        if ticket.charged == end:
            ticket.charged = later = 2 * end - ticket.start_r
            self._serial += 1
            heappush(queue.overdue, (later, self._serial, ticket))

    def _fill(self, queue: MaxMinConcurrentQueue) -> None:
        """Start those whose turn it is."""
        most = max(self._concurrency, 1)
        while queue.line and queue.occupied < most:
            ticket, _ = queue.line.popitem(last=False)
            self._begin(queue, ticket)

    def _take_out(self, queue: MaxMinConcurrentQueue, ticket: "Ticket") -> None:
        if ticket.start_r == NOT_YET:
            del queue.line[ticket]
        else:
            self._occupy(queue, -ticket.width)
            ticket.charged = NOT_YET
            queue.tidy()
        if queue.line:
            self._fill(queue)

    def _reach(self, queue: MaxMinConcurrentQueue) -> None:
        position, end, seats = self.r if queue.on_r else self.position(queue), queue.soonest, 0
        progress = queue.progress + (position - queue.since) // queue.occupied
        ghosts = queue.ghosts
        while end <= progress:
            if ghosts and ghosts[0] >> WIDTH_BITS == end:
                seats += heappop(ghosts) & WIDEST
            else:
                self._outgrow(queue, end)
            end = queue.first_end()
        has_line = bool(queue.line)
        if seats:
            queue.progress, queue.since = progress, position
            queue.occupied -= seats
            if has_line:
                self._fill(queue)
        rho = queue.rho - seats
        if has_line or not queue.on_r or rho < queue.at_least:
            self._demand_anew(queue, rho)
            return
        queue.rho = rho  # likewise, written out for speed
        queue.soonest = end
        self._ends_on_r.put(queue.index, queue.since + queue.occupied * (end - queue.progress))
        if queue.first is not None:
            self._schedule_finish(queue)

    # A position P on the queue's progress is this much on W, or on R: since + occupied * (P - progress).

    def _end_of(self, queue: MaxMinConcurrentQueue) -> int | None:
        if not queue.occupied:
            return None
        queue.soonest = end = queue.first_end()
        return queue.since + queue.occupied * (end - queue.progress)

    def _finish_of(self, queue: MaxMinConcurrentQueue, first: "Ticket") -> int:
        begin = first.start_r
        if begin == NOT_YET:  # when the next one of this queue ends
            begin = queue.first_end() if queue.occupied else 0
        return queue.since + queue.occupied * (begin + self._guess - queue.progress)

    def _schedule_finish(self, queue: MaxMinConcurrentQueue) -> None:
        first, agenda = queue.first, self._finishes_on_r
        if first is None or not queue.on_r or first.width > 1 or agenda.wide or first.start_r == NOT_YET:
            super()._schedule_finish(queue)
            return
        queue.finish_is_stale, queue.has_finish = False, True  # as inherited, written out for speed
        way = first.start_r - queue.progress + self._guess
        agenda.put(queue.index, queue.since + queue.occupied * way)

    # What happens to tickets

    def arrive(self, queue: MaxMinConcurrentQueue, ticket: "Ticket") -> None:
        width, work, occupied = ticket.width, ticket.work, queue.occupied
        if work.final_seats > work.seats:
            self._asked[ticket] = width
        if not queue.on_r or not occupied or queue.line or occupied >= self._concurrency:
            if queue.first is None:
                queue.first = ticket
            self._enter(queue, ticket)
            return
        position = self.r  # as `_begin`, written out for speed
        queue.progress = ticket.start_r = begin = queue.progress + (position - queue.since) // occupied
        queue.since = position
        queue.occupied = occupied = occupied + width
        ticket.charged = end = begin + self._guess
        queue.guesses.append((end, ticket))
        queue.rho += width  # it stays limited, for it asks for more
        if end < queue.soonest:
            self._end_first(queue, end)
        else:
            queue.end_is_stale = True  # with more seats occupied, it doesn't come sooner
        first = queue.first
        if first is None:
            queue.first = ticket
        elif first.width == 1 and first.start_r + self._guess >= begin:  # nor the finish, unless it is overdue
            queue.finish_is_stale = True
            return
        self._schedule_finish(queue)

    def _enter(self, queue: MaxMinConcurrentQueue, ticket: "Ticket") -> None:
        """``ticket`` starts virtually, or stands in line for it."""
        ticket.start_r = ticket.charged = NOT_YET
        if not queue.line and queue.occupied < max(self._concurrency, 1):
            self._begin(queue, ticket)
        else:
            queue.stand_in_line(ticket)
            if queue.on_r and queue.length:  # behind others in both worlds
                self._demand(queue, queue.rho + ticket.width)
                return
        self._demand_anew(queue, queue.rho + ticket.width)

    def rejoin(self, queue: MaxMinConcurrentQueue, ticket: "Ticket") -> None:
        if queue.oldest is ticket:
            queue.first = ticket
            self._schedule(queue)

    def serve(self, queue: MaxMinConcurrentQueue, ticket: "Ticket") -> None:
        width, work, occupied = ticket.width, ticket.work, queue.occupied
        self._turn = queue.index
        self._used = used = self._used + width  # `_take`, written out for speed
        if used > self._shares.capacity:
            self._set_capacity()
        if work.final_seats > work.seats:
            self._asked[ticket] = width
        if queue.on_r or occupied >= self._concurrency:
            self._enter(queue, ticket)
            return
        # P runs as time does while all that the queue asks for runs: nothing ends sooner than it would have.
        if occupied:
            position = self._here(queue)
            queue.progress += (position - queue.since) // occupied
            queue.since = position
        else:
            queue.mark, queue.since = self.now, queue.base
        queue.occupied = occupied + width
        ticket.start_r = begin = queue.progress
        ticket.charged = end = begin + self._guess
        queue.guesses.append((end, ticket))
        if end < queue.soonest or not queue.has_end:
            queue.soonest = end
            queue.has_end = True
            expected = self.now + self._guess_ns
            self._ends.put(queue.index, expected)
            if expected < self._soonest:  # noqa: PLR1730 - min() is slower
                self._soonest = expected
        queue.end_is_stale = True
        crossed = self._shares.change(queue, queue.rho + width)  # as `_demand`, written out for speed
        if crossed:
            self._cross(crossed)

    def leave(self, queue: MaxMinConcurrentQueue, ticket: "Ticket", *, was_oldest: bool) -> None:  # noqa: ARG002
        self._asked.pop(ticket, None)
        self._take_out(queue, ticket)
        queue.first = queue.oldest
        self._demand_anew(queue, queue.rho - ticket.width)

    def dispatch(self, queue: MaxMinConcurrentQueue, ticket: "Ticket") -> None:
        self._turn = queue.index
        self._used = used = self._used + ticket.width  # `_take`, written out for speed
        if used > self._shares.capacity:
            self._set_capacity()
        if self._asked:
            cut = self._asked.pop(ticket, ticket.width) - ticket.width
            if cut:
                if ticket.start_r != NOT_YET:
                    self._occupy(queue, -cut)
                    self._fill(queue)
                queue.first = queue.oldest
                self._demand_anew(queue, queue.rho - cut)
                return
        queue.first = queue.oldest
        if queue.first is not None:
            self._schedule_finish(queue)
        else:
            self._unschedule_finish(queue)

    def settle(self, queue: MaxMinConcurrentQueue, ticket: "Ticket", duration_ns: int) -> None:
        ticket.settled = (duration_ns + ticket.work.linger_ns) * GRAINS_PER_SEAT_NS
        if not ticket.work.linger_ns:
            self.vacate(queue, ticket)

    def vacate(self, queue: MaxMinConcurrentQueue, ticket: "Ticket") -> None:
        """``ticket`` is over in the real world, and its seats are free."""
        width, begin = ticket.width, ticket.start_r
        self._used -= width  # `_give`, written out for speed
        if self._shares.capacity != self._concurrency and not self._follows:
            self._set_capacity()
        if queue.is_closed or begin == NOT_YET:
            return
        end = begin + ticket.settled
        position = self.r if queue.on_r else self._here(queue)
        progress = queue.progress + (position - queue.since) // queue.occupied
        if end > progress:
            queue.pass_away(ticket, end)
            if end >= queue.soonest:
                queue.end_is_stale = True
            else:
                self._end_first(queue, end)
            first = queue.first
            if first is not None and first.start_r == NOT_YET:
                self._schedule_finish(queue)
            return
        in_time = not queue.on_r and queue.rho == queue.occupied  # P runs as time does, before and after
        queue.progress, queue.since = progress, position  # as `_take_out`, written out for speed
        queue.occupied -= width
        ticket.charged = NOT_YET
        queue.tidy()
        if queue.line:
            self._fill(queue)
        oldest = queue.oldest
        if in_time and (oldest is None or oldest.width == 1):
            queue.finish_is_stale = oldest is not None
            queue.end_is_stale = True
            crossed = self._shares.change(queue, queue.rho - width)  # likewise
            if crossed:
                self._cross(crossed)
        else:
            self._demand_anew(queue, queue.rho - width)

    def _end_first(self, queue: MaxMinConcurrentQueue, end: int) -> None:
        """What ends at ``end`` comes before all others of its queue."""
        queue.soonest = end
        queue.end_is_stale = False
        self._end_at(queue, queue.since + queue.occupied * (end - queue.progress))

    def resize(self, concurrency: int) -> None:
        super().resize(concurrency)
        for queue in self._queues:
            if queue.line:
                self._fill(queue)
                self._schedule(queue)

    def close(self, queue: MaxMinConcurrentQueue, *, closing_up: bool) -> None:
        queue.clear()
        self._close(queue, closing_up=closing_up)

    def check(self) -> None:
        super().check()
        for queue in self._queues:
            if queue.is_closed:
                continue
            entries = [*queue.guesses, *((end, ticket) for end, _, ticket in queue.overdue)]
            running = {ticket for end, ticket in entries if ticket.charged == end}
            known, guessed = sum(ghost & WIDEST for ghost in queue.ghosts), sum(ticket.width for ticket in running)
            assert queue.occupied == known + guessed, f"occupied seats of {queue!r}"
            asked = queue.occupied + sum(self._asked.get(ticket, ticket.width) for ticket in queue.line)
            assert queue.rho == asked, f"the demand of {queue!r}"
            assert not queue.line or queue.occupied >= self._concurrency, f"somebody could run virtually in {queue!r}"
            assert not queue.occupied or queue.soonest <= queue.first_end(), f"the soonest end of {queue!r}"
            assert [end for end, _ in queue.guesses] == sorted(end for end, _ in queue.guesses), f"guesses of {queue!r}"
