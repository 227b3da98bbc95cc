"""`max-min-serial`: max-min fair shares, and one request of a queue after the other in the fluid model.

The KEP's second solution. A queue demands rho seats, the widths of its requests that have arrived and not ended in the
model. It gets mu = min(rho, mu_fair), and its work meter W counts the seat-seconds (see `fluid_model`). A request
starts virtually when its predecessor ends, or when it arrives if that is later, and ends when the meter has advanced by
its work. The queue's ``next_dispatch_w`` is the position at which its next ticket starts. The ticket that would end at
the earliest time is served first.

The KEP does not say what happens to lengths that are learned late and to requests that leave. Here:

*Unknown lengths.* A request counts as what the latest requests of its queue took (see `fluid_model`). If it runs
longer, the guess grows each time it is exceeded. So a flow of long requests is charged for them when they begin, and
while they run for what they have really taken, to within one request of the level or a sixteenth.

*Held open.* Nothing ends in the model that has not really ended and given its seats back. The KEP lets a guessed end
pass and revises the past afterwards. Held open, a request that takes longer than guessed has had demand all the time,
as it should, and there is nothing to revise.

*Learned lengths.* When a request finishes, the positions behind it in its queue move by the error of the guess. Only
the sum of the known lengths matters to them, so the model may work off requests in the order in which their lengths
become known. If the meter has not reached the end of the request yet, its seats stay demanded until the meter is there
(a *virtual end*): the queue has had more than its share, and pays it back before it gets any more. These are the only
events of this model.

*Leaving.* A waiting request has no position of its own, only a place behind others. When it leaves, its demand goes
with it, and the next one starts where it would have started, but never before its own arrival. The seats that its
demand was given meanwhile are not taken back: the model was right to set them aside.

*No windup.* A queue that falls behind its meter keeps no credit: the start of its oldest ticket is raised to the
arrival. A queue ahead of its meter pays, but only for what it really used beyond its share, and for no more than C
requests: as many as this one, or average ones of the level if they are longer. Without that bound, a queue that has
used seats which no other queue wanted would owe more, and be kept in more virtual ends, the longer it did.

Agrees with `equal-serial` where all demands are equal or one queue is alone. Each call is O((1 + crossings) log n), and
there are as many virtual ends and greater guesses as were caused.
"""

from collections import deque
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final

from apf_middleware.fairqueuing.disciplines.base import Discipline
from apf_middleware.fairqueuing.disciplines.fluid_model import (
    GRAINS_PER_UNIT,
    NEVER,
    WIDEST,
    WIDTH_BITS,
    FluidModel,
    MaxMinQueue,
)
from apf_middleware.fairqueuing.ticket import Ticket, TicketState
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS, EXACT_BELOW, seat_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MaxMinSerial", "MaxMinSerialQueue"]

_SEATED: Final = TicketState.SEATED


class MaxMinSerialQueue(MaxMinQueue):
    """A queue, the position where its next ticket starts, and the expected work of its running ones in grains."""

    __slots__ = ("next_dispatch_w", "running_work")

    def __init__(self, index: int, guess_ns: int) -> None:
        super().__init__(index, guess_ns)
        self.next_dispatch_w: int = 0
        self.running_work: int = 0  # in grains

    def finish_of(self, first: Ticket) -> int:
        units = first.total_work
        if first.width > 1:  # wide requests are put in order by what they are expected to take
            units = (first.work.seats * self.guess_ns + 5) // 10 + first.work.final_work
        finish = self.next_dispatch_w + units * GRAINS_PER_UNIT
        return finish - self.base if self.on_r else finish

    def next_end(self) -> int | None:
        if not self.virtual_ends:
            return None
        end = self.virtual_ends[0] >> WIDTH_BITS
        return end - self.base if self.on_r else end

    def meters(self) -> dict[str, int]:
        return {"next_dispatch_w": self.next_dispatch_w, "rho": self.rho, "virtual_ends": len(self.virtual_ends)}


class MaxMinSerial(Discipline[MaxMinSerialQueue]):
    """The KEP's second solution. ``guess_ns`` is what a request is taken to last at first."""

    __slots__ = ("_asked", "_due", "_guessed", "_later_guesses", "_serial", "fluid")

    name: ClassVar[str] = "max-min-serial"

    is_restless: ClassVar[bool] = True  # shares change at events of the fluid model, between calls

    def __init__(self, concurrency: int, guess_ns: int = DEFAULT_GUESS_NS) -> None:
        self.fluid: FluidModel[MaxMinSerialQueue] = FluidModel(concurrency, guess_ns)
        self._asked: dict[Ticket, int] = {}  # width on arrival, of tickets that may be cut at dispatch
        # When the guesses of seated tickets are exceeded: first guesses, as far as they come in this order, and a heap
        # of the others, with serial numbers.
        self._guessed: deque[tuple[int, Ticket]] = deque()
        self._later_guesses: list[tuple[int, int, Ticket]] = []
        self._due = NEVER  # no guess is exceeded before or at that time
        self._serial: Iterator[int] = count()

    def open_queue(self, index: int) -> MaxMinSerialQueue:
        return self.fluid.open(MaxMinSerialQueue(index, self.fluid.guess_ns))

    # Time

    def begin(self, now: int) -> None:
        self.fluid.now = now

    def advance(self, elapsed_ns: int, demand: int) -> None:  # noqa: ARG002 - each queue's own demand counts here
        fluid = self.fluid
        fluid.advance(elapsed_ns, self._reach)
        if fluid.now > self._due:
            self._raise_exceeded()

    def _raise_exceeded(self) -> None:
        """Raise the guesses that have been exceeded."""
        now, guessed, later = self.fluid.now, self._guessed, self._later_guesses
        while guessed:
            exceeded_at, ticket = guessed[0]
            is_seated = ticket.state is _SEATED
            if is_seated and exceeded_at >= now:
                break
            guessed.popleft()
            if is_seated:
                self._raise_guess(ticket, exceeded_at - ticket.seated_at)
        while later and (later[0][0] < now or later[0][2].state is not _SEATED):
            exceeded_at, _, ticket = heappop(later)
            if ticket.state is _SEATED:
                self._raise_guess(ticket, exceeded_at - ticket.seated_at)
        self._due = guessed[0][0] if guessed else NEVER
        if later and later[0][0] < self._due:
            self._due = later[0][0]

    def _raise_guess(self, ticket: Ticket, guess_ns: int) -> None:
        """Raise the guess of ``ticket``, which has run for longer, until it is long enough."""
        fluid = self.fluid
        queue, seats = ticket.queue, ticket.work.seats
        assert isinstance(queue, MaxMinSerialQueue), "only queued tickets have a guess"
        guess = guess_ns
        while ticket.seated_at + guess < fluid.now:
            guess = fluid.next_guess(guess)
        more = (seats * guess + 5) // 10 - (seats * guess_ns + 5) // 10
        ticket.charged += more
        queue.running_work += more * GRAINS_PER_UNIT
        queue.next_dispatch_w += more * GRAINS_PER_UNIT
        heappush(self._later_guesses, (ticket.seated_at + guess, next(self._serial), ticket))
        if queue.first is not None:
            fluid.schedule_finish(queue)

    def _reach(self, queue: MaxMinSerialQueue) -> None:
        """End a request in the model: the queue has paid back what it had beyond its share."""
        width = heappop(queue.virtual_ends) & WIDEST
        self.fluid.demand_anew(queue, queue.rho - width)

    # What happens to tickets

    def arrive(self, queue: MaxMinSerialQueue, ticket: Ticket) -> None:
        fluid = self.fluid
        width, work = ticket.width, ticket.work
        ticket.arrival_r = position = queue.base + fluid.r if queue.on_r else fluid.here(queue)
        if work.final_seats > work.seats:
            self._asked[ticket] = width
        if queue.length:
            fluid.demand(queue, queue.rho + width)
            return
        if queue.next_dispatch_w < position:  # noqa: PLR1730 - max() is slower
            queue.next_dispatch_w = position
        queue.first = ticket
        fluid.demand_anew(queue, queue.rho + width)

    def rejoin(self, queue: MaxMinSerialQueue, ticket: Ticket) -> None:
        if ticket.newer is not None and ticket.newer.arrival_r < ticket.arrival_r:
            ticket.arrival_r = ticket.newer.arrival_r  # or anti-windup would take from those behind
        if queue.oldest is ticket:
            self._find(queue)
            self.fluid.schedule_finish(queue)

    def serve(self, queue: MaxMinSerialQueue, ticket: Ticket) -> None:
        fluid = self.fluid
        ticket.arrival_r = position = queue.base + fluid.r if queue.on_r else fluid.here(queue)
        if queue.next_dispatch_w < position:  # noqa: PLR1730 - max() is slower
            queue.next_dispatch_w = position
        self._charge(queue, ticket)
        fluid.demand(queue, queue.rho + ticket.width)

    def _charge(self, queue: MaxMinSerialQueue, ticket: Ticket) -> None:
        fluid, work, guess = self.fluid, ticket.work, queue.guess_ns
        fluid.turn = queue.index
        ticket.charged = units = (work.seats * guess + 5) // 10 + work.final_work
        grains = units * GRAINS_PER_UNIT
        ticket.start_r = start = queue.next_dispatch_w
        queue.next_dispatch_w = start + grains
        queue.running_work += grains
        exceeded_at, guessed = fluid.now + guess, self._guessed
        if exceeded_at < self._due:  # noqa: PLR1730 - min() is slower
            self._due = exceeded_at
        if not guessed or guessed[-1][0] <= exceeded_at:
            guessed.append((exceeded_at, ticket))
        else:
            heappush(self._later_guesses, (exceeded_at, next(self._serial), ticket))
        fluid.used = used = fluid.used + ticket.width  # `_take`, written out for speed
        if used > fluid.shares.capacity:
            fluid.set_capacity()

    def leave(self, queue: MaxMinSerialQueue, ticket: Ticket, *, was_oldest: bool) -> None:
        fluid = self.fluid
        self._asked.pop(ticket, None)
        if was_oldest:
            self._find(queue)
            fluid.demand_anew(queue, queue.rho - ticket.width)
        else:
            fluid.demand(queue, queue.rho - ticket.width)

    def dispatch(self, queue: MaxMinSerialQueue, ticket: Ticket) -> None:
        fluid = self.fluid
        self._charge(queue, ticket)
        if self._asked:
            cut = self._asked.pop(ticket, ticket.width) - ticket.width
            if cut:
                self._find(queue)
                fluid.demand_anew(queue, queue.rho - cut)
                return
        self._find(queue)
        fluid.schedule_finish(queue)

    def settle(self, queue: MaxMinSerialQueue, ticket: Ticket, duration_ns: int) -> None:
        fluid, work, guessed = self.fluid, ticket.work, self._guessed
        if guessed and guessed[0][1] is ticket:  # mostly; others are dropped when their guess is exceeded
            guessed.popleft()
        units = work.seats * duration_ns
        known = (units + 5) // 10 if 0 <= units < EXACT_BELOW else seat_seconds(work.seats, duration_ns)
        known += work.final_work
        charged = ticket.charged * GRAINS_PER_UNIT
        queue.running_work = running = queue.running_work - charged
        end = queue.next_dispatch_w + known * GRAINS_PER_UNIT - charged - running  # of all that is known so far
        average = (work.seats * fluid.guess_ns + 5) // 10
        most = fluid.concurrency * (known if known > average else average) * GRAINS_PER_UNIT  # noqa: FURB136 - faster
        latest = (queue.base + fluid.r if queue.on_r else fluid.here(queue)) + most
        if end > latest:  # noqa: PLR1730 - min() is slower
            end = latest
        ticket.settled = end
        queue.next_dispatch_w = end + running
        fluid.learn(queue, duration_ns)
        if queue.first is not None:
            self._find(queue)
            fluid.schedule_finish(queue)
        if not work.linger_ns:
            self.vacate(queue, ticket)

    def vacate(self, queue: MaxMinSerialQueue, ticket: Ticket) -> None:
        fluid = self.fluid
        fluid.used -= ticket.width  # `_give`, written out for speed
        if fluid.shares.capacity != fluid.concurrency and not fluid.follows:
            fluid.set_capacity()
        if queue.is_closed:
            return
        if ticket.settled <= (queue.base + fluid.r if queue.on_r else fluid.here(queue)):
            fluid.demand(queue, queue.rho - ticket.width)
            return
        # Its seats are really free; in the model they are free when the meter has come as far.
        queue.end_virtually(ticket.settled, ticket.width)
        fluid.schedule_end(queue)

    def _find(self, queue: MaxMinSerialQueue) -> None:
        """Bring ``first`` and the start of the oldest ticket up to date."""
        queue.first = oldest = queue.oldest
        if oldest is not None and queue.next_dispatch_w < oldest.arrival_r:
            queue.next_dispatch_w = oldest.arrival_r

    def pick(self, widest: int | None = None) -> int:
        return self.fluid.pick(widest)

    @property
    def is_at_rest(self) -> bool:
        return self.fluid.is_at_rest

    def catch_up(self, queue: MaxMinSerialQueue, work: int, last_work: int) -> None:  # noqa: ARG002
        self.fluid.turn = queue.index

    def follow(self) -> None:
        self.fluid.follow()

    def resize(self, concurrency: int) -> None:
        self.fluid.resize(concurrency)

    def close(self, queue: MaxMinSerialQueue, *, closing_up: bool) -> None:
        self.fluid.close(queue, closing_up=closing_up)

    def meters(self) -> dict[str, int]:
        return self.fluid.meters()

    def check(self) -> None:
        self.fluid.check()
        for queue in self.fluid.queues:
            if queue.is_closed:
                continue
            ending = sum(end & WIDEST for end in queue.virtual_ends)
            waiting = sum(ticket.width for ticket in queue)
            assert queue.rho == waiting + queue.seats_in_use + ending, f"the demand of {queue!r}"
            assert queue.executing or not queue.running_work, f"running work of {queue!r}"

    def __repr__(self) -> str:
        return f"<MaxMinSerial {self.fluid!r}>"
