"""What is told about requests beside metrics and logs, and only where the configuration wants it: spans and timings.

Whatever isn't wanted isn't there: the app is called as it is, and nothing is imported for it.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from apf_middleware.asgi.body import Client, RequestBody
from apf_middleware.asgi.timing import timed
from apf_middleware.config import Configuration
from apf_middleware.exceptions import MissingExtraError
from apf_middleware.runtime import Admission, wait_for_seat

if TYPE_CHECKING:
    from apf_middleware.asgi.tracing import Tracing

__all__ = ["Wait", "build_tracing", "choose_wait", "observed"]

Wait = Callable[[Admission, int, Callable[[Client], RequestBody], Client], Awaitable[RequestBody | None]]
"""Wait at most so many nanoseconds for the seats of a request, and watch its client meanwhile."""


def build_tracing(configuration: Configuration) -> "Tracing | None":
    """What tells spans, if that is wanted; MissingExtraError if OpenTelemetry isn't installed."""
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
    """How a request waits for its seats."""
    return wait_for_seat if tracing is None else tracing.wait


def observed(app: ASGIApp, configuration: Configuration, tracing: "Tracing | None") -> ASGIApp:
    """``app``, and around it what is wanted: itself if that is nothing."""
    if configuration.server.responses.server_timing:
        app = timed(app)
    return app if tracing is None else tracing.traced(app)
