"""The queues of one level where requests wait, and the seats that each of them gets.

*Virtual time* passes at one over the sum of the weights of the busy queues, as in fair queuing. So a queue's share of
a level is its weight, however many others there are, and what was observed before another client came or went still
holds. A queue is busy once it has more work ahead than its share does in a usual duration, until no request waits.
Queues of light flows have requests that wait now and then, for a moment. They aren't busy and take no share: what they
use is missing in the rates that are observed.

The seats that all busy queues get together are observed, too, also before a queue begins to wait: they are what is
known of a new queue.
"""

from typing import Final

from apf_middleware.fairqueuing.queue_drain import QueueDrain
from apf_middleware.fairqueuing.ticket import Queue

__all__ = ["LevelDrains"]

_OF_TYPICAL: Final = 32  # the weight of one request in the typical duration is 1/32
_WINDOW_NS: Final = 4 * 10**9  # for the seats of all busy queues


class LevelDrains:
    """The queues of one level where requests wait, the sum of their ``weights``, and a typical duration.

    ``light`` is the number of the queues that aren't busy.
    """

    __slots__ = (
        "_busy",
        "_clock",
        "_observed_ns",
        "_read_at",
        "_served_ns",
        "drains",
        "light",
        "typical_ns",
        "weights",
    )

    def __init__(self, now: int) -> None:
        self.drains: dict[Queue, QueueDrain] = {}
        self.weights: int = 0
        self.light: int = 0
        self.typical_ns: int = 0
        self._busy = 0  # the sum of the weights of busy queues
        self._clock = 0.0
        self._read_at = now
        self._observed_ns = 0  # how long any queue was busy, and the work of these queues that got seats
        self._served_ns = 0

    def learn(self, duration_ns: int) -> None:
        """Learn from the expected duration of one request."""
        if self.typical_ns:
            self.typical_ns += (duration_ns - self.typical_ns) // _OF_TYPICAL
        else:
            self.typical_ns = duration_ns

    def skip(self, now: int) -> None:
        """Leave out the time until now, in which the level was paused."""
        self._read_at = now

    def join(self, now: int, queue: Queue, work_ns: int, seats: int) -> None:
        """Add a request of which ``work_ns`` count as ahead of later ones; ``seats`` are those of the level."""
        clock = self._read(now)
        drain = self.drains.get(queue)
        if drain is None:
            drain = self.drains[queue] = QueueDrain(clock, queue.weight)
            self.weights += drain.weight
            self.light += 1
        drain.join(work_ns)
        self._find_busy(drain, seats)

    def weigh(self, now: int, queue: Queue, work_ns: int, seats: int) -> None:
        """Add the work of a request that waits already, which wasn't known when it joined."""
        self._read(now)
        drain = self.drains[queue]
        drain.ahead_ns += work_ns
        self._find_busy(drain, seats)

    def _find_busy(self, drain: QueueDrain, seats: int) -> None:
        """Note whether a queue whose work has grown is busy now."""
        if not drain.is_busy and drain.ahead_ns > self.typical_ns * seats * self._fair_share(drain):
            drain.is_busy = True
            self.light -= 1
            self._busy += drain.weight

    def serve(self, now: int, queue: Queue, work_ns: int) -> None:
        """Note that a request with this much work has got its seats; it leaves its queue separately."""
        clock, drain = self._read(now), self.drains[queue]
        drain.serve(clock, work_ns)
        if drain.is_busy:
            self._served_ns += work_ns
            if self._observed_ns > _WINDOW_NS:
                self._observed_ns //= 2
                self._served_ns //= 2

    def leave(self, now: int, queue: Queue, work_ns: int) -> None:
        """Remove a request that joined with ``work_ns``; forget the queue if no other waits there."""
        self._read(now)
        drain = self.drains[queue]
        drain.leave(work_ns)
        if not drain.waiting:
            del self.drains[queue]
            self.weights -= drain.weight
            if drain.is_busy:
                self._busy -= drain.weight
            else:
                self.light -= 1

    def seats(self, now: int, drain: QueueDrain, seats: int, used: int) -> float:
        """Return the seats that a queue gets that uses ``used`` of the ``seats`` of the level now."""
        clock, share, typical_ns = self._read(now), self._fair_share(drain), self.typical_ns
        unseen = max(seats * share, used) * typical_ns  # before anything was observed, and like one duration of it
        fair = (self._served_ns * share + unseen) / (self._observed_ns + typical_ns)
        return drain.seats(clock, drain.weight / (self._busy or self.weights), fair, typical_ns)

    def _fair_share(self, drain: QueueDrain) -> float:
        """Return the part of the level that is due to a queue if it is busy."""
        if not self._busy:
            return drain.weight / self.weights
        return drain.weight / (self._busy if drain.is_busy else self._busy + drain.weight)

    def _read(self, now: int) -> float:
        """Return the virtual time, which begins once durations are known: until then no service has been observed."""
        passed, weights = now - self._read_at, self._busy or self.weights
        self._read_at = now
        if not self.typical_ns:
            return self._clock
        if weights:
            self._clock += passed / weights
        if self._busy:
            self._observed_ns += passed
        return self._clock

    def __repr__(self) -> str:
        return f"<LevelDrains of {len(self.drains)} queues>"
