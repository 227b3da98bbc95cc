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

**Exactness.** Positions are integers of *grains*, 2**-10 seat-nanoseconds. The meter of a granted queue is exact. R
grows by ``free * elapsed / limited``, rounded down to a grain at each step. All limited queues read the same R, so they
can't drift apart; in a thousand steps each loses at most one seat-nanosecond. Expected times are compared in 1/1024 ns.
An event of the model happens at the first whole nanosecond at which its position has been reached.

**Weights.** A limited queue of weight w gets w * mu_fair. Its positions are in *virtual* grains, which are its work
divided by w. So the meters of all limited queues run at mu_fair, whatever their weights, and R is still the common
meter. The meter of a granted queue runs at rho / w; what is left of the division is kept as its ``remainder``, so that
the meter is exact. Only where work becomes a position (`WorkMeter.scaled`) and where a granted queue reaches a position
does the weight matter. As long as all queues have the usual weight, they count as 1 and nothing is divided. From the
first other weight on, the unit is `WEIGHT_ONE`, and R grows by ``free * WEIGHT_ONE * elapsed / limited``, which is the
same number for usual queues. When the weight of a queue changes, its meter stays where it is. The discipline rescales
the distance to later positions, so that the queue is ahead by the same work as before.

**Late events.** No timer runs. Each call first advances the model to the current time. It processes the events in the
order of their times and divides the seats again after each, so late calls give the same results. When the duration of a
request becomes known late, later positions in the same queue are corrected exactly. The earlier division of the seats
is not revised, neither here nor in Kubernetes. It depends only on which queues had demand, and a queue with a running
or waiting request always has demand.

**A lone request** is one that begins when no queue has demand. Its queue then gets all the seats that it demands, so
its meter is simply moved when the request ends, and no heap has an entry for it. If something else happens meanwhile,
the request is admitted to the model first, as if it had been there from its beginning.

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

from collections.abc import Iterable
from typing import Final, Generic, TypeVar

from apf_middleware.exceptions import require_integer
from apf_middleware.fairqueuing.disciplines.work_meter import MaxMinQueue, WorkMeter
from apf_middleware.fairqueuing.max_min_shares import MaxMinShares
from apf_middleware.fairqueuing.queue_heap import QueueHeap
from apf_middleware.fairqueuing.queue_share import Share
from apf_middleware.fairqueuing.ticket import Ticket
from apf_middleware.fairqueuing.width_indexed_heap import WidthIndexedHeap
from apf_middleware.fairqueuing.work import GRAIN_BITS, NS_PER_UNIT, WEIGHT_BITS

__all__ = [
    "FAR",
    "GRAINS_PER_UNIT",
    "NEVER",
    "TICK_BITS",
    "FluidModel",
]

GRAINS_PER_UNIT: Final = NS_PER_UNIT << GRAIN_BITS
"""Grains in the unit of work, 1e-8 seat-seconds."""

TICK_BITS: Final = 10
"""A shift by this many bits turns nanoseconds into the unit in which expected times are compared."""

NEVER: Final = 1 << 2048
"""Later than any time or position."""

FAR: Final = 1 << 40
"""Where nothing is expected, it is looked for again after this number of nanoseconds or grains.

Compiled code compares numbers of up to 62 bits much faster than others such as `NEVER`.
"""

_OF_A_QUEUE: Final = 4  # the weight of one request in the average of its queue is one fourth
_OF_THE_LEVEL: Final = 16

WorkMeterT = TypeVar("WorkMeterT", bound=WorkMeter)


class FluidModel(Generic[WorkMeterT]):
    """The work meters of one level's queues, their shares, and the time. Each meter computes its own positions."""

    __slots__ = (
        "_demands",
        "_ends",
        "_ends_on_r",
        "_finishes",
        "_finishes_on_r",
        "_rate_bits",
        "_soonest",
        "_soonest_on_r",
        "_waiting_in_time",
        "concurrency",
        "follows",
        "guess_ns",
        "lone",
        "lone_ticket",
        "meters",
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
        self._rate_bits = GRAIN_BITS  # seats shifted by this many bits, divided by a weight, are grains for each ns
        self.queues: list[MaxMinQueue[WorkMeterT]] = []
        self.meters: list[WorkMeterT] = []  # of the queues, in the same order
        self._demands: list[Share] = []  # and their shares
        self.shares: MaxMinShares = MaxMinShares(concurrency, self._demands)
        self._finishes, self._finishes_on_r = WidthIndexedHeap(), WidthIndexedHeap()
        self._ends, self._ends_on_r = QueueHeap(), QueueHeap()
        self.lone_ticket: Ticket | None = None
        self.lone: WorkMeterT | None = None  # the meter of its queue
        self._waiting_in_time = 0  # queues with an entry in the heap of finishes by time
        self._soonest = self._soonest_on_r = FAR  # no end comes before these

    def open(self, meter: WorkMeterT) -> MaxMinQueue[WorkMeterT]:
        """Return a new queue with this ``meter``."""
        queue = MaxMinQueue(meter)
        meter.share.weight = self.shares.unit
        meter.is_weighted = self._rate_bits > GRAIN_BITS
        if meter.index == len(self.meters):
            self.queues.append(queue)
            self.meters.append(meter)
            self._demands.append(meter.share)
        else:
            self.queues[meter.index] = queue
            self.meters[meter.index] = meter
            self._demands[meter.index] = meter.share
        return queue

    # Time

    def advance(self, until: int) -> WorkMeterT | None:
        """Advance the time to the next end, and return the meter of its queue; None if there is none by ``until``.

        The caller processes the end, and calls again until it gets None; then the time is ``until``.
        """
        if self.follows:
            # seats that were given back since the last step count from now on
            self.set_capacity()
        shares, r = self.shares, self.r
        if shares.limited:
            r += (shares.free * (until - self.now) << self._rate_bits) // shares.limited
        if until >= self._soonest or r >= self._soonest_on_r:
            meter = self._advance_to_end(until, r)
            if meter is not None:
                return meter
        self.now = until
        self.r = r
        return None

    def _advance_to_end(self, until: int, r: int) -> WorkMeterT | None:
        """Advance the time to the next end; return None if there is none by ``until``, when R will be ``r``."""
        first, due, shares = None, until, self.shares
        if until >= self._soonest:
            first = self._soonest_of(self._ends)
            self._soonest = due = until + FAR if first is None else self._ends.floor()
            if due > until:
                first = None
        if r >= self._soonest_on_r:
            meter = self._soonest_of(self._ends_on_r)
            self._soonest_on_r = key = r + FAR if meter is None else self._ends_on_r.floor()
            # without free seats R stands still
            if key <= r and shares.free:
                way = (key - self.r) * shares.limited
                # rounded up to the first whole nanosecond at which R has reached the position
                at = self.now - (-way // (shares.free << self._rate_bits)) if way > 0 else self.now
                if first is None or at < due:
                    first, due = meter, at
        if first is not None:
            if shares.limited:
                self.r += (shares.free * (due - self.now) << self._rate_bits) // shares.limited
            self.now = due
        return first

    def _soonest_of(self, heap: QueueHeap) -> WorkMeterT | None:
        """Return the queue with the first end in this heap, which is then the heap's `floor`."""
        while (index := heap.least()) is not None:
            meter = self.meters[index]
            if not meter.end_is_stale:
                return meter
            self.schedule_end(meter)
        return None

    def position(self, meter: WorkMeter) -> int:
        """Return the position of the queue's work meter, in grains."""
        if meter.on_r:
            return meter.base + self.r
        way = meter.share.rho * (self.now - meter.mark) << self._rate_bits
        return meter.base + ((way + meter.remainder) // meter.share.weight if meter.is_weighted else way)

    def here(self, meter: WorkMeterT) -> int:
        """Return the position of the work meter, and store it as ``base`` if the queue is granted."""
        if meter.on_r:
            return meter.base + self.r
        if meter.mark != self.now:
            way = meter.share.rho * (self.now - meter.mark) << self._rate_bits
            if meter.is_weighted:
                way, meter.remainder = divmod(way + meter.remainder, meter.share.weight)
            meter.base += way
            meter.mark = self.now
        return meter.base

    # Expected durations

    def learn(self, meter: WorkMeterT, took_ns: int) -> None:
        """Update the guesses with the duration of a request of the queue with this ``meter``."""
        self.guess_ns = max(1, self.guess_ns + (took_ns - self.guess_ns) // _OF_THE_LEVEL)
        meter.guess_ns = max(1, meter.guess_ns + (took_ns - meter.guess_ns) // _OF_A_QUEUE)

    def next_guess(self, guess_ns: int) -> int:
        """Return the guess for a request that has taken longer than ``guess_ns``.

        It is greater by the guess of the level, or by a sixteenth if that is more. So a long request needs no more
        guesses than there are average requests in the same time. If the averages are much too low, because nothing is
        known yet, the number of guesses is logarithmic.
        """
        return guess_ns + max(self.guess_ns, guess_ns >> 4)

    # Shares

    def demand(self, meter: WorkMeterT, rho: int) -> None:
        """Set the demand of a queue to ``rho``."""
        share = meter.share
        if meter.on_r and rho >= share.at_least:
            share.rho = rho  # it stays limited, the most frequent case
        elif self._divide(meter, rho) and not meter.on_r:
            # Only a granted queue's times depend on its own demand. If it has crossed, `cross` has updated its entries.
            if meter.has_finish and not meter.finish_is_stale:
                self.schedule_finish(meter)
            if meter.has_end and not meter.end_is_stale:
                self.schedule_end(meter)

    def demand_anew(self, meter: WorkMeterT, rho: int) -> None:
        """Set the demand of a queue, after a change of its finish or end."""
        share = meter.share
        if meter.on_r and rho >= share.at_least:
            share.rho = rho
            self.schedule(meter)
        elif self._divide(meter, rho):
            self.schedule(meter)

    def _divide(self, meter: WorkMeterT, rho: int) -> bool:
        """Divide the seats again; return whether the queue is granted or limited as before."""
        was_on_r = meter.on_r
        # up to now its meter has run at the former demand
        if meter.is_weighted:
            self.here(meter)
        elif not was_on_r and meter.mark != self.now:
            meter.base += meter.share.rho * (self.now - meter.mark) << GRAIN_BITS
            meter.mark = self.now
        crossed = self.shares.change(meter.share, rho)
        if crossed:
            self.cross(crossed)
        return meter.on_r is was_on_r

    def reweigh(self, meter: WorkMeterT, weight: int) -> None:
        """Set the weight of a queue; later positions have been moved, and its entries are updated here."""
        if self._rate_bits == GRAIN_BITS:
            self._rate_bits = GRAIN_BITS + WEIGHT_BITS
            self.shares.weigh()
            for other in self.meters:
                other.is_weighted = True
        self.here(meter)
        meter.remainder = 0
        self.cross(self.shares.reweigh(meter.share, weight))
        if meter.share.rho:
            self.schedule(meter)

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
        return not self.shares.limited and self.shares.free == self.shares.capacity and self.lone is None

    # A lone request

    def begin_alone(self, meter: WorkMeterT, ticket: Ticket) -> bool:
        """Begin ``ticket`` as a lone request, and return whether it is one."""
        shares, work = self.shares, ticket.work
        is_free = shares.free == shares.capacity and not shares.limited
        if not is_free or self.lone is not None or work.linger_ns or work.final_seats > work.seats:
            return False
        if meter.has_end:  # an outdated one
            self._remove_end(meter)
        meter.share.rho = ticket.width
        meter.mark = self.now
        self.lone_ticket = ticket
        self.lone = meter
        return True

    def end_alone(self, meter: WorkMeterT) -> None:
        """End the lone request, of the queue with this ``meter``, which is `here`."""
        meter.share.rho = 0
        self.lone = self.lone_ticket = None

    def admit_alone(self, meter: WorkMeterT) -> None:
        """Divide the seats for the lone request, of the queue with this ``meter``; the caller schedules its end."""
        self.here(meter)
        rho = meter.share.rho
        self.end_alone(meter)
        self.demand(meter, rho)

    def follow(self) -> None:
        """Let the capacity be the seats in use."""
        self.follows = True
        self.set_capacity()

    def resize(self, concurrency: int) -> None:
        """Set the level's concurrency."""
        self.concurrency = concurrency
        self.set_capacity()

    def cross(self, crossed: Iterable[Share]) -> None:
        """Let queues that have become granted or limited read the other meter, from their present position on."""
        for share in crossed:
            meter = self.meters[share.index]
            if meter.on_r is share.is_limited:
                continue
            # Until ``on_r`` changes, the position and the entries are those on the old meter.
            position = self.here(meter)
            if meter.has_finish:
                self.unschedule_finish(meter)
            if meter.has_end:
                self._remove_end(meter)
            meter.on_r = share.is_limited
            if meter.on_r:
                meter.base = position - self.r
                meter.shift_positions(-meter.base)
            else:
                meter.shift_positions(meter.base)
                meter.base, meter.mark = position, self.now
            if share.rho:  # without demand, the queue has no entries
                self.schedule(meter)

    # Entries

    def schedule(self, meter: WorkMeterT) -> None:
        """Update both entries of a queue."""
        self.schedule_finish(meter)
        self.schedule_end(meter)

    def schedule_finish(self, meter: WorkMeterT) -> None:
        """Update the entry for the finish of a queue."""
        meter.finish_is_stale = False
        first = meter.first
        if first is None:
            if meter.has_finish:
                self.unschedule_finish(meter)
            return
        key, heap = meter.finish_of(first), self._finishes_on_r
        if not meter.on_r:
            heap, rate = self._finishes, meter.share.rho << self._rate_bits
            way = (key - meter.base) * meter.share.weight - meter.remainder - rate * (self.now - meter.mark)
            key = (self.now << TICK_BITS) + (way << TICK_BITS) // rate
            if not meter.has_finish:
                self._waiting_in_time += 1
        meter.has_finish = True
        heap.place(meter.index, key, first.width)

    def schedule_end(self, meter: WorkMeterT) -> None:
        meter.end_is_stale = False
        end = meter.next_end()
        if end is not None:
            self.end_at(meter, end)
        elif meter.has_end:
            self._remove_end(meter)

    def end_at(self, meter: WorkMeterT, end: int) -> None:
        """Set the end of a queue to ``end``."""
        meter.has_end = True
        if meter.on_r:
            self._soonest_on_r = min(self._soonest_on_r, end)
            self._ends_on_r.put(meter.index, end)
            return
        rate = meter.share.rho << self._rate_bits
        way = (end - meter.base) * meter.share.weight - meter.remainder - rate * (self.now - meter.mark)
        key = self.now - (-way // rate) if way > 0 else self.now
        self.end_at_time(meter, key)

    def end_at_time(self, meter: WorkMeterT, time: int) -> None:
        """Set the end of a granted queue to this ``time``."""
        meter.has_end = True
        self._soonest = min(self._soonest, time)
        self._ends.put(meter.index, time)

    def unschedule_finish(self, meter: WorkMeterT) -> None:
        """Remove the finish of a queue."""
        meter.has_finish = False
        if meter.on_r:
            self._finishes_on_r.drop(meter.index)
        else:
            self._waiting_in_time -= 1
            self._finishes.drop(meter.index)

    def _remove_end(self, meter: WorkMeterT) -> None:
        meter.has_end = False
        (self._ends_on_r if meter.on_r else self._ends).drop(meter.index)

    # Picking

    def pick(self, widest: int | None = None) -> int:
        """Return the index of the queue with the first finish; raise LookupError if no request waits."""
        heap = self._finishes_on_r
        if self._waiting_in_time or heap.wide:
            return self._pick_of_both(widest)
        meter = self._next_of(heap, None)
        if meter is None:
            raise LookupError("no request waits")
        return meter.index

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
        way = (self._finishes_on_r.finish_of(on_r.index) - self.r) * shares.limited << TICK_BITS
        expected = (self.now << TICK_BITS) + way // (shares.free << self._rate_bits)
        ahead = expected - self._finishes.finish_of(in_time.index)
        if ahead:
            return on_r.index if ahead < 0 else in_time.index
        return min(in_time.index, on_r.index, key=lambda index: (index <= self.turn, index))  # the next one in turn

    def _next_of(self, heap: WidthIndexedHeap, widest: int | None) -> WorkMeterT | None:
        while True:
            index = heap.first_within(self.turn, widest)
            if index is None:
                return None
            meter = self.meters[index]
            if not meter.finish_is_stale:
                return meter
            self.schedule_finish(meter)

    # Closing and inspection

    def close(self, queue: MaxMinQueue[WorkMeterT], *, closing_up: bool) -> None:
        """Remove ``queue`` and its demand from the model."""
        meter = queue.meter
        meter.first = None
        meter.finish_is_stale = meter.end_is_stale = False
        if meter.has_finish:
            self.unschedule_finish(meter)
        if meter.has_end:
            self._remove_end(meter)
        meter.share.is_closed = True
        if closing_up:
            del self.queues[meter.index], self.meters[meter.index], self._demands[meter.index]
            for other in self.meters[meter.index :]:
                other.index -= 1
                other.share.index -= 1
            for heap in (self._finishes, self._finishes_on_r, self._ends, self._ends_on_r):
                heap.close_up(meter.index)
            if self.turn >= meter.index:
                self.turn -= 1
        self.cross(self.shares.forget(meter.share, closing_up=closing_up))

    def figures(self) -> dict[str, int]:
        """Return the model's numbers, by name."""
        shares = self.shares
        lone_demand = 0 if self.lone is None else self.lone.share.rho  # not yet in the shares
        return {
            "current_r": self.r,
            "robin_index": self.turn,
            "free_seats": shares.free - lone_demand,
            "limited_queues": sum(meter.share.is_limited for meter in self.meters),
        }

    def check(self) -> None:
        """Raise AssertionError unless each queue reads the right meter and its entries are correct."""
        self.shares.check(except_for=None if self.lone is None else self.lone.share)
        for heap in (self._finishes, self._finishes_on_r, self._ends, self._ends_on_r):
            heap.check()
        waiting = 0
        for queue, meter in zip(self.queues, self.meters, strict=True):
            assert queue.meter is meter, f"the meter of {queue!r}"
            if meter.share.is_closed:
                continue
            assert meter.index == queue.index, f"the index of {meter!r}"
            assert meter.on_r is meter.share.is_limited, f"{meter!r} reads the wrong meter"
            assert meter.first is queue.oldest, f"the first ticket of {meter!r}"
            if meter is self.lone:
                assert meter.has_finish is meter.has_end is False, f"{meter!r} has entries"
                continue
            self._check_finish(meter)
            self._check_end(meter)
            waiting += meter.has_finish and not meter.on_r
        assert self._waiting_in_time == waiting, f"{waiting} queues wait in time, not {self._waiting_in_time}"

    def _check_finish(self, meter: WorkMeterT) -> None:
        """Check that the entry for the finish is correct, or too early if it is stale."""
        assert meter.has_finish is (meter.first is not None), f"whether {meter!r} has a finish"
        if meter.first is None:
            return
        finish = meter.finish_of(meter.first)
        if meter.on_r:
            key, true = self._finishes_on_r.finish_of(meter.index), finish
        else:
            key = self._finishes.finish_of(meter.index)
            rate = meter.share.rho << self._rate_bits
            true = (self.now << TICK_BITS) + (self._way(meter, finish) << TICK_BITS) // rate
        in_place = key == true or (meter.finish_is_stale and key < true)
        assert in_place, f"the finish of {meter!r} is {true} and stands at {key}"

    def _check_end(self, meter: WorkMeterT) -> None:
        """Check that the entry for the end is correct, or too early if it is stale."""
        end = meter.next_end()
        if end is None or not meter.has_end:
            assert end is None, f"the end of {meter!r} is missing"
            assert not meter.has_end or meter.end_is_stale, f"{meter!r} has an entry and no end"
            return
        if meter.on_r:
            key, true, soonest = self._ends_on_r.finish_of(meter.index), end, self._soonest_on_r
        else:
            way, rate = self._way(meter, end), meter.share.rho << self._rate_bits
            true, soonest = max(self.now, self.now - (-way // rate)), self._soonest
            key = self._ends.finish_of(meter.index)
        assert key == true or (meter.end_is_stale and key < true), f"the end of {meter!r} is {true} and stands at {key}"
        assert key >= soonest, f"the end of {meter!r} comes before the soonest of all"

    def _way(self, meter: WorkMeter, position: int) -> int:
        """Return how far the meter of a granted queue is from a position, multiplied by its weight."""
        done = meter.share.rho * (self.now - meter.mark) << self._rate_bits
        return (position - meter.base) * meter.share.weight - meter.remainder - done

    def __repr__(self) -> str:
        return f"<FluidModel R={self.r} last served={self.turn} {self.shares!r}>"
