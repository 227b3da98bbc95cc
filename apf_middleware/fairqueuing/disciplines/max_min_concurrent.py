"""`max-min-concurrent`: max-min fair shares, and many requests of a queue at once in the fluid model.

The KEP's third solution. A queue's share mu is as in `max-min-serial`, but the requests that share it run side by side.
In the model a queue starts its requests in order of arrival as long as they occupy fewer seats than the level has, as
if it were alone; ``occupied`` is how many they occupy. Each of these seats makes the same progress: the meter P runs at
mu / occupied. A request that starts at P ends at P plus its length, however mu varies meanwhile, so a heap of ends on P
gives the next end. P is no faster than time itself, since mu is at most what is occupied: nothing ends earlier in the
model than it could really end. (A level that shrinks while many run is the exception, until no request of its queues
stands in line any more: they demand more than they may occupy.) While ``occupied`` stays the same, P is a straight line
on the work meter W of `fluid_model`, and each position on one is a position on the other.

The KEP does not say what happens to requests that leave, to late events, and how the next ticket is found. Here:

*Unknown lengths.* A request counts as what the latest requests of its queue took (see `fluid_model`), and its linger.
When its guessed end comes and it has not really finished, or not even begun, the guess grows: nothing ends in the model
before its length is known and its seats are free, so the past is never revised. A length that turns out to be shorter
than the progress made ends the request at once.

*One iterator.* The next ticket to serve is the one with the least expected end by its first guess. A queue serves in
order of arrival, so only the expected end of its oldest waiting ticket is needed. Its start is known if it has started
virtually; otherwise it is expected to start when the next request of its queue ends. No second iterator is kept:
virtual ends are reached as time passes, and the queue's expected end moves along with them.

*Virtual ends.* A request that is really over leaves nothing behind but its end on P and its width.

*No windup.* A request that is really over before it has begun in the model, because its queue had more seats than its
share, stays in line and is begun and ended later. So the queue pays for it, but for no more than C seats of such
requests at once: the others are taken out of the line.

*Entries that stay.* With more seats occupied, a limited queue's P runs slower, and the positions ahead are reached
later. Then the entries of the queue stay where they are, and are stale (see `fluid_model`). With fewer seats occupied,
or when the oldest ticket is overdue, they are moved. While all that a granted queue demands runs, its P runs as time
does, and neither makes anything earlier.

*Leaving.* A request that leaves while it runs virtually is taken out at once, with its demand, and the next in line
starts. The progress that was made for it is lost: given to the other requests of its queue, it would let a flow gain by
sending requests and taking them back.

*Late calls.* `advance` catches up with all events, in the order in which they were due.

A request's work is length times width for its whole stay, linger included, as in the KEP. Each call is
O((1 + crossings) log n + log c), where c is the number of requests that a queue runs at once.
"""

from collections import OrderedDict, deque
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar, Final

from apf_middleware.fairqueuing.disciplines.base import Discipline
from apf_middleware.fairqueuing.disciplines.fluid_model import (
    GRAINS_PER_SEAT_NS,
    NEVER,
    WIDEST,
    WIDTH_BITS,
    FluidModel,
    MaxMinQueue,
)
from apf_middleware.fairqueuing.ticket import Ticket, TicketState
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS

__all__ = ["MaxMinConcurrent", "MaxMinConcurrentQueue"]

_RELEASED: Final = TicketState.RELEASED

NOT_YET: Final = -1
"""The position on P of a request that has not begun, or is over."""

_MOST_STALE: Final = 64  # outdated entries; when there are more, they are cleared away

_NO_LINE: Final = OrderedDict[Any, None]()  # shared, because few queues have more requests than may run virtually


class MaxMinConcurrentQueue(MaxMinQueue):
    """A queue, its meter P, and its requests that run or wait in the model.

    For a request of unknown length, ``start_r`` is where it begins on P and ``charged`` where it is expected to end; an
    entry that differs is outdated. A request of known length is really over, and only has a virtual end.
    """

    __slots__ = ("first_guess", "guesses", "later_guesses", "line", "occupied", "owed", "progress", "since", "soonest")

    def __init__(self, index: int, guess_ns: int, first_guess: int) -> None:
        super().__init__(index, guess_ns)
        self.first_guess: int = first_guess  # the same for all requests when they are put in order, in grains
        self.occupied: int = 0
        self.progress: int = 0  # P when ``occupied`` changed last
        self.since: int = 0  # W at that time, or R while it reads R
        # Ends on P: by first guesses, as far as they come in this order, and a heap of the others with serial numbers.
        self.guesses: deque[tuple[int, Ticket]] = deque()
        self.later_guesses: list[tuple[int, int, Ticket]] = []
        self.soonest: int = 0  # the first end when it was looked for last; the true one isn't before
        self.line: OrderedDict[Ticket, None] = _NO_LINE  # ordered, because tickets leave from anywhere
        self.owed: int = 0  # the width of the tickets in line that are really over

    # A position P on the progress is this much on W, or on R: since + occupied * (P - progress).

    def finish_of(self, first: Ticket) -> int:
        begin = first.start_r
        if begin == NOT_YET:  # when the next one of this queue ends
            begin = self.first_end() if self.occupied else 0
        return self.since + self.occupied * (begin + self.first_guess - self.progress)

    def next_end(self) -> int | None:
        if not self.occupied:
            return None
        self.soonest = end = self.first_end()
        return self.since + self.occupied * (end - self.progress)

    def shift_positions(self, way: int) -> None:
        self.since += way

    def meters(self) -> dict[str, int]:
        return {"progress": self.progress, "rho": self.rho, "occupied": self.occupied}

    def stand_in_line(self, ticket: Ticket) -> None:
        """Let ``ticket`` start virtually when those before it have started."""
        if self.line is _NO_LINE:
            self.line = OrderedDict()
        self.line[ticket] = None

    def finish(self, ticket: Ticket, end: int) -> None:
        """Keep the seats of ``ticket``, which is really over, occupied until ``end``."""
        guesses = self.guesses
        self.end_virtually(end, ticket.width)
        ticket.charged = NOT_YET
        if guesses and guesses[0][1] is ticket:  # mostly
            guesses.popleft()
        else:
            self.tidy()

    def clear(self) -> None:
        """Forget all requests."""
        self.virtual_ends.clear()
        self.guesses.clear()
        self.later_guesses.clear()
        self.line = _NO_LINE
        self.occupied = self.owed = 0

    def first_end(self) -> int:
        """Return where the next request ends on P, and drop outdated entries that come up."""
        ends, guesses, later = self.virtual_ends, self.guesses, self.later_guesses
        end = ends[0] >> WIDTH_BITS if ends else NEVER
        while guesses:
            guess, ticket = guesses[0]
            if ticket.charged == guess:
                if guess < end:  # noqa: PLR1730 - min() is slower
                    end = guess
                break
            guesses.popleft()
        while later:
            guess, _, ticket = later[0]
            if ticket.charged == guess:
                return min(guess, end)
            heappop(later)
        return end

    def tidy(self) -> None:
        """Drop outdated entries: those in front, and all of them if they are too many."""
        guesses = self.guesses
        while guesses and guesses[0][1].charged != guesses[0][0]:
            guesses.popleft()
        if len(guesses) + len(self.later_guesses) > 2 * self.occupied + _MOST_STALE:
            self.guesses = deque(entry for entry in guesses if entry[1].charged == entry[0])
            self.later_guesses = [entry for entry in self.later_guesses if entry[2].charged == entry[0]]
            heapify(self.later_guesses)


class MaxMinConcurrent(Discipline[MaxMinConcurrentQueue]):
    """The KEP's third solution. ``guess_ns`` is what a request is taken to last at first."""

    __slots__ = ("_asked", "_first_guess", "_serial", "fluid")

    name: ClassVar[str] = "max-min-concurrent"

    is_restless: ClassVar[bool] = True  # shares change at events of the fluid model, between calls

    def __init__(self, concurrency: int, guess_ns: int = DEFAULT_GUESS_NS) -> None:
        self.fluid: FluidModel[MaxMinConcurrentQueue] = FluidModel(concurrency, guess_ns)
        self._first_guess = guess_ns * GRAINS_PER_SEAT_NS
        self._serial = 0
        self._asked: dict[Ticket, int] = {}  # width on arrival, of tickets that may be cut at dispatch

    def open_queue(self, index: int) -> MaxMinConcurrentQueue:
        return self.fluid.open(MaxMinConcurrentQueue(index, self.fluid.guess_ns, self._first_guess))

    # The fluid model

    def begin(self, now: int) -> None:
        self.fluid.now = now

    def advance(self, elapsed_ns: int, demand: int) -> None:  # noqa: ARG002 - each queue's own demand counts here
        self.fluid.advance(elapsed_ns, self._reach)

    def progress(self, queue: MaxMinConcurrentQueue) -> int:
        """Return the position of the queue's meter P, in grains for each seat."""
        fluid = self.fluid
        if not queue.occupied:
            return queue.progress
        position = fluid.r if queue.on_r else fluid.position(queue)
        return queue.progress + (position - queue.since) // queue.occupied

    def _occupy(self, queue: MaxMinConcurrentQueue, seats: int) -> int:
        """Let so many more seats be occupied virtually, or fewer, so that P goes on at another rate; return P."""
        fluid = self.fluid
        position, occupied = fluid.r if queue.on_r else fluid.here(queue), queue.occupied
        if occupied:
            queue.progress += (position - queue.since) // occupied
        queue.since = position
        queue.occupied = occupied + seats
        return queue.progress

    def _begin(self, queue: MaxMinConcurrentQueue, ticket: Ticket) -> None:
        ticket.start_r = begin = self._occupy(queue, ticket.width)
        if ticket.state is _RELEASED:
            queue.owed -= ticket.width
            queue.finish(ticket, begin + ticket.settled)
        else:
            self._expect(queue, ticket, begin + (queue.guess_ns + ticket.work.linger_ns) * GRAINS_PER_SEAT_NS)

    def _expect(self, queue: MaxMinConcurrentQueue, ticket: Ticket, end: int) -> None:
        """Let ``ticket``, which has begun, be expected to end at ``end``."""
        ticket.charged = end
        guesses = queue.guesses
        if not guesses or guesses[-1][0] <= end:
            guesses.append((end, ticket))
        else:
            self._serial += 1
            heappush(queue.later_guesses, (end, self._serial, ticket))

    def _raise_exceeded(self, queue: MaxMinConcurrentQueue, end: int) -> None:
        """Raise the guess of a request that has not ended by ``end``, where it was expected to."""
        guesses = queue.guesses
        ticket = guesses.popleft()[1] if guesses and guesses[0][0] == end else heappop(queue.later_guesses)[2]
        if ticket.charged == end:
            guess_ns = (end - ticket.start_r) // GRAINS_PER_SEAT_NS
            ticket.charged = later = ticket.start_r + self.fluid.next_guess(guess_ns) * GRAINS_PER_SEAT_NS
            self._serial += 1
            heappush(queue.later_guesses, (later, self._serial, ticket))

    def _fill(self, queue: MaxMinConcurrentQueue) -> None:
        """Start the requests in line, as far as there are seats."""
        most = max(self.fluid.concurrency, 1)
        while queue.line and queue.occupied < most:
            ticket, _ = queue.line.popitem(last=False)
            self._begin(queue, ticket)

    def _take_out(self, queue: MaxMinConcurrentQueue, ticket: Ticket) -> None:
        if ticket.start_r == NOT_YET:
            del queue.line[ticket]
        else:
            self._occupy(queue, -ticket.width)
            ticket.charged = NOT_YET
            queue.tidy()
        if queue.line:
            self._fill(queue)

    def _reach(self, queue: MaxMinConcurrentQueue) -> None:
        fluid = self.fluid
        position, end, seats = fluid.r if queue.on_r else fluid.position(queue), queue.soonest, 0
        progress = queue.progress + (position - queue.since) // queue.occupied
        ends = queue.virtual_ends
        while end <= progress:
            if ends and ends[0] >> WIDTH_BITS == end:
                seats += heappop(ends) & WIDEST
            else:
                self._raise_exceeded(queue, end)
            end = queue.first_end()
        has_line = bool(queue.line)
        if seats:
            queue.progress, queue.since = progress, position
            queue.occupied -= seats
            if has_line:
                self._fill(queue)
        rho = queue.rho - seats
        if has_line or not queue.on_r or rho < queue.at_least:
            fluid.demand_anew(queue, rho)
            return
        queue.rho = rho  # likewise, written out for speed
        queue.soonest = end
        fluid.end_at(queue, queue.since + queue.occupied * (end - queue.progress))
        if queue.first is not None:
            fluid.schedule_finish(queue)

    # What happens to tickets

    def arrive(self, queue: MaxMinConcurrentQueue, ticket: Ticket) -> None:
        fluid = self.fluid
        width, work, occupied = ticket.width, ticket.work, queue.occupied
        if work.final_seats > work.seats:
            self._asked[ticket] = width
        if not queue.on_r or not occupied or queue.line or occupied >= fluid.concurrency:
            if queue.first is None:
                queue.first = ticket
            self._enter(queue, ticket)
            return
        position = fluid.r  # as `_begin`, written out for speed
        queue.progress = ticket.start_r = begin = queue.progress + (position - queue.since) // occupied
        queue.since = position
        queue.occupied = occupied = occupied + width
        end = begin + (queue.guess_ns + work.linger_ns) * GRAINS_PER_SEAT_NS
        self._expect(queue, ticket, end)
        queue.rho += width  # it stays limited, for it asks for more
        if end < queue.soonest:
            self._end_first(queue, end)
        else:
            queue.end_is_stale = True  # with more seats occupied, it doesn't come sooner
        first = queue.first
        if first is None:
            queue.first = ticket
        elif first.width == 1 and first.start_r + queue.first_guess >= begin:  # nor the finish, unless it is late
            queue.finish_is_stale = True
            return
        fluid.schedule_finish(queue)

    def _enter(self, queue: MaxMinConcurrentQueue, ticket: Ticket) -> None:
        """Start ``ticket`` virtually, or let it stand in line."""
        fluid = self.fluid
        ticket.start_r = ticket.charged = NOT_YET
        if not queue.line and queue.occupied < max(fluid.concurrency, 1):
            self._begin(queue, ticket)
        else:
            queue.stand_in_line(ticket)
            if queue.on_r and queue.length:  # behind others in both worlds
                fluid.demand(queue, queue.rho + ticket.width)
                return
        fluid.demand_anew(queue, queue.rho + ticket.width)

    def rejoin(self, queue: MaxMinConcurrentQueue, ticket: Ticket) -> None:
        if queue.oldest is ticket:
            queue.first = ticket
            self.fluid.schedule(queue)

    def serve(self, queue: MaxMinConcurrentQueue, ticket: Ticket) -> None:
        fluid = self.fluid
        width, work, occupied = ticket.width, ticket.work, queue.occupied
        fluid.turn = queue.index
        fluid.used = used = fluid.used + width  # `_take`, written out for speed
        if used > fluid.shares.capacity:
            fluid.set_capacity()
        if work.final_seats > work.seats:
            self._asked[ticket] = width
        if queue.on_r or occupied >= fluid.concurrency:
            self._enter(queue, ticket)
            return
        # P runs as time does while all that the queue asks for runs: nothing ends sooner than it would have.
        if occupied:
            position = fluid.here(queue)
            queue.progress += (position - queue.since) // occupied
            queue.since = position
        else:
            queue.mark, queue.since = fluid.now, queue.base
        queue.occupied = occupied + width
        ticket.start_r = begin = queue.progress
        guess_ns = queue.guess_ns + work.linger_ns
        end = begin + guess_ns * GRAINS_PER_SEAT_NS
        self._expect(queue, ticket, end)
        if end < queue.soonest or not queue.has_end:
            queue.soonest = end
            fluid.end_at_time(queue, fluid.now + guess_ns)
        queue.end_is_stale = True
        crossed = fluid.shares.change(queue, queue.rho + width)  # as `_demand`, written out for speed
        if crossed:
            fluid.cross(crossed)

    def leave(self, queue: MaxMinConcurrentQueue, ticket: Ticket, *, was_oldest: bool) -> None:  # noqa: ARG002
        self._asked.pop(ticket, None)
        self._take_out(queue, ticket)
        queue.first = queue.oldest
        self.fluid.demand_anew(queue, queue.rho - ticket.width)

    def dispatch(self, queue: MaxMinConcurrentQueue, ticket: Ticket) -> None:
        fluid = self.fluid
        fluid.turn = queue.index
        fluid.used = used = fluid.used + ticket.width  # `_take`, written out for speed
        if used > fluid.shares.capacity:
            fluid.set_capacity()
        if self._asked:
            cut = self._asked.pop(ticket, ticket.width) - ticket.width
            if cut:
                if ticket.start_r != NOT_YET:
                    self._occupy(queue, -cut)
                    self._fill(queue)
                queue.first = queue.oldest
                fluid.demand_anew(queue, queue.rho - cut)
                return
        queue.first = queue.oldest
        if queue.first is not None:
            fluid.schedule_finish(queue)
        else:
            fluid.unschedule_finish(queue)

    def settle(self, queue: MaxMinConcurrentQueue, ticket: Ticket, duration_ns: int) -> None:
        ticket.settled = (duration_ns + ticket.work.linger_ns) * GRAINS_PER_SEAT_NS
        self.fluid.learn(queue, duration_ns)
        if not ticket.work.linger_ns:
            self.vacate(queue, ticket)

    def vacate(self, queue: MaxMinConcurrentQueue, ticket: Ticket) -> None:
        """End ``ticket``, which is really over, or give it a virtual end."""
        fluid = self.fluid
        width, begin = ticket.width, ticket.start_r
        fluid.used -= width  # `_give`, written out for speed
        if fluid.shares.capacity != fluid.concurrency and not fluid.follows:
            fluid.set_capacity()
        if queue.is_closed:
            return
        if begin == NOT_YET:
            self._owe(queue, ticket)
            return
        end = begin + ticket.settled
        position = fluid.r if queue.on_r else fluid.here(queue)
        progress = queue.progress + (position - queue.since) // queue.occupied
        if end > progress:
            queue.finish(ticket, end)
            if end >= queue.soonest:
                queue.end_is_stale = True
            else:
                self._end_first(queue, end)
            first = queue.first
            if first is not None and first.start_r == NOT_YET:
                fluid.schedule_finish(queue)
            return
        queue.progress, queue.since = progress, position
        self._end(queue, ticket, width)

    def _owe(self, queue: MaxMinConcurrentQueue, ticket: Ticket) -> None:
        """Keep ``ticket``, which is really over and has not begun, in line, unless the queue owes C seats already."""
        fluid = self.fluid
        if queue.owed + ticket.width <= fluid.concurrency:
            queue.owed += ticket.width
        else:
            del queue.line[ticket]
            fluid.demand_anew(queue, queue.rho - ticket.width)

    def _end(self, queue: MaxMinConcurrentQueue, ticket: Ticket, width: int) -> None:
        """End ``ticket``, now that its queue has come as far."""
        fluid = self.fluid
        in_time = not queue.on_r and queue.rho == queue.occupied  # P runs as time does, before and after
        # as `_take_out`, written out for speed
        queue.occupied -= width
        ticket.charged = NOT_YET
        queue.tidy()
        if queue.line:
            self._fill(queue)
        oldest = queue.oldest
        if in_time and (oldest is None or oldest.width == 1):
            queue.finish_is_stale = oldest is not None
            queue.end_is_stale = True
            crossed = fluid.shares.change(queue, queue.rho - width)  # likewise
            if crossed:
                fluid.cross(crossed)
        else:
            fluid.demand_anew(queue, queue.rho - width)

    def _end_first(self, queue: MaxMinConcurrentQueue, end: int) -> None:
        """Make ``end`` the first end of ``queue``."""
        queue.soonest = end
        queue.end_is_stale = False
        self.fluid.end_at(queue, queue.since + queue.occupied * (end - queue.progress))

    def pick(self, widest: int | None = None) -> int:
        return self.fluid.pick(widest)

    @property
    def is_at_rest(self) -> bool:
        return self.fluid.is_at_rest

    def catch_up(self, queue: MaxMinConcurrentQueue, work: int, last_work: int) -> None:  # noqa: ARG002
        self.fluid.turn = queue.index

    def follow(self) -> None:
        self.fluid.follow()

    def resize(self, concurrency: int) -> None:
        fluid = self.fluid
        fluid.resize(concurrency)
        for queue in fluid.queues:
            if queue.line:
                self._fill(queue)
                fluid.schedule(queue)

    def close(self, queue: MaxMinConcurrentQueue, *, closing_up: bool) -> None:
        queue.clear()
        self.fluid.close(queue, closing_up=closing_up)

    def meters(self) -> dict[str, int]:
        return self.fluid.meters()

    def check(self) -> None:
        self.fluid.check()
        for queue in self.fluid.queues:
            if queue.is_closed:
                continue
            entries = [*queue.guesses, *((end, ticket) for end, _, ticket in queue.later_guesses)]
            running = {ticket for end, ticket in entries if ticket.charged == end}
            known, guessed = (
                sum(end & WIDEST for end in queue.virtual_ends),
                sum(ticket.width for ticket in running),
            )
            assert queue.occupied == known + guessed, f"occupied seats of {queue!r}"
            owed = sum(ticket.width for ticket in queue.line if ticket.state is _RELEASED)
            assert queue.owed == owed, f"what {queue!r} owes"
            asked = queue.occupied + sum(self._asked.get(ticket, ticket.width) for ticket in queue.line)
            assert queue.rho == asked, f"the demand of {queue!r}"
            assert not queue.line or queue.occupied >= self.fluid.concurrency, f"a request could start in {queue!r}"
            assert not queue.occupied or queue.soonest <= queue.first_end(), f"the soonest end of {queue!r}"
            assert [end for end, _ in queue.guesses] == sorted(end for end, _ in queue.guesses), f"guesses of {queue!r}"

    def __repr__(self) -> str:
        return f"<MaxMinConcurrent {self.fluid!r}>"
