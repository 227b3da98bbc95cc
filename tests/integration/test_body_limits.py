"""Starlette's ``max_body_size`` outside of the middleware: a route may allow longer bodies than the whole app."""

import anyio
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from apf_middleware.asgi import APFMiddleware
from apf_middleware.config import Configuration
from tests.support.asgi_exchange import Exchange, http_scope
from tests.support.protected_app import WEB_DEFAULTS, configuration, settle

pytest.importorskip("starlette.middleware.body_limit")
pytestmark = pytest.mark.anyio

LENGTH, CHUNKED = {"Content-Length": "2000"}, {"Transfer-Encoding": "chunked"}


class LimitedApp:
    """An app that accepts 1,000 bytes, and more at the path ``/large``."""

    def __init__(self, config: Configuration) -> None:
        self.may_finish = anyio.Event()
        routes = [
            Route("/small", self._read, methods=["POST"]),
            Route("/large", self._read, methods=["POST"], max_body_size=10_000),
            Route("/hold", self._hold),
        ]
        self.asgi = Starlette(routes=routes, middleware=[Middleware(APFMiddleware, config=config)], max_body_size=1000)

    async def _read(self, request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))

    async def _hold(self, request: Request) -> Response:
        await self.may_finish.wait()
        return PlainTextResponse(request.method)


@pytest.mark.parametrize("headers", [LENGTH, CHUNKED])
@pytest.mark.parametrize("config", [WEB_DEFAULTS, configuration()])
@pytest.mark.parametrize(("path", "status", "content"), [("/large", 200, b"2000"), ("/small", 413, b"")])
async def test_the_limit_of_the_route_decides(
    path: str, status: int, content: bytes, config: Configuration, headers: dict[str, str]
) -> None:
    async with anyio.create_task_group() as tasks:
        upload = Exchange(LimitedApp(config).asgi, http_scope(path, "POST", headers), tasks)
        upload.body(bytes(1500), more=True).body(bytes(500))
        await upload.start().end()

        assert upload.status == status
        assert upload.content == content or status == 413


@pytest.mark.parametrize(("headers", "calls"), [(LENGTH, 0), (CHUNKED, 0), ({"Content-Length": "1000"}, 1)])
async def test_a_body_that_a_route_may_allow_is_not_received_while_its_request_waits(
    headers: dict[str, str], calls: int
) -> None:
    async with anyio.create_task_group() as tasks:
        app = LimitedApp(configuration())
        holder = Exchange(app.asgi, http_scope("/hold"), tasks).start()
        await settle()
        upload = Exchange(app.asgi, http_scope("/large", "POST", headers), tasks).start()
        other = Exchange(app.asgi, http_scope("/hold"), tasks).start()
        await settle()
        other.disconnect()
        await other.end()  # it was watched, so the earlier one would be watched, too
        assert upload.receive_calls == calls

        app.may_finish.set()
        upload.body(bytes(2000 if calls == 0 else 1000))
        await upload.end()
        assert upload.status == 200
        await holder.end()


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_clients_of_http_2_that_send_no_body_are_watched(method: str) -> None:
    """Nothing in their headers says that none will come."""
    async with anyio.create_task_group() as tasks:
        app = LimitedApp(configuration())
        holder = Exchange(app.asgi, http_scope("/hold"), tasks).start()
        await settle()
        left = Exchange(app.asgi, http_scope("/hold", method, http_version="2"), tasks).start()
        left.disconnect()
        await left.end()
        assert left.status == 499

        app.may_finish.set()
        await holder.end()
