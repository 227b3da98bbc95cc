"""With an invalid configuration a server doesn't start, or, if it can't report the failure, answers 503."""

import logging
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from apf_middleware import APFMiddleware, Gates
from apf_middleware.config import Configuration, ConfigurationError, load_text
from apf_middleware.exceptions import InvalidValueError, UnknownArgumentError
from tests.support.asgi_exchange import http_scope
from tests.support.protected_app import configuration

pytestmark = pytest.mark.anyio

BROKEN = """
apiVersion: apf/v1
kind: Server
spec: {seats: -3, colour: hush-hush}
"""


def gated() -> Configuration:
    return load_text(
        """
apiVersion: apf/v1
kind: Server
metadata: {name: server}
spec: {seats: 4, defaults: none, gates: [{name: quota, capacity: 5}]}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 1000}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: orders}
spec: {level: crowd, precedence: 100, gates: [quota, db], rules: [{httpRules: [{paths: [/orders]}]}]}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: others}
spec: {level: crowd, rules: [{httpRules: [{}]}]}
"""
    )


class RecordingServer:
    """The server's side of an exchange: the messages for the app, and those that the app has sent."""

    def __init__(self, *messages: str) -> None:
        self.inbox: list[Message] = [{"type": one} for one in messages]
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        return self.inbox.pop(0)

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def kinds(self) -> list[str]:
        return [message["type"] for message in self.sent]


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": f"{(await receive())['type']}.complete"})
    else:
        await PlainTextResponse("hello")(scope, receive, send)


class FaultyList(list[object]):
    """A list of the app that can't be read."""

    def __iter__(self) -> Iterator[object]:
        raise LookupError("no authenticators")


def broken(tmp_path: Path) -> APFMiddleware:
    (tmp_path / "apf.yaml").write_text(BROKEN)
    return APFMiddleware(hello, tmp_path / "apf.yaml")


async def test_the_startup_fails_with_all_problems_of_the_configuration(tmp_path: Path) -> None:
    server = RecordingServer("lifespan.startup")
    with pytest.raises(ConfigurationError):
        await broken(tmp_path)({"type": "lifespan"}, server.receive, server.send)

    [failed] = server.sent
    assert failed["type"] == "lifespan.startup.failed"
    assert "spec.seats is -3" in failed["message"]
    assert "spec.colour is 'hush-hush'" in failed["message"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"config": "/nonexistent/apf.yaml"}, ConfigurationError, "/nonexistent/apf.yaml: error: it must be readable"),
        ({"confg": "apf.yaml"}, UnknownArgumentError, "'confg'. Its arguments are app, config, authenticators"),
        (
            {"config": []},
            InvalidValueError,
            "config is [], but there must be a path. Leave it out for the web defaults",
        ),
        ({"config": 5}, InvalidValueError, "config is 5, but it must be a Configuration, or the paths"),
        ({"config": BROKEN[1:]}, InvalidValueError, "config is 'apiVersion: apf/v1…', but it must be a path, not the"),
        ({"authenticators": FaultyList()}, LookupError, "no authenticators"),  # an error that isn't the package's
        ({"authenticators": 5}, InvalidValueError, "authenticators is 5, but it must be a list of authenticators"),
        ({"authenticators": [print]}, InvalidValueError, "Wrap a function: apf_middleware.asgi.identity.Function"),
        ({"gates": [1]}, InvalidValueError, "gates is [1], but it must be a Gates object. Make gates = apf_mid"),
        ({"registry": True}, InvalidValueError, "registry is True, but it must be a CollectorRegistry"),
        ({"inventory": {"pods": 3}}, InvalidValueError, "inventory is {'pods': 3}, but it must be a function"),
        ({"watch": "no"}, InvalidValueError, "watch is 'no', but it must be True or False"),
        ({"allow_empty": 1}, InvalidValueError, "allow_empty is 1, but it must be True or False"),
    ],
)
@pytest.mark.parametrize("way", ["added", "wrapped"])
def test_any_invalid_setting_fails_the_startup(
    arguments: dict[str, Any], error: type[Exception], message: str, way: str
) -> None:
    app: Any = Starlette()
    if way == "added":
        app.add_middleware(APFMiddleware, **arguments)
    else:
        app = APFMiddleware(app, **arguments)
    with pytest.raises(error) as caught, TestClient(app):
        raise AssertionError
    assert message in str(caught.value)


async def test_without_lifespan_requests_are_answered_503_and_the_log_says_why_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    middleware = broken(tmp_path)
    for _ in range(3):
        client = RecordingServer("http.request")
        await middleware(http_scope("/"), client.receive, client.send)
        start, body = client.sent
        assert (start["status"], dict(start["headers"])[b"content-type"]) == (503, b"text/plain; charset=utf-8")
        assert b"Its log says why" in body["body"]
        assert b"hush" not in body["body"]
    visitor = RecordingServer("websocket.connect")
    await middleware({**http_scope("/"), "type": "websocket"}, visitor.receive, visitor.send)
    assert visitor.kinds == ["websocket.close"]

    [record] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage().startswith("apf.not-set-up status=503 error=")
    assert "hush-hush" in record.getMessage()


@pytest.mark.parametrize("arguments", [["apf.yaml"], ["apf.yaml", Starlette()]])
def test_a_forgotten_app_fails_the_startup(arguments: list[Any]) -> None:
    app: Any = APFMiddleware(*arguments)
    with pytest.raises(InvalidValueError, match=r"app is 'apf.yaml', but it must be an ASGI app"), TestClient(app):
        raise AssertionError


def test_a_middleware_without_an_app_is_an_error_of_its_caller() -> None:
    incomplete: Any = APFMiddleware
    with pytest.raises(UnknownArgumentError, match=r"'app'\. Its arguments are app, config, authenticators"):
        incomplete(config="apf.yaml")


def test_an_instance_that_is_added_instead_of_the_class_fails_as_documented() -> None:
    """Starlette calls the instance with an app; a check of this would take time in each request."""
    app, instance = Starlette(), cast("Any", APFMiddleware(Starlette()))
    app.add_middleware(instance)
    with pytest.raises(TypeError, match=r"__call__\(\) missing"):
        TestClient(app).get("/")


def test_the_service_raises_the_error_of_a_failed_startup(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"spec\.seats is -3"):
        _ = broken(tmp_path).service


async def test_other_scopes_reach_the_app_after_a_failed_startup(tmp_path: Path) -> None:
    seen: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["type"])

    await APFMiddleware(app, tmp_path / "missing.yaml")({"type": "something-new"}, hello, hello)  # type: ignore[arg-type]
    assert seen == ["something-new"]


# The app's own startup


@pytest.mark.parametrize("way", ["raises", "fails", "returns"])
async def test_signal_handlers_are_restored_when_a_startup_fails(way: str, tmp_path: Path) -> None:
    (tmp_path / "apf.yaml").write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 3}\n")
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    during: list[object] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        during.extend(map(signal.getsignal, numbers))
        if way == "raises":
            raise LookupError("no database")
        if way == "fails":
            await send({"type": "lifespan.startup.failed", "message": "no database"})
            after.extend(map(signal.getsignal, numbers))  # a server may end the process here

    after: list[object] = []
    before = list(map(signal.getsignal, numbers))
    server = RecordingServer("lifespan.startup")
    middleware = APFMiddleware(app, tmp_path / "apf.yaml")
    try:
        await middleware({"type": "lifespan"}, server.receive, server.send)
    except LookupError:
        assert way == "raises"

    assert all(one is not other for one, other in zip(during, before, strict=True))
    assert list(map(signal.getsignal, numbers)) == before
    assert after == (before if way == "fails" else [])


def orders(gates: Gates, *, forgets: bool = False) -> tuple[Starlette, list[str]]:
    """Return an app that creates its gate at startup, as an app with a connection pool does."""
    happened = []

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        happened.append("opened")
        if not forgets:
            gates.capacity("db", 2)
        try:
            yield
        finally:
            happened.append("closed")

    async def answer(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.url.path)

    app = Starlette(routes=[Route("/{path}", answer)], lifespan=lifespan)
    app.add_middleware(APFMiddleware, config=gated(), gates=gates)
    return app, happened


def test_a_gate_defined_at_startup_is_used() -> None:
    gates = Gates()
    app, happened = orders(gates)
    for _ in range(2):  # the second start creates the gate anew
        with TestClient(app) as client:
            assert client.get("/orders").text == "/orders"
            assert gates.names == {"quota", "db"}
        assert gates.names == {"quota"}
    assert happened == ["opened", "closed"] * 2


def test_a_gate_that_is_missing_after_the_startup_fails_it_and_the_app_cleans_up() -> None:
    app, happened = orders(Gates(), forgets=True)
    rule = "gate of the schema 'orders' is 'db', but there is no gate of this name. There are: quota; define it"
    with pytest.raises(InvalidValueError, match=rule), TestClient(app):
        raise AssertionError
    assert happened == ["opened", "closed"]


@pytest.mark.parametrize("has_gates", [False, True])
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "{routes: [{path: /a, resource: a, gates: [db]}]}",
            "spec.routes[0].gates[0] is 'db', but there is no gate of",
        ),
        (
            "{authentication: [{type: tokens, file: /no.csv}]}",
            "spec.authentication[0].file is '/no.csv', but it must be",
        ),
    ],
)
def test_an_error_in_a_file_that_only_a_server_finds_has_its_line(
    tmp_path: Path, *, has_gates: bool, spec: str, message: str
) -> None:
    file = tmp_path / "apf.yaml"
    file.write_text(f"apiVersion: apf/v1\nkind: Server\nmetadata: {{name: server}}\nspec: {spec}\n")
    app = Starlette()
    app.add_middleware(APFMiddleware, config=file, gates=Gates() if has_gates else None)
    found = re.escape(f"{file}:4 (document 1): error: {message}")
    with pytest.raises(ConfigurationError, match=found), TestClient(app):
        raise AssertionError


def test_an_error_of_an_argument_is_none_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "apf.yaml"
    file.write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 10}\n")
    gates = Gates()
    with TestClient(APFMiddleware(Starlette(), file, gates=gates)):
        pass
    with pytest.raises(InvalidValueError, match=r"^gates is .* they belong to another middleware"):
        _ = APFMiddleware(Starlette(), file, gates=gates).service


@pytest.mark.parametrize(
    ("fleet", "field"),
    [
        ("store: 'env:APF_NO_VARIABLE'", "store is 'APF_NO_VARIABLE', but this environment variable"),
        ("store: 'redis://r/0', redis: {passwordFile: nowhere}", "redis.passwordFile is 'nowhere'"),
        ("store: 'redis://r/0', redis: {flowKeyVariable: APF_NO}", "redis.flowKeyVariable is 'APF_NO'"),
        ("store: 'redis://r/0?socket_timeout=soon'", "store is 'redis://r/0'"),
    ],
)
def test_what_a_fleet_lacks_on_this_host_is_reported_with_its_place(tmp_path: Path, fleet: str, field: str) -> None:
    file = tmp_path / "apf.yaml"
    file.write_text(f"apiVersion: apf/v1\nkind: Server\nspec:\n  seats: 4\n  fleet: {{{fleet}}}\n")
    with pytest.raises(ConfigurationError, match=rf"apf.yaml:5 \(document 1\): error: spec.fleet.{field}"):
        _ = APFMiddleware(Starlette(), file).service


async def test_a_missing_gate_is_logged_once() -> None:
    server = RecordingServer("lifespan.startup")
    app, _ = orders(Gates(), forgets=True)
    with pytest.raises(InvalidValueError):
        await app({"type": "lifespan", "app": app}, server.receive, server.send)

    [failed] = server.sent
    assert failed["type"] == "lifespan.startup.failed"
    assert failed["message"].startswith("gate of the schema 'orders' is 'db'")
    assert failed["message"].endswith("add it to Gates before the startup ends")


async def test_without_lifespan_requests_with_a_missing_gate_are_answered_503(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gates = Gates()
    app, _ = orders(gates)

    async def status(path: str) -> int:
        client = RecordingServer("http.request")
        await app(http_scope(path), client.receive, client.send)
        found: int = client.sent[0]["status"]
        return found

    assert [await status("/orders") for _ in range(2)] == [503, 503]
    assert await status("/prices") == 200
    [record] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage() == "apf.gate-missing gate=db status=503"
    gates.capacity("db", 1)
    assert await status("/orders") == 200


def test_a_middleware_that_cannot_be_set_up_leaves_no_metrics_in_the_registry() -> None:
    registry = CollectorRegistry()
    store = load_text("apiVersion: apf/v1\nkind: Server\nspec: {fleet: {store: 'env:APF_NO_VARIABLE'}}\n")
    with pytest.raises(InvalidValueError, match="APF_NO_VARIABLE"):
        _ = APFMiddleware(hello, store, registry=registry).service

    assert generate_latest(registry) == b""


def test_a_gate_that_nothing_names_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    gates = Gates()
    gates.capacity("db", 1)
    gates.capacity("files", 1)
    with TestClient(APFMiddleware(hello, gated(), gates=gates)):
        [record] = [one for one in caplog.records if one.levelno == logging.WARNING]

    assert record.getMessage().startswith("apf.gate-unused gate=files hint=name it in")


def test_headroom_that_a_reload_adds_stays_after_the_shutdown(tmp_path: Path) -> None:
    file = tmp_path / "apf.yaml"
    level = "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: anonymous}\nspec: {shares: 10}\n"
    file.write_text(level)
    app = APFMiddleware(hello, file)
    with TestClient(app) as client:
        file.write_text(level.replace("10", "10, headroom: 50%"))
        assert client.portal is not None
        assert client.portal.call(app.reload)
    with TestClient(app) as client:
        assert client.get("/").status_code == 200


def test_a_working_middleware_is_found_by_its_service() -> None:
    assert APFMiddleware(hello, configuration()).service.configuration.server.seats == 1
