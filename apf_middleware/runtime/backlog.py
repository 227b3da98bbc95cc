"""The bound on requests that wait in all levels together, which limits the memory that they use.

A level may hold as many waiting requests as places are still free in the whole server, and each of its queues an eighth
of what this leaves to the level. If one level is flooded, the others therefore still have room. Within a level the
heaviest flow is rejected first, while a flow without waiting requests finds room. Both bounds shrink as places are
taken, so waiting requests never have to be removed. A decision costs a few additions and a shift.
"""

from typing import Final

from apf_middleware.config.server import ServerSettings

__all__ = ["BYTES_PER_REQUEST", "Backlog"]

BYTES_PER_REQUEST: Final = 2048
"""The memory that a waiting request uses, as measured by ``benchmarks.overhead``, rounded up."""

_UNBOUNDED: Final = 1 << 60
_EIGHTH: Final = 3
_ROUND_UP: Final = (1 << _EIGHTH) - 1


class Backlog:
    """The number of ``waiting`` requests, including parked ones, and the maximum, ``most``."""

    __slots__ = ("most", "waiting")

    most: int

    def __init__(self, settings: ServerSettings) -> None:
        self.waiting: int = 0
        self.adopt(settings)

    def adopt(self, settings: ServerSettings) -> None:
        """Put other settings in force; waiting requests stay."""
        size = settings.max_waiting_memory
        self.most = _UNBOUNDED if settings.strict_upstream else max(1, size // BYTES_PER_REQUEST)

    def room(self, waiting_in_level: int) -> int:
        """Return the number of requests that each queue of a level may hold, from the number that wait in the level."""
        return (self.most - self.waiting - waiting_in_level + _ROUND_UP) >> _EIGHTH

    def __repr__(self) -> str:
        return f"<Backlog: {self.waiting} of {self.most} wait>"
