"""A plain discipline that is fair by construction: it shows what can be reached, and that the oracle can be satisfied.

Of the queues that have fewer seats than their fair share, it serves the one with the largest shortfall. The shortfall
is the integral of the max-min fair share minus that of the seats in use, never less than zero, and zero while nothing
waits. No duration is known or guessed. Every call looks at every queue.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import ClassVar

from apf_middleware.fairqueuing import Discipline, Ticket
from apf_middleware.fairqueuing.ticket import Queue

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
        in_use = sum(queue.seats_in_use for queue in self._queues.values())
        for queue, share in self._shares(min(self._concurrency, in_use)):
            change = (share - queue.seats_in_use) * elapsed_ns
            queue.shortfall = max(Fraction(0), queue.shortfall + change) if queue.length else Fraction(0)

    def _shares(self, seats: int) -> Iterator[tuple[LeastServedQueue, Fraction]]:
        """Return the max-min fair part of so many seats for each queue."""
        demands = {
            queue: queue.seats_in_use + sum(ticket.width for ticket in queue)
            for queue in self._queues.values()
            if not queue.is_idle
        }
        left, unfilled = Fraction(seats), len(demands)
        for queue in sorted(demands, key=demands.__getitem__):
            share = min(Fraction(demands[queue]), left / unfilled)
            left -= share
            unfilled -= 1
            yield queue, share

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
            (queue.seats_in_use >= share, -queue.shortfall, queue.seats_in_use, queue.turn, queue.index)
            for queue, share in self._shares(self._concurrency)
            if queue.oldest is not None and (widest is None or queue.oldest.width <= widest)
        ]
        if not waiting:
            raise LookupError("no request waits")
        return min(waiting)[-1]

    def meters(self) -> dict[str, int]:
        return {}

    def check(self) -> None:
        pass
