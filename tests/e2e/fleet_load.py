"""A scarce backend that counts who is in flight, workers of `tests.e2e.fleet_member` before it, and load on these."""

import asyncio
import contextlib
import select
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx

__all__ = ["SEATS", "Backend", "Load", "backend_and_environment", "loaded"]

SEATS = 10
SERVICE_S = 0.04
_PER_CONNECTION = 50  # requests
_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # not used, and it takes long to make one for each client
LEVELS = """
apiVersion: apf/v1
kind: Server
spec:
  seats: {seats}
  defaults: none
  fleet: {fleet}
  metrics: {{enabled: true}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: web}}
spec: {{shares: 1000, maxSeats: {seats}, waitLimit: 30s, queuing: {{queues: 8, handSize: 2, queueLengthLimit: 500}}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec:
  level: web
  distinguisher: {{source: header, name: X-Tenant}}
  rules: [{{httpRules: [{{}}]}}]
"""


class Backend:
    """Calls that take 40 ms; a call whose caller has gone isn't in flight any more."""

    def __init__(self) -> None:
        self.in_flight = self.most = self.finished = 0
        self._callers: set[int] = set()  # the descriptors of the calls in flight

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = writer.get_extra_info("socket").fileno()
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readexactly(1)
            self._callers.add(caller)
            self.in_flight += 1
            self.most = max(self.most, self.in_flight - self._count_gone())
            gone = asyncio.create_task(reader.read())
            await asyncio.wait([gone], timeout=SERVICE_S)
            self._callers.remove(caller)
            self.in_flight -= 1
            try:
                if not gone.done():
                    self.finished += 1
                    writer.write(b"!")
                    await writer.drain()
            finally:
                gone.cancel()
                await asyncio.gather(gone, return_exceptions=True)  # an error if the answer found no caller
        writer.close()

    def _count_gone(self) -> int:
        """Count the calls in flight whose callers have gone, as the kernel knows.

        It closes the connections of a killed caller before others get its seats, but the event loop may learn of that
        after it has received their calls.
        """
        poll = select.poll()
        for caller in self._callers:
            poll.register(caller, select.POLLRDHUP)
        return len(poll.poll(0))


class Load:
    """Closed loops of requests, each of a tenant; errors are connections that broke.

    A loop connects anew from time to time: otherwise a worker that has lost its connections, because it or the machine
    stood still for longer than idle connections are kept, would never get another one.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = urls
        self.statuses: Counter[int] = Counter()
        self.served: Counter[str] = Counter()
        self.workers: Counter[str] = Counter()
        self.broken = 0

    async def loop(self, tenant: str, number: int) -> None:
        while True:
            try:
                async with httpx.AsyncClient(
                    base_url=self.urls[number % len(self.urls)], timeout=60, trust_env=False, verify=_TLS
                ) as client:
                    for _ in range(_PER_CONNECTION):
                        answer = await client.get("/", headers={"X-Tenant": tenant})
                        self.statuses[answer.status_code] += 1
                        self.served[tenant] += answer.is_success
                        self.workers[answer.text] += answer.is_success
            except httpx.TransportError:
                self.broken += 1
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def backend_and_environment(folder: Path, fleet: str) -> AsyncIterator[tuple[Backend, dict[str, str]]]:
    """Run the backend; the environment is that of workers with these settings of their ``fleet``."""
    backend, socket = Backend(), folder / "backend"
    config = folder / "apf.yaml"
    config.write_text(LEVELS.format(seats=SEATS, fleet=fleet))
    async with await asyncio.start_unix_server(backend.answer, socket):
        yield backend, {"FLEET_BACKEND": str(socket), "FLEET_CONFIG": str(config)}


@contextlib.asynccontextmanager
async def loaded(urls: Sequence[str]) -> AsyncIterator[Load]:
    """Send the load of thirty connections of ten tenants."""
    load = Load(urls)
    loops = [asyncio.create_task(load.loop(f"tenant-{number % 10}", number)) for number in range(30)]
    try:
        yield load
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
