"""How a request ended, as a controller of the total of seats sees it."""

from enum import Enum, auto
from typing import Final

__all__ = ["RequestOutcome", "outcome_of"]


class RequestOutcome(Enum):
    """The end of a request; only the durations of successful ones and of time-outs say something about the load."""

    SUCCESS = auto()
    """The app answered."""
    ERROR = auto()
    """The app failed; how long that took says nothing."""
    TIMED_OUT = auto()
    """The request ran into a limit of time: it would have taken at least as long."""
    REFUSED = auto()
    """Something behind the app said that it has too much to do."""


def outcome_of(status: int) -> RequestOutcome:
    """Return how a request with this status of HTTP ended."""
    if status < 500:
        return RequestOutcome.SUCCESS
    return _BY_STATUS.get(status, RequestOutcome.ERROR)


_BY_STATUS: Final = {503: RequestOutcome.REFUSED, 504: RequestOutcome.TIMED_OUT}
