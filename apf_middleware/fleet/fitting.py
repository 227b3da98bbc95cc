"""Fit the members' shares of a level into their parts of its max.

A share is a fraction, and a part is a whole number of seats, which may be smaller for some time, until it is the turn
of this member. A member can't use what doesn't fit, so it goes to members with larger parts. On average over all turns,
each member has its share.
"""

from collections.abc import Iterable, Mapping, Sequence

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fleet.messages import LevelUsage
from apf_middleware.fleet.shares import MemberShare

__all__ = ["fit_shares"]


def fit_shares(
    shares: Mapping[str, MemberShare],
    levels: Sequence[str],
    parts: Mapping[str, int],
    usages: Mapping[str, Mapping[str, LevelUsage]],
) -> bool:
    """Move what members have of these ``levels`` beyond their ``parts``, in seats, to members that can use it.

    If these can't use all of it, the rest stays where it was. Return whether there was any.
    """
    if all(_amount(shares[member], levels) <= seats * SEAT for member, seats in parts.items()):
        return False
    taken: dict[str, dict[str, int]] = {name: {} for name in levels}
    for member, seats in parts.items():
        share = shares[member]
        total = _amount(share, levels)
        excess = total - seats * SEAT
        if excess > 0:
            for name in levels:
                taken[name][member] = share.amount_of(name) * excess // total
    for name, amounts in taken.items():
        for member, amount in amounts.items():
            shares[member].at(name).amount -= amount
    for name, amounts in taken.items():
        moved = sum(amounts.values())
        room = {}
        for member, seats in parts.items() if moved else ():
            share, usage = shares[member], usages[member].get(name)
            unmet = (0 if usage is None else usage.demand) * SEAT - share.amount_of(name)
            room[member] = max(0, min(unmet, seats * SEAT - _amount(share, levels)))
        fitting = min(moved, sum(room.values()))
        _give(shares, name, fitting, room)
        _give(shares, name, moved - fitting, amounts)
    return True


def _amount(share: MemberShare, levels: Iterable[str]) -> int:
    return sum(map(share.amount_of, levels))


def _give(shares: Mapping[str, MemberShare], level: str, amount: int, proportions: Mapping[str, int]) -> None:
    """Divide ``amount`` among the members in these ``proportions``."""
    total = sum(proportions.values())
    for member, one in proportions.items() if total else ():
        if one:
            shares[member].at(level).amount += amount * one // total
