"""What `MaxMinShares` knows of one queue: its demand and weight, and where it is listed."""

__all__ = ["Share"]


class Share:
    """The demand ``rho`` of a queue that gets a share; the queue is in a list at its ``index``.

    A queue ``is_limited`` or granted (see `max_min_shares`). It is listed among the limited queues under the demand
    ``at_least``, and among the granted ones under ``at_most``; 0 means that it isn't listed there. While it is limited,
    its ``rho`` is not below ``at_least``; while it is granted, not above ``at_most``.
    """

    __slots__ = ("at_least", "at_most", "index", "is_closed", "is_limited", "rho", "weight")

    def __init__(self, index: int) -> None:
        self.rho: int = 0
        self.at_least: int = 0
        self.is_limited: bool = False
        self.is_closed: bool = False
        self.weight: int = 1
        self.index: int = index
        self.at_most: int = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.index}: {self.rho} seats demanded>"
