"""What a window of time showed."""

from math import sqrt
from typing import NamedTuple

__all__ = ["WindowSummary"]


class WindowSummary(NamedTuple):
    """Means of a window.

    ``level`` is the mean of the logarithms of durations above the references of their routes, ``spread`` its standard
    deviation, over ``samples``. ``in_use`` is the mean of the seats in use, and ``pressed`` the part of the time in
    which requests waited. Then the part ``usable`` of the total could be used; it is 0 if that isn't known.
    """

    samples: float
    level: float
    spread: float
    in_use: float
    usable: float
    pressed: float
    lagged: float
    succeeded: int
    failed: int
    timed_out: int
    refused: int

    @property
    def error(self) -> float:
        """The standard error of the level."""
        return self.spread / sqrt(self.samples) if self.samples else 0.0

    @property
    def ended(self) -> int:
        """All requests that ended."""
        return self.succeeded + self.failed + self.timed_out + self.refused
