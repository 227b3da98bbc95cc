"""The outcome for one request: seats, or a reason why it was rejected. It is the request's ticket, too.

An app finds it as ``scope["apf"]``. One object serves as ticket in the queues, as what a waiting task is woken by, and
as what the app looks at, because one is made for every request.
"""

from typing import TYPE_CHECKING, Final

from apf_middleware.fairqueuing import Ticket, TicketState

if TYPE_CHECKING:
    from apf_middleware.classification import Identity
    from apf_middleware.fairqueuing import Reason
    from apf_middleware.gates import ParkedRequest, Refusal
    from apf_middleware.runtime.destination import Destination
    from apf_middleware.runtime.waiting import Waiter

__all__ = ["Admission"]

_NEW: Final = TicketState.NEW
_SEATED: Final = TicketState.SEATED
_SECOND: Final = 10**9


class Admission(Ticket):
    """One request's outcome; ``reason`` is None unless it was rejected."""

    __slots__ = ("destination", "queued_width", "refusal", "waiter")

    # Given when it is queued: the width with which it was, of which a level may cut some, and who wakes its task.
    queued_width: int
    waiter: "Waiter | None"
    # Given when a gate was why it was rejected: which, and what it has to say.
    refusal: "Refusal | None"

    def __init__(self, destination: "Destination") -> None:
        # In place of Ticket's, whose checks would only repeat what a classification and an estimate have passed.
        classification = destination.classification
        self.destination = destination
        self.flow = classification.flow
        self.entropy = classification.entropy
        self.work = work = destination.work
        self.width = work.width
        self.state = _NEW
        self.reason: Reason | None = None
        self.queue = None

    @property
    def level(self) -> str:
        """The level's name."""
        return self.destination.classification.level

    @property
    def schema(self) -> str:
        """The schema's name."""
        return self.destination.classification.schema

    @property
    def identity(self) -> "Identity":
        """Who asks."""
        return self.destination.identity

    @property
    def seats(self) -> int:
        """The seats that it holds now."""
        return self.width if self.state is _SEATED else 0

    @property
    def waited(self) -> float:
        """For how many seconds it has waited in a queue."""
        until = getattr(self, "seated_at", None)
        if until is None:
            until = self.destination.controller.now()
        return (until - self.arrived_at) / _SECOND

    @property
    def held_by(self) -> "ParkedRequest | None":
        """The gate that keeps it waiting, and since when; None if none does."""
        return self.destination.controller.holding(self)

    def release(self) -> None:
        """Give the seats back before the response has ended, as for a stream; again does nothing."""
        if self.state is _SEATED:
            self.destination.controller.release(self, long_lived=True)

    def pass_over(self) -> None:
        """Its turn came, but its seats weren't free."""
        self.destination.tally.no_accommodation += 1
