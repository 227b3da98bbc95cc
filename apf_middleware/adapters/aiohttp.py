"""A trace configuration for aiohttp that passes on what is known about the current request.

It does what the event hooks for httpx do::

    trace = call_trace(DeadlineHeaders(), CriticalityHeaders())
    session = aiohttp.ClientSession(trace_configs=[trace])
"""

from apf_middleware.exceptions import MissingExtraError
from apf_middleware.propagation.outgoing import OutgoingHeaders, OutgoingRequest

try:
    from aiohttp import ClientSession, TraceConfig, TraceRequestRedirectParams
except ImportError:
    raise MissingExtraError("aiohttp", "aiohttp") from None

__all__ = ["call_trace"]


def call_trace(*told: OutgoingHeaders) -> TraceConfig:
    """Return a trace configuration that writes the headers of ``told`` into each request before it is sent."""

    async def tell(_session: object, _context: object, params: OutgoingRequest) -> None:
        for one in told:
            one.tell(params)

    async def tell_again(session: ClientSession, context: object, params: TraceRequestRedirectParams) -> None:
        try:
            await tell(session, context, params)
        except BaseException:
            # older versions of aiohttp would keep the connection
            params.response.close()
            raise

    trace = TraceConfig()
    trace.on_request_start.append(tell)
    trace.on_request_redirect.append(tell_again)
    return trace
