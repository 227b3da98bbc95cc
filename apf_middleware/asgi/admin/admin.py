"""The admin: authorization, and which page answers a request.

Over HTTP everything below one path belongs to the admin. No scope with such a path reaches the app, so the app can't
serve a request that the admin refuses. Authentication is checked first, then the groups of the caller, and only then
the page, so that strangers can't find out which pages there are. A caller on the control socket may do everything,
because only the server's owner can open the socket.

The admin takes no seats, because it must answer even when no other request is served.
"""

import json
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from starlette.types import Receive, Scope, Send

from apf_middleware.accept import parse_accept
from apf_middleware.asgi.admin.configuration import ConfigurationDump, reload
from apf_middleware.asgi.admin.dumps import (
    ORDERS,
    dump_fleet,
    dump_flows,
    dump_levels,
    dump_queues,
    dump_requests,
)
from apf_middleware.asgi.admin.explain import ExplainResource
from apf_middleware.asgi.admin.formatting import Formatter
from apf_middleware.asgi.admin.gates import GateResource
from apf_middleware.asgi.admin.mode import ModeResource
from apf_middleware.asgi.admin.observation import View
from apf_middleware.asgi.admin.openapi import describe
from apf_middleware.asgi.admin.protocol import (
    JSON,
    TEXT,
    Actor,
    AdminError,
    AdminRequest,
    Handler,
    answer_dump,
    answer_error,
    is_cross_site,
    log_refusal,
    no_such_page,
)
from apf_middleware.asgi.admin.queues import QueueResource
from apf_middleware.asgi.admin.recordings import RecordingResource
from apf_middleware.asgi.admin.shadow import ShadowResource
from apf_middleware.asgi.admin.streamed_answer import StreamedAnswer, send_streamed
from apf_middleware.asgi.responses import Answer, send_answer
from apf_middleware.asgi.scope import Headers, HeaderView, method_of, path_of, query_of
from apf_middleware.classification import ANONYMOUS, Identity
from apf_middleware.classification.digest import AUTHENTICATED_GROUP
from apf_middleware.config.admin import AdminSettings

if TYPE_CHECKING:
    from apf_middleware.asgi.admin.dumps import Dump
    from apf_middleware.asgi.admin.protocol import AdminResource

__all__ = ["Admin"]

_DESCRIPTION: Final = "openapi.json"
_FORMATS: Final[Mapping[str, bool | None]] = {"": None, "text": False, "json": True}
_CHALLENGE: Final[Headers] = [(b"www-authenticate", b'Bearer realm="apf"')]
_RELOAD: Final = "reload"
_READING: Final = frozenset({"GET", "HEAD"})


class Admin:
    """The pages of the admin, about ``view``; the wall clock is ``offset()`` ahead of the server's clock.

    ``more`` are resources beside those that every admin has, by name; those ``for_owner`` are only on the socket.
    """

    def __init__(
        self,
        view: View,
        settings: AdminSettings,
        offset: Callable[[], int],
        more: Mapping[str, "AdminResource"] = MappingProxyType({}),
        for_owner: Mapping[str, "AdminResource"] = MappingProxyType({}),
    ) -> None:
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
            "fleet": (dump_fleet, TEXT),
        }
        self._resources: Mapping[str, AdminResource] = {
            "queues": QueueResource(view, settings.app),
            "gates": GateResource(view, settings.app),
            "mode": ModeResource(view, settings.app),
            "recordings": RecordingResource(view, settings.app),
            "shadow": ShadowResource(view, settings.app),
            "explain": ExplainResource(view),
            **more,
        }
        self._owner_resources: Mapping[str, AdminResource] = {**self._resources, **for_owner}

    def is_for(self, scope: Scope) -> bool:
        """Return whether a scope, of any type, has a path of the admin and must not reach the app."""
        if not self._settings.is_on or "path" not in scope:
            return False
        path = path_of(scope)
        return path.startswith(self._below) or path == self._settings.path

    async def answer(self, scope: Scope, receive: Receive, send: Send, identity: Identity) -> None:
        """Answer a request over HTTP that was authenticated as ``identity``."""
        try:
            actor = self._authorize(identity)
            _require_http(scope)
        except AdminError as error:
            await send_answer(answer_error(error), scope, send)
            return
        root = str(scope.get("root_path") or "")
        page = path_of(scope)[len(self._below) :]
        await self._answer(AdminRequest(scope, receive, actor), send, page, (self._settings.path, root))

    async def answer_owner(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        """Answer the owner of the server, on the control socket; the pages are right below the root there."""
        request = AdminRequest(scope, receive, Actor(name, "socket", may_change=True))
        await self._answer(request, send, path_of(scope).removeprefix("/"), ("", ""))

    def _authorize(self, identity: Identity) -> Actor:
        groups = frozenset(identity.groups)
        is_authenticated = identity.name != ANONYMOUS.name and groups.isdisjoint(ANONYMOUS.groups)
        if not is_authenticated or AUTHENTICATED_GROUP not in groups:
            raise AdminError(401, "unauthenticated", "Authentication is required.", headers=_CHALLENGE)
        may_change = not groups.isdisjoint(self._settings.operators)
        if not may_change and groups.isdisjoint(self._settings.groups):
            raise AdminError(403, "forbidden", "Authenticated, but not authorized to view this.")
        return Actor(identity.name, "http", may_change)

    async def _answer(self, request: AdminRequest, send: Send, page: str, place: tuple[str, str]) -> None:
        answer: Answer | StreamedAnswer
        try:
            answer = await self._answer_page(request, page, place)
        except AdminError as error:
            answer = answer_error(error)
        if isinstance(answer, StreamedAnswer):
            await send_streamed(answer, request.scope, request.receive, send)
        else:
            await send_answer(answer, request.scope, send)

    async def _answer_page(self, request: AdminRequest, page: str, place: tuple[str, str]) -> Answer | StreamedAnswer:
        """Answer with ``page``; ``place`` is the path above it, and the root path of the app."""
        method = method_of(request.scope)
        name, handlers = self._find(page, place, self._resources_for(request.actor))
        handler = handlers.get("GET" if method == "HEAD" else method)
        if handler is None:
            raise _not_allowed(handlers)
        if method not in _READING:
            _authorize_change(request, f"{method} {page}")
        return await handler(AdminRequest(request.scope, request.receive, request.actor, name))

    def _resources_for(self, actor: Actor) -> Mapping[str, "AdminResource"]:
        return self._owner_resources if actor.via == "socket" else self._resources

    def _find(
        self, page: str, place: tuple[str, str], resources: Mapping[str, "AdminResource"]
    ) -> tuple[str, Mapping[str, Handler]]:
        """Return the name of the object that a page is about, and its handlers by method."""
        if page == _DESCRIPTION:

            async def description(_request: AdminRequest) -> Answer:
                return answer_dump(json.dumps(describe(*place, resources)).encode(), JSON)

            return "", {"GET": description}
        if page == _RELOAD:
            return "", {"POST": self._reload}
        if page in self._dumps:
            return page, {"GET": self._dump}
        first, *rest = page.split("/")
        resource = resources.get(first)
        found = resource.find(rest) if resource is not None else None
        if found is None:
            raise no_such_page(", ".join((*self._dumps, *resources, _DESCRIPTION, _RELOAD)))
        return found

    async def _reload(self, request: AdminRequest) -> Answer:
        return await reload(self._view, request)

    async def _dump(self, request: AdminRequest) -> Answer:
        query = query_of(request.scope)
        asked = query.get("format", "")
        if asked not in _FORMATS:
            raise AdminError(400, "bad-format", "The format must be text or json.")
        if query.get("by", "work") not in ORDERS:
            raise AdminError(400, "bad-order", f"by must be one of {', '.join(ORDERS)}.")
        as_json = _FORMATS[asked]
        if as_json is None:
            as_json = _prefers_json(HeaderView(request.scope).get("accept", ""))
        dump, content_type = self._dumps[request.name]
        body = await dump(self._view, Formatter(self._offset()), query, as_json=as_json)
        return answer_dump(body, JSON if as_json else content_type)


def _require_http(scope: Scope) -> None:
    if scope["type"] != "http":
        raise AdminError(400, "no-http", "The admin answers plain HTTP requests only.")


def _authorize_change(request: AdminRequest, what: str) -> None:
    if is_cross_site(request.scope):
        log_refusal(request.actor, what, "cross-site")
        raise AdminError(403, "cross-site", "A page of another site has sent this request.")
    if not request.actor.may_change:
        log_refusal(request.actor, what, "not authorized")
        rule = "Authorized to view, but not to change anything: spec.admin.operators of the Server document lists"
        raise AdminError(403, "forbidden", f"{rule} the groups that may do so.")


def _not_allowed(methods: Collection[str]) -> AdminError:
    allowed = sorted({*methods, "HEAD"} if "GET" in methods else methods)
    detail = f"The methods of this page are {', '.join(allowed)}."
    allow = [(b"allow", ", ".join(allowed).encode())]
    return AdminError(405, "method", detail, headers=allow)


def _prefers_json(accept: str) -> bool:
    """Return whether a request names JSON as acceptable, and prefers no text to it."""
    json_quality = text_quality = 0.0
    for name, quality, _ in parse_accept(accept):
        if name == JSON:
            json_quality = quality
        elif name in {"text/plain", "text/html", "text/*", "application/yaml"}:
            text_quality = max(text_quality, quality)
    return json_quality > 0 and json_quality >= text_quality
