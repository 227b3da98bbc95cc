"""Recordings of a middleware at work, on asyncio and trio: their clients are slow, stop them, hang up, or may not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import litestar
import pytest
from fastapi import APIRouter, FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message

from apf_middleware.asgi.admin import recordings
from apf_middleware.asgi.recording import recorder
from apf_middleware.config import Configuration
from apf_middleware.config.admin import AdminSettings
from tests.support.asgi_exchange import Exchange, http_scope
from tests.support.protected_app import ProtectedApp, configuration, settle, with_admin
from tests.support.until import until

pytestmark = pytest.mark.anyio

PAGE = "/debug/api_priority_and_fairness/recordings"
Opened = Callable[[anyio.abc.TaskGroup], ProtectedApp]


@pytest.fixture
def config(tmp_path: Path) -> Configuration:
    file = tmp_path / "tokens.csv"
    file.write_text('secret-o,olga,1,"operators"\nsecret-l,louis,2,"lookers"\nsecret-u,ulla,3,"users"\n')
    tokens = f"authentication: [{{type: tokens, file: {json.dumps(str(file))}}}]"
    return configuration(seats=1, length=1, queues=2, server=f", {tokens}")


@pytest.fixture
def opened(config: Configuration) -> Opened:
    def open_app(tasks: anyio.abc.TaskGroup) -> ProtectedApp:
        protected = ProtectedApp(tasks, config)
        protected.middleware = with_admin(
            protected._app, config, AdminSettings(groups=("lookers",), operators=("operators",))
        )
        return protected

    return open_app


def ask(app: ProtectedApp, method: str, page: str = "", order: object = None, token: str = "secret-o") -> Exchange:  # noqa: S107
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    body = b"" if order is None else json.dumps(order).encode()
    return Exchange(app.middleware, http_scope(f"{PAGE}{page}", method, headers), app.tasks).body(body).start()


async def begin(app: ProtectedApp, may_read: anyio.Event | None = None, **order: object) -> Exchange:
    """Start a recording; return it when its header has come. After that, the client reads when it may."""
    headers = {"Content-Type": "application/json", "Authorization": "Bearer secret-o"}
    found = Exchange(app.middleware, http_scope(PAGE, "POST", headers), app.tasks)
    original = found.send

    async def send(message: Message) -> None:
        await original(message)
        if may_read is not None and found.content:
            await may_read.wait()

    found.send = send  # type: ignore[method-assign]
    found.body(json.dumps({"seconds": 600, "names": "plain", **order}).encode()).start()
    await until(lambda: bool(found.content))
    return found


def lines(recording: Exchange) -> list[dict[str, Any]]:
    return [json.loads(line) for line in recording.content.splitlines() if line]


async def stop(app: ProtectedApp, recording: Exchange) -> list[dict[str, Any]]:
    """Stop a recording, and return its lines."""
    answer = await ask(app, "DELETE", f"/{lines(recording)[0]['id']}").end()
    assert answer.status == 200
    await recording.end()
    return lines(recording)


async def test_what_becomes_of_requests_is_recorded(opened: Opened) -> None:
    async with anyio.create_task_group() as tasks:
        app = opened(tasks)
        recording = await begin(app)
        assert recording.status == 200
        assert recording.headers["content-type"] == "application/x-ndjson"
        holder = await app.holder()
        waiting = [app.request(f"/{number}", user="alice") for number in range(3)]
        await settle()
        app.finish()
        for one in (holder, *waiting):
            await one.end()
        header, *rows, footer = await stop(app, recording)

    assert (header["workers"], header["names"], header["configuration"] != "") == (1, "plain", True)
    assert [row["outcome"] for row in rows] == ["rejected", "served", "served", "served"], "in the order of their ends"
    assert {row["path"] for row in rows} == {"/hold", "/0", "/1", "/2"}
    assert rows[0]["reason"] == "queue-full"
    assert [row["wait"] > 0 for row in rows[1:]] == [False, True, True]
    assert {row["headers"]["x-user"] for row in rows} == {"holder", "alice"}
    assert (footer["rows"], footer["lost"], footer["reason"]) == (4, 0, "stopped")


async def test_nothing_is_observed_when_no_recording_is_under_way(opened: Opened) -> None:
    async with anyio.create_task_group() as tasks:
        app = opened(tasks)
        await app.request("/").end()
        states = [app.middleware.service.is_observed]
        recording = await begin(app)
        states.append(app.middleware.service.is_observed)
        await stop(app, recording)
        states.append(app.middleware.service.is_observed)

    assert states == [False, True, False]


@pytest.mark.parametrize(("token", "status"), [("", 401), ("nonsense", 401), ("secret-u", 403), ("secret-l", 403)])
async def test_only_operators_may_record(opened: Opened, token: str, status: int) -> None:
    async with anyio.create_task_group() as tasks:
        app = opened(tasks)

        assert (await ask(app, "POST", order={"seconds": 1}, token=token).end()).status == status
        assert (await ask(app, "DELETE", "/1", token=token).end()).status == status
        assert not app.middleware.service.is_observed


async def test_a_client_that_does_not_read_delays_no_request(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MOST_ROWS_WAITING", 5)
    may_read = anyio.Event()
    async with anyio.create_task_group() as tasks:
        app = opened(tasks)
        recording = await begin(app, may_read)
        for number in range(20):
            assert (await app.request(f"/{number}").end()).status == 200
        listed = json.loads((await ask(app, "GET", token="secret-l").end()).content)["recordings"]  # noqa: S106
        may_read.set()
        _, *rows, footer = await stop(app, recording)

    assert listed[0]["lost"] == footer["lost"] >= 14
    assert len(rows) == footer["rows"] == 20 - footer["lost"]


async def test_a_client_that_never_reads_does_not_keep_its_recording(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "PATIENCE_S", 0.01)
    async with anyio.create_task_group() as tasks:
        app = opened(tasks)
        recording = await begin(app, anyio.Event())
        await recording.end()

        assert recording.error is None
        assert not app.middleware.service.is_observed


async def test_two_recordings_at_once_have_the_same_requests_under_their_own_hashes(opened: Opened) -> None:
    async with anyio.create_task_group() as tasks:
        app = opened(tasks)
        first, second = await begin(app, names="hashed"), await begin(app, names="hashed")
        third = await begin(app, names="hashed", key="00" * 32)
        fourth = await begin(app, names="hashed", key="00" * 32)
        for user in ("alice", "bob", "alice"):
            await app.request("/", user=user).end()
        found = [[row["flow"] for row in (await stop(app, one))[1:-1]] for one in (first, second, third, fourth)]

    assert [flows[0] == flows[2] != flows[1] for flows in found] == [True] * 4
    assert found[0] != found[1] != found[2]
    assert found[2] == found[3], "they have the same key"


async def test_a_recording_ends_with_its_footer_when_the_server_shuts_down(opened: Opened) -> None:
    async with anyio.create_task_group() as tasks:
        app = opened(tasks)
        recording = await begin(app)
        await app.request("/").end()
        app.middleware.service.controller.close()
        await recording.end()

    assert lines(recording)[-1]["reason"] == "shutdown"
    assert len(lines(recording)) == 3


async def test_a_client_that_disconnects_ends_its_recording(opened: Opened) -> None:
    async with anyio.create_task_group() as tasks:
        app = opened(tasks)
        recording = await begin(app)
        recording.disconnect()
        await recording.end()

        assert not app.middleware.service.is_observed
        assert recording.error is None
        assert (await app.request("/").end()).status == 200


async def test_requests_that_hold_seats_when_a_recording_is_over_go_on(opened: Opened) -> None:
    async with anyio.create_task_group() as tasks:
        app = opened(tasks)
        holder = await app.holder()
        waiting = app.request("/waiting")
        await settle()
        recording = await begin(app)
        _, *rows, footer = await stop(app, recording)
        assert sorted((row["outcome"], row["standing"]) for row in rows) == [("running", True), ("waiting", True)]
        assert footer["rows"] == 2
        app.finish()
        assert (await holder.end()).status == (await waiting.end()).status == 200
        assert app.is_idle()


HOSTILE = ["/\n/x", "/\0", "/" + "x" * 100_000, "/\udcff", "/é/{name}/~0123456789abcdef", '/"}\n{"recording": "end"}']


@pytest.mark.parametrize("names", ["plain", "hashed"])
async def test_any_path_and_any_header_is_one_line(opened: Opened, names: str) -> None:
    async with anyio.create_task_group() as tasks:
        app = opened(tasks)
        recording = await begin(app, names=names)
        for path in HOSTILE:
            request = app.open("/", user="alice")
            request.scope["path"] = path
            request.scope["headers"] = [(b"x-user", bytes(range(256))), (b"\xff\n", b"\r\n")]
            await request.body().start().end()
        _, *rows, footer = await stop(app, recording)

    assert len(rows) == footer["rows"] == len(HOSTILE)
    if names == "plain":
        assert [row["path"] for row in rows] == [path[:2048] for path in HOSTILE]
        assert rows[0]["headers"]["x-user"] == bytes(range(256)).decode("latin-1")


def fastapi_app() -> ASGIApp:
    app, router = FastAPI(openapi_url=None), APIRouter(prefix="/orders")

    @router.get("/{number}")
    async def order(number: int) -> int:
        return number

    app.include_router(router)
    return app


def litestar_app() -> Any:  # noqa: ANN401 - its types of messages are others than Starlette's
    @litestar.get("/orders/{number:int}")
    async def order() -> int:
        return 1

    return litestar.Litestar([order], openapi_config=None)


def starlette_app() -> ASGIApp:
    async def order(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("1")

    return Starlette(routes=[Mount("/orders", routes=[Route("/{number:int}", order)])])


@pytest.mark.parametrize(
    ("app", "route"),
    [
        (fastapi_app, "/orders/{number}"),
        (litestar_app, "/orders/{number}"),
        (starlette_app, "/orders/{number:int}"),
    ],
)
async def test_frameworks_tell_the_routes_of_requests(
    opened: Opened, config: Configuration, app: Callable[[], Any], route: str
) -> None:
    async with anyio.create_task_group() as tasks:
        protected = opened(tasks)
        protected.middleware = with_admin(app(), config, AdminSettings(operators=("operators",)))
        recording = await begin(protected, names="hashed")
        assert (await protected.request("/orders/7").end()).status == 200
        assert (await protected.request("/others/7").end()).status == 404
        _, known, unknown, _ = await stop(protected, recording)

    assert known["route"] == route
    assert known["path"].startswith("/orders/~")
    assert "route" not in unknown
    assert "others" not in unknown["path"]
