"""What the controller asks of whatever learns the total of seats."""

from typing import TYPE_CHECKING, Protocol

from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime.admission import Admission

if TYPE_CHECKING:
    from apf_middleware.config.adaptive_seats import SeatBounds
    from apf_middleware.metrics.reading import AdaptiveReading

__all__ = ["SeatFinder"]


class SeatFinder(Protocol):
    """What learns the total of seats: in this process (`AdaptiveRunner`), or for a fleet (`DurationSampler`)."""

    bounds: "SeatBounds"

    @property
    def reason(self) -> str:
        """The reason of the last decision."""
        ...

    def observe(self, now: int, route: str, duration: int, admission: Admission) -> None:
        """Learn from a request that has ended after ``duration``."""
        ...

    def note_rejected(self, now: int, reason: Reason) -> None:
        """Count a request that was rejected, perhaps for lack of seats."""
        ...

    def reading(self) -> "AdaptiveReading | None":
        """Return the numbers that metrics show; None if another process has them."""
        ...
