"""The rate at which a level dispatches requests, and the time after which a rejected client should retry.

The rate is measured over those of the last seconds in which requests waited, so that an idle level isn't taken for a
slow one. Its few samples are taken when requests are rejected, so it costs nothing while there are no rejections. The
retry time is jittered, so that rejected clients don't all return at once.
"""

from collections import deque
from math import ceil
from random import Random
from typing import Final, NamedTuple

__all__ = ["DrainMeter", "Served", "ServiceRateMeter", "expected_wait_s", "jittered_s", "retry_after_s"]

_SECOND: Final = 10**9
_WINDOW_NS: Final = 10 * _SECOND
_SPACING_NS: Final = _SECOND // 2
_LOWEST: Final = 0.75  # the jitter is a quarter
_RANGE: Final = 0.5


class _Samples:
    """Totals, which only grow, at some moments of the last seconds."""

    __slots__ = ("_samples",)

    def __init__(self, now: int, totals: tuple[int, ...]) -> None:
        self._samples = deque([(now, totals)])

    def growth(self, now: int, totals: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the time since the oldest sample, and the growth of each total; None if all samples are too old."""
        samples = self._samples
        while len(samples) > 1 and samples[1][0] <= now - _WINDOW_NS:
            samples.popleft()
        since, before = samples[0]
        if now - samples[-1][0] >= _SPACING_NS:
            samples.append((now, totals))
        elapsed = now - since
        if elapsed > 2 * _WINDOW_NS:  # such an old sample says nothing about the present rate
            samples.popleft()
            return None
        return (elapsed, *(total - earlier for total, earlier in zip(totals, before, strict=True)))

    def __len__(self) -> int:
        return len(self._samples)


class DrainMeter:
    """A meter for the rate at which a count grows."""

    __slots__ = ("_samples",)

    def __init__(self, now: int) -> None:
        self._samples = _Samples(now, (0,))

    def sample(self, now: int, count: int) -> float | None:
        """Return the growth per second over the window up to ``now``; None without samples of a suitable age."""
        growth = self._samples.growth(now, (count,))
        if growth is None or growth[0] < _SPACING_NS:
            return None
        return growth[1] * _SECOND / growth[0]

    def __repr__(self) -> str:
        return f"<DrainMeter: {len(self._samples)} samples>"


class Served(NamedTuple):
    """Totals of what a level has served.

    ``dispatched`` requests were given seats, ``after_wait`` of them after a wait. For ``unwaited_ns`` no request
    waited. ``executing_ns`` is the sum of the times for which requests have executed.
    """

    dispatched: int
    after_wait: int
    unwaited_ns: int
    executing_ns: int


class ServiceRateMeter:
    """A meter for the rate at which a level serves requests while it is busy."""

    __slots__ = ("_samples",)

    def __init__(self, now: int, served: Served) -> None:
        self._samples = _Samples(now, served)

    def sample(self, now: int, served: Served, executing: int) -> float | None:
        """Return the requests per second that the level serves when requests wait; None if too little is known.

        Time without waiting requests doesn't count: an idle level isn't a slow one. If requests have hardly waited, or
        none of those that wait has been served yet, the rate follows from the mean duration of requests so far, and
        from how many are ``executing``.
        """
        growth = self._samples.growth(now, served)
        if growth is None:
            return None
        elapsed, dispatched, after_wait, unwaited_ns, executing_ns = growth
        waited_ns = elapsed - unwaited_ns
        if after_wait and waited_ns >= _SPACING_NS:
            return after_wait * _SECOND / waited_ns
        if executing and executing_ns >= _SPACING_NS:
            return executing * dispatched * _SECOND / executing_ns
        return 0.0 if waited_ns >= _SPACING_NS else None

    def __repr__(self) -> str:
        return f"<ServiceRateMeter: {len(self._samples)} samples>"


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
