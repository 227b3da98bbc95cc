"""Who may look, who may change what, and how it is answered.

Over HTTP everything below one path is the admin's: nothing of it reaches the app, whatever its scope is, so that a
request that is refused here isn't served there. Whoever hasn't shown credentials is refused first, then whoever is in
none of the groups, and only then is looked at what was asked for: strangers can't find out what there is. Who comes by
the control socket may do everything, for only the server's owner can open it.

No seats are taken. An operator looks when nothing else gets through.
"""

import json
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from starlette.types import Receive, Scope, Send

from apf_middleware.accept import parse_accept
from apf_middleware.asgi.admin.answers import JSON, MARK, TEXT, Trouble, as_answer, shown
from apf_middleware.asgi.admin.changes import reload
from apf_middleware.asgi.admin.configuration import ConfigurationDump
from apf_middleware.asgi.admin.desk import Ask, Handler, Who, missing_page, refused
from apf_middleware.asgi.admin.dumps import ORDERS, dump_flows, dump_levels, dump_queues, dump_requests
from apf_middleware.asgi.admin.gates import GateDesk
from apf_middleware.asgi.admin.notes import View
from apf_middleware.asgi.admin.openapi import describe
from apf_middleware.asgi.admin.orders import is_from_elsewhere
from apf_middleware.asgi.admin.queues import QueueDesk
from apf_middleware.asgi.admin.words import Clock
from apf_middleware.asgi.identity.verdict import AUTHENTICATED_GROUP
from apf_middleware.asgi.request import HeaderView, method_of, path_of, query_of
from apf_middleware.asgi.responses import Answer, Headers, send_answer
from apf_middleware.classification import ANONYMOUS, Identity
from apf_middleware.config.admin import AdminSettings

if TYPE_CHECKING:
    from apf_middleware.asgi.admin.desk import Desk
    from apf_middleware.asgi.admin.dumps import Dump

__all__ = ["MARK", "Admin"]

_DESCRIPTION: Final = "openapi.json"
_FORMATS: Final[Mapping[str, bool | None]] = {"": None, "text": False, "json": True}
_CHALLENGE: Final[Headers] = [(b"www-authenticate", b'Bearer realm="apf"')]
_RELOAD: Final = "reload"
_READING: Final = frozenset({"GET", "HEAD"})


class Admin:
    """Answers with what ``view`` shows, as ``settings`` want it; ``offset`` leads to the time of day."""

    def __init__(self, view: View, settings: AdminSettings, offset: Callable[[], int]) -> None:
        self._view = view
        self._settings = settings
        self._offset = offset
        self._below = f"{settings.path}/"
        self._dumps: Mapping[str, tuple[Dump, str]] = {
            "dump_priority_levels": (dump_levels, TEXT),
            "dump_queues": (dump_queues, TEXT),
            "dump_requests": (dump_requests, TEXT),
            "configuration": (ConfigurationDump(), "application/yaml"),
            "flows": (dump_flows, TEXT),
        }
        self._desks: Mapping[str, Desk] = {
            "queues": QueueDesk(view, settings.app),
            "gates": GateDesk(view, settings.app),
        }

    def is_for(self, scope: Scope) -> bool:
        """Whether what has come, of whatever scope, is at the admin's path: it is the admin's, and not the app's."""
        if not self._settings.is_on or "path" not in scope:
            return False
        path = path_of(scope)
        return path.startswith(self._below) or path == self._settings.path

    async def answer(self, scope: Scope, receive: Receive, send: Send, identity: Identity) -> None:
        """Answer ``identity``, as authentication has established it for this request."""
        try:
            who = self._admit(identity)
            _require_http(scope)
        except Trouble as trouble:
            await send_answer(as_answer(trouble), scope, send)
            return
        root = str(scope.get("root_path") or "")
        page = path_of(scope)[len(self._below) :]
        await self._answer(Ask(scope, receive, who), send, page, (self._settings.path, root))

    async def answer_owner(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        """Answer who has come by the control socket, where the pages are right below the root."""
        ask = Ask(scope, receive, Who(name, "socket", may_change=True))
        await self._answer(ask, send, path_of(scope).removeprefix("/"), ("", ""))

    def _admit(self, identity: Identity) -> Who:
        groups = frozenset(identity.groups)
        is_known = identity.name != ANONYMOUS.name and groups.isdisjoint(ANONYMOUS.groups)
        if not is_known or AUTHENTICATED_GROUP not in groups:
            raise Trouble(401, "unauthenticated", "Unauthorized", "Show your credentials.", headers=_CHALLENGE)
        may_change = not groups.isdisjoint(self._settings.operators)
        if not may_change and groups.isdisjoint(self._settings.groups):
            raise Trouble(403, "forbidden", "Forbidden", "You are known, and in none of the groups that may look.")
        return Who(identity.name, "http", may_change)

    async def _answer(self, ask: Ask, send: Send, page: str, place: tuple[str, str]) -> None:
        try:
            answer = await self._answer_page(ask, page, place)
        except Trouble as trouble:
            answer = as_answer(trouble)
        await send_answer(answer, ask.scope, send)

    async def _answer_page(self, ask: Ask, page: str, place: tuple[str, str]) -> Answer:
        """What is at ``page``; ``place`` is the path above it, and where the app is mounted."""
        method = method_of(ask.scope)
        name, handlers = self._find(page, place)
        handler = handlers.get("GET" if method == "HEAD" else method)
        if handler is None:
            raise _not_allowed(handlers)
        if method not in _READING:
            if is_from_elsewhere(ask.scope):
                refused(ask.who, f"{method} {page}", "cross-site")
                raise Trouble(403, "cross-site", "Forbidden", "A page of another site has asked for this.")
            if not ask.who.may_change:
                detail = "You may look, and change nothing: spec.admin.operators of the Server document names who may."
                refused(ask.who, f"{method} {page}", "may only look")
                raise Trouble(403, "forbidden", "Forbidden", detail)
        return await handler(Ask(ask.scope, ask.receive, ask.who, name))

    def _find(self, page: str, place: tuple[str, str]) -> tuple[str, Mapping[str, Handler]]:
        """By method, what can be asked of a page."""
        if page == _DESCRIPTION:

            async def description(_ask: Ask) -> Answer:
                return shown(json.dumps(describe(*place)).encode(), JSON)

            return "", {"GET": description}
        if page == _RELOAD:
            return "", {"POST": self._reload}
        if page in self._dumps:
            return page, {"GET": self._show}
        first, *rest = page.split("/")
        desk = self._desks.get(first)
        found = desk.find(rest) if desk is not None else None
        if found is None:
            raise missing_page(", ".join((*self._dumps, *self._desks, _DESCRIPTION, _RELOAD)))
        return found

    async def _reload(self, ask: Ask) -> Answer:
        return await reload(self._view, ask)

    async def _show(self, ask: Ask) -> Answer:
        query = query_of(ask.scope)
        is_known, as_json = _wanted(query.get("format", ""), HeaderView(ask.scope).get("accept", ""))
        if not is_known:
            raise Trouble(400, "bad-format", "Bad Request", "The format must be text or json.")
        if query.get("by", "work") not in ORDERS:
            raise Trouble(400, "bad-order", "Bad Request", f"by must be one of {', '.join(ORDERS)}.")
        dump, content_type = self._dumps[ask.name]
        clock = Clock(self._offset())
        return shown(await dump(self._view, clock, query, as_json=as_json), JSON if as_json else content_type)


def _require_http(scope: Scope) -> None:
    if scope["type"] != "http":
        raise Trouble(400, "no-http", "Bad Request", "The admin is asked by plain HTTP requests.")


def _not_allowed(methods: Collection[str]) -> Trouble:
    allowed = sorted({*methods, "HEAD"} if "GET" in methods else methods)
    detail = f"What can be asked of this is {', '.join(allowed)}."
    allow = [(b"allow", ", ".join(allowed).encode())]
    return Trouble(405, "method", "Method Not Allowed", detail, headers=allow)


def _wanted(asked: str, accept: str) -> tuple[bool, bool]:
    """Whether the format is one, and whether it is JSON; the parameter goes before the header."""
    if asked not in _FORMATS:
        return False, False
    as_json = _FORMATS[asked]
    return True, _prefers_json(accept) if as_json is None else as_json


def _prefers_json(accept: str) -> bool:
    """Return whether JSON is asked for by name, and no less than text."""
    json_quality = text_quality = 0.0
    for name, quality, _ in parse_accept(accept):
        if name == JSON:
            json_quality = quality
        elif name in {"text/plain", "text/html", "text/*", "application/yaml"}:
            text_quality = max(text_quality, quality)
    return json_quality > 0 and json_quality >= text_quality
