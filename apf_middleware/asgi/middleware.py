"""The middleware: every request is received, admitted or rejected, and runs on its seats.

Pure ASGI, and as little as can be in the way of a request that is admitted at once: the app gets the server's own
``receive``, and a ``send`` that adds two headers to the start of the response.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from os import PathLike
from typing import Final

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi.hangup import Hearing
from apf_middleware.asgi.identity import Authenticator, Refused
from apf_middleware.asgi.lifespan import live
from apf_middleware.asgi.reception import Seen
from apf_middleware.asgi.responses import answer_rejected, answer_unauthenticated, send_answer
from apf_middleware.asgi.service import Service
from apf_middleware.classification import Identity
from apf_middleware.config import Configuration, Reading, read
from apf_middleware.fairqueuing import Reason, TicketState
from apf_middleware.gates import Gates
from apf_middleware.runtime import Admission, wait_for_seat

__all__ = ["APFMiddleware", "ConfigurationSource"]

ConfigurationSource = Configuration | str | PathLike[str] | Sequence[str | PathLike[str]]
"""A configuration, or the files, directories and globs to read it from."""

_SEATED: Final = TicketState.SEATED
_Headers = list[tuple[bytes, bytes]]


class APFMiddleware:
    """API Priority and Fairness in front of ``app``.

    ``config`` is a configuration or where to read it; without one, the web defaults protect the app. ``authenticators``
    are asked before those of the configuration. With a ``registry``, metrics are collected there, and the middleware
    serves none itself. ``gates`` are conditions of the app's own (see `Gates`). A configuration that came from files is
    read again on `reload`, on SIGHUP, and with ``watch`` when the files change.
    """

    def __init__(
        self,
        app: ASGIApp,
        config: ConfigurationSource | None = None,
        *,
        authenticators: Iterable[Authenticator] = (),
        registry: CollectorRegistry | None = None,
        watch: bool = False,
        gates: Gates | None = None,
    ) -> None:
        self.app = app
        sources = _sources(config)
        reading = Reading(config, ()) if isinstance(config, Configuration) else read(sources)
        self.service = Service(
            reading.unwrap(),
            authenticators=authenticators,
            registry=registry,
            sources=sources,
            watch=watch,
            warnings=reading.warnings,
            gates=gates,
        )

    async def reload(self) -> bool:
        """Read the configuration's files again and put them in force; False if they are wrong, and nothing changes.

        ``service.last_reload_error`` tells what is wrong. InvalidValueError if the configuration didn't come from
        files.
        """
        return await self.service.reload()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sender = _SENDERS.get(scope["type"])
        if sender is None:
            await self._other(scope, receive, send)
            return
        service = self.service
        now = service.now()
        seen = service.reception.recall(scope)
        if seen is None or seen.until <= now or service.due <= now:
            seen = await self._receive(scope, receive, send, now)
            if seen is None:
                return
            now = service.now()
        controller = service.controller
        admission = Admission(seen)
        controller.arrive(now, admission)
        hearing: Hearing | None = None
        if admission.state is not _SEATED:
            if admission.is_waiting:
                hearing = await wait_for_seat(admission, seen.at_work.wait_limit_ns, partial(Hearing, receive))
            if not admission.is_seated:
                await self._reject(admission, hearing, scope, send)
                return
            if hearing is not None:
                receive = hearing.receive
        scope["apf"] = admission
        try:
            await self.app(scope, receive, partial(sender, send, seen.headers, admission))
        finally:
            if admission.state is _SEATED:
                controller.release(admission)
            if hearing is not None:
                hearing.stop()

    async def _receive(self, scope: Scope, receive: Receive, send: Send, now: int) -> Seen | None:
        """Find out what isn't known about a request; None when it has been answered already."""
        service = self.service
        if service.due <= now:
            service.keep_house(now)
        if service.scrape.is_for(scope):
            await service.scrape.answer(scope, send)
            return None
        if service.admin.is_for(scope):
            found: Seen | Identity | Refused = await service.reception.identify(scope, now)
        else:
            found = await service.reception.receive(scope, now)
        if isinstance(found, Refused):
            await send_answer(answer_unauthenticated(found.challenge, found.reason), scope, send)
            return None
        if isinstance(found, Identity):
            await service.admin.answer(scope, receive, send, found)
            return None
        if found.gates:
            await self._serve_gated(found, scope, receive, send)
            return None
        return found

    async def _serve_gated(self, seen: Seen, scope: Scope, receive: Receive, send: Send) -> None:
        """What `__call__` does, for a request that has gates to pass: what it has from them is held until its end."""
        controller = self.service.controller
        admission = Admission(seen)
        controller.arrive(self.service.now(), admission)
        hearing: Hearing | None = None
        try:
            if admission.is_waiting:
                hearing = await wait_for_seat(admission, seen.at_work.wait_limit_ns, partial(Hearing, receive))
            if not admission.is_seated:
                await self._reject(admission, hearing, scope, send)
                return
            scope["apf"] = admission
            sender = _GATED_SENDERS[scope["type"]]
            heard = receive if hearing is None else hearing.receive
            await self.app(scope, heard, partial(sender, send, seen.headers, admission))
        finally:
            if admission.state is _SEATED:
                controller.release(admission)
            controller.end(admission)
            if hearing is not None:
                hearing.stop()

    async def _reject(self, admission: Admission, hearing: Hearing | None, scope: Scope, send: Send) -> None:
        """Tell a client that its request won't be served; one that has gone is told nothing."""
        if hearing is not None:
            hearing.stop()
        service = self.service
        service.rejections.note(admission)
        if admission.reason is not Reason.CANCELLED:
            answer = answer_rejected(admission, service.labels, service.now(), service.chance)
            await send_answer(answer, scope, send)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            try:
                await live(self.app, scope, receive, send, begin=self.service.begin, end=self.service.end)
            finally:
                self.service.controller.open()  # whoever comes after the end is a test's client, not a server's
        else:
            await self.app(scope, receive, send)


def _sources(source: ConfigurationSource | None) -> tuple[str | PathLike[str], ...]:
    """The paths to read; none if there is a configuration already, or only the web defaults."""
    if source is None or isinstance(source, Configuration):
        return ()
    return (source,) if isinstance(source, str | PathLike) else tuple(source)


def _send_http(send: Send, headers: _Headers, _admission: Admission, message: Message) -> Awaitable[None]:
    """Pass on what an app sends; the start of its response tells schema and level, too."""
    if message["type"] == "http.response.start":
        message = dict(message)  # the app's own stays as it is
        message["headers"] = [*message.get("headers", ()), *headers]
    return send(message)


def _send_websocket(send: Send, headers: _Headers, admission: Admission, message: Message) -> Awaitable[None]:
    """The same for a WebSocket, which holds no seats once it is accepted."""
    kind = message["type"]
    if kind in {"websocket.accept", "websocket.http.response.start"}:
        message = {**message, "headers": [*message.get("headers", ()), *headers]}
        if kind == "websocket.accept":
            admission.release()
    return send(message)


def _send_gated_http(send: Send, headers: _Headers, admission: Admission, message: Message) -> Awaitable[None]:
    """The same for a request that has passed gates, of which some want to know when its response begins."""
    if message["type"] == "http.response.start":
        admission.destination.controller.begin_answer(admission)
    return _send_http(send, headers, admission, message)


_Sender = Callable[[Send, _Headers, Admission, Message], Awaitable[None]]
_SENDERS: Final[dict[str, _Sender]] = {"http": _send_http, "websocket": _send_websocket}
_GATED_SENDERS: Final[dict[str, _Sender]] = {"http": _send_gated_http, "websocket": _send_websocket}
