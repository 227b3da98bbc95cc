"""Durations and seats of a window of time, between two decisions."""

from math import log, sqrt
from typing import Final

from apf_middleware.adaptive.request_outcome import RequestOutcome
from apf_middleware.adaptive.robust_mean import MOST_DEVIATION
from apf_middleware.adaptive.route_reference import RouteReference
from apf_middleware.adaptive.seat_samples import SeatSamples
from apf_middleware.adaptive.window_summary import WindowSummary

__all__ = ["SampleWindow"]

_MOST_ROUTES: Final = 1000
_MOST_NEW: Final = 50  # routes that are learnt at a time; names of objects may be part of a path
_FORGOTTEN: Final = 16  # windows without a request after which a route isn't learnt any more
_GAIN: Final = 0.02  # of the mean duration
_REPEATED: Final = 3  # earlier samples of a route that is learnt soon; names of objects come once
_MOSTLY: Final = 0.5
_SETTLING: Final = 3.0  # mean durations


class SampleWindow:
    """Collects what happens from ``begin`` on.

    Only requests that started within the window count: others ran under another limit. At first these are only the
    short ones, so nothing counts until a request may have taken several times the mean duration.
    """

    def __init__(self, begin: int) -> None:
        self.begin: int = begin
        self._number = 0
        self._routes: dict[str, RouteReference] = {}
        self._new: dict[str, RouteReference] = {}  # those that aren't known yet
        self._others = RouteReference()  # of all further routes together
        self._seen: list[RouteReference] = []
        self._level = 0.0
        self._duration = 0.0
        self._gain = 1.0
        self._durations = SeatSamples()
        self._clear()
        self._noted_at = begin
        self._in_use = 0
        self._usable = 1.0
        self._waiting = 0
        self._is_late = False

    def _clear(self) -> None:
        self._adopted = 0.0
        self.troubles: int = 0
        self.unknown: int = 0
        self._known_time = self._unknown_time = 0
        self._durations.restart(self._level)
        self._adopted_squares = 0.0
        self._succeeded = 0
        self._failed = 0
        self._timed_out = 0
        self._refused = 0
        self._span = 0
        self._seat_time = 0
        self._usable_time = 0.0
        self._waiting_time = 0
        self._late_time = 0

    @property
    def samples(self) -> float:
        """The sum of the weights of the samples."""
        return self._adopted + self._durations.estimate().count

    @property
    def duration_ns(self) -> float:
        """How long a request takes, on average over the recent ones with their weights."""
        return self._duration

    @property
    def succeeded(self) -> int:
        """The requests that succeeded, whether their durations count or not."""
        return self._succeeded

    @property
    def settling_ns(self) -> float:
        """How long a window lasts before requests count."""
        return _SETTLING * self._duration

    @property
    def mean(self) -> float:
        """The mean of all samples until now, on which outliers have little effect."""
        return self._durations.estimate().mean

    @property
    def is_new(self) -> bool:
        """Whether requests of routes that aren't known have taken more time than the others."""
        return self._unknown_time > self._known_time

    @property
    def usable(self) -> float:
        """The mean of the part of the total that could be used while requests waited; 0 if that was seldom."""
        waiting = self._waiting_time
        return self._usable_time / waiting if waiting > _MOSTLY * self._span else 0.0

    def observe(self, now: int, route: str, duration: int, outcome: RequestOutcome) -> None:
        """Add a request that ends now and has run for ``duration``."""
        duration = max(1, duration)
        logarithm = log(duration)
        reference = self._routes.get(route) or self._others
        if outcome is RequestOutcome.SUCCESS:
            self._succeeded += 1
            if reference.is_known:
                self._durations.spend(duration, logarithm)
        elif not self._has_duration(outcome):
            return
        weight = self._durations.weight(duration)
        self._duration += self._gain * weight * (duration - self._duration)
        self._gain = max(_GAIN, self._gain / (1 + self._gain))
        elapsed = now - self.begin
        if duration > elapsed or elapsed < self.settling_ns:
            return
        if reference is self._others:
            reference = self._begin(route)
        if reference.window != self._number:
            self._see(reference)
        above = logarithm - reference.value
        if reference.is_known:
            self._known_time += duration
            self._durations.add(above, duration, logarithm)
            above = min(self._level + MOST_DEVIATION, max(above, self._level - MOST_DEVIATION))
        else:
            if reference.count >= _REPEATED:
                self._unknown_time += duration
            self.unknown += 1
            reference.squares += weight * above * above
        reference.count += 1
        reference.weight += weight
        reference.total += weight * above

    def _has_duration(self, outcome: RequestOutcome) -> bool:
        """Count a request that didn't succeed; return whether its duration says something."""
        self.troubles += 1
        if outcome is RequestOutcome.TIMED_OUT:
            self._timed_out += 1
            return True
        if outcome is RequestOutcome.REFUSED:
            self._refused += 1
        else:
            self._failed += 1
        return False

    def _begin(self, route: str) -> RouteReference:
        """Return a reference for a new route; if many are learnt already, that of all further ones."""
        if len(self._new) >= _MOST_NEW:
            return self._others
        if len(self._routes) >= _MOST_ROUTES:
            oldest = next(iter(self._routes))  # if it still comes, it is learnt again
            del self._routes[oldest]
            self._new.pop(oldest, None)
        reference = self._routes[route] = self._new[route] = RouteReference()
        return reference

    def _see(self, reference: RouteReference) -> None:
        """Note a route that comes for the first time in this window."""
        reference.window = self._number
        self._seen.append(reference)
        if reference.is_known:  # the others collect samples until there are enough
            reference.weight = 0.0
            reference.total = 0.0

    def adopt(self) -> None:
        """Count the samples of routes that are new: learn these now, as if all requests had the same level."""
        level = self.mean
        for reference in self._seen:
            weight, total = reference.weight, reference.total
            if reference.is_known or not reference.learn(level):
                continue
            self._adopted += weight
            self._adopted_squares += reference.squares - total * total / weight
            reference.total = weight * level

    def note(self, now: int, in_use: int, waiting: int, *, usable: float = 1.0, is_late: bool = False) -> None:
        """Take the state from now on; before, it was what was noted last."""
        self._go_on(now)
        self._in_use = in_use
        self._usable = usable
        self._waiting = waiting
        self._is_late = is_late

    def _go_on(self, now: int) -> None:
        """Count the time with the state that was noted last; forget it until requests count."""
        elapsed = now - self._noted_at
        if elapsed > 0:
            if self._noted_at - self.begin < self.settling_ns:
                self._span = self._seat_time = self._waiting_time = self._late_time = 0
                self._usable_time = 0.0
            self._span += elapsed
            self._seat_time += elapsed * self._in_use
            if self._waiting:
                self._waiting_time += elapsed
                self._usable_time += elapsed * self._usable
            if self._is_late:
                self._late_time += elapsed
            self._noted_at = now

    def summary(self, now: int) -> WindowSummary:
        """Return the means until now."""
        self._go_on(now)
        span, samples = self._span, self.samples
        mean = self._durations.estimate()
        squares = mean.count * mean.spread**2 + self._adopted_squares
        return WindowSummary(
            samples,
            mean.mean,
            sqrt(max(0.0, squares) / samples) if samples else 0.0,
            self._seat_time / span,
            self.usable,
            self._waiting_time / span,
            self._late_time / span,
            self._succeeded,
            self._failed,
            self._timed_out,
            self._refused,
        )

    def restart(self, now: int, level: float, *, learns: bool) -> None:
        """Begin the next window; samples far from ``level`` are outliers. Let routes learn if ``learns``."""
        if learns:
            for reference in self._seen:
                reference.learn(level)
        for route, reference in list(self._new.items()):
            if reference.is_known:
                del self._new[route]
            elif self._number - reference.window >= _FORGOTTEN:
                del self._new[route], self._routes[route]
        self._seen.clear()
        self._level = level
        self._number += 1
        self.begin = now
        self._clear()
