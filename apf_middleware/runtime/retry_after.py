"""The rate at which a level dispatches requests, and the time after which a rejected client should retry.

The rate is measured over the last seconds, from a few samples that are taken when requests are rejected, so it costs
nothing while there are no rejections. The retry time is jittered, so that rejected clients don't all return at once.
"""

from collections import deque
from math import ceil
from random import Random
from typing import Final

__all__ = ["DrainMeter", "expected_wait_s", "jittered_s", "retry_after_s"]

_SECOND: Final = 10**9
_WINDOW_NS: Final = 10 * _SECOND
_SPACING_NS: Final = _SECOND // 2
_LOWEST: Final = 0.75  # the jitter is a quarter
_RANGE: Final = 0.5


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


def expected_wait_s(ahead: int, rate: float | None, least: int, most: int) -> float:
    """Return the seconds until ``ahead`` requests are served, at most ``most``, or ``least`` if the rate is unknown."""
    if rate is None:
        return float(least)
    return min(ahead / rate, float(most)) if rate > 0 else float(most)


def jittered_s(expected_s: float, least: int, most: int, chance: Random) -> int:
    """Return ``expected_s`` with some jitter, rounded up, within the bounds."""
    seconds = ceil(expected_s * (_LOWEST + _RANGE * chance.random()))
    return least if seconds < least else min(seconds, most)


def retry_after_s(ahead: int, rate: float | None, *, least: int, most: int, chance: Random) -> int:
    """Return the seconds until ``ahead`` requests are served at ``rate``, with some jitter, within bounds."""
    return jittered_s(expected_wait_s(ahead, rate, least, most), least, most, chance)
