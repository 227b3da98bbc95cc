"""The guarantee that no flow starves: a bound on how far a queue falls behind its fair share, with any discipline.

A queue *demands* the seats that its requests occupy or wait for. Its *fair share* at an instant is its part of the
seats in use, if these are divided among the demands of that instant by max-min fairness. While requests wait in a
queue, its *shortfall* is the service that it lacks: the largest integral of its fair share minus its seats over any
interval up to now. As long as all shortfalls are small, the discipline decides which queue is served next. A queue is
*overdue* if it has fewer seats than its fair share, and its shortfall exceeds the threshold W / 2 + C * T / 4, where C
is the number of seats, W the greatest work and T the longest duration of a recent request. Overdue queues are served
before all others, the largest shortfall first.

The shortfall of an overdue queue grows only until requests that were seated before have ended. So no shortfall exceeds
the work of C + 1 of the longest requests, over any interval and regardless of the history; randomized tests reach nine
tenths of this bound. The shortfall depends only on the demands and seats at each instant, not on guesses or on earlier
service, so no queue can save up credit or be held back by a debt. The threshold is as high as the bound allows. If it
were lower, more queues would be overdue, and a queue that begins to wait, which has no shortfall yet, would have to
wait for all of them.

**Meters.** ``r`` is the integral of the fair share of a *limited* queue, one that demands more than its share (see
`MaxMinShares`), in grains of 2**-10 seat-nanoseconds. Each waiting queue is assumed to be limited. (A queue whose whole
demand is within the fair share lacks less than computed. If it is served too early, it still uses no more than its
share.) The service of a queue is ``service + seats * (now - since)``; its seats changed last at ``since``. The
shortfall is ``r - service`` minus the least value that ``r - service`` has had. That value can be reached only when the
queue gives back seats, or when the fair share rises above the number of its seats. The rises are kept in a log, which
is read for a queue when its seats or requests change (see `RiseLog`).

**Cost.** Waiting queues are ordered by the ``r`` at which their shortfall was zero, or by an earlier one. For a queue
that begins to wait this is the current ``r``, so most queues are in the order in which they began to wait; the few
others are in a heap. An outdated entry overstates the shortfall, and is corrected when it comes first. A queue with a
large shortfall that has its fair share now is postponed: it is examined again when ``r`` has grown by an eighth of the
threshold. Usually one comparison shows that no shortfall is large. Each call is O(log n) amortised. Demands are tracked
only while queues compete: tracking begins with a pass over all queues, and ends after a number of requests without a
wait that exceeds the number of queues.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from apf_middleware.fairqueuing.max_min_shares import MaxMinShares
from apf_middleware.fairqueuing.queue_heap import QueueHeap
from apf_middleware.fairqueuing.ticket import Queue, ServiceMeter

__all__ = ["Guarantee", "RiseLog"]

_GRAIN_BITS: Final = 10  # more would make values exceed 62 bits within minutes, which compiled code handles slowly
_REMEMBERED: Final = 1000  # the greatest work and the longest duration are those of the last 1,000 to 2,000 requests
_ANY_SHARE: Final = 1 << 62  # more seats than any share has


class RiseLog:
    """The moments at which the fair share rose above a whole number of seats.

    A queue with a constant number of seats falls behind faster from such a moment on, so ``r - service`` may have had
    its least value there. Each rise is read once for each number of seats that is asked for.
    """

    __slots__ = ("_rises", "_suffixes", "count", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch: int = epoch
        self.count: int = 0
        self._rises: list[tuple[int, int, int, int]] = []
        # By seats: how many rises have been read, the numbers of those that matter, and their values. The values
        # ascend: a rise with a lower value makes all earlier ones with higher values irrelevant.
        self._suffixes: dict[int, tuple[int, list[int], list[int]]] = {}

    def add(self, r: int, now: int, low: int, high: int) -> None:
        """Add the rise of the share above ``low``, ``low + 1``, … ``high - 1`` seats at ``now``, with this ``r``."""
        self._rises.append((r, now - self.epoch, low, high))
        self.count += 1

    def least(self, seats: int, since: int) -> int | None:
        """Return the least ``r - seats * (now - epoch)``, in grains, of the rises from number ``since`` on."""
        read, numbers, values = self._suffixes.get(seats) or (0, [], [])
        if read < self.count:
            for number in range(read, self.count):
                r, elapsed, low, high = self._rises[number]
                if low <= seats < high:
                    value = r - (seats * elapsed << _GRAIN_BITS)
                    while values and values[-1] >= value:
                        values.pop()
                        numbers.pop()
                    numbers.append(number)
                    values.append(value)
            self._suffixes[seats] = self.count, numbers, values
        place = bisect_left(numbers, since)
        return values[place] if place < len(values) else None

    def clear(self, epoch: int) -> None:
        """Forget all rises, once each queue has read them; the next ones are counted from this ``epoch``."""
        self.epoch = epoch
        self.count = 0
        self._rises.clear()
        self._suffixes.clear()


class Guarantee:
    """The shortfalls of one queue set's queues.

    The queue set reports each change of a queue's seats or waiting requests, with the time.
    """

    __slots__ = (
        "_earliest",
        "_former",
        "_free_meters",
        "_has_fallen",
        "_held",
        "_in_order",
        "_is_decided",
        "_last_listed",
        "_longest",
        "_meters",
        "_most_work",
        "_now",
        "_overdue",
        "_postponed",
        "_queue_heap",
        "_queues",
        "_quiet",
        "_remaining",
        "_rises",
        "_seats_at_most",
        "_share_rounded_up",
        "_shares",
        "_threshold",
        "_waiting_queues",
        "is_tracking",
        "overridden",
        "r",
    )

    def __init__(self, seats: int, now: int = 0) -> None:
        self.r: int = 0
        self.is_tracking: bool = False
        self.overridden: int = 0  # how often a queue was served out of turn
        self._now = now
        self._waiting_queues = 0
        self._quiet = 0
        self._seats_at_most = seats
        self._most_work = self._longest = self._threshold = 0
        self._former = (0, 0)  # the greatest work and the longest duration of the previous 1,000 requests
        self._remaining = _REMEMBERED
        self._overdue: Queue | None = None
        self._is_decided = True
        self._forget()

    def _forget(self) -> None:
        self._held = 0  # the seats in use
        self._meters: list[ServiceMeter] = []
        self._queues: list[Queue] = []  # the queue to which each meter belongs, or belonged last
        self._free_meters: list[ServiceMeter] = []
        self._shares = MaxMinShares(0, self._meters)
        self._share_rounded_up = 0
        self._rises = RiseLog(self._now)
        self._in_order: OrderedDict[ServiceMeter, None] = OrderedDict()  # waiting queues, by rising `listed`
        self._queue_heap = QueueHeap()  # other waiting queues, by `listed`
        self._postponed = QueueHeap()  # waiting queues that are examined again when `r` exceeds `listed` enough
        self._earliest = self._last_listed = self.r  # no queue is listed before `_earliest`
        self._has_fallen = False  # whether `r` has ever decreased, because less was billed than held

    # Time and shares

    def _pass_time(self, now: int) -> None:
        if self._waiting_queues:
            shares = self._shares
            seats = self._held if self._held < self._seats_at_most else self._seats_at_most  # noqa: FURB136 - faster
            if seats != shares.capacity:
                shares.resize(seats)
                self._note_share()
            if shares.limited:
                self.r += (shares.free * (now - self._now) << _GRAIN_BITS) // shares.limited
        self._now = now

    def _demand(self, meter: ServiceMeter, rho: int) -> None:
        """Set the demand of a queue that may cross the boundary between granted and limited."""
        self._shares.change(meter, rho)
        self._note_share()
        if not rho:
            self._queues[meter.index].service_meter = None
            self._free_meters.append(meter)

    def _note_share(self) -> None:
        """Log a rise if the fair share exceeds more whole numbers of seats than before."""
        shares = self._shares
        former = self._share_rounded_up
        self._share_rounded_up = rounded_up = -(-shares.free // shares.limited) if shares.limited else 0
        if rounded_up > former and rounded_up > 1:  # without seats, a queue falls behind at any share
            self._log_rise(self.r, former, rounded_up)

    def _log_rise(self, r: int, low: int, high: int) -> None:
        rises = self._rises
        if rises.count > 2 * len(self._meters) + 64:  # rarely enough for a pass over all queues to cost O(1), amortised
            for meter, queue in zip(self._meters, self._queues, strict=True):
                if queue.service_meter is meter:
                    if queue.length:
                        self._note_rises(meter, queue.seats_in_use)
                    meter.noted = 0
            # All queues have read them, so the numbers of later rises begin at 0 again.
            rises.clear(self._now)
        rises.add(r, self._now, low, high)

    # Changes of queues

    def _open_meter(self, queue: Queue) -> ServiceMeter:
        """Return a meter for ``queue``, which has none."""
        if self._free_meters:
            meter = self._free_meters.pop()
            self._queues[meter.index] = queue
        else:
            meter = ServiceMeter(len(self._meters))
            self._meters.append(meter)
            self._queues.append(queue)
        queue.service_meter = meter
        meter.service, meter.since = 0, self._now
        return meter

    def wait(self, now: int, queue: Queue, width: int, queues: Iterable[Queue]) -> None:
        """Note that a request of this ``width`` waits in ``queue``, one of ``queues``."""
        if not self.is_tracking:
            self._track(queues)
        if now != self._now:
            self._pass_time(now)
        meter = queue.service_meter or self._open_meter(queue)
        if meter.is_limited:
            meter.rho += width  # it stays limited
        else:
            self._demand(meter, meter.rho + width)
        if queue.length == 1:
            r = self.r
            if not self._waiting_queues:
                self._earliest = r
            self._waiting_queues += 1
            meter.least = r - (meter.service + queue.seats_in_use * (now - meter.since) << _GRAIN_BITS)
            meter.noted = self._rises.count
            meter.debt = 0
            meter.is_postponed = False
            meter.listed = r
            if r >= self._last_listed:
                self._last_listed = r
                self._in_order[meter] = None
            else:  # `r` has decreased
                self._queue_heap.put(meter.index, r)
                self._earliest = min(self._earliest, r)
        self._is_decided = False

    def _track(self, queues: Iterable[Queue]) -> None:
        """Begin to track demands."""
        self.is_tracking = True
        self._quiet = 0
        for queue in queues:
            if queue.seats_in_use:
                self._held += queue.seats_in_use
                self._demand(self._open_meter(queue), queue.seats_in_use)

    def occupy(self, now: int, queue: Queue, width: int, queues: int) -> None:
        """Note that a request was seated without a wait; ``queues`` is the number of queues."""
        if now != self._now:
            self._pass_time(now)
        self._held += width
        meter = queue.service_meter or self._open_meter(queue)
        meter.service += (queue.seats_in_use - width) * (now - meter.since)
        meter.since = now
        self._demand(meter, meter.rho + width)
        self._quiet += 1
        if self._quiet > queues:
            self._stop()

    def _stop(self) -> None:
        """Stop tracking demands, because there has been no competition for a while."""
        self.is_tracking = False
        for queue in self._queues:
            queue.service_meter = None
        self._forget()

    def leave(self, now: int, queue: Queue, width: int) -> None:
        """Note that a request has left ``queue`` unserved."""
        if now != self._now:
            self._pass_time(now)
        meter = queue.service_meter
        assert meter is not None, "a queue where a request waits has a meter"
        if not queue.length:
            self._end_wait(meter)
        self._demand(meter, meter.rho - width)
        self._is_decided = False

    def dispatch(self, now: int, queue: Queue, width: int, cut: int) -> None:
        """Note that a request of ``queue`` got ``width`` seats, ``cut`` fewer than it waited for."""
        if now != self._now:
            self._pass_time(now)
        self._held += width
        meter = queue.service_meter
        assert meter is not None, "a queue where a request waits has a meter"
        seats = queue.seats_in_use - width  # until now
        if not queue.length:
            self._end_wait(meter)
        elif meter.noted != self._rises.count:
            self._note_rises(meter, seats)
        meter.service += seats * (now - meter.since)
        meter.since = now
        if cut:
            self._demand(meter, meter.rho - cut)
        self._is_decided = False

    def _end_wait(self, meter: ServiceMeter) -> None:
        """Remove ``meter`` from the waiting ones, because the last request has left its queue."""
        self._waiting_queues -= 1
        self._quiet = 0
        self._unlist(meter)

    def _unlist(self, meter: ServiceMeter) -> None:
        if meter.is_postponed:
            self._postponed.drop(meter.index)
        elif meter in self._in_order:
            del self._in_order[meter]
        else:
            self._queue_heap.drop(meter.index)

    def vacate(self, now: int, queue: Queue, width: int, held_ns: int) -> None:
        """Note that a request of ``queue`` is about to give back seats that it has held for ``held_ns``."""
        self._remaining -= 1
        if width * held_ns > self._most_work or held_ns > self._longest or not self._remaining:
            self._remember(width * held_ns, held_ns)
        meter = queue.service_meter
        if meter is None:
            return
        if now != self._now:
            self._pass_time(now)
        seats = queue.seats_in_use
        meter.service = service = meter.service + seats * (now - meter.since)
        meter.since = now
        if queue.length:
            ahead = self.r - (service << _GRAIN_BITS)
            if ahead < meter.least:  # noqa: PLR1730 - min() is slower
                meter.least = ahead
            if meter.noted != self._rises.count:
                self._note_rises(meter, seats)
            if (meter.is_postponed and not self._is_share(seats - width)) or self._has_fallen:
                self._list(meter, min(meter.listed, self.r - ahead + meter.least + meter.debt))
        self._held -= width
        rho = meter.rho - width
        if meter.is_limited and rho >= meter.at_least:
            meter.rho = rho  # it stays limited
        else:
            self._demand(meter, rho)
        self._is_decided = False

    def _remember(self, work: int, held_ns: int) -> None:
        """Update the greatest work and the longest duration, and forget old ones."""
        self._most_work, self._longest = max(work, self._most_work), max(held_ns, self._longest)
        if not self._remaining:
            self._remaining = _REMEMBERED
            self._former = (self._most_work, self._longest)
            self._most_work = self._longest = 0
        self._set_threshold()

    def bill(self, now: int, queue: Queue, work: int) -> None:
        """Charge ``queue`` for ``work`` beyond the seats that it held; if ``work`` is negative, charge for less.

        This work counts as service of the queue, and ``r`` changes as if seats had been used for it.
        """
        meter = queue.service_meter
        if meter is None or not queue.length:
            return
        if now != self._now:
            self._pass_time(now)
        meter.debt += work << _GRAIN_BITS
        if self._shares.limited:
            before = self.r
            self.r += (work << _GRAIN_BITS) // self._shares.limited
            self._has_fallen = self._has_fallen or self.r < before
            self._log_rise(min(before, self.r), 0, _ANY_SHARE)
        at = self._note(queue, meter)
        if at < meter.listed:
            self._list(meter, at)
        self._is_decided = False

    def _set_threshold(self) -> None:
        work, longest = max(self._most_work, self._former[0]), max(self._longest, self._former[1])
        self._threshold = (2 * work + self._seats_at_most * longest) << _GRAIN_BITS - 2

    def resize(self, now: int, seats: int) -> None:
        """Change the seats of the level."""
        if now != self._now:
            self._pass_time(now)
        self._seats_at_most = seats
        self._set_threshold()

    # Which queue lacks service

    def _note(self, queue: Queue, meter: ServiceMeter) -> int:
        """Update the least value; return the ``r`` at which the shortfall was zero, or an earlier one."""
        seats = queue.seats_in_use
        ahead = self.r - (meter.service + seats * (self._now - meter.since) << _GRAIN_BITS)
        meter.least = min(meter.least, ahead)
        if meter.noted != self._rises.count:
            self._note_rises(meter, seats)
        return self.r - ahead + meter.least + meter.debt

    def _note_rises(self, meter: ServiceMeter, seats: int) -> None:
        """Read the rises since the last call, during which the queue had this number of ``seats``."""
        least = self._rises.least(seats, meter.noted)
        meter.noted = self._rises.count
        if least is not None:
            service = meter.service - seats * (meter.since - self._rises.epoch)
            meter.least = min(meter.least, least - (service << _GRAIN_BITS))

    def _list(self, meter: ServiceMeter, at: int, *, is_postponed: bool = False) -> None:
        """List ``meter`` under ``at``, or postpone it until ``r`` exceeds that by the threshold."""
        self._unlist(meter)
        meter.listed = at
        meter.is_postponed = is_postponed
        (self._postponed if is_postponed else self._queue_heap).put(meter.index, at)
        self._earliest = min(self._earliest, at)

    def overdue(self, now: int) -> Queue | None:
        """Return the queue that must be served before the discipline's choice; None if no queue is overdue.

        The answer stays valid until the seats or requests of a queue change; time alone doesn't change it.
        """
        if self._is_decided:
            return self._overdue
        self._is_decided = True
        if now != self._now:
            self._pass_time(now)
        is_possible = self._waiting_queues and self._earliest < self.r - self._threshold
        self._overdue = found = self._find_overdue() if is_possible else None
        return found

    def _find_overdue(self) -> Queue | None:
        latest = self.r - self._threshold
        self._look_again(latest)
        while (meter := self._first()) is not None and meter.listed < latest:
            queue = self._queues[meter.index]
            at = self._note(queue, meter)
            if self._is_share(queue.seats_in_use):
                self._list(meter, max(at, latest + (self._threshold >> 3)), is_postponed=True)
            elif at > meter.listed:
                self._list(meter, at)
            else:
                self._earliest = meter.listed
                self.overridden += 1
                return queue
        ends = [meter.listed] if meter is not None else []
        if (index := self._postponed.least()) is not None:
            ends.append(self._meters[index].listed)
        self._earliest = min(ends, default=self.r)
        return None

    def _look_again(self, latest: int) -> None:
        """List the postponed queues that are due; postpone those again that have their fair share."""
        while (index := self._postponed.least()) is not None and self._meters[index].listed < latest:
            meter, queue = self._meters[index], self._queues[index]
            if self._is_share(queue.seats_in_use):
                self._list(meter, latest + (self._threshold >> 3), is_postponed=True)
            else:
                self._list(meter, self._note(queue, meter))

    def _is_share(self, seats: int) -> bool:
        """Return whether a limited queue with this number of ``seats`` has its fair share."""
        shares = self._shares
        return shares.limited > 0 and seats * shares.limited >= shares.free

    def _first(self) -> ServiceMeter | None:
        """Return the first meter that is listed and not postponed."""
        index = self._queue_heap.least()
        listed = None if index is None else self._meters[index]
        if not self._in_order:
            return listed
        first = next(iter(self._in_order))
        return listed if listed is not None and listed.listed < first.listed else first

    def check(self) -> None:
        """Raise AssertionError if the meters don't agree with the queues."""
        self._shares.check()
        self._queue_heap.check()
        self._postponed.check()
        in_heaps = self._queue_heap.members() | self._postponed.members()
        held, listed = 0, self._in_order.keys() | {self._meters[index] for index in in_heaps}
        for meter, queue in zip(self._meters, self._queues, strict=True):
            if queue.service_meter is meter:
                waiting = sum(ticket.width for ticket in queue)
                assert meter.rho == waiting + queue.seats_in_use, f"the meter of {queue!r}"
                assert (meter in listed) is (queue.length > 0), f"whether {queue!r} is listed"
                assert not queue.length or meter.listed >= self._earliest, f"{queue!r} is listed before all"
                held += queue.seats_in_use
            else:
                assert not meter.rho, f"a meter that was of {queue!r}"
        in_order = [meter.listed for meter in self._in_order]
        assert in_order == sorted(in_order), "the order of the waiting queues"
        assert self._waiting_queues == len(listed), f"{len(listed)} queues wait"
        assert self._held == held, f"{held} seats are held"

    def __repr__(self) -> str:
        return f"<Guarantee: {self._waiting_queues} queues wait, {self.overridden} served out of turn>"
