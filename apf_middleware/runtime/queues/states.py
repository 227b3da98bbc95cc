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

Only the state that an operator requested is stored (open, paused or closed). Closing and Closed are both stored as
closed; the difference is whether requests are still there. So no state has to be changed when the last request leaves.
Likewise a child has its own state or that of its parent, whichever is more restrictive; when the parent opens again,
its children have their own states again.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal

from apf_middleware.config.objects import Level
from apf_middleware.snapshots import QueueState

__all__ = ["ACTIONS", "CLOSING_MODES", "QueueAction", "RequestedState", "requested_state_of", "state_of"]

RequestedState = Literal["open", "paused", "closed"]
"""The state that an operator requested for a queue; its level stores it as ``state``."""

_ORDER: Final[tuple[RequestedState, ...]] = ("open", "paused", "closed")


class QueueAction(StrEnum):
    """An operator's action."""

    OPEN = "open"
    CLOSE = "close"
    PAUSE = "pause"

    @property
    def requested(self) -> RequestedState:
        """The state that the action requests."""
        return _REQUESTED[self]


_REQUESTED: Final[Mapping[QueueAction, RequestedState]] = {
    QueueAction.OPEN: "open",
    QueueAction.PAUSE: "paused",
    QueueAction.CLOSE: "closed",
}


ACTIONS: Final = tuple(action.value for action in QueueAction)

CLOSING_MODES: Final = ("drain", "shed")
"""Serve (drain) or reject (shed) the requests that wait in a queue that closes."""


def requested_state_of(level: Level, parent: Level | None) -> RequestedState:
    """Return the requested state that applies to a queue: its own or its parent's."""
    if parent is None:
        return level.state
    return max(level.state, parent.state, key=_ORDER.index)


def state_of(requested: RequestedState, *, is_idle: bool) -> QueueState:
    """Return the actual state of a queue."""
    if requested == "closed":
        return QueueState.CLOSED if is_idle else QueueState.CLOSING
    return QueueState.PAUSED if requested == "paused" else QueueState.OPEN
