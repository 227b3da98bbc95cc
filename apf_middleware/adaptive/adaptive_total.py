"""The controller of the total of seats: it tries a few more or fewer, and keeps what completes more or waits less.

With n requests in service, throughput X and duration T, n = X·T. Where the server has room, one more request in service
costs the others nothing: T stays, X grows. Beyond its capacity X stays, and T grows as n does. The elasticity of T,
d log T ÷ d log n, is 0 on one side and 1 on the other. Its value doesn't depend on how long requests take, so nothing
has to be remembered about an idle server: the durations just before are the baseline, whatever they are.

The controller measures the durations with the total as it is, then with a few more seats, and takes these if the
elasticity is small. Sometimes it measures with a few less, and takes those if the elasticity is large. A result makes
the next step larger, a failure undoes it. When durations jump although the total is the same, either the capacity is
less, or the requests are longer: fewer seats are tried, and kept only if that makes requests faster.
"""

from math import exp, log, sqrt
from typing import Final

from apf_middleware.adaptive.limit_reason import LimitReason
from apf_middleware.adaptive.request_outcome import RequestOutcome
from apf_middleware.adaptive.sample_window import SampleWindow
from apf_middleware.adaptive.settings import AdaptiveSettings
from apf_middleware.adaptive.window_summary import WindowSummary

__all__ = ["AdaptiveTotal"]

_ELASTICITY: Final = 0.85  # more seats are worth it below
_RELIEF: Final = 0.75  # fewer are worth it above
_STEEP: Final = 0.45  # beyond this elasticity a large step went too far
_UNSURE: Final = 0.5  # beyond it a failed try downwards is soon repeated
_CLEAR: Final = 0.9
_STEP: Final = 0.1  # of the logarithm of the total
_MOST_BASE: Final = 0.2
_SOON_NS: Final = 2_000_000_000
_UP: Final = 0.4
_DOUBLE: Final = 0.7  # until a try fails for the first time, or after a cut
_DOWN: Final = 0.4
_ERROR: Final = 0.2  # the standard error of an elasticity on which a decision rests
_LEAST_SAMPLES: Final = 30
_SLOWER: Final = 0.4  # by so much more, fewer seats are tried next
_CHANGED: Final = 0.15
_JUMP: Final = 0.5  # by so much more, many fewer are tried at once
_MOST_CUT: Final = 0.7
_MOST_LATER_CUT: Final = 1.2  # once a cut has helped
_PRESSED: Final = 0.5
_OCCUPIED: Final = 0.8
_FULL: Final = 0.95
_BACK_OFF: Final = 0.8
_TROUBLE: Final = 0.05
_TROUBLES: Final = 10
_MOST_FAILURES: Final = 0.25
_MOST_PAUSES: Final = 2
_TRIES_UP: Final = 3  # for each one downwards
_LENGTHS: Final = 5  # of requests, in a window


class AdaptiveTotal:
    """Decides how many seats the server has; ``limit`` is the present total, ``reason`` that of the last decision.

    ``elasticity`` is the one that the last try measured.
    """

    def __init__(self, settings: AdaptiveSettings, now: int = 0) -> None:
        self.settings = settings
        self.limit: int = settings.start or settings.floor
        self.reason: LimitReason = LimitReason.START
        self.elasticity: float | None = None
        self.window: SampleWindow = SampleWindow(now)
        self._center = self.limit  # what holds unless a try succeeds
        self._level = 0.0
        self._is_measured = False
        self._usual = 0.0  # the level before a jump
        self._recovers = False  # from a jump
        self._spread = 0.5
        self._most_up = _DOUBLE
        self._step = _DOUBLE
        self._base = _STEP
        self._falls = False  # the direction of the next try
        self._slope = -1.0  # of recent tries upwards from here; negative if there was none
        self._fall = -1.0  # of recent tries downwards from here
        self._pauses = 0  # windows to wait before the next try
        self._pause = 0
        self._tries_up = 0

    def observe(self, now: int, route: str, width: int, duration: int, outcome: RequestOutcome) -> None:  # noqa: ARG002
        """Learn from a request for ``route`` that ends now, after ``duration`` in service.

        Each request has one vote, whatever its ``width``.
        """
        self.window.observe(now, route, duration, outcome)

    def note(self, now: int, in_use: int, waiting: int, lag: int = 0) -> None:
        """Learn the seats in use and the requests that wait from now on, and how late the event loop is."""
        target = self.settings.lag_target_ns
        self.window.note(now, in_use, waiting, is_late=0 < target < lag)

    def decide(self, now: int) -> int:
        """Return the total from now on; call this every 50 ms or so."""
        if self._is_over(now):
            self._close(now)
        return self.limit

    def _is_over(self, now: int) -> bool:
        window, settings = self.window, self.settings
        elapsed = now - window.begin
        if elapsed < settings.least_window_ns:
            return False
        if elapsed >= settings.most_window_ns or window.troubles >= max(_TROUBLES, window.samples):
            return True
        if self._is_obvious():
            return True
        if elapsed < _LENGTHS * window.duration_ns:
            return False
        return window.samples >= self._needed() or window.unknown > window.samples or self._is_flat()

    def _is_obvious(self) -> bool:
        """Return whether durations changed by more than any try explains."""
        window = self.window
        if window.samples < _LEAST_SAMPLES:
            return False
        return window.mean - self._level > _JUMP + max(0.0, log(self.limit / self._center))

    def _is_flat(self) -> bool:
        """Return whether it is certain already that the try doesn't change durations: most are, where there is room."""
        samples = self.window.samples
        if self.limit == self._center or samples < _LEAST_SAMPLES:
            return False
        step = log(self.limit / self._center)
        error = 1.2 * self._spread / (sqrt(samples) * abs(step))
        return (self.window.mean - self._level) / step + 2 * error < _RELIEF

    def _needed(self) -> float:
        """Return how many samples make the elasticity of the present try sure enough."""
        if self.limit == self._center and self._is_measured:
            return max(_LEAST_SAMPLES, (self._spread / (_ERROR * max(_STEP, self._step))) ** 2)  # averaged later
        step = abs(log(self.limit / self._center)) or self._step
        return max(_LEAST_SAMPLES, 2 * (self._spread / (_ERROR * max(_STEP, step))) ** 2)

    def _close(self, now: int) -> None:
        seen = self.window.summary(now)
        if seen.samples >= _LEAST_SAMPLES:
            self._spread += 0.2 * (seen.spread - self._spread)
            # a step that can be judged within a second or two
            expected = seen.samples * _SOON_NS / max(1, now - self.window.begin)
            self._base = min(_MOST_BASE, max(_STEP, self._spread / (_ERROR * sqrt(expected / 2))))
        learns = False
        if not self._back_off(seen):
            if seen.samples < _LEAST_SAMPLES:
                self._return(LimitReason.SAMPLES)
                learns = True
            elif self.limit == self._center:
                learns = self._hold(seen)
            elif self.limit > self._center:
                self._judge_growth(seen)
            else:
                self._judge_cut(seen)
        self.window.restart(now, self._level, learns=learns)

    def _return(self, reason: LimitReason) -> None:
        self.limit = self._center
        self.reason = reason

    def _back_off(self, seen: WindowSummary) -> bool:
        """Cut the total if something says that there was too much; return whether the window says nothing else."""
        ended = max(1, seen.ended)
        if seen.refused > _TROUBLE * ended:
            reason = LimitReason.REFUSED
        elif seen.timed_out > _TROUBLE * ended:
            reason = LimitReason.TIMED_OUT
        elif seen.lagged > _PRESSED:
            reason = LimitReason.LAG
        elif seen.failed > _MOST_FAILURES * ended:
            self._return(LimitReason.FAILURES)
            return True
        else:
            return False
        if seen.in_use >= _PRESSED * self._center:
            self._move(int(_BACK_OFF * self._center))
            self._falls = False
            self._step = self._most_up = _DOUBLE
        self._return(reason)
        return True

    def _move(self, limit: int) -> None:
        """Take another center."""
        self._center = max(self.settings.floor, min(self.settings.ceiling, limit))
        self._slope = -1.0
        self._fall = -1.0
        self._pause = 0
        self._pauses = 0
        self._tries_up = 0

    def _hold(self, seen: WindowSummary) -> bool:
        """Learn the level of the present total and choose what to try; return whether routes may learn from it."""
        change = seen.level - self._level
        if abs(change) > max(_JUMP, 4 * seen.error):
            return self._jump(seen, change)
        if abs(change) > max(_CHANGED, 3 * seen.error):
            self._slope = self._fall = -1.0  # earlier tries don't compare
        if change > max(_SLOWER, 3 * seen.error):
            self._falls, self._pause, self._step = True, 0, 2 * self._base
        self._level += change / 2 if self._is_measured else change
        self._is_measured = True
        self.reason = LimitReason.MEASURED
        if seen.in_use < _OCCUPIED * self._center:
            self.reason = LimitReason.UNUSED
        elif self._pause > 0:
            self._pause -= 1
        elif seen.pressed >= _PRESSED:
            self._try(_DOWN if self._falls else self._most_up)
        elif seen.in_use >= _FULL * self._center:
            self._falls = True  # nobody waits, so nobody needs more, but these may be too many
            self._try(_DOWN)
        else:
            self.reason = LimitReason.UNUSED
        return True

    def _jump(self, seen: WindowSummary, change: float) -> bool:
        """Try a smaller total if requests take much longer than just now, whatever the reason."""
        if change > 0 and seen.in_use >= _OCCUPIED * self._center:
            self._usual, self._recovers = self._level, True
            self._level = seen.level
            self._falls = True
            self._step = min(change, _MOST_CUT)
            self._try(self._step)
            if self.limit != self._center:
                self.reason = LimitReason.SLOWER
            return False
        self._level = seen.level
        self._falls = False
        self._step = _UP
        self.reason = LimitReason.MEASURED
        return True

    def _try(self, most: float) -> None:
        """Try another total, a step away."""
        step = min(self._step, most)
        settings, center = self.settings, self._center
        if self._falls:
            wanted = max(settings.floor, min(center - 1, round(center * exp(-step))))
            self.reason = LimitReason.TRY_DOWN
        else:
            wanted = min(settings.ceiling, max(center + 1, round(center * exp(step))))
            self.reason = LimitReason.TRY_UP
        if wanted == center:
            self.reason = LimitReason.BOUND
            self._falls = not self._falls
        self.limit = wanted

    def _judge_growth(self, seen: WindowSummary) -> None:
        """Take the larger total unless it only made requests slower."""
        self._recovers = False
        step = log(self.limit / self._center)
        slope = self.elasticity = (seen.level - self._level) / step
        pooled = slope if self._slope < 0 or step > 1.5 * self._base else (slope + self._slope) / 2
        if pooled >= _ELASTICITY:
            self._fail(slope, step)
            return
        if seen.in_use < self._center * (1 - _STEP / 2):
            self._return(LimitReason.UNUSED)
            return
        self.reason = LimitReason.GREW
        if slope > _STEEP and step > 1.5 * self._base:
            self._most_up = _UP
            # The step passed the capacity. Throughput grew by the difference of the logarithms; so much was of use.
            self._move(max(self._center + 1, round(self._center * exp(step * (1 - slope)))))
            self._is_measured = False
            self._step = self._base
            self.limit = self._center
            return
        self._move(self.limit)
        self._level = seen.level
        self._step = self._most_up if slope < _STEEP else self._base
        if seen.pressed >= _PRESSED:
            self._try(self._most_up)
            self.reason = LimitReason.GREW

    def _fail(self, slope: float, step: float) -> None:
        """Go back, and try the other direction next."""
        self._slope = max(0.0, slope if self._slope < 0 else (slope + self._slope) / 2)
        self._return(LimitReason.NO_GAIN)
        self._most_up = _UP
        self._step = 2 * self._base if step > 1.5 * self._base else self._base
        self._tries_up += 1
        self._falls = self._tries_up % _TRIES_UP == 1 or self._fall > _STEEP
        self._pauses = min(_MOST_PAUSES, self._pauses + 1)
        self._pause = self._pauses - 1

    def _judge_cut(self, seen: WindowSummary) -> None:
        """Take the smaller total if it made requests faster."""
        step = log(self._center / self.limit)
        slope = self.elasticity = (self._level - seen.level) / step
        if seen.level - self._level > max(_SLOWER / 2, 4 * seen.error):
            # The server became slower meanwhile, so the two levels don't compare.
            self._usual, self._recovers = self._level, True
            self._move(self.limit)
            self._level = seen.level
            self._falls, self._step, self.reason = True, _MOST_CUT, LimitReason.SLOWER
            return
        is_large = step > 1.5 * self._base and self._center > self.limit + 1  # one seat can't be taken in part
        pooled = slope if self._fall < 0 or is_large else (slope + self._fall) / 2
        if seen.in_use < _OCCUPIED * self.limit or slope <= _UNSURE or (pooled <= _RELIEF and not is_large):
            self._return(LimitReason.NEEDED)
            self._recovers = self._falls = False
            self._step = self._base
            self._fall = max(0.0, pooled)
            return
        self.reason = LimitReason.SHRANK
        if pooled <= _RELIEF:
            # The step passed the capacity. So much of it made requests faster.
            self._move(min(self._center - 1, round(self._center * exp(-step * slope))))
            self._level = seen.level
            self._is_measured = False
            self._step = max(self._base, min(_DOWN, step / 2))
            self.limit = self._center
        elif is_large or self._step > self._base:
            self._move(self.limit)
            self._level = seen.level
            self._fall_further(min(_DOWN, 2 * self._step) if slope > _CLEAR else self._base)
        else:
            # Half of a small step leaves the total a little above the capacity: later tries downwards cost nothing.
            self._move(min(self._center - 1, round(self._center * exp(-step / 2))))
            self._level -= slope * step / 2
            self._fall_further(min(_DOWN, 2 * self._step) if slope > _CLEAR else self._base)

    def _fall_further(self, step: float) -> None:
        """Try an even smaller total; after a jump, one at which requests should take as long as before it."""
        excess = self._level - self._usual
        if not self._recovers:
            self._step = step
        elif excess > self._base:
            self._step = min(excess, _MOST_LATER_CUT)
        else:
            self._recovers = False
            self._step = self._base
            self._return(LimitReason.SHRANK)
            return
        self._try(_MOST_LATER_CUT)
        self.reason = LimitReason.SHRANK

    def __repr__(self) -> str:
        return f"<AdaptiveTotal: {self.limit} seats, {self.reason}>"
