"""`max-min-concurrent`: max-min fair shares, and many requests of a queue at once in the virtual world.

The KEP's third solution. A queue's share mu is as in `max-min-serial`, but the requests that share it run side by side.
In the virtual world a queue starts its requests in order of arrival as long as they occupy fewer seats than the level
has, as if it were alone; ``occupied`` is how many they occupy. Each of these seats makes the same progress: the meter P
runs at mu / occupied. A request that starts at P ends at P plus its length, however mu varies meanwhile, so a heap of
ends on P tells what ends next. P is never faster than time itself, since mu is at most what is occupied: nothing ends
earlier in the virtual world than it could in the real one. While ``occupied`` stays the same, P is a straight line on
the work meter W of `virtual_world`, and a position on the one is a position on the other.

The KEP leaves open who leaves, what comes late, and how the next ticket to serve is found. Here:

*Unknown lengths.* A request counts as the guess. When its guessed end comes and it hasn't finished, or hasn't even
begun, in the real world, the guess is doubled: nothing ends in the virtual world before its length is known and its
seats are free, so no past is ever revised. A length that is learned to be shorter than the progress made ends it now.

*One iterator.* The next ticket to serve is the one with the least expected end by its first guess. A queue serves in
order of arrival, so that of its oldest waiting ticket is all that is needed, and its start is known if it has started
virtually; otherwise it is expected to start when the next request of its queue ends. No second iterator is kept:
virtual ends are walked as time passes, and each walk leaves the next question's answer on the agenda.

*Leaving.* Who leaves while it runs virtually is taken out at once, with its demand, and the next in line starts. The
progress that was made for it is lost: given to the others of its queue, it would let a flow gain by sending requests
and taking them back.

*Late calls.* Everything is caught up with by `advance`, in the order in which it was due.

A request's work is length times width for its whole stay, linger included, as in the KEP. Each call is
O((1 + crossings) log n + log c), c being what a queue runs at once.
"""

from collections import OrderedDict
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final

from apf_middleware.fairqueuing.disciplines.max_min import MaxMinQueue
from apf_middleware.fairqueuing.disciplines.virtual_world import GRAINS_PER_SEAT_NS, VirtualWorld
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apf_middleware.fairqueuing.ticket import Ticket

__all__ = ["MaxMinConcurrent", "MaxMinConcurrentQueue"]


_MOST_STALE: Final = 64  # entries of those who left; more are cleared away


class _Stay:
    """One request in the virtual world, where it may stay for longer than its ticket does in the real one."""

    __slots__ = ("begin", "end", "has_left", "length", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        self.begin: int | None = None  # positions on P
        self.end = 0
        self.length: int | None = None  # when it is known and the seats are free
        self.has_left = False


class MaxMinConcurrentQueue(MaxMinQueue):
    """A queue, its meter P, and who runs and who waits in the virtual world."""

    __slots__ = ("line", "occupied", "progress", "running", "since")

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.occupied: int = 0
        self.progress: int = 0  # P when ``occupied`` changed last
        self.since: int = 0  # W at that time
        self.running: list[tuple[int, int, _Stay]] = []  # a heap of (end on P, serial, stay)
        self.line: OrderedDict[_Stay, None] = OrderedDict()  # whoever leaves, leaves nothing behind

    def meters(self) -> dict[str, int]:
        return {"progress": self.progress, "rho": self.rho, "occupied": self.occupied}


class MaxMinConcurrent(VirtualWorld[MaxMinConcurrentQueue]):
    """The KEP's third solution. ``guess_ns`` is what a request is taken to last at first."""

    __slots__ = ("_guess", "_serial", "_stays")

    name: ClassVar[str] = "max-min-concurrent"

    def __init__(self, concurrency: int, guess_ns: int = DEFAULT_GUESS_NS) -> None:
        super().__init__(concurrency, guess_ns)
        self._guess = self._guess_ns * GRAINS_PER_SEAT_NS
        self._serial: Iterator[int] = count()
        self._stays: dict[Ticket, _Stay] = {}  # of all tickets that are still in the real world

    def open_queue(self, index: int) -> MaxMinConcurrentQueue:
        return self._open(MaxMinConcurrentQueue(index))

    # The virtual world

    def progress(self, queue: MaxMinConcurrentQueue) -> int:
        """How far the queue's meter P has come, in grains of a second on each seat."""
        if not queue.occupied:
            return queue.progress
        return queue.progress + (self.position(queue) - queue.since) // queue.occupied

    def _occupied(self, queue: MaxMinConcurrentQueue, seats: int) -> None:
        """So many more seats are occupied virtually, or fewer: P goes on at another rate."""
        position = self._here(queue)
        if queue.occupied:
            queue.progress += (position - queue.since) // queue.occupied
        queue.since = position
        queue.occupied += seats

    def _start(self, queue: MaxMinConcurrentQueue, stay: _Stay) -> None:
        self._occupied(queue, stay.width)
        stay.begin = queue.progress
        stay.end = stay.begin + (self._guess if stay.length is None else stay.length)
        heappush(queue.running, (stay.end, next(self._serial), stay))

    def _fill(self, queue: MaxMinConcurrentQueue) -> None:
        """Start those whose turn it is."""
        if not queue.line:
            return
        most = max(self._concurrency, 1)
        while queue.line and queue.occupied < most:
            stay, _ = queue.line.popitem(last=False)
            self._start(queue, stay)

    def _finish(self, queue: MaxMinConcurrentQueue, stay: _Stay) -> int:
        """Take ``stay`` out; returns the seats that it asked for."""
        stay.has_left = True
        if stay.begin is None:
            del queue.line[stay]
        else:
            self._occupied(queue, -stay.width)
        return stay.width

    def _reach(self, queue: MaxMinConcurrentQueue) -> None:
        seats, progress, running = 0, self.progress(queue), queue.running
        while running and running[0][0] <= progress:
            end, _, stay = heappop(running)
            if stay.has_left or end != stay.end or stay.begin is None:
                continue
            if stay.length is None:
                stay.end += end - stay.begin
                heappush(running, (stay.end, next(self._serial), stay))
            else:
                seats += self._finish(queue, stay)
        self._fill(queue)
        self._changed(queue, -seats)

    def _changed(self, queue: MaxMinConcurrentQueue, seats: int, first: "Ticket | None" = None) -> None:
        """Who runs virtually, or who is ``first``, has changed; the queue asks for so many more ``seats``."""
        self._look_ahead(queue, first)
        self._demand(queue, queue.rho + seats, moved=True)

    def _look_ahead(self, queue: MaxMinConcurrentQueue, first: "Ticket | None" = None) -> None:
        """The next end in this queue, and the finish of its oldest ticket or of the one that will be ``first``."""
        running = queue.running
        while running and (running[0][2].has_left or running[0][0] != running[0][2].end):
            heappop(running)
        if len(running) > 2 * queue.occupied + _MOST_STALE:
            queue.running = running = [entry for entry in running if entry[0] == entry[2].end and not entry[2].has_left]
            heapify(running)
        # A position P on the queue's progress is this much on W: since + occupied * (P - progress).
        since, occupied, progress = queue.since, queue.occupied, queue.progress
        soonest = running[0][0] if running else 0
        queue.end = since + occupied * (soonest - progress) if running else None
        first = queue.oldest or first
        if first is None:
            queue.finish = None
            return
        begin = self._stays[first].begin
        queue.finish = since + occupied * ((soonest if begin is None else begin) + self._guess - progress)
        queue.width = first.width

    # What happens to tickets

    def _enter(self, queue: MaxMinConcurrentQueue, ticket: "Ticket") -> _Stay:
        """``ticket`` starts virtually, or stands in line for it."""
        self._stays[ticket] = stay = _Stay(ticket.width)
        if queue.line or queue.occupied >= max(self._concurrency, 1):
            queue.line[stay] = None
        else:
            self._start(queue, stay)
        return stay

    def arrive(self, queue: MaxMinConcurrentQueue, ticket: "Ticket") -> None:
        stay = self._enter(queue, ticket)
        if queue.length and stay.begin is None:  # behind others in both worlds
            self._demand(queue, queue.rho + ticket.width, moved=False)
        else:
            self._changed(queue, ticket.width, ticket)

    def rejoin(self, queue: MaxMinConcurrentQueue, ticket: "Ticket") -> None:
        if queue.oldest is ticket:
            self._changed(queue, 0)

    def serve(self, queue: MaxMinConcurrentQueue, ticket: "Ticket") -> None:
        self._turn = queue.index
        self._occupy(ticket.width)
        self._enter(queue, ticket)
        self._changed(queue, ticket.width)

    def leave(self, queue: MaxMinConcurrentQueue, ticket: "Ticket", *, was_oldest: bool) -> None:  # noqa: ARG002
        seats = self._finish(queue, self._stays.pop(ticket))
        self._fill(queue)
        self._changed(queue, -seats)

    def dispatch(self, queue: MaxMinConcurrentQueue, ticket: "Ticket") -> None:
        self._turn = queue.index
        self._occupy(ticket.width)
        stay = self._stays[ticket]
        cut = stay.width - ticket.width
        if cut:
            stay.width = ticket.width
            if stay.begin is not None:
                self._occupied(queue, -cut)
                self._fill(queue)
            self._changed(queue, -cut)
        else:
            self._look_ahead(queue)
            self._schedule(queue)

    def settle(self, queue: MaxMinConcurrentQueue, ticket: "Ticket", duration_ns: int) -> None:
        length = (duration_ns + ticket.work.linger_ns) * GRAINS_PER_SEAT_NS
        if ticket.work.linger_ns:
            ticket.settled = length  # it is told when the seats are free
        else:
            self._learn(queue, ticket, length)

    def vacate(self, queue: MaxMinConcurrentQueue, ticket: "Ticket") -> None:
        self._learn(queue, ticket, ticket.settled)

    def _learn(self, queue: MaxMinConcurrentQueue, ticket: "Ticket", length: int) -> None:
        """``ticket`` is over in the real world, and its seats are free."""
        self._occupy(-ticket.width)
        stay = self._stays.pop(ticket)
        stay.length = length
        if queue.is_closed or stay.begin is None:
            return
        stay.end = stay.begin + length
        if stay.end <= self.progress(queue):
            seats = self._finish(queue, stay)
            self._fill(queue)
            self._changed(queue, -seats)
        else:
            heappush(queue.running, (stay.end, next(self._serial), stay))
            self._look_ahead(queue)
            self._schedule(queue)

    def resize(self, concurrency: int) -> None:
        super().resize(concurrency)
        for queue in self._queues:
            if queue.line:
                self._fill(queue)
                self._changed(queue, 0)

    def close(self, queue: MaxMinConcurrentQueue, *, closing_up: bool) -> None:
        queue.running.clear()
        queue.line.clear()
        queue.occupied = 0
        self._close(queue, closing_up=closing_up)

    def check(self) -> None:
        super().check()
        for queue in self._queues:
            if queue.is_closed:
                continue
            running = {id(stay): stay for _, _, stay in queue.running if not stay.has_left}.values()
            line = list(queue.line)
            assert queue.occupied == sum(stay.width for stay in running), f"occupied seats of {queue!r}"
            assert queue.rho == queue.occupied + sum(stay.width for stay in line), f"the demand of {queue!r}"
            assert not line or queue.occupied >= self._concurrency, f"somebody could run virtually in {queue!r}"
