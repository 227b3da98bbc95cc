"""The figures of a case and a limiter, beside those of the best static limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from benchmarks.adaptive.case import Case
from benchmarks.adaptive.world import Measured

__all__ = ["Figures", "best_of", "figures"]

_NEAR = 0.9  # of the goodput that is possible
_SLOWER = 1.25  # than on an idle backend; the collapsing one is measured by goodput alone
_SMOOTHED = 5  # seconds


@dataclass(frozen=True, slots=True)
class Figures:
    """What a limiter made of a case.

    ``goodput`` is the work that completed, in seconds of an idle backend a second, so that a limiter gains nothing by
    completing many short requests; ``rate`` is in requests a second, ``oscillation`` the coefficient of variation of
    the limit in the last third of the time after the last change, and ``last`` its mean then.
    """

    limiter: str
    goodput: float
    rate: float
    p99: float
    adapted: float | None
    oscillation: float
    last: float


def figures(limiter: str, case: Case, measured: Measured) -> Figures:
    """Return the figures; ``adapted`` is the longest time after a change, None if it never adapted."""
    durations = sorted(measured.durations)
    last = measured.limits[-round(len(measured.limits) * (case.seconds - case.marks[-1]) / case.seconds / 3) :]
    times = [_adapted(case, measured, begin, end) for begin, end in case.phases()]
    return Figures(
        limiter,
        sum(measured.needed) / case.seconds,
        measured.completed / case.seconds,
        durations[int(0.99 * len(durations))] if durations else 0.0,
        None if None in times else max(time for time in times if time is not None),
        pstdev(last) / fmean(last),
        fmean(last),
    )


def _adapted(case: Case, measured: Measured, begin: float, end: float) -> float | None:
    """Return the seconds until ``measured`` is near the optimum for a while."""
    for second in range(int(begin), int(end) - _SMOOTHED):
        window = slice(second, second + _SMOOTHED)
        possible = sum(case.optimum(at + 0.5) for at in range(window.start, window.stop))
        busy, needed = sum(measured.busy[window]), sum(measured.needed[window])
        is_fast = bool(case.coherence) or busy <= _SLOWER * needed
        if needed >= _NEAR * possible and is_fast:
            return second - begin
    return None


def best_of(static: Sequence[Figures]) -> Figures:
    """Return the fastest of those limits with which hardly fewer requests complete than with any."""
    most = max(one.goodput for one in static)
    return min((one for one in static if one.goodput >= 0.99 * most), key=lambda one: (one.p99, -one.goodput))
