"""The deadline of a request, told to the services that it calls.

The event hooks are for httpx; `DeadlineHeaders.headers` is for any other client::

    deadlines = DeadlineHeaders()
    client = httpx.AsyncClient(event_hooks={"request": [deadlines.tell_async]})

A service that is called learns the time that is left when the call is made, so each service on the way sees its own.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

from apf_middleware.exceptions import DeadlineError, require_amount
from apf_middleware.propagation.current import CURRENT_DEADLINE
from apf_middleware.propagation.outgoing import OutgoingRequest, checked_formats, value_of, write_headers
from apf_middleware.propagation.time_limits import LIMIT_FORMATS, LimitFormat, read_limit, write_limit

__all__ = ["DeadlineHeaders"]

_SECOND: Final = 10**9


class DeadlineHeaders:
    """Write what is left of the current request's time into the headers of the requests that it makes.

    ``written`` are the headers by name, and how they write a limit. ``least`` is the number of seconds that a call is
    still worth making; ``clock`` and ``wall`` are the monotonic clock of deadlines and the time since 1970.
    """

    def __init__(
        self,
        written: Mapping[str, LimitFormat] | None = None,
        *,
        least: float = 0.01,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        given: Mapping[str, LimitFormat] = {"grpc-timeout": "grpc"} if written is None else written
        self._written = checked_formats(given, LIMIT_FORMATS)
        self._least_ns = round(require_amount("least", least) * _SECOND)
        self._clock = clock
        self._wall = wall

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the headers."""
        return tuple(self._written)

    def headers(self, present: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the headers of a call that is made now, which has those ``present`` already.

        There are none if the current request has no deadline. A header that sets a shorter limit for this call stays as
        it is. Baggage that is present gets another member.

        Raises:
            DeadlineError: less than ``least`` seconds are left.
        """
        deadline = CURRENT_DEADLINE.get()
        if deadline is None:
            return {}
        left = deadline - self._clock()
        if left < max(1, self._least_ns):
            raise DeadlineError(left / _SECOND, self._least_ns / _SECOND)
        wall = self._wall()
        before = present or {}
        found: dict[str, str] = {}
        for name, one in self._written.items():
            own = value_of(before, name)
            found[name] = own if _is_shorter(one, own, left, wall) else write_limit(one, left, wall, own)
        return found

    def tell(self, request: OutgoingRequest) -> None:
        """Tell the deadline with a request: a hook of `httpx.Client`."""
        write_headers(request, self.headers(request.headers))

    async def tell_async(self, request: OutgoingRequest) -> None:
        """Tell the deadline with a request: a hook of `httpx.AsyncClient`."""
        self.tell(request)

    def __repr__(self) -> str:
        return f"<DeadlineHeaders {', '.join(self._written)}>"


def _is_shorter(written: LimitFormat, value: str, left: int, wall_ns: int) -> bool:
    """Return whether a header that the caller has set itself leaves less time than ``left``.

    A member of baggage may be older than the current request, so it never counts.
    """
    if not value or written == "baggage":
        return False
    try:
        return read_limit(written, value.encode("latin-1", "replace"), wall_ns) < left
    except ValueError:
        return False
