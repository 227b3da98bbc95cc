"""Random exchanges in virtual time: apps receive what their clients send, whatever waits, ends or is cancelled."""

import asyncio
from contextlib import suppress
from functools import partial
from random import Random

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.service import Service
from apf_middleware.config import load_text
from apf_middleware.fairqueuing import TicketState
from tests.support.asgi_exchange import http_scope
from tests.support.examples import examples
from tests.support.upload_app import CHUNKED, CONFIG
from tests.support.virtual_loop import VirtualLoop

TURNS = 0.0001  # seconds: some turns of the event loop
SIZES = (0, 1, 50, 101, 300)  # bytes; up to 100 are buffered
PAUSES = (0, 0.001, 0.003, 0.01, 0.08, 0.12, 0.25)  # seconds; requests lose their seats after 0.1
LIMITS = (0.001, 0.11, 0.15, 0.3)  # seconds, of a call of ``receive``
GONE: Message = {"type": "http.disconnect"}


class Connection:
    """A client, and a server like uvicorn; what its app has done wrong is in ``faults``."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.sent, self.received = b"", b""
        self.is_whole = self.has_all = self.has_begun = self.is_gone = self.is_complete = self.has_heard = False
        self.faults: list[str] = []
        self.calls = 0
        self._body = bytearray()
        self._event = asyncio.Event()

    async def send_body(self, sizes: list[int]) -> None:
        for number, size in enumerate(sizes, 1):
            await asyncio.sleep(self.random.choice(PAUSES))
            content = bytes([number]) * size
            self.sent += content
            self._body += content
            self.is_whole = number == len(sizes)
            self._event.set()

    def hang_up(self) -> None:
        self.is_gone = not self.is_complete
        self._event.set()

    async def receive(self) -> Message:
        self.calls += 1
        if self.calls > 1:
            self.faults.append("two calls of receive at once")
        try:
            if not (self.is_gone or self.is_complete):
                await self._event.wait()
                self._event.clear()
        finally:
            self.calls -= 1
        if self.is_gone or self.is_complete:
            return GONE
        content = bytes(self._body)
        self._body.clear()
        return {"type": "http.request", "body": content, "more_body": not self.is_whole}

    async def send(self, message: Message) -> None:
        self.has_begun = True
        if message["type"] == "http.response.body" and not (message.get("more_body") or self.is_gone):
            if self.is_complete:
                self.faults.append("a second end of the response")
            self.is_complete = True
            self._event.set()

    def note(self, scope: Scope, message: Message) -> None:
        """Judge what the app has received."""
        if message == GONE:
            self.has_heard = True
            if not (self.is_gone or self.is_complete or scope["apf"].reason):
                self.faults.append("a disconnect too early")
            return
        if not (scope["apf"].is_seated or self.has_begun or self.is_gone):
            self.faults.append("a message without seats")
        if self.has_heard or self.has_all:
            self.faults.append("a message after the last one")
        self.received += message["body"]
        self.has_all = not message["more_body"]
        if not self.sent.startswith(self.received) or (self.has_all and self.received != self.sent):
            self.faults.append("another content")


class PlainServer:
    """Has ``receive`` in a module of uvicorn, so that it is called without a task."""

    __module__ = "uvicorn.of_a_test"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def receive(self) -> Message:
        return await self._connection.receive()


class OpenServer(PlainServer):
    """Shows by ``disconnected`` whether its client has hung up, as uvicorn does."""

    __module__ = "uvicorn.protocols.http.of_a_test"

    @property
    def disconnected(self) -> bool:
        return self._connection.is_gone


async def run_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Receive in the ways of frameworks, respond, and receive once more."""
    connection: Connection = scope["connection"]
    random = connection.random
    for _ in range(random.randrange(8)):
        way = random.choice(["sleep", "look", "limit", "limit", "cancel", "drain"])
        if way == "sleep":
            await asyncio.sleep(random.choice(PAUSES))
        elif way in {"look", "limit"}:
            with anyio.CancelScope() as call:
                call.deadline = -1 if way == "look" else anyio.current_time() + random.choice(LIMITS)
                connection.note(scope, await receive())
        elif way == "cancel":
            with suppress(TimeoutError):
                connection.note(scope, await asyncio.wait_for(receive(), random.choice(LIMITS)))
        else:
            while not (connection.has_all or connection.has_heard):
                connection.note(scope, await receive())
    await respond(scope, receive, send)


async def respond(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond, and hear of the end of the exchange: by listening since before the response, or by looking once."""
    connection: Connection = scope["connection"]
    listener = asyncio.ensure_future(listen(scope, receive)) if connection.random.random() < 0.5 else None
    try:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(connection.random.choice([0, 0, 0.01, 0.2]))
        await send({"type": "http.response.body", "body": b"done"})
        if listener is None:
            with anyio.CancelScope(deadline=-1):
                connection.note(scope, await receive())
        else:
            await asyncio.wait([listener], timeout=TURNS)
        # An upload whose seats were taken while its app only listened waits for them before it goes on.
        if not connection.has_heard and scope["apf"].state is not TicketState.WAITING:
            connection.faults.append("no disconnect after the response")
    finally:
        if listener is not None:
            listener.cancel()
            await asyncio.wait([listener])


async def listen(scope: Scope, receive: Receive) -> None:
    connection: Connection = scope["connection"]
    while not connection.has_heard:
        connection.note(scope, await receive())


async def exchange(middleware: APFMiddleware, random: Random) -> Connection:
    """One exchange, which the client or the server may end at any time."""
    await asyncio.sleep(random.choice([0, random.random() * 0.3]))
    connection = Connection(random)
    sizes = [random.choice(SIZES) for _ in range(random.randrange(1, 6))]
    headers = {"X-User": random.choice("abc"), **random.choice([{}, CHUNKED, CHUNKED])}
    scope = http_scope("/", "POST", headers, connection=connection)
    receive = random.choice([connection.receive, PlainServer(connection).receive, OpenServer(connection).receive])
    sending = asyncio.ensure_future(connection.send_body(sizes))
    task = asyncio.ensure_future(middleware(scope, receive, connection.send))
    for end in (connection.hang_up, task.cancel):
        if random.random() < 0.2:
            asyncio.get_running_loop().call_later(random.choice([*PAUSES, random.random()]), end)
    done, _ = await asyncio.wait([task], timeout=60)
    if not done:
        connection.faults.append("no end")
        task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await sending
    await asyncio.sleep(TURNS)
    if connection.calls:
        connection.faults.append("a call of receive after the end")
    return connection


async def exchanges(random: Random) -> list[str]:
    """Return what was wrong in some exchanges at the same time."""
    middleware = APFMiddleware(run_app, load_text(CONFIG % ""))
    faults: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(str(context)))
    number = random.randrange(4, 16)
    for connection in await asyncio.gather(*(exchange(middleware, Random(random.random())) for _ in range(number))):
        faults += connection.faults
    controller = middleware.service.controller
    controller.bodies.check()
    assert (controller.bodies.number, controller.bodies.kept) == (0, 0)
    assert controller.levels["crowd"].shared.queueset.is_idle
    for counters in controller.levels["crowd"].schema_counters.values():
        assert (counters.waiting, counters.executing, counters.suspended) == (0, 0, 0)
    return faults


@examples(100)
@given(st.integers(0, 2**32))
def test_apps_receive_what_their_clients_send_and_hear_of_the_end_once(seed: int) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.MonkeyPatch.context() as patch:
        loop = runner.get_loop()
        clocked = partial(Service, now=lambda: round(loop.time() * 10**9))
        patch.setattr("apf_middleware.asgi.middleware.Service", clocked)
        assert runner.run(exchanges(Random(seed))) == []
