"""`max-min-concurrent`: max-min fair shares; in the fluid model, requests of a queue run concurrently.

The KEP's third solution. A queue has the same share mu as in `max-min-serial`, but several of its requests run at once
and divide it. In the model a queue starts its requests in order of arrival as long as they occupy fewer seats than the
level has, as if no other queue existed; ``occupied`` is the number of these seats. All of them make the same progress:
the meter P runs at mu / occupied. A request that starts at a position on P ends at that plus its duration, however mu
varies, so a heap of ends on P gives the next end. P is never faster than time, because mu is at most ``occupied``. So a
request ends in the model no earlier than it could really end. (There is one exception: when a level shrinks while many
requests run, queues with requests in line demand more than they may occupy, until no request is in line any more.)
While ``occupied`` is constant, P is a linear function of the work meter W of `max_min_model`, so each position on one
corresponds to a position on the other.

The KEP does not define how the next ticket is found, or what happens when requests leave or calls come late. Here:

*Unknown durations.* The expected duration of a request is the average of the latest ones of its queue (see
`max_min_model`) plus its linger. If a request has not really finished at its expected end, or not even begun, its guess
is raised. So a request ends in the model only when its duration is known and its seats are free, and the past is never
revised. If the duration turns out to be shorter than the progress of the request, it ends at once.

*One iterator.* The next ticket to serve is the one with the earliest expected end by its first guess. A queue serves in
order of arrival, so only the expected end of its oldest waiting ticket is needed. If that ticket has started virtually,
its start is known; otherwise it is expected to start when the next request of its queue ends. The KEP's second iterator
is not needed: virtual ends are reached as time passes, and the expected end of the queue changes with them.

*Virtual ends.* Of a request that has really ended, only its end on P and its width are kept.

*No windup.* If a request has really ended before it has begun in the model, its queue had more seats than its share.
The request stays in line, and begins and ends in the model later, so the queue is charged for it. At most C seats of
such requests are in line at once; further ones are removed.

*Entries that stay.* When more seats are occupied, the P of a limited queue runs slower, and later positions are reached
later. The entries of the queue then stay where they are, and are stale (see `max_min_model`). When fewer seats are
occupied, or the oldest ticket is overdue, the entries are moved. While all requests of a granted queue run, its P runs
at the rate of time, so neither change makes anything earlier.

*Leaving.* A request that leaves while it runs virtually is removed at once, with its demand, and the next one in line
starts. Its progress is lost. If it were given to the other requests of the queue, a flow could gain by sending requests
and withdrawing them.

*Late calls.* `advance` processes all events in the order of their times.

The work of a request is its duration times its width, linger included, as in the KEP. Each call is
O((1 + crossings) log n + log c), where crossings are the queues that become granted or limited, and c is the number of
requests that a queue runs at once.
"""

from collections import OrderedDict, deque
from heapq import heapify
from typing import Any, ClassVar, Final

from apf_middleware.fairqueuing.disciplines.base import Discipline
from apf_middleware.fairqueuing.disciplines.max_min_model import (
    NEVER,
    FluidModel,
)
from apf_middleware.fairqueuing.disciplines.work_meter import IS_WIDE, MaxMinQueue, WorkMeter
from apf_middleware.fairqueuing.heaps import heappop, heappush
from apf_middleware.fairqueuing.ticket import Ticket, TicketState
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS, GRAIN_BITS, WEIGHT_BITS

__all__ = ["ConcurrentMeter", "MaxMinConcurrent"]

_RELEASED: Final = TicketState.RELEASED

NOT_YET: Final = -1
"""The position on P of a request that has not begun, or is over."""

_MOST_STALE: Final = 64  # when there are more outdated entries, they are removed

_NO_LINE: Final = OrderedDict[Any, None]()  # shared, because few queues have more requests than may run virtually


class ConcurrentMeter(WorkMeter):
    """A work meter, the meter P of the queue, and the requests of the queue that run or wait in the model.

    For a request of unknown duration, ``start_r`` is where it begins on P and ``charged`` where it is expected to end;
    an entry with another end is outdated. A request of known duration has really ended, and only has a virtual end.
    """

    __slots__ = ("first_guess", "guesses", "later_guesses", "line", "occupied", "owed", "progress", "since", "soonest")

    def __init__(self, index: int, guess_ns: int, first_guess: int) -> None:
        super().__init__(index, guess_ns)
        self.first_guess: int = first_guess  # in grains; orders the waiting requests, so it is the same for all
        self.occupied: int = 0
        self.progress: int = 0  # P when ``occupied`` changed last
        self.since: int = 0  # W at that time, or R while the queue reads R
        # Expected ends on P: ``guesses`` has those by first guesses as long as they come in ascending order, and the
        # heap ``later_guesses`` has all others, with serial numbers.
        self.guesses: deque[tuple[int, Ticket]] = deque()
        self.later_guesses: list[tuple[int, int, Ticket]] = []
        self.soonest: int = 0  # the first end when it was computed last; the actual one is not earlier
        self.line: OrderedDict[Ticket, None] = _NO_LINE  # ordered, because tickets leave from anywhere
        self.owed: int = 0  # the width of the tickets in line that have really ended

    # The position on W, or on R, that corresponds to a position P is: since + occupied * (P - progress) / weight.

    def position_at(self, progress: int) -> int:
        """Return the first position on W, or on R, at which the meter P has reached ``progress``."""
        way = self.occupied * (progress - self.progress)
        return self.since - (-way << WEIGHT_BITS) // self.share.weight if self.is_weighted else self.since + way

    def progress_at(self, position: int) -> int:
        """Return the position of the meter P when W, or R, has this ``position``; some seats are occupied."""
        way = position - self.since
        if self.is_weighted:
            way = way * self.share.weight >> WEIGHT_BITS
        return self.progress + way // self.occupied

    def finish_of(self, first: Ticket) -> int:
        begin = first.start_r
        if begin == NOT_YET:  # it begins when the next request ends
            begin = self.first_end() if self.occupied else 0
        return self.position_at(begin + self.first_guess)

    def next_end(self) -> int | None:
        if not self.occupied:
            return None
        self.soonest = end = self.first_end()
        return self.position_at(end)

    def shift_positions(self, way: int) -> None:
        self.since += way

    def figures(self) -> dict[str, int]:
        return {"progress": self.progress, "rho": self.share.rho, "occupied": self.occupied}

    def stand_in_line(self, ticket: Ticket) -> None:
        """Let ``ticket`` start virtually when those before it have started."""
        if self.line is _NO_LINE:
            self.line = OrderedDict()
        self.line[ticket] = None

    def finish(self, ticket: Ticket, end: int) -> None:
        """Keep the seats of ``ticket``, which has really ended, occupied until ``end``."""
        guesses = self.guesses
        self.end_virtually(end, ticket.width)
        ticket.charged = NOT_YET
        if guesses and guesses[0][1] is ticket:  # usually
            guesses.popleft()
        else:
            self.tidy()

    def clear(self) -> None:
        """Forget all requests."""
        self.virtual_ends.clear()
        self.wide_ends.clear()
        self.guesses.clear()
        self.later_guesses.clear()
        self.line = _NO_LINE
        self.occupied = self.owed = 0

    def first_end(self) -> int:
        """Return where the next request ends on P, and drop the outdated entries before it."""
        ends, guesses, later = self.virtual_ends, self.guesses, self.later_guesses
        end = ends[0] >> 1 if ends else NEVER
        while guesses:
            guess, ticket = guesses[0]
            if ticket.charged == guess:
                end = min(end, guess)
                break
            guesses.popleft()
        while later:
            guess, _, ticket = later[0]
            if ticket.charged == guess:
                return min(guess, end)
            heappop(later)
        return end

    def tidy(self) -> None:
        """Drop outdated entries: those in front, and all others if there are too many."""
        guesses = self.guesses
        while guesses and guesses[0][1].charged != guesses[0][0]:
            guesses.popleft()
        if len(guesses) + len(self.later_guesses) > 2 * self.occupied + _MOST_STALE:
            self.guesses = deque(entry for entry in guesses if entry[1].charged == entry[0])
            self.later_guesses = [entry for entry in self.later_guesses if entry[2].charged == entry[0]]
            heapify(self.later_guesses)


class MaxMinConcurrent(Discipline[MaxMinQueue[ConcurrentMeter]]):
    """The KEP's third solution. ``guess_ns`` is the assumed duration of the first requests."""

    __slots__ = ("_asked", "_first_guess", "_serial", "fluid")

    name: ClassVar[str] = "max-min-concurrent"

    is_restless: ClassVar[bool] = True  # shares change at events of the fluid model, between calls

    is_weighted: ClassVar[bool] = True

    def __init__(self, concurrency: int, guess_ns: int = DEFAULT_GUESS_NS) -> None:
        self.fluid: FluidModel[ConcurrentMeter] = FluidModel(concurrency, guess_ns)
        self._first_guess = guess_ns << GRAIN_BITS
        self._serial = 0
        self._asked: dict[Ticket, int] = {}  # width on arrival, of tickets that may be cut at dispatch

    def open_queue(self, index: int) -> MaxMinQueue[ConcurrentMeter]:
        return self.fluid.open(ConcurrentMeter(index, self.fluid.guess_ns, self._first_guess))

    # The fluid model

    def begin(self, now: int) -> None:
        self.fluid.now = now

    def advance(self, elapsed_ns: int, demand: int) -> None:  # noqa: ARG002 - each queue's own demand counts here
        fluid = self.fluid
        until = fluid.now + elapsed_ns
        while (meter := fluid.advance(until)) is not None:
            self._reach(meter)

    def progress(self, meter: ConcurrentMeter) -> int:
        """Return the position of the queue's meter P, in grains for each seat."""
        fluid = self.fluid
        if not meter.occupied:
            return meter.progress
        return meter.progress_at(fluid.r if meter.on_r else fluid.position(meter))

    def _occupy(self, meter: ConcurrentMeter, seats: int) -> int:
        """Change the number of seats that are occupied virtually, and so the rate of P; return P."""
        fluid = self.fluid
        position, occupied = fluid.r if meter.on_r else fluid.here(meter), meter.occupied
        if occupied:
            meter.progress = meter.progress_at(position)
        meter.since = position
        meter.occupied = occupied + seats
        return meter.progress

    def _begin(self, meter: ConcurrentMeter, ticket: Ticket) -> None:
        ticket.start_r = begin = self._occupy(meter, ticket.width)
        if ticket.state is _RELEASED:
            meter.owed -= ticket.width
            meter.finish(ticket, begin + ticket.settled)
        else:
            self._expect(meter, ticket, begin + (meter.guess_ns + ticket.work.linger_ns << GRAIN_BITS))

    def _expect(self, meter: ConcurrentMeter, ticket: Ticket, end: int) -> None:
        """Set the expected end of ``ticket``, which has begun."""
        ticket.charged = end
        guesses = meter.guesses
        if not guesses or guesses[-1][0] <= end:
            guesses.append((end, ticket))
        else:
            self._serial += 1
            heappush(meter.later_guesses, (end, self._serial, ticket))

    def _raise_exceeded(self, meter: ConcurrentMeter, end: int) -> None:
        """Raise the guess of a request that has not ended at ``end``, its expected end."""
        guesses = meter.guesses
        ticket = guesses.popleft()[1] if guesses and guesses[0][0] == end else heappop(meter.later_guesses)[2]
        if ticket.charged == end:
            guess_ns = (end - ticket.start_r) >> GRAIN_BITS
            ticket.charged = later = ticket.start_r + (self.fluid.next_guess(guess_ns) << GRAIN_BITS)
            self._serial += 1
            heappush(meter.later_guesses, (later, self._serial, ticket))

    def _fill(self, meter: ConcurrentMeter) -> None:
        """Start requests that stand in line, while there are seats."""
        most = max(self.fluid.concurrency, 1)
        while meter.line and meter.occupied < most:
            ticket, _ = meter.line.popitem(last=False)
            self._begin(meter, ticket)

    def _take_out(self, meter: ConcurrentMeter, ticket: Ticket) -> None:
        if ticket.start_r == NOT_YET:
            del meter.line[ticket]
        else:
            self._occupy(meter, -ticket.width)
            ticket.charged = NOT_YET
            meter.tidy()
        if meter.line:
            self._fill(meter)

    def _reach(self, meter: ConcurrentMeter) -> None:
        fluid = self.fluid
        position, end, seats = fluid.r if meter.on_r else fluid.position(meter), meter.soonest, 0
        progress = meter.progress_at(position)
        ends = meter.virtual_ends
        while end <= progress:
            if ends and ends[0] >> 1 == end:
                virtual_end = heappop(ends)
                seats += meter.take_width(virtual_end) if virtual_end & IS_WIDE else 1
            else:
                self._raise_exceeded(meter, end)
            end = meter.first_end()
        has_line = bool(meter.line)
        if seats:
            meter.progress, meter.since = progress, position
            meter.occupied -= seats
            if has_line:
                self._fill(meter)
        rho = meter.share.rho - seats
        if has_line or not meter.on_r or rho < meter.share.at_least:
            fluid.demand_anew(meter, rho)
            return
        meter.share.rho = rho
        self._end_first(meter, end)
        first = meter.first
        if first is not None and (seats or first.start_r == NOT_YET):
            fluid.schedule_finish(meter)

    # What happens to tickets

    def arrive(self, queue: MaxMinQueue[ConcurrentMeter], ticket: Ticket) -> None:
        fluid, meter = self.fluid, queue.meter
        if fluid.lone is not None:
            self._admit_lone()
        width, work, occupied = ticket.width, ticket.work, meter.occupied
        if work.final_seats > work.seats:
            self._asked[ticket] = width
        if not meter.on_r or not occupied or meter.line or occupied >= fluid.concurrency:
            if meter.first is None:
                meter.first = ticket
            self._enter(meter, ticket)
            return
        self._begin(meter, ticket)
        begin, end = ticket.start_r, ticket.charged
        meter.share.rho += width  # with more demand, the queue stays limited
        if end < meter.soonest:
            self._end_first(meter, end)
        else:
            meter.end_is_stale = True  # with more seats occupied, the end is not earlier
        first = meter.first
        if first is None:
            meter.first = ticket
        elif first.width == 1 and first.start_r + meter.first_guess >= begin:  # nor is the finish, unless it is overdue
            meter.finish_is_stale = True
            return
        fluid.schedule_finish(meter)

    def _enter(self, meter: ConcurrentMeter, ticket: Ticket) -> None:
        """Start ``ticket`` virtually, or put it in line."""
        fluid = self.fluid
        ticket.start_r = ticket.charged = NOT_YET
        if not meter.line and meter.occupied < max(fluid.concurrency, 1):
            self._begin(meter, ticket)
        else:
            meter.stand_in_line(ticket)
            first = meter.first
            if meter.on_r and first is not None and first is not ticket:  # it is behind others, really and in the model
                fluid.demand(meter, meter.share.rho + ticket.width)
                return
        fluid.demand_anew(meter, meter.share.rho + ticket.width)

    def rejoin(self, queue: MaxMinQueue[ConcurrentMeter], ticket: Ticket) -> None:
        if queue.oldest is ticket:
            queue.meter.first = ticket
            self.fluid.schedule(queue.meter)

    def serve(self, queue: MaxMinQueue[ConcurrentMeter], ticket: Ticket) -> None:
        fluid, meter, width = self.fluid, queue.meter, ticket.width
        fluid.turn = meter.index
        fluid.take(width)
        # with a weight, the meters are rounded, and P may reach the end a moment after the request has ended
        if not meter.is_weighted and fluid.begin_alone(meter, ticket):
            meter.since, meter.occupied, ticket.start_r = meter.base, width, meter.progress
            return
        if fluid.lone is not None:
            self._admit_lone()
        work, occupied = ticket.work, meter.occupied
        if meter.on_r or occupied >= fluid.concurrency or meter.is_weighted:
            self._enter(meter, ticket)
            return
        # While all requests of the queue run, P runs at the rate of time, so no end becomes earlier.
        if occupied:
            position = fluid.here(meter)
            meter.progress += (position - meter.since) // occupied
            meter.since = position
        else:
            meter.mark, meter.since = fluid.now, meter.base
        meter.occupied = occupied + width
        ticket.start_r = begin = meter.progress
        guess_ns = meter.guess_ns + work.linger_ns
        end = begin + (guess_ns << GRAIN_BITS)
        self._expect(meter, ticket, end)
        if end < meter.soonest or not meter.has_end:
            meter.soonest = end
            fluid.end_at_time(meter, fluid.now + guess_ns)
        meter.end_is_stale = True
        fluid.demand(meter, meter.share.rho + width)

    def _admit_lone(self) -> None:
        """Admit the lone request, which still runs, to the model."""
        fluid = self.fluid
        meter, ticket = fluid.lone, fluid.lone_ticket
        assert meter is not None, "a lone request has a queue"
        assert ticket is not None, "its meter is set only with it"
        fluid.admit_alone(meter)
        self._expect(meter, ticket, ticket.start_r + (meter.guess_ns << GRAIN_BITS))
        progress = self.progress(meter)
        while (end := meter.first_end()) <= progress:
            self._raise_exceeded(meter, end)
        fluid.schedule_end(meter)

    def leave(self, queue: MaxMinQueue[ConcurrentMeter], ticket: Ticket, *, was_oldest: bool) -> None:  # noqa: ARG002
        meter = queue.meter
        self._asked.pop(ticket, None)
        self._take_out(meter, ticket)
        meter.first = queue.oldest
        self.fluid.demand_anew(meter, meter.share.rho - ticket.width)

    def dispatch(self, queue: MaxMinQueue[ConcurrentMeter], ticket: Ticket) -> None:
        fluid, meter = self.fluid, queue.meter
        fluid.turn = meter.index
        fluid.take(ticket.width)
        if self._asked:
            cut = self._asked.pop(ticket, ticket.width) - ticket.width
            if cut:
                if ticket.start_r != NOT_YET:
                    self._occupy(meter, -cut)
                    self._fill(meter)
                meter.first = queue.oldest
                fluid.demand_anew(meter, meter.share.rho - cut)
                return
        meter.first = oldest = queue.oldest
        if oldest is None:
            fluid.unschedule_finish(meter)
        else:
            fluid.schedule_finish(meter)

    def settle(self, queue: MaxMinQueue[ConcurrentMeter], ticket: Ticket, duration_ns: int) -> None:
        ticket.settled = duration_ns + ticket.work.linger_ns << GRAIN_BITS
        self.fluid.learn(queue.meter, duration_ns)
        if not ticket.work.linger_ns:
            self.vacate(queue, ticket)

    def vacate(self, queue: MaxMinQueue[ConcurrentMeter], ticket: Ticket) -> None:
        """End ``ticket``, which has really ended, or give it a virtual end."""
        fluid, meter = self.fluid, queue.meter
        width, begin = ticket.width, ticket.start_r
        fluid.give(width)
        if meter.share.is_closed:
            return
        if begin == NOT_YET:
            self._owe(meter, ticket)
            return
        if ticket is fluid.lone_ticket:
            self._end_lone(meter, ticket)
            return
        end = begin + ticket.settled
        position = fluid.r if meter.on_r else fluid.here(meter)
        progress = meter.progress_at(position)
        if end > progress:
            meter.finish(ticket, end)
            if end >= meter.soonest:
                meter.end_is_stale = True
            else:
                self._end_first(meter, end)
            first = meter.first
            if first is not None and first.start_r == NOT_YET:
                fluid.schedule_finish(meter)
            return
        meter.progress, meter.since = progress, position
        self._end(meter, ticket, width)

    def _end_lone(self, meter: ConcurrentMeter, ticket: Ticket) -> None:
        """End ``ticket``, which is alone; if it was charged for more time, it is admitted to the model until then."""
        fluid = self.fluid
        lasted = fluid.now - meter.mark << GRAIN_BITS
        if ticket.settled <= lasted:
            fluid.here(meter)
            fluid.end_alone(meter)
            meter.progress += lasted
            meter.occupied = 0
        else:
            fluid.admit_alone(meter)
            meter.finish(ticket, ticket.start_r + ticket.settled)
            fluid.schedule_end(meter)

    def _owe(self, meter: ConcurrentMeter, ticket: Ticket) -> None:
        """Keep ``ticket``, which has really ended but not begun virtually, in line, up to C seats of such tickets."""
        fluid = self.fluid
        if meter.owed + ticket.width <= fluid.concurrency:
            meter.owed += ticket.width
        else:
            del meter.line[ticket]
            fluid.demand_anew(meter, meter.share.rho - ticket.width)

    def _end(self, meter: ConcurrentMeter, ticket: Ticket, width: int) -> None:
        """End ``ticket``, because the progress of its queue has reached its end."""
        fluid = self.fluid
        # P runs at the rate of time, before and after; with a weight, rounding can make an end earlier by a grain
        in_time = not meter.on_r and meter.share.rho == meter.occupied and not meter.is_weighted
        meter.occupied -= width
        ticket.charged = NOT_YET
        meter.tidy()
        if meter.line:
            self._fill(meter)
        first = meter.first
        if in_time and (first is None or first.width == 1):
            meter.finish_is_stale = first is not None
            meter.end_is_stale = True
            fluid.demand(meter, meter.share.rho - width)
        else:
            fluid.demand_anew(meter, meter.share.rho - width)

    def _end_first(self, meter: ConcurrentMeter, end: int) -> None:
        """Make ``end`` the first end of a queue."""
        meter.soonest = end
        meter.end_is_stale = False
        self.fluid.end_at(meter, meter.position_at(end))

    def reweigh(self, queue: MaxMinQueue[ConcurrentMeter], weight: int) -> None:
        fluid, meter = self.fluid, queue.meter
        if fluid.lone is not None:
            self._admit_lone()
        self._occupy(meter, 0)  # what is done already was done at the former weight
        queue.weight = weight
        fluid.reweigh(meter, weight)

    def pick(self, widest: int | None = None) -> int:
        return self.fluid.pick(widest)

    @property
    def is_at_rest(self) -> bool:
        return self.fluid.is_at_rest

    def catch_up(self, queue: MaxMinQueue[ConcurrentMeter]) -> None:
        self.fluid.turn = queue.index

    def follow(self) -> None:
        self.fluid.follow()

    def resize(self, concurrency: int) -> None:
        fluid = self.fluid
        if fluid.lone is not None:
            self._admit_lone()
        fluid.resize(concurrency)
        for meter in fluid.meters:
            if meter.line:
                self._fill(meter)
                fluid.schedule(meter)

    def close(self, queue: MaxMinQueue[ConcurrentMeter], *, closing_up: bool) -> None:
        queue.meter.clear()
        self.fluid.close(queue, closing_up=closing_up)

    def meters(self) -> dict[str, int]:
        return self.fluid.figures()

    def check(self) -> None:
        self.fluid.check()
        for meter in self.fluid.meters:
            if meter.share.is_closed:
                continue
            entries = [*meter.guesses, *((end, ticket) for end, _, ticket in meter.later_guesses)]
            running = {ticket for end, ticket in entries if ticket.charged == end}
            guessed = meter.share.rho if meter is self.fluid.lone else sum(ticket.width for ticket in running)
            assert meter.occupied == meter.seats_of_virtual_ends() + guessed, f"occupied seats of {meter!r}"
            owed = sum(ticket.width for ticket in meter.line if ticket.state is _RELEASED)
            assert meter.owed == owed, f"what {meter!r} owes"
            asked = meter.occupied + sum(self._asked.get(ticket, ticket.width) for ticket in meter.line)
            assert meter.share.rho == asked, f"the demand of {meter!r}"
            assert not meter.line or meter.occupied >= self.fluid.concurrency, f"a request could start in {meter!r}"
            assert not meter.occupied or meter.soonest <= meter.first_end(), f"the soonest end of {meter!r}"
            assert [end for end, _ in meter.guesses] == sorted(end for end, _ in meter.guesses), f"guesses of {meter!r}"

    def __repr__(self) -> str:
        return f"<MaxMinConcurrent {self.fluid!r}>"
