"""What the queues of the two max-min disciplines have in common."""

from heapq import heappush
from typing import TYPE_CHECKING, Final

from apf_middleware.fairqueuing.ticket import Queue

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.ticket import Ticket

__all__ = ["WIDEST", "WIDTH_BITS", "MaxMinQueue"]

WIDTH_BITS: Final = 32
WIDEST: Final = (1 << WIDTH_BITS) - 1
"""The width of one ghost at most; who is wider leaves several."""


class MaxMinQueue(Queue):
    """A queue, what it asks for, and how far it has come in the virtual world (see `virtual_world`).

    ``at_least`` and ``at_most`` are the demands under which it is listed: the true one isn't less than the former while
    it is limited, nor more than the latter while it is granted; 0 when it isn't listed. ``base`` is the lead of its
    meter over R while it reads R, else where the meter stood at the time ``mark``. ``ghosts`` are requests that are
    over in the real world and not yet here: a heap of integers, each an end and a width side by side, which are quicker
    to compare than tuples, and no work for the garbage collector.
    """

    __slots__ = (
        "at_least",
        "at_most",
        "base",
        "end_is_stale",
        "finish_is_stale",
        "first",
        "ghosts",
        "has_end",
        "has_finish",
        "is_closed",
        "is_limited",
        "mark",
        "on_r",
        "rho",
    )

    base: int
    mark: int

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.rho: int = 0
        self.is_limited: bool = False
        self.at_least: int = 0
        self.at_most: int = 0
        self.is_closed: bool = False
        self.base = self.mark = 0
        self.on_r: bool = False
        self.first: Ticket | None = None  # its oldest one, or who is about to be
        self.ghosts: list[int] = []
        self.has_finish: bool = False  # it stands on an agenda of finishes
        self.finish_is_stale: bool = False
        self.has_end: bool = False  # likewise of ends
        self.end_is_stale: bool = False

    def haunt(self, end: int, width: int) -> None:
        """Somebody has left the real world, whose seats stay taken here until ``end``."""
        while width > WIDEST:
            heappush(self.ghosts, end << WIDTH_BITS | WIDEST)
            width -= WIDEST
        heappush(self.ghosts, end << WIDTH_BITS | width)
