"""Long-running requests to a Kubernetes-shaped API: served outside of priority and fairness, as Kubernetes does."""

import anyio
import pytest
from starlette.types import Receive, Scope, Send

from apf_middleware import APFMiddleware
from apf_middleware.asgi.identity import Refused
from apf_middleware.config import load_text
from tests.support.asgi_exchange import Exchange, http_scope, websocket_scope
from tests.support.protected_app import settle

pytestmark = pytest.mark.anyio

SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {{seats: 1, defaults: {}}}\n"
POD = "/api/v1/namespaces/shop/pods/web-0"
UNSEATED = [
    ("GET", f"{POD}/log"),
    ("POST", f"{POD}/exec"),
    ("GET", f"{POD}/attach"),
    ("POST", f"{POD}/portforward"),
    ("GET", f"{POD}/proxy/index.html"),
    ("GET", "/api/v1/nodes/n/proxy/metrics"),
    ("GET", "/api/v1/proxy/namespaces/shop/pods/web-0/index.html"),
    ("GET", "/debug/pprof/profile"),
]
SEATED = [("GET", POD), ("GET", "/api/v1/namespaces/shop/pods"), ("GET", f"{POD}/status"), ("GET", "/healthy")]


class Server:
    """Handlers that run until they are released; ``admitted`` are the paths of those that have an admission."""

    def __init__(self, defaults: str = "kubernetes", **options: object) -> None:
        self.running: list[str] = []
        self.admitted: list[str] = []
        self.may_end = anyio.Event()
        self.middleware = APFMiddleware(self._app, load_text(SERVER.format(defaults)), **options)  # type: ignore[arg-type]

    async def _app(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.running.append(scope["path"])
        if "apf" in scope:
            self.admitted.append(scope["path"])
        await self.may_end.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})


async def test_long_running_requests_take_no_seats() -> None:
    server = Server()
    async with anyio.create_task_group() as tasks:
        several = [
            Exchange(server.middleware, http_scope(path, method=method), tasks).body().start()
            for method, path in UNSEATED
        ]
        await settle()
        assert sorted(server.running) == sorted(path for _, path in UNSEATED)
        assert server.admitted == []
        server.may_end.set()
    assert [one.status for one in several] == [200] * len(UNSEATED)


@pytest.mark.parametrize(("method", "path"), SEATED)
async def test_other_requests_take_seats(method: str, path: str) -> None:
    server = Server()
    async with anyio.create_task_group() as tasks:
        Exchange(server.middleware, http_scope(path, method=method), tasks).body().start()
        await settle()
        assert server.admitted == [path]
        server.may_end.set()


@pytest.mark.parametrize("settings", ["responses: {serverTiming: true}", "telemetry: {tracing: true}"])
async def test_telemetry_tells_nothing_of_long_running_requests(settings: str) -> None:
    server = Server(f"kubernetes, {settings}")
    server.may_end.set()
    async with anyio.create_task_group() as tasks:
        exec_ = await Exchange(server.middleware, http_scope(f"{POD}/exec", method="POST"), tasks).body().start().end()
    assert (exec_.error, exec_.status) == (None, 200)
    assert "server-timing" not in exec_.headers


async def test_an_exec_by_websocket_takes_no_seat() -> None:
    server = Server()
    async with anyio.create_task_group() as tasks:
        Exchange(server.middleware, websocket_scope(f"{POD}/exec"), tasks).start()
        await settle()
        assert server.running == [f"{POD}/exec"]
        assert server.admitted == []
        tasks.cancel_scope.cancel()


async def test_a_watch_takes_a_seat_until_it_has_begun() -> None:
    server = Server()
    path = "/api/v1/namespaces/shop/pods"
    async with anyio.create_task_group() as tasks:
        Exchange(server.middleware, http_scope(f"{path}?watch=true"), tasks).body().start()
        await settle()
        assert server.admitted == [path]
        server.may_end.set()


async def test_web_paths_are_not_kubernetes_resources() -> None:
    server = Server("web")
    async with anyio.create_task_group() as tasks:
        Exchange(server.middleware, http_scope(f"{POD}/log"), tasks).body().start()
        await settle()
        assert server.admitted == [f"{POD}/log"]
        server.may_end.set()


async def test_bad_credentials_are_refused_with_a_request_cache() -> None:
    class Stern:
        headers = frozenset({b"authorization"})
        memorable = True

        def authenticate(self, _scope: Scope) -> Refused:
            return Refused("Bearer", "bad")

    server = Server(authenticators=[Stern()])
    async with anyio.create_task_group() as tasks:
        exchange = Exchange(server.middleware, http_scope(f"{POD}/log"), tasks).body().start()
        await settle()
        assert server.running == []
        assert exchange.status == 401
        server.may_end.set()
