"""The policy for streams, watches, slow readers and requests with reduced estimates.

A stream may last for hours. If its level is configured so, it gives its seats back when its response begins.

A WebSocket is a stream from the start. A request that accepts ``text/event-stream`` or watches a resource probably is
one, and a response of type ``text/event-stream`` certainly is.

If a level limits its streams, requests that are expected to become streams are counted on arrival, when they can still
be refused. If the response turns out to be no stream, the request is no longer counted. An unexpected stream can't be
refused any more: if no place is left for it, it keeps its seats, which are limited as well.
"""

from typing import TYPE_CHECKING, Final

from starlette.types import Scope

from apf_middleware.accept import parse_accept
from apf_middleware.asgi.scope import headers_of
from apf_middleware.classification import RequestDigest
from apf_middleware.estimation import watch_of
from apf_middleware.fairqueuing import Reason, TicketState
from apf_middleware.runtime import Admission, Destination

if TYPE_CHECKING:
    from apf_middleware.classification import Resource
    from apf_middleware.runtime.virtual_requests import VirtualRequest

__all__ = ["StreamPolicy", "admit_stream", "announces_stream", "begin_response", "begin_watch", "is_event_stream"]

_SEATED: Final = TicketState.SEATED
_EVENT_STREAM: Final = b"text/event-stream"
_LENGTH: Final = len(_EVENT_STREAM)
_ENDS: Final = frozenset({b"", b";", b" ", b"\t"})  # any other character continues the name of another type


class StreamPolicy:
    """The policy for the requests of one digest; ``resource`` is the resource that a watch is counted for."""

    __slots__ = ("is_limited", "is_watch", "resource", "was_cut")

    def __init__(self, digest: RequestDigest, destination: Destination, *, was_cut: bool, is_watch: bool) -> None:
        self.was_cut: bool = was_cut
        self.is_limited: bool = destination.runtime.streams.is_limited
        self.is_watch: bool = is_watch
        self.resource: Resource | None = watch_of(digest) if is_watch else None


def admit_stream(now: int, admission: Admission, policy: StreamPolicy, scope: Scope) -> bool:
    """Count a request that is expected to become a stream; False if it is refused because there are too many."""
    if policy.was_cut:
        admission.destination.counters.cut += 1
    # `enter` is called last, because it takes a place, and only streams may take places.
    if not policy.is_limited or not (policy.is_watch or announces_stream(scope)) or admission.long_term().enter():
        return True
    admission.destination.controller.refuse(now, admission, Reason.STREAM_LIMIT)
    return False


def begin_watch(admission: Admission, policy: StreamPolicy) -> None:
    """Begin the watch of a request that has got its seats."""
    if policy.is_watch:
        admission.long_term().watch(policy.resource)


def begin_response(admission: Admission, *, is_stream: bool, virtual: "VirtualRequest | None" = None) -> None:
    """Release the seats if the response is a stream; otherwise stop counting the request as one.

    A request that runs without seats may have those of a ``virtual`` one.
    """
    stream = admission.stream
    # A watch is a stream, with any type of response.
    if is_stream or (stream is not None and stream.watches):
        if admission.destination.runtime.streams.settings.release_at_start:
            admission.release()
    elif stream is not None and (admission.state is _SEATED if virtual is None else virtual.lasted_ns is None):
        # A request that has given its seats back keeps its place among the streams, because otherwise no limit would
        # apply to it at all.
        stream.leave()


def is_event_stream(content_type: bytes) -> bool:
    """Return whether this is the type of Server-Sent Events, with or without parameters."""
    return content_type[:_LENGTH].lower() == _EVENT_STREAM and content_type[_LENGTH : _LENGTH + 1] in _ENDS


def announces_stream(scope: Scope) -> bool:
    """Return whether a request announces that it wants a stream."""
    if scope["type"] == "websocket":
        return True
    # joined, because a client may send as many of these headers as it likes, and `parse_accept` bounds the work
    accepted = b",".join([value for name, value in headers_of(scope) if name == b"accept"]).decode("latin-1")
    return any(entry.name == "text/event-stream" and entry.quality > 0 for entry in parse_accept(accepted))
