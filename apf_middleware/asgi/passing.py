"""Requests that run at once, because the server's mode is to observe or to be off.

Everything that isn't about overload stays as it is: callers are authenticated, and the admin and the metrics have
their paths. In the mode ``observe`` each request is a virtual one, too (see `runtime.virtual_requests`), so that the
metrics, the logs and the dumps show what would happen.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi.body import RequestBody
from apf_middleware.asgi.resolver import ResolvedRequest
from apf_middleware.asgi.scope import complete_digest
from apf_middleware.asgi.stream_policy import is_event_stream
from apf_middleware.mode import Mode
from apf_middleware.propagation.current import CURRENT_CRITICALITY
from apf_middleware.runtime import Admission, RejectionLog
from apf_middleware.runtime.virtual_requests import VirtualRequest, VirtualRequests

if TYPE_CHECKING:
    from collections.abc import Callable

    from apf_middleware.asgi.request_deadlines import RequestDeadlines
    from apf_middleware.asgi.scope import Headers

__all__ = ["Passing"]

_ACCEPTED: Final = frozenset({"websocket.accept", "websocket.http.response.start"})


class Passing:
    """Serve requests in a ``mode`` other than ``on``; ``passed`` counts them by mode."""

    def __init__(self, mode: Mode, now: "Callable[[], int]", rejections: RejectionLog, passed: Counter[str]) -> None:
        self.mode: Mode = mode
        self._passed = passed
        self._now = now
        self._virtual = VirtualRequests(now, rejections.note)

    def end(self) -> None:
        """Free the seats of virtual requests that have ended, because another mode begins."""
        self._virtual.clear()

    async def serve(
        self,
        app: ASGIApp,
        arrived: int,
        resolved: ResolvedRequest,
        exchange: tuple[Scope, Receive | RequestBody, Send],
        deadlines: "RequestDeadlines | None",
    ) -> None:
        """Call the app at once with a request that arrived at the time ``arrived``."""
        scope, messages, send = exchange
        body: RequestBody | None
        receive: Receive
        if isinstance(messages, RequestBody):  # the mode has changed while the body was arriving
            receive, body = messages.receive, messages
        else:
            receive, body = messages, resolved.body
        self._passed[self.mode] += 1
        # The app's admission has no seats. In this state it accepts all calls, and they do nothing.
        admission, now = Admission(resolved), self._now()
        admission.arrived_at = admission.seated_at = now
        begun = self._begin(arrived, now, resolved, scope, deadlines) if self.mode == "observe" else None
        request = _UnlimitedRequest(admission) if begun is None else begun
        scope["apf"] = admission
        if body is not None:
            receive, send = body.hand_over(receive, send)
        if isinstance(request, VirtualRequest):
            _copy_deadline(request.admission, admission)
            send = _ObservedReply(send, request)
        try:
            await app(scope, receive, send)
        except BaseException as error:
            request.fail(aborted=not isinstance(error, Exception))
            raise
        finally:
            request.finish()
            if admission.stream is not None:
                admission.stream.close()
            if body is not None:
                body.close()

    def _begin(
        self, arrived: int, now: int, resolved: ResolvedRequest, scope: Scope, deadlines: "RequestDeadlines | None"
    ) -> VirtualRequest:
        """Begin a virtual request; what services further on are told is as in the mode ``on``."""
        admission = Admission(resolved)
        if deadlines is not None:
            deadlines.begin(arrived, now, admission, scope)
        if resolved.criticality is not None:
            CURRENT_CRITICALITY.set(resolved.criticality)
        if resolved.digest is not None:
            admission.show(complete_digest(resolved.digest, scope), scope)
        return self._virtual.begin(now, admission)

    def __repr__(self) -> str:
        return f"<Passing in the mode {self.mode}>"


def _copy_deadline(virtual: Admission, admission: Admission) -> None:
    if (deadline := virtual.deadline_ns) is not None:
        admission.set_deadline(deadline, virtual.latest_start_ns or deadline)


class _UnlimitedRequest:
    """A request that has no seats and no virtual ones; only its observations are told about it."""

    __slots__ = ("_admission",)

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        for one in admission.destination.observations:
            one.note_seated(admission)

    def fail(self, *, aborted: bool) -> None:
        """Do nothing: failures aren't counted in this mode."""

    def finish(self) -> None:
        """Note that the request has ended."""
        for one in self._admission.destination.observations:
            one.note_released(self._admission)


class _ObservedReply:
    """The ``send`` of an app: it adds headers, and notes failures and that a virtual request becomes a stream."""

    __slots__ = ("_headers", "_send", "_virtual")

    def __init__(self, send: Send, virtual: VirtualRequest) -> None:
        self._send = send
        resolved = virtual.admission.destination
        assert isinstance(resolved, ResolvedRequest)
        self._headers: Headers = resolved.headers_at_once if virtual.admission.is_seated else resolved.headers
        self._virtual = virtual

    async def __call__(self, message: Message) -> None:
        kind = message["type"]
        admission = self._virtual.admission
        if kind == "http.response.start":
            if message["status"] >= 500:
                self._virtual.fail(message["status"])
            headers = list(message.get("headers", ()))
            message = {**message, "headers": [*headers, *self._headers]}
            if any(name.lower() == b"content-type" and is_event_stream(value) for name, value in headers):
                self._become_stream(admission)
        elif kind in _ACCEPTED:
            message = {**message, "headers": [*message.get("headers", ()), *self._headers]}
            self._become_stream(admission)
        await self._send(message)

    def _become_stream(self, admission: Admission) -> None:
        if admission.destination.runtime.streams.settings.release_at_start:
            self._virtual.finish()
