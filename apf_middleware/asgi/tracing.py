"""OpenTelemetry tracing: a span for each wait, and attributes on the current span of the request.

This module is imported only if tracing is on, because OpenTelemetry is an extra. It uses only OpenTelemetry's API: the
app's SDK decides how spans are processed, and without an SDK a span costs one call and is dropped.

The parent of a wait is the current span, which outer instrumentation has started. If there is none, the parent is the
remote span that the global propagator extracts from the request's headers.
"""

import logging
from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from opentelemetry import propagate, trace
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import INVALID_SPAN, Span
from starlette.types import ASGIApp, Receive, Scope, Send

from apf_middleware._version import __version__
from apf_middleware.asgi.scope import headers_of
from apf_middleware.config.telemetry import TelemetrySettings
from apf_middleware.runtime import Admission, wait_for_seat
from apf_middleware.runtime.log import log_event

if TYPE_CHECKING:
    from apf_middleware.asgi.waiting_client import WaitingClient

__all__ = ["Tracing"]

_NAME: Final = "apf wait"

_RawHeaders = Iterable[Sequence[bytes]]
_Told = dict[str, str | int | float]


class _Headers(Getter[_RawHeaders]):
    """A reader of raw headers for propagators; a linear search suffices, because they look up few names."""

    def get(self, carrier: _RawHeaders, key: str) -> list[str] | None:
        wanted = key.lower().encode("latin-1", "replace")
        return [value.decode("latin-1") for name, value in carrier if name == wanted] or None

    def keys(self, carrier: _RawHeaders) -> list[str]:
        return [name.decode("latin-1") for name, _ in carrier]


_HEADERS: Final = _Headers()


class Tracing:
    """The tracing of requests with OpenTelemetry, as ``settings`` ask for it."""

    __slots__ = ("_settings", "_tracer")

    def __init__(self, settings: TelemetrySettings) -> None:
        self._settings = settings
        self._tracer = trace.get_tracer("apf_middleware", __version__)  # the provider may be set later

    async def wait(self, admission: Admission, limit_ns: int, client: "WaitingClient") -> None:
        """Wait as `wait_for_seat` does, in a span."""
        span = self._begin(client.scope)
        try:
            await wait_for_seat(admission, limit_ns, client)
        finally:
            span.set_attributes(self._facts(admission))
            span.end()

    def _begin(self, scope: Scope) -> Span:
        try:
            has_parent = trace.get_current_span().get_span_context().is_valid
            parent = None if has_parent else propagate.extract(headers_of(scope), getter=_HEADERS)
            return self._tracer.start_span(_NAME, parent)
        except Exception as error:  # noqa: BLE001 - an app's propagator or sampler must not fail a request
            log_event(logging.DEBUG, "apf.tracing-failed", error=repr(error))
            return INVALID_SPAN

    def note(self, admission: Admission) -> None:
        """Set attributes for the outcome of this request on the current span, if it is recording."""
        span = trace.get_current_span()
        if span.is_recording():
            span.set_attributes({**self._facts(admission), "apf.waited": admission.waited})

    def traced(self, app: ASGIApp) -> ASGIApp:
        """Wrap ``app`` so that each request is noted on the current span."""

        def run(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            admission: Admission | None = scope.get("apf")
            if admission is not None:  # otherwise served without seats
                self.note(admission)
            return app(scope, receive, send)

        return run

    def _facts(self, admission: Admission) -> _Told:
        facts: _Told = {
            "apf.level": admission.level,
            "apf.schema": admission.schema,
            "apf.seats": admission.width,
            "apf.outcome": "seated" if admission.is_seated else "passed" if admission.has_passed else "rejected",
        }
        if facts["apf.outcome"] == "rejected":  # a request that was cancelled just as it got its seats has no reason
            facts["apf.reason"] = str(admission.reason or "cancelled")
            refusal = getattr(admission, "refusal", None)
            if refusal is not None:
                facts["apf.gate"] = refusal.gate
        if self._settings.flows:
            facts["apf.flow"] = admission.flow
        return facts

    def __repr__(self) -> str:
        return f"<Tracing: {self._settings}>"
