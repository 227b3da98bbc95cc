"""What the two max-min disciplines share: meters of a virtual world in which every queue has its max-min fair share.

**Meters.** Each queue has a work meter W, the integral of mu over time. Where something happens to a queue is a
position on its meter, and positions don't change when others come and go; only the time at which they are reached does.
A granted queue's meter runs at rho, its own demand. All limited queues' meters run at mu_fair, whose integral is the
common meter R. So the queues are kept sorted in two agendas, as the KEP has it: the granted by the time at which they
reach what is next, the limited by the R at which they do; and neither moves when something happens in another queue,
unless the queue crosses the boundary between the two. The earlier of the two firsts is the first of all.

**Exactness.** Positions are integers of *grains*, 2**-20 seat-nanoseconds. A granted queue's meter is exact. R gains
``free * elapsed / limited``, rounded down to a grain at each step; since all limited queues read the same R, they never
drift from each other, and a million steps cost them one seat-nanosecond together. Expected times are compared in
1/1024 ns. Events of the virtual world happen at whole nanoseconds, the first at which the position has been reached.

**Late events.** No timer runs. Each call first walks the virtual world up to its time, event by event in the order in
which they were due, dividing the seats anew after each; nobody can tell that the events were late. What cannot be
walked is what is learned late: a length. Positions further on in the same queue are corrected exactly; how the seats
were divided in the meantime is not revised, neither here nor upstream, but then the division only depends on who had
demand, and who runs or waits in the real world always has (see the disciplines for what they hold open).

**Rest.** A ticket that comes when no queue asks for anything, and goes before another one comes, gets all that it asks
for and leaves nothing behind. It moves its own queue's meter and the start of the next ticket alike; nothing depends on
where the two stand, only on how far they are apart. So `catch_up` leaves them.

**Capacity** is the level's concurrency, or what is really in use where that is more: a request wider than its level
runs alone, and seats that are cut stay taken. A virtual world that gave less than the real one does would fall behind
for ever, and count what it owes as demand. Where seats are steered (`follow`), it is what is really in use and no more:
seats that are lent to other levels are not this one's to divide. It grows at once and shrinks when time passes, so that
seats which are given back and taken again at one instant move nothing.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from apf_middleware.exceptions import require_integer
from apf_middleware.fairqueuing.disciplines.timetable import GRAINS_PER_SEAT_NS, MaxMinQueueT, Timetable
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apf_middleware.fairqueuing.disciplines.max_min import MaxMinQueue

__all__ = ["VirtualWorld"]


class VirtualWorld(Timetable[MaxMinQueueT]):
    """Meters, shares and time. A discipline says where a queue's finish and its end are, and what an end means."""

    __slots__ = ("_concurrency", "_follows", "_guess_ns", "_used")

    now: int
    r: int

    name: ClassVar[str]

    is_restless: ClassVar[bool] = True  # shares change at events of the virtual world, which nobody out here sees

    def __init__(self, concurrency: int, guess_ns: int = DEFAULT_GUESS_NS) -> None:
        self._concurrency = require_integer("concurrency", concurrency, least=0)
        self._guess_ns = require_integer("guess_ns", guess_ns, least=1)
        super().__init__(concurrency)
        self._used = 0
        self._follows = False

    def begin(self, now: int) -> None:
        self.now = now

    # Time

    def advance(self, elapsed_ns: int, demand: int) -> None:  # noqa: ARG002 - each queue's own demand counts here
        if self._follows:
            self._set_capacity()
        shares = self._shares
        until, r, limited = self.now + elapsed_ns, self.r, shares.limited
        if limited:
            r += shares.free * elapsed_ns * GRAINS_PER_SEAT_NS // limited
        while until >= self._soonest or r >= self._soonest_on_r:
            if not self._walk(until, r):
                break
            r, limited = self.r, shares.limited
            if limited:
                r += shares.free * (until - self.now) * GRAINS_PER_SEAT_NS // limited
        self.now = until
        self.r = r

    def _walk(self, until: int, r: int) -> bool:
        """To the next end, if any comes until then, when the common meter will have come to ``r``."""
        first, due, shares = None, until, self._shares
        if until >= self._soonest:
            first = self._soonest_of(self._ends)
            self._soonest = due = self._ends.floor()
            if due > until:
                first = None
        if r >= self._soonest_on_r:
            queue = self._soonest_of(self._ends_on_r)
            self._soonest_on_r = key = self._ends_on_r.floor()
            if key <= r and shares.free:
                way = (key - self.r) * shares.limited
                at = self.now - (-way // (shares.free * GRAINS_PER_SEAT_NS)) if way > 0 else self.now
                if first is None or at < due:
                    first, due = queue, at
        if first is None:
            return False
        if shares.limited:
            self.r += shares.free * (due - self.now) * GRAINS_PER_SEAT_NS // shares.limited
        self.now = due
        was_on_r = first.on_r
        self._reach(first)
        if was_on_r:
            self._soonest_on_r = self._ends_on_r.floor()
        else:
            self._soonest = self._ends.floor()
        return True

    @abstractmethod
    def _reach(self, queue: MaxMinQueueT) -> None:
        """``queue`` has reached its end."""

    # Shares

    def _demand(self, queue: MaxMinQueueT, rho: int) -> None:
        """``queue`` asks for ``rho`` from now on."""
        if queue.on_r and rho >= queue.at_least:
            queue.rho = rho  # as many do: it stays limited
        elif self._divide(queue, rho) and not queue.on_r:
            if queue.has_finish and not queue.finish_is_stale:
                self._schedule_finish(queue)
            if queue.has_end and not queue.end_is_stale:
                self._schedule_end(queue)

    def _demand_anew(self, queue: MaxMinQueueT, rho: int) -> None:
        """As `_demand`, when its finish or its end is another one, too."""
        if queue.on_r and rho >= queue.at_least:
            queue.rho = rho
            self._schedule(queue)
        elif self._divide(queue, rho):
            self._schedule(queue)

    def _divide(self, queue: MaxMinQueueT, rho: int) -> bool:
        """Divide the seats anew; whether ``queue`` has stayed on its side of the boundary."""
        was_on_r = queue.on_r
        if not was_on_r and queue.mark != self.now:
            queue.base += queue.rho * (self.now - queue.mark) * GRAINS_PER_SEAT_NS
            queue.mark = self.now
        crossed = self._shares.change(queue, rho)
        if crossed:
            self._cross(crossed)
        return queue.on_r is was_on_r

    def _take(self, seats: int) -> None:
        """So many more seats are in use."""
        self._used = used = self._used + seats
        if used > self._shares.capacity:
            self._set_capacity()

    def _give(self, seats: int) -> None:
        """So many fewer seats are in use."""
        self._used -= seats
        if self._shares.capacity != self._concurrency and not self._follows:
            self._set_capacity()

    def _set_capacity(self) -> None:
        capacity = self._used if self._follows else max(self._concurrency, self._used)
        if capacity != self._shares.capacity:
            self._cross(self._shares.resize(capacity))

    @property
    def is_at_rest(self) -> bool:
        return not self._shares.limited and self._shares.free == self._shares.capacity

    def catch_up(self, queue: MaxMinQueueT, work: int, last_work: int) -> None:  # noqa: ARG002
        self._turn = queue.index

    def follow(self) -> None:
        self._follows = True
        self._set_capacity()

    def resize(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._set_capacity()

    def _cross(self, crossed: "Iterable[MaxMinQueue]") -> None:
        """Let queues read the other meter, from where they are."""
        for one in crossed:
            queue = self._queues[one.index]
            if queue.on_r is queue.is_limited:
                continue
            position = self.position(queue)
            if queue.has_finish:
                self._unschedule_finish(queue)
            if queue.has_end:
                self._unschedule_end(queue)
            queue.on_r = queue.is_limited
            if queue.on_r:
                queue.base = position - self.r
                self._move(queue, -queue.base)
            else:
                self._move(queue, queue.base)
                queue.base, queue.mark = position, self.now
            if queue.rho:  # otherwise nothing is next for it
                self._schedule(queue)

    def _move(self, queue: MaxMinQueueT, way: int) -> None:
        """What is kept of the queue as positions on R or on W is so much further on: it is on the other one now."""

    # The end

    def _close(self, queue: MaxMinQueueT, *, closing_up: bool) -> None:
        """Take leave of a queue; what it still owes in the virtual world goes with it."""
        queue.first = None
        queue.finish_is_stale = queue.end_is_stale = False
        if queue.has_finish:
            self._unschedule_finish(queue)
        if queue.has_end:
            self._unschedule_end(queue)
        queue.is_closed = True
        if closing_up:
            del self._queues[queue.index]
            for agenda in (self._finishes, self._finishes_on_r, self._ends, self._ends_on_r):
                agenda.close_up(queue.index)
            if self._turn >= queue.index:
                self._turn -= 1
        self._cross(self._shares.forget(queue, closing_up=closing_up))

    def meters(self) -> dict[str, int]:
        shares = self._shares
        return {
            "current_r": self.r,
            "robin_index": self._turn,
            "free_seats": shares.free,
            "limited_queues": shares.limited,
        }

    def check(self) -> None:
        self._shares.check()
        queues = [queue for queue in self._queues if not queue.is_closed]
        for queue in queues:
            assert queue.on_r is queue.is_limited, f"{queue!r} reads the wrong meter"
        self._check_agendas(queues)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} R={self.r} last served={self._turn} {self._shares!r}>"
