"""Whose turn it is and what ends next: the agendas of the max-min disciplines.

A queue's ``finish`` and ``end`` are positions on its work meter (see `virtual_world`). A limited queue's meter runs as
R does, so it stands on an agenda by the R at which it is there, and stays put whatever happens to others. A granted
one's meter runs at its own demand, and it stands on another agenda, by the time. The earlier of the two firsts is next.

**Stale queues.** What happens to a queue often makes its finish or its end later, and then something else happens to it
before it comes to the top. So a discipline may leave such a queue where it stands and say that its finish or its end
*is stale*. It may stand too early then, but never too late; what comes to the top and is stale is looked at
(`_look_for_finish`, `_look_for_end`), put where it belongs, and then whoever is at the top is asked for again. Nobody
can tell the difference but by the work that is saved. A stale end that comes up is no event: time doesn't stop there.
"""

from typing import Final, TypeVar

from apf_middleware.fairqueuing.disciplines.agenda import Agenda
from apf_middleware.fairqueuing.disciplines.base import Discipline
from apf_middleware.fairqueuing.disciplines.lineup import Lineup
from apf_middleware.fairqueuing.disciplines.max_min import MaxMinQueue, MaxMinShares

__all__ = ["GRAINS_PER_SEAT_NS", "GRAINS_PER_UNIT", "NEVER", "TICKS_PER_NS", "Timetable"]

GRAINS_PER_SEAT_NS: Final = 1 << 20
GRAINS_PER_UNIT: Final = 10 * GRAINS_PER_SEAT_NS
"""Grains in the unit of work, 1e-8 seat-seconds."""

TICKS_PER_NS: Final = 1 << 10

NEVER: Final = 1 << 2048
"""Later than any time or position."""

MaxMinQueueT = TypeVar("MaxMinQueueT", bound=MaxMinQueue)


class Timetable(Discipline[MaxMinQueueT]):
    """Queues by what is next for them, in time and on R."""

    __slots__ = (
        "_ends",
        "_ends_on_r",
        "_finishes",
        "_finishes_on_r",
        "_queues",
        "_shares",
        "_soonest",
        "_soonest_on_r",
        "_turn",
        "_waiting_in_time",
        "now",
        "r",
    )

    now: int
    r: int

    def __init__(self, concurrency: int) -> None:
        self.now = self.r = 0
        self._turn = 0
        self._queues: list[MaxMinQueueT] = []
        self._shares = MaxMinShares(concurrency, self._queues)
        self._finishes, self._finishes_on_r = Lineup(), Lineup()
        self._ends, self._ends_on_r = Agenda(), Agenda()
        self._waiting_in_time = 0  # queues on the agenda of finishes that isn't on R
        self._soonest = self._soonest_on_r = NEVER  # no end comes before

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

    def position(self, queue: MaxMinQueueT) -> int:
        """How far the queue's work meter has come, in grains."""
        if queue.on_r:
            return queue.base + self.r
        return queue.base + queue.rho * (self.now - queue.mark) * GRAINS_PER_SEAT_NS

    def _here(self, queue: MaxMinQueueT) -> int:
        """As `position`; what the queue has had until now at its own rate is added up."""
        if queue.on_r:
            return queue.base + self.r
        if queue.mark != self.now:
            queue.base += queue.rho * (self.now - queue.mark) * GRAINS_PER_SEAT_NS
            queue.mark = self.now
        return queue.base

    # Where a queue stands

    def _look_for_finish(self, queue: MaxMinQueueT) -> None:
        """Find the finish of a queue that ``finish_is_stale``."""

    def _look_for_end(self, queue: MaxMinQueueT) -> None:
        """Find the end of a queue that ``end_is_stale``."""

    def _schedule(self, queue: MaxMinQueueT) -> None:
        """Its finish, its end or its rate is another one."""
        finish, end = queue.finish, queue.end
        if not queue.finish_is_stale:
            if finish is None:
                if queue.key is not None:
                    self._unschedule_finish(queue)
            elif queue.on_r and queue.width == 1 and not self._finishes_on_r.wide:
                key = finish - queue.base  # `_schedule_finish`, written out for speed
                if key != queue.key:
                    queue.key = key
                    self._finishes_on_r.put(queue.index, key)
            else:
                self._schedule_finish(queue, finish)
        if not queue.end_is_stale:
            if end is not None:
                self._schedule_end(queue, end)
            elif queue.key_of_end is not None:
                self._unschedule_end(queue)

    def _schedule_finish(self, queue: MaxMinQueueT, finish: int) -> None:
        width = queue.width
        if queue.on_r:
            agenda, key = self._finishes_on_r, finish - queue.base  # its meter and R run side by side
        else:
            rate = queue.rho * GRAINS_PER_SEAT_NS
            way = finish - queue.base - rate * (self.now - queue.mark)
            agenda, key = self._finishes, self.now * TICKS_PER_NS + way * TICKS_PER_NS // rate
            if queue.key is None:
                self._waiting_in_time += 1
        if width > 1 or agenda.wide:
            agenda.place(queue.index, key, width)
        elif key != queue.key:
            agenda.put(queue.index, key)
        queue.key = key

    def _schedule_end(self, queue: MaxMinQueueT, end: int) -> None:
        if queue.on_r:
            key = end - queue.base
            if key < self._soonest_on_r:  # noqa: PLR1730 - min() is slower
                self._soonest_on_r = key
            if key != queue.key_of_end:
                queue.key_of_end = key
                self._ends_on_r.put(queue.index, key)
            return
        rate = queue.rho * GRAINS_PER_SEAT_NS
        way = end - queue.base - rate * (self.now - queue.mark)
        key = self.now - (-way // rate) if way > 0 else self.now
        if key < self._soonest:  # noqa: PLR1730 - likewise
            self._soonest = key
        if key != queue.key_of_end:
            queue.key_of_end = key
            self._ends.put(queue.index, key)

    def _unschedule_finish(self, queue: MaxMinQueueT) -> None:
        queue.key = None
        if queue.on_r:
            self._finishes_on_r.drop(queue.index)
        else:
            self._waiting_in_time -= 1
            self._finishes.drop(queue.index)

    def _unschedule_end(self, queue: MaxMinQueueT) -> None:
        queue.key_of_end = None
        (self._ends_on_r if queue.on_r else self._ends).drop(queue.index)

    # The one question

    def pick(self, widest: int | None = None) -> int:
        in_time = self._next_of(self._finishes, widest) if self._waiting_in_time else None
        shares = self._shares
        if in_time is not None and not shares.free:
            return in_time.index  # without free seats the limited never finish
        on_r = self._next_of(self._finishes_on_r, widest)
        if in_time is None:
            if on_r is None:
                raise LookupError("nobody is to be served")
            return on_r.index
        if on_r is None:
            return in_time.index
        way = ((on_r.key or 0) - self.r) * shares.limited * TICKS_PER_NS
        expected = self.now * TICKS_PER_NS + way // (shares.free * GRAINS_PER_SEAT_NS)
        ahead = expected - (in_time.key or 0)
        if ahead:
            return on_r.index if ahead < 0 else in_time.index
        return min(in_time.index, on_r.index, key=lambda index: (index <= self._turn, index))  # the next one round

    def _next_of(self, agenda: Lineup, widest: int | None) -> MaxMinQueueT | None:
        while True:
            index = agenda.first_within(self._turn, widest) if agenda.wide else agenda.first(self._turn)
            if index is None:
                return None
            queue = self._queues[index]
            if not queue.finish_is_stale:
                return queue
            self._look_for_finish(queue)
            if queue.finish is not None:
                self._schedule_finish(queue, queue.finish)

    # What ends next

    def _soonest_of(self, agenda: Agenda) -> tuple[MaxMinQueueT | None, int]:
        while (index := agenda.least()) is not None:
            queue = self._queues[index]
            if not queue.end_is_stale:
                return queue, queue.key_of_end or 0
            self._look_for_end(queue)
            if queue.end is not None:
                self._schedule_end(queue, queue.end)
            else:
                self._unschedule_end(queue)
        return None, NEVER

    def _check_agendas(self, queues: "list[MaxMinQueueT]") -> None:
        for agenda in (self._finishes, self._finishes_on_r, self._ends, self._ends_on_r):
            agenda.check()
        for queue in queues:
            assert (queue.key is None) is (queue.oldest is None), f"{queue!r} is on the agenda exactly if one waits"
            self._check_keys(queue)
        assert self._waiting_in_time == sum(queue.key is not None and not queue.on_r for queue in queues), "waiting"
        keys = [(queue.on_r, queue.key_of_end) for queue in queues if queue.key_of_end is not None]
        assert all(key >= self._soonest for on_r, key in keys if not on_r), "the soonest end in time"
        assert all(key >= self._soonest_on_r for on_r, key in keys if on_r), "the soonest end on R"

    def _check_keys(self, queue: MaxMinQueueT) -> None:
        """Where it stands is where it should, or too early while it is stale; nothing is changed by looking."""
        seen = queue.finish, queue.end, queue.width, queue.finish_is_stale, queue.end_is_stale
        if queue.finish_is_stale:
            self._look_for_finish(queue)
        if queue.end_is_stale:
            self._look_for_end(queue)
        finish, end = queue.finish, queue.end
        queue.finish, queue.end, queue.width, queue.finish_is_stale, queue.end_is_stale = seen
        position, rate = self.position(queue), queue.rho * GRAINS_PER_SEAT_NS
        stands = ("finish", finish, queue.key, seen[3]), ("end", end, queue.key_of_end, seen[4])
        for name, place, key, stale in stands:
            if place is None or key is None:
                assert place is None, f"the {name} of {queue!r} is not on the agenda"
                assert key is None or (stale and name == "end"), f"{queue!r} has no {name}, but is on the agenda"
                continue
            if queue.on_r:
                true = place - queue.base
            elif name == "finish":
                true = self.now * TICKS_PER_NS + (place - position) * TICKS_PER_NS // rate
            else:
                true = max(self.now, self.now - (position - place) // rate)
            assert key == true or (stale and key < true), f"the {name} of {queue!r} is {true} and stands at {key}"
