"""The TLS context of a member's connections to Redis.

Redis-py makes a context for each connection, and reads the certificates of all authorities for it. That takes 25 ms in
which the event loop does nothing else, and a member whose Redis is down tries to connect five times a second.
"""

from pathlib import Path
from typing import Any, Final

from redis.asyncio import Connection, SSLConnection

__all__ = ["SharedTlsContext"]

_FILES: Final = ("keyfile", "certfile", "ca_certs", "ca_path")


class SharedTlsContext:
    """The context of all connections to one address; it is made anew when one of its files has changed."""

    __slots__ = ("_source", "_state")

    def __init__(self) -> None:
        self._source: Any = None  # redis-py's object that makes the context when it is needed, and keeps it
        self._state: list[object] = []

    def share(self, connection: Connection) -> None:
        """Let ``connection``, which isn't open yet, use the context, if it uses TLS."""
        if not isinstance(connection, SSLConnection):
            return
        source: Any = connection.ssl_context
        state = [_state_of(path) for name in _FILES if (path := getattr(source, name, None))]
        if self._source is None or state != self._state:
            self._source, self._state = source, state
        connection.ssl_context = self._source


def _state_of(path: str) -> object:
    """Return what is different after a file, or a directory of files, has changed."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev
