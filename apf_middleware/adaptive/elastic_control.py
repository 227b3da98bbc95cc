"""The controller of elastic levels: while the event loop is later than its target, they get fewer seats.

The rule is additive increase, multiplicative decrease. How late one more request makes the loop differs by orders of
magnitude from app to app, and a rule with a gain (PI) has to know it; this one finds the right number of seats from any
start, and shares it fairly among several levels. A cut is made as soon as two probes since the last change were late,
since what is late now is felt now. Growth waits until the loop has been in time for a while, and for longer each time
after it was too much.
"""

from collections.abc import Mapping
from typing import Final

from apf_middleware.adaptive.elastic_cap import ElasticCap
from apf_middleware.adaptive.lag_window import LagWindow
from apf_middleware.exceptions import require_integer

__all__ = ["ElasticControl"]

_CUT_EVERY_NS: Final = 500_000_000
_GROW_EVERY_NS: Final = 2_000_000_000
_MOST_PAUSE: Final = 8
_LATE_SHARE: Final = 0.01  # the target is a 99th percentile
_LATE_PROBES: Final = 2  # one alone may be a collection of garbage
_LEAST_PROBES: Final = 5


class ElasticControl:
    """Decide the caps of ``levels``, by name, so that the event loop's 99th percentile stays below ``target_ns``."""

    def __init__(self, target_ns: int, now: int = 0) -> None:
        self.target_ns: int = require_integer("target_ns", target_ns, least=1)
        self.levels: dict[str, ElasticCap] = {}
        self.window: LagWindow = LagWindow()  # of the probes since the last change
        self._changed_at = now
        self._calm_since = now  # or since the last growth was due
        self._pause = 1  # the time before growth, in units of `_GROW_EVERY_NS`
        self._grew = 0  # times since the last cut

    @property
    def caps(self) -> Mapping[str, int]:
        """The caps of the levels that have one."""
        return {name: level.cap for name, level in self.levels.items() if level.cap is not None}

    def adopt(self, limits: Mapping[str, tuple[int, int, int]]) -> None:
        """Control these levels from now on; each has a min, nominal seats and a max."""
        before, self.levels = self.levels, {}
        for name, (least, nominal, most) in limits.items():
            level = before.get(name)
            if level is None:
                level = ElasticCap(least, nominal, most)
            else:
                level.resize(least, nominal, most)
            self.levels[name] = level

    def decide(self, now: int, gap_ns: int, lag_ns: int) -> bool:
        """Decide after a probe (see `LagWindow`); return whether any cap is another one now."""
        window, target = self.window, self.target_ns
        window.observe(now, gap_ns, lag_ns)
        if window.count_above(target) >= _LATE_PROBES and window.share_above(target) > _LATE_SHARE:
            self._calm_since = now
            return self._cut(now)
        calm_ns = now - self._calm_since
        pause_ns = self._pause * _GROW_EVERY_NS
        if calm_ns < pause_ns or len(window) < _LEAST_PROBES:
            return False
        # more than one step only after a rest, when no requests came
        return self._grow(now, calm_ns // pause_ns)

    def _cut(self, now: int) -> bool:
        if now - self._changed_at < _CUT_EVERY_NS:
            return False
        has_changed = False
        for level in self.levels.values():
            has_changed |= level.cut()
        if not has_changed:
            return False
        if self._grew:
            # Growth was too much, so the next try comes later; several steps that did no harm make it come sooner.
            self._pause = max(1, min(_MOST_PAUSE, 2 * self._pause if self._grew <= 2 else self._pause // 2))
        self._grew = 0
        self._changed_at = now
        self.window.restart()
        return True

    def _grow(self, now: int, steps: int) -> bool:
        has_changed = False
        for level in self.levels.values():
            has_changed |= level.grow(steps)
        self._calm_since = now
        if has_changed:
            self._changed_at = now
            self._grew += 1
            self.window.restart()
        return has_changed

    def __repr__(self) -> str:
        return f"<ElasticControl: {self.levels}>"
