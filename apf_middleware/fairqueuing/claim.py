"""What one queue demands of its level's seats, and how much service it lacks (see `guarantee`)."""

__all__ = ["Claim"]


class Claim:
    """The demand of one queue, in `MaxMinShares`, and its shortfall.

    ``offset`` makes seats x now + ``offset`` the service of the queue, in seat-nanoseconds, but for a constant.
    ``least`` is the least value of ``r - service`` while something has waited, in grains; ``debt`` is what has been
    billed meanwhile beyond the seats that were held; ``listed`` is where the queue stands on the agenda.
    """

    __slots__ = ("at_least", "at_most", "debt", "index", "is_closed", "is_limited", "least", "listed", "offset", "rho")

    def __init__(self, index: int) -> None:
        self.index: int = index
        self.rho: int = 0
        self.is_limited: bool = False
        self.is_closed: bool = False
        self.at_least: int = 0
        self.at_most: int = 0
        self.offset: int = 0
        self.least: int = 0
        self.debt: int = 0
        self.listed: int = 0
