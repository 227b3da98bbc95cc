"""What a forked child of the server must not keep: open files and sockets by which others know that a process is alive.

A child has all of them, too, until it executes another program. So others would notice the end of the server only when
its last child has ended, which may be much later: the children of a `ProcessPoolExecutor` go on when their parent is
killed.
"""

import os
from typing import Final, Protocol
from weakref import WeakSet

__all__ = ["Detachable", "close_in_children"]


class Detachable(Protocol):
    """What has a file descriptor, such as a socket."""

    def detach(self) -> int:
        """Return the descriptor, which is no longer known then; a negative number if there is none."""
        raise NotImplementedError


_CLOSED: Final[WeakSet[Detachable]] = WeakSet()


def close_in_children(one: Detachable) -> None:
    """Close the descriptor of ``one`` in each child that this process forks from now on."""
    _CLOSED.add(one)


def _close() -> None:
    for one in _CLOSED:
        descriptor = one.detach()  # `close` would leave it open while a transport of uvloop has the socket
        if descriptor >= 0:
            os.close(descriptor)
    _CLOSED.clear()


if hasattr(os, "register_at_fork"):  # Windows can't fork
    os.register_at_fork(after_in_child=_close)
