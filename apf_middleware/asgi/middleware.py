"""The middleware that users add to an app: set-up, reloads and the lifespan; `RequestHandler` serves the requests."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send

from apf_middleware.asgi.arguments import (
    check_gates,
    check_inventory,
    check_registry,
    checked_authenticators,
)
from apf_middleware.asgi.drained_exchange import DrainedExchange, needs_draining
from apf_middleware.asgi.failure import SetupFailureApp, keeps_failure
from apf_middleware.asgi.identity import Authenticator
from apf_middleware.asgi.lifespan import run_beside, run_lifespan
from apf_middleware.asgi.reload import ConfigurationOrigin, located
from apf_middleware.asgi.request_context import wrap_with_context
from apf_middleware.asgi.request_handler import RequestHandler
from apf_middleware.asgi.service import Service
from apf_middleware.asgi.telemetry import wrap_with_telemetry
from apf_middleware.asgi.watcher import Watcher
from apf_middleware.config import Configuration, Reading, read
from apf_middleware.estimation import Inventory
from apf_middleware.exceptions import InvalidValueError, require_flag
from apf_middleware.runtime import log_event
from apf_middleware.runtime.event_loop import EventLoop

if TYPE_CHECKING:
    from apf_middleware.gates import Gates

__all__ = ["APFMiddleware", "ConfigurationSource"]

ConfigurationSource = Configuration | str | PathLike[str] | Sequence[str | PathLike[str]]
"""A configuration, or the files, directories and globs to read it from."""


_REQUESTS: Final = frozenset({"http", "websocket"})
_ONE_LIFESPAN: Final = "let only the server that stops last send one, and start the others with lifespan off"
_TEXT_HINT: Final = "apf_middleware.config.load_text(text) makes a Configuration of YAML or JSON"


class APFMiddleware(RequestHandler):
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
    _is_hypercorn = False
    _lifespan_loop: EventLoop | None = None  # where the lifespan runs that the service follows

    @keeps_failure
    def __init__(
        self,
        app: Callable[[Any, Any, Any], Awaitable[None]],  # not `ASGIApp`: frameworks have types of their own for these
        config: ConfigurationSource | None = None,
        *,
        authenticators: Iterable[Authenticator] = (),
        registry: CollectorRegistry | None = None,
        inventory: Inventory = lambda _: None,
        watch: bool = False,
        gates: "Gates | None" = None,
        allow_empty: bool = False,
    ) -> None:
        self._app = app
        self.app: ASGIApp = app  # the app that is called: ``app``, wrapped where needed
        authenticators = checked_authenticators(authenticators)
        check_registry(registry)
        check_inventory(inventory)
        check_gates(gates)
        require_flag("watch", watch)
        require_flag("allow_empty", allow_empty)
        sources = _sources(config, allow_empty=allow_empty)
        watcher = Watcher(sources) if watch else None  # made first, so that no change after the reading is missed
        reading = Reading(config, ()) if isinstance(config, Configuration) else read(sources, allow_empty=allow_empty)
        configuration = reading.unwrap()
        try:
            self._service = Service(
                configuration,
                authenticators=authenticators,
                registry=registry,
                inventory=inventory,
                origin=ConfigurationOrigin(sources, watcher, reading.warnings, reading.has_server, allow_empty),
                gates=gates,
                on_adopt=self._observe,
            )
        except InvalidValueError as error:
            raise located(error, sources) from None
        self._serves_requests = False  # the first request shows whether the server is hypercorn
        self._observe()

    def _fail(self, app: ASGIApp, error: Exception) -> None:
        """Answer every request with 503, because of ``error``."""
        self._app = self.app = app
        self._failure = SetupFailureApp(app, error)
        self._serves_requests = False

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

    def _observe(self) -> None:
        """Wrap the app as the configuration in force requires."""
        service = self._service
        has_deadlines, has_criticality = service.deadlines is not None, service.resolver.criticality is not None
        app = wrap_with_context(self._app, has_deadlines=has_deadlines, has_criticality=has_criticality)
        app = app if service.load_reports is None else service.load_reports.wrap(app)
        self.app = wrap_with_telemetry(app, service.configuration, service.tracing)

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._failure is not None:
            await self._failure(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._serve_lifespan(scope, receive, send)
        elif scope["type"] in _REQUESTS:
            await self._serve_early(scope, receive, send)
        elif self._service.admin is not None and self._service.admin.is_for(scope):
            raise NotImplementedError(f"The admin doesn't answer scopes of type {scope['type']!r}")
        else:
            await self._app(scope, receive, send)

    async def _serve_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the service from the startup of the app to its shutdown.

        Two servers in one event loop, such as those of two ports, begin a lifespan each. The service starts and stops
        with the first one; otherwise it would be twice in its fleet, and the end of one would stop it for both.
        """
        self._is_hypercorn = needs_draining(receive)
        if self._lifespan_loop is not None and self._lifespan_loop.is_here:
            log_event(logging.WARNING, "apf.lifespan-repeated", hint=_ONE_LIFESPAN)
            await self._app(scope, receive, send)
            return
        service, self._lifespan_loop = self._service, EventLoop()
        living = partial(run_lifespan, self._app, scope, receive, steps=service)
        try:
            await (run_beside(service.beside, send, living) if service.beside else living(send))
        finally:
            self._lifespan_loop = None
            service.controller.open()  # test clients may send requests after the lifespan has ended

    async def _serve_early(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of hypercorn, or the first one of another server.

        Hypercorn can't be told by its lifespan alone: a mounted app has none, and FastAPI wraps its messages.
        """
        if not self._is_hypercorn and not needs_draining(receive):
            self._serves_requests = True
            await self(scope, receive, send)
            return
        exchange = DrainedExchange.of(scope, receive, send)
        if exchange is None:
            await _Handler(self.app, self._service)(scope, receive, send)
        else:
            try:
                await _Handler(exchange.wrap(self.app), self._service)(scope, receive, exchange.send)
            finally:
                exchange.end()


class _Handler(RequestHandler):
    """Serves one request as the middleware does."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self._service = service
        self._serves_requests = True


def _sources(source: ConfigurationSource | None, *, allow_empty: bool) -> tuple[str | PathLike[str], ...]:
    """Return the paths to read: none if ``source`` is a configuration, or None for the web defaults."""
    if source is None or isinstance(source, Configuration):
        return ()
    if isinstance(source, str) and "\n" in source:
        first = source.split("\n", 1)[0]
        raise InvalidValueError("config", f"{first}…", "it must be a path, not the content of a file", _TEXT_HINT)
    if isinstance(source, str | PathLike):
        return (source,)
    given: object = source  # untyped callers may pass anything
    if not isinstance(given, Sequence) or not all(isinstance(one, str | PathLike) for one in given):
        raise InvalidValueError(
            "config", source, "it must be a Configuration, or the paths to read one from", _TEXT_HINT
        )
    if not given and not allow_empty:  # such as a glob that matches nothing
        hint = "Leave it out for the web defaults, or accept them with allow_empty=True"
        raise InvalidValueError("config", source, "there must be a path", hint)
    return tuple(source)
