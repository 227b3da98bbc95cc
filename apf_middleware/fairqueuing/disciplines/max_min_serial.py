"""`max-min-serial`: max-min fair shares, and one request of a queue after the other in the virtual world.

The KEP's second solution. A queue asks for rho seats, the widths of its requests that have arrived and not ended in the
virtual world; it gets mu = min(rho, mu_fair), and its work meter W counts the seat-seconds (see `virtual_world`). A
request starts virtually when its predecessor ends, or when it arrives if that is later, and ends when the meter has
come on by its work. The queue's ``next_dispatch_w`` is the position at which its next ticket starts; the ticket that
would end at the earliest time is served first.

The KEP leaves open what happens to what is learned late and to who leaves. Here:

*Unknown lengths.* A request counts as the guess. If it runs longer, the guess is doubled each time it is outrun (the
KEP adds the guess again: the same in effect, but a request that takes a thousand guesses would make a thousand events).
A flow of long requests is thus charged while they run, to within a factor of two, and not when all the harm is done.

*Held open.* Nothing ends in the virtual world that hasn't ended, and given its seats back, in the real one. The KEP
lets a guessed end pass and revises the past afterwards; held open, a request that takes longer than guessed has had
demand all the time, as it should, and there is nothing to revise.

*Learned lengths.* When a request finishes, the positions behind it in its queue move by what the guess was wrong. Only
the sum of what is known matters to them, so the virtual world may as well work off requests in the order in which their
lengths become known. If the virtual world is still short of the end, the request stays there as a *ghost* and asks for
its seats until the meter reaches it: the queue has had more than its share, and pays it back before its share is
anybody else's. These are the only events of this virtual world.

*Leaving.* Who waits has no position of its own, only a place behind the others. Who leaves takes its demand along; the
next one starts where it would have started, but never before its own arrival. The seats that the demand was given
meanwhile are not taken back: the virtual world was right to set them aside.

*No windup.* A queue that falls behind its meter keeps no credit: the start of its oldest ticket is lifted to the
arrival. A queue ahead of its meter pays, but only for what was really used beyond its share.

Agrees with `equal-serial` where all demands are equal or one queue is alone. Each call is O((1 + crossings) log n), and
there are as many ghosts and doublings as were caused.
"""

from collections import deque
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final

from apf_middleware.fairqueuing.disciplines.max_min import WIDEST, WIDTH_BITS, MaxMinQueue
from apf_middleware.fairqueuing.disciplines.timetable import GRAINS_PER_UNIT, NEVER
from apf_middleware.fairqueuing.disciplines.virtual_world import VirtualWorld
from apf_middleware.fairqueuing.ticket import Ticket, TicketState
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS, EXACT_BELOW, seat_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MaxMinSerial", "MaxMinSerialQueue"]

_SEATED: Final = TicketState.SEATED


class MaxMinSerialQueue(MaxMinQueue):
    """A queue, where its next ticket starts, what its running ones are taken to be, and its ghosts."""

    __slots__ = ("next_dispatch_w", "running_work")

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.next_dispatch_w: int = 0
        self.running_work: int = 0  # in grains

    def meters(self) -> dict[str, int]:
        return {"next_dispatch_w": self.next_dispatch_w, "rho": self.rho, "ghosts": len(self.ghosts)}


class MaxMinSerial(VirtualWorld[MaxMinSerialQueue]):
    """The KEP's second solution. ``guess_ns`` is what a request is taken to last at first."""

    __slots__ = ("_asked", "_due", "_guessed", "_outruns", "_serial")

    name: ClassVar[str] = "max-min-serial"

    def __init__(self, concurrency: int, guess_ns: int = DEFAULT_GUESS_NS) -> None:
        super().__init__(concurrency, guess_ns)
        self._asked: dict[Ticket, int] = {}  # width on arrival, of those who may be cut at dispatch
        self._guessed: deque[Ticket] = deque()  # those who have been seated, until they have outrun the first guess
        self._outruns: list[tuple[int, int, Ticket]] = []  # a heap of (when the guess is outrun, serial, ticket)
        self._due = NEVER  # no guess is outrun before or at that time
        self._serial: Iterator[int] = count()

    def open_queue(self, index: int) -> MaxMinSerialQueue:
        return self._open(MaxMinSerialQueue(index))

    # Time

    def advance(self, elapsed_ns: int, demand: int) -> None:
        super().advance(elapsed_ns, demand)
        if self.now > self._due:
            self._outgrow()

    def _outgrow(self) -> None:
        """A guess has been outrun."""
        guessed, outruns = self._guessed, self._outruns
        latest = self.now - self._guess_ns
        while guessed:
            ticket = guessed[0]
            is_seated = ticket.state is _SEATED
            if is_seated and ticket.seated_at >= latest:
                break
            guessed.popleft()
            if is_seated:
                self._double(ticket, self._guess_ns)
        while outruns and outruns[0][0] < self.now:
            outrun_at, _, ticket = heappop(outruns)
            if ticket.state is _SEATED:
                self._double(ticket, outrun_at - ticket.seated_at)
        self._due = guessed[0].seated_at + self._guess_ns if guessed else NEVER
        if outruns and outruns[0][0] < self._due:
            self._due = outruns[0][0]

    def _double(self, ticket: Ticket, guess_ns: int) -> None:
        """The ticket has run for longer than its guess."""
        queue, seats = ticket.queue, ticket.work.seats
        assert isinstance(queue, MaxMinSerialQueue), "only queued tickets have a guess"
        guess = guess_ns
        while ticket.seated_at + guess < self.now:
            guess *= 2
        more = seat_seconds(seats, guess) - seat_seconds(seats, guess_ns)
        ticket.charged += more
        queue.running_work += more * GRAINS_PER_UNIT
        queue.next_dispatch_w += more * GRAINS_PER_UNIT
        heappush(self._outruns, (ticket.seated_at + guess, next(self._serial), ticket))
        if queue.first is not None:
            self._schedule_finish(queue)

    def _finish_of(self, queue: MaxMinSerialQueue, first: Ticket) -> int:
        finish = queue.next_dispatch_w + first.total_work * GRAINS_PER_UNIT
        return finish - queue.base if queue.on_r else finish

    def _end_of(self, queue: MaxMinSerialQueue) -> int | None:
        if not queue.ghosts:
            return None
        end = queue.ghosts[0] >> WIDTH_BITS
        return end - queue.base if queue.on_r else end

    def _reach(self, queue: MaxMinSerialQueue) -> None:
        """The queue has paid back a ghost."""
        width = heappop(queue.ghosts) & WIDEST
        self._demand_anew(queue, queue.rho - width)

    # What happens to tickets

    def arrive(self, queue: MaxMinSerialQueue, ticket: Ticket) -> None:
        width, work = ticket.width, ticket.work
        ticket.arrival_r = position = queue.base + self.r if queue.on_r else self._here(queue)
        if work.final_seats > work.seats:
            self._asked[ticket] = width
        if queue.length:
            self._demand(queue, queue.rho + width)
            return
        if queue.next_dispatch_w < position:  # noqa: PLR1730 - max() is slower
            queue.next_dispatch_w = position
        queue.first = ticket
        self._demand_anew(queue, queue.rho + width)

    def rejoin(self, queue: MaxMinSerialQueue, ticket: Ticket) -> None:
        if ticket.newer is not None and ticket.newer.arrival_r < ticket.arrival_r:
            ticket.arrival_r = ticket.newer.arrival_r  # or anti-windup would take from those behind
        if queue.oldest is ticket:
            self._find(queue)
            self._schedule_finish(queue)

    def serve(self, queue: MaxMinSerialQueue, ticket: Ticket) -> None:
        ticket.arrival_r = position = queue.base + self.r if queue.on_r else self._here(queue)
        if queue.next_dispatch_w < position:  # noqa: PLR1730 - max() is slower
            queue.next_dispatch_w = position
        self._charge(queue, ticket)
        self._demand(queue, queue.rho + ticket.width)

    def _charge(self, queue: MaxMinSerialQueue, ticket: Ticket) -> None:
        self._turn = queue.index
        ticket.charged = units = ticket.total_work
        work = units * GRAINS_PER_UNIT
        ticket.start_r = start = queue.next_dispatch_w
        queue.next_dispatch_w = start + work
        queue.running_work += work
        guessed = self._guessed
        if not guessed and self.now + self._guess_ns < self._due:
            self._due = self.now + self._guess_ns
        guessed.append(ticket)
        self._used = used = self._used + ticket.width  # `_take`, written out for speed
        if used > self._shares.capacity:
            self._set_capacity()

    def leave(self, queue: MaxMinSerialQueue, ticket: Ticket, *, was_oldest: bool) -> None:
        self._asked.pop(ticket, None)
        if was_oldest:
            self._find(queue)
            self._demand_anew(queue, queue.rho - ticket.width)
        else:
            self._demand(queue, queue.rho - ticket.width)

    def dispatch(self, queue: MaxMinSerialQueue, ticket: Ticket) -> None:
        self._charge(queue, ticket)
        if self._asked:
            cut = self._asked.pop(ticket, ticket.width) - ticket.width
            if cut:
                self._find(queue)
                self._demand_anew(queue, queue.rho - cut)
                return
        self._find(queue)
        self._schedule_finish(queue)

    def settle(self, queue: MaxMinSerialQueue, ticket: Ticket, duration_ns: int) -> None:
        charged, work, guessed = ticket.charged * GRAINS_PER_UNIT, ticket.work, self._guessed
        if guessed and guessed[0] is ticket:  # as it mostly is; others are dropped when their guess is outrun
            guessed.popleft()
        units = work.seats * duration_ns
        known = (units + 5) // 10 if 0 <= units < EXACT_BELOW else seat_seconds(work.seats, duration_ns)
        queue.next_dispatch_w = start = queue.next_dispatch_w + (known + work.final_work) * GRAINS_PER_UNIT - charged
        queue.running_work = running = queue.running_work - charged
        ticket.settled = start - running  # where all that is known so far ends
        if queue.first is not None:
            self._find(queue)
            self._schedule_finish(queue)
        if not work.linger_ns:
            self.vacate(queue, ticket)

    def vacate(self, queue: MaxMinSerialQueue, ticket: Ticket) -> None:
        self._used -= ticket.width  # `_give`, written out for speed
        if self._shares.capacity != self._concurrency and not self._follows:
            self._set_capacity()
        if queue.is_closed:
            return
        if ticket.settled <= (queue.base + self.r if queue.on_r else self._here(queue)):
            self._demand(queue, queue.rho - ticket.width)
            return
        # Its seats are free in the real world; in the virtual one they are when the meter has come as far.
        queue.haunt(ticket.settled, ticket.width)
        self._schedule_end(queue)

    def _find(self, queue: MaxMinSerialQueue) -> None:
        """Its oldest ticket, or where that one starts, is another one."""
        queue.first = oldest = queue.oldest
        if oldest is not None and queue.next_dispatch_w < oldest.arrival_r:
            queue.next_dispatch_w = oldest.arrival_r

    def close(self, queue: MaxMinSerialQueue, *, closing_up: bool) -> None:
        self._close(queue, closing_up=closing_up)

    def check(self) -> None:
        super().check()
        for queue in self._queues:
            if queue.is_closed:
                continue
            ghosts = sum(ghost & WIDEST for ghost in queue.ghosts)
            waiting = sum(ticket.width for ticket in queue)
            assert queue.rho == waiting + queue.seats_in_use + ghosts, f"the demand of {queue!r}"
            assert queue.executing or not queue.running_work, f"running work of {queue!r}"
