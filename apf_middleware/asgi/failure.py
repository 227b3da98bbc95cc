"""Handling of a failed set-up of the middleware: the server's startup fails, and requests are answered with 503.

Starlette constructs its middleware when it is called for the first time, which is for the lifespan. A server that gets
an exception from this call concludes that the app doesn't support lifespan, and continues to serve. The middleware
therefore stores the exception of its set-up, and fails the startup explicitly.
"""

import inspect
import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

from starlette.types import ASGIApp, Receive, Scope, Send

from apf_middleware.asgi.lifespan import refuse_to_start
from apf_middleware.asgi.responses import send_answer, uncached_answer
from apf_middleware.exceptions import InvalidValueError, UnknownArgumentError
from apf_middleware.runtime import log_event

__all__ = ["SetupFailureApp", "answer_unavailable", "keeps_failure"]

_BODY: Final = b"This server isn't set up and serves no requests for now. Its log says why.\n"
_UNAVAILABLE: Final = uncached_answer(503, [(b"content-type", b"text/plain; charset=utf-8")], _BODY)

_SetUp = TypeVar("_SetUp", bound=Callable[..., None])


async def answer_unavailable(scope: Scope, send: Send) -> None:
    """Answer 503, with a text that reveals nothing about the configuration."""
    await send_answer(_UNAVAILABLE, scope, send)


class SetupFailureApp:
    """A replacement for an app that can't be protected because of ``error``."""

    __slots__ = ("_app", "_is_logged", "error")

    def __init__(self, app: ASGIApp, error: Exception) -> None:
        self._app = app
        self.error: Exception = error
        self._is_logged = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Fail the startup, or answer 503; the error is logged at the first request."""
        if scope["type"] == "lifespan":
            await receive()
            await refuse_to_start(send, self.error)
            raise self.error
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        if not self._is_logged:
            self._is_logged = True
            log_event(logging.ERROR, "apf.not-set-up", status=503, error=self.error)
        await answer_unavailable(scope, send)

    def __repr__(self) -> str:
        return f"<SetupFailureApp: {self.error!r}>"


def keeps_failure(set_up: _SetUp) -> _SetUp:
    """Decorate the ``__init__`` of a middleware: its exceptions are passed to the method ``_fail``, with the app."""
    signature = inspect.signature(set_up)

    @wraps(set_up)
    def wrapper(middleware: Any, *given: Any, **named: Any) -> None:  # noqa: ANN401 - `signature` has the types
        if not given and "app" not in named:  # without an app nothing can answer, so this can't be told later
            _check_arguments(signature, middleware, given, named)
        app: ASGIApp = given[0] if given else named["app"]
        try:
            _check_arguments(signature, middleware, given, named)
            set_up(middleware, *given, **named)
        except Exception as error:  # noqa: BLE001 - a configuration may name code that raises anything
            middleware._fail(app, error)  # noqa: SLF001 - a method of the decorated class

    return cast("_SetUp", wrapper)


def _check_arguments(
    signature: inspect.Signature, middleware: object, given: tuple[object, ...], named: dict[str, object]
) -> None:
    """Raise an error unless the arguments fit the signature, and the app can be called."""
    try:
        bound = signature.bind(middleware, *given, **named)
    except TypeError as error:
        known = ", ".join(list(signature.parameters)[1:])
        raise UnknownArgumentError(type(middleware).__name__, str(error), known) from None
    app = bound.arguments["app"]
    if not callable(app):
        hint = "Give the app first, and then the configuration: APFMiddleware(app, config='apf.yaml')"
        raise InvalidValueError("app", app, "it must be an ASGI app", hint)
