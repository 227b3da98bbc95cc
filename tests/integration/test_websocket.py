"""WebSockets: admitted at the handshake, denied in the way that the server knows, without seats once accepted."""

import json
from contextlib import suppress

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from tests.support.asgi_exchange import Exchange, websocket_scope
from tests.support.protected_app import ProtectedApp, configuration, settle
from tests.support.until import until

pytestmark = pytest.mark.anyio

CONNECT = {"type": "websocket.connect"}
DENIAL: dict[str, dict[str, str]] = {"websocket.http.response": {}}


async def socket_app(_scope: Scope, receive: Receive, send: Send) -> None:
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept", "headers": [(b"a", b"b")]})
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def test_an_accepted_websocket_holds_no_seat_and_has_an_admission() -> None:
    async with anyio.create_task_group() as tasks:
        app = APFMiddleware(socket_app, configuration())
        sockets = [Exchange(app, websocket_scope(f"/{number}"), tasks) for number in range(3)]
        for one in sockets:
            one.deliver(CONNECT)
            one.start()
        await settle()

        for one in sockets:
            [accept] = one.sent
            more = [(b"x-apf-flow-schema", b"everybody"), (b"x-apf-priority-level", b"crowd")]
            assert accept == {"type": "websocket.accept", "headers": [(b"a", b"b"), *more]}
            assert one.scope["apf"].seats == 0
            one.deliver({"type": "websocket.disconnect", "code": 1000})
            await one.end()
            assert one.error is None


ADMIN = "/debug/api_priority_and_fairness"
GUARD = ", authentication: [{type: proxy, networks: [127.0.0.1]}], admin: {operators: [operators]}"


@pytest.mark.parametrize("extensions", [DENIAL, {}])
@pytest.mark.parametrize("path", [ADMIN, f"{ADMIN}/", f"{ADMIN}/dump_requests", f"{ADMIN}/reload"])
@pytest.mark.parametrize(("group", "status"), [(None, 401), ("users", 403), ("operators", 400)])
async def test_no_websocket_below_the_admins_path_reaches_the_app(
    path: str, extensions: object, group: str | None, status: int
) -> None:
    headers = [(b"x-remote-user", b"ulla"), (b"x-remote-group", group.encode())] if group else []
    async with anyio.create_task_group() as tasks:
        app = APFMiddleware(socket_app, configuration(server=GUARD))
        scope = websocket_scope(path, extensions=extensions, headers=headers, client=("127.0.0.1", 1))
        socket = Exchange(app, scope, tasks)
        socket.deliver(CONNECT)
        await socket.start().end()

    assert socket.error is None
    if extensions:
        assert (socket.sent[0]["type"], socket.sent[0]["status"]) == ("websocket.http.response.start", status)
    else:
        assert [(one["type"], one["code"]) for one in socket.sent] == [("websocket.close", 1008)]


async def test_other_scopes_below_the_admin_path_do_not_reach_the_app() -> None:
    reached = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        reached.append(scope["path"])

    async def receive() -> Message:
        raise AssertionError

    async def send(_message: Message) -> None:
        raise AssertionError

    middleware = APFMiddleware(app, configuration(server=GUARD))
    for path in (f"{ADMIN}/flows", "/elsewhere"):
        with suppress(NotImplementedError):
            await middleware({"type": "webtransport", "path": path, "headers": []}, receive, send)
    assert reached == ["/elsewhere"]


@pytest.mark.parametrize("extensions", [DENIAL, {}, None])
async def test_a_rejected_websocket_gets_a_response(extensions: object) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(wait="20ms"))
        holder = await protected.holder()
        socket = Exchange(protected.middleware, websocket_scope("/socket", extensions=extensions), tasks)
        socket.deliver(CONNECT)
        await socket.start().end()
        protected.finish()
        await holder.end()

        if extensions:
            start, body = socket.sent
            assert (start["type"], start["status"]) == ("websocket.http.response.start", 429)
            assert body["type"] == "websocket.http.response.body"
            assert json.loads(body["body"])["reason"] == "time-out"
        else:
            assert [(one["type"], one["code"]) for one in socket.sent] == [("websocket.close", 1013)]
        assert protected.is_idle()


async def test_a_websocket_whose_client_leaves_while_queued_never_runs() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        socket = Exchange(protected.middleware, websocket_scope("/socket"), tasks)
        socket.deliver(CONNECT)
        socket.start()
        await until(lambda: protected.waiting == 1)
        socket.deliver({"type": "websocket.disconnect", "code": 1001})
        await socket.end()
        protected.finish()
        await holder.end()

        assert [one["type"] for one in socket.sent] == ["websocket.close"], "servers expect the end of the handshake"
        assert "/socket" not in protected.started


async def test_a_queued_websocket_receives_its_connect_message_later() -> None:
    async with anyio.create_task_group() as tasks:
        holding = anyio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                await holding.wait()
            else:
                await socket_app(scope, receive, send)

        protected = ProtectedApp(tasks)
        protected.middleware.app = app
        holder = protected.request("/hold")
        await settle()
        socket = Exchange(protected.middleware, websocket_scope("/socket"), tasks)
        socket.deliver(CONNECT)
        socket.start()
        await anyio.sleep(0.02)
        holding.set()
        await holder.end()
        await settle()
        assert [one["type"] for one in socket.sent] == ["websocket.accept"]
        socket.deliver({"type": "websocket.disconnect", "code": 1000})
        await socket.end()
        assert socket.error is None


@pytest.mark.parametrize(("status", "failed"), [(403, 0), (503, 1)])
async def test_a_websocket_denied_with_an_error_counts_as_failed(status: int, failed: int) -> None:
    """As any other request."""

    async def denies(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "websocket.http.response.start", "status": status, "headers": []})
        await send({"type": "websocket.http.response.body", "body": b""})

    async with anyio.create_task_group() as tasks:
        app = APFMiddleware(denies, configuration())
        socket = Exchange(app, websocket_scope("/socket", extensions=DENIAL), tasks)
        socket.deliver(CONNECT)
        await socket.start().end()

    found = app.service.queues.status("crowd")
    assert (found.failed, found.completed) == (failed, 1 - failed)
