"""Whose turn it is among levels that wait for seats which any of them could have.

Levels under their min (or, as a child, within what the parent is promised) come first, then those that use at least one
seat less than they deserve. Within these two groups the fewest used seats for the weight come first. A level that
deserves part of one more seat comes next, and then all others: there the largest lag for the weight comes first. Beyond
what a level has while all are busy, the priority goes before that, and levels without a weight are last. Equals take
turns, but a level that drains comes before them. Fractions are compared by cross-multiplication of integers.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fairqueuing.sharing.level import SharedLevel

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.sharing.hierarchy import Parent
    from apf_middleware.fairqueuing.ticket import Ticket

__all__ = ["Turn", "first_of", "seats_wanted"]


class Turn:
    """What a survey of the waiting levels comes to."""

    __slots__ = ("level", "passed", "saver", "saving", "ticket")

    def __init__(self) -> None:
        self.level: SharedLevel | None = None
        self.ticket: Ticket | None = None
        self.saver: SharedLevel | None = None
        self.saving: list[Parent] = []  # where a child is saved up for, its siblings pass only within their min
        self.passed: list[tuple[SharedLevel, Ticket]] = []  # seats are free for them, but too few


def seats_wanted(level: SharedLevel, width: int) -> int:
    """What ``level`` would use with a ticket of this ``width``; more than its max if it can't have that by itself."""
    used, most = level.queueset.seats_in_use, level.most
    if width <= most:
        return used + width
    return most if used < most and not level.queueset.executing else most + 1


def first_of(levels: Sequence[SharedLevel]) -> SharedLevel:
    """Who is served first when seats are free for any of them; there is at least one."""
    first = levels[0]
    first_group, first_taken = _rank(first)
    for level in levels[1:]:
        group, taken = _rank(level)
        ahead = group - first_group
        if not ahead:
            ahead = taken * (first.weight or 1) - first_taken * (level.weight or 1)
        if ahead < 0 or (not ahead and _turn(level) < _turn(first)):
            first, first_group, first_taken = level, group, taken
    return first


def _rank(level: SharedLevel) -> tuple[int, int]:
    """The group of ``level``, and what it has had already, to be divided by its weight: the lowest comes first."""
    used = level.queueset.seats_in_use
    if used < level.least:
        return 0, used
    parent = level.parent
    if parent is not None and used < parent.promised_to(level):
        return 0, used
    missing = level.deserved - used * SEAT
    if missing >= SEAT:
        return 1, used
    lags_behind = missing > 0 and level.lag >= 0
    if lags_behind and used * SEAT < level.entitled:
        return 2, -level.lag
    return 2 * level.borrows_as + (0 if lags_behind else 1), -level.lag


def _turn(level: SharedLevel) -> tuple[bool, int, str]:
    """Differs for any two levels; one that drains may have the name of another one."""
    return (not level.is_draining, level.turn, level.name)
