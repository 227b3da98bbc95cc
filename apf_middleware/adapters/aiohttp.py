"""A trace configuration for aiohttp that passes on what is known about the current request.

It does what the event hooks for httpx do::

    trace = call_trace(DeadlineHeaders(), CriticalityHeaders())
    session = aiohttp.ClientSession(trace_configs=[trace])
"""

from apf_middleware.exceptions import MissingExtraError
from apf_middleware.propagation.outgoing import OutgoingHeaders

try:
    from aiohttp import ClientSession, TraceConfig, TraceRequestRedirectParams, TraceRequestStartParams
except ImportError:
    raise MissingExtraError("aiohttp", "aiohttp") from None

__all__ = ["call_trace"]


def call_trace(*told: OutgoingHeaders) -> TraceConfig:
    """Return a trace configuration that writes the headers of ``told`` into each request before it is sent."""

    async def tell(
        session: ClientSession,  # noqa: ARG001
        context: object,  # noqa: ARG001
        params: TraceRequestStartParams | TraceRequestRedirectParams,
    ) -> None:
        for one in told:
            one.tell(params)

    trace = TraceConfig()
    trace.on_request_start.append(tell)
    trace.on_request_redirect.append(tell)
    return trace
