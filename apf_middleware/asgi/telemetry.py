"""What is reported about single requests beside metrics and logs: spans, and the header ``Server-Timing``.

Where the configuration asks for neither, the app is called as it is and nothing is imported.

``Server-Timing`` (W3C) tells the client's own tools how long its request waited for seats: one metric, ``apf``, with
the duration in milliseconds and a word for the outcome. The header is a list, so ours is a line of its own after the
app's.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi.body import Client, RequestBody
from apf_middleware.config import Configuration
from apf_middleware.exceptions import MissingExtraError
from apf_middleware.runtime import Admission, wait_for_seat

if TYPE_CHECKING:
    from apf_middleware.asgi.tracing import Tracing

__all__ = ["Wait", "build_tracing", "choose_wait", "observed", "timed", "timing_header"]

Wait = Callable[[Admission, int, Callable[[Client], RequestBody], Client], Awaitable[RequestBody | None]]
"""Wait at most so many nanoseconds for the seats of a request, and watch its client meanwhile."""

_STARTS: Final = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
_MS: Final = 1_000


def build_tracing(configuration: Configuration) -> "Tracing | None":
    """Return what makes spans, if the configuration wants them; MissingExtraError without OpenTelemetry."""
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


def choose_wait(tracing: "Tracing | None") -> Wait:
    """Return the function with which requests wait for seats."""
    return wait_for_seat if tracing is None else tracing.wait


def observed(app: ASGIApp, configuration: Configuration, tracing: "Tracing | None") -> ASGIApp:
    """Wrap ``app`` as the configuration wants requests observed; return it as it is if it wants nothing."""
    if configuration.server.responses.server_timing:
        app = timed(app)
    return app if tracing is None else tracing.traced(app)


def timing_header(admission: Admission) -> tuple[bytes, bytes]:
    """Return the header for the response to this request."""
    waited = admission.waited
    became = admission.reason or ("queued" if waited else "seated")
    return b"server-timing", f'apf;dur={waited * _MS:.1f};desc="{became}"'.encode()


def timed(app: ASGIApp) -> ASGIApp:
    """Wrap ``app``: each of its responses starts with the header."""

    def run(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return app(scope, receive, partial(_send_timed, send, scope["apf"]))

    return run


async def _send_timed(send: Send, admission: Admission, message: Message) -> None:
    if message["type"] in _STARTS:
        message = {**message, "headers": [*message.get("headers", ()), timing_header(admission)]}
    await send(message)
