"""How late the event loop was in the last seconds, from probes: timers that were due at random times.

A probe that fires ``lag`` after it was due says two things. The moment at which it was due is a random sample of the
``gap`` before it, so ``lag`` stands for that gap. And the loop was blocked from that moment on, for ``lag``: whatever
had become ready then would have waited for the rest of it, so all delays from ``lag`` down to 0 are part of the window,
too. Without this second part, a loop that is blocked for a second at a time would seem late in one probe of many, since
no other probe can be made meanwhile. Probes of different gaps may be mixed.
"""

from collections import deque
from typing import Final

from apf_middleware.exceptions import InvalidValueError, require_integer

__all__ = ["LagWindow"]

_SPAN_NS: Final = 2_500_000_000


class LagWindow:
    """The probes of the last ``span_ns``."""

    __slots__ = ("_probes", "_span_ns")

    def __init__(self, span_ns: int = _SPAN_NS) -> None:
        self._span_ns = require_integer("span_ns", span_ns, least=1)
        self._probes: deque[tuple[int, int, int]] = deque()  # time, gap, lag

    def __len__(self) -> int:
        return len(self._probes)

    def observe(self, now: int, gap_ns: int, lag_ns: int) -> None:
        """Add a probe that was due ``gap_ns`` after the previous one, and has fired ``lag_ns`` later, now."""
        require_integer("gap_ns", gap_ns, least=1)
        require_integer("lag_ns", lag_ns, least=0)
        self._probes.append((now, gap_ns, lag_ns))
        self.forget(now)

    def forget(self, now: int) -> None:
        """Forget the probes that are too old."""
        probes, oldest = self._probes, now - self._span_ns
        while probes and probes[0][0] < oldest:
            probes.popleft()

    def restart(self) -> None:
        """Forget all probes, because something has changed."""
        self._probes.clear()

    def count_above(self, bound_ns: int) -> int:
        """Return the number of probes that were later than this."""
        return sum(lag > bound_ns for _, _, lag in self._probes)

    def share_above(self, bound_ns: int) -> float:
        """Return the share of time in which something that became ready would have waited for longer than this."""
        total = above = 0
        for _, gap, lag in self._probes:
            total += gap + lag
            if lag > bound_ns:
                above += gap + lag - bound_ns
        return above / total if total else 0.0

    def quantile(self, fraction: float) -> int:
        """Return the delay that is exceeded for the rest of the time only: the smallest such; 0 without probes."""
        if not 0 <= fraction <= 1:
            raise InvalidValueError("fraction", fraction, "it must be from 0 to 1")
        probes = sorted(((lag, gap) for _, gap, lag in self._probes), reverse=True)
        allowed = (1 - fraction) * sum(lag + gap for lag, gap in probes)
        # The time above a bound is ``above - count * bound``, where the sums are those of the probes above it. It grows
        # as the bound falls, and jumps by a gap wherever the bound passes a probe.
        count = above = 0
        for lag, gap in probes:
            if above - count * lag > allowed:
                break
            if above - count * lag + gap > allowed:
                return lag
            count += 1
            above += lag + gap
        return round((above - allowed) / count) if count else 0

    def __repr__(self) -> str:
        return f"<LagWindow: {len(self)} probes, 99 % within {self.quantile(0.99) / 1e6:.1f} ms>"
