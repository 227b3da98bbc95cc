"""One request of a recording: what it was when it came, and what became of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.types import Scope

from apf_middleware.adaptive import RequestOutcome
from apf_middleware.asgi.recording.disguise import Disguise, route_of
from apf_middleware.asgi.resolver import NO_DETAILS
from apf_middleware.asgi.scope import headers_of, method_of, path_of
from apf_middleware.fairqueuing import Reason
from apf_middleware.recordings import RecordedRequest

if TYPE_CHECKING:
    from apf_middleware.recordings.request import Outcome
    from apf_middleware.runtime import Admission, Destination

__all__ = ["ArrivedRequest", "RecordedObservation"]

_METHODS: Final = {
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
    "head": "HEAD",
    "options": "OPTIONS",
}
_FAILED: Final = 500


@dataclass(slots=True, eq=False)
class ArrivedRequest:
    """A request as it came, since the app may change the scope while it routes the request.

    The ``scope`` is kept for the route, which it contains at the end. It is None for a request that came before the
    recording began, of which little is known.
    """

    destination: "Destination"
    method: str
    path: str
    root: str = ""
    query: bytes = b""
    headers: Iterable[Sequence[bytes]] = ()
    scope: Scope | None = None

    @classmethod
    def of(cls, scope: Scope, destination: "Destination") -> "ArrivedRequest":
        """Return what is kept of a request that has just come."""
        root, query = str(scope.get("root_path") or ""), scope.get("query_string") or b""
        return cls(destination, method_of(scope), path_of(scope), root, query, headers_of(scope), scope)

    @classmethod
    def before(cls, destination: "Destination") -> "ArrivedRequest":
        """Return what is known of a request that came before."""
        verb, path, _ = getattr(destination, "details", NO_DETAILS)
        return cls(destination, _METHODS.get(verb, "GET"), path or "/")


class RecordedObservation:
    """Follows one request that came at the time ``at``; ``on_end`` is called when it has ended."""

    __slots__ = ("_admission", "_arrival", "_duration_ns", "_on_end", "_outcome", "_status", "_wait_ns", "at")

    def __init__(self, at: int, arrival: ArrivedRequest, on_end: "Callable[[RecordedObservation], None]") -> None:
        self.at: int = at
        self._arrival = arrival
        self._on_end: Callable[[RecordedObservation], None] | None = on_end
        self._admission: Admission | None = None
        self._status = 0
        self._outcome: Outcome = "waiting"
        self._wait_ns: int | None = None
        self._duration_ns: int | None = None

    def note_seated(self, admission: "Admission") -> None:
        """Note that the request has been given its seats, at once or after a wait."""
        self._admission, self._outcome = admission, "running"
        self._note_wait(admission, admission.seated_at)

    def note_running(self, admission: "Admission") -> None:
        """Note that the request has its seats already when the recording begins."""
        self._admission, self._outcome, self._wait_ns = admission, "running", 0

    def note_released(self, admission: "Admission") -> None:
        """Note that the seats are free again."""
        self._duration_ns = max(0, admission.destination.controller.now() - max(self.at, admission.seated_at))
        self._end(admission, "served")

    def note_rejected(self, admission: "Admission") -> None:
        """Note that the request has been rejected."""
        self._note_wait(admission, admission.rejected_at)
        self._end(admission, "hung-up" if admission.reason is Reason.CANCELLED else "rejected")

    def note_passed(self, admission: "Admission") -> None:
        """Note that the request was waiting when the server stopped limiting requests."""
        self._note_wait(admission, admission.destination.controller.now())
        self._end(admission, "passed")

    def note_response(self, status: int) -> None:
        """Note the status of the response."""
        self._status = self._status or status

    def note_unfinished(self) -> None:
        """Note that the recording ends before the request."""
        self._on_end = None

    @property
    def _is_standing(self) -> bool:
        return self._arrival.scope is None

    def _note_wait(self, admission: "Admission", until: int) -> None:
        self._wait_ns = max(0, until - (self.at if self._is_standing else admission.arrived_at))

    def _end(self, admission: "Admission", outcome: "Outcome") -> None:
        self._admission, self._outcome = admission, outcome
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end(self)

    def request(self, began_at: int, disguise: Disguise, address_of: Callable[[Scope], str]) -> RecordedRequest:
        """Return the request as a row of a recording that began at the time ``began_at``."""
        arrival, admission = self._arrival, self._admission
        destination, scope = arrival.destination, arrival.scope
        route = "" if scope is None else route_of(scope, arrival.root, arrival.path)
        if route:
            disguise.learn(route)
        place, work = destination.classification, destination.work
        deadline = None if admission is None else admission.deadline_ns
        stream = None if admission is None else admission.stream
        criticality = destination.criticality
        return RecordedRequest(
            time_ns=self.at - began_at,
            duration_ns=self._duration_ns,
            user=disguise.user(destination.identity),
            groups=disguise.groups(destination.identity),
            method=arrival.method,
            path=disguise.path(arrival.path, arrival.query, route),
            host=disguise.host(arrival.headers),
            headers=disguise.headers(arrival.headers),
            address="" if scope is None else disguise.name(address_of(scope)),
            seats=work.seats,
            route=route,
            schema=place.schema,
            level=place.level,
            flow=disguise.name(place.flow),
            weight=place.weight,
            final_seats=work.final_seats,
            linger_ns=work.linger_ns,
            wait_ns=self._wait_ns,
            outcome=self._final_outcome(),
            reason="" if admission is None or admission.reason is None else str(admission.reason),
            status=self._status,
            is_stream=stream is not None and stream.is_counted,
            deadline_ns=None if deadline is None else max(0, deadline - self.at),
            criticality="" if criticality is None else criticality.key,
            is_standing=self._is_standing,
        )

    def _final_outcome(self) -> "Outcome":
        if self._outcome != "served" or self._admission is None:
            return self._outcome
        has_failed = self._admission.outcome is not RequestOutcome.SUCCESS or self._status >= _FAILED
        return "failed" if has_failed else "served"
