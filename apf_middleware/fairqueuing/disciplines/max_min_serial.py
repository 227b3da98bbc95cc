"""`max-min-serial`: max-min fair shares; in the fluid model, the requests of a queue run one after another.

The KEP's second solution. A queue demands rho seats, the widths of its requests that have arrived and not ended in the
model. It gets mu = min(rho, mu_fair), and its work meter W counts the seat-seconds (see `max_min_model`). A request
starts virtually when its predecessor ends, or when it arrives if that is later, and ends when the meter has advanced by
its work. The queue's ``next_dispatch_w`` is the position at which its next ticket starts. The ticket that would end at
the earliest time is served first.

The KEP does not define what happens when a duration becomes known late, or when a request leaves. Here:

*Unknown durations.* The expected duration of a request is the average of the latest ones of its queue (see
`max_min_model`). Each time that a running request exceeds it, the guess is raised. So a flow of long requests is
charged for them when they begin. While they run, it is charged for their actual durations, with an error of at most one
average request of the level or a sixteenth of the duration.

*Requests stay open.* A request ends in the model only after it has really ended and given its seats back. In the KEP it
ends when its guess is over, and the past is revised afterwards. Here, a request that takes longer than expected has had
demand all the time, so nothing needs to be revised.

*Known durations.* When a request finishes, later positions in its queue move by the error of the guess. They depend
only on the sum of the known durations, so the model may end requests in the order in which their durations become
known. If the meter has not reached the end of the request yet, its seats count as demand until then (a *virtual end*):
the queue has had more than its share, and this way the excess is charged to it. Virtual ends are the only events of
this model.

*Leaving.* A waiting request has no position of its own, only a place behind others. When it leaves, its demand is
removed, and the next one starts where it would have started, but not before its own arrival. Seats that the queue got
because of that demand are not charged: the request did wait at that time.

*No windup.* A queue that is behind its meter keeps no credit: the start of its oldest ticket is raised to the arrival.
A queue that is ahead of its meter is charged, but only for seats that it really used beyond its share, and for at most
C requests like the one that ends, or C average ones of the level if these are longer. Otherwise a queue that uses seats
which no other queue wants would be charged more the longer it does so.

The results agree with those of `equal-serial` if all demands are equal or only one queue has requests. Each call is
O((1 + crossings) log n), where crossings are the queues that become granted or limited, plus the virtual ends and
raised guesses that are due. Only the first change of a queue's weight takes O(virtual ends) in addition.
"""

from collections import deque
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final

from apf_middleware.fairqueuing.disciplines.base import Discipline
from apf_middleware.fairqueuing.disciplines.max_min_model import (
    FAR,
    GRAINS_PER_UNIT,
    FluidModel,
)
from apf_middleware.fairqueuing.disciplines.work_meter import IS_WIDE, MaxMinQueue, WorkMeter
from apf_middleware.fairqueuing.heaps import heappop, heappush
from apf_middleware.fairqueuing.ticket import Ticket, TicketState
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS, work_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MaxMinSerial", "SerialMeter"]

_SEATED: Final = TicketState.SEATED


class SerialMeter(WorkMeter):
    """A work meter, the position where the queue's next ticket starts, and the expected work of the running ones.

    Ends are *kept* as positions, until the weight of the queue changes for the first time. From then on they are kept
    as amounts of work, which another weight doesn't change: ``_anchor`` is the position of the meter at the last
    change, and ``_anchor_work`` the work up to there, in grains times weight.
    """

    __slots__ = ("_anchor", "_anchor_work", "_is_by_work", "lingering", "next_dispatch_w", "running_work")

    def __init__(self, index: int, guess_ns: int) -> None:
        super().__init__(index, guess_ns)
        self.next_dispatch_w: int = 0
        self.running_work: int = 0  # in grains of work
        # those with an end that isn't among the virtual ends
        self.lingering: dict[Ticket, None] = {}
        self._is_by_work = False
        self._anchor = self._anchor_work = 0

    def finish_of(self, first: Ticket) -> int:
        work = first.total_work * GRAINS_PER_UNIT
        finish = self.next_dispatch_w + (self.scaled(work) if self.is_weighted else work)
        return finish - self.base if self.on_r else finish

    def next_end(self) -> int | None:
        if not self.virtual_ends:
            return None
        end = self.virtual_ends[0] >> 1
        if self._is_by_work:
            end = self.end_of(end)
        return end - self.base if self.on_r else end

    def kept(self, end: int) -> int:
        """Return what is kept of an end at this position."""
        return self._anchor_work + (end - self._anchor) * self.share.weight if self._is_by_work else end

    def end_of(self, kept: int) -> int:
        """Return the position of an end."""
        return self._anchor + (kept - self._anchor_work) // self.share.weight if self._is_by_work else kept

    def shift_positions(self, way: int) -> None:
        """Change nothing: the stored positions are always on the queue's own meter."""

    def charge(self, work: int) -> None:
        """Add ``work``, in grains, to that of the running tickets."""
        running = self.running_work
        self.running_work = running + work
        # the difference of the scaled sums, so that rounding errors don't accumulate
        self.next_dispatch_w += self.scaled(running + work) - self.scaled(running)

    def rescale(self, position: int, former: int, weight: int) -> None:
        """Move the later positions for a new ``weight``; the meter stays at ``position``.

        The queue is charged for the same work as before. If it is behind its meter, it is not owed more work than
        before, and not for a longer part of the meter.
        """
        way = self.next_dispatch_w - position
        if way > 0 or weight > former:
            self.next_dispatch_w = position + way * former // weight
        if self._is_by_work:
            self._anchor_work += (position - self._anchor) * former
        else:  # this happens once
            self._is_by_work = True
            for ticket in self.lingering:
                ticket.settled = (ticket.settled - position) * former
            ends, self.virtual_ends = self.virtual_ends, []
            wide_ends, self.wide_ends = self.wide_ends, {}
            for end in ends:
                width = wide_ends[end].pop() if end & IS_WIDE else 1
                self.end_virtually(((end >> 1) - position) * former, width)
        self._anchor = position

    def figures(self) -> dict[str, int]:
        return {"next_dispatch_w": self.next_dispatch_w, "rho": self.share.rho, "virtual_ends": len(self.virtual_ends)}


class MaxMinSerial(Discipline[MaxMinQueue[SerialMeter]]):
    """The KEP's second solution. ``guess_ns`` is the assumed duration of the first requests."""

    __slots__ = ("_asked", "_due", "_guessed", "_later_guesses", "_serial", "fluid")

    name: ClassVar[str] = "max-min-serial"

    is_restless: ClassVar[bool] = True  # shares change at events of the fluid model, between calls

    is_weighted: ClassVar[bool] = True

    def __init__(self, concurrency: int, guess_ns: int = DEFAULT_GUESS_NS) -> None:
        self.fluid: FluidModel[SerialMeter] = FluidModel(concurrency, guess_ns)
        self._asked: dict[Ticket, int] = {}  # width on arrival, of tickets that may be cut at dispatch
        # The times at which the guesses of seated tickets are exceeded: ``_guessed`` has first guesses as long as these
        # come in ascending order, and the heap ``_later_guesses`` has all others, with serial numbers. Both have the
        # times at which the tickets were seated, because a ticket may have been released and seated again since.
        self._guessed: deque[tuple[int, int, Ticket]] = deque()
        self._later_guesses: list[tuple[int, int, int, Ticket]] = []
        self._due = FAR  # no guess is exceeded before or at that time
        self._serial: Iterator[int] = count()

    def open_queue(self, index: int) -> MaxMinQueue[SerialMeter]:
        return self.fluid.open(SerialMeter(index, self.fluid.guess_ns))

    # Time

    def begin(self, now: int) -> None:
        self.fluid.now = now

    def advance(self, elapsed_ns: int, demand: int) -> None:  # noqa: ARG002 - each queue's own demand counts here
        fluid = self.fluid
        until = fluid.now + elapsed_ns
        while (meter := fluid.advance(until)) is not None:
            self._reach(meter)
        if fluid.now > self._due:
            self._raise_exceeded()

    def _raise_exceeded(self) -> None:
        """Raise the guesses that have been exceeded."""
        now, guessed, later = self.fluid.now, self._guessed, self._later_guesses
        while guessed:
            exceeded_at, seated_at, ticket = guessed[0]
            is_running = _runs_since(ticket, seated_at)
            if is_running and exceeded_at >= now:
                break
            guessed.popleft()
            if is_running:
                self._raise_guess(ticket, exceeded_at - seated_at)
        while later and (later[0][0] < now or not _runs_since(later[0][3], later[0][2])):
            exceeded_at, _, seated_at, ticket = heappop(later)
            if _runs_since(ticket, seated_at):
                self._raise_guess(ticket, exceeded_at - seated_at)
        self._due = guessed[0][0] if guessed else now + FAR
        if later and later[0][0] < self._due:
            self._due = later[0][0]

    def _raise_guess(self, ticket: Ticket, guess_ns: int) -> None:
        """Raise the guess of ``ticket``, which has run for longer, until it is not exceeded."""
        fluid = self.fluid
        queue, seats = ticket.queue, ticket.work.seats
        assert isinstance(queue, MaxMinQueue), "only queued tickets have a guess"
        meter: SerialMeter = queue.meter
        guess = guess_ns
        while ticket.seated_at + guess < fluid.now:
            guess = fluid.next_guess(guess)
        more = (seats * guess + 5) // 10 - (seats * guess_ns + 5) // 10
        ticket.charged += more
        meter.charge(more * GRAINS_PER_UNIT)
        heappush(self._later_guesses, (ticket.seated_at + guess, next(self._serial), ticket.seated_at, ticket))
        if meter.first is not None:
            fluid.schedule_finish(meter)

    def _reach(self, meter: SerialMeter) -> None:
        """End a request in the model, because the queue's meter has reached its virtual end."""
        end = heappop(meter.virtual_ends)
        width = meter.take_width(end) if end & IS_WIDE else 1
        meter.end_is_stale = True  # the next one is later, if there is any
        self.fluid.demand(meter, meter.share.rho - width)

    # What happens to tickets

    def arrive(self, queue: MaxMinQueue[SerialMeter], ticket: Ticket) -> None:
        fluid, meter = self.fluid, queue.meter
        if fluid.lone is not None:
            self._admit_lone()
        width, work = ticket.width, ticket.work
        ticket.arrival_r = position = fluid.here(meter)
        if work.final_seats > work.seats:
            self._asked[ticket] = width
        if queue.length:
            fluid.demand(meter, meter.share.rho + width)
            return
        self._raise_start(meter, position)
        meter.first = ticket
        fluid.demand_anew(meter, meter.share.rho + width)

    def rejoin(self, queue: MaxMinQueue[SerialMeter], ticket: Ticket) -> None:
        if ticket.newer is not None and ticket.newer.arrival_r < ticket.arrival_r:
            ticket.arrival_r = ticket.newer.arrival_r  # otherwise anti-windup takes credit from the tickets behind
        if queue.oldest is ticket:
            self._find(queue)
            self.fluid.schedule_finish(queue.meter)

    def serve(self, queue: MaxMinQueue[SerialMeter], ticket: Ticket) -> None:
        fluid, meter, width = self.fluid, queue.meter, ticket.width
        fluid.turn = meter.index
        fluid.take(width)
        if fluid.begin_alone(meter, ticket):
            return
        if fluid.lone is not None:
            self._admit_lone()
        self._begin(meter, ticket)
        fluid.demand(meter, meter.share.rho + width)

    def _begin(self, meter: SerialMeter, ticket: Ticket) -> None:
        """Charge ``ticket``, which begins and has not waited."""
        fluid = self.fluid
        self._raise_start(meter, fluid.here(meter))
        self._charge(meter, ticket, fluid.now)

    @staticmethod
    def _raise_start(meter: SerialMeter, position: int) -> None:
        """Let the next ticket start at ``position`` at the earliest."""
        meter.next_dispatch_w = max(meter.next_dispatch_w, position)

    def _charge(self, meter: SerialMeter, ticket: Ticket, now: int) -> None:
        """Charge ``ticket``, which is seated at ``now``, for its expected duration."""
        work, guess = ticket.work, meter.guess_ns
        ticket.charged = units = (work.seats * guess + 5) // 10 + work.final_work
        grains = units * GRAINS_PER_UNIT
        ticket.start_r = start = meter.next_dispatch_w
        if meter.is_weighted:
            meter.charge(grains)
        else:
            meter.next_dispatch_w = start + grains
            meter.running_work += grains
        exceeded_at, guessed = now + guess, self._guessed
        self._due = min(self._due, exceeded_at)
        if not guessed or guessed[-1][0] <= exceeded_at:
            guessed.append((exceeded_at, now, ticket))
        else:
            heappush(self._later_guesses, (exceeded_at, next(self._serial), now, ticket))

    def _admit_lone(self) -> None:
        """Admit the lone request, which still runs, to the model."""
        fluid = self.fluid
        meter, ticket = fluid.lone, fluid.lone_ticket
        assert meter is not None, "a lone request has a queue"
        assert ticket is not None, "its meter is set only with it"
        self._raise_start(meter, meter.base)
        fluid.admit_alone(meter)
        self._charge(meter, ticket, ticket.seated_at)
        if fluid.now > self._due:
            self._raise_exceeded()

    def leave(self, queue: MaxMinQueue[SerialMeter], ticket: Ticket, *, was_oldest: bool) -> None:
        fluid, meter = self.fluid, queue.meter
        self._asked.pop(ticket, None)
        if was_oldest:
            self._find(queue)
            fluid.demand_anew(meter, meter.share.rho - ticket.width)
        else:
            fluid.demand(meter, meter.share.rho - ticket.width)

    def dispatch(self, queue: MaxMinQueue[SerialMeter], ticket: Ticket) -> None:
        fluid, meter = self.fluid, queue.meter
        fluid.turn = meter.index
        fluid.take(ticket.width)
        self._charge(meter, ticket, fluid.now)
        if self._asked:
            cut = self._asked.pop(ticket, ticket.width) - ticket.width
            if cut:
                self._find(queue)
                fluid.demand_anew(meter, meter.share.rho - cut)
                return
        self._find(queue)
        fluid.schedule_finish(meter)

    def settle(self, queue: MaxMinQueue[SerialMeter], ticket: Ticket, duration_ns: int) -> None:
        fluid, meter, work, guessed = self.fluid, queue.meter, ticket.work, self._guessed
        charged = 0
        if ticket is fluid.lone_ticket:
            self._raise_start(meter, meter.base)  # it has not been charged for its expected work
        else:
            charged = ticket.charged * GRAINS_PER_UNIT
            if guessed and guessed[0][2] is ticket:  # usually; other entries are dropped when the guess is exceeded
                guessed.popleft()
        known = work_of(work.seats, duration_ns) + work.final_work
        meter.running_work = running = meter.running_work - charged
        former = meter.next_dispatch_w
        if meter.is_weighted:
            end = former + meter.scaled(known * GRAINS_PER_UNIT) - meter.scaled(charged + running)
            running = meter.scaled(running)
        else:
            end = former + known * GRAINS_PER_UNIT - charged - running  # of all known durations
        position = fluid.here(meter)
        if end > position:
            average = (work.seats * fluid.guess_ns + 5) // 10
            most = fluid.concurrency * max(known, average) * GRAINS_PER_UNIT
            latest = position + (meter.scaled(most) if meter.is_weighted else most)
            end = min(end, latest)
        ticket.settled = meter.kept(end)
        meter.next_dispatch_w = end + running
        fluid.learn(meter, duration_ns)
        if meter.first is not None:
            self._find(queue)
            if meter.next_dispatch_w != former:
                fluid.schedule_finish(meter)
        if work.linger_ns:
            meter.lingering[ticket] = None
        else:
            self._vacate(meter, ticket, position)

    def vacate(self, queue: MaxMinQueue[SerialMeter], ticket: Ticket) -> None:
        fluid, meter = self.fluid, queue.meter
        del meter.lingering[ticket]
        self._vacate(meter, ticket, fluid.here(meter))

    def _vacate(self, meter: SerialMeter, ticket: Ticket, position: int) -> None:
        fluid = self.fluid
        fluid.give(ticket.width)
        if meter.share.is_closed:
            return
        is_over = meter.end_of(ticket.settled) <= position
        if ticket is fluid.lone_ticket:
            if is_over:
                fluid.end_alone(meter)
                return
            fluid.admit_alone(meter)
        elif is_over:
            fluid.demand(meter, meter.share.rho - ticket.width)
            return
        # The seats are really free now, and in the model when the meter has reached the end.
        ends = meter.virtual_ends
        is_first = not ends or ticket.settled < ends[0] >> 1
        meter.end_virtually(ticket.settled, ticket.width)
        if is_first:
            fluid.schedule_end(meter)

    def reweigh(self, queue: MaxMinQueue[SerialMeter], weight: int) -> None:
        fluid, meter = self.fluid, queue.meter
        if fluid.lone is not None:
            self._admit_lone()
        meter.rescale(fluid.here(meter), queue.weight, weight)
        queue.weight = weight
        fluid.reweigh(meter, weight)

    def _find(self, queue: MaxMinQueue[SerialMeter]) -> None:
        """Update ``first`` and the start of the oldest ticket."""
        meter = queue.meter
        meter.first = oldest = queue.oldest
        if oldest is not None and meter.next_dispatch_w < oldest.arrival_r:
            meter.next_dispatch_w = oldest.arrival_r

    def pick(self, widest: int | None = None) -> int:
        return self.fluid.pick(widest)

    @property
    def is_at_rest(self) -> bool:
        return self.fluid.is_at_rest

    def catch_up(self, queue: MaxMinQueue[SerialMeter]) -> None:
        self.fluid.turn = queue.index

    def follow(self) -> None:
        self.fluid.follow()

    def resize(self, concurrency: int) -> None:
        if self.fluid.lone is not None:
            self._admit_lone()
        self.fluid.resize(concurrency)

    def close(self, queue: MaxMinQueue[SerialMeter], *, closing_up: bool) -> None:
        self.fluid.close(queue, closing_up=closing_up)

    def meters(self) -> dict[str, int]:
        return self.fluid.figures()

    def check(self) -> None:
        self.fluid.check()
        for queue in self.fluid.queues:
            meter = queue.meter
            if meter.share.is_closed:
                continue
            seats = sum(ticket.width for ticket in queue) + queue.seats_in_use + meter.seats_of_virtual_ends()
            assert meter.share.rho == seats, f"the demand of {queue!r}"
            assert queue.executing or not meter.running_work, f"running work of {queue!r}"

    def __repr__(self) -> str:
        return f"<MaxMinSerial {self.fluid!r}>"


def _runs_since(ticket: Ticket, seated_at: int) -> bool:
    """Return whether ``ticket`` still has the seats that it got at that time, from a queue."""
    return ticket.state is _SEATED and ticket.seated_at == seated_at and ticket.queue is not None
