"""How long the requests of one route usually take."""

from math import exp
from typing import Final

__all__ = ["NEWEST", "RouteReference"]

_LEARNED: Final = 10  # samples
_GAIN: Final = 0.2
_NEARLY: Final = 1.5  # so that a route which takes about as long as is typical counts in full
NEWEST: Final = 0.3
"""The part of the newest window in what is known of present durations."""


class RouteReference:
    """The mean of the logarithms of a route's durations, in nanoseconds; ``is_known`` after its first samples.

    Logarithms make all routes comparable: whatever slows all requests down adds the same to each of them. ``count`` and
    ``total`` are those of a window, which knows by ``window`` whether they are its own. ``present`` is the duration of
    recent windows, however slow all routes were, and ``weight`` that of a sample.
    """

    __slots__ = ("count", "is_known", "present", "squares", "total", "value", "weight", "window")

    def __init__(self) -> None:
        self.value: float = 0.0
        self.is_known: bool = False
        self.present: float = 0.0
        self.weight: float = 1.0
        self.window: int = -1
        self.count: int = 0
        self.total: float = 0.0
        self.squares: float = 0.0

    def learn(self, level: float) -> bool:
        """Move towards the samples of the window, of which all routes together were ``level`` above their references.

        The difference of the route from all routes is learnt, not their common slowness. As long as the mix of routes
        stays the same, this doesn't move the level. Return whether the route is known now.
        """
        if self.is_known:
            self.value += _GAIN * (self.total / self.count - level)
        elif self.count >= _LEARNED:
            self.value = self.total / self.count - level
            self.is_known = True
        return self.is_known

    def measure(self) -> float:
        """Return how long the requests of the window took, in nanoseconds, and learn from that how long they take."""
        duration = exp(self.value + self.total / self.count)
        self.present += (NEWEST if self.present else 1.0) * (duration - self.present)
        return duration

    def weigh(self, typical: float) -> None:
        """Set the ``weight`` of a sample, where the request on a random seat takes ``typical`` nanoseconds."""
        self.weight = min(1.0, _NEARLY * self.present / typical) if self.present and typical else 1.0

    @property
    def seconds(self) -> float:
        """The usual duration, without what slows all routes down."""
        return exp(self.value) / 1e9 if self.is_known else 0.0

    def __repr__(self) -> str:
        return f"<RouteReference: {self.seconds:.3g} s>" if self.is_known else "<RouteReference: unknown>"
