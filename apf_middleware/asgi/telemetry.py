"""Telemetry of single requests besides metrics and logs: spans, and the header ``Server-Timing``.

If the configuration asks for neither, the app is called directly and nothing is imported.

``Server-Timing`` (W3C) shows the client's tools how long the request waited for seats: one metric, ``apf``, with the
duration in milliseconds and a word for the outcome. The header may occur more than once, so it is added as a separate
line after the app's own.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi.replies import RESPONSE_STARTS, with_headers
from apf_middleware.asgi.waiting_client import WaitingClient
from apf_middleware.config import Configuration
from apf_middleware.exceptions import MissingExtraError
from apf_middleware.runtime import Admission, wait_for_seat

if TYPE_CHECKING:
    from apf_middleware.asgi.tracing import Tracing

__all__ = ["WaitFunction", "build_tracing", "choose_wait", "timing_header", "wrap_with_telemetry"]

WaitFunction = Callable[[Admission, int, WaitingClient], Awaitable[None]]
"""A function that waits for a request's seats, at most the given nanoseconds, and watches the client meanwhile."""

_MS: Final = 1_000


def build_tracing(configuration: Configuration) -> "Tracing | None":
    """Return the tracing that the configuration asks for, or None; MissingExtraError without OpenTelemetry."""
    settings = configuration.server.telemetry
    if not settings.tracing:
        return None
    try:
        from apf_middleware.asgi.tracing import Tracing  # noqa: PLC0415 - the extra may be missing
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise MissingExtraError("opentelemetry-api", "otel") from error
    return Tracing(settings)


def choose_wait(tracing: "Tracing | None") -> WaitFunction:
    """Return the function with which requests wait for seats."""
    return wait_for_seat if tracing is None else tracing.wait


def wrap_with_telemetry(app: ASGIApp, configuration: Configuration, tracing: "Tracing | None") -> ASGIApp:
    """Wrap ``app`` with the telemetry that the configuration asks for; return it unchanged if there is none."""
    if configuration.server.responses.server_timing:
        app = _wrap_with_timing(app)
    return app if tracing is None else tracing.traced(app)


def timing_header(admission: Admission) -> tuple[bytes, bytes]:
    """Return the header for the response to this request."""
    waited = admission.waited
    became = admission.reason or ("passed" if admission.has_passed else "queued" if waited else "seated")
    return b"server-timing", f'apf;dur={waited * _MS:.1f};desc="{became}"'.encode()


def _wrap_with_timing(app: ASGIApp) -> ASGIApp:
    """Wrap ``app`` so that its responses have the header, unless their requests need no seats."""

    def run(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        admission: Admission | None = scope.get("apf")
        if admission is None:  # served without seats
            return app(scope, receive, send)
        return app(scope, receive, partial(_send_timed, send, admission))

    return run


async def _send_timed(send: Send, admission: Admission, message: Message) -> None:
    if message["type"] in RESPONSE_STARTS:
        message = with_headers(message, [timing_header(admission)])
    await send(message)
