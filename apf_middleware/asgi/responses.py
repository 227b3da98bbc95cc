"""Responses to requests that are not served, with problem documents (RFC 9457); `rejections` has most of them.

They need no templates, and their messages go directly to the server.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from anyio import move_on_after
from starlette.types import Scope, Send

from apf_middleware.asgi.identity.verdict import DESCRIPTIONS
from apf_middleware.asgi.response_headers import ResponseHeaders
from apf_middleware.asgi.scope import Headers
from apf_middleware.copying import Value
from apf_middleware.runtime.queues.naming import NOT_LEAF

if TYPE_CHECKING:
    from starlette.types import Message

__all__ = [
    "JSON",
    "PROBLEM",
    "Answer",
    "answer_gone",
    "answer_problem",
    "answer_unauthenticated",
    "answer_unknown_queue",
    "describe_problem",
    "send_answer",
    "uncached_answer",
]

JSON: Final = (b"content-type", b"application/json")
PROBLEM: Final = (b"content-type", b"application/problem+json")
_GONE_S: Final = 1.0
_KNOWN: Final = frozenset(HTTPStatus)
_TRY_AGAIN_LATER: Final = 1013  # the WebSocket close code "Try Again Later"
_REFUSED: Final = 1008  # the WebSocket close code for a violated policy


@dataclass(frozen=True, slots=True)
class Answer(Value):
    """A complete response, which may be sent more than once."""

    status: int
    headers: Headers
    body: bytes


_GONE: Final = Answer(499, [(b"content-length", b"0")], b"")  # the status that proxies log if the client has left


def answer_unknown_queue(status: int, reason: str, response_headers: ResponseHeaders) -> Answer:
    """Return the answer to a request that names a queue that it can't use."""
    detail = "takes no requests itself" if reason == NOT_LEAF else "does not exist"
    headers = [PROBLEM]
    if status == 503:
        headers.append((b"retry-after", b"%d" % response_headers.settings.retry_after.least_s))
    problem = describe_problem(status, reason, f"The queue that the request names {detail}.")
    return answer_problem(status, headers, problem)


def answer_unauthenticated(challenge: str, reason: str) -> Answer:
    """Return the answer to bad credentials."""
    detail = f"The credentials aren't accepted: {DESCRIPTIONS.get(reason, reason)}."
    problem = describe_problem(401, reason, detail) | {"type": "urn:apf:unauthenticated"}
    return answer_problem(401, [PROBLEM, (b"www-authenticate", challenge.encode("latin-1", "replace"))], problem)


def describe_problem(status: int, reason: str, detail: str) -> dict[str, object]:
    """Return the members that all problem documents have."""
    title = HTTPStatus(status).phrase if status in _KNOWN else "Rejected"
    return {"type": f"urn:apf:{reason}", "title": title, "status": status, "detail": detail, "reason": reason}


def answer_problem(status: int, headers: Headers, problem: Mapping[str, object]) -> Answer:
    """Return the answer with this problem document."""
    return uncached_answer(status, headers, json.dumps(problem).encode())


def uncached_answer(status: int, headers: Headers, body: bytes) -> Answer:
    """Return an answer with the length of its ``body``, which no cache may keep."""
    return Answer(status, [*headers, (b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store")], body)


async def answer_gone(scope: Scope, send: Send) -> None:
    """Complete the exchange with a client that has disconnected.

    The response is not delivered, but without one outer middleware such as Starlette's ``BaseHTTPMiddleware`` fails,
    and uvicorn logs an error about the handshake of a WebSocket.
    """
    # A server may raise an OSError for a closed connection, and hypercorn may wait for it for ever.
    with suppress(OSError), move_on_after(_GONE_S):
        if scope["type"] == "http":
            await send_answer(_GONE, scope, send)
        else:  # no denial response, because servers don't know this status
            await send(_closing(_GONE))


async def send_answer(answer: Answer, scope: Scope, send: Send) -> None:
    """Send an answer; to a WebSocket as a denial response, or as a close if the server doesn't support denials."""
    start, end = "http.response.start", "http.response.body"
    if scope["type"] == "websocket":
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            await send(_closing(answer))
            return
        start, end = f"websocket.{start}", f"websocket.{end}"
    # Outer middleware may change the messages and the list of headers. The answer may be sent again, so all are new.
    if scope.get("http_version", "1.1").startswith("1"):
        headers = answer.headers.copy()
    else:  # HTTP/2 and later forbid this header
        headers = [header for header in answer.headers if header[0] != b"connection"]
    await send({"type": start, "status": answer.status, "headers": headers})
    await send({"type": end, "body": b"" if scope.get("method") == "HEAD" else answer.body, "more_body": False})


def _closing(answer: Answer) -> "Message":
    """Return the message that closes a WebSocket during its handshake, if no response can be sent."""
    if any(name == b"retry-after" for name, _ in answer.headers):
        return {"type": "websocket.close", "code": _TRY_AGAIN_LATER, "reason": "Try again later"}
    reason = HTTPStatus(answer.status).phrase if answer.status in _KNOWN else ""
    return {"type": "websocket.close", "code": _REFUSED, "reason": reason}
