"""Seats of a level that long requests may not take, because short ones have been arriving lately.

Fair queues divide seats among flows, but a seat is given for as long as a request runs. Where durations differ by
orders of magnitude, long requests can hold all seats, and a short one waits for the first of them to end, however
fair its turn. So a part of the seats is kept for short requests. What that costs the long ones is bounded: they may
always use the other seats, and one at least.

A request is *short* if it is expected to run for a quarter of the *typical* duration at most: that of the request which
somebody finds who looks at a random seat at a random time, so each duration is weighted by itself. The mean of all
requests would be small where few requests hold most of the seats.

Seats are kept for as long after the last short request as a typical request runs: given to a long one, a seat comes
back only after that time. Without short requests nothing is kept.
"""

from typing import Final

from apf_middleware.exceptions import require_integer

__all__ = ["Headroom"]

_SHORTER: Final = 4  # times than typical
_ENOUGH: Final = 20  # requests, until a typical duration is known
_SPAN: Final = 1000  # requests, over which durations are averaged
_LEAST_KEPT_NS: Final = 1_000_000_000
_MOST_KEPT_NS: Final = 60_000_000_000


class Headroom:
    """Keep ``percent`` of a level's seats for short requests; ``used`` are the seats of those that aren't short."""

    __slots__ = ("_count", "_last_short", "_squares", "_sum", "percent", "used")

    def __init__(self, percent: int) -> None:
        self.percent: int = 0
        self.used: int = 0
        self._count = 0
        self._sum = self._squares = 0.0  # averages of durations, and of their squares
        self._last_short: int | None = None
        self.resize(percent)

    def resize(self, percent: int) -> None:
        """Keep another part."""
        self.percent = require_integer("percent", percent, least=1, most=90)

    # Durations

    @property
    def typical_ns(self) -> int:
        """The duration of a request that holds a random seat at a random time; 0 while too little is known."""
        return int(self._squares / self._sum) if self._count >= _ENOUGH and self._sum else 0

    def observe(self, duration_ns: int, width: int) -> None:
        """Learn from a request that has run for so long on ``width`` seats."""
        self._count = count = min(self._count + 1, _SPAN)
        work = float(duration_ns) * width
        self._sum += (work - self._sum) / count
        self._squares += (work * duration_ns - self._squares) / count

    def is_short(self, expected_ns: int | None) -> bool:
        """Return whether a request is short, which is expected to run for so long; None if nothing is known of it."""
        typical_ns = self.typical_ns
        return expected_ns is not None and 0 < typical_ns >= expected_ns * _SHORTER

    # Seats

    def note_short(self, now: int) -> None:
        """Note that a short request arrives."""
        self._last_short = now

    def kept(self, now: int, limit: int) -> int:
        """Return how many of ``limit`` seats are kept for short requests now: rounded up, as long as one is left."""
        if self._last_short is None or now - self._last_short > self._kept_for_ns:
            return 0
        return max(0, min(-(-limit * self.percent // 100), limit - 1))

    @property
    def _kept_for_ns(self) -> int:
        return min(max(self.typical_ns, _LEAST_KEPT_NS), _MOST_KEPT_NS)

    def admits(self, now: int, width: int, limit: int) -> bool:
        """Return whether a request that isn't short may have ``width`` of the level's ``limit`` seats now.

        One that is wider than what is left for such requests runs when no other of them does.
        """
        return not self.used or self.used + width <= limit - self.kept(now, limit)

    def take(self, width: int) -> None:
        """Count the seats of a request that isn't short."""
        self.used += width

    def give_back(self, width: int) -> None:
        """Count the seats of a request that isn't short no longer."""
        self.used -= width
        assert self.used >= 0, f"more seats are given back than {self!r} has counted"

    def __repr__(self) -> str:
        return f"<Headroom: {self.percent} %, {self.used} seats in other use, typically {self.typical_ns / 1e6:.1f} ms>"
