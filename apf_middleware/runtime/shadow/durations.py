"""The durations of requests that the real server doesn't run to the end, as similar requests have taken."""

from typing import Final

from apf_middleware.bounded_cache import BoundedCache
from apf_middleware.compilation import mypyc_attr

__all__ = ["MeanDuration", "TypicalDurations"]

_MOST_ROUTES: Final = 1024


class MeanDuration:
    """The mean of ``number`` durations, which are ``total`` nanoseconds together."""

    __slots__ = ("number", "total")

    def __init__(self) -> None:
        self.number: int = 0
        self.total: int = 0

    @property
    def mean_ns(self) -> int | None:
        """The mean; None as long as there are no durations."""
        return self.total // self.number if self.number else None

    def __repr__(self) -> str:
        return f"<MeanDuration of {self.number}: {self.mean_ns} ns>"


@mypyc_attr(allow_interpreted_subclasses=True)
class TypicalDurations:
    """The mean durations of recent routes, and of ``all`` requests."""

    __slots__ = ("_by_route", "all")

    def __init__(self) -> None:
        self._by_route: BoundedCache[str, MeanDuration] = BoundedCache(_MOST_ROUTES)
        self.all: MeanDuration = MeanDuration()

    def of(self, route: str | None) -> MeanDuration:
        """Return the mean duration of a route; None is a route of its own."""
        key = route or ""
        found = self._by_route.get(key)
        if found is None:
            found = MeanDuration()
            self._by_route.put(key, found)
        return found

    def observe(self, of_route: MeanDuration, lasted_ns: int) -> None:
        """Learn from a request that the real server has run."""
        of_route.number += 1
        of_route.total += lasted_ns
        of_all = self.all
        of_all.number += 1
        of_all.total += lasted_ns

    def guess(self, of_route: MeanDuration) -> int:
        """Return the mean duration of a route, or of all requests; 0 as long as no request has ended."""
        found = of_route.mean_ns
        if found is None:
            found = self.all.mean_ns
        return 0 if found is None else found

    def __repr__(self) -> str:
        return f"<TypicalDurations: {len(self._by_route)} routes, all {self.all!r}>"
