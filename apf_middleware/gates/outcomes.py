"""What a gate may answer: wait, go away, or let so many try at a time; and what a hint may answer about an event.

A gate that lets a request pass answers with a lease, which may be anything but None. Times are in seconds, on the clock
of `time.monotonic`: these are the words that gates of an app's own use.
"""

from dataclasses import dataclass
from enum import Enum
from math import isfinite
from typing import Final

from apf_middleware.exceptions import InvalidValueError, require_integer

__all__ = ["NO_LEASE", "QUEUE", "SKIP", "Hint", "Park", "Probe", "Reject"]


class Hint(Enum):
    """What an event means for one waiting request."""

    QUEUE = "queue"
    SKIP = "skip"


QUEUE: Final = Hint.QUEUE
"""The event may help: let it try."""

SKIP: Final = Hint.SKIP
"""The event can't help this one."""


@dataclass(frozen=True, slots=True)
class Park:
    """Wait: the gate may open before the request's time is up.

    ``retry_at`` or ``retry_in`` tells when it can open at the earliest, if that is known; a request that may not wait
    for so long is rejected at once. Without a ``penalty``, an event lets it try again with no pause at all.
    """

    retry_at: float | None = None
    retry_in: float | None = None
    penalty: bool = True

    def __post_init__(self) -> None:
        if self.retry_at is not None and self.retry_in is not None:
            raise InvalidValueError("retry_in", self.retry_in, "it must be None where retry_at is given")
        for name, value in (("retry_at", self.retry_at), ("retry_in", self.retry_in)):
            if value is not None:
                _require_seconds(name, value)

    def retry_at_ns(self, now: int) -> int | None:
        """When to try again, in nanoseconds of the clock that says ``now``."""
        if self.retry_in is not None:
            return now + int(self.retry_in * 1e9)
        return None if self.retry_at is None else int(self.retry_at * 1e9)


def _require_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InvalidValueError(name, value, "it must be a number of seconds")


@dataclass(frozen=True, slots=True)
class Reject:
    """Go away: waiting can't help. None means the gate's own status, and the server's usual time to come back."""

    status: int | None = None
    retry_after: float | None = None

    def __post_init__(self) -> None:
        if self.status is not None:
            require_integer("status", self.status, least=400, most=599)
        if self.retry_after is not None and not 0 <= self.retry_after < 1e9:
            raise InvalidValueError("retry_after", self.retry_after, "it must be a number of seconds")


@dataclass(frozen=True, slots=True)
class Probe:
    """Let ``most`` requests try at a time, as when nobody knows yet whether a dependency is well again."""

    most: int = 1

    def __post_init__(self) -> None:
        require_integer("most", self.most, least=1)


NO_LEASE: Final = object()
"""Passed, and nothing to give back."""
