"""Yardsticks: what a fair division would be, and how far from it something is."""

import math
from collections.abc import Sequence

from apf_middleware.exceptions import require_amount

__all__ = ["jain_index", "max_min_fair"]


def max_min_fair(capacity: float, demands: Sequence[float]) -> list[float]:
    """Capacity divided so that nobody can get more but at the cost of one who has no more.

    Small demands are met in full; the others share what is left equally. In the order of ``demands``.
    """
    require_amount("capacity", capacity)
    shares = [0.0] * len(demands)
    left, unserved = capacity, len(demands)
    for place in sorted(range(len(demands)), key=demands.__getitem__):
        require_amount(f"demands[{place}]", demands[place])
        shares[place] = min(demands[place], left / unserved)
        left -= shares[place]
        unserved -= 1
    return shares


def jain_index(amounts: Sequence[float]) -> float:
    """Jain's index: 1 when all amounts are equal, 1/n when one has everything; NaN when there is nothing at all."""
    squares = math.fsum(amount * amount for amount in amounts)
    return math.fsum(amounts) ** 2 / (len(amounts) * squares) if squares else math.nan
