"""An app behind the middleware whose requests do what a test says, and a look at who waits."""

from collections.abc import Awaitable, Callable

from anyio.abc import TaskGroup
from starlette.types import Receive, Scope, Send

from apf_middleware import Gates
from tests.support.asgi_exchange import Exchange
from tests.support.gated_app import GatedApp, configuration

__all__ = ["HandlerApp"]

Handler = Callable[[str], Awaitable[object]]


class HandlerApp(GatedApp):
    """Requests for ``/db/*`` pass the gate ``db`` and then await ``handler`` with their path."""

    def __init__(
        self, tasks: TaskGroup, gates: Gates, handler: Handler, *, gate: str = "[db]", wait: str = "10s"
    ) -> None:
        super().__init__(tasks, configuration(gate, seats=50, wait=wait), gates)
        self._handler = handler
        self.errors: list[Exception] = []

    async def _app(self, scope: Scope, _receive: Receive, send: Send) -> None:
        path = scope["path"]
        self.started.append(path)
        try:
            await self._handler(path)
        except Exception as error:
            self.errors.append(error)
            raise
        finally:
            self.finished.append(path)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def request_many(self, count: int, users: int = 1) -> list[Exchange]:
        """So many requests come at once."""
        return [self.request(f"/db/{number}", user=f"u{number % users}") for number in range(count)]

    @property
    def parked(self) -> int:
        return sum(status.parked for status in self.gates.list())

    @property
    def rescues(self) -> int:
        return max(status.rescues for status in self.gates.list())
