"""Who may look, at what, and how it is answered.

Everything below one path is the admin's: nothing of it reaches the app, so that a request that is refused here isn't
served there. Whoever hasn't shown credentials is refused first, then whoever is in none of the groups, and only then is
looked at what was asked for: strangers can't find out what there is.

No seats are taken. An operator looks when nothing else gets through.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from starlette.types import Receive, Scope, Send

from apf_middleware.asgi.admin.answers import JSON, TEXT, written, written_problem
from apf_middleware.asgi.admin.changes import reload
from apf_middleware.asgi.admin.configuration import ConfigurationDump
from apf_middleware.asgi.admin.dumps import ORDERS, dump_flows, dump_levels, dump_queues, dump_requests
from apf_middleware.asgi.admin.notes import View
from apf_middleware.asgi.admin.openapi import describe
from apf_middleware.asgi.admin.words import Clock
from apf_middleware.asgi.identity.verdict import AUTHENTICATED_GROUP
from apf_middleware.asgi.request import HeaderView, method_of, path_of, query_of
from apf_middleware.asgi.responses import Answer, Headers, send_answer
from apf_middleware.classification import ANONYMOUS, Identity
from apf_middleware.config.admin import AdminSettings

if TYPE_CHECKING:
    from apf_middleware.asgi.admin.dumps import Dump

__all__ = ["Admin"]

_DESCRIPTION: Final = "openapi.json"
_RELOAD: Final = "reload"
_FORMATS: Final[Mapping[str, bool | None]] = {"": None, "text": False, "json": True}
_CHALLENGE: Final[Headers] = [(b"www-authenticate", b'Bearer realm="apf"')]


class Admin:
    """Answers with what ``view`` shows, as ``settings`` want it; ``wall_ns`` tells the time of day."""

    def __init__(self, view: View, settings: AdminSettings, *, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._view = view
        self._settings = settings
        self._wall_ns = wall_ns
        self._below = f"{settings.path}/"
        self._dumps: Mapping[str, tuple[Dump, str]] = {
            "dump_priority_levels": (dump_levels, TEXT),
            "dump_queues": (dump_queues, TEXT),
            "dump_requests": (dump_requests, TEXT),
            "configuration": (ConfigurationDump(), "application/yaml"),
            "flows": (dump_flows, TEXT),
        }

    def is_for(self, scope: Scope) -> bool:
        """Whether a request is the admin's to answer."""
        if not self._settings.is_on or scope["type"] != "http":
            return False
        path = path_of(scope)
        return path.startswith(self._below) or path == self._settings.path

    async def answer(self, scope: Scope, receive: Receive, send: Send, identity: Identity) -> None:  # noqa: ARG002
        """Answer ``identity``, as authentication has established it for this request."""
        answer = self._refuse(scope, identity) or await self._serve(scope, identity)
        await send_answer(answer, scope, send)

    def _refuse(self, scope: Scope, identity: Identity) -> Answer | None:
        groups = frozenset(identity.groups)
        is_known = identity.name != ANONYMOUS.name and groups.isdisjoint(ANONYMOUS.groups)
        if not is_known or AUTHENTICATED_GROUP not in groups:
            return written_problem(401, "unauthenticated", "Unauthorized", "Show your credentials.", _CHALLENGE)
        if groups.isdisjoint(self._settings.groups):
            return written_problem(
                403, "forbidden", "Forbidden", "You are known, and in none of the groups that may look."
            )
        is_reload = path_of(scope) == f"{self._below}{_RELOAD}"
        if method_of(scope) not in ({"POST"} if is_reload else {"GET", "HEAD"}):
            allow = [(b"allow", b"POST" if is_reload else b"GET, HEAD")]
            detail = "This is asked for by POST." if is_reload else "Nothing can be changed here."
            return written_problem(405, "bad-method", "Method Not Allowed", detail, allow)
        return None

    async def _serve(self, scope: Scope, identity: Identity) -> Answer:
        name = path_of(scope)[len(self._below) :]
        return await reload(self._view, scope, identity) if name == _RELOAD else await self._show(scope, name)

    async def _show(self, scope: Scope, name: str) -> Answer:
        if name == _DESCRIPTION:
            root = str(scope.get("root_path") or "")
            return _shown(json.dumps(describe(self._settings.path, root)).encode(), JSON)
        found = self._dumps.get(name)
        if found is None:
            names = ", ".join((*self._dumps, _DESCRIPTION, _RELOAD))
            return written_problem(404, "no-such-page", "Not Found", f"Here are {names}.")
        query = query_of(scope)
        is_known, as_json = _wanted(query.get("format", ""), HeaderView(scope).get("accept", ""))
        if not is_known:
            return written_problem(400, "bad-format", "Bad Request", "The format must be text or json.")
        if query.get("by", "work") not in ORDERS:
            return written_problem(400, "bad-order", "Bad Request", f"by must be one of {', '.join(ORDERS)}.")
        dump, content_type = found
        clock = Clock(self._view.controller.now(), self._wall_ns())
        return _shown(await dump(self._view, clock, query, as_json=as_json), JSON if as_json else content_type)


def _wanted(asked: str, accept: str) -> tuple[bool, bool]:
    """Whether the format is one, and whether it is JSON; the parameter goes before the header."""
    if asked not in _FORMATS:
        return False, False
    as_json = _FORMATS[asked]
    return True, _prefers_json(accept) if as_json is None else as_json


def _prefers_json(accept: str) -> bool:
    """Whether JSON is asked for by name, and no less than text."""
    json_quality = text_quality = 0.0
    for entry in accept.lower().split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        quality = next((_number(one[2:]) for one in parameters if one.startswith("q=")), 1.0)
        if name == JSON:
            json_quality = quality
        elif name in {"text/plain", "text/html", "text/*", "application/yaml"}:
            text_quality = max(text_quality, quality)
    return json_quality > 0 and json_quality >= text_quality


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _shown(body: bytes, content_type: str) -> Answer:
    return written(200, content_type, body, [(b"vary", b"accept")])
