"""Whose turn it is among levels that wait for seats which any of them could have.

Those under their min come first, then those under their nominal seats, then borrowers, and of these last the ones that
have no nominal seats at all. Within a group, the smaller part of the nominal seats in use comes first; parts are
compared by cross-multiplication, for they are fractions of integers. Equals take turns.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from apf_middleware.fairqueuing.sharing.level import SharedLevel

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.ticket import Ticket

__all__ = ["Turn", "first_of", "ranks_before", "seats_wanted"]


class Turn:
    """What a survey of the waiting levels comes to."""

    __slots__ = ("level", "passed", "saver", "ticket")

    def __init__(self) -> None:
        self.level: SharedLevel | None = None
        self.ticket: Ticket | None = None
        self.saver: SharedLevel | None = None
        self.passed: list[tuple[SharedLevel, Ticket]] = []  # seats are free for them, but too few


def seats_wanted(level: SharedLevel, width: int) -> int:
    """What ``level`` would use with a ticket of this ``width``; more than its max if it can't have that by itself."""
    used, most = level.queueset.seats_in_use, level.most
    if width <= most:
        return used + width
    return most if used < most and not level.queueset.executing else most + 1


def first_of(levels: Sequence[SharedLevel]) -> SharedLevel:
    """Who ranks before all others; there is at least one."""
    first = levels[0]
    for level in levels[1:]:
        if ranks_before(level, first):
            first = level
    return first


def ranks_before(one: SharedLevel, other: SharedLevel) -> bool:
    """Whether ``one`` is served first when seats are free for either."""
    group, other_group = _group(one), _group(other)
    if group != other_group:
        return group < other_group
    part = one.queueset.seats_in_use * (other.nominal or 1)
    other_part = other.queueset.seats_in_use * (one.nominal or 1)
    if part != other_part:
        return part < other_part
    return (one.turn, one.name, one.is_draining) < (other.turn, other.name, other.is_draining)


def _group(level: SharedLevel) -> int:
    used = level.queueset.seats_in_use
    if used < level.least:
        return 0
    if used < level.nominal:
        return 1
    return 2 if level.nominal else 3  # who has no nominal seats comes last
