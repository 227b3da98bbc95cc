"""The path of a request: resolve it, wait until it is admitted or rejected, call the app, and free the seats.

It is pure ASGI, and does as little as possible for a request that is admitted at once: the app gets the server's own
``receive``, and a ``send`` that looks at the start of the response (`HttpReply`). While a request waits,
`waiting_client` notices that its client hangs up.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from apf_middleware.asgi.body import RequestBody, announcement
from apf_middleware.asgi.failure import answer_unavailable
from apf_middleware.asgi.identity import Refused
from apf_middleware.asgi.replies import HttpReply, WebSocketReply
from apf_middleware.asgi.request_deadlines import RequestDeadlines
from apf_middleware.asgi.resolver import ResolvedRequest, ServedWithoutSeats
from apf_middleware.asgi.responses import (
    answer_gone,
    answer_unauthenticated,
    answer_unknown_queue,
    send_answer,
)
from apf_middleware.asgi.scope import asks_for, complete_digest, path_of
from apf_middleware.asgi.service import Service
from apf_middleware.asgi.stream_policy import (
    StreamPolicy,
    admit_stream,
    begin_watch,
)
from apf_middleware.asgi.upload import Upload
from apf_middleware.asgi.waiting_client import WaitingClient
from apf_middleware.classification import Identity
from apf_middleware.compilation import mypyc_attr
from apf_middleware.fairqueuing import Reason, TicketState
from apf_middleware.runtime import Admission, UnknownQueue

if TYPE_CHECKING:
    from apf_middleware.asgi.resolver import ResolveResult

__all__ = ["RequestHandler"]

_CANCELLED: Final = Reason.CANCELLED
_SEATED: Final = TicketState.SEATED
_WAITING: Final = TicketState.WAITING
_Exchange = tuple[Scope, Receive, Send]


@mypyc_attr(allow_interpreted_subclasses=True)
class RequestHandler:
    """Serve requests to ``app`` by a service; a subclass sets both, and serves scopes of other types.

    If ``_serves_requests`` is False, the subclass serves all scopes.
    """

    app: ASGIApp
    _service: Service
    _serves_requests: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: C901 - calls are slow
        if (kind := str(scope["type"])) not in ("http", "websocket") or not self._serves_requests:
            await self._serve_other(scope, receive, send)
            return
        arrived = now = (service := self._service).now()
        body: RequestBody | None = None
        resolved = service.resolver.cache.recall(scope)
        if resolved is None or resolved.awaits_body or resolved.until <= now or service.due <= now:
            if (found := await _receive(self.app, service, (scope, receive, send), now, resolved)) is None:
                return
            resolved, body, now = found  # no await from here to `arrive`, so no reload replaces what was resolved
        controller, policy, more = service.controller, resolved.policy, resolved.headers_at_once
        deadlines, sends, admission = service.deadlines, resolved.runtime.streams.sends, Admission(resolved)
        send = service.observers.attach(scope, resolved, admission, send) if service.is_observed else send
        try:
            is_plain = resolved.is_plain and body is None and deadlines is None
            if is_plain or _may_arrive((arrived, now), admission, body, deadlines, scope):
                controller.arrive(now, admission)
            if admission.state is _WAITING:
                more, client = resolved.headers, WaitingClient(admission, scope, receive, body)
                await service.wait(admission, resolved.runtime.wait_limit_ns, client)
                body = client.body  # a watch of the client begins one
            if (admission.state is not _SEATED or deadlines is not None) and _is_refused(admission, deadlines):
                await self._reject(admission, scope, send, body)
                return
            if policy is not None or body is not None:
                receive, send = self._follow(admission, policy, body, (scope, receive, send))
            scope["apf"] = admission
            reply = HttpReply(send, more, admission) if kind == "http" else WebSocketReply(send, more, admission)
            await self.app(scope, receive, reply)
        except BaseException as error:
            admission.fail(aborted=not isinstance(error, Exception))
            raise
        finally:
            if sends.senders:
                sends.senders.pop(admission, None)
            if admission.state is _SEATED:  # otherwise rejected, or a stream or the app has released the seats
                controller.release(admission)
            if admission.stream is not None or resolved.gates or body is not None:
                _end(admission, body)  # most requests have nothing to end

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a scope that isn't a request."""
        raise NotImplementedError

    def _reject(
        self, admission: Admission, scope: Scope, send: Send, body: RequestBody | None = None
    ) -> Awaitable[None]:
        """End and answer a request that was rejected, or that got its seats too late."""
        _end(admission, body)
        service = self._service
        if admission.state is _SEATED:
            admission.destination.counters.late += 1
            service.controller.release(admission, has_run=False)
            if service.load_reports is not None:
                send = service.load_reports.sender(scope, send)
            return send_answer(service.rejection_answers.write_late(admission), scope, send)
        service.rejections.note(admission)
        if service.tracing is not None:
            service.tracing.note(admission)
        if admission.reason is _CANCELLED:
            return answer_gone(scope, send)
        if service.load_reports is not None:
            send = service.load_reports.sender(scope, send)
        return send_answer(service.rejection_answers.find(admission), scope, send)

    def _follow(
        self,
        admission: Admission,
        policy: StreamPolicy | None,
        body: RequestBody | None,
        exchange: _Exchange,
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
        return self._service.wait(admission, limit_ns, WaitingClient(admission, scope, receive, body))


# These are functions, not methods: the compiled build looks up methods of a class that Python code subclasses by name,
# which would take 6 % of the instructions of a request for a new path.


async def _receive(  # noqa: C901 - each of these steps may end the loop
    app: ASGIApp, service: Service, exchange: _Exchange, now: int, resolved: ResolvedRequest | None
) -> tuple[ResolvedRequest, RequestBody | None, int] | None:
    """Resolve a request, receive its body, and look at the clock; None if the request has been answered already."""
    scope, receive, send = exchange
    body: RequestBody | None = None
    try:
        while True:
            if resolved is None or resolved.until <= now or service.due <= now:
                resolved = await _find(app, service, exchange, body, now)
                if resolved is None:
                    break
                body = resolved.body or body
            if not resolved.awaits_body or service.controller.is_closing:
                return resolved, body, service.now()
            resolver = service.resolver
            if body is None:
                body = _begin_body(resolved, scope, receive)
                if body is None or body.is_there:
                    return resolved, body, service.now()
            await body.gather(service.controller.bodies.settings.buffer)
            now = service.now()
            if service.resolver is resolver and resolved.until > now and service.passing is None:
                if resolved.gates and await _is_unavailable(service, resolved, scope, send):
                    break
                return resolved, body, service.now()
            # While the body arrived, the configuration was reloaded, the mode changed or the credential expired.
            resolved = None
    except BaseException:
        if body is not None:
            body.close()
        raise
    if body is not None:
        body.close()
    return None


async def _find(
    app: ASGIApp, service: Service, exchange: _Exchange, body: RequestBody | None, now: int
) -> ResolvedRequest | None:
    """Resolve a request, after the housekeeping that is due; None if it has been answered already.

    ``body`` is what has been received of its body.
    """
    scope, receive, send = exchange
    if service.due <= now:
        service.keep_house(now)
    is_own = path_of(scope).startswith(service.own_paths)
    if is_own and asks_for(scope, service.scrape.path):
        await service.scrape.answer(scope, send)
        return None
    if is_own and (answer := service.answer_balancer(scope, now)) is not None:
        await send_answer(answer, scope, send)
        return None
    found: ResolveResult | Identity
    if is_own and service.admin is not None and service.admin.is_for(scope):
        found = await service.resolver.identify(scope, now)
    else:
        found = await service.resolver.resolve(scope, now, receive if body is None else body)
    if not isinstance(found, ResolvedRequest):
        await _answer(app, service, found, (scope, receive if body is None else body.receive, send))
        return None
    if found.gates and await _is_unavailable(service, found, scope, send):
        if found.body is not None:
            found.body.close()
        return None
    if service.passing is not None:
        messages = receive if body is None else body
        await service.passing.serve(app, now, found, (scope, messages, send), service.deadlines)
        return None
    return found


async def _is_unavailable(service: Service, resolved: ResolvedRequest, scope: Scope, send: Send) -> bool:
    """Return whether a gate of the request is missing; the request has then been answered."""
    if not service.startup_gates.lacks(resolved.gates):
        return False
    await answer_unavailable(scope, send)
    return True


async def _answer(
    app: ASGIApp,
    service: Service,
    found: Identity | Refused | UnknownQueue | ServedWithoutSeats,
    exchange: _Exchange,
) -> None:
    """Answer a request that needs no seats, or can't get any; ``found`` is an identity only on the admin's path."""
    scope, receive, send = exchange
    if isinstance(found, Refused):
        await send_answer(answer_unauthenticated(found.challenge, found.reason), scope, send)
    elif isinstance(found, UnknownQueue):
        await send_answer(
            answer_unknown_queue(found.status, found.reason, service.resolver.response_headers), scope, send
        )
    elif isinstance(found, Identity):
        assert service.admin is not None
        await service.admin.answer(scope, receive, send, found)
    else:
        await app(scope, receive, send)


def _is_refused(admission: Admission, deadlines: RequestDeadlines | None) -> bool:
    """Return whether a request must be rejected, because it has no seats, or has them too late."""
    if admission.state is _SEATED:
        return deadlines is not None and deadlines.is_late(admission)
    return admission.reason is not None  # otherwise it is let pass: the mode has changed while it waited


def _may_arrive(
    times: tuple[int, int],
    admission: Admission,
    body: RequestBody | None,
    deadlines: RequestDeadlines | None,
    scope: Scope,
) -> bool:
    """Return whether a request may ask for seats; refuse it otherwise. ``times`` are those of its arrival, and now."""
    arrived, now = times
    if body is not None and body.reason is not None:
        admission.destination.controller.refuse(now, admission, body.reason)
        return False
    if deadlines is not None and not deadlines.begin(arrived, now, admission, scope):
        return False
    resolved = admission.destination
    if not isinstance(resolved, ResolvedRequest):
        return True
    if resolved.digest is not None:
        admission.show(complete_digest(resolved.digest, scope), scope)
    policy = resolved.policy
    return policy is None or admit_stream(now, admission, policy, scope)


def _begin_body(resolved: ResolvedRequest, scope: Scope, receive: Receive) -> RequestBody | None:
    """Return the body of a request, with what has arrived of it; None if no body is announced.

    Nothing has been received yet of one that only the app may ask for.
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
    if admission.state is _WAITING:  # an upload whose app has returned, while another task of it still receives
        destination.controller.leave(admission)
    if destination.gates:  # no other request has leases
        destination.controller.release_leases(admission)
        admission.show(None)
    if admission.stream is not None:
        admission.stream.close()
    if body is not None:
        body.close()
