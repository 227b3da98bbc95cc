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
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from apf_middleware.exceptions import require_integer
from apf_middleware.fairqueuing.disciplines.agenda import Agenda
from apf_middleware.fairqueuing.disciplines.base import Discipline
from apf_middleware.fairqueuing.disciplines.lineup import Lineup
from apf_middleware.fairqueuing.disciplines.max_min import MaxMinQueue, MaxMinShares
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["GRAINS_PER_SEAT_NS", "GRAINS_PER_UNIT", "TICKS_PER_NS", "VirtualWorld"]

GRAINS_PER_SEAT_NS: Final = 1 << 20
GRAINS_PER_UNIT: Final = 10 * GRAINS_PER_SEAT_NS
"""Grains in the unit of work, 1e-8 seat-seconds."""

TICKS_PER_NS: Final = 1 << 10

MaxMinQueueT = TypeVar("MaxMinQueueT", bound=MaxMinQueue)


class VirtualWorld(Discipline[MaxMinQueueT]):
    """Meters, agendas and time. A discipline sets ``queue.finish`` and ``queue.end``, and says what an end means.

    ``finish`` is the position at which the queue's oldest waiting ticket would be finished, ``end`` that of the next
    event of the virtual world in this queue.
    """

    __slots__ = (
        "_concurrency",
        "_ends",
        "_ends_on_r",
        "_finishes",
        "_finishes_on_r",
        "_follows",
        "_granted_ends",
        "_guess_ns",
        "_limited_ends",
        "_queues",
        "_shares",
        "_turn",
        "_used",
        "_waiting_granted",
        "_waiting_limited",
        "now",
        "r",
    )

    now: int
    r: int

    name: ClassVar[str]

    is_restless: ClassVar[bool] = True  # shares change at events of the virtual world, which nobody out here sees

    def __init__(self, concurrency: int, guess_ns: int = DEFAULT_GUESS_NS) -> None:
        self._concurrency = require_integer("concurrency", concurrency, least=0)
        self._guess_ns = require_integer("guess_ns", guess_ns, least=1)
        self.now = self.r = 0
        self._used = 0
        self._follows = False
        self._turn = 0
        self._queues: list[MaxMinQueueT] = []
        self._shares = MaxMinShares(concurrency, self._queues)
        self._finishes, self._finishes_on_r = Lineup(), Lineup()
        self._ends, self._ends_on_r = Agenda(), Agenda()
        self._waiting_granted = self._waiting_limited = 0  # queues on the agenda of finishes
        self._granted_ends = self._limited_ends = 0  # and on that of ends

    def begin(self, now: int) -> None:
        self.now = now

    @property
    def robin_index(self) -> int:
        """The index of the queue served last."""
        return self._turn

    def _open(self, queue: MaxMinQueueT) -> MaxMinQueueT:
        if queue.index == len(self._queues):
            self._queues.append(queue)
        else:
            self._queues[queue.index] = queue
        return queue

    # Time

    def position(self, queue: MaxMinQueueT) -> int:
        """How far the queue's work meter has come, in grains."""
        if queue.on_r:
            return queue.base + self.r - queue.mark
        return queue.base + queue.rho * (self.now - queue.mark) * GRAINS_PER_SEAT_NS

    def _here(self, queue: MaxMinQueueT) -> int:
        """As `position`; what the queue has had until now at its own rate is added up."""
        if queue.on_r:
            return queue.base + self.r - queue.mark
        if queue.mark != self.now:
            queue.base += queue.rho * (self.now - queue.mark) * GRAINS_PER_SEAT_NS
            queue.mark = self.now
        return queue.base

    def advance(self, elapsed_ns: int, demand: int) -> None:  # noqa: ARG002 - each queue's own demand counts here
        if self._follows:
            self._set_capacity()
        until, shares = self.now + elapsed_ns, self._shares
        while True:
            r, limited = self.r, shares.limited
            if limited:
                r += shares.free * (until - self.now) * GRAINS_PER_SEAT_NS // limited
            queue, due = None, 0
            if (self._granted_ends and self._ends.reaches(until)) or (
                self._limited_ends and self._ends_on_r.reaches(r)
            ):
                queue, due = self._next_end()
            if queue is None or due > until:
                self.now, self.r = until, r
                return
            if limited:
                self.r += shares.free * (due - self.now) * GRAINS_PER_SEAT_NS // limited
            self.now = due
            self._reach(queue)

    def _next_end(self) -> tuple[MaxMinQueueT | None, int]:
        """The queue whose end comes first, and the nanosecond at which it comes."""
        first, due, shares = None, 0, self._shares
        if self._granted_ends:
            first = self._queues[self._ends.least()]
            due = first.key_of_end or 0
        if self._limited_ends and shares.free:
            queue = self._queues[self._ends_on_r.least()]
            way = ((queue.key_of_end or 0) - self.r) * shares.limited
            at = self.now + max(0, -(-way // (shares.free * GRAINS_PER_SEAT_NS)))
            if first is None or at < due:
                first, due = queue, at
        return first, due

    @abstractmethod
    def _reach(self, queue: MaxMinQueueT) -> None:
        """``queue`` has reached its end."""

    # Shares

    def _demand(self, queue: MaxMinQueueT, rho: int, *, moved: bool) -> None:
        """``queue`` asks for ``rho`` from now on; ``moved`` says that its finish or end is another one."""
        if not queue.on_r:
            if queue.mark != self.now:
                queue.base += queue.rho * (self.now - queue.mark) * GRAINS_PER_SEAT_NS
                queue.mark = self.now
            moved = moved or queue.finish is not None or queue.end is not None
        crossed = self._shares.change(queue, rho)
        if crossed:
            self._cross(crossed)
        if moved:
            self._schedule(queue)

    def _occupy(self, seats: int) -> None:
        """So many more seats are in use, or fewer."""
        self._used = used = self._used + seats
        capacity = self._shares.capacity
        if used > capacity or not (self._follows or capacity == self._concurrency):
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
            queue.base = self.position(queue)
            self._unschedule(queue)
            queue.on_r = queue.is_limited
            queue.mark = self.r if queue.on_r else self.now
            self._schedule(queue)

    # Agendas

    def _schedule(self, queue: MaxMinQueueT) -> None:
        """Its finish, its end or its rate is another one."""
        finish, end = queue.finish, queue.end
        if finish is None and queue.key is not None:
            self._unschedule_finish(queue)
        if end is None and queue.key_of_end is not None:
            self._unschedule_end(queue)
        if not queue.on_r:
            if finish is not None or end is not None:
                self._schedule_in_time(queue)
            return
        ahead = queue.mark - queue.base  # the limited queue's meter and R run side by side
        if finish is not None:
            self._schedule_finish(queue, finish + ahead)
        if end is not None:
            key = end + ahead
            if key != queue.key_of_end:
                if queue.key_of_end is None:
                    self._limited_ends += 1
                queue.key_of_end = key
                self._ends_on_r.put(queue.index, key)

    def _schedule_finish(self, queue: MaxMinQueueT, key: int) -> None:
        """Of a limited queue, on R."""
        agenda = self._finishes_on_r
        if queue.key is None:
            self._waiting_limited += 1
        if queue.width > 1 or agenda.wide:
            agenda.place(queue.index, key, queue.width)
        elif key != queue.key:
            agenda.put(queue.index, key)
        queue.key = key

    def _schedule_in_time(self, queue: MaxMinQueueT) -> None:
        position, rate = self.position(queue), queue.rho * GRAINS_PER_SEAT_NS
        if queue.finish is not None:
            if queue.key is None:
                self._waiting_granted += 1
            queue.key = key = self.now * TICKS_PER_NS + (queue.finish - position) * TICKS_PER_NS // rate
            if queue.width == 1 and not self._finishes.wide:
                self._finishes.put(queue.index, key)
            else:
                self._finishes.place(queue.index, key, queue.width)
        if queue.end is not None:
            if queue.key_of_end is None:
                self._granted_ends += 1
            queue.key_of_end = key = self.now + max(0, -((position - queue.end) // rate))
            self._ends.put(queue.index, key)

    def _unschedule(self, queue: MaxMinQueueT) -> None:
        if queue.key is not None:
            self._unschedule_finish(queue)
        if queue.key_of_end is not None:
            self._unschedule_end(queue)

    def _unschedule_finish(self, queue: MaxMinQueueT) -> None:
        queue.key = None
        if queue.on_r:
            self._waiting_limited -= 1
            self._finishes_on_r.drop(queue.index)
        else:
            self._waiting_granted -= 1
            self._finishes.drop(queue.index)

    def _unschedule_end(self, queue: MaxMinQueueT) -> None:
        queue.key_of_end = None
        if queue.on_r:
            self._limited_ends -= 1
            self._ends_on_r.drop(queue.index)
        else:
            self._granted_ends -= 1
            self._ends.drop(queue.index)

    # The one question

    def pick(self, widest: int | None = None) -> int:
        in_time = self._next_of(self._finishes, widest) if self._waiting_granted else None
        shares = self._shares
        if in_time is not None and (not self._waiting_limited or not shares.free):
            return in_time  # without free seats the limited never finish
        on_r = self._next_of(self._finishes_on_r, widest)
        if in_time is None:
            if on_r is None:
                raise LookupError("nobody is to be served")
            return on_r
        if on_r is None:
            return in_time
        way = ((self._queues[on_r].key or 0) - self.r) * shares.limited * TICKS_PER_NS
        expected = self.now * TICKS_PER_NS + way // (shares.free * GRAINS_PER_SEAT_NS)
        ahead = expected - (self._queues[in_time].key or 0)
        if ahead:
            return on_r if ahead < 0 else in_time
        return min(in_time, on_r, key=lambda index: (index <= self._turn, index))  # the next one round

    def _next_of(self, agenda: Lineup, widest: int | None) -> int | None:
        if not agenda.wide:
            return agenda.peek(self._turn)
        try:
            return agenda.first_within(self._turn, widest)
        except LookupError:
            return None

    # The end

    def _close(self, queue: MaxMinQueueT, *, closing_up: bool) -> None:
        """Take leave of a queue; what it still owes in the virtual world goes with it."""
        queue.finish = queue.end = None
        self._unschedule(queue)
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
        for agenda in (self._finishes, self._finishes_on_r, self._ends, self._ends_on_r):
            agenda.check()
        queues = [queue for queue in self._queues if not queue.is_closed]
        for queue in queues:
            assert queue.on_r is queue.is_limited, f"{queue!r} reads the wrong meter"
            assert (queue.finish is None) is (queue.key is None), f"the finish of {queue!r} is not on the agenda"
            assert (queue.end is None) is (queue.key_of_end is None), f"the end of {queue!r} is not on the agenda"
            assert (queue.finish is None) is (queue.oldest is None), f"{queue!r} has a finish exactly if one waits"
        assert self._waiting_limited == sum(queue.on_r for queue in queues if queue.finish is not None), "limited"
        assert self._waiting_granted == sum(not queue.on_r for queue in queues if queue.finish is not None), "granted"
        assert self._limited_ends == sum(queue.on_r for queue in queues if queue.end is not None), "ends on R"
        assert self._granted_ends == sum(not queue.on_r for queue in queues if queue.end is not None), "ends in time"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} R={self.r} last served={self._turn} {self._shares!r}>"
