"""The outcome for one request (`Admission`), and the level and work that similar requests share (`Destination`).

An app finds its admission as ``scope["apf"]``. To create only one object for each request, the admission is also the
request's ticket in the queues, and refers to the task that waits. Its methods call the controller of its destination,
which has the interface `AdmissionControl`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from apf_middleware.adaptive import RequestOutcome, outcome_of
from apf_middleware.classification import ANONYMOUS, Classification, Identity, RequestDigest, Resource
from apf_middleware.compilation import mypyc_attr
from apf_middleware.copying import Value, get_state, set_state
from apf_middleware.estimation import Watch
from apf_middleware.exceptions import InvalidValueError, TicketStateError, require_amount
from apf_middleware.fairqueuing import Reason, Ticket, TicketState
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from apf_middleware.runtime.event_loop import HomeLoop
from apf_middleware.runtime.open_streams import Stream
from apf_middleware.runtime.revocation import Revocation
from apf_middleware.snapshots import ParkedRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apf_middleware.criticality import Criticality
    from apf_middleware.estimation import LearnedCosts, WatchTracker
    from apf_middleware.fairqueuing import Work
    from apf_middleware.metrics.schema_counters import SchemaCounters
    from apf_middleware.runtime.incoming_bodies import IncomingBodies
    from apf_middleware.runtime.level import LevelRuntime
    from apf_middleware.runtime.registry import LevelRegistry
    from apf_middleware.runtime.wait_monitor import WaitMonitors

__all__ = [
    "MOST_CHARGED",
    "NO_SCOPE",
    "Admission",
    "AdmissionControl",
    "AdmissionRecord",
    "Destination",
    "RequestObservation",
    "VirtualSeats",
    "Wakeable",
]

MOST_CHARGED: Final = 10_000
"""No request is billed for more seats than this."""

NO_SCOPE: Final[Mapping[str, Any]] = MappingProxyType({})
"""The scope of a request that no gate looks at."""

_NEW: Final = TicketState.NEW
_WAITING: Final = TicketState.WAITING
_SEATED: Final = TicketState.SEATED
_REJECTED: Final = TicketState.REJECTED
_SUCCESS: Final = RequestOutcome.SUCCESS
_SECOND: Final = 10**9


@dataclass(frozen=True, slots=True)
class AdmissionRecord(Value):
    """The values of an admission when it was pickled; the attributes have the same names."""

    level: str
    schema: str
    flow: str
    seats: int
    waited: float
    reason: Reason | None
    flow_weight: float = 1


class VirtualSeats(Protocol):
    """The seats that a request would have, which has passed because its server only observes."""

    def release(self, long_term: Callable[[], Stream]) -> None:
        """Give the seats back before the response has ended, if there is a place for the stream (see `long_term`)."""
        ...

    def charge(self, seats: float) -> bool:
        """Bill the flow for ``seats``; return False if the seats have been given back already."""
        ...


class Wakeable(Protocol):
    """A task that waits for seats."""

    def wake(self) -> None:
        """Let the task continue: its request has been seated or rejected."""
        ...


class AdmissionControl(Protocol):
    """The part of the controller that admissions and waiting tasks use."""

    now: Callable[[], int]
    home: HomeLoop
    watches: "WatchTracker"
    bodies: "IncomingBodies"
    costs: "LearnedCosts"
    is_closing: bool
    is_passing: bool
    registry: "LevelRegistry"
    wait_monitors: "WaitMonitors"

    def arrive(self, now: int, admission: "Admission") -> None:
        """Seat, queue or reject a new request."""
        ...

    def refuse(self, now: int, admission: "Admission", reason: Reason) -> None:
        """Reject a request that never reaches its level."""
        ...

    def abandon(self, admission: "Admission", reason: Reason) -> None:
        """Reject a waiting request, and wake its task."""
        ...

    def hang_up(self, admission: "Admission") -> None:
        """Reject a waiting request, because its client has hung up."""
        ...

    def leave(self, admission: "Admission") -> None:
        """Withdraw the request of a cancelled task, or release its seats if it has just been seated."""
        ...

    def release(self, admission: "Admission", *, long_lived: bool = False, has_run: bool = True) -> None:
        """Free the seats of a request, at once or after their linger."""
        ...

    def release_leases(self, admission: "Admission", *, early: bool = False) -> None:
        """Give the leases of a request back; if ``early``, only those that end when its response begins."""
        ...

    def charge(self, admission: "Admission", seats: float) -> None:
        """Bill a running request for ``seats`` instead of its own seats, when it releases them."""
        ...

    def let_revoke(self, admission: "Admission") -> None:
        """Let a running request be asked for its seats, when another level that deserves them waits."""
        ...

    def held_by(self, admission: "Admission") -> ParkedRequest | None:
        """Return the state of a request that waits for a gate; None if it waits for none."""
        ...


class RequestObservation(Protocol):
    """Follows one request, for example for a recording of the traffic.

    Exactly one of the last three methods is called, and is the last one, unless an upload has given its seats back and
    asks for them again (see `asgi.upload`). None may raise.
    """

    def note_seated(self, admission: "Admission") -> None:
        """Note that the request has been given its seats, at once or after a wait."""
        ...

    def note_released(self, admission: "Admission") -> None:
        """Note that the seats are free again: the request has ended, has become a stream, or has given them back.

        ``admission.released_at`` is the time of this.
        """
        ...

    def note_rejected(self, admission: "Admission") -> None:
        """Note that the request has been rejected, for ``admission.reason``."""
        ...

    def note_passed(self, admission: "Admission") -> None:
        """Note that the request was waiting when the server stopped limiting requests, and now runs without seats."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Destination:
    """The level, the counters and the work that all requests of one classification and identity share.

    Requests that write are counted separately from those that read. If costs are learned, ``route`` is the key under
    which the costs of these requests are kept.
    """

    __slots__ = (
        "classification",
        "controller",
        "counters",
        "criticality",
        "digest",
        "gates",
        "identity",
        "route",
        "runtime",
        "scope",
        "weight",
        "work",
    )

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
        self.counters: SchemaCounters = self.runtime.counters_of(classification.schema, writes=writes)
        self.work: Work = work
        weight = classification.weight
        self.weight: int = WEIGHT_ONE if weight == 1 else round(weight * WEIGHT_ONE)
        self.route: str | None = None
        self.criticality: Criticality | None = None  # that is passed on; None if nothing asks for it
        self.gates: Sequence[str] = ()
        self.digest: RequestDigest | None = None  # for gates, of what all requests with this destination have in common

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.classification}>"

    def __getstate__(self) -> dict[str, object]:
        return get_state(self)

    def __setstate__(self, state: dict[str, object]) -> None:
        set_state(self, state)


@mypyc_attr(allow_interpreted_subclasses=True)
class Admission(Ticket):
    """One request's outcome; ``reason`` is None unless it was rejected.

    Apps read its properties, such as ``level``, ``flow``, ``seats``, ``waited`` and ``remaining``, and call `release`,
    `charge`, `watch`, `unwatch` and `revocable`, in any thread. All other methods are the middleware's.
    """

    __slots__ = (
        "_deadline",
        "_outcome",
        "_predicted_wait",
        "_renewed",
        "_revocation",
        "_shown",
        "_virtual",
        "destination",
        "latest_start_ns",
        "observations",
        "queued_width",
        "refusal",
        "rejected_at",
        "released_at",
        "stream",
        "waiter",
    )

    # Set when the request is queued. The level may later reduce its width, but not ``queued_width``.
    queued_width: int
    waiter: Wakeable | None
    # Set when the request is rejected.
    rejected_at: int
    # Set if the request is observed: what is told what becomes of it, and when its seats have been released.
    observations: tuple[RequestObservation, ...]
    released_at: int
    # Unset in most requests, to save time. A refusal is a gate's reason for the rejection; its type, which only servers
    # with gates import, can't be named here, where `typing.get_type_hints` must find it.
    _deadline: int
    _outcome: RequestOutcome
    _predicted_wait: int
    _renewed: bool
    _revocation: Revocation
    _shown: tuple[RequestDigest | None, Mapping[str, Any]]
    _virtual: VirtualSeats
    refusal: object

    def __init__(self, destination: Destination) -> None:
        classification = destination.classification
        self.destination: Destination = destination
        # For speed, the constructor of Ticket isn't called: it would check the classification and the work again.
        ticket: Ticket = self  # what is assigned to ``self`` would be declared a second time, in this class
        ticket.flow = classification.flow
        ticket.entropy = classification.entropy
        ticket.work = work = destination.work
        ticket.weight = destination.weight
        ticket.width = work.width
        ticket.state = _NEW
        ticket.reason = None
        ticket.queue = None
        self.latest_start_ns: int | None = None  # the end of its wait at the latest, before the deadline
        # Its place among the open streams, and its Kubernetes watches; both end with the response.
        self.stream: Stream | None = None

    @property
    def level(self) -> str:
        """The name of the level."""
        return self.destination.classification.level

    @property
    def schema(self) -> str:
        """The name of the schema."""
        return self.destination.classification.schema

    @property
    def flow_weight(self) -> float:
        """The weight of the flow against other flows of its level; 1 unless the schema gives it another one."""
        return self.destination.classification.weight

    @property
    def identity(self) -> Identity:
        """The identity of the caller."""
        return self.destination.identity

    @property
    def criticality(self) -> str | None:
        """The name of the criticality that the request is passed on with; None if the server knows none."""
        found = self.destination.criticality
        return None if found is None else found.key

    @property
    def shown(self) -> tuple[RequestDigest | None, Mapping[str, Any]]:
        """The digest and the scope that gates see."""
        found: tuple[RequestDigest | None, Mapping[str, Any]] | None = getattr(self, "_shown", None)
        return (self.destination.digest, NO_SCOPE) if found is None else found

    def show(self, digest: RequestDigest | None, scope: Mapping[str, Any] = NO_SCOPE) -> None:
        """Let gates see the facts of this request alone.

        At its end the scope must be taken back, because it refers to the admission.
        """
        self._shown = digest, scope

    @property
    def seats(self) -> int:
        """The seats that the request holds now."""
        return self.width if self.state is _SEATED else 0

    @property
    def has_passed(self) -> bool:
        """Whether the request runs without seats, because the server's mode isn't ``on``."""
        return self.state is _NEW  # a request that asks for seats has left this state before the app sees it

    @property
    def waited(self) -> float:
        """The time for which the request has waited in a queue, in seconds."""
        if self.state is _REJECTED:
            until = self.rejected_at
        elif self.state is _WAITING:
            until = self.destination.controller.now()
        else:
            until = self.seated_at
        return (until - self.arrived_at) / _SECOND

    @property
    def deadline(self) -> float | None:
        """The time on the clock of `time.monotonic` after which nobody needs the answer; None if there is none."""
        found = self.deadline_ns
        return None if found is None else found / _SECOND

    @property
    def remaining(self) -> float | None:
        """The seconds until the deadline, which are negative after it; None if there is none."""
        found = self.deadline_ns
        return None if found is None else (found - self.destination.controller.now()) / _SECOND

    @property
    def deadline_ns(self) -> int | None:
        """The ``deadline`` in nanoseconds."""
        found: int | None = getattr(self, "_deadline", None)
        return found

    @property
    def predicted_wait_ns(self) -> int | None:
        """The wait that was predicted on arrival; None if the request needn't wait or nothing was predicted."""
        found: int | None = getattr(self, "_predicted_wait", None)
        return found

    def predict_wait(self, wait_ns: int) -> None:
        """Set the predicted wait."""
        self._predicted_wait = wait_ns

    def set_deadline(self, deadline_ns: int, latest_start_ns: int) -> None:
        """Set the deadline and the end of the wait, which has not begun yet."""
        self._deadline, self.latest_start_ns = deadline_ns, latest_start_ns

    @property
    def held_by(self) -> ParkedRequest | None:
        """The state of the request at the gate that it waits for; None if it waits for none."""
        return self.destination.controller.held_by(self)

    def release(self) -> bool:
        """Give the seats back before the response has ended, as for a stream; further calls do nothing.

        Return False if the request keeps them, because its level or flow has as many open streams as it may.
        """
        return self.destination.controller.home.call(self._release)

    def release_blocked(self) -> None:
        """Do what `release` does, because the client doesn't read; nothing is learned from the time that this took."""
        self.destination.controller.home.call(partial(self._release, has_run=False))

    def _release(self, *, has_run: bool = True) -> bool:
        # First take a place among the streams. A request with neither seats nor such a place would not be limited.
        if self.state is _SEATED and self.long_term().enter():
            self.destination.controller.release(self, long_lived=True, has_run=has_run)
        elif self.state is _NEW and (virtual := self._virtual_seats()) is not None:
            virtual.release(self.long_term)
        return self.state is not _SEATED

    def charge(self, seats: int | float) -> bool:  # noqa: PYI041 - a float would hide a bool in the compiled build
        """Bill the flow for ``seats`` instead of the estimate, for the whole duration; the last call counts.

        Return False if the request has already given its seats back.
        """
        require_amount("seats", seats, most=MOST_CHARGED)
        return self.destination.controller.home.call(partial(self._charge, seats))

    def _charge(self, seats: float) -> bool:
        if self.state is not _SEATED:
            virtual = self._virtual_seats()
            return virtual is not None and virtual.charge(seats)
        self.destination.controller.charge(self, seats)
        return True

    def pass_with(self, virtual: VirtualSeats) -> None:
        """Let the request pass without seats, and tell ``virtual`` what the app does with those that it would have."""
        self._virtual = virtual

    def _virtual_seats(self) -> VirtualSeats | None:
        found: VirtualSeats | None = getattr(self, "_virtual", None)
        return found

    def watch(self, resource: str, namespace: str = "", name: str = "", *, api_group: str = "") -> Watch:
        """Record that the client of this request is notified of changes (a *watch*).

        The changes are those of a type of resource, of such resources in a namespace, or of one object. The watch ends
        with the request or by `unwatch`. If writes are estimated as in Kubernetes, a request that writes a watched
        object is charged for the notifications.
        """
        given = (("resource", resource), ("namespace", namespace), ("name", name), ("api_group", api_group))
        for argument, value in given:
            _require_type(argument, value, str, "text")
        watched = Resource(resource, api_group, namespace=namespace, name=name)
        return self.destination.controller.home.call(lambda: self.long_term().watch(watched))

    def unwatch(self, watch: Watch) -> None:
        """Remove a watch that `watch` has registered."""
        _require_type("watch", watch, Watch, "what `watch` has returned")
        if self.stream is not None:
            self.destination.controller.home.call(partial(self.stream.forget, watch))

    def long_term(self) -> Stream:
        """Return the request's stream, which lasts until its response has ended; create it on the first call."""
        stream = self.stream
        # In any other state the request waits or has ended. After its end no code would close a stream, so the stream
        # would be counted for ever.
        if stream is None and self.state in {_NEW, _SEATED}:
            destination = self.destination
            place = destination.classification
            flow = place.schema, place.flow
            stream = self.stream = Stream(destination.runtime.streams, flow, destination.controller.watches)
        if stream is None or stream.is_over:
            raise TicketStateError(f"{self!r} can't become a stream or begin a watch, because it waits or has ended")
        return stream

    @property
    def revoked(self) -> Revocation:
        """The revocation of the seats, which is set when another level that deserves the seats has asked for them.

        It is never set before `revocable` is called.
        """
        found: Revocation | None = getattr(self, "_revocation", None)
        if found is None:
            self._revocation = found = Revocation()
        return found

    def revocable(self) -> Revocation:
        """Allow that the seats are asked back, and return the revocation to check or to wait for."""
        revoked = self.revoked
        self.destination.controller.home.call(self._let_revoke)
        return revoked

    def _let_revoke(self) -> None:
        self.revoked.is_allowed = True
        # A stream has given its seats back already; an upload may get seats again.
        if self.state is _SEATED:
            self.destination.controller.let_revoke(self)

    @property
    def outcome(self) -> RequestOutcome:
        """How the app answered, as far as is known."""
        found: RequestOutcome = getattr(self, "_outcome", _SUCCESS)
        return found

    def fail(self, status: int = 500, *, aborted: bool = False) -> None:
        """Note that a request has failed with this ``status``, and count it if it had seats; the first call counts."""
        # A rejected request counts by its reason; one that is cancelled while it waits is among these.
        if self.reason is None and self.outcome is _SUCCESS:
            self._outcome = outcome_of(status)
            if self.state is not _NEW:
                counters = self.destination.counters
                (counters.aborted if aborted else counters.failed).note(self)

    @property
    def is_renewed(self) -> bool:
        """Whether the request has asked for seats again."""
        return bool(getattr(self, "_renewed", False))

    def renew(self) -> None:
        """Reset the admission, to ask for seats again after it has released them."""
        self._renewed = True
        ticket: Ticket = self
        ticket.state, ticket.reason, ticket.queue = _NEW, None, None
        ticket.width = self.work.width  # the level may have cut it
        ticket.weight = self.destination.weight  # a fleet may have reduced it

    def pass_over(self) -> None:
        """Count that the request was next but too few seats were free."""
        self.destination.counters.no_accommodation += 1

    def __copy__(self) -> Self:
        """Return the admission itself, because copies of a scope are about the same request."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> tuple[type[AdmissionRecord], tuple[object, ...]]:
        """Pickle an `AdmissionRecord`, because another process can't hold the seats."""
        values = (self.level, self.schema, self.flow, self.seats, self.waited, self.reason, self.flow_weight)
        return AdmissionRecord, values


def _require_type(name: str, value: object, kind: type, described: str) -> None:
    if not isinstance(value, kind):
        raise InvalidValueError(name, value, f"it must be {described}")
