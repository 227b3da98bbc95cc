"""The bounds and times of a controller of the total of seats."""

from dataclasses import dataclass

from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError, require_integer

__all__ = ["MOST_TOTAL", "AdaptiveSettings"]

MOST_TOTAL = 1_000_000
"""The largest total of seats."""


@dataclass(frozen=True, slots=True)
class AdaptiveSettings(Value):
    """The total stays within ``floor`` and ``ceiling``, and begins with ``start``; 0 means the floor.

    The floor must not be below the guaranteed seats of all levels or below the widest request: otherwise promises
    break, and a request that never fits can't show that there is room. A decision rests on ``least_window_ns`` or more,
    and is postponed to at most ``most_window_ns``, or eight times what a request takes, while there are too few
    samples. ``lag_target_ns`` is the lateness of the event loop beyond which it is busy; 0 ignores lateness.
    """

    floor: int
    ceiling: int
    start: int = 0
    least_window_ns: int = 500_000_000
    most_window_ns: int = 10_000_000_000
    lag_target_ns: int = 0

    def __post_init__(self) -> None:
        require_integer("floor", self.floor, least=1, most=MOST_TOTAL)
        require_integer("ceiling", self.ceiling, least=1, most=MOST_TOTAL)
        require_integer("start", self.start, least=0, most=MOST_TOTAL)
        require_integer("least_window_ns", self.least_window_ns, least=1)
        require_integer("most_window_ns", self.most_window_ns, least=1)
        require_integer("lag_target_ns", self.lag_target_ns, least=0)
        if self.ceiling < self.floor:
            raise InvalidValueError("ceiling", self.ceiling, f"it must be at least the floor, {self.floor}")
        if self.start and not self.floor <= self.start <= self.ceiling:
            rule = f"it must be 0 or from the floor, {self.floor}, to the ceiling, {self.ceiling}"
            raise InvalidValueError("start", self.start, rule)
        if self.most_window_ns < self.least_window_ns:
            rule = f"it must be at least least_window_ns, {self.least_window_ns}"
            raise InvalidValueError("most_window_ns", self.most_window_ns, rule)
