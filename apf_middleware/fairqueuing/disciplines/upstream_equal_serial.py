"""`equal-serial` as Kubernetes has it, to replay its traces: equal allocations, and serial execution in a model.

One meter R runs for the whole queue set, at the rate of seats per active queue: min(demand, concurrency) / active. A
queue's next ticket starts virtually at the queue's ``next_dispatch_r`` and would finish at that plus its total work;
the ticket with the least finish is served first. A duration isn't known on arrival, so it is guessed, and the guess is
replaced by the actual duration when the ticket finishes. A queue counts as active while a request waits or runs in it;
a request that lingers doesn't run.

Allocations are equal rather than max-min fair, so R runs too fast for a queue that can't use its share. Such a queue
would save up credit without bound; to prevent this (anti-windup), ``next_dispatch_r`` is raised to the arrival of the
oldest waiting ticket. In the other direction there is no bound: a queue that uses seats which no other queue wants gets
ahead of R, and is starved afterwards until R has caught up. `equal_serial` is the corrected discipline.

The meters of Kubernetes are 64-bit numbers. When R reaches `HIGH_R`, a new epoch begins: all meters are moved back by
`R_DECREMENT`. Python's integers don't overflow, so here the epochs are only counted, and `as_upstream` converts a meter
to its value in Kubernetes.
"""

from typing import ClassVar, Final

from apf_middleware.exceptions import require_integer
from apf_middleware.fairqueuing.disciplines.base import Discipline
from apf_middleware.fairqueuing.ticket import Queue, Ticket
from apf_middleware.fairqueuing.width_indexed_heap import WidthIndexedHeap
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS, seat_seconds

__all__ = ["HIGH_R", "R_DECREMENT", "UpstreamEqualSerial", "UpstreamEqualSerialQueue"]

R_DECREMENT: Final = (2**64 - 1) // 2
HIGH_R: Final = R_DECREMENT + R_DECREMENT // 2


class UpstreamEqualSerialQueue(Queue):
    """A queue and the virtual time at which its next ticket starts."""

    __slots__ = ("next_dispatch_r",)

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.next_dispatch_r: int = 0

    def meters(self) -> dict[str, int]:
        return {"next_dispatch_r": self.next_dispatch_r}


class UpstreamEqualSerial(Discipline[UpstreamEqualSerialQueue]):
    """The KEP's first solution as Kubernetes has it; ``guess_ns`` is the assumed duration of a request."""

    __slots__ = (
        "_active",
        "_concurrency",
        "_dispatch_r",
        "_epoch_end",
        "_guess_ns",
        "_latest_s",
        "_queue_heap",
        "_turn",
        "epochs",
        "r",
    )

    name: ClassVar[str] = "equal-serial"

    is_guaranteed: ClassVar[bool] = False

    def __init__(self, concurrency: int, guess_ns: int = DEFAULT_GUESS_NS, *, initial_r: int = 0) -> None:
        self._concurrency = require_integer("concurrency", concurrency, least=0)
        self._guess_ns = require_integer("guess_ns", guess_ns, least=1)
        self.r: int = require_integer("initial_r", initial_r, least=0)
        self.epochs: int = 0
        self._epoch_end = HIGH_R
        self._active = 0
        self._turn = 0  # the queue served last; as upstream, the first turn is the second queue's
        self._dispatch_r = self._latest_s = self.r  # R and virtual start of the latest dispatch
        self._queue_heap = WidthIndexedHeap()

    @property
    def current_r(self) -> int:
        """R, as Kubernetes would show it."""
        return self.as_upstream(self.r)

    @property
    def robin_index(self) -> int:
        """The index of the queue served last."""
        return self._turn

    @property
    def active_queues(self) -> int:
        """The number of queues in which a request waits or runs; they share the seats."""
        return self._active

    def as_upstream(self, meter: int) -> int:
        """Return the value that a meter of this epoch has in Kubernetes."""
        return meter - self.epochs * R_DECREMENT

    def open_queue(self, index: int) -> UpstreamEqualSerialQueue:
        return UpstreamEqualSerialQueue(index)

    def advance(self, elapsed_ns: int, demand: int) -> None:
        active = self._active
        if not active:
            return
        concurrency = self._concurrency
        # Order of operations, floats, and rounding half away from zero are as in Kubernetes, so that traces agree.
        seats = demand if demand < concurrency else concurrency  # noqa: FURB136 - min() takes three times as long
        progress = seats / active * elapsed_ns / 10
        whole = int(progress)
        self.r = r = self.r + (whole + 1 if progress - whole >= 0.5 else whole)
        if r >= self._epoch_end:
            self.epochs += 1
            self._epoch_end += R_DECREMENT

    def arrive(self, queue: UpstreamEqualSerialQueue, ticket: Ticket) -> None:
        ticket.arrival_r = r = self.r
        if not queue.length:
            if not queue.executing:
                self._active += 1
                queue.next_dispatch_r = r
            elif queue.next_dispatch_r < r:
                queue.next_dispatch_r = r  # anti-windup
            self._queue_heap.place(queue.index, queue.next_dispatch_r + ticket.total_work, ticket.width)

    def rejoin(self, queue: UpstreamEqualSerialQueue, ticket: Ticket) -> None:
        if ticket.newer is not None and ticket.newer.arrival_r < ticket.arrival_r:
            ticket.arrival_r = ticket.newer.arrival_r  # otherwise anti-windup takes credit from the tickets behind
        if queue.oldest is ticket:
            self._schedule(queue, ticket)

    def serve(self, queue: UpstreamEqualSerialQueue, ticket: Ticket) -> None:
        ticket.arrival_r = ticket.start_r = r = self.r
        if not queue.executing:
            self._active += 1
        elif queue.next_dispatch_r > r:
            ticket.start_r = queue.next_dispatch_r
        queue.next_dispatch_r = ticket.start_r + ticket.total_work
        self._turn = queue.index
        self._dispatch_r = r
        self._latest_s = ticket.start_r

    def leave(self, queue: UpstreamEqualSerialQueue, ticket: Ticket, *, was_oldest: bool) -> None:  # noqa: ARG002
        if was_oldest:
            if queue.oldest is not None:
                self._schedule(queue, queue.oldest)
                return
            self._queue_heap.drop(queue.index)
            if not queue.executing:
                self._active -= 1

    def dispatch(self, queue: UpstreamEqualSerialQueue, ticket: Ticket) -> None:
        ticket.start_r = self._latest_s = start = queue.next_dispatch_r
        self._turn = queue.index
        self._dispatch_r = self.r
        queue.next_dispatch_r = start + ticket.total_work
        oldest = queue.oldest
        if oldest is not None:
            self._schedule(queue, oldest)
        else:
            self._queue_heap.drop(queue.index)

    def settle(self, queue: UpstreamEqualSerialQueue, ticket: Ticket, duration_ns: int) -> None:
        seats = ticket.work.seats
        queue.next_dispatch_r -= seat_seconds(seats, self._guess_ns - duration_ns)
        oldest = queue.oldest
        if oldest is not None:
            self._schedule(queue, oldest)
        elif not queue.executing:
            self._active -= 1

    def _schedule(self, queue: UpstreamEqualSerialQueue, oldest: Ticket) -> None:
        """Apply anti-windup and update the heap, after a change of the oldest ticket or of the meter of ``queue``."""
        start = queue.next_dispatch_r
        if start < oldest.arrival_r:
            queue.next_dispatch_r = start = oldest.arrival_r
        self._queue_heap.place(queue.index, start + oldest.total_work, oldest.width)

    def vacate(self, queue: UpstreamEqualSerialQueue, ticket: Ticket) -> None:
        """Do nothing: R depends only on the sum of all seats, which the queue set keeps."""

    def resize(self, concurrency: int) -> None:
        self._concurrency = concurrency

    def close(self, queue: UpstreamEqualSerialQueue, *, closing_up: bool) -> None:
        if closing_up:
            self._queue_heap.close_up(queue.index)
            if self._turn >= queue.index:
                self._turn -= 1

    def pick(self, widest: int | None = None) -> int:
        index = self._queue_heap.first_within(self._turn, widest)
        if index is None:
            raise LookupError("no queue has anything waiting")
        return index

    def meters(self) -> dict[str, int]:
        return {
            "current_r": self.current_r,
            "dispatch_r": self.as_upstream(self._dispatch_r),
            "latest_s": self.as_upstream(self._latest_s),
            "robin_index": self._turn,
            "active_queues": self._active,
            "epochs": self.epochs,
        }

    def check(self) -> None:
        self._queue_heap.check()

    def __repr__(self) -> str:
        return f"<UpstreamEqualSerial R={self.current_r} active={self._active} last served={self._turn}>"
