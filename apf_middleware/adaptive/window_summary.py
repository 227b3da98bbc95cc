"""What a window of time showed."""

from math import sqrt
from typing import NamedTuple

__all__ = ["WindowSummary"]


class WindowSummary(NamedTuple):
    """Means of a window.

    ``level`` is the mean of the logarithms of durations above the references of their routes, ``spread`` its standard
    deviation, over ``samples``. Of the total, the part ``usable`` wasn't promised to idle levels; ``occupied`` is the
    mean of the seats in use ÷ ``usable``, and ``pressed`` is the part of the time in which somebody waited.
    """

    samples: int
    level: float
    spread: float
    occupied: float
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
