"""Measures of fairness: the max-min fair division, and Jain's index of how equal amounts are."""

import math
from collections.abc import Sequence

from apf_middleware.exceptions import require_amount

__all__ = ["jain_index", "max_min_fair"]


def max_min_fair(capacity: float, demands: Sequence[float]) -> list[float]:
    """Return the max-min fair shares of ``capacity``, in the order of ``demands``.

    Small demands are met in full; the others share the rest equally, so that no share can grow except at the cost of
    one that is no larger.
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
    """Return Jain's index: 1 when all amounts are equal, 1/n when one has everything, NaN when all are zero."""
    squares = math.fsum(amount * amount for amount in amounts)
    return math.fsum(amounts) ** 2 / (len(amounts) * squares) if squares else math.nan
