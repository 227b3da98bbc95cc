"""Notice that clients hang up by looking at their connections, which costs much less than a watch.

A watch calls the server's ``receive``. With uvicorn that is an eighth of the processor time of a request that waits.
But uvicorn also shows whether a connection is open, and a look at it costs 1.4 % of a watch. So in the first
second of a long wait the connection is looked at every `POLL_NS`. Then a watch begins, because it would not pay to look
much longer. The watch notices a hang-up at once, also in cases in which the connection doesn't show it.
"""

import asyncio
from typing import Final, Protocol

__all__ = ["MOST_LOOKS", "POLL_NS", "Connection", "ConnectionPolls", "PolledConnection", "PolledWait"]

POLL_NS: Final = 25_000_000
"""The time between two looks."""

MOST_LOOKS: Final = 40
"""The number of looks at one connection."""

_POLL: Final = POLL_NS / 10**9


class Connection(Protocol):
    """The server's object for a request and its connection."""

    @property
    def disconnected(self) -> bool:
        """True if the connection has ended before the response."""
        ...


class PolledWait(Protocol):
    """The wait of one request."""

    def hang_up(self) -> None:
        """Take the request out of its queue, because its client has hung up."""
        ...

    def watch_client(self) -> None:
        """Watch the client, because its connection isn't looked at any more."""
        ...


class PolledConnection:
    """A connection that is looked at."""

    __slots__ = ("_connection", "_looks", "_wait")

    def __init__(self, connection: Connection, wait: PolledWait) -> None:
        self._connection = connection
        self._wait: PolledWait | None = wait
        self._looks = MOST_LOOKS

    def end(self) -> None:
        """Forget the wait, which is over."""
        self._wait = None

    def look(self) -> bool:
        """Look once, and return whether to look again."""
        wait = self._wait
        if wait is None:
            return False
        if self._connection.disconnected:
            wait.hang_up()
            return False
        self._looks -= 1
        if not self._looks:
            wait.watch_client()
            return False
        return True


class ConnectionPolls:
    """The connections that are looked at on one ``loop``, all in one call of its timer."""

    __slots__ = ("_loop", "_polled")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._polled: list[PolledConnection] = []

    def begin(self, connection: Connection, wait: PolledWait) -> PolledConnection:
        """Look at ``connection`` from now on, until the wait is over."""
        if not self._polled:
            self._loop.call_later(_POLL, self._look)
        polled = PolledConnection(connection, wait)
        self._polled.append(polled)
        return polled

    def _look(self) -> None:
        """Look at each connection once."""
        again = []
        for polled in self._polled:
            try:
                if polled.look():
                    again.append(polled)
            except Exception as error:  # noqa: BLE001 - an error of one doesn't affect the others
                self._loop.call_exception_handler({"message": "A client can't be watched", "exception": error})
        self._polled = again
        if again:
            self._loop.call_later(_POLL, self._look)

    def __repr__(self) -> str:
        return f"<ConnectionPolls: {len(self._polled)} connections>"
