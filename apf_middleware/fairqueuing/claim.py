"""What one queue demands of its level's seats, and how much service it lacks (see `guarantee`)."""

__all__ = ["Claim"]


class Claim:
    """The demand of one queue, in `MaxMinShares`, and its shortfall.

    ``offset`` makes ``seats * now + offset`` the service of the queue in seat-nanoseconds, up to a constant. ``least``
    is the least value of ``r - service`` in grains while something has waited, and ``noted`` the number of rises of the
    common share that it takes into account. ``debt`` is the work that was billed meanwhile beyond the seats that were
    held. ``listed`` is the ``r`` under which the queue is listed, and ``is_postponed`` means that this is later than
    the shortfall alone would make it.
    """

    __slots__ = (
        "at_least",
        "at_most",
        "debt",
        "index",
        "is_closed",
        "is_limited",
        "is_postponed",
        "least",
        "listed",
        "noted",
        "offset",
        "rho",
    )

    def __init__(self, index: int) -> None:
        self.index: int = index
        self.rho: int = 0
        self.is_limited: bool = False
        self.is_closed: bool = False
        self.at_least: int = 0
        self.at_most: int = 0
        self.offset: int = 0
        self.least: int = 0
        self.noted: int = 0
        self.debt: int = 0
        self.listed: int = 0
        self.is_postponed: bool = False
