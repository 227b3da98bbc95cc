"""The middleware: resolve each request, wait until it is admitted or rejected, call the app, and free the seats.

It is pure ASGI, and does as little as possible for a request that is admitted at once: the app gets the server's own
``receive``, and a ``send`` that adds two headers to the start of the response. While a request waits,
`body.RequestBody.watch` notices that its client hangs up.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from os import PathLike
from types import MethodType
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi.body import RequestBody, Upload, announcement, watch_of_client
from apf_middleware.asgi.failure import SetupFailureApp, answer_unavailable, keeps_failure
from apf_middleware.asgi.identity import Authenticator, Refused
from apf_middleware.asgi.lifespan import run_beside, run_lifespan
from apf_middleware.asgi.reload import ConfigurationOrigin, Watcher
from apf_middleware.asgi.resolver import ResolvedRequest, ServedWithoutSeats
from apf_middleware.asgi.responses import (
    answer_gone,
    answer_rejected,
    answer_unauthenticated,
    answer_unknown_queue,
    send_answer,
)
from apf_middleware.asgi.scope import Headers, path_of
from apf_middleware.asgi.service import Service
from apf_middleware.asgi.stream_policy import (
    StreamPolicy,
    admit_stream,
    begin_response,
    begin_watch,
    is_event_stream,
    send_timed,
)
from apf_middleware.asgi.telemetry import wrap_with_telemetry
from apf_middleware.classification import Identity
from apf_middleware.config import Configuration, Reading, read
from apf_middleware.estimation import Inventory
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Reason, TicketState
from apf_middleware.gates import Gates
from apf_middleware.runtime import Admission, UnknownQueue

if TYPE_CHECKING:
    from apf_middleware.asgi.resolver import ResolveResult

__all__ = ["APFMiddleware", "ConfigurationSource"]

ConfigurationSource = Configuration | str | PathLike[str] | Sequence[str | PathLike[str]]
"""A configuration, or the files, directories and globs to read it from."""

_SEATED: Final = TicketState.SEATED
_NO_BODY: RequestBody | None = None
_WAITING: Final = TicketState.WAITING
_SENT_AT_ONCE: Final = 16 * 1024  # in bytes; servers buffer up to this size without waiting for the client
_SEQUENCES: Final = (list, tuple)  # a constant, because `list | tuple` would create an object for each response
_E: Final = frozenset(b"eE")  # the character at index 5 of text/event-stream
# The `self` of a sender: `MethodType(sender, reply)` is the app's ``send``. That is faster than a partial.
_Reply = tuple[Send, Headers, Admission]


class APFMiddleware:
    """API Priority and Fairness in front of ``app``.

    ``config`` is a configuration or its source; without one, the web defaults protect the app. ``authenticators`` run
    before those of the configuration. With a ``registry``, metrics are collected there, and the middleware serves none
    itself. ``gates`` are conditions that the app defines (see `Gates`). ``inventory`` returns the number of objects of
    a kind, for estimates like those of Kubernetes. A configuration from files is read again on `reload`, on SIGHUP, and
    with ``watch`` when the files change. Files that define nothing are refused unless ``allow_empty`` is true.

    If an argument or the configuration is invalid, the server doesn't start: the startup of the lifespan fails, with
    all problems. A server without lifespan starts, but all requests are answered with 503.
    """

    _failure: SetupFailureApp | None = None

    @keeps_failure
    def __init__(
        self,
        app: ASGIApp,
        config: ConfigurationSource | None = None,
        *,
        authenticators: Iterable[Authenticator] = (),
        registry: CollectorRegistry | None = None,
        inventory: Inventory = lambda _: None,
        watch: bool = False,
        gates: Gates | None = None,
        allow_empty: bool = False,
    ) -> None:
        self._app = app
        self.app: ASGIApp = app  # the app that is called: ``app``, wrapped where telemetry needs it
        sources = _sources(config)
        watcher = Watcher(sources) if watch else None  # made first, so that no change after the reading is missed
        reading = Reading(config, ()) if isinstance(config, Configuration) else read(sources, allow_empty=allow_empty)
        self._service = Service(
            reading.unwrap(),
            authenticators=authenticators,
            registry=registry,
            inventory=inventory,
            origin=ConfigurationOrigin(sources, watcher, reading.warnings, reading.has_server, allow_empty),
            gates=gates,
            on_adopt=self._observe,
        )
        self._senders = _SENDERS
        self._observe()

    def _fail(self, app: ASGIApp, error: Exception) -> None:
        """Answer every request with 503, because of ``error``."""
        self._app = self.app = app
        self._failure = SetupFailureApp(app, error)
        self._senders = {}  # every request is then passed to `_other`

    @property
    def service(self) -> Service:
        """The service behind the middleware; raises the error if it couldn't be set up."""
        if self._failure is not None:
            raise self._failure.error
        return self._service

    async def reload(self) -> bool:
        """Read the configuration's files again and apply them; return False, and change nothing, if they are invalid.

        ``service.last_reload_error`` is then the error.

        Raises:
            InvalidValueError: the configuration was not read from files.
        """
        return await self.service.reload()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: C901 - calls are slow
        sender = self._senders.get(scope["type"])
        if sender is None:
            await self._other(scope, receive, send)
            return
        service = self._service
        now, body = service.now(), _NO_BODY
        resolved = service.resolver.recall(scope)
        if resolved is None or resolved.awaits_body or resolved.until <= now or service.due <= now:
            if (found := await self._receive(scope, receive, send, now, resolved)) is None:
                return
            resolved, body = found
            if resolved.gates:
                sender = _GATED_SENDERS[scope["type"]]
            now = service.now()
        # There is no await from here to `arrive`, so no reload can replace the level that was resolved.
        controller, policy, extra = service.controller, resolved.policy, resolved.headers_at_once
        admission = Admission(resolved)
        try:
            if (policy is None and body is None) or _may_arrive(now, admission, policy, body, scope):
                controller.arrive(now, admission)
            if admission.state is _WAITING:
                extra, client = resolved.headers, (admission, scope, receive, body)  # the wait may replace ``body``
                body = await service.wait(admission, resolved.runtime.wait_limit_ns, watch_of_client, client) or body
            if admission.state is not _SEATED:
                _end(admission, body)
                await self._reject(admission, scope, send)
                return
            if policy is not None or body is not None:
                receive, send = self._follow(admission, policy, body, (scope, receive, send))
            scope["apf"] = admission
            await self.app(scope, receive, MethodType(sender, (send, extra, admission)))
        except BaseException as error:
            admission.fail(aborted=not isinstance(error, Exception))
            raise
        finally:
            if admission.state is _SEATED:  # otherwise rejected, or a stream or the app has released the seats
                controller.release(admission)
            if admission.stream is not None or resolved.gates or (body is not None and body.is_open):
                _end(admission, body)  # most requests have nothing to end

    async def _receive(
        self, scope: Scope, receive: Receive, send: Send, now: int, resolved: ResolvedRequest | None
    ) -> tuple[ResolvedRequest, RequestBody | None] | None:
        """Resolve a request and receive its body; None if it has been answered already."""
        service, body = self._service, _NO_BODY
        try:
            while True:
                if resolved is None or resolved.until <= now or service.due <= now:
                    resolved = await self._find(scope, receive if body is None else body, send, now)
                    if resolved is None:
                        break
                    body = resolved.body or body
                if not resolved.awaits_body or service.controller.is_closing:
                    return resolved, body
                resolver = service.resolver
                if body is None and ((body := _begin_body(resolved, scope, receive)) is None or body.is_there):
                    return resolved, body
                await body.gather(service.controller.bodies.settings.buffer)
                now = service.now()
                if service.resolver is resolver and resolved.until > now:
                    return resolved, body
                resolved = None  # while the body arrived, the configuration was reloaded or the credential expired
        except BaseException:
            if body is not None:
                body.close()
            raise
        if body is not None:
            body.close()
        return None

    async def _find(self, scope: Scope, receive: Receive | RequestBody, send: Send, now: int) -> ResolvedRequest | None:
        """Resolve a request, after the housekeeping that is due; None if it has been answered already."""
        service = self._service
        if service.due <= now:
            service.keep_house(now)
        is_own = path_of(scope).startswith(service.own_paths)
        if is_own and service.scrape.is_for(scope):
            await service.scrape.answer(scope, send)
            return None
        found: ResolveResult | Identity
        if is_own and service.admin.is_for(scope):
            found = await service.resolver.identify(scope, now)
        else:
            found = await service.resolver.resolve(scope, now, receive)
        if not isinstance(found, ResolvedRequest):
            await self._answer(found, scope, receive.receive if isinstance(receive, RequestBody) else receive, send)
            return None
        if found.gates and service.startup_gates.lacks(found.gates):
            await answer_unavailable(scope, send)
            return None
        return found

    async def _answer(
        self, found: Identity | Refused | UnknownQueue | ServedWithoutSeats, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request that needs no seats, or can't get any; ``found`` is an identity only on the admin's path."""
        if isinstance(found, Refused):
            await send_answer(answer_unauthenticated(found.challenge, found.reason), scope, send)
        elif isinstance(found, UnknownQueue):
            await send_answer(
                answer_unknown_queue(found.status, found.reason, self._service.response_headers), scope, send
            )
        elif isinstance(found, Identity):
            await self._service.admin.answer(scope, receive, send, found)
        else:
            await self.app(scope, receive, send)

    async def _reject(self, admission: Admission, scope: Scope, send: Send) -> None:
        """Answer a request that was rejected."""
        service = self._service
        service.rejections.note(admission)
        if service.tracing is not None:
            service.tracing.note(admission)
        if admission.reason is Reason.CANCELLED:
            await answer_gone(scope, send)
        else:
            answer = answer_rejected(admission, service.response_headers, service.now(), service.chance)
            await send_answer(answer, scope, send)

    def _follow(
        self,
        admission: Admission,
        policy: StreamPolicy | None,
        body: RequestBody | None,
        exchange: tuple[Scope, Receive, Send],
    ) -> tuple[Receive, Send]:
        """Return ``receive`` and ``send`` for the app; if the request is a watch, register it."""
        _, receive, send = exchange
        if policy is not None:
            begin_watch(admission, policy)
        if body is None:
            return receive, send
        if body.is_whole or not body.is_ahead:
            return body.hand_over(receive, send)
        upload = Upload(body, admission, exchange, wait=self._wait, reject=self._reject)
        return upload.receive, upload.send

    def _wait(self, admission: Admission, scope: Scope, receive: Receive, body: RequestBody) -> Awaitable[object]:
        """Wait for seats again, for an upload that gave them back while its body was arriving."""
        limit_ns = admission.destination.runtime.wait_limit_ns
        return self._service.wait(admission, limit_ns, watch_of_client, (admission, scope, receive, body))

    def _observe(self) -> None:
        """Wrap the app as the configuration in force requires."""
        self.app = wrap_with_telemetry(self._app, self._service.configuration, self._service.tracing)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._failure is not None:
            await self._failure(scope, receive, send)
        elif scope["type"] == "lifespan":
            service = self._service
            living = partial(run_lifespan, self._app, scope, receive, send, service)
            try:
                await (living() if service.control_socket is None else run_beside(service.control_socket.serve, living))
            finally:
                service.controller.open()  # test clients may send requests after the lifespan has ended
        elif self._service.admin.is_for(scope):
            raise NotImplementedError(f"The admin doesn't answer scopes of type {scope['type']!r}")
        else:
            await self._app(scope, receive, send)


def _sources(source: ConfigurationSource | None) -> tuple[str | PathLike[str], ...]:
    """Return the paths to read: none if ``source`` is a configuration, or None for the web defaults."""
    if source is None or isinstance(source, Configuration):
        return ()
    if isinstance(source, str | PathLike):
        return (source,)
    given: object = source  # untyped callers may pass anything
    if not isinstance(given, Sequence) or not all(isinstance(one, str | PathLike) for one in given):
        raise InvalidValueError("config", source, "it must be a Configuration, or the paths to read one from")
    return tuple(source)


def _may_arrive(
    now: int, admission: Admission, policy: StreamPolicy | None, body: RequestBody | None, scope: Scope
) -> bool:
    """Return whether a request may ask for seats; refuse it otherwise."""
    if body is not None and body.reason is not None:
        admission.destination.controller.refuse(now, admission, body.reason)
        return False
    return policy is None or admit_stream(now, admission, policy, scope)


def _begin_body(resolved: ResolvedRequest, scope: Scope, receive: Receive) -> RequestBody | None:
    """Return the body of a request, with what has arrived of it; None if no body is announced.

    If the client waits for the status 100 (Continue), nothing has been received yet.
    """
    announced = announcement(scope)
    if not announced:
        return None
    body = RequestBody(resolved.controller.bodies, resolved.classification, receive, is_silent=announced == "expected")
    if not body.is_silent:
        body.receive_at_once()
    return body


def _end(admission: Admission, body: RequestBody | None) -> None:
    """Release the gates, the place among the streams and the body of a request."""
    destination = admission.destination
    destination.controller.release_leases(admission)
    if destination.gates and isinstance(destination, ResolvedRequest):
        destination.forget_scope()
    if admission.stream is not None:
        admission.stream.close()
    if body is not None:
        body.close()


async def _send_http(reply: _Reply, message: Message) -> None:
    """Send a message of the app; if it starts the response, add headers and find out whether this is a stream."""
    if message["type"] != "http.response.start":
        if message.get("more_body") or len(message.get("body", b"")) > _SENT_AT_ONCE:
            writes = reply[2].destination.runtime.streams.writes
            if writes is not None:
                await send_timed(reply[0], writes, reply[2], message)
                return
        await reply[0](message)
        return
    send, extra, admission = reply
    if message["status"] >= 500:
        admission.fail()
    headers = message.get("headers", ())
    if not isinstance(headers, _SEQUENCES):  # an app may pass an iterator, which can only be read once
        headers = [*headers]
        message = {**message, "headers": headers}  # the app may send the same dict again
    for name, value in headers:
        if len(name) == 12 and name.lower() == b"content-type":
            if (len(value) > 16 and value[5] in _E) or admission.stream is not None:  # false for most responses
                begin_response(admission, is_stream=is_event_stream(value))
            break
    else:
        if admission.stream is not None:
            begin_response(admission, is_stream=False)
    await send(_with_headers(message, extra))


async def _send_websocket(reply: _Reply, message: Message) -> None:
    """Send a message of a WebSocket's app; an accepted WebSocket is a stream."""
    send, extra, admission = reply
    kind = message["type"]
    if kind in {"websocket.accept", "websocket.http.response.start"}:
        message = _with_headers(message, extra)
        if kind == "websocket.accept":
            begin_response(admission, is_stream=True)
        elif message["status"] >= 500:
            admission.fail()
    await send(message)


def _with_headers(message: Message, extra: Headers) -> Message:
    """Return the message that starts a response, with ``extra`` headers."""
    if not extra:
        return message
    # The app may send the same dict again, so it isn't changed.
    return {**message, "headers": [*message.get("headers", ()), *extra]}


async def _send_gated_http(reply: _Reply, message: Message) -> None:
    """Send as `_send_http` does; when the response begins, release the leases that are needed only until then."""
    if message["type"] == "http.response.start":
        admission = reply[2]
        admission.destination.controller.release_leases(admission, early=True)
    await _send_http(reply, message)


_Sender = Callable[[_Reply, Message], Awaitable[None]]
_SENDERS: Final[dict[str, _Sender]] = {"http": _send_http, "websocket": _send_websocket}
_GATED_SENDERS: Final[dict[str, _Sender]] = {"http": _send_gated_http, "websocket": _send_websocket}
