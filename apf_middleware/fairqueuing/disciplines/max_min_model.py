"""A fluid model of a level in which every queue gets its max-min fair share; both max-min disciplines are built on it.

**Meters.** Each queue has a work meter W, the integral of its share mu over time. Each event of a queue has a position
on its meter. Positions don't change when other queues begin or stop to wait; only the times at which they are reached
do. A *granted* queue gets all the seats that it demands: its meter runs at rho, its own demand. The other queues are
*limited*: their meters all run at mu_fair, the integral of which is the common meter R. As in the KEP, the queues are
therefore kept in two heaps: the granted ones by the time at which they reach their next position, the limited ones by
the R at which they do. An entry stays where it is when something happens in another queue, unless its own queue changes
from granted to limited or back. The next queue is the earlier of the two that are first in these heaps.

There are two such pairs of heaps: one by the *finish* of each queue, the position at which its oldest waiting ticket
would be finished, and one by its *end*, the position of the next event of the model in this queue.

**Stale entries.** Often an event makes the finish or the end of a queue later, and another event of the queue follows
before its entry comes to the top. Then a discipline may leave the entry where it is and mark it as *stale*. A stale
entry may be too early, but never too late. When it comes to the top, it is updated, and the top is examined again. The
order of events is the same, with less work. A stale end is not an event.

**Exactness.** Positions are integers of *grains*, 2**-20 seat-nanoseconds. The meter of a granted queue is exact. R
grows by ``free * elapsed / limited``, rounded down to a grain at each step. All limited queues read the same R, so they
can't drift apart; in a million steps each loses at most one seat-nanosecond. Expected times are compared in 1/1024 ns.
An event of the model happens at the first whole nanosecond at which its position has been reached.

**Late events.** No timer runs. Each call first advances the model to the current time. It processes the events in the
order of their times and divides the seats again after each, so late calls give the same results. When the duration of a
request becomes known late, later positions in the same queue are corrected exactly. The earlier division of the seats
is not revised, neither here nor in Kubernetes. It depends only on which queues had demand, and a queue with a running
or waiting request always has demand.

**Rest.** A ticket that arrives when no queue has demand, and finishes before another one arrives, gets all its seats.
It moves the meter of its queue and the start of the next ticket by the same amount. Only their difference matters, so
`catch_up` changes neither.

**Expected durations.** Until a request has finished, its duration is a guess. In the KEP this is the request timeout of
the server, and a constant is added each time that the guess is exceeded. Here it is the average duration of the latest
requests of the queue, and the average of the level is added (`next_guess`). A new queue starts with the guess of its
level, and a new level with a constant. The order of waiting requests is computed with this constant only. With learned
guesses, a queue that seldom has more than one request would wait behind the next requests of all other queues.

**Capacity** is the level's concurrency, or the number of seats really in use if that is larger: a request wider than
its level runs alone, and reducing the seats of a level doesn't free those in use. If the model divided fewer seats than
the level really gives, it would fall further and further behind, and keep demand that no longer exists. If seats are
steered (`follow`), the capacity is exactly the seats in use, because seats that are lent to other levels can't be
divided here. The capacity grows at once, but shrinks only when time passes, so that seats which are given back and
taken again at the same instant change nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from heapq import heappush
from typing import Final, Generic, TypeVar

from apf_middleware.exceptions import require_integer
from apf_middleware.fairqueuing.max_min_shares import MaxMinShares
from apf_middleware.fairqueuing.queue_heap import QueueHeap
from apf_middleware.fairqueuing.ticket import Queue, Ticket
from apf_middleware.fairqueuing.width_indexed_heap import WidthIndexedHeap

__all__ = [
    "GRAINS_PER_SEAT_NS",
    "GRAINS_PER_UNIT",
    "NEVER",
    "TICKS_PER_NS",
    "WIDEST",
    "WIDTH_BITS",
    "FluidModel",
    "MaxMinQueue",
]

GRAINS_PER_SEAT_NS: Final = 1 << 20
GRAINS_PER_UNIT: Final = 10 * GRAINS_PER_SEAT_NS
"""Grains in the unit of work, 1e-8 seat-seconds."""

TICKS_PER_NS: Final = 1 << 10

NEVER: Final = 1 << 2048
"""Later than any time or position."""

_OF_A_QUEUE: Final = 4  # the weight of one request in the average of its queue is one fourth
_OF_THE_LEVEL: Final = 16

WIDTH_BITS: Final = 32
WIDEST: Final = (1 << WIDTH_BITS) - 1
"""The greatest width of one virtual end; a wider ticket has several."""


class MaxMinQueue(Queue, ABC):
    """A queue with its demand and its meter in the fluid model; ``guess_ns`` is the average of its latest durations.

    ``rho``, ``is_limited``, ``at_least``, ``at_most`` and ``is_closed`` belong to `MaxMinShares`. While the queue is
    ``on_r``, ``base`` is the difference of its meter and R; otherwise ``base`` is the meter at the time ``mark``.
    ``first`` is its oldest ticket, or one that is about to become the oldest. ``virtual_ends`` are requests that have
    really ended but not yet in the model. They are a heap of integers, each of which combines an end and a width;
    integers are faster to compare than tuples, and the garbage collector ignores them.
    """

    __slots__ = (
        "at_least",
        "at_most",
        "base",
        "end_is_stale",
        "finish_is_stale",
        "first",
        "guess_ns",
        "has_end",
        "has_finish",
        "is_closed",
        "is_limited",
        "mark",
        "on_r",
        "rho",
        "virtual_ends",
    )

    def __init__(self, index: int, guess_ns: int) -> None:
        super().__init__(index)
        self.guess_ns: int = guess_ns
        self.rho: int = 0
        self.is_limited: bool = False
        self.at_least: int = 0
        self.at_most: int = 0
        self.is_closed: bool = False
        self.base: int = 0
        self.mark: int = 0
        self.on_r: bool = False
        self.first: Ticket | None = None
        self.virtual_ends: list[int] = []
        self.has_finish: bool = False  # it has an entry in a heap of finishes
        self.finish_is_stale: bool = False
        self.has_end: bool = False  # it has an entry in a heap of ends
        self.end_is_stale: bool = False

    @abstractmethod
    def finish_of(self, first: Ticket) -> int:
        """Return the position at which ``first`` would be finished: on R if the queue is limited, else on its meter."""

    @abstractmethod
    def next_end(self) -> int | None:
        """Return the position of the next event in this queue: on R if the queue is limited, else on its meter."""

    def shift_positions(self, way: int) -> None:
        """Add ``way`` to the stored positions, because the queue reads the other meter from now on."""

    def end_virtually(self, end: int, width: int) -> None:
        """Keep the seats of a request that has really ended occupied in the model until ``end``."""
        while width > WIDEST:
            heappush(self.virtual_ends, end << WIDTH_BITS | WIDEST)
            width -= WIDEST
        heappush(self.virtual_ends, end << WIDTH_BITS | width)


MaxMinQueueT = TypeVar("MaxMinQueueT", bound=MaxMinQueue)


class FluidModel(Generic[MaxMinQueueT]):
    """Meters, shares and time of one level's queues. Each queue computes its own positions."""

    __slots__ = (
        "_ends",
        "_ends_on_r",
        "_finishes",
        "_finishes_on_r",
        "_soonest",
        "_soonest_on_r",
        "_waiting_in_time",
        "concurrency",
        "follows",
        "guess_ns",
        "now",
        "queues",
        "r",
        "shares",
        "turn",
        "used",
    )

    def __init__(self, concurrency: int, guess_ns: int) -> None:
        self.concurrency: int = require_integer("concurrency", concurrency, least=0)
        self.guess_ns: int = require_integer("guess_ns", guess_ns, least=1)  # average duration in the level
        self.now: int = 0
        self.r: int = 0
        self.turn: int = 0  # the index of the queue served last
        self.used: int = 0  # the seats in use
        self.follows: bool = False
        self.queues: list[MaxMinQueueT] = []
        self.shares: MaxMinShares[MaxMinQueueT] = MaxMinShares(concurrency, self.queues)
        self._finishes, self._finishes_on_r = WidthIndexedHeap(), WidthIndexedHeap()
        self._ends, self._ends_on_r = QueueHeap(), QueueHeap()
        self._waiting_in_time = 0  # queues with an entry in the heap of finishes by time
        self._soonest = self._soonest_on_r = NEVER  # no end comes before these

    def open(self, queue: MaxMinQueueT) -> MaxMinQueueT:
        """Add ``queue``, which is new."""
        if queue.index == len(self.queues):
            self.queues.append(queue)
        else:
            self.queues[queue.index] = queue
        return queue

    # Time

    def advance(self, elapsed_ns: int, reach: Callable[[MaxMinQueueT], None]) -> None:
        """Advance the time, and call ``reach`` for each queue that reaches its end, in the order of the ends."""
        if self.follows:
            # seats that were given back since the last step count from now on
            self.set_capacity()
        shares = self.shares
        until, r, limited = self.now + elapsed_ns, self.r, shares.limited
        if limited:
            r += shares.free * elapsed_ns * GRAINS_PER_SEAT_NS // limited
        while until >= self._soonest or r >= self._soonest_on_r:
            if not self._advance_to_end(until, r, reach):
                break
            r, limited = self.r, shares.limited
            if limited:
                r += shares.free * (until - self.now) * GRAINS_PER_SEAT_NS // limited
        self.now = until
        self.r = r

    def _advance_to_end(self, until: int, r: int, reach: Callable[[MaxMinQueueT], None]) -> bool:
        """Advance the time to the next end; return False if there is none by ``until``, when R will be ``r``."""
        first, due, shares = None, until, self.shares
        if until >= self._soonest:
            first = self._soonest_of(self._ends)
            self._soonest = due = self._ends.floor()
            if due > until:
                first = None
        if r >= self._soonest_on_r:
            queue = self._soonest_of(self._ends_on_r)
            self._soonest_on_r = key = self._ends_on_r.floor()
            # without free seats R stands still
            if key <= r and shares.free:
                way = (key - self.r) * shares.limited
                # rounded up to the first whole nanosecond at which R has reached the position
                at = self.now - (-way // (shares.free * GRAINS_PER_SEAT_NS)) if way > 0 else self.now
                if first is None or at < due:
                    first, due = queue, at
        if first is None:
            return False
        if shares.limited:
            self.r += shares.free * (due - self.now) * GRAINS_PER_SEAT_NS // shares.limited
        self.now = due
        # Read before `reach`, in which the queue may move to the other heap. The bound of that heap isn't updated; it
        # may be too early, but never too late.
        was_on_r = first.on_r
        reach(first)
        if was_on_r:
            self._soonest_on_r = self._ends_on_r.floor()
        else:
            self._soonest = self._ends.floor()
        return True

    def _soonest_of(self, heap: QueueHeap) -> MaxMinQueueT | None:
        """Return the queue with the first end in this heap, which is then the heap's `floor`."""
        while (index := heap.least()) is not None:
            queue = self.queues[index]
            if not queue.end_is_stale:
                return queue
            self.schedule_end(queue)
        return None

    def position(self, queue: MaxMinQueue) -> int:
        """Return the position of the queue's work meter, in grains."""
        if queue.on_r:
            return queue.base + self.r
        return queue.base + queue.rho * (self.now - queue.mark) * GRAINS_PER_SEAT_NS

    def here(self, queue: MaxMinQueueT) -> int:
        """Return the position of the work meter, and store it as ``base`` if the queue is granted."""
        if queue.on_r:
            return queue.base + self.r
        if queue.mark != self.now:
            queue.base += queue.rho * (self.now - queue.mark) * GRAINS_PER_SEAT_NS
            queue.mark = self.now
        return queue.base

    # Expected durations

    def learn(self, queue: MaxMinQueueT, took_ns: int) -> None:
        """Update the guesses with the duration of a request of ``queue``."""
        self.guess_ns = max(1, self.guess_ns + (took_ns - self.guess_ns) // _OF_THE_LEVEL)
        queue.guess_ns = max(1, queue.guess_ns + (took_ns - queue.guess_ns) // _OF_A_QUEUE)

    def next_guess(self, guess_ns: int) -> int:
        """Return the guess for a request that has taken longer than ``guess_ns``.

        It is greater by the guess of the level, or by a sixteenth if that is more. So a long request needs no more
        guesses than there are average requests in the same time. If the averages are much too low, because nothing is
        known yet, the number of guesses is logarithmic.
        """
        return guess_ns + max(self.guess_ns, guess_ns >> 4)

    # Shares

    def demand(self, queue: MaxMinQueueT, rho: int) -> None:
        """Set the demand of ``queue`` to ``rho``."""
        if queue.on_r and rho >= queue.at_least:
            queue.rho = rho  # it stays limited, the most frequent case
        elif self._divide(queue, rho) and not queue.on_r:
            # Only a granted queue's times depend on its own demand. If it has crossed, `cross` has updated its entries.
            if queue.has_finish and not queue.finish_is_stale:
                self.schedule_finish(queue)
            if queue.has_end and not queue.end_is_stale:
                self.schedule_end(queue)

    def demand_anew(self, queue: MaxMinQueueT, rho: int) -> None:
        """Set the demand of ``queue``, after a change of its finish or end."""
        if queue.on_r and rho >= queue.at_least:
            queue.rho = rho
            self.schedule(queue)
        elif self._divide(queue, rho):
            self.schedule(queue)

    def _divide(self, queue: MaxMinQueueT, rho: int) -> bool:
        """Divide the seats again; return whether ``queue`` is granted or limited as before."""
        was_on_r = queue.on_r
        # up to now its meter has run at the former demand
        if not was_on_r and queue.mark != self.now:
            queue.base += queue.rho * (self.now - queue.mark) * GRAINS_PER_SEAT_NS
            queue.mark = self.now
        crossed = self.shares.change(queue, rho)
        if crossed:
            self.cross(crossed)
        return queue.on_r is was_on_r

    def take(self, seats: int) -> None:
        """Add ``seats`` to the seats in use."""
        self.used = used = self.used + seats
        if used > self.shares.capacity:
            self.set_capacity()

    def give(self, seats: int) -> None:
        """Subtract ``seats`` from the seats in use."""
        self.used -= seats
        if self.shares.capacity != self.concurrency and not self.follows:
            self.set_capacity()

    def set_capacity(self) -> None:
        """Update the capacity from the concurrency and the seats in use."""
        capacity = self.used if self.follows else max(self.concurrency, self.used)
        if capacity != self.shares.capacity:
            self.cross(self.shares.resize(capacity))

    @property
    def is_at_rest(self) -> bool:
        """True if no queue has demand."""
        return not self.shares.limited and self.shares.free == self.shares.capacity

    def follow(self) -> None:
        """Let the capacity be the seats in use."""
        self.follows = True
        self.set_capacity()

    def resize(self, concurrency: int) -> None:
        """Set the level's concurrency."""
        self.concurrency = concurrency
        self.set_capacity()

    def cross(self, crossed: Iterable[MaxMinQueueT]) -> None:
        """Let queues that have become granted or limited read the other meter, from their present position on."""
        for one in crossed:
            queue = self.queues[one.index]
            if queue.on_r is queue.is_limited:
                continue
            # Until ``on_r`` changes, the position and the entries are those on the old meter.
            position = self.position(queue)
            if queue.has_finish:
                self.unschedule_finish(queue)
            if queue.has_end:
                self._remove_end(queue)
            queue.on_r = queue.is_limited
            if queue.on_r:
                queue.base = position - self.r
                queue.shift_positions(-queue.base)
            else:
                queue.shift_positions(queue.base)
                queue.base, queue.mark = position, self.now
            if queue.rho:  # without demand, the queue has no entries
                self.schedule(queue)

    # Entries

    def schedule(self, queue: MaxMinQueueT) -> None:
        """Update both entries of ``queue``."""
        self.schedule_finish(queue)
        self.schedule_end(queue)

    def schedule_finish(self, queue: MaxMinQueueT) -> None:
        """Update the entry for the finish of ``queue``."""
        queue.finish_is_stale = False
        first = queue.first
        if queue.on_r and first is not None and first.width == 1 and not self._finishes_on_r.wide:
            queue.has_finish = True  # the most frequent case, as below
            self._finishes_on_r.put(queue.index, queue.finish_of(first))
            return
        if first is None:
            if queue.has_finish:
                self.unschedule_finish(queue)
            return
        key, width, heap = queue.finish_of(first), first.width, self._finishes_on_r
        if not queue.on_r:
            heap, rate = self._finishes, queue.rho * GRAINS_PER_SEAT_NS
            way = key - queue.base - rate * (self.now - queue.mark)
            key = self.now * TICKS_PER_NS + way * TICKS_PER_NS // rate
            if not queue.has_finish:
                self._waiting_in_time += 1
        queue.has_finish = True
        if width > 1 or heap.wide:
            heap.place(queue.index, key, width)
        else:
            heap.put(queue.index, key)

    def schedule_end(self, queue: MaxMinQueueT) -> None:
        queue.end_is_stale = False
        end = queue.next_end()
        if end is not None:
            self.end_at(queue, end)
        elif queue.has_end:
            self._remove_end(queue)

    def end_at(self, queue: MaxMinQueueT, end: int) -> None:
        """Set the end of ``queue`` to ``end``."""
        queue.has_end = True
        if queue.on_r:
            if end < self._soonest_on_r:  # noqa: PLR1730 - min() is slower
                self._soonest_on_r = end
            self._ends_on_r.put(queue.index, end)
            return
        rate = queue.rho * GRAINS_PER_SEAT_NS
        way = end - queue.base - rate * (self.now - queue.mark)
        key = self.now - (-way // rate) if way > 0 else self.now
        self.end_at_time(queue, key)

    def end_at_time(self, queue: MaxMinQueueT, time: int) -> None:
        """Set the end of a granted ``queue`` to this ``time``."""
        queue.has_end = True
        if time < self._soonest:  # noqa: PLR1730 - min() is slower
            self._soonest = time
        self._ends.put(queue.index, time)

    def unschedule_finish(self, queue: MaxMinQueueT) -> None:
        """Remove the finish of ``queue``."""
        queue.has_finish = False
        if queue.on_r:
            self._finishes_on_r.drop(queue.index)
        else:
            self._waiting_in_time -= 1
            self._finishes.drop(queue.index)

    def _remove_end(self, queue: MaxMinQueueT) -> None:
        queue.has_end = False
        (self._ends_on_r if queue.on_r else self._ends).drop(queue.index)

    # Picking

    def pick(self, widest: int | None = None) -> int:
        """Return the index of the queue with the first finish; raise LookupError if no request waits."""
        heap = self._finishes_on_r
        if self._waiting_in_time or heap.wide:
            return self._pick_of_both(widest)
        while (index := heap.first(self.turn)) is not None:  # `_next_of`, inlined for speed
            queue = self.queues[index]
            if not queue.finish_is_stale:
                return index
            self.schedule_finish(queue)
        raise LookupError("no request waits")

    def _pick_of_both(self, widest: int | None) -> int:
        in_time = self._next_of(self._finishes, widest) if self._waiting_in_time else None
        shares = self.shares
        if in_time is not None and not shares.free:
            return in_time.index  # without free seats the limited queues never finish
        on_r = self._next_of(self._finishes_on_r, widest)
        if in_time is None:
            if on_r is None:
                raise LookupError("no request waits")
            return on_r.index
        if on_r is None:
            return in_time.index
        way = (self._finishes_on_r.finish_of(on_r.index) - self.r) * shares.limited * TICKS_PER_NS
        expected = self.now * TICKS_PER_NS + way // (shares.free * GRAINS_PER_SEAT_NS)
        ahead = expected - self._finishes.finish_of(in_time.index)
        if ahead:
            return on_r.index if ahead < 0 else in_time.index
        return min(in_time.index, on_r.index, key=lambda index: (index <= self.turn, index))  # the next one in turn

    def _next_of(self, heap: WidthIndexedHeap, widest: int | None) -> MaxMinQueueT | None:
        while True:
            index = heap.first_within(self.turn, widest) if heap.wide else heap.first(self.turn)
            if index is None:
                return None
            queue = self.queues[index]
            if not queue.finish_is_stale:
                return queue
            self.schedule_finish(queue)

    # Closing and inspection

    def close(self, queue: MaxMinQueueT, *, closing_up: bool) -> None:
        """Remove ``queue`` and its demand from the model."""
        queue.first = None
        queue.finish_is_stale = queue.end_is_stale = False
        if queue.has_finish:
            self.unschedule_finish(queue)
        if queue.has_end:
            self._remove_end(queue)
        queue.is_closed = True
        if closing_up:
            del self.queues[queue.index]
            for heap in (self._finishes, self._finishes_on_r, self._ends, self._ends_on_r):
                heap.close_up(queue.index)
            if self.turn >= queue.index:
                self.turn -= 1
        self.cross(self.shares.forget(queue, closing_up=closing_up))

    def meters(self) -> dict[str, int]:
        """Return the model's numbers, by name."""
        shares = self.shares
        return {
            "current_r": self.r,
            "robin_index": self.turn,
            "free_seats": shares.free,
            "limited_queues": shares.limited,
        }

    def check(self) -> None:
        """Raise AssertionError unless each queue reads the right meter and its entries are correct."""
        self.shares.check()
        queues = [queue for queue in self.queues if not queue.is_closed]
        for queue in queues:
            assert queue.on_r is queue.is_limited, f"{queue!r} reads the wrong meter"
        self._check_heaps(queues)

    def _check_heaps(self, queues: list[MaxMinQueueT]) -> None:
        for heap in (self._finishes, self._finishes_on_r, self._ends, self._ends_on_r):
            heap.check()
        for queue in queues:
            assert queue.first is queue.oldest, f"the first ticket of {queue!r}"
            self._check_finish(queue)
            self._check_end(queue)
        waiting = sum(queue.has_finish and not queue.on_r for queue in queues)
        assert self._waiting_in_time == waiting, f"{waiting} queues wait in time, not {self._waiting_in_time}"

    def _check_finish(self, queue: MaxMinQueueT) -> None:
        """Check that the entry for the finish is correct, or too early if it is stale."""
        assert queue.has_finish is (queue.first is not None), f"whether {queue!r} has a finish"
        if queue.first is None:
            return
        finish = queue.finish_of(queue.first)
        if queue.on_r:
            key, true = self._finishes_on_r.finish_of(queue.index), finish
        else:
            key, way = self._finishes.finish_of(queue.index), finish - self.position(queue)
            true = self.now * TICKS_PER_NS + way * TICKS_PER_NS // (queue.rho * GRAINS_PER_SEAT_NS)
        in_place = key == true or (queue.finish_is_stale and key < true)
        assert in_place, f"the finish of {queue!r} is {true} and stands at {key}"

    def _check_end(self, queue: MaxMinQueueT) -> None:
        """Check that the entry for the end is correct, or too early if it is stale."""
        end = queue.next_end()
        if end is None or not queue.has_end:
            assert end is None, f"the end of {queue!r} is missing"
            assert not queue.has_end or queue.end_is_stale, f"{queue!r} has an entry and no end"
            return
        if queue.on_r:
            key, true, soonest = self._ends_on_r.finish_of(queue.index), end, self._soonest_on_r
        else:
            way, rate = end - self.position(queue), queue.rho * GRAINS_PER_SEAT_NS
            true, soonest = max(self.now, self.now - (-way // rate)), self._soonest
            key = self._ends.finish_of(queue.index)
        assert key == true or (queue.end_is_stale and key < true), f"the end of {queue!r} is {true} and stands at {key}"
        assert key >= soonest, f"the end of {queue!r} comes before the soonest of all"

    def __repr__(self) -> str:
        return f"<FluidModel R={self.r} last served={self.turn} {self.shares!r}>"
