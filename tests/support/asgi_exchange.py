"""ASGI exchanges by hand: the test decides what the client sends and when, and all messages of the app are recorded."""

from collections import deque
from collections.abc import Mapping
from typing import Self

import anyio
from anyio.abc import TaskGroup
from starlette.types import ASGIApp, Message, Scope

__all__ = ["Exchange", "http_scope", "websocket_scope"]


def http_scope(path: str = "/", method: str = "GET", headers: Mapping[str, str] | None = None, **more: object) -> Scope:
    """Return a scope as uvicorn makes it."""
    path, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 50000),
        "scheme": "http",
        "root_path": "",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
        "state": {},
        **more,
    }


def websocket_scope(path: str = "/", **more: object) -> Scope:
    scope = http_scope(path)
    del scope["method"]
    return {**scope, "type": "websocket", "scheme": "ws", "subprotocols": [], **more}


class Exchange:
    """One request to ``app``, run in ``tasks``. Messages are received in the order of delivery."""

    def __init__(self, app: ASGIApp, scope: Scope, tasks: TaskGroup) -> None:
        self.app = app
        self.scope = scope
        self.tasks = tasks
        self.sent: list[Message] = []
        self.receive_calls = 0  # how often the app has called receive
        self.error: BaseException | None = None
        self.ended = anyio.Event()
        self.cancel_scope = anyio.CancelScope()
        self._said: deque[Message] = deque()
        self._news = anyio.Event()

    def deliver(self, message: Message) -> None:
        self._said.append(message)
        self._news.set()

    def body(self, part: bytes = b"", *, more: bool = False) -> Self:
        self.deliver({"type": "http.request", "body": part, "more_body": more})
        return self

    def disconnect(self) -> None:
        self.deliver({"type": "http.disconnect"})

    async def receive(self) -> Message:
        self.receive_calls += 1
        while not self._said:
            self._news = anyio.Event()
            await self._news.wait()
        return self._said.popleft()

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    def start(self) -> Self:
        self.tasks.start_soon(self._run)
        return self

    async def _run(self) -> None:
        try:
            with self.cancel_scope:
                await self.app(self.scope, self.receive, self.send)
        except Exception as error:  # noqa: BLE001 - a server logs whatever an app raises
            self.error = error
        finally:
            self.ended.set()

    async def end(self) -> Self:
        """Wait until the app has returned."""
        with anyio.fail_after(60):
            await self.ended.wait()
        return self

    @property
    def status(self) -> int | None:
        return next((message["status"] for message in self.sent if message["type"].endswith("response.start")), None)

    @property
    def headers(self) -> dict[str, str]:
        start = next(message for message in self.sent if message["type"].endswith("response.start"))
        return {name.decode(): value.decode() for name, value in start["headers"]}

    @property
    def content(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)
