"""The moments at which the fair share of queues with weights rose.

A queue of weight w that has had a constant number of seats falls behind, or catches up, at a rate that depends on the
fair share and on w. So its shortfall may have been zero at any rise, and `rise_log`, which looks at whole numbers of
seats, doesn't tell at which. Here a rise is a point (time, r), and the question is which of the latest points is the
lowest above a line through the origin. It is a corner of their lower convex hull. The hulls are kept for blocks of 1,
2, 4, … points, so that any number of the latest points consists of O(log n) blocks. Each point is added to O(log n)
hulls; a question takes O(log**2 n).
"""

from typing import Final

from apf_middleware.fairqueuing.work import GRAIN_BITS, WEIGHT_BITS

__all__ = ["RiseHulls"]

_RATE_BITS: Final = GRAIN_BITS + WEIGHT_BITS  # to grains, for a weight in units of `WEIGHT_ONE`


class RiseHulls:
    """The rises since ``epoch``, and hulls of them."""

    __slots__ = ("_levels", "count", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch: int = epoch
        self.count: int = 0
        self._levels: list[list[list[tuple[int, int]]]] = []  # by level k and number: the hulls of 2**k points each

    def add(self, r: int, now: int) -> None:
        """Add a rise at ``now``, with this ``r``."""
        self.count += 1
        hull, level = [(now - self.epoch, r)], 0
        while True:
            if level == len(self._levels):
                self._levels.append([])
            hulls = self._levels[level]
            hulls.append(hull)
            if len(hulls) % 2:
                return
            hull, level = _merged(hulls[-2], hull), level + 1

    def least(self, seats: int, weight: int, since: int) -> int | None:
        """Return the least ``r - seats * (now - epoch) / weight``, in grains, of the rises from number ``since`` on."""
        least: int | None = None
        number = since
        while number < self.count:
            level = len(self._levels) - 1
            while number & ((1 << level) - 1) or number + (1 << level) > self.count:
                level -= 1
            value = _lowest(self._levels[level][number >> level], seats, weight)
            if least is None or value < least:
                least = value
            number += 1 << level
        return None if least is None else least // weight

    def clear(self, epoch: int) -> None:
        """Forget all rises, once each queue has read them; the next ones are counted from this ``epoch``."""
        self.epoch = epoch
        self.count = 0
        self._levels.clear()


def _merged(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the lower hull of two hulls, the points of which are in the order of time."""
    hull: list[tuple[int, int]] = []
    for x, y in (*left, *right):
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2], hull[-1]
            if (x1 - x0) * (y - y0) > (y1 - y0) * (x - x0):
                break
            hull.pop()  # it isn't below the line from the one before it to this one
        hull.append((x, y))
    return hull


def _lowest(hull: list[tuple[int, int]], seats: int, weight: int) -> int:
    """Return the least ``r * weight - seats * time`` of the hull; its values fall and then rise."""
    low, high = 0, len(hull) - 1
    while low < high:
        middle = (low + high) // 2
        if _height(hull[middle + 1], seats, weight) < _height(hull[middle], seats, weight):
            low = middle + 1
        else:
            high = middle
    return _height(hull[low], seats, weight)


def _height(point: tuple[int, int], seats: int, weight: int) -> int:
    elapsed, r = point
    return r * weight - (seats * elapsed << _RATE_BITS)
