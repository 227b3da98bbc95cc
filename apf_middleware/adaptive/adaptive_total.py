"""The controller of the total of seats: it tries a few more or fewer, and keeps what completes more or waits less.

With n requests in service, throughput X and duration T, n = X·T. Where the server has room, one more request in service
costs the others nothing: T stays, X grows. Beyond its capacity X stays, and T grows as n does. The elasticity of T,
d log T ÷ d log n, is 0 on one side and 1 on the other. Its value doesn't depend on how long requests take, so nothing
has to be remembered about an idle server: the durations just before are the baseline, whatever they are.

The controller measures the durations with the total as it is, then with a few more seats, and takes these if the
elasticity is small. Sometimes it measures with a few less, and takes those if the elasticity is large; seldom once such
tries have shown that all are needed. A result makes the next step larger, a failure undoes it. The larger a step is,
the fewer samples show its effect, so the search begins with large ones. While no request waits, the seats in use count
as the present total. When durations jump although the total is the same, either the capacity is less, or the requests
are longer: fewer seats are tried, and kept only if that makes requests faster. When durations fall by as much, more
seats are tried. A try that makes requests faster by more than it explains is repeated, since something else may have
done so. The first window may show only short requests; then durations jump after the first try, and the search begins
anew.

Levels are promised whole seats of the total, also while they are idle. So n is not the total, but the part of it that
requests could use while others waited.
"""

from math import copysign, exp, inf, log, sqrt
from typing import Final

from apf_middleware.adaptive.limit_reason import LimitReason
from apf_middleware.adaptive.request_outcome import RequestOutcome
from apf_middleware.adaptive.sample_window import SampleWindow
from apf_middleware.adaptive.settings import AdaptiveSettings
from apf_middleware.adaptive.window_summary import WindowSummary

__all__ = ["AdaptiveTotal"]

# Elasticities
_ELASTICITY: Final = 0.85  # below this, more seats are worth it
_RELIEF: Final = 0.75  # above this, fewer seats are worth it
_STEEP: Final = 0.45  # above this, a large step upwards went too far,
_EXCESS: Final = 0.25  # or if more than this of the step, a logarithm, was of no use
_UNSURE: Final = 0.5  # up to this, one try downwards is enough to show that the seats are needed
_CLEAR: Final = 0.9  # above this, a larger step downwards follows
_ERROR: Final = 0.2  # the standard error on which a decision rests
_DOUBT: Final = 1.5  # how many times a larger error lowers the elasticity at which more seats are taken
_ODDS: Final = 0.6  # elasticities that differ by more aren't of the same server

# Steps, as logarithms of the total
_STEP: Final = 0.1  # the smallest
_MOST_BASE: Final = 0.3  # the largest of those that a search begins with
_MODERATE: Final = 0.4  # the largest step downwards, and the second one upwards where there is room
_LARGE: Final = 0.25
_DOUBLE: Final = 0.7  # the largest step upwards; at first, or after a refusal, also downwards
_QUADRUPLE: Final = 1.4  # at first, from a total of few seats on
_FEW: Final = 10  # seats
_MOST_CUT: Final = 0.7  # after a jump
_MOST_LATER_CUT: Final = 1.2  # once a cut has helped

# Changes of the level while the total stays the same
_CHANGED: Final = 0.15  # beyond this, earlier tries don't compare
_SLOWER: Final = 0.4  # beyond this, fewer seats are tried next, or more if requests became faster
_JUMP: Final = 0.5  # beyond this, far fewer seats are tried at once

# The samples of a window, and its time
_LEAST_SAMPLES: Final = 20
_LEAST_FAR_SAMPLES: Final = 12  # enough for the large steps at first
_OBVIOUS_SAMPLES: Final = 30  # enough to see a jump before the end of the window
_PLENTY: Final = 4  # times the least samples; windows needn't last longer than usual
_MOST_PATIENCE: Final = 8  # how many times longer than usual a window may last if too few requests end
_LENGTHS: Final = 5  # how many times the duration of requests a window lasts at least
_MOST_LENGTHS: Final = 8  # how many times that it may last at least, also if too few requests end
_LARGE_LENGTHS: Final = 3.5  # in a large step, whose effect exceeds that of the few long requests that are missed
_SOON_NS: Final = 3_000_000_000  # the time in which a base step can be judged

# Parts of a window's time, of its total or of its requests
_PRESSED: Final = 0.5  # requests wait, the event loop is late, or seats are in use
_OCCUPIED: Final = 0.8  # from this on, the seats in use count as the total
_TROUBLE: Final = 0.05  # of the requests that ended; beyond this, there were too many seats
_TROUBLES: Final = 10  # requests in trouble that end a window
_MOST_FAILURES: Final = 0.25  # beyond this, the window says nothing
_BACK_OFF: Final = 0.8  # the factor of the total after trouble

# Windows between tries
_MOST_PAUSES: Final = 2
_TRIES_UP: Final = 3  # for each one downwards
_TRIES_PROVEN: Final = 9  # instead, while durations are as they were when the total was found to be needed


class AdaptiveTotal:
    """Decide how many seats the server has; ``limit`` is the present total, ``reason`` that of the last decision.

    ``elasticity`` is the one that the last try measured.
    """

    def __init__(self, settings: AdaptiveSettings, now: int = 0) -> None:
        self.settings = settings
        self.limit: int = settings.start or settings.floor
        self.reason: LimitReason = LimitReason.START
        self.elasticity: float | None = None
        self.window: SampleWindow = SampleWindow(now)
        self._center = self.limit  # what holds unless a try succeeds
        self._used = self.limit  # the seats in use with it
        self._usable = 1.0  # the part of it that requests could use while others waited
        self._level = 0.0  # of durations with it
        self._weight = 0.0  # the samples that the level rests on
        self._usual = 0.0  # the level before a jump
        self._recovers = False  # from a jump
        self._spread = 0.5
        self._step = _QUADRUPLE
        self._is_far = True  # from the capacity, as far as is known
        self._base = _STEP
        self._falls = False  # the direction of the next try
        self._slope = -1.0  # of recent tries upwards from here; negative if there was none
        self._fall = -1.0  # of recent tries downwards from here
        self._proven = -inf  # the level at which this total was found to be needed
        self._patience = 1  # times the longest window
        self._pauses = 0  # windows to wait before the next try
        self._pause = 0
        self._turns = 0  # windows since then in which a try downwards was possible
        self._is_confirmed = False  # that requests take as long as in the first window
        self._refuted = inf  # if the level of the center is above this, the last failed try was a success
        self._is_repeated = False  # the present try, because the result of the last one was in doubt

    def observe(self, now: int, route: str, duration: int, outcome: RequestOutcome) -> None:
        """Learn from a request for ``route`` that ends now, after ``duration`` in service.

        Its vote weighs as much as it is long, up to a quarter of what is typical, however many seats it has.
        """
        self.window.observe(now, route, duration, outcome)

    def note(self, now: int, in_use: int, waiting: int, lag: int = 0, usable: float = 1.0) -> None:
        """Learn the seats in use and the requests that wait from now on, and how late the event loop is.

        ``usable`` is the part of the total that can be used, where levels have promises (see `SeatUse`).
        """
        target = self.settings.lag_target_ns
        self.window.note(now, in_use, waiting, usable=usable, is_late=0 < target < lag)

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
        longest = max(settings.most_window_ns, _MOST_LENGTHS * window.duration_ns)
        if elapsed >= self._patience * longest or window.troubles >= max(_TROUBLES, window.succeeded):
            return True
        if self._is_obvious():
            return True
        step = self._tried() or self._step
        if elapsed < (_LARGE_LENGTHS if abs(step) > _LARGE else _LENGTHS) * window.duration_ns:
            return False
        votes = self._votes(step)
        if self.limit == self._center:
            return window.samples + window.unknown >= max(self._least_samples, votes / 2, votes - self._weight)
        return window.samples >= votes or window.is_new or self._is_clear()

    @property
    def _least_samples(self) -> int:
        return _LEAST_FAR_SAMPLES if self._is_far else _LEAST_SAMPLES

    def _tried(self) -> float:
        """Return the logarithm by which the present total differs from the seats that were in use before the try."""
        return log(self.limit / self._used) if self.limit != self._center else 0.0

    def _moved(self, total: int, usable: float) -> float:
        """Return the logarithm of the seats that requests can use to those before the try; 0 if they hardly changed.

        The levels' limits are whole numbers, so that one more seat in total may be none, or two, for those who wait.
        """
        moved = log(total * (usable or self._usable) / (self._used * self._usable))
        return moved if moved * copysign(1.0, self._tried()) > _STEP / 2 else 0.0

    def _is_obvious(self) -> bool:
        """Return whether durations changed by more than any try explains."""
        window = self.window
        if window.samples < _OBVIOUS_SAMPLES:
            return False
        return window.mean - self._level > _JUMP + max(0.0, self._tried())

    def _is_clear(self) -> bool:
        """Return whether it is certain already that the try is of no effect, or that more seats only slow requests."""
        samples = self.window.samples
        if samples < self._least_samples:
            return False
        step = self._moved(self.limit, self.window.usable)
        if not step:
            return False
        elasticity, error = (self.window.mean - self._level) / step, self._error(samples, abs(step))
        # Surer of the latter: at a gradual knee, chance would stop the growth too early.
        return elasticity + 2 * error < _RELIEF or (step > 0 and elasticity - 4 * error > _STEEP)

    def _error(self, samples: float, step: float) -> float:
        """Return the standard error of the elasticity between ``samples`` and those of the center."""
        return self._spread * sqrt(1 / samples + 1 / self._weight) / step

    def _votes(self, step: float) -> float:
        """Return how many samples of each of two totals make the elasticity between them sure enough."""
        return max(self._least_samples, 2 * (self._spread / (_ERROR * max(_STEP, abs(step)))) ** 2)

    def _close(self, now: int) -> None:
        is_new = self.window.is_new
        if is_new and self.limit == self._center:
            self.window.adopt()
        seen = self.window.summary(now)
        if seen.samples >= self._least_samples:
            if seen.samples > _PLENTY * self._least_samples:
                self._patience = 1
            self._spread += 0.2 * (seen.spread - self._spread)
            # a step that can be judged within a few seconds
            expected = seen.ended * _SOON_NS / (now - self.window.begin)
            self._base = min(_MOST_BASE, max(_STEP, self._spread / (_ERROR * sqrt(expected / 2))))
        learns = False
        if not self._back_off(seen):
            if seen.samples < self._least_samples or (is_new and self.limit != self._center):
                learns = self.limit == self._center
                self._wait_for_samples(seen)
            elif self.limit == self._center:
                learns = self._hold(seen)
            elif self._is_doubtful(seen):
                self._return(LimitReason.MEASURED)
            elif self.limit > self._center:
                self._judge_growth(seen)
            else:
                self._judge_cut(seen)
        self.window.restart(now, self._level, learns=learns)

    def _return(self, reason: LimitReason) -> None:
        self.limit = self._center
        self.reason = reason

    def _wait_for_samples(self, seen: WindowSummary) -> None:
        """Go back, and let the next window last longer if requests waited, but too few ended."""
        self._return(LimitReason.SAMPLES)
        self._patience = min(_MOST_PATIENCE, 2 * self._patience) if seen.pressed >= _PRESSED else 1

    def _back_off(self, seen: WindowSummary) -> bool:
        """Cut the total if something says that there was too much; return whether the window says nothing else."""
        ended = seen.ended
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
            self._search_from(int(_BACK_OFF * self._center))
        self._return(reason)
        return True

    def _take(self, seen: WindowSummary) -> None:
        """Take what the window showed for what holds with the center."""
        self._level, self._weight, self._usable = seen.level, seen.samples, seen.usable or self._usable

    def _move(self, limit: int) -> None:
        """Take another center."""
        self._center = self._used = max(self.settings.floor, limit)
        self._slope = -1.0
        self._fall = -1.0
        self._proven = -inf
        self._pause = 0
        self._pauses = 0
        self._turns = 0
        self._is_confirmed = True

    def _search_from(self, limit: int) -> None:
        """Take another center, and begin with large steps upwards."""
        self._move(limit)
        self._falls = False
        self._step, self._is_far = _QUADRUPLE, True

    def _hold(self, seen: WindowSummary) -> bool:
        """Learn the level of the present total and choose what to try; return whether routes may learn from it."""
        change = seen.level - self._level
        if abs(change) > max(_JUMP, 4 * seen.error):
            is_wrong_start = not self._is_confirmed and seen.level > self._refuted
            return self._start_again(seen) if is_wrong_start else self._jump(seen, change)
        self._is_confirmed = self._is_confirmed or self._weight > 0
        if abs(change) > max(_CHANGED, 3 * seen.error):
            self._slope = self._fall = -1.0  # earlier tries don't compare
            self._proven = -inf
            self._turns = 0
        if abs(change) > max(_SLOWER, 3 * seen.error):
            self._falls, self._pause, self._step = change > 0, 0, 2 * self._base
        weight = min(self._weight, seen.samples)
        self._weight = weight + seen.samples
        self._level += change * seen.samples / self._weight
        self._usable += ((seen.usable or self._usable) - self._usable) * seen.samples / self._weight
        self.reason = LimitReason.MEASURED
        is_pressed = seen.pressed >= _PRESSED
        self._used = self._center if is_pressed else min(self._center, round(seen.in_use))
        if self._used < _OCCUPIED * self._center:
            self.reason = LimitReason.UNUSED
        elif self._pause > 0:
            self._pause -= 1
        elif is_pressed:
            self._try(self._most_down if self._falls else self._most_up)
        elif not self._is_proven():
            self._turn_downwards()
            self._try(self._most_down)
        else:
            self.reason = LimitReason.UNUSED
        return True

    def _start_again(self, seen: WindowSummary) -> bool:
        """Search anew: in the first window only requests of another kind had ended, say short ones."""
        self._search_from(self._center)
        self.elasticity = None
        self._take(seen)
        self.reason = LimitReason.MEASURED
        if seen.pressed >= _PRESSED:
            self._try(self._most_up)
        return False

    def _turn_downwards(self) -> None:
        """Try fewer seats next: no request waits for more, and these may be too many, perhaps far too many."""
        self._falls = True
        self._step = max(self._step, 2 * self._base)

    def _is_turn(self) -> bool:
        """Return whether the next try should be one downwards: seldom if the last one found that all are needed."""
        self._turns += 1
        return self._turns % (_TRIES_PROVEN if self._is_proven() else _TRIES_UP) == 1

    def _is_proven(self) -> bool:
        """Return whether requests take as long as when all of the total was found to be needed."""
        return self._level < self._proven + self._base / 2

    def _jump(self, seen: WindowSummary, change: float) -> bool:
        """Try a smaller total if requests take much longer than just now, whatever the reason."""
        if change > 0 and seen.in_use >= _OCCUPIED * self._center:
            self._remember()
            self._take(seen)
            self._falls = True
            self._step = min(change, _MOST_CUT)
            self._try(self._step)
            if self.limit != self._center:
                self.reason = LimitReason.SLOWER
            return False
        self._take(seen)
        self._falls = False
        self._step = _MODERATE
        self.reason = LimitReason.MEASURED
        return True

    def _remember(self) -> None:
        """Remember the level before a jump; one that goes on has begun before."""
        if not self._recovers:
            self._usual, self._recovers = self._level, True

    def _try(self, most: float) -> None:
        """Try another total, a step away."""
        step = min(self._step, most)
        settings, used = self.settings, self._used
        is_at_bound = used <= settings.floor if self._falls else used >= settings.ceiling
        if is_at_bound:
            self._return(LimitReason.BOUND)
            self._falls, self._step = not self._falls, self._base
        elif self._falls:
            self.limit = max(settings.floor, min(used - 1, round(used * exp(-step))))
            self.reason = LimitReason.TRY_DOWN
        else:
            self.limit = min(settings.ceiling, max(used + 1, round(used * exp(step))))
            self.reason = LimitReason.TRY_UP

    def _is_doubtful(self, seen: WindowSummary) -> bool:
        """Return whether this try must be repeated, because requests became faster by more than it explains.

        Before that, the present total is measured again, which shows whether something else made them faster. A
        repeated try counts. So does a cut after a jump, which may have such effects.
        """
        step, change = self._tried(), seen.level - self._level
        is_large = change < -max(_JUMP - min(0.0, step), 4 * seen.error)
        self._is_repeated = is_large and not (self._is_repeated or (self._recovers and step < 0))
        return self._is_repeated

    def _judge_growth(self, seen: WindowSummary) -> None:
        """Take the larger total unless it only made requests slower."""
        self._recovers = False
        reached = self.limit if seen.in_use >= _OCCUPIED * self.limit else round(seen.in_use)
        if reached < self._center * (1 + _STEP / 2):
            if reached >= self._center and not self._is_proven():
                self._turn_downwards()
            self._return(LimitReason.UNUSED)
            return
        step = self._moved(reached, seen.usable)
        if not step:
            self._step = 2 * self._tried()
            self._return(LimitReason.UNUSED)
            return
        slope = self.elasticity = (seen.level - self._level) / step
        is_large = step > _LARGE
        pooled = slope if is_large else _pooled(slope, self._slope)
        error = self._error(seen.samples, step)
        if pooled >= _ELASTICITY - _DOUBT * max(0.0, error - _ERROR):
            self._refuted = seen.level - _STEEP * step
            self._fail(slope, self._tried())
            return
        if is_large and (slope > _STEEP or slope * step > _EXCESS):
            self._is_far = False
            # The step passed the capacity. Throughput grew by the difference of the logarithms: that part was of use.
            self._move(max(self._center + 1, round(self._center * (reached / self._center) ** (1 - slope))))
            self._weight = 0.0
            self._step = self._base
            self._return(LimitReason.GREW)
            return
        self._move(reached)
        self._take(seen)
        self._return(LimitReason.GREW)
        has_room = slope < _STEEP and slope * step < _STEP + error * step
        self._step = min(self._most_up, max(_MODERATE, 2 * step)) if has_room else self._base
        if slope + 2 * error < _UNSURE:
            self._turns = 1  # these seats were of use, so there is no hurry to try fewer
        if seen.pressed >= _PRESSED and self._weight >= self._votes(self._step) / 2:
            self._try(self._most_up)
            self.reason = LimitReason.GREW

    def _fail(self, slope: float, step: float) -> None:
        """Go back, and try the other direction next."""
        self._slope = max(0.0, _pooled(slope, self._slope))
        self._return(LimitReason.NO_GAIN)
        self._is_far = False
        self._step = max(self._base, min(_MODERATE, step / 2))
        self._falls = self._is_turn()
        self._pauses = min(_MOST_PAUSES, self._pauses + 1)
        self._pause = self._pauses - 1

    def _judge_cut(self, seen: WindowSummary) -> None:
        """Take the smaller total if it made requests faster."""
        if seen.level - self._level > max(_SLOWER / 2, 4 * seen.error):
            # The server became slower meanwhile, so the two levels don't compare.
            self._remember()
            self._move(self.limit)
            self._take(seen)
            self._falls, self._step, self.reason = True, _MOST_CUT, LimitReason.SLOWER
            return
        step = -self._moved(self.limit, seen.usable)
        if not step:
            self._step = -2 * self._tried()
            self._falls = self._step <= self._most_down and self.limit > self.settings.floor
            self._return(LimitReason.NEEDED)
            return
        is_coarse = self._recovers or self.elasticity is None  # the level is that of a change, or of a start
        slope = self.elasticity = (self._level - seen.level) / step
        is_large = step > _LARGE and self._used > self.limit + 1  # one seat can't be taken in part
        pooled = slope if is_large else _pooled(slope, self._fall)
        if is_large and (self._is_far or self._recovers):
            is_needed = slope * step <= max(_STEP, 2 * seen.error)
        else:
            is_needed = slope <= _UNSURE or (pooled <= _RELIEF and not is_large)
        if is_needed or seen.in_use < _OCCUPIED * self.limit:
            self._return(LimitReason.NEEDED)
            self._falls = is_large and self._is_far  # a smaller step may succeed
            self._step = max(self._base, min(_MODERATE, step / 2)) if self._falls else self._base
            self._recovers = self._recovers and slope < -_UNSURE  # it may still become slower
            self._is_far = False
            is_repeated = self._fall >= 0
            self._fall = max(0.0, pooled)
            if is_repeated and pooled + self._error(seen.samples, step) <= _RELIEF:
                self._proven = self._level
            else:
                self._turns = 0
            return
        self._shrink(seen, step, pooled, is_large=is_large, is_coarse=is_coarse)

    def _shrink(self, seen: WindowSummary, step: float, slope: float, *, is_large: bool, is_coarse: bool) -> None:
        """Take the smaller total, or a part of the step, and try an even smaller one."""
        if slope <= _RELIEF and not is_coarse:
            # The step passed the capacity. Only this part of it made requests faster.
            self._move(min(self._used - 1, round(self._used * exp(self._tried() * slope))))
            self._level, self._weight = seen.level, 0.0
            self._step, self._falls, self._is_far = self._base, False, False
            self._return(LimitReason.SHRANK)
            return
        if is_large or is_coarse or self._step > self._base:
            self._move(self.limit)
            self._take(seen)
        else:
            # Half of a small step leaves the total a little above the capacity: later tries downwards cost nothing.
            self._move(min(self._used - 1, round(self._used * exp(self._tried() / 2))))
            self._level -= slope * step / 2
        self._fall_further(min(self._most_down, 2 * self._step) if slope > _CLEAR or is_coarse else self._base)

    @property
    def _most_up(self) -> float:
        return _QUADRUPLE if self._is_far and self._center < _FEW else _DOUBLE

    @property
    def _most_down(self) -> float:
        return _DOUBLE if self._is_far else _MODERATE

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


def _pooled(elasticity: float, earlier: float) -> float:
    """Return the mean with that of earlier tries, unless there were none or the server has changed."""
    return elasticity if earlier < 0 or abs(elasticity - earlier) > _ODDS else (elasticity + earlier) / 2
