"""Responses to requests that are not served: a status, a Retry-After time and a problem document (RFC 9457).

Rejections must be cheap, because most of them are sent under overload. They need no look-ups and no templates, and
their messages go directly to the server.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from random import Random
from typing import TYPE_CHECKING, Final

from starlette.types import Scope, Send

from apf_middleware.asgi.resolver import ResponseHeaders
from apf_middleware.asgi.scope import Headers
from apf_middleware.asgi.telemetry import timing_header
from apf_middleware.config.responses import ResponseSettings
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime import Admission, retry_after_s

if TYPE_CHECKING:
    from starlette.types import Message

__all__ = [
    "Answer",
    "answer_gone",
    "answer_rejected",
    "answer_unauthenticated",
    "answer_unknown_queue",
    "send_answer",
]

_PROBLEM: Final = (b"content-type", b"application/problem+json")
_KNOWN: Final = frozenset(HTTPStatus)
_TRY_AGAIN_LATER: Final = 1013  # the WebSocket close code "Try Again Later"
_REFUSED: Final = 1008  # the WebSocket close code for a violated policy
_STATUS: Final = {Reason.QUEUE_CLOSED: 503, Reason.QUEUE_CLOSING: 503, Reason.SLOW_BODY: 408}
_BODIES: Final = frozenset({Reason.SLOW_BODY, Reason.BODY_LIMIT})  # the rest of the body is never received
_DETAILS: Final[Mapping[Reason, str]] = {
    Reason.QUEUE_FULL: "The queue for requests like this one is full.",
    Reason.CONCURRENCY_LIMIT: "All seats for requests like this one are taken, and such requests are not queued.",
    Reason.TIME_OUT: "No seat came free within the time that a request may wait.",
    Reason.CANCELLED: "The client has disconnected.",
    Reason.QUEUE_CLOSED: "The queue for requests like this one is closed.",
    Reason.QUEUE_CLOSING: "The queue for requests like this one is closing.",
    Reason.STREAM_LIMIT: "The maximum number of streams like this one is open.",
    Reason.SLOW_BODY: "The request's body arrived too slowly.",
    Reason.BODY_LIMIT: "The maximum number of requests are already waiting for their bodies.",
    Reason.GATE: "A resource that this request needs did not become available in time.",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response."""

    status: int
    headers: Headers
    body: bytes


_GONE: Final = Answer(499, [(b"content-length", b"0")], b"")  # the status that proxies log if the client has left


def answer_rejected(admission: Admission, response_headers: ResponseHeaders, now: int, chance: Random) -> Answer:
    """Return the answer to a rejected request."""
    reason = admission.reason
    assert reason is not None, "the admission has been rejected"
    settings = response_headers.settings
    ends = admission.destination.controller.is_closing and reason is Reason.QUEUE_CLOSED
    refusal = getattr(admission, "refusal", None)
    status = _STATUS.get(reason) or (settings.status if refusal is None else refusal.status)
    runtime = admission.destination.runtime
    seconds = _retry_after(admission, settings, now, chance)
    if refusal is not None and refusal.retry_after is not None:
        seconds = max(1, ceil(refusal.retry_after))
    problem = _problem(status, reason.value, "The server is shutting down." if ends else _DETAILS[reason])
    problem |= {"waited": round(admission.waited, 3), "retry_after": seconds}
    if reason is Reason.QUEUE_FULL and runtime.shared.queueset.settings.queues > 1:
        problem["own_flow"] = _is_own_flow(admission)
    if refusal is not None and response_headers.are_names:
        problem["gate"] = refusal.gate
    if response_headers.are_names:
        problem["level"] = admission.level
        problem["schema"] = admission.schema
    headers = [
        _PROBLEM,
        (b"retry-after", b"%d" % seconds),
        *response_headers.of(admission.destination.classification),
    ]
    if ends or reason in _BODIES:
        headers.append((b"connection", b"close"))
    if settings.server_timing:
        headers.append(timing_header(admission))
    return _answer(status, headers, problem)


def _retry_after(admission: Admission, settings: ResponseSettings, now: int, chance: Random) -> int:
    """Return the seconds after which the requests ahead will have been served at the current rate."""
    runtime = admission.destination.runtime
    if admission.reason is Reason.STREAM_LIMIT:
        ahead, rate = 1, runtime.streams.drain.sample(now, runtime.streams.closed)
    else:
        ahead, rate = runtime.shared.queueset.waiting + 1, runtime.drain.sample(now, runtime.dispatched)
    least, most = settings.retry_after.least_s, settings.retry_after.most_s
    return retry_after_s(ahead, rate, least=least, most=most, chance=chance)


def _is_own_flow(admission: Admission) -> bool:
    """Return whether at least half of the queue consists of requests of the caller's own flow."""
    queue = admission.queue
    return queue is not None and 2 * sum(ticket.flow == admission.flow for ticket in queue) >= queue.length


def answer_unknown_queue(status: int, reason: str, response_headers: ResponseHeaders) -> Answer:
    """Return the answer to a request that names a queue that it can't use."""
    is_parent = reason == "not-leaf"
    detail = "takes no requests itself" if is_parent else "does not exist"
    headers = [_PROBLEM]
    if status == 503:
        headers.append((b"retry-after", b"%d" % response_headers.settings.retry_after.least_s))
    return _answer(status, headers, _problem(status, reason, f"The queue that the request names {detail}."))


def answer_unauthenticated(challenge: str, reason: str) -> Answer:
    """Return the answer to bad credentials."""
    problem = _problem(401, reason, "The credentials aren't valid.") | {"type": "urn:apf:unauthenticated"}
    return _answer(401, [_PROBLEM, (b"www-authenticate", challenge.encode("latin-1", "replace"))], problem)


def _problem(status: int, reason: str, detail: str) -> dict[str, object]:
    title = HTTPStatus(status).phrase if status in _KNOWN else "Rejected"
    return {"type": f"urn:apf:{reason}", "title": title, "status": status, "detail": detail, "reason": reason}


def _answer(status: int, headers: Headers, problem: Mapping[str, object]) -> Answer:
    body = json.dumps(problem).encode()
    return Answer(status, [*headers, (b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store")], body)


async def answer_gone(scope: Scope, send: Send) -> None:
    """Complete the exchange with a client that has disconnected.

    The response is not delivered, but outer middleware such as Starlette's ``BaseHTTPMiddleware`` fails without one.
    """
    if scope["type"] == "http":
        with suppress(OSError):  # a server may raise it for a closed connection
            await send_answer(_GONE, scope, send)


async def send_answer(answer: Answer, scope: Scope, send: Send) -> None:
    """Send an answer; to a WebSocket as a denial response, or as a close if the server doesn't support denials."""
    kind = ""
    if scope["type"] == "websocket":
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            await send(_closing(answer))
            return
        kind = "websocket."
    headers = answer.headers
    if not scope.get("http_version", "1.1").startswith("1"):  # HTTP/2 and later forbid this header
        headers = [header for header in headers if header[0] != b"connection"]
    start: Message = {"type": f"{kind}http.response.start", "status": answer.status, "headers": headers}
    await send(start)
    body = b"" if scope.get("method") == "HEAD" else answer.body
    await send({"type": f"{kind}http.response.body", "body": body, "more_body": False})


def _closing(answer: Answer) -> "Message":
    """Return the message that closes a WebSocket during its handshake, if no response can be sent."""
    if any(name == b"retry-after" for name, _ in answer.headers):
        return {"type": "websocket.close", "code": _TRY_AGAIN_LATER, "reason": "Try again later"}
    reason = HTTPStatus(answer.status).phrase if answer.status in _KNOWN else ""
    return {"type": "websocket.close", "code": _REFUSED, "reason": reason}
