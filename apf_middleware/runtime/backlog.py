"""The bound on requests that wait in all levels together, so that they fit into a bounded part of the memory.

A level may hold as many requests as there is room for more, and a queue an eighth of what then remains for its level:
in a flood of one level the others still find room, and of the flows of a level the heaviest is rejected first, while
one that has nothing waiting finds a place. Both bounds shrink as the room does, so no request that waits has to be
removed, and a decision costs three subtractions and a shift.
"""

from typing import TYPE_CHECKING, Final

from apf_middleware.config.server import ServerSettings

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.queueset import QueueSet

__all__ = ["BYTES_PER_REQUEST", "Backlog"]

BYTES_PER_REQUEST: Final = 2048
"""What a waiting request takes, as ``benchmarks.overhead`` measures it, rounded up."""

_UNBOUNDED: Final = 1 << 60
_EIGHTH: Final = 3
_ROUND_UP: Final = (1 << _EIGHTH) - 1


class Backlog:
    """Count the requests that are ``waiting``, parked ones too, of which there may be ``most``."""

    __slots__ = ("most", "waiting")

    most: int

    def __init__(self, settings: ServerSettings) -> None:
        self.waiting: int = 0
        self.adopt(settings)

    def adopt(self, settings: ServerSettings) -> None:
        """Put other settings in force; requests that wait stay."""
        size = settings.max_waiting_memory
        self.most = _UNBOUNDED if settings.strict_upstream else max(1, size // BYTES_PER_REQUEST)

    def room(self, queueset: "QueueSet") -> int:
        """Return how many requests each queue of this level may hold now."""
        return (self.most - self.waiting - queueset.waiting - queueset.parked + _ROUND_UP) >> _EIGHTH

    def __repr__(self) -> str:
        return f"<Backlog: {self.waiting} of {self.most} wait>"
