"""How much of a total of seats is in use, where some seats are promised to levels."""

from collections.abc import Collection
from typing import NamedTuple

__all__ = ["SeatUse"]


class SeatUse(NamedTuple):
    """What a total is used for.

    ``occupied`` is the number of seats that count as in use. ``usable`` is the part of the total that isn't promised to
    levels which don't use it at the moment.
    """

    occupied: int
    usable: float

    @classmethod
    def of(cls, total: int, levels: Collection[tuple[int, int]]) -> "SeatUse":
        """Return the use of ``total``; of each level, ``levels`` has the seats in use and the promised ones.

        What other levels use, or are promised, isn't free for a level: it can have the rest, its *room*. The part of
        the total that counts as in use is the largest part that any level uses of its room.
        """
        in_use = sum(used for used, _ in levels)
        taken = sum(max(used, promised) for used, promised in levels)
        occupied = in_use
        for used, promised in levels:
            room = total - taken + max(used, promised)
            occupied = max(occupied, total * used // max(used, room, 1))
        return cls(occupied, max(1, total - taken + in_use) / total)
