"""`equal-serial`: equal shares among the queues that wait, measured by the service that each has attained.

The default. Each queue has a meter: the seat-time that its requests have used while queues compete. The queue with the
lowest meter is served next. Seats in use add to the meter as time passes, so a request is charged for its actual
duration, also while it runs. A running request counts at least for a guess of its duration, so that a queue that is
behind doesn't get more seats at once than it needs to catch up. The guess is the average duration of the latest
requests of the queue.

The shares are equal among the queues with waiting requests. A queue that can't use its share has no waiting requests,
so the other queues get the rest. Max-min fair shares need not be computed for this.

**No windup.** A meter must not accumulate credit or debt in times without competition:

*Credit.* A queue that begins to wait starts at the virtual time, unless its own meter is ahead of that. The virtual
time is the service that the queue served last had attained at that moment, plus the work of all seats since, but no
more than the next queue has attained.

*Debt.* The virtual time follows the queues that wait. If only one queue has waiting requests, the virtual time follows
its meter, so what it uses doesn't count against it when another queue begins to wait. While no request waits, the
meters are not used. When competition begins, all meters start at the same value, and seats in use count from then on.

So a queue is behind or ahead of its share by no more than the running requests: C in all, whatever happened before.
That is unavoidable, because requests are not interrupted. `guarantee` bounds the remaining deviation. A queue that the
guarantee serves out of turn loses its lead over the queue that would have been next. Otherwise the discipline would
hold the same lead against it every time, and the queue would be served only when it is overdue.

**Meters.** A queue's meter is ``finished``, the seat-time of requests that have ended, plus the seat-time of those that
run, or seats x guess if that is more. The requests that run had ``attained`` their part by the time ``since``, at which
the number of seats in use changed last; it grows by seats x (now - ``since``).

**Cost.** The meters of requests that take longer than guessed grow at different rates. The entry of a queue in the heap
is its meter at the last event of this queue. Between its events a meter only grows, so an outdated entry is too early,
never too late. When a queue comes to the top of the heap, its entry is updated, and the top is examined again. Each
call is O(log n) amortised. The next queue changes only when a ticket arrives, leaves, or gives its seats back, so
meters are compared as of the latest such event.

**Weights.** A queue of weight w gets w times the seats of a queue of weight 1: its meter advances by its work divided
by w. The work is kept as it is and divided when the meter is read, so that no rounding errors accumulate. ``base`` is
the meter at which the counting of ``finished`` began; it is 0 for a queue of weight 1, whose meter is only added up.
When the weight of a queue changes, the queue is ahead of the virtual time by the same work as before (`reweigh`).

Kubernetes' own version, with a virtual time that runs at the rate of equal shares, is `upstream_equal_serial`.
"""

from typing import ClassVar, Final

from apf_middleware.exceptions import require_integer
from apf_middleware.fairqueuing.disciplines.base import Discipline
from apf_middleware.fairqueuing.ticket import Queue, Ticket
from apf_middleware.fairqueuing.width_indexed_heap import WidthIndexedHeap
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS, NS_PER_UNIT, WEIGHT_BITS, WEIGHT_ONE

__all__ = ["EqualSerial", "EqualSerialQueue"]

_OF_A_QUEUE: Final = 4  # the weight of one request in the average of its queue is one fourth
_OF_THE_LEVEL: Final = 16


class EqualSerialQueue(Queue):
    """A queue and the parts of its meter, in seat-nanoseconds; they are outdated if ``period`` isn't the latest one.

    ``guess_ns`` is the average duration of its requests, and ``listed`` the meter of its entry in the heap.
    """

    __slots__ = ("attained", "base", "finished", "guess_ns", "listed", "period", "since")

    def __init__(self, index: int, guess_ns: int) -> None:
        super().__init__(index)
        self.finished: int = 0
        self.attained: int = 0
        self.since: int = 0
        self.guess_ns: int = guess_ns
        self.listed: int = 0
        self.period: int = -1  # none yet
        self.base: int = 0

    def scale(self, work: int) -> int:
        """Return the meter for this amount of work, finished and attained; for queues with a weight of their own."""
        return self.base + (work << WEIGHT_BITS) // self.weight

    def move(self, way: int) -> None:
        """Add ``way`` to the meter."""
        if self.weight == WEIGHT_ONE:
            self.finished += way
        else:
            self.base += way

    def meters(self) -> dict[str, int]:
        work = self.finished + self.seats_in_use * self.guess_ns
        return {"next_dispatch_r": (work if self.weight == WEIGHT_ONE else self.scale(work)) // NS_PER_UNIT}


class EqualSerial(Discipline[EqualSerialQueue]):
    """Serve the queue with the lowest meter. ``guess_ns`` is the assumed duration of the first requests."""

    __slots__ = (
        "_concurrency",
        "_guess_ns",
        "_joined",
        "_joined_at",
        "_period",
        "_period_began_at",
        "_period_r",
        "_queue_heap",
        "_queues",
        "_read_at",
        "_served_at",
        "_served_r",
        "_served_weight",
        "_turn",
        "_waiting_queues",
        "now",
        "r",
    )

    name: ClassVar[str] = "equal-serial"

    is_weighted: ClassVar[bool] = True

    def __init__(self, concurrency: int, guess_ns: int = DEFAULT_GUESS_NS) -> None:
        self._concurrency = require_integer("concurrency", concurrency, least=0)
        self._guess_ns = require_integer("guess_ns", guess_ns, least=1)
        self.now: int = 0
        self.r: int = 0  # the greatest virtual time so far, in seat-nanoseconds
        self._read_at = 0  # the time of the latest event: meters are compared as they were then
        self._period = 0  # the number of the latest period of competition
        self._period_began_at = 0
        self._period_r = 0
        self._served_at = self._served_r = 0  # when a queue was served last, and what it had attained
        self._served_weight = WEIGHT_ONE
        self._joined = 0  # how many queues have joined at the virtual time `_joined_at`
        self._joined_at = 0
        self._waiting_queues = 0
        self._turn = 0  # the queue served last; as upstream, the first turn is the second queue's
        self._queues: list[EqualSerialQueue] = []
        self._queue_heap = WidthIndexedHeap()

    def open_queue(self, index: int) -> EqualSerialQueue:
        queue = EqualSerialQueue(index, self._guess_ns)
        if index == len(self._queues):
            self._queues.append(queue)
        else:
            self._queues[index] = queue
        return queue

    def begin(self, now: int) -> None:
        self.now = self._read_at = now

    def advance(self, elapsed_ns: int, demand: int) -> None:  # noqa: ARG002 - the queues know their seats
        self.now += elapsed_ns

    # Meters

    def _enter(self, queue: EqualSerialQueue) -> None:
        """Start the meter of ``queue`` at the beginning of this period; it has had its seats in use since then."""
        queue.period = self._period
        queue.base = queue.finished = 0
        queue.move(self._period_r)
        queue.attained = 0
        queue.since = self._period_began_at

    def _meter(self, queue: EqualSerialQueue, seats: int) -> int:
        """Return the meter of ``queue`` at the latest event, for this number of ``seats`` in use."""
        attained, guessed = queue.attained + seats * (self._read_at - queue.since), seats * queue.guess_ns
        # In the pure build, max() would take 4 % of the time of a request that waits.
        work = queue.finished + (attained if attained > guessed else guessed)  # noqa: FURB136
        return work if queue.weight == WEIGHT_ONE else queue.scale(work)

    def _list(self, queue: EqualSerialQueue, oldest: Ticket, meter: int) -> None:
        """Update the entry of ``queue`` in the heap; its next ticket is ``oldest``."""
        queue.listed = meter
        heap = self._queue_heap
        if oldest.width == 1 and not heap.wide:  # here and in `pick`: calls are slow
            heap.put(queue.index, meter)
        else:
            heap.place(queue.index, meter, oldest.width)

    def _virtual_time(self) -> int:
        """Return what the queue served last had attained at that moment, plus the work of all seats since.

        The virtual time is no more than what the next queue has attained.
        """
        following = self._queues[self.pick()]
        now = self.now
        attained = following.finished + following.attained + following.seats_in_use * (now - following.since)
        since = (now - self._served_at) * self._concurrency
        if following.weight != WEIGHT_ONE:
            attained = following.scale(attained)
        if self._served_weight != WEIGHT_ONE:
            since = (since << WEIGHT_BITS) // self._served_weight
        return min(attained, self._served_r + since)

    def _finish(self, queue: EqualSerialQueue, ticket: Ticket) -> int:
        """Count the service of ``ticket`` in this period as finished; return the seats that its queue has left."""
        now, seats, width = self.now, queue.seats_in_use, ticket.width
        done = width * (now - max(ticket.seated_at, self._period_began_at))
        queue.finished += done
        queue.attained += seats * (now - queue.since) - done
        queue.since = now
        return seats - width

    # Events

    def arrive(self, queue: EqualSerialQueue, ticket: Ticket) -> None:
        if queue.length:
            return
        self._read_at = self.now
        if not self._waiting_queues:
            self._period += 1
            self._period_began_at = self.now
            self._period_r = self._served_r = least = self.r
            self._served_at = self.now
            self._joined = 0
        else:
            least = self._virtual_time()
            if least != self._joined_at:
                self._joined = 0
        self._joined_at = least
        self._waiting_queues += 1
        if queue.period != self._period:
            self._enter(queue)
        meter = self._meter(queue, queue.seats_in_use)
        if meter <= least:
            self._joined += 1  # queues that join at the same virtual time keep their order
            queue.move(least + self._joined - meter)
            meter = least + self._joined
        self._list(queue, ticket, meter)

    def rejoin(self, queue: EqualSerialQueue, ticket: Ticket) -> None:
        if queue.oldest is ticket:
            self._read_at = self.now
            self._list(queue, ticket, self._meter(queue, queue.seats_in_use))

    def serve(self, queue: EqualSerialQueue, ticket: Ticket) -> None:  # noqa: ARG002 - no meter runs without competition
        self._turn = queue.index

    def leave(self, queue: EqualSerialQueue, ticket: Ticket, *, was_oldest: bool) -> None:  # noqa: ARG002
        if not was_oldest:
            return
        self._read_at = self.now
        if queue.oldest is not None:
            self._list(queue, queue.oldest, self._meter(queue, queue.seats_in_use))
        else:
            self._queue_heap.drop(queue.index)
            self._waiting_queues -= 1

    def dispatch(self, queue: EqualSerialQueue, ticket: Ticket) -> None:
        now, seats, width = self.now, queue.seats_in_use, ticket.width
        self._read_at = self._served_at = now
        self._turn = queue.index
        queue.attained = attained = queue.attained + (seats - width) * (now - queue.since)
        queue.since = now
        attained += queue.finished
        if queue.weight != WEIGHT_ONE:
            attained = queue.scale(attained)
        self._served_r, self._served_weight = attained, queue.weight
        if attained > self.r:  # noqa: PLR1730 - as in `_meter`
            self.r = attained
        oldest = queue.oldest
        if oldest is not None:
            self._list(queue, oldest, self._meter(queue, seats))
        else:
            self._queue_heap.drop(queue.index)
            self._waiting_queues -= 1

    def forget_lead(self, queue: EqualSerialQueue) -> None:
        following = self._queues[self.pick()]
        lead = self._meter(queue, queue.seats_in_use) - self._meter(following, following.seats_in_use)
        if lead > 0 and queue.oldest is not None:
            queue.move(-lead)
            self._list(queue, queue.oldest, self._meter(queue, queue.seats_in_use))

    def reweigh(self, queue: EqualSerialQueue, weight: int) -> None:
        if not self._waiting_queues:
            queue.weight = weight  # the meters are not in use
            return
        if queue.period != self._period:
            self._enter(queue)
        former, now = queue.weight, self.now
        attained = queue.attained + queue.seats_in_use * (now - queue.since)
        virtual_time = self._virtual_time()
        lead = queue.scale(queue.finished + attained) - virtual_time
        # A lead of the same work is rescaled. So is what the queue is behind, but not to more than that: virtual time
        # must not fall far back, because queues that begin to wait would get what the others already had.
        if lead > 0 or weight > former:
            lead = lead * former // weight
        queue.weight = weight
        queue.base = queue.finished = 0
        queue.move(virtual_time + lead - (attained << WEIGHT_BITS) // weight)
        if queue.oldest is not None:
            self._read_at = self.now
            self._list(queue, queue.oldest, self._meter(queue, queue.seats_in_use))

    def settle(self, queue: EqualSerialQueue, ticket: Ticket, duration_ns: int) -> None:
        if not self._waiting_queues:
            return
        self._read_at = now = self.now
        seats, held = queue.seats_in_use, now - ticket.seated_at
        queue.guess_ns += (held - queue.guess_ns) // _OF_A_QUEUE
        self._guess_ns += (held - self._guess_ns) // _OF_THE_LEVEL
        if queue.period != self._period:
            self._enter(queue)
        if held != duration_ns:
            queue.finished += ticket.work.seats * (duration_ns - held)
        if not ticket.work.linger_ns:
            seats = self._finish(queue, ticket)
        oldest = queue.oldest
        if oldest is None:
            return
        # If all tickets have a width of 1, an entry is updated for a grown meter when it comes to the top.
        meter = self._meter(queue, seats)
        if meter < queue.listed or oldest.width > 1 or self._queue_heap.wide:
            self._list(queue, oldest, meter)

    def vacate(self, queue: EqualSerialQueue, ticket: Ticket) -> None:
        if not self._waiting_queues:
            return
        self._read_at = self.now
        if queue.period != self._period:
            self._enter(queue)
        seats = self._finish(queue, ticket)
        if queue.oldest is not None:
            self._list(queue, queue.oldest, self._meter(queue, seats))

    @property
    def is_at_rest(self) -> bool:
        return True  # without competition, no meter runs

    def catch_up(self, queue: EqualSerialQueue) -> None:
        self._turn = queue.index

    def resize(self, concurrency: int) -> None:
        self._concurrency = concurrency

    def close(self, queue: EqualSerialQueue, *, closing_up: bool) -> None:
        if closing_up:
            del self._queues[queue.index]
            self._queue_heap.close_up(queue.index)
            if self._turn >= queue.index:
                self._turn -= 1

    def pick(self, widest: int | None = None) -> int:
        heap, queues = self._queue_heap, self._queues
        while True:
            index = heap.first_within(self._turn, widest) if heap.wide else heap.first(self._turn)
            if index is None:
                raise LookupError("no queue has anything waiting")
            queue = queues[index]
            meter = self._meter(queue, queue.seats_in_use)
            if meter <= queue.listed:
                return index
            oldest = queue.oldest
            assert oldest is not None, "a listed queue has something waiting"
            self._list(queue, oldest, meter)

    def meters(self) -> dict[str, int]:
        active = sum(bool(queue.length or queue.executing) for queue in self._queues)
        return {"current_r": self.r // NS_PER_UNIT, "robin_index": self._turn, "active_queues": active}

    def check(self) -> None:
        self._queue_heap.check()
        waiting = [queue for queue in self._queues if queue.length]
        assert self._waiting_queues == len(waiting), f"{len(waiting)} queues wait, not {self._waiting_queues}"
        for queue in waiting:
            listed = self._queue_heap.finish_of(queue.index)
            assert listed == queue.listed <= self._meter(queue, queue.seats_in_use), f"{queue!r} is listed too late"

    def __repr__(self) -> str:
        return f"<EqualSerial R={self.r // NS_PER_UNIT} waiting={self._waiting_queues} last served={self._turn}>"
