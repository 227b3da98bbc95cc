"""One request of the real server, as the second configuration sees it."""

from typing import TYPE_CHECKING, Final, Protocol

from apf_middleware.fairqueuing import Reason
from apf_middleware.fairqueuing.ticket import BEFORE_SEATS
from apf_middleware.runtime.admission import Admission
from apf_middleware.runtime.shadow.tallies import AT_ONCE, PASSED, REJECTED, WAITED

if TYPE_CHECKING:
    from apf_middleware.runtime.shadow.place import ShadowPlace

__all__ = ["RequestFollower", "ShadowRequest"]

_CANCELLED: Final = Reason.CANCELLED


class RequestFollower(Protocol):
    """The second server, which follows the requests until it ``is_over``."""

    is_over: bool

    def note_seated(self, request: "ShadowRequest", decision: int) -> None:
        """Note that the real request has begun at ``request.began_at``."""
        ...

    def note_ended(self, request: "ShadowRequest", lasted_ns: int) -> None:
        """Note how long the real request has had its seats."""
        ...

    def note_unserved(self, request: "ShadowRequest", decision: int, hung_up_at: int | None = None) -> None:
        """Note that the duration of the request will stay unknown, perhaps because its client has hung up."""
        ...

    def note_woken(self, request: "ShadowRequest") -> None:
        """Note that the second configuration has ended the request's wait."""
        ...

    def fail(self, error: Exception) -> None:
        """End because of an error of the second server."""
        ...


class ShadowRequest:
    """A request that arrived at ``arrived_at`` and has a ``place`` in the second configuration.

    It is the observation of the real request, and the task that waits with its ``admission`` to the second server.
    ``began_at`` is when the real request got its seats, and ``lasted_ns`` for how long it had them; both are None until
    they are known. ``is_assumed`` if the duration is that of similar requests. ``left_ns`` is the time until the
    deadline, if there is one. ``refused`` is the reason for which the real server has refused the request before it
    asked for seats. ``real`` and ``own`` are the decisions of both servers.
    """

    __slots__ = (
        "_follower",
        "admission",
        "arrived_at",
        "began_at",
        "is_assumed",
        "lasted_ns",
        "left_ns",
        "own",
        "place",
        "real",
        "refused",
    )

    def __init__(self, follower: RequestFollower, place: "ShadowPlace", arrived_at: int) -> None:
        self._follower = follower
        self.place: ShadowPlace = place
        self.admission: Admission = Admission(place.destination)
        self.arrived_at: int = arrived_at
        self.began_at: int | None = None
        self.lasted_ns: int | None = None
        self.left_ns: int | None = None
        self.refused: Reason | None = None
        self.is_assumed: bool = False
        self.real: int = -1
        self.own: int = -1

    # As the observation of the real request

    def note_seated(self, admission: Admission) -> None:
        """Note that the real request has its seats."""
        if self._follower.is_over or self.began_at is not None:
            return
        if admission.has_passed:
            decision = PASSED
        else:
            decision = AT_ONCE if admission.seated_at == admission.arrived_at else WAITED
        self.arrived_at = admission.arrived_at  # as exactly as the real server has it
        self.began_at = admission.seated_at
        try:
            self._follower.note_seated(self, decision)
        except Exception as error:  # noqa: BLE001 - an error here must never reach a request
            self._follower.fail(error)

    def note_released(self, admission: Admission) -> None:
        """Note that the seats of the real request are free again."""
        if self._follower.is_over or self.lasted_ns is not None:
            return
        try:
            self._follower.note_ended(self, admission.released_at - admission.seated_at)
        except Exception as error:  # noqa: BLE001
            self._follower.fail(error)

    def note_rejected(self, admission: Admission) -> None:
        """Note that the real request has been rejected."""
        if self.real >= 0:
            return  # it has had its seats, and asked for them again (see `asgi.upload`)
        reason, hung_up_at = admission.reason, None
        if reason in BEFORE_SEATS:
            self.refused = reason
        elif reason is _CANCELLED:
            if getattr(admission, "queueset", None) is None:  # the client left before its body had arrived
                self.refused = reason
            else:
                hung_up_at = admission.rejected_at
        self._note_unserved(REJECTED, hung_up_at)

    def note_passed(self, _admission: Admission) -> None:
        """Note that the real request runs without seats from now on."""
        self._note_unserved(PASSED)

    def _note_unserved(self, decision: int, hung_up_at: int | None = None) -> None:
        if self._follower.is_over or self.real >= 0:
            return
        try:
            self._follower.note_unserved(self, decision, hung_up_at)
        except Exception as error:  # noqa: BLE001
            self._follower.fail(error)

    # As the task that waits for seats of the second server

    def wake(self) -> None:
        """Continue: the admission has been seated or rejected."""
        self._follower.note_woken(self)

    def __repr__(self) -> str:
        return f"<ShadowRequest of {self.admission!r}>"
