"""Whose turn it is and what ends next: the agendas of the max-min disciplines.

A queue's finish and its end are positions on its work meter (see `virtual_world`): where its oldest waiting ticket
would be finished, and where the next event of the virtual world comes. A limited queue's meter runs as R does, so it
stands on an agenda by the R at which it is there, and stays put whatever happens to others. A granted one's meter runs
at its own demand, and it stands on another agenda, by the time. The earlier of the two firsts is next.

**Stale queues.** What happens to a queue often makes its finish or its end later, and then something else happens to it
before it comes to the top. So a discipline may leave such a queue where it stands and say that its finish or its end
*is stale*. It may stand too early then, but never too late; what comes to the top and is stale is put where it belongs,
and then whoever is at the top is asked for again. Nobody can tell the difference but by the work that is saved. A stale
end that comes up is no event: time doesn't stop there.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, Final, TypeVar

from apf_middleware.fairqueuing.agenda import Agenda
from apf_middleware.fairqueuing.disciplines.base import Discipline
from apf_middleware.fairqueuing.disciplines.lineup import Lineup
from apf_middleware.fairqueuing.disciplines.max_min import MaxMinQueue
from apf_middleware.fairqueuing.max_min_shares import MaxMinShares

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.ticket import Ticket

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

    @abstractmethod
    def _finish_of(self, queue: MaxMinQueueT, first: "Ticket") -> int:
        """Where ``first``, of this queue, would be finished: on R if the queue is limited, else on its own meter."""

    @abstractmethod
    def _end_of(self, queue: MaxMinQueueT) -> int | None:
        """Likewise, where the next event of the virtual world comes in this queue."""

    def _schedule(self, queue: MaxMinQueueT) -> None:
        """Put it where it belongs: what is next for it is something else, or elsewhere."""
        self._schedule_finish(queue)
        self._schedule_end(queue)

    def _schedule_finish(self, queue: MaxMinQueueT) -> None:
        queue.finish_is_stale = False
        first = queue.first
        if first is None:
            if queue.has_finish:
                self._unschedule_finish(queue)
            return
        key, width, agenda = self._finish_of(queue, first), first.width, self._finishes_on_r
        if not queue.on_r:
            agenda, rate = self._finishes, queue.rho * GRAINS_PER_SEAT_NS
            way = key - queue.base - rate * (self.now - queue.mark)
            key = self.now * TICKS_PER_NS + way * TICKS_PER_NS // rate
            if not queue.has_finish:
                self._waiting_in_time += 1
        queue.has_finish = True
        if width > 1 or agenda.wide:
            agenda.place(queue.index, key, width)
        else:
            agenda.put(queue.index, key)

    def _schedule_end(self, queue: MaxMinQueueT) -> None:
        queue.end_is_stale = False
        end = self._end_of(queue)
        if end is not None:
            self._end_at(queue, end)
        elif queue.has_end:
            self._unschedule_end(queue)

    def _end_at(self, queue: MaxMinQueueT, end: int) -> None:
        """Its next event comes at ``end``."""
        queue.has_end = True
        if queue.on_r:
            if end < self._soonest_on_r:  # noqa: PLR1730 - min() is slower
                self._soonest_on_r = end
            self._ends_on_r.put(queue.index, end)
            return
        rate = queue.rho * GRAINS_PER_SEAT_NS
        way = end - queue.base - rate * (self.now - queue.mark)
        key = self.now - (-way // rate) if way > 0 else self.now
        if key < self._soonest:  # noqa: PLR1730 - likewise
            self._soonest = key
        self._ends.put(queue.index, key)

    def _unschedule_finish(self, queue: MaxMinQueueT) -> None:
        queue.has_finish = False
        if queue.on_r:
            self._finishes_on_r.drop(queue.index)
        else:
            self._waiting_in_time -= 1
            self._finishes.drop(queue.index)

    def _unschedule_end(self, queue: MaxMinQueueT) -> None:
        queue.has_end = False
        (self._ends_on_r if queue.on_r else self._ends).drop(queue.index)

    # The one question

    def pick(self, widest: int | None = None) -> int:
        agenda = self._finishes_on_r
        if self._waiting_in_time or agenda.wide:
            return self._pick_of_both(widest)
        while (index := agenda.first(self._turn)) is not None:  # as `_next_of`, written out for speed
            queue = self._queues[index]
            if not queue.finish_is_stale:
                return index
            self._schedule_finish(queue)
        raise LookupError("nobody is to be served")

    def _pick_of_both(self, widest: int | None) -> int:
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
        way = (self._finishes_on_r.finish_of(on_r.index) - self.r) * shares.limited * TICKS_PER_NS
        expected = self.now * TICKS_PER_NS + way // (shares.free * GRAINS_PER_SEAT_NS)
        ahead = expected - self._finishes.finish_of(in_time.index)
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
            self._schedule_finish(queue)

    # What ends next

    def _soonest_of(self, agenda: Agenda) -> MaxMinQueueT | None:
        """The queue whose end comes first on this agenda, at its `floor`."""
        while (index := agenda.least()) is not None:
            queue = self._queues[index]
            if not queue.end_is_stale:
                return queue
            self._schedule_end(queue)
        return None

    def _check_agendas(self, queues: "list[MaxMinQueueT]") -> None:
        for agenda in (self._finishes, self._finishes_on_r, self._ends, self._ends_on_r):
            agenda.check()
        for queue in queues:
            assert queue.first is queue.oldest, f"who is first in {queue!r}"
            self._check_finish(queue)
            self._check_end(queue)
        waiting = sum(queue.has_finish and not queue.on_r for queue in queues)
        assert self._waiting_in_time == waiting, f"{waiting} queues wait in time, not {self._waiting_in_time}"

    def _check_finish(self, queue: MaxMinQueueT) -> None:
        """It stands where it should, or too early while it is stale."""
        assert queue.has_finish is (queue.first is not None), f"{queue!r} is on the agenda exactly if one waits"
        if queue.first is None:
            return
        finish = self._finish_of(queue, queue.first)
        if queue.on_r:
            key, true = self._finishes_on_r.finish_of(queue.index), finish
        else:
            key, way = self._finishes.finish_of(queue.index), finish - self.position(queue)
            true = self.now * TICKS_PER_NS + way * TICKS_PER_NS // (queue.rho * GRAINS_PER_SEAT_NS)
        in_place = key == true or (queue.finish_is_stale and key < true)
        assert in_place, f"the finish of {queue!r} is {true} and stands at {key}"

    def _check_end(self, queue: MaxMinQueueT) -> None:
        """Likewise."""
        end = self._end_of(queue)
        if end is None or not queue.has_end:
            assert end is None, f"the end of {queue!r} is not on the agenda"
            assert not queue.has_end or queue.end_is_stale, f"{queue!r} has no end, but is on the agenda"
            return
        if queue.on_r:
            key, true, soonest = self._ends_on_r.finish_of(queue.index), end, self._soonest_on_r
        else:
            way, rate = end - self.position(queue), queue.rho * GRAINS_PER_SEAT_NS
            true, soonest = max(self.now, self.now - (-way // rate)), self._soonest
            key = self._ends.finish_of(queue.index)
        assert key == true or (queue.end_is_stale and key < true), f"the end of {queue!r} is {true} and stands at {key}"
        assert key >= soonest, f"the end of {queue!r} comes before the soonest of all"
