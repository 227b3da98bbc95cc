"""Whose turn it is among levels that wait for seats which any of them could have.

Those under their min (or, as a child, within what its parent is promised) come first, then those under their nominal
seats, then borrowers. Among borrowers the priority decides, and of one priority the ones that have no nominal seats at
all are last. Within a group, the smaller part of the nominal seats in use comes first; parts are compared by
cross-multiplication, for they are fractions of integers. Equals take turns, but a level that drains comes before them:
somebody may need the seat that it keeps, and must not keep it from coming to its end.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from apf_middleware.fairqueuing.sharing.level import SharedLevel

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.sharing.kin import Parent
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
    first_used = first.queueset.seats_in_use
    first_group = _group(first, first_used)
    for level in levels[1:]:
        used = level.queueset.seats_in_use
        group = _group(level, used)
        ahead = group - first_group
        if not ahead:
            ahead = used * (first.nominal or 1) - first_used * (level.nominal or 1)
        if ahead < 0 or (not ahead and _turn(level) < _turn(first)):
            first, first_used, first_group = level, used, group
    return first


def _group(level: SharedLevel, used: int) -> int:
    if used < level.least:
        return 0
    parent = level.parent
    if parent is not None and used < parent.promised_to(level):
        return 0
    return 1 if used < level.nominal else level.borrows_as


def _turn(level: SharedLevel) -> tuple[bool, int, str]:
    """Differs for any two levels; one that drains may have the name of another one."""
    return (not level.is_draining, level.turn, level.name)
