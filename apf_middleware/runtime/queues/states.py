"""The states of a named queue, and the actions of operators.

======== ===================== ================================= ======= =====================================
state    new requests          waiting                           running leaves when
======== ===================== ================================= ======= =====================================
Open     accepted              dispatched                        -       close, pause
Paused   accepted while there  kept until their deadline         finish  open, close
         is room
Closing  rejected              dispatched, or rejected if shed   finish  nothing waits or runs: Closed; open
Closed   rejected              none                              none    open, pause
======== ===================== ================================= ======= =====================================

Only the wish of an operator is stored (open, paused or closed). Closing and Closed are the same wish, and differ by
whether requests are still there. So no way in which the last request leaves needs to change a state. Likewise a child's
state is its own or its parent's, whichever is more closed; when the parent opens again, its children are as they were.
"""

from enum import StrEnum
from typing import Final, Literal

from apf_middleware.config.objects import Level

__all__ = ["ACTIONS", "MODES", "QueueAction", "QueueState", "Wish", "state_of", "wish_of"]

Wish = Literal["open", "paused", "closed"]
"""The wish of an operator for a queue, which a level has as ``state``."""

_ORDER: Final[tuple[Wish, ...]] = ("open", "paused", "closed")


class QueueState(StrEnum):
    """The state of a queue at this moment."""

    OPEN = "Open"
    PAUSED = "Paused"
    CLOSING = "Closing"
    CLOSED = "Closed"


class QueueAction(StrEnum):
    """An operator's action."""

    OPEN = "open"
    CLOSE = "close"
    PAUSE = "pause"

    @property
    def wish(self) -> Wish:
        """The wish that the action sets."""
        return {"open": _ORDER[0], "pause": _ORDER[1], "close": _ORDER[2]}[self.value]


ACTIONS: Final = tuple(action.value for action in QueueAction)

MODES: Final = ("drain", "shed")
"""Serve (drain) or reject (shed) the requests that wait in a queue that closes."""


def wish_of(level: Level, parent: Level | None) -> Wish:
    """Return the wish that counts for a queue, which may be its parent's."""
    if parent is None:
        return level.state
    return max(level.state, parent.state, key=_ORDER.index)


def state_of(wish: Wish, *, is_idle: bool) -> QueueState:
    """Return the state of a queue with this wish."""
    if wish == "closed":
        return QueueState.CLOSED if is_idle else QueueState.CLOSING
    return QueueState.PAUSED if wish == "paused" else QueueState.OPEN
