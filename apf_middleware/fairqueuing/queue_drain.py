"""The rate at which a queue with waiting requests is served, and the wait that follows from it.

Work is the sum of the expected seat-nanoseconds of requests, so the rate of a queue is a number of seats: those that
its requests really get. There are two sources:

*The observed rate*: the work of the requests that left the queue for their seats, divided by the time since the queue
began to wait. It follows changes within about `WINDOW_NS`.

*The fair share*: the seats of the level, divided by the weights of the queues where requests wait. A queue that has
just begun to wait has no other rate. The share counts like one request's duration of observations, or the seats that
the queue has at that moment, if these are more. It isn't used for longer, because queues of light flows wait only now
and then: most of them are missing from the sum of weights, while they use their seats.
"""

from typing import Final

__all__ = ["WINDOW_NS", "QueueDrain"]

WINDOW_NS: Final = 10**9
"""Service that is older than about this doesn't count any more."""


class QueueDrain:
    """The waiting work of one queue of this ``weight``, and how fast it has been served since it began to wait.

    ``ahead_ns`` is the work that counts as ahead of a newcomer, ``waiting`` the number of all waiting requests.
    """

    __slots__ = ("_served_ns", "_since", "ahead_ns", "waiting", "weight")

    def __init__(self, now: int, weight: int) -> None:
        self.weight: int = weight
        self.ahead_ns: int = 0
        self.waiting: int = 0
        self._since = now
        self._served_ns = 0

    def join(self, work_ns: int) -> None:
        """Add a request of which ``work_ns`` count as ahead of later ones."""
        self.waiting += 1
        self.ahead_ns += work_ns

    def leave(self, work_ns: int) -> None:
        """Remove a request that joined with ``work_ns``."""
        self.waiting -= 1
        self.ahead_ns -= work_ns

    def serve(self, now: int, work_ns: int) -> None:
        """Note that a request with this much work has got its seats."""
        self._served_ns += work_ns
        elapsed = now - self._since
        if elapsed > WINDOW_NS:  # older service fades: half of it is forgotten
            self._since += elapsed // 2
            self._served_ns //= 2

    def seats(self, now: int, fair: float, used: int, typical_ns: int) -> float:
        """Return the seats that the queue gets.

        ``fair`` is its share of the level, ``used`` the seats that it has now, and ``typical_ns`` a usual duration.
        """
        elapsed = now - self._since + typical_ns
        return (self._served_ns + max(fair, used) * typical_ns) / elapsed if elapsed else 0.0

    def wait_ns(self, seats: float) -> int | None:
        """Return the time until the work ahead has been served by so many ``seats``; None if it never is."""
        if not self.ahead_ns:
            return 0
        return int(self.ahead_ns / seats) if seats > 0 else None

    def __repr__(self) -> str:
        return f"<QueueDrain: {self.waiting} waiting, {self.ahead_ns / 1e9:.3f} seat-seconds ahead>"
