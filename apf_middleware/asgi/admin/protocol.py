"""Requests to the admin and its answers: actors, resources, bodies, errors and the audit log.

A browser adds some credentials by itself (a session, a certificate, the login at a proxy), even to requests from pages
of other sites. A change that such a page asks for is therefore refused: a browser names the origin of a request in
``Sec-Fetch-Site``, or at least in ``Origin``, and a client that sends neither is no browser. Besides, a body must be
declared as JSON, which a page of another site can't do without a preflight request, and none is ever granted.
"""

import json
import logging
import math
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol

import anyio
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.types import Receive, Scope

from apf_middleware._version import __version__
from apf_middleware.asgi.admin.documents import FieldError, ProblemDocument, Worker, to_json
from apf_middleware.asgi.admin.streamed_answer import StreamedAnswer
from apf_middleware.asgi.responses import Answer, uncached_answer
from apf_middleware.asgi.scope import Headers, HeaderView
from apf_middleware.classification.text import printable
from apf_middleware.runtime import log_event

__all__ = [
    "JSON",
    "LONGEST_BODY",
    "LONGEST_CONFIGURATION",
    "MARK",
    "TEXT",
    "Actor",
    "AdminError",
    "AdminRequest",
    "AdminResource",
    "Handler",
    "answer_dump",
    "answer_error",
    "answer_json",
    "answer_stream",
    "invalid",
    "is_cross_site",
    "log_change",
    "log_refusal",
    "no_such_page",
    "read_body",
    "signature",
    "worker_of",
]

MARK: Final = "x-apf-admin"
"""The header that distinguishes the admin's answers from those of an app."""

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
_PROBLEM: Final = "application/problem+json"

LONGEST_BODY: Final = 64 * 1024
"""The longest body, in bytes; usual ones have some hundred bytes."""

LONGEST_CONFIGURATION: Final = 2 * 2**20
"""The longest body that starts a shadow, in bytes: a file of a configuration has at most half of that."""

_BODY_TIMEOUT_S: Final = 10.0
_TITLES: Final = {413: "Content Too Large", 422: "Unprocessable Content"}  # as RFC 9110, and Python from 3.13 on


@dataclass(frozen=True, slots=True)
class Actor:
    """An authorized caller, as the audit log names it; ``via`` is http or socket."""

    name: str
    via: str
    may_change: bool


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """An authorized request about the object ``name``."""

    scope: Scope
    receive: Receive
    actor: Actor
    name: str = ""


Handler = Callable[[AdminRequest], Awaitable[Answer | StreamedAnswer]]


class AdminResource(Protocol):
    """Answers requests about one kind of object."""

    def find(self, steps: list[str]) -> tuple[str, Mapping[str, Handler]] | None:
        """Return the name of the object at this path and the handlers by method; None if there is no such page."""
        ...


class AdminError(Exception):
    """A request that is answered with a problem document (RFC 9457)."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        headers: Headers | None = None,
        fields: tuple[FieldError, ...] = (),
    ) -> None:
        super().__init__(status, kind, detail)
        title = _TITLES.get(status) or HTTPStatus(status).phrase
        self.problem: ProblemDocument = ProblemDocument(f"urn:apf:admin:{kind}", title, status, detail, fields)
        self.headers: Headers = headers or []


def invalid(errors: list[FieldError]) -> AdminError:
    """Return the error for fields with wrong values."""
    detail = "; ".join(f"{one.field}: {one.rule}" for one in errors)
    return AdminError(422, "invalid", f"{detail}.", fields=tuple(errors))


def no_such_page(names: str) -> AdminError:
    """Return the error for an unknown path; ``names`` lists the pages that exist."""
    return AdminError(404, "no-such-page", f"Here are {names}.")


# Answers


def answer_error(error: AdminError) -> Answer:
    """Answer with a problem document, which names the fields that have wrong values."""
    problem = error.problem
    body = json.dumps(to_json(problem, without=() if problem.errors else ("errors",)), default=str)
    return _answer(problem.status, _PROBLEM, body.encode(), error.headers)


def answer_dump(body: bytes, content_type: str) -> Answer:
    """Answer with a dump in one of its two forms."""
    return _answer(200, content_type, body, [(b"vary", b"accept")])


def answer_json(document: object, *, without: tuple[str, ...] = (), status: int = 200) -> Answer:
    """Answer with a document, ``without`` some of its optional fields."""
    text = json.dumps(to_json(document, without=without), default=str, ensure_ascii=False)
    # An app may use any text as a key or a flow. A lone surrogate in it would make all of the document unreadable.
    return _answer(status, JSON, text.encode(errors="replace") + b"\n", [])


def _answer(status: int, content_type: str, body: bytes, headers: Headers) -> Answer:
    return uncached_answer(status, [*_own_headers(content_type), *headers], body)


def answer_stream(
    content_type: str, parts: AsyncGenerator[bytes, None], patience_s: float, headers: Headers
) -> StreamedAnswer:
    """Answer with ``parts`` as they are made, each of which a client may take ``patience_s`` seconds to read."""
    own = [*_own_headers(content_type), (b"cache-control", b"no-store")]
    return StreamedAnswer(200, [*own, *headers], parts, patience_s)


def _own_headers(content_type: str) -> Headers:
    return [(b"content-type", content_type.encode()), (b"x-content-type-options", b"nosniff"), (MARK.encode(), b"1")]


def worker_of(app: str) -> Worker:
    """Describe this process, which may have been forked since the server was made."""
    return Worker(os.getpid(), app, __version__)


# The audit log


def signature(actor: Actor) -> str:
    """Return the actor for the log, quoted so that no name can look like another field."""
    return _quoted(f"{actor.name} ({actor.via})")


def log_change(actor: Actor, event: str, **facts: object) -> None:
    """Log a change."""
    known = {name: _quoted(fact) if isinstance(fact, str) else fact for name, fact in facts.items() if fact is not None}
    log_event(logging.INFO, f"apf.{event}", by=signature(actor), **known)


def log_refusal(actor: Actor, what: str, why: str) -> None:
    """Log a change that was refused."""
    log_event(logging.WARNING, "apf.change-refused", by=signature(actor), what=_quoted(what), why=_quoted(why))


def _quoted(text: str) -> str:
    return json.dumps(printable(text), ensure_ascii=False)


# Bodies


def is_cross_site(scope: Scope) -> bool:
    """Return whether a browser has made this request for a page of another site."""
    headers = HeaderView(scope)
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in {"same-origin", "none"}
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2].lower() != headers.get("host", "?").lower()


async def read_body(request: AdminRequest, kind: type[BaseModel], longest: int = LONGEST_BODY) -> dict[str, Any]:
    """Return the fields of a JSON body of at most ``longest`` bytes; raise AdminError with all that is wrong."""
    content_type = HeaderView(request.scope).get("content-type", "").partition(";")[0].strip().lower()
    if content_type != JSON:
        detail = f"The body must be JSON, with the Content-Type {JSON}; an empty body is {{}}."
        raise AdminError(415, "not-json", detail)
    document = _parse(await _receive(request.receive, longest))
    if not isinstance(document, dict):
        raise AdminError(400, "bad-json", "The body must be a JSON object.")
    try:
        kind.model_validate(document)
    except ValidationError as error:
        raise invalid([_field_error(kind, one) for one in error.errors(include_url=False)]) from None
    return document


async def _receive(receive: Receive, longest: int) -> bytes:
    body = bytearray()
    try:
        with anyio.fail_after(_BODY_TIMEOUT_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise AdminError(400, "no-body", "The body ended too early.")
                body += message.get("body", b"")
                if len(body) > longest:
                    detail = f"A body must not be longer than {longest} bytes."
                    raise AdminError(413, "too-long", detail, headers=[(b"connection", b"close")])
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        detail = f"The body must arrive within {_BODY_TIMEOUT_S:g} s."
        raise AdminError(408, "too-slow", detail, headers=[(b"connection", b"close")]) from None


def _parse(body: bytes) -> object:
    try:
        return json.loads(body, object_pairs_hook=_unique, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise AdminError(400, "bad-json", f"The body must be a JSON object: {error}.") from None


def _finite(text: str) -> float:
    """Return a number; the answer couldn't name another one, because JSON has none."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _field_error(kind: type[BaseModel], error: ErrorDetails) -> FieldError:
    """Return the error of one field; the description of a field is its rule."""
    name, fields = str(error["loc"][0]), kind.model_json_schema()["properties"]
    if error["type"] == "missing":
        return FieldError(name, None, "it must be there")
    if name not in fields:
        return FieldError(name, error["input"], "there is no such field", f"Fields are {', '.join(fields) or 'none'}")
    return FieldError(name, error["input"], f"it must be {fields[name]['description']}")
