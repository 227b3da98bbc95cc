"""In front of what people use, and among what they put around it."""

import contextlib
import importlib
import sys
import types
from collections.abc import AsyncIterator
from typing import Final

import anyio
import django
import httpx
import litestar
import pytest
import quart
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path
from fastapi import BackgroundTasks, Depends, FastAPI
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, BaseUser, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from apf_middleware import Admission, APFMiddleware, get_admission
from apf_middleware.config import load_text
from tests.support.protected_app import WEB_DEFAULTS, configuration

pytestmark = pytest.mark.anyio

REPORTS: Final = """
apiVersion: apf/v1
kind: Server
spec: {responses: {headers: all}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: reports}
spec: {maxSeats: 2}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: reports}
spec:
  level: reports
  rules: [{httpRules: [{paths: [/report]}]}]
"""


async def ask(app: ASGIApp, where: str = "/hello", **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        return await client.get(where, headers={name.replace("_", "-"): value for name, value in headers.items()})


def belongs(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.headers["x-apf-priority-level"]


asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def test_fastapi() -> None:
    app = FastAPI()
    app.add_middleware(APFMiddleware, config=configuration())
    done: list[str] = []

    @app.get("/hello")
    async def hello(tasks: BackgroundTasks, admission: Admission = Depends(get_admission)) -> dict[str, object]:  # noqa: B008, FAST002
        tasks.add_task(done.append, "background")
        return {"level": admission.level, "flow": admission.flow, "seats": admission.seats}

    response = await ask(app, x_user="bob")

    assert belongs(response) == (200, "crowd")
    assert response.json() == {"level": "crowd", "flow": "bob", "seats": 1}
    assert done == ["background"]
    assert belongs(await ask(app, "/nowhere")) == (404, "crowd")


async def test_a_line_feed_behind_the_path_evades_no_rule() -> None:
    """Starlette takes ``/report%0A`` for ``/report``."""
    app = APFMiddleware(Starlette(routes=[Route("/report", hello)]), load_text(REPORTS))

    assert belongs(await ask(app, "/report")) == (200, "reports")
    assert belongs(await ask(app, "/report%0A")) == (200, "reports")


@asyncio_only
async def test_litestar() -> None:
    @litestar.get("/hello")
    async def hello(request: litestar.Request[object, object, litestar.datastructures.State]) -> dict[str, str]:
        return {"level": request.scope["apf"].level}  # type: ignore[typeddict-item]

    response = await ask(APFMiddleware(litestar.Litestar([hello]), configuration()))

    assert belongs(response) == (200, "crowd")
    assert response.json() == {"level": "crowd"}


@asyncio_only
async def test_quart() -> None:
    app = quart.Quart("shop")

    @app.get("/hello")
    async def hello() -> str:
        return str(quart.request.scope["apf"].level)  # type: ignore[typeddict-item]

    response = await ask(APFMiddleware(app, configuration()))

    assert belongs(response) == (200, "crowd")
    assert response.text == "crowd"


@asyncio_only
async def test_django() -> None:
    async def hello(request: HttpRequest) -> HttpResponse:
        return HttpResponse(request.scope["apf"].level)

    urls = types.ModuleType("shop_urls")
    urls.urlpatterns = [path("hello", hello)]  # type: ignore[attr-defined]
    sys.modules["shop_urls"] = urls
    if not settings.configured:
        settings.configure(ROOT_URLCONF="shop_urls", ALLOWED_HOSTS=["*"], SECRET_KEY="x" * 50, MIDDLEWARE=[])
        django.setup()
    response = await ask(APFMiddleware(get_asgi_application(), configuration()))

    assert belongs(response) == (200, "crowd")
    assert response.text == "crowd"


class Slow(BaseHTTPMiddleware):
    """What many have, for all that it costs."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        response = await call_next(request)
        response.headers["x-seen"] = response.headers.get("x-apf-priority-level", "inside")
        return response


class Names(AuthenticationBackend):
    """Believes whatever is said; this is a test."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, BaseUser] | None:
        name = conn.headers.get("x-name")
        return (AuthCredentials(["authenticated"]), SimpleUser(name)) if name else None


async def hello(request: Request) -> Response:
    admission = await get_admission(request)
    return JSONResponse({"name": admission.identity.name, "flow": admission.flow, "level": admission.level})


async def parts(_request: Request) -> Response:
    async def three() -> AsyncIterator[str]:
        for _ in range(3):
            yield "part" * 500
            await anyio.sleep(0.001)

    return StreamingResponse(three())


APF = Middleware(APFMiddleware, config=WEB_DEFAULTS)
OTHERS = [Middleware(GZipMiddleware), Middleware(Slow), Middleware(CORSMiddleware, allow_origins=["*"])]


@pytest.mark.parametrize("place", range(4))
async def test_other_middleware_may_be_outside_or_inside(place: int) -> None:
    around = [Middleware(AuthenticationMiddleware, backend=Names()), *OTHERS[:place], APF, *OTHERS[place:]]
    app = Starlette(routes=[Route("/hello", hello), Route("/parts", parts)], middleware=around)

    known = await ask(app, x_name="carol", origin="https://else.where", accept_encoding="gzip")
    stranger = await ask(app)
    streamed = await ask(app, "/parts", accept_encoding="gzip")

    assert known.json() == {"name": "carol", "flow": "carol", "level": "users"}
    assert belongs(known) == (200, "users")
    assert known.headers["access-control-allow-origin"] == "*"
    assert known.headers["x-seen"] == ("users" if place > 1 else "inside") or place <= 1
    assert stranger.json()["level"] == "anonymous"
    assert streamed.text == "part" * 1500
    assert streamed.headers["content-encoding"] == "gzip"


async def test_the_seat_is_released_when_inner_middleware_responds() -> None:
    class Refusing(BaseHTTPMiddleware):
        async def dispatch(self, _request: Request, _next: RequestResponseEndpoint) -> Response:
            return PlainTextResponse("no", 418)

    app = Starlette(
        routes=[Route("/hello", hello)],
        middleware=[Middleware(APFMiddleware, config=configuration()), Middleware(Refusing)],
    )
    for _ in range(5):
        assert belongs(await ask(app)) == (418, "crowd")


async def test_state_of_the_lifespan_reaches_the_requests() -> None:
    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[dict[str, str]]:
        yield {"made": "once"}

    async def state(request: Request) -> Response:
        return PlainTextResponse(request.state.made)

    app = Starlette(routes=[Route("/hello", state)], lifespan=lifespan, middleware=[APF])
    testclient = importlib.import_module("starlette.testclient")

    def visit() -> str:
        with testclient.TestClient(app) as client:
            return str(client.get("/hello").text)

    assert await anyio.to_thread.run_sync(visit) == "once"
