"""A plain discipline that is fair by construction: it shows what can be reached, and that the judge can be satisfied.

It serves the queue whose shortfall is the largest. The shortfall is the oracle's own: the integral of the max-min fair
share minus that of the seats in use, from the time at which it was last zero, and zero while nothing waits. It knows no
durations and guesses none. Every call looks at every queue.
"""

from fractions import Fraction
from typing import ClassVar

from apf_middleware.fairqueuing import Discipline, Ticket
from apf_middleware.fairqueuing.queue import Queue

__all__ = ["LeastServed"]


class LeastServedQueue(Queue):
    __slots__ = ("shortfall", "turn")

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.shortfall = Fraction(0)
        self.turn = 0


class LeastServed(Discipline[LeastServedQueue]):
    """Serves the queue that is furthest behind its fair share."""

    name: ClassVar[str] = "least-served"
    is_restless: ClassVar[bool] = True

    def __init__(self, concurrency: int, guess_ns: int = 1) -> None:  # noqa: ARG002 - as every discipline is made
        self._concurrency = concurrency
        self._queues: dict[int, LeastServedQueue] = {}
        self._dispatched = 0

    def open_queue(self, index: int) -> LeastServedQueue:
        return self._queues.setdefault(index, LeastServedQueue(index))

    def advance(self, elapsed_ns: int, demand: int) -> None:  # noqa: ARG002 - each queue's own demand counts
        demands = {
            queue: queue.seats_in_use + sum(ticket.width for ticket in queue)
            for queue in self._queues.values()
            if not queue.is_idle
        }
        left, unfilled = Fraction(min(self._concurrency, sum(queue.seats_in_use for queue in demands))), len(demands)
        for queue in sorted(demands, key=demands.__getitem__):
            share = min(Fraction(demands[queue]), left / unfilled)
            left -= share
            unfilled -= 1
            change = (share - queue.seats_in_use) * elapsed_ns
            queue.shortfall = max(Fraction(0), queue.shortfall + change) if queue.length else Fraction(0)

    def arrive(self, queue: LeastServedQueue, ticket: Ticket) -> None:
        pass

    def serve(self, queue: LeastServedQueue, ticket: Ticket) -> None:  # noqa: ARG002
        self._dispatched += 1
        queue.turn = self._dispatched

    def leave(self, queue: LeastServedQueue, ticket: Ticket, *, was_oldest: bool) -> None:
        pass

    def dispatch(self, queue: LeastServedQueue, ticket: Ticket) -> None:
        self.serve(queue, ticket)

    def settle(self, queue: LeastServedQueue, ticket: Ticket, duration_ns: int) -> None:
        pass

    def vacate(self, queue: LeastServedQueue, ticket: Ticket) -> None:
        pass

    def resize(self, concurrency: int) -> None:
        self._concurrency = concurrency

    def close(self, queue: LeastServedQueue, *, closing_up: bool) -> None:  # noqa: ARG002
        del self._queues[queue.index]

    def pick(self, widest: int | None = None) -> int:
        waiting = [
            queue
            for queue in self._queues.values()
            if queue.oldest is not None and (widest is None or queue.oldest.width <= widest)
        ]
        if not waiting:
            raise LookupError("nobody is to be served")
        return min(waiting, key=lambda queue: (-queue.shortfall, queue.seats_in_use, queue.turn)).index

    def meters(self) -> dict[str, int]:
        return {}

    def check(self) -> None:
        pass
