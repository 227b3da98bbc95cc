"""How the admin's answers are written: marked as its own, kept by nobody, refusals as problem documents."""

import json
from typing import Final

from apf_middleware.asgi.responses import Answer, Headers

__all__ = ["JSON", "MARK", "TEXT", "written", "written_problem"]

MARK: Final = "x-apf-admin"
"""The header that tells these answers from those of an app."""

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"


def written(status: int, content_type: str, body: bytes, headers: Headers | None = None) -> Answer:
    """An answer with this body; ``headers`` stand beside those that all have."""
    told = [
        (b"content-type", content_type.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (MARK.encode(), b"1"),
    ]
    return Answer(status, [*told, *(headers or ())], body)


def written_problem(status: int, kind: str, title: str, detail: str, headers: Headers | None = None) -> Answer:
    """A problem document (RFC 9457)."""
    problem = {"type": f"urn:apf:admin:{kind}", "title": title, "status": status, "detail": detail}
    return written(status, "application/problem+json", json.dumps(problem).encode(), headers)
