"""Requests that run at once, because the server's mode is to observe or to be off.

Everything that isn't about overload stays as it is: callers are authenticated, and the admin and the metrics have
their paths. In the mode ``observe`` each request is a virtual one, too (see `runtime.virtual_requests`), so that the
metrics, the logs and the dumps show what would happen.
"""

from collections import Counter
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi.body import RequestBody
from apf_middleware.asgi.replies import RESPONSE_STARTS, with_headers
from apf_middleware.asgi.request_observers import RequestObservers
from apf_middleware.asgi.resolver import ResolvedRequest
from apf_middleware.asgi.scope import complete_digest
from apf_middleware.asgi.stream_policy import admit_stream, begin_response, begin_watch, is_event_stream
from apf_middleware.mode import Mode
from apf_middleware.runtime import Admission, RejectionLog
from apf_middleware.runtime.virtual_requests import VirtualRequest, VirtualRequests

if TYPE_CHECKING:
    from collections.abc import Callable

    from apf_middleware.asgi.request_deadlines import RequestDeadlines
    from apf_middleware.asgi.scope import Headers

__all__ = ["Passing"]


class Passing:
    """Serve and show to ``observers`` the requests in a ``mode`` other than ``on``; ``passed`` counts them by mode."""

    def __init__(
        self,
        mode: Mode,
        now: "Callable[[], int]",
        rejections: RejectionLog,
        passed: Counter[str],
        observers: RequestObservers,
    ) -> None:
        self.mode: Mode = mode
        self._observers = observers
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
        admission, now = Admission(resolved), self._now()  # without seats it accepts all calls, and they do nothing
        admission.arrived_at = admission.seated_at = now
        request, send = self._start((arrived, now), admission, resolved, (scope, send), deadlines)
        scope["apf"] = admission
        if body is not None:
            receive, send = body.hand_over(receive, send)
        if isinstance(request, VirtualRequest):
            send = _ObservedReply(send, admission, request)
        elif send is not exchange[2]:
            send = _as_coroutine_function(send)
        try:
            await app(scope, receive, send)
        except BaseException as error:
            request.fail(aborted=not isinstance(error, Exception))
            raise
        finally:
            request.finish()
            admission.long_term().close()  # also if there was none: what the app has left behind must begin no watch
            if body is not None:
                body.close()

    def _start(
        self,
        times: tuple[int, int],
        admission: Admission,
        resolved: ResolvedRequest,
        exchange: tuple[Scope, Send],
        deadlines: "RequestDeadlines | None",
    ) -> "tuple[VirtualRequest | _UnlimitedRequest, Send]":
        """Begin a request, in the mode ``observe`` a virtual one, too; return the ``send`` that observers listen to."""
        scope, send = exchange
        if self.mode != "observe":
            if deadlines is not None:
                deadlines.set(*times, admission, scope)
            send = self._observers.attach(scope, resolved, admission, send)
            return _UnlimitedRequest(admission, self._now), send
        virtual = Admission(resolved)
        send = self._observers.attach(scope, resolved, virtual, send)
        return self._begin(times, admission, virtual, scope, deadlines), send

    def _begin(
        self,
        times: tuple[int, int],
        passing: Admission,
        admission: Admission,
        scope: Scope,
        deadlines: "RequestDeadlines | None",
    ) -> VirtualRequest:
        """Begin a virtual request.

        ``times`` are those of its arrival, and now; ``passing`` is the app's admission, ``admission`` the virtual one.
        """
        (arrived, now), resolved = times, admission.destination
        assert isinstance(resolved, ResolvedRequest)
        policy = resolved.policy
        if deadlines is not None:
            deadlines.begin(arrived, now, admission, scope)
            if (deadline := admission.deadline_ns) is not None:
                passing.set_deadline(deadline, deadline)
        if resolved.digest is not None:
            admission.show(complete_digest(resolved.digest, scope), scope)
        if policy is not None and admission.reason is None:
            admit_stream(now, admission, policy, scope)
            passing.stream = admission.stream
            begin_watch(passing, policy)
        virtual = self._virtual.begin(now, admission)
        passing.pass_with(virtual)
        return virtual

    def __repr__(self) -> str:
        return f"<Passing in the mode {self.mode}>"


def _as_coroutine_function(send: Send) -> Send:
    """Return ``send`` as a coroutine function, for adapters to synchronous apps that ask for one (asgiref's)."""

    async def passed_on(message: Message) -> None:
        await send(message)

    return passed_on


class _UnlimitedRequest:
    """A request that has no seats and no virtual ones; only its observations are told about it."""

    __slots__ = ("_admission", "_now")

    def __init__(self, admission: Admission, now: "Callable[[], int]") -> None:
        self._admission = admission
        self._now = now
        for one in getattr(admission, "observations", ()):
            one.note_seated(admission)

    def fail(self, *, aborted: bool) -> None:
        """Note that the app has raised an exception; failures aren't counted in this mode."""
        self._admission.fail(aborted=aborted)

    def finish(self) -> None:
        """Note that the request has ended."""
        self._admission.released_at = self._now()
        for one in getattr(self._admission, "observations", ()):
            one.note_released(self._admission)


class _ObservedReply:
    """The ``send`` of an app: it adds headers, and notes failures and that a virtual request becomes a stream."""

    __slots__ = ("_admission", "_headers", "_send", "_virtual")

    def __init__(self, send: Send, admission: Admission, virtual: VirtualRequest) -> None:
        self._send = send
        self._admission = admission
        resolved = virtual.admission.destination
        assert isinstance(resolved, ResolvedRequest)
        self._headers: Headers = resolved.headers_at_once if virtual.admission.is_seated else resolved.headers
        self._virtual = virtual

    async def __call__(self, message: Message) -> None:
        kind = message["type"]
        if kind in RESPONSE_STARTS:
            message = with_headers(message, self._headers)
            is_stream = kind == "websocket.accept"
            if not is_stream and message["status"] >= 500:
                self._virtual.fail(message["status"])
            if kind == "http.response.start":
                is_stream = any(
                    name.lower() == b"content-type" and is_event_stream(value) for name, value in message["headers"]
                )
            call = self._send(message)  # observers hear of the status before the virtual seats are given back
            begin_response(self._admission, is_stream=is_stream, virtual=self._virtual)
            await call
        else:
            await self._send(message)
