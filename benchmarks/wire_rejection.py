"""A rejection like ours in status, headers and body, written beforehand: sending one can't cost less."""

from typing import Final

from starlette.types import Send

__all__ = ["reject"]

_BODY: Final = (
    b'{"type": "urn:apf:queue-full", "title": "Too Many Requests", "status": 429, '
    b'"detail": "The queue for requests like this one is full.", "reason": "queue-full", "waited": 0.0, '
    b'"retry_after": 1, "own_flow": true, "level": "tenants", "schema": "tenants"}'
)
_HEADERS: Final = (
    (b"content-type", b"application/problem+json"),
    (b"retry-after", b"1"),
    (b"x-apf-flow-schema", b"tenants"),
    (b"x-apf-priority-level", b"tenants"),
    (b"content-length", b"%d" % len(_BODY)),
    (b"cache-control", b"no-store"),
)


async def reject(send: Send) -> None:
    """Send the rejection, in messages that outer middleware may change."""
    await send({"type": "http.response.start", "status": 429, "headers": [*_HEADERS]})
    await send({"type": "http.response.body", "body": _BODY, "more_body": False})
