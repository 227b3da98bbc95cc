"""How the admin answers: what is shown, and problems (RFC 9457) for people and programs that ask for what can't be."""

import json
from dataclasses import dataclass
from typing import Final

from apf_middleware.asgi.responses import Answer, Headers

__all__ = ["JSON", "MARK", "TEXT", "FieldError", "Trouble", "as_answer", "shown", "shown_json"]

MARK: Final = "x-apf-admin"
"""The header that tells these answers from those of an app."""

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
_PROBLEM: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field of an order."""

    field: str
    value: object
    rule: str
    hint: str = ""


class Trouble(Exception):  # noqa: N818 - it is the other way to answer, and no error of the program
    """Why something isn't answered as it was meant to be."""

    def __init__(
        self,
        status: int,
        kind: str,
        title: str,
        detail: str,
        *,
        headers: Headers | None = None,
        fields: tuple[FieldError, ...] = (),
    ) -> None:
        super().__init__(status, kind, title, detail)
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail
        self.headers: Headers = headers or []
        self.fields = fields


def as_answer(trouble: Trouble) -> Answer:
    """The problem document; one that is about fields names them."""
    problem: dict[str, object] = {
        "type": f"urn:apf:admin:{trouble.kind}",
        "title": trouble.title,
        "status": trouble.status,
        "detail": trouble.detail,
    }
    if trouble.fields:
        problem["errors"] = [
            {"field": one.field, "value": one.value, "rule": one.rule, "hint": one.hint} for one in trouble.fields
        ]
    return _answer(trouble.status, _PROBLEM, json.dumps(problem, default=str).encode(), trouble.headers)


def shown(body: bytes, content_type: str) -> Answer:
    """What was asked for, in one of two forms."""
    return _answer(200, content_type, body, [(b"vary", b"accept")])


def shown_json(document: object, *, status: int = 200, headers: Headers | None = None) -> Answer:
    """What has but one form."""
    return _answer(status, JSON, json.dumps(document, default=str).encode() + b"\n", headers or [])


def _answer(status: int, content_type: str, body: bytes, headers: Headers) -> Answer:
    told = [
        (b"content-type", content_type.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (MARK.encode(), b"1"),
    ]
    return Answer(status, [*told, *headers], body)
