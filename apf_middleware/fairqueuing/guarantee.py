"""The guarantee that no flow starves: a bound on how far a queue falls behind its fair share, with any discipline.

A queue *demands* the seats that its requests occupy or wait for. Its *fair share* at an instant is its part of the
seats in use, if these are divided among the demands of that instant by max-min fairness. While requests wait in a
queue, its *shortfall* is the service that it lacks: the largest integral of its fair share minus its seats over any
interval up to now. As long as all shortfalls are small, the discipline decides which queue is served next. A queue is
*overdue* if its shortfall exceeds the threshold W / 2 + C * T / 4, where C is the number of seats, W the greatest work
and T the longest duration of a recent request, and if it hasn't enough seats. Overdue queues are served before all
others, the largest shortfall first.

While all requests need one seat, the fair share is enough. With *wide* requests, which need more, a queue has enough if
it has its fair share, and its shortfall would be at most the threshold after one more seat, and those that it has
beyond its share, had been in use for T. For while other requests end to make room for a wide one, its queue lacks
service. If the other queues were served again as soon as it has its share, its next wide request would have to wait for
their requests, and so on: the shortfall would grow for ever. The same holds once a request has been billed for other
work than it held, because seats alone don't tell then what a queue is served. If seats have been idle, a queue is
due its part of these besides its fair share. Otherwise it would seem to have enough whenever seats are kept free for a
wide request of another queue.

The shortfall depends only on the demands and seats at each instant, not on guesses or on earlier service, so no queue
can save up credit or be held back by a debt. If the threshold were lower, more queues would be overdue, and a queue
that begins to wait, which has no shortfall yet, would have to wait for all of them.

**Bound.** In randomized tests with a dozen flows no shortfall exceeds the work of C + 1 of the longest requests, over
any interval and with all widths; they reach nine tenths of it. If there are wide requests, the following holds for any
number of flows, to within an eighth of the threshold, provided that W and T are never exceeded, all waiting queues are
limited and have the same weight, nothing is wider than the level, no request passes another, and each is billed for
what it held. A queue that lacks more than B = W / 2 + C * T / 4 + (C + 1) * T is overdue whatever it has. So while a
shortfall exceeds B, all requests that are seated belong to the queue with the largest one, and no such queue catches up
entirely while its requests run. The sum of the k largest shortfalls grows only by the service of other queues, that is
by at most C * T after a request of another queue was seated. At that moment the shortfall of the other queue was at
least as large as each of the k, so their mean wasn't above that of the k + 1 largest. Hence the mean of the k largest
exceeds an earlier mean of the k + 1 largest by C * T / k at most. That of all n queues that wait at a time exceeds B by
C * T / n at most. Requests that were seated before may add C * T once. So no shortfall exceeds B + C * T * (2 + ln n).
No discipline can avoid the logarithm: if n flows with one request each come to one free seat at once, the share of
those that wait is 1 / n of the seat, then 1 / (n - 1), and so on.

**Meters.** ``r`` is the integral of the fair share of a *limited* queue, one that demands more than its share (see
`MaxMinShares`), in grains of 2**-10 seat-nanoseconds. Each waiting queue is assumed to be limited. (A queue whose whole
demand is within the fair share lacks less than computed. If it is served too early, it still uses no more than its
share.) The service of a queue is ``service + seats * (now - since)``; its seats changed last at ``since``. The
shortfall is ``r - service`` minus the least value that ``r - service`` has had. That value can be reached only when the
queue gives back seats, or when the fair share rises above the number of its seats. The rises are kept in a log, which
is read for a queue when its seats or requests change (see `RiseLog`).

**Weights.** A limited queue of weight w is due w times the fair share of one of the usual weight, and ``r`` is the
integral of the latter. The service of a queue is divided by its weight, so its shortfall is w times a difference of
``r``. The threshold is the same work for all queues. So a queue is listed under the ``r`` at which its shortfall was
zero plus the `_delay`, by which its share takes longer to add up to the threshold. These places ascend in the order in
which queues become overdue. To find the largest shortfall, the first queues of each order of magnitude of the weights
are compared; so the excess over the threshold of the queue that is served is at least half of the greatest. When the
weight of a queue changes, it still lacks the same work. Its share rises above the number of its seats at other moments
than that of a queue of the usual weight does, so all rises are kept (see `RiseHulls`). As long as all weights are
usual, nothing is divided.

**Cost.** Waiting queues are ordered by the ``r`` at which their shortfall was zero, or by an earlier one. For a queue
that begins to wait this is the current ``r``, so most queues are in the order in which they began to wait; the few
others are in a heap. An outdated entry overstates the shortfall, and is corrected when it comes first. A queue with a
large shortfall that has its fair share now is postponed: it is examined again when ``r`` has grown by an eighth of the
threshold. Usually one comparison shows that no shortfall is large. Each call is O(log n) amortised. Demands are tracked
only while queues compete: tracking begins with a pass over all queues, and ends after a number of requests without a
wait that exceeds the number of queues. With weights, all waiting queues are listed anew when the threshold changes, and
reading the rises takes O(log**2 n).
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from apf_middleware.fairqueuing.max_min_shares import MaxMinShares
from apf_middleware.fairqueuing.queue_heap import QueueHeap
from apf_middleware.fairqueuing.rise_hulls import RiseHulls
from apf_middleware.fairqueuing.rise_log import RiseLog
from apf_middleware.fairqueuing.service_meter import ServiceMeter
from apf_middleware.fairqueuing.ticket import Queue
from apf_middleware.fairqueuing.work import GRAIN_BITS, WEIGHT_BITS, WEIGHT_ONE

__all__ = ["Guarantee"]

_REMEMBERED: Final = 1000  # the greatest work and the longest duration are those of the last 1,000 to 2,000 requests
_LEAST_PART_BITS: Final = 4  # a request counts as a sixteenth of its work at least, however little it is billed
_ANY_SHARE: Final = 1 << 62  # more seats than any share has


class Guarantee:
    """The shortfalls of one queue set's queues.

    The queue set reports each change of a queue's seats or waiting requests, with the time.
    """

    __slots__ = (
        "_earliest",
        "_former",
        "_free_meters",
        "_heaps",
        "_held",
        "_hulls",
        "_in_order",
        "_is_decided",
        "_is_weighted",
        "_last_listed",
        "_longest",
        "_may_take",
        "_meters",
        "_most_work",
        "_must_catch_up",
        "_now",
        "_overdue",
        "_postponed",
        "_queue_heap",
        "_queues",
        "_quiet",
        "_rate_bits",
        "_remaining",
        "_rise_count",
        "_rises",
        "_seats_at_most",
        "_share_before",
        "_share_rounded_up",
        "_shares",
        "_threshold",
        "_usable",
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
        self._may_take = 0  # the longest duration of a recent request
        self._former = (0, 0)  # the greatest work and the longest duration of the previous 1,000 requests
        self._remaining = _REMEMBERED
        self._overdue: Queue | None = None
        self._is_decided = True
        self._usable = 0  # the seats that may be used
        self._is_weighted = False  # whether any queue has had a weight of its own
        # Whether a request of more than one seat has ever waited, or been billed for other work than it held
        self._must_catch_up = False
        self._rate_bits = GRAIN_BITS
        self._forget()

    def _forget(self) -> None:
        self._held = 0  # the seats in use
        self._meters: list[ServiceMeter] = []
        self._queues: list[Queue] = []  # the queue to which each meter belongs, or belonged last
        self._free_meters: list[ServiceMeter] = []
        self._shares = MaxMinShares(0, self._meters)
        self._share_rounded_up = 0
        self._share_before = (0, 1)  # the same as a fraction, if there are weights
        self._rises = RiseLog(self._now)
        self._hulls = RiseHulls(self._now)  # in place of `_rises`, if there are weights
        self._rise_count = 0
        if self._is_weighted:
            self._shares.weigh()
        self._in_order: OrderedDict[ServiceMeter, None] = OrderedDict()  # waiting queues, by rising `listed`
        self._queue_heap = QueueHeap()  # other waiting queues, by `listed`
        # Those of other weights than the usual one, for each order of magnitude of the weight
        self._heaps: dict[int, QueueHeap] = {}
        self._postponed = QueueHeap()  # waiting queues that are examined again when `r` exceeds `listed` enough
        self._earliest = self._last_listed = self.r  # no queue is listed before `_earliest`

    # Time and shares

    def _pass_time(self, now: int) -> None:
        if self._waiting_queues:
            shares = self._shares
            # In the pure build, min() would take 3 % of the time of a request that waits.
            seats = self._held if self._held < self._seats_at_most else self._seats_at_most  # noqa: FURB136
            if seats != shares.capacity:
                shares.resize(seats)
                self._note_share()
            if shares.limited:
                self.r += (shares.free * (now - self._now) << self._rate_bits) // shares.limited
        self._now = now

    def _demand(self, meter: ServiceMeter, rho: int) -> None:
        """Set the demand of a queue that may cross the boundary between granted and limited."""
        self._shares.change(meter, rho)
        self._note_share()
        if not rho:
            self._queues[meter.index].service_meter = None
            self._free_meters.append(meter)

    def _note_share(self) -> None:
        """Log a rise if the fair share exceeds more whole numbers of seats than before; with weights, log all rises."""
        shares = self._shares
        if self._is_weighted:
            free, limited = self._share_before
            self._share_before = (shares.free, shares.limited) if shares.limited else (0, 1)
            if shares.free * limited > free * shares.limited > 0 or (not free and shares.limited):
                self._log_rise(self.r, 0, _ANY_SHARE)
            return
        former = self._share_rounded_up
        self._share_rounded_up = rounded_up = -(-shares.free // shares.limited) if shares.limited else 0
        if rounded_up > former and rounded_up > 1:  # without seats, a queue falls behind at any share
            self._log_rise(self.r, former, rounded_up)

    def _log_rise(self, r: int, low: int, high: int) -> None:
        if self._rise_count > 2 * len(self._meters) + 64:  # rarely enough for a pass over all queues to cost O(1)
            self._read_rises()
        self._rise_count += 1
        if self._is_weighted:
            self._hulls.add(r, self._now)
        else:
            self._rises.add(r, self._now, low, high)

    def _read_rises(self) -> None:
        """Read the rises for all queues, so that the numbers of later rises begin at 0 again."""
        for meter, queue in zip(self._meters, self._queues, strict=True):
            if queue.service_meter is meter:
                if queue.length:
                    self._note_rises(meter, queue.seats_in_use)
                meter.noted = 0
        self._rises.clear(self._now)
        self._hulls.clear(self._now)
        self._rise_count = 0

    # Weights

    def reweigh(self, now: int, queue: Queue, weight: int) -> None:
        """Note that ``queue`` is about to get another weight; it still lacks the same work."""
        if now != self._now:
            self._pass_time(now)
        if not self._is_weighted:
            self._weigh()
        meter = queue.service_meter
        if meter is None:
            return
        former = meter.weight
        at = self._note(queue, meter) - self._delay(meter) if queue.length else self.r
        if queue.length:
            self._unlist(meter)
        meter.service, meter.since = 0, now
        self._shares.reweigh(meter, weight)
        if queue.length:
            meter.least = self.r - (self.r - at) * former // weight
            meter.debt = 0
            meter.noted = self._rise_count
            self._list(meter, self._heap_of(meter), meter.least + self._delay(meter))
        self._note_share()
        self._is_decided = False

    def _weigh(self) -> None:
        """Begin to compare queues by their weights."""
        self._read_rises()
        self._is_weighted = True
        self._rate_bits = GRAIN_BITS + WEIGHT_BITS
        self._shares.weigh()
        shares = self._shares
        self._share_before = (shares.free, shares.limited) if shares.limited else (0, 1)

    def _scaled(self, meter: ServiceMeter, work: int) -> int:
        """Return ``work``, in seat-nanoseconds, in grains and divided by the weight of the queue."""
        return (work << self._rate_bits) // meter.weight if self._is_weighted else work << GRAIN_BITS

    def _delay(self, meter: ServiceMeter) -> int:
        """Return by how much later in ``r`` the queue lacks the threshold than one of the usual weight would."""
        if not self._is_weighted or meter.weight == WEIGHT_ONE:
            return 0
        return (self._threshold << WEIGHT_BITS) // meter.weight - self._threshold

    def _heap_of(self, meter: ServiceMeter) -> QueueHeap:
        if not self._is_weighted or meter.weight == WEIGHT_ONE:
            return self._queue_heap
        magnitude = meter.weight.bit_length()
        heap = self._heaps.get(magnitude)
        if heap is None:
            self._heaps[magnitude] = heap = QueueHeap()
        return heap

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
        if self._is_weighted and meter.weight != queue.weight:
            self._shares.reweigh(meter, queue.weight)
        meter.service, meter.since = 0, self._now
        return meter

    def wait(self, now: int, queue: Queue, width: int, queues: Iterable[Queue]) -> None:
        """Note that a request of this ``width`` waits in ``queue``, one of ``queues``."""
        if not self.is_tracking:
            self._track(queues)
        if now != self._now:
            self._pass_time(now)
        if width > 1:
            self._must_catch_up = True
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
            meter.least = r - self._scaled(meter, meter.service + queue.seats_in_use * (now - meter.since))
            meter.noted = self._rise_count
            meter.debt = 0
            heap = self._heap_of(meter)
            if r >= self._last_listed and heap is self._queue_heap:
                self._last_listed = meter.listed = r
                self._in_order[meter] = None
            else:  # `r` has decreased, or the queue has a weight of its own
                self._list(meter, heap, r + self._delay(meter))
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
            self.stop()

    def stop(self) -> None:
        """Stop tracking demands, because there has been no competition for a while, or the guarantee ends."""
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
        elif meter.noted != self._rise_count:
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
        if meter.heap is None:
            del self._in_order[meter]
        else:
            meter.heap.drop(meter.index)
            meter.heap = None

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
        meter.service += seats * (now - meter.since)
        meter.since = now
        if queue.length:
            at = self._note(queue, meter)
            if meter.heap is self._postponed:
                if not self._has_enough(meter, seats - width, at):
                    self._relist(meter, min(meter.listed, at))
            elif at < meter.listed:  # `r` has decreased, because less was billed than held
                self._relist(meter, at)
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

    def bill(self, now: int, queue: Queue, held: int, billed: int) -> None:
        """Count ``billed`` instead of ``held`` as the work of a request of ``queue``, which is about to end.

        ``r`` changes as if seats had been used for the difference.
        """
        meter = queue.service_meter
        if meter is None or not queue.length or billed == held:
            return
        if now != self._now:
            self._pass_time(now)
        self._must_catch_up = True
        self._note(queue, meter)
        extra = max(billed, held >> _LEAST_PART_BITS) - held
        if extra > 0:
            meter.debt += self._scaled(meter, extra)
        else:  # as a negative debt it would add to the shortfall for ever, because of the past minimum
            meter.service += extra
        if self._shares.limited:
            before = self.r
            self.r += (extra << self._rate_bits) // self._shares.limited
            self._earliest = min(self._earliest, self.r)  # if `r` has decreased, the next queue is listed earlier
            self._log_rise(min(before, self.r), 0, _ANY_SHARE)
            meter.noted = self._rise_count
        at = self._note(queue, meter)
        if at < meter.listed:
            self._relist(meter, at)
        self._is_decided = False

    def _set_threshold(self) -> None:
        work, longest = max(self._most_work, self._former[0]), max(self._longest, self._former[1])
        self._may_take = longest
        former, self._threshold = self._threshold, (2 * work + self._seats_at_most * longest) << GRAIN_BITS - 2
        if self._is_weighted and self._threshold != former:
            self._list_anew(former)

    def _list_anew(self, former: int) -> None:
        """List the queues of unusual weights for the new threshold; they were listed for the ``former`` one."""
        for meter, queue in zip(self._meters, self._queues, strict=True):
            if queue.service_meter is meter and queue.length and meter.weight != WEIGHT_ONE:
                delay = (former << WEIGHT_BITS) // meter.weight - former
                at = meter.listed - delay + self._delay(meter)
                self._relist(meter, at, is_postponed=meter.heap is self._postponed)

    def resize(self, now: int, seats: int) -> None:
        """Change the seats of the level."""
        if now != self._now:
            self._pass_time(now)
        self._seats_at_most = seats
        self._set_threshold()

    # Which queue lacks service

    def _note(self, queue: Queue, meter: ServiceMeter) -> int:
        """Update the least value; return the ``r`` at which the shortfall was zero, or an earlier one.

        For a queue of an unusual weight this is later by the `_delay`.
        """
        seats = queue.seats_in_use
        ahead = self.r - self._scaled(meter, meter.service + seats * (self._now - meter.since))
        meter.least = min(meter.least, ahead)
        if meter.noted != self._rise_count:
            self._note_rises(meter, seats)
        return self.r - ahead + meter.least + meter.debt + self._delay(meter)

    def _note_rises(self, meter: ServiceMeter, seats: int) -> None:
        """Read the rises since the last call, during which the queue had this number of ``seats``."""
        if self._is_weighted:
            least, epoch = self._hulls.least(seats, meter.weight, meter.noted), self._hulls.epoch
        else:
            least, epoch = self._rises.least(seats, meter.noted), self._rises.epoch
        meter.noted = self._rise_count
        if least is not None:
            service = meter.service - seats * (meter.since - epoch)
            meter.least = min(meter.least, least - self._scaled(meter, service))

    def _list(self, meter: ServiceMeter, heap: QueueHeap, at: int) -> None:
        """List ``meter`` on ``heap`` under ``at``."""
        meter.heap, meter.listed = heap, at
        heap.put(meter.index, at)
        self._earliest = min(self._earliest, at)

    def _relist(self, meter: ServiceMeter, at: int, *, is_postponed: bool = False) -> None:
        """List ``meter``, which is listed, under ``at``, or postpone it until ``r`` exceeds that by the threshold."""
        heap = self._postponed if is_postponed else self._heap_of(meter)
        if meter.heap is not heap:
            self._unlist(meter)
        self._list(meter, heap, at)

    def overdue(self, now: int, seats: int) -> Queue | None:
        """Return the queue that must be served before the discipline's choice; None if no queue is overdue.

        So many ``seats`` may be used now. The answer stays valid until they, or the seats or requests of a queue,
        change; time alone doesn't change it.
        """
        if self._is_decided and seats == self._usable:
            return self._overdue
        self._is_decided = True
        self._usable = seats
        if now != self._now:
            self._pass_time(now)
        is_possible = self._waiting_queues and self._earliest < self.r - self._threshold
        self._overdue = found = self._find_overdue() if is_possible else None
        return found

    def bars_passing(self, now: int, seats: int, queue: Queue | None) -> bool:
        """Return whether no request may pass the next one of ``queue``: it is overdue, and some duration is known.

        An answer that is valid stays so, also for another number of ``seats``.
        """
        return self._threshold > 0 and self.overdue(now, self._usable if self._is_decided else seats) is queue

    def _find_overdue(self) -> Queue | None:
        latest = self.r - self._threshold
        self._look_again(latest)
        while (meter := self._first(latest)) is not None and meter.listed < latest:
            queue = self._queues[meter.index]
            at = self._note(queue, meter)
            if self._has_enough(meter, queue.seats_in_use, at):
                self._relist(meter, max(at, self._later(meter, latest)), is_postponed=True)
            elif at > meter.listed:
                self._relist(meter, at)
            else:
                self._earliest = min(self._earliest, meter.listed) if self._is_weighted else meter.listed
                self.overridden += 1
                return queue
        self._earliest = self.r  # a light queue may be listed later, but the next one that begins to wait isn't
        if meter is not None:
            self._earliest = min(self._earliest, meter.listed)
        if (index := self._postponed.least()) is not None:
            self._earliest = min(self._earliest, self._meters[index].listed)
        return None

    def _look_again(self, latest: int) -> None:
        """List the postponed queues that are due; postpone those again that have enough seats."""
        while (index := self._postponed.least()) is not None and self._meters[index].listed < latest:
            meter, queue = self._meters[index], self._queues[index]
            at = self._note(queue, meter)
            is_enough = self._has_enough(meter, queue.seats_in_use, at)
            self._relist(meter, self._later(meter, latest) if is_enough else at, is_postponed=is_enough)

    def _later(self, meter: ServiceMeter, latest: int) -> int:
        """Return when a queue that has enough seats is examined again: after an eighth of the threshold."""
        way = self._threshold >> 3
        return latest + ((way << WEIGHT_BITS) // meter.weight + 1 if self._is_weighted else way)

    def _has_enough(self, meter: ServiceMeter, seats: int, at: int) -> bool:
        """Return whether a limited queue needs no more than ``seats`` for now, if it lacks what `_note` says.

        That is, it has its fair share and its part of the seats that were idle. Besides, if it must catch up, its
        shortfall would be at most the threshold after one more seat, and those beyond its share, had been in use for
        the longest time.
        """
        shares = self._shares
        free, limited = shares.free, shares.limited
        if self._usable > shares.capacity:
            free += self._usable - shares.capacity
        beyond = seats * limited - free * meter.weight
        if beyond < 0 or not limited:
            return False
        if not self._must_catch_up:
            return True
        return self.r - at - self._threshold <= self._scaled(meter, (beyond + limited) * self._may_take // limited)

    def _first(self, latest: int) -> ServiceMeter | None:
        """Return the meter of a queue that is listed before ``latest`` and not postponed, or else the first of all."""
        index = self._queue_heap.least()
        first = None if index is None else self._meters[index]
        for other in self._in_order:  # the first one; compiled, `next` and `iter` take three times as long
            if first is None or first.listed >= other.listed:
                first = other
            break
        return self._first_of_weights(first, latest) if self._heaps else first

    def _first_of_weights(self, usual: ServiceMeter | None, latest: int) -> ServiceMeter | None:
        """Return the first meter if none is listed before ``latest``; otherwise that with the greatest excess.

        ``usual`` is the first one of the usual weight. Shortfalls can exceed the bound if narrow requests pass wide
        ones. Then the first queue is returned, because a heavy queue that never gets its share would always have a
        greater excess than a light one.
        """
        firsts = [] if usual is None else [usual]
        for heap in self._heaps.values():
            index = heap.least()
            if index is not None:
                firsts.append(self._meters[index])
        first: ServiceMeter | None = None
        neediest: ServiceMeter | None = None
        most = 0
        for meter in firsts:
            if first is None or meter.listed < first.listed:
                first = meter
            excess = (latest - meter.listed) * meter.weight
            if excess > most:
                neediest, most = meter, excess
        is_beyond = most >> WEIGHT_BITS > self._threshold << 2
        return first if neediest is None or is_beyond else neediest

    def check(self) -> None:
        """Raise AssertionError if the meters don't agree with the queues."""
        self._shares.check()
        self._queue_heap.check()
        self._postponed.check()
        in_heaps = self._queue_heap.members() | self._postponed.members()
        for heap in self._heaps.values():
            heap.check()
            in_heaps |= heap.members()
        held, listed = 0, self._in_order.keys() | {self._meters[index] for index in in_heaps}
        for meter, queue in zip(self._meters, self._queues, strict=True):
            if queue.service_meter is meter:
                waiting = sum(ticket.width for ticket in queue)
                assert meter.rho == waiting + queue.seats_in_use, f"the meter of {queue!r}"
                assert not self._is_weighted or meter.weight == queue.weight, f"the weight of {queue!r}"
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
