"""What operators send: JSON objects, bounded in length and time, each field known and of its kind.

Credentials that a browser adds by itself (a session, a certificate, what a proxy has signed in) come with requests that
some other site's page makes, too. So a change that such a page asks for is refused: a browser says in
``Sec-Fetch-Site``, or at least in ``Origin``, who has made a request. Whoever sends neither is no browser. Besides, an
order is JSON and says so: a page elsewhere can't send that without asking first, and nobody here says yes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import anyio
from starlette.types import Receive, Scope

from apf_middleware.asgi.admin.answers import JSON, FieldError, Trouble
from apf_middleware.asgi.request import HeaderView

__all__ = ["LONGEST_BODY", "Field", "Fields", "checked", "is_from_elsewhere", "read_order", "unfit"]

LONGEST_BODY: Final = 64 * 1024
"""In bytes; orders have some hundred."""

_PATIENCE_S: Final = 10.0
_INTEGERS: Final = 2**53


@dataclass(frozen=True, slots=True)
class Field:
    """A field's kind; a ``choice`` is of some texts."""

    kind: type[str] | type[int] | type[bool] | type[float]
    words: str
    nullable: bool = False
    choices: tuple[str, ...] = ()
    least: float | None = None


Fields = Mapping[str, Field]


def is_from_elsewhere(scope: Scope) -> bool:
    """Whether a browser has made this request for a page of another site."""
    headers = HeaderView(scope)
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in {"same-origin", "none"}
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2].lower() != headers.get("host", "?").lower()


async def read_order(
    scope: Scope, receive: Receive, fields: Fields, *, required: tuple[str, ...] = ()
) -> dict[str, object]:
    """The order's fields; Trouble tells everything that is wrong with them."""
    content_type = HeaderView(scope).get("content-type", "").partition(";")[0].strip().lower()
    if content_type != JSON:
        detail = f"The body must be {JSON}, and say so in Content-Type; without anything to say it is {{}}."
        raise Trouble(415, "not-json", "Unsupported Media Type", detail)
    return checked(_parsed(await _body(receive)), fields, required=required)


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    try:
        with anyio.fail_after(_PATIENCE_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Trouble(400, "no-body", "Bad Request", "The body ended too early.")
                body += message.get("body", b"")
                if len(body) > LONGEST_BODY:
                    detail = f"A body must not be longer than {LONGEST_BODY} bytes."
                    raise Trouble(413, "too-long", "Content Too Large", detail, headers=[(b"connection", b"close")])
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        detail = f"The body must come within {_PATIENCE_S:g} s."
        raise Trouble(408, "too-slow", "Request Timeout", detail, headers=[(b"connection", b"close")]) from None


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise Trouble(400, "bad-json", "Bad Request", f"The body must be a JSON object: {error}.") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def checked(told: object, fields: Fields, *, required: tuple[str, ...] = ()) -> dict[str, object]:
    """``told``, if it is an object of these fields."""
    if not isinstance(told, dict):
        raise Trouble(400, "bad-json", "Bad Request", "The body must be a JSON object.")
    errors = [FieldError(name, None, "it must be there") for name in required if name not in told]
    for name, value in told.items():
        error = _wrong(name, value, fields)
        if error is not None:
            errors.append(error)
    if errors:
        raise unfit(errors)
    return told


def unfit(errors: list[FieldError]) -> Trouble:
    """The trouble with fields."""
    detail = "; ".join(f"{one.field}: {one.rule}" for one in errors)
    return Trouble(422, "invalid", "Unprocessable Content", f"{detail}.", fields=tuple(errors))


def _wrong(name: str, value: object, fields: Fields) -> FieldError | None:
    field = fields.get(name)
    if field is None:
        return FieldError(name, value, "there is no such field", f"Fields are {', '.join(fields) or 'none'}")
    if value is None and field.nullable:
        return None
    if not _is_of(value, field):
        return FieldError(name, value, f"it must be {field.words}")
    return None


def _is_of(value: object, field: Field) -> bool:
    if isinstance(value, bool):
        return field.kind is bool
    if isinstance(value, str):
        return field.kind is str and (not field.choices or value in field.choices)
    if isinstance(value, int) or (isinstance(value, float) and field.kind is float):
        is_number = field.kind in {int, float} and abs(value) < _INTEGERS  # nor is NaN
        return is_number and (field.least is None or value >= field.least)
    return False
