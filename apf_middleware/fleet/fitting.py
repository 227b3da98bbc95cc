"""Fit the members' shares of some levels into their parts of a max.

A share is a fraction, and a part is a whole number of seats, which may be smaller for some time, until it is the turn
of this member. A member can't use what doesn't fit, so it goes to members with larger parts, and there to the levels
within the max in proportion to their shares. On average over all turns, each level of each member has its share.
"""

from collections.abc import Iterable, Mapping, Sequence

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fleet.messages import LevelUsage
from apf_middleware.fleet.shares import LevelShare, MemberShare

__all__ = ["fit_shares"]


def fit_shares(
    shares: Mapping[str, MemberShare],
    levels: Sequence[str],
    parts: Mapping[str, int],
    usages: Mapping[str, Mapping[str, LevelUsage]],
) -> bool:
    """Move what members have of these ``levels`` beyond their ``parts``, in units, to members that can use it.

    If these can't use all of it, the rest stays where it was. Return whether there was any.
    """
    taken: list[tuple[LevelShare, int]] = []
    rooms: list[tuple[LevelShare, int]] = []
    for member, part in parts.items():
        share = shares[member]
        total = _amount(share, levels)
        free = part - total
        if free < 0:
            taken += [(share.at(name), share.amount_of(name) * -free // total) for name in levels]
        else:
            rooms += _rooms(share, free, {name: usages[member][name] for name in levels if name in usages[member]})
    moved = sum(amount for _, amount in taken)
    if not moved:
        return False
    for one, amount in taken:
        one.amount -= amount
    fitting = min(moved, sum(room for _, room in rooms))
    _give(fitting, rooms)
    _give(moved - fitting, taken)
    return True


def _rooms(share: MemberShare, free: int, usages: Mapping[str, LevelUsage]) -> list[tuple[LevelShare, int]]:
    """Return how much more of each level a member can use, if ``free`` of its part is unused."""
    unmet = {name: max(0, usage.demand * SEAT - share.amount_of(name)) for name, usage in usages.items()}
    wanting = [name for name, one in unmet.items() if one]
    total = _amount(share, wanting)
    return [
        (share.at(name), min(unmet[name], free * share.amount_of(name) // total if total else free // len(wanting)))
        for name in wanting
    ]


def _amount(share: MemberShare, levels: Iterable[str]) -> int:
    return sum(map(share.amount_of, levels))


def _give(amount: int, proportions: Sequence[tuple[LevelShare, int]]) -> None:
    """Divide ``amount`` in these ``proportions``."""
    total = sum(one for _, one in proportions)
    for share, one in proportions if total else ():
        share.amount += amount * one // total
