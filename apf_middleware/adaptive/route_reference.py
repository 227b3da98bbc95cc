"""How long the requests of one route usually take."""

from math import exp
from typing import Final

__all__ = ["RouteReference"]

_LEARNED: Final = 10  # samples
_GAIN: Final = 0.2


class RouteReference:
    """The mean of the logarithms of a route's durations, in nanoseconds; ``is_known`` after its first samples.

    Logarithms make all routes comparable: whatever slows all requests down adds the same to each of them. ``count``,
    ``weight`` and ``total`` are those of the samples of a window, which knows by ``window`` whether they are its own.
    """

    __slots__ = ("count", "is_known", "squares", "total", "value", "weight", "window")

    def __init__(self) -> None:
        self.value: float = 0.0
        self.is_known: bool = False
        self.weight: float = 0.0
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
            self.value += _GAIN * (self.total / self.weight - level)
        elif self.count >= _LEARNED:
            self.value = self.total / self.weight - level
            self.is_known = True
        return self.is_known

    @property
    def seconds(self) -> float:
        """The usual duration, without what slows all routes down."""
        return exp(self.value) / 1e9 if self.is_known else 0.0

    def __repr__(self) -> str:
        return f"<RouteReference: {self.seconds:.3g} s>" if self.is_known else "<RouteReference: unknown>"
