"""The outcome for one request: seats, or a reason why it was rejected; and the destination of requests of one kind.

An app finds its admission as ``scope["apf"]``. One object is the ticket in the queues, the handle by which a waiting
task is woken, and what the app sees, because one is made for every request. It acts through an `AdmissionControl`,
which its destination was given.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from apf_middleware.classification import ANONYMOUS, Classification, Identity, RequestDigest, Resource
from apf_middleware.exceptions import InvalidValueError, TicketStateError, require_amount
from apf_middleware.fairqueuing import Ticket, TicketState
from apf_middleware.runtime.revocation import Revocation
from apf_middleware.runtime.streams import Stream

if TYPE_CHECKING:
    from apf_middleware.estimation import Watch, WatchTracker
    from apf_middleware.fairqueuing import Reason, Work
    from apf_middleware.fairqueuing.ticket import Queue
    from apf_middleware.gates import ParkedRequest, Refusal
    from apf_middleware.metrics.tally import Tally
    from apf_middleware.runtime.incoming_bodies import IncomingBodies
    from apf_middleware.runtime.level import LevelRuntime
    from apf_middleware.runtime.registry import LevelRegistry
    from apf_middleware.runtime.wait_monitor import WaitMonitors

__all__ = ["MOST_CHARGED", "Admission", "AdmissionControl", "AdmissionRecord", "Destination", "Wakeable"]

MOST_CHARGED: Final = 10_000
"""No request is billed for more seats than this."""

_NEW: Final = TicketState.NEW
_SEATED: Final = TicketState.SEATED
_SECOND: Final = 10**9


@dataclass(frozen=True, slots=True)
class AdmissionRecord:
    """The facts of an admission at the moment when it was pickled, under the names that they have there."""

    level: str
    schema: str
    flow: str
    seats: int
    waited: float
    reason: "Reason | None"


class Wakeable(Protocol):
    """A task that waits for seats."""

    def wake(self) -> None:
        """Let the task run on: its request has been seated or rejected."""
        ...


class AdmissionControl(Protocol):
    """What admissions and the tasks that wait for them need of a server's controller."""

    now: Callable[[], int]
    watches: "WatchTracker"
    bodies: "IncomingBodies"
    is_closing: bool
    registry: "LevelRegistry"
    wait_monitors: "WaitMonitors"

    def arrive(self, now: int, admission: "Admission") -> None:
        """Let a request in: afterwards it is seated, queued, or rejected."""
        ...

    def refuse(self, now: int, admission: "Admission", reason: "Reason") -> None:
        """Reject a request that never reaches its level."""
        ...

    def abandon(self, admission: "Admission", reason: "Reason") -> None:
        """Reject a waiting request, and wake its task."""
        ...

    def hang_up(self, admission: "Admission") -> None:
        """Reject a waiting request, because its client has hung up."""
        ...

    def leave(self, admission: "Admission") -> None:
        """Give up the place or the seats of a request whose task is cancelled while it waits."""
        ...

    def release(self, admission: "Admission", *, long_lived: bool = False) -> None:
        """Free the seats of a request, at once or after their linger."""
        ...

    def release_leases(self, admission: "Admission", *, early: bool = False) -> None:
        """Take back what gates have given to a request; ``early``, only what ends when its response begins."""
        ...

    def charge(self, admission: "Admission", seats: float) -> None:
        """Bill a running request for so many seats."""
        ...

    def let_revoke(self, admission: "Admission") -> None:
        """Allow a running request to be asked to give way."""
        ...

    def held_by(self, admission: "Admission") -> "ParkedRequest | None":
        """Return the gate that keeps a request waiting, if one does."""
        ...


class Destination:
    """The level, the counters and the work of requests of one classification and identity; made once for all of them.

    Requests that write are counted apart from those that read. ``route`` is the key under which their costs are
    learned, if they are.
    """

    __slots__ = ("classification", "controller", "identity", "route", "runtime", "tally", "work")

    # For requests with gates, which are resolved one by one; a subclass may set them.
    gates: Sequence[str] = ()
    digest: RequestDigest | None = None
    scope: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self,
        controller: AdmissionControl,
        classification: Classification,
        work: "Work",
        identity: Identity = ANONYMOUS,
        *,
        writes: bool = False,
    ) -> None:
        self.runtime: LevelRuntime = controller.registry.levels[classification.level]
        self.identity: Identity = identity
        self.controller: AdmissionControl = controller
        self.classification: Classification = classification
        self.tally: Tally = self.runtime.tally(classification.schema, writes=writes)
        self.work: Work = work
        self.route: str | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.classification}>"


class Admission(Ticket):
    """One request's outcome; ``reason`` is None unless it was rejected."""

    __slots__ = ("_revocation", "destination", "ends_badly", "queued_width", "refusal", "stream", "waiter")

    # Set when the request is queued: its width then, of which the level may cut some later, and its task.
    queued_width: int
    waiter: Wakeable | None
    # Set when they are needed, for few requests need them. A refusal is a gate's reason for the rejection.
    _revocation: Revocation
    ends_badly: bool
    refusal: "Refusal | None"

    def __init__(self, destination: Destination) -> None:
        # Ticket's constructor isn't called, for speed: its checks would repeat those of classification and estimate.
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
        self.stream: Stream | None = None  # what lasts until the response has ended, if anything does

    @property
    def level(self) -> str:
        """The name of the level."""
        return self.destination.classification.level

    @property
    def schema(self) -> str:
        """The name of the schema."""
        return self.destination.classification.schema

    @property
    def identity(self) -> Identity:
        """The identity of the caller."""
        return self.destination.identity

    @property
    def seats(self) -> int:
        """The seats that the request holds now."""
        return self.width if self.state is _SEATED else 0

    @property
    def waited(self) -> float:
        """The time for which the request has waited in a queue, in seconds."""
        until = getattr(self, "seated_at", None)
        if until is None:
            until = self.destination.controller.now()
        return (until - self.arrived_at) / _SECOND

    @property
    def held_by(self) -> "ParkedRequest | None":
        """The gate that keeps the request waiting, and since when; None if none does."""
        return self.destination.controller.held_by(self)

    def release(self) -> bool:
        """Give the seats back before the response has ended, as for a stream; further calls do nothing.

        Return False if the request keeps them, because its level or flow has as many open streams as it may.
        """
        # The place among the streams is taken first: with the seats gone, nothing would bound the request.
        if self.state is _SEATED and self.long_term().enter():
            self.destination.controller.release(self, long_lived=True)
        return self.state is not _SEATED

    def charge(self, seats: float) -> bool:
        """Bill the flow for ``seats`` in place of the estimate, for as long as the request runs; the last call counts.

        Return False if that comes too late, because the seats were given back.
        """
        if require_amount("seats", seats) > MOST_CHARGED:
            raise InvalidValueError("seats", seats, f"it must be at most {MOST_CHARGED}")
        if self.state is not _SEATED:
            return False
        self.destination.controller.charge(self, seats)
        return True

    def watch(self, resource: str, namespace: str = "", name: str = "", *, api_group: str = "") -> "Watch":
        """Register that this request watches a resource, a namespace of it or one object, until it ends or `unwatch`.

        Requests that write what is watched are charged for the notifications, where writes are estimated as Kubernetes
        does.
        """
        return self.long_term().watch(Resource(resource, api_group, namespace=namespace, name=name))

    def unwatch(self, watch: "Watch") -> None:
        """Remove what `watch` has registered."""
        if self.stream is not None:
            self.stream.forget(watch)

    def long_term(self) -> Stream:
        """Return the request's stream, which lasts until its response has ended; it is made when it is needed."""
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
        """Whether the request is asked to give way to an owner of its seats; never unless it is `revocable`."""
        found: Revocation | None = getattr(self, "_revocation", None)
        if found is None:
            self._revocation = found = Revocation()
        return found

    def revocable(self) -> Revocation:
        """Allow the request to be asked to give way, and return the revocation to look at or to wait for."""
        revoked = self.revoked
        if self.state is _SEATED:
            self.destination.controller.let_revoke(self)
        return revoked

    def fail(self, *, aborted: bool = False) -> None:
        """Count a request that had seats as failed, or as aborted; the first call counts."""
        if self.reason is None and self.state is not _NEW and getattr(self, "ends_badly", None) is None:
            self.ends_badly = True
            tally = self.destination.tally
            (tally.aborted if aborted else tally.failed).note(self)

    def renew(self) -> None:
        """Make the admission new again, to ask for seats once more after they were given back."""
        self.state, self.reason, self.queue, self.width = _NEW, None, None, self.work.width
        del self.seated_at

    def pass_over(self) -> None:
        """Count that the turn of the request came and its seats weren't free."""
        self.destination.tally.no_accommodation += 1

    def __copy__(self) -> Self:
        """Return the admission itself: a copy of its scope is about the same seats."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> tuple[type[AdmissionRecord], tuple[object, ...]]:
        """Pickle the facts, for the seats can't go to another process."""
        return AdmissionRecord, (self.level, self.schema, self.flow, self.seats, self.waited, self.reason)
