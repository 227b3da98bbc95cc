"""Seats of a level that long requests may not take, because short ones have been arriving lately.

Fair queues divide seats among flows, but a seat is given for as long as a request runs. Where durations differ by
orders of magnitude, long requests can hold all seats, and a short one waits for the first of them to end, however
fair its turn. So a part of the seats is kept for short requests. What that costs the long ones is bounded: they may
always use the other seats, and one at least.

A request is *short* if it is expected to run for at most a quarter of the *typical* duration. That is the mean of all
durations, each weighted by itself: the expected duration of the request that holds a random seat at a random time. The
plain mean would be small where few requests hold most of the seats.

After each short request, seats are kept for some time; without short requests, none are kept. How long, follows from
the gaps between short requests. If a seat is lent in a gap, it comes back only after the time T of a typical request.
About T/g short requests arrive meanwhile and find it taken, where g is the mean gap. At random arrivals, a gap exceeds
g·ln(n·T/g) in one of n·T/g cases. So if seats are kept for that time, one of n short requests finds its seat lent. With
n = 10,000 it is really about one of a thousand, because g is known only roughly.

For g, half of the mean of all gaps is used, each weighted by itself. At random arrivals this equals the plain mean.
Where short requests come in groups, it follows the gaps between the groups.

The limit of this time is T, but at least one second and at most ten. Seats are kept for as long as the limit while the
gaps aren't known. When short requests have stopped coming, long ones wait no longer than that beside idle seats.
"""

from math import log
from typing import Final

from apf_middleware.exceptions import require_integer

__all__ = ["Headroom"]

_SHORTER: Final = 4  # how many times shorter than the typical duration a short request is
_ENOUGH: Final = 20  # the number of values from which on a mean is known
_DURATIONS: Final = 1000  # the number of durations that are averaged
_GAPS: Final = 100  # the number of gaps that are averaged
_PER_LENT: Final = 10_000  # the number of short requests of which one may find its seat lent
_LEAST_KEPT_NS: Final = 1_000_000_000
_MOST_KEPT_NS: Final = 10_000_000_000


class _SelfWeightedMean:
    """The mean of about the last ``span`` values, each weighted by itself; 0 while too few are known."""

    __slots__ = ("_count", "_span", "_squares", "_sum")

    def __init__(self, span: int) -> None:
        self._span = span
        self._count = 0
        self._sum = self._squares = 0.0  # averages

    @property
    def value(self) -> int:
        return int(self._squares / self._sum + 0.5) if self._count >= _ENOUGH and self._sum else 0

    def observe(self, value: int, weight: int = 1) -> None:
        self._count = count = min(self._count + 1, self._span)
        weighted = float(value) * weight
        self._sum += (weighted - self._sum) / count
        self._squares += (weighted * value - self._squares) / count


class Headroom:
    """Keep ``percent`` of a level's seats for short requests; ``used`` are the seats of those that aren't short."""

    __slots__ = ("_durations", "_gaps", "_last_short", "percent", "used")

    def __init__(self, percent: int) -> None:
        self.percent: int = 0
        self.used: int = 0
        self._durations = _SelfWeightedMean(_DURATIONS)
        self._gaps = _SelfWeightedMean(_GAPS)
        self._last_short: int | None = None
        self.resize(percent)

    def resize(self, percent: int) -> None:
        """Keep another ``percent`` of the seats from now on."""
        self.percent = require_integer("percent", percent, least=1, most=90)

    # Durations

    @property
    def typical_ns(self) -> int:
        """The duration of a request that holds a random seat at a random time; 0 while too little is known."""
        return self._durations.value

    def observe(self, duration_ns: int, width: int) -> None:
        """Learn from a request that has run for ``duration_ns`` on ``width`` seats."""
        self._durations.observe(duration_ns, width)

    def is_short(self, expected_ns: int | None) -> bool:
        """Return whether a request that is expected to run for ``expected_ns`` is short; None means unknown."""
        typical_ns = self.typical_ns
        return expected_ns is not None and 0 < typical_ns >= expected_ns * _SHORTER

    # Seats

    def note_short(self, now: int) -> None:
        """Note that a short request arrives."""
        if self._last_short is not None:
            self._gaps.observe(min(now - self._last_short, self._most_kept_ns))  # a longer gap is a pause
        self._last_short = now

    def kept(self, now: int, limit: int) -> int:
        """Return how many of ``limit`` seats are kept for short requests now: rounded up, as long as one is left."""
        if self._last_short is None or now - self._last_short > self.kept_for_ns:
            return 0
        return max(0, min(-(-limit * self.percent // 100), limit - 1))

    @property
    def kept_for_ns(self) -> int:
        """The time for which seats are kept after a short request."""
        gap_ns = self._gaps.value / 2
        if not gap_ns:
            return self._most_kept_ns
        while_lent = max(1.0, self.typical_ns / gap_ns)  # the short requests that arrive while a seat is lent
        return min(int(gap_ns * log(_PER_LENT * while_lent)), self._most_kept_ns)

    @property
    def _most_kept_ns(self) -> int:
        return min(max(self.typical_ns, _LEAST_KEPT_NS), _MOST_KEPT_NS)

    def admits(self, now: int, width: int, limit: int) -> bool:
        """Return whether a request that isn't short may have ``width`` of the level's ``limit`` seats now.

        A request that is wider than what is left for such requests runs when no other such request does.
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
