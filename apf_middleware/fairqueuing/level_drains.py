"""The queues of one level where requests wait, each with its rate."""

from typing import Final

from apf_middleware.fairqueuing.queue_drain import QueueDrain
from apf_middleware.fairqueuing.ticket import Queue

__all__ = ["LevelDrains"]

_OF_TYPICAL: Final = 32  # the weight of one request in the typical duration is one in so many


class LevelDrains:
    """The queues of one level where requests wait, the sum of their ``weights``, and a typical duration."""

    __slots__ = ("drains", "typical_ns", "weights")

    def __init__(self) -> None:
        self.drains: dict[Queue, QueueDrain] = {}
        self.weights: int = 0
        self.typical_ns: int = 0

    def learn(self, duration_ns: int) -> None:
        """Learn from the expected duration of one request."""
        if self.typical_ns:
            self.typical_ns += (duration_ns - self.typical_ns) // _OF_TYPICAL
        else:
            self.typical_ns = duration_ns

    def open(self, now: int, queue: Queue) -> QueueDrain:
        """Return the drain of ``queue``, which begins to wait now if it has none."""
        drain = self.drains.get(queue)
        if drain is None:
            drain = self.drains[queue] = QueueDrain(now, queue.weight)
            self.weights += drain.weight
        return drain

    def close(self, queue: Queue) -> None:
        """Forget ``queue``, where no request waits any more."""
        self.weights -= self.drains.pop(queue).weight

    def __repr__(self) -> str:
        return f"<LevelDrains of {len(self.drains)} queues>"
