"""The rate at which a level dispatches requests, and the time after which a rejected client should retry.

The rate is measured over the last seconds, from a few samples that are taken when requests are rejected, so it costs
nothing while there are no rejections. The retry time is jittered, so that rejected clients don't all return at once.
"""

from collections import deque
from random import Random
from typing import Final

__all__ = ["DrainMeter", "retry_after_s"]

_SECOND: Final = 10**9
_WINDOW_NS: Final = 10 * _SECOND
_SPACING_NS: Final = _SECOND // 2
_JITTER: Final = 0.25


class DrainMeter:
    """A meter for the rate at which a count of requests grows."""

    __slots__ = ("_samples",)

    def __init__(self, now: int, dispatched: int = 0) -> None:
        self._samples = deque([(now, dispatched)])

    def sample(self, now: int, dispatched: int) -> float | None:
        """Return the requests per second over the window up to ``now``; None without samples of a suitable age."""
        samples = self._samples
        while len(samples) > 1 and samples[1][0] <= now - _WINDOW_NS:
            samples.popleft()
        since, before = samples[0]
        if now - samples[-1][0] >= _SPACING_NS:
            samples.append((now, dispatched))
        elapsed = now - since
        if elapsed > 2 * _WINDOW_NS:  # such an old sample says nothing about the present rate
            samples.popleft()
            return None
        return (dispatched - before) * _SECOND / elapsed if elapsed >= _SPACING_NS else None

    def __repr__(self) -> str:
        return f"<DrainMeter: {len(self._samples)} samples>"


def retry_after_s(ahead: int, rate: float | None, *, least: int, most: int, chance: Random) -> int:
    """Return the seconds until ``ahead`` requests are served at ``rate``, with some jitter, within bounds."""
    if rate is None:
        expected = float(least)
    elif rate <= 0:
        expected = float(most)
    else:
        expected = min(ahead / rate, most)
    spread = expected * chance.uniform(1 - _JITTER, 1 + _JITTER)
    return max(least, min(most, -int(-spread // 1)))
