"""The rate at which a queue with waiting requests is served.

Work is the sum of the expected seat-nanoseconds of requests, so the rate of a queue is a number of seats: those that
its requests really get. It is observed in the virtual time of the level (see `LevelDrains`), where it stays the same
when another client comes or goes. A queue that has just begun to wait has been observed too briefly: its fair share
counts like `PRIOR` usual durations of observation.
"""

from typing import Final

__all__ = ["PRIOR", "WINDOW_NS", "QueueDrain"]

WINDOW_NS: Final = 10**9
"""Service that is older than about this, at the queue's present share, doesn't count any more."""

PRIOR: Final = 10


class QueueDrain:
    """The waiting work of one queue of this ``weight``, and how fast it has been served since it began to wait.

    ``ahead_ns`` is the work that counts as ahead of a newcomer, ``waiting`` the number of all waiting requests.
    ``is_busy`` says whether requests have waited here for longer than one usually runs. ``clock`` is virtual time.
    """

    __slots__ = ("_served_ns", "_since", "ahead_ns", "is_busy", "waiting", "weight")

    def __init__(self, clock: float, weight: int) -> None:
        self.weight: int = weight
        self.ahead_ns: int = 0
        self.waiting: int = 0
        self.is_busy: bool = False
        self._since = clock
        self._served_ns = 0.0

    def join(self, work_ns: int) -> None:
        """Add a request of which ``work_ns`` count as ahead of later ones."""
        self.waiting += 1
        self.ahead_ns += work_ns

    def leave(self, work_ns: int) -> None:
        """Remove a request that joined with ``work_ns``."""
        self.waiting -= 1
        self.ahead_ns -= work_ns

    def serve(self, clock: float, work_ns: int) -> None:
        """Note that a request with this much work has got its seats."""
        self._served_ns += work_ns
        elapsed = clock - self._since
        if elapsed * self.weight > WINDOW_NS:  # older service fades: half of it is forgotten
            self._since += elapsed / 2
            self._served_ns /= 2

    def seats(self, clock: float, share: float, fair: float, typical_ns: int) -> float:
        """Return the seats that the queue gets while it has this ``share`` of the level; ``fair`` is expected."""
        prior = PRIOR * typical_ns * share
        return (self._served_ns * share + fair * prior) / ((clock - self._since) * self.weight + prior)

    def __repr__(self) -> str:
        return f"<QueueDrain: {self.waiting} waiting, {self.ahead_ns / 1e9:.3f} seat-seconds ahead>"
