"""The states of a named queue, and what an operator can do about them.

======== ===================== ================================= ======= =====================================
state    new requests          waiting                           running leaves when
======== ===================== ================================= ======= =====================================
Open     accepted              dispatched                        -       close, pause
Paused   accepted while there  kept until their deadline         finish  open, close
         is room
Closing  rejected              dispatched, or rejected if shed   finish  nothing waits or runs: Closed; open
Closed   rejected              none                              none    open, pause
======== ===================== ================================= ======= =====================================

Only what an operator wants is kept (open, paused or closed). Closing and Closed are the same wish, told apart by
whether anybody is still there: so no path by which the last one leaves can be forgotten. Likewise a child's state is
its own or its parent's, whichever lets less happen; when the parent opens again, what it had closed is as it was.
"""

from enum import StrEnum
from typing import Final, Literal

from apf_middleware.config.objects import Level

__all__ = ["ACTIONS", "MODES", "QueueAction", "QueueState", "Wish", "state_of", "wish_of"]

Wish = Literal["open", "paused", "closed"]
"""What an operator wants of a queue, as a level's ``state`` says."""

_ORDER: Final[tuple[Wish, ...]] = ("open", "paused", "closed")


class QueueState(StrEnum):
    """What a queue does now."""

    OPEN = "Open"
    PAUSED = "Paused"
    CLOSING = "Closing"
    CLOSED = "Closed"


class QueueAction(StrEnum):
    """What can be done to it."""

    OPEN = "open"
    CLOSE = "close"
    PAUSE = "pause"

    @property
    def wish(self) -> Wish:
        return {"open": _ORDER[0], "pause": _ORDER[1], "close": _ORDER[2]}[self.value]


ACTIONS: Final = tuple(action.value for action in QueueAction)

MODES: Final = ("drain", "shed")
"""Whether those who wait in a queue that closes are served or sent away."""


def wish_of(level: Level, parent: Level | None) -> Wish:
    """What is wanted of a queue, its parent considered."""
    if parent is None:
        return level.state
    return max(level.state, parent.state, key=_ORDER.index)


def state_of(wish: Wish, *, is_idle: bool) -> QueueState:
    """What that comes to."""
    if wish == "closed":
        return QueueState.CLOSED if is_idle else QueueState.CLOSING
    return QueueState.PAUSED if wish == "paused" else QueueState.OPEN
