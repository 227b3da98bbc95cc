"""The outcome for one request: seats, or a reason why it was rejected. It is the request's ticket, too.

An app finds it as ``scope["apf"]``. One object serves as ticket in the queues, as what a waiting task is woken by, and
as what the app looks at, because one is made for every request.
"""

from typing import TYPE_CHECKING, Final, Self

from apf_middleware.classification import Resource
from apf_middleware.exceptions import InvalidValueError, TicketStateError, require_amount
from apf_middleware.fairqueuing import Ticket, TicketState
from apf_middleware.runtime.record import AdmissionRecord
from apf_middleware.runtime.revocation import Revocation
from apf_middleware.runtime.streams import Stream

if TYPE_CHECKING:
    from apf_middleware.classification import Identity
    from apf_middleware.estimation import Watch
    from apf_middleware.fairqueuing import Reason, Work
    from apf_middleware.fairqueuing.queue import Queue
    from apf_middleware.gates import ParkedRequest, Refusal
    from apf_middleware.runtime.destination import Destination
    from apf_middleware.runtime.vigil import Wakeable

__all__ = ["MOST_CHARGED", "Admission"]

MOST_CHARGED: Final = 10_000
"""No request is billed for more seats than this."""

_NEW: Final = TicketState.NEW
_SEATED: Final = TicketState.SEATED
_SECOND: Final = 10**9


class Admission(Ticket):
    """One request's outcome; ``reason`` is None unless it was rejected."""

    __slots__ = ("_revocation", "destination", "ends_badly", "queued_width", "refusal", "stream", "waiter")

    # Given when it is queued: the width with which it was, of which a level may cut some, and who wakes its task.
    queued_width: int
    waiter: "Wakeable | None"
    # Given when they are needed, for few requests need them. A refusal is why a gate rejected it.
    _revocation: Revocation
    ends_badly: bool
    refusal: "Refusal | None"

    def __init__(self, destination: "Destination") -> None:
        # In place of Ticket's, whose checks would only repeat what a classification and an estimate have passed.
        classification = destination.classification
        self.destination: Destination = destination
        self.flow: str = classification.flow
        self.entropy: int = classification.entropy
        work = destination.work
        self.work: Work = work
        self.width: int = work.width
        self.state: TicketState = _NEW
        self.reason: Reason | None = None
        self.queue: Queue | None = None
        self.stream: Stream | None = None  # what lasts until its response has ended, where anything does

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

    def release(self) -> bool:
        """Give the seats back before the response has ended, as for a stream; again does nothing.

        False if it still has them, because its level or flow has as many open streams as it may.
        """
        if self.state is _SEATED and self.long_term().enter():
            self.destination.controller.release(self, long_lived=True)
        return self.state is not _SEATED

    def charge(self, seats: float) -> bool:
        """Bill its flow for so many seats in place of those estimated, for as long as it has them; the last one counts.

        False if that comes too late, because the seats were given back.
        """
        if require_amount("seats", seats) > MOST_CHARGED:
            raise InvalidValueError("seats", seats, f"it must be at most {MOST_CHARGED}")
        if self.state is not _SEATED:
            return False
        self.destination.controller.charge(self, seats)
        return True

    def watch(self, resource: str, namespace: str = "", name: str = "", *, api_group: str = "") -> "Watch":
        """This request watches all of a resource, of a namespace, or one object, until it ends or `unwatch` is called.

        Writers of what is watched are charged for telling the watchers, where writes are estimated as Kubernetes does.
        """
        return self.long_term().watch(Resource(resource, api_group, namespace=namespace, name=name))

    def unwatch(self, watch: "Watch") -> None:
        """It doesn't watch this any more."""
        if self.stream is not None:
            self.stream.forget(watch)

    def long_term(self) -> Stream:
        """What is kept of it until its response has ended; made when it is needed."""
        stream = self.stream
        if stream is None and self.state in {_NEW, _SEATED}:
            destination = self.destination
            place = destination.classification
            flow = place.schema, place.flow
            stream = self.stream = Stream(destination.runtime.streams, flow, destination.controller.watches)
        if stream is None or stream.is_over:
            raise TicketStateError(f"{self!r} is over: nothing can begin that would end with its response")
        return stream

    @property
    def revoked(self) -> Revocation:
        """Whether this request is asked to give way to an owner of its seats; never unless it is `revocable`."""
        found: Revocation | None = getattr(self, "_revocation", None)
        if found is None:
            self._revocation = found = Revocation()
        return found

    def revocable(self) -> Revocation:
        """From now on this request may be asked to give way; look at what is returned, or wait for it."""
        revoked = self.revoked
        if self.state is _SEATED:
            self.destination.controller.let_revoke(self)
        return revoked

    def fail(self, *, aborted: bool = False) -> None:
        """It had seats, and ends with an error or because its task is cancelled; what is told first counts."""
        if self.reason is None and self.state is not _NEW and getattr(self, "ends_badly", None) is None:
            self.ends_badly = True
            tally = self.destination.tally
            (tally.aborted if aborted else tally.failed).note(self)

    def renew(self) -> None:
        """Ask for seats once more, after they were given back while there was nothing to do."""
        self.state, self.reason, self.queue, self.width = _NEW, None, None, self.work.width
        del self.seated_at

    def pass_over(self) -> None:
        """Its turn came, but its seats weren't free."""
        self.destination.tally.no_accommodation += 1

    def __copy__(self) -> Self:
        """Return the admission itself: a copy of its scope is about the same seats."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> tuple[type[AdmissionRecord], tuple[object, ...]]:
        """Pickle the facts, for the seats can't go to another process."""
        return AdmissionRecord, (self.level, self.schema, self.flow, self.seats, self.waited, self.reason)
