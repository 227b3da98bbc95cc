"""A server whose number of seats adapts: what the app answers counts, reloads keep the number, metrics show it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.adaptive import RequestOutcome
from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.service import Service
from apf_middleware.config import Configuration, load_text
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.adaptive_runner import AdaptiveRunner
from tests.support.asgi_exchange import http_scope
from tests.support.virtual_loop import VirtualLoop


def configuration(seats: str = "{adaptive: {min: 2, max: 100}}") -> Configuration:
    return load_text(
        f"""
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: web}}
spec: {{shares: 1000, waitLimit: 10s, queuing: {{queues: 1, handSize: 1, queueLengthLimit: 500}}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: web, rules: [{{httpRules: [{{}}]}}]}}
"""
    )


class World:
    """The middleware before an app of which only ``places`` requests make progress at once, in virtual time."""

    def __init__(self, places: int = 10) -> None:
        self.middleware = APFMiddleware(self.serve, configuration())
        self.places = asyncio.Semaphore(places)
        self.status = 200
        self.error: Exception | None = None
        self.answered: list[int] = []

    @property
    def controller(self) -> Controller:
        return self.middleware.service.controller

    async def serve(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        async with self.places:
            await asyncio.sleep(0.02)
        if self.error is not None:
            raise self.error
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def ask(self) -> None:
        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.answered.append(message["status"])

        async def receive() -> Message:
            await asyncio.sleep(1000)
            return {"type": "http.disconnect"}

        await self.middleware(http_scope("/"), receive, send)

    async def keep_asking(self, clients: int, seconds: float) -> None:
        async def client() -> None:
            while asyncio.get_running_loop().time() < until:
                await self.ask()

        until = asyncio.get_running_loop().time() + seconds
        async with asyncio.TaskGroup() as tasks:
            for _ in range(clients):
                tasks.create_task(client())


def play(scene: Callable[[], Awaitable[None]]) -> None:
    """Play a scene with all clocks virtual."""

    async def live() -> None:
        await scene()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.MonkeyPatch.context() as patch:
        loop = runner.get_loop()
        clocked = partial(Service, now=lambda: round(loop.time() * 10**9))
        patch.setattr("apf_middleware.asgi.middleware.Service", clocked)
        runner.run(live())


def test_the_number_follows_what_the_app_can_do() -> None:
    async def scene() -> None:
        world = World(places=10)
        await world.keep_asking(40, 15)
        assert 8 <= world.controller.seats <= 14

        for _ in range(20):  # the app has become better
            world.places.release()
        await world.keep_asking(60, 15)
        assert 24 <= world.controller.seats <= 40

    play(scene)


@pytest.mark.parametrize(
    ("status", "error", "outcome"),
    [
        (200, None, RequestOutcome.SUCCESS),
        (404, None, RequestOutcome.SUCCESS),
        (500, None, RequestOutcome.ERROR),
        (503, None, RequestOutcome.REFUSED),
        (504, None, RequestOutcome.TIMED_OUT),
        (200, LookupError("boom"), RequestOutcome.ERROR),
    ],
)
def test_what_the_app_answers_is_the_outcome(
    status: int, error: Exception | None, outcome: RequestOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, RequestOutcome]] = []

    def observe(_self: AdaptiveRunner, _now: int, route: str, _duration: int, admission: Admission) -> None:
        seen.append((route, admission.outcome))

    monkeypatch.setattr(AdaptiveRunner, "observe", observe)

    async def scene() -> None:
        world = World()
        world.status, world.error = status, error
        with suppress(LookupError):
            await world.ask()

    play(scene)
    assert seen == [("GET /", outcome)]


def test_a_reload_keeps_the_number_within_the_new_bounds() -> None:
    async def scene() -> None:
        world = World(places=10)
        await world.keep_asking(40, 10)
        service, found = world.middleware.service, world.controller.seats
        assert found > 5

        service.adopt(service.prepare(configuration()))
        assert world.controller.seats == found
        before = service.reading().adaptive
        service.adopt(service.prepare(configuration("{adaptive: {min: 2, max: 5}}")))
        assert world.controller.seats == 5
        after = service.reading().adaptive
        assert before is not None
        assert after is not None
        assert after.decisions == before.decisions != {}
        await world.keep_asking(40, 3)
        assert world.controller.seats <= 5
        service.adopt(service.prepare(configuration("30")))
        assert world.controller.seats == 30

    play(scene)


def test_metrics_show_the_number_and_its_bounds() -> None:
    async def scene() -> None:
        world = World(places=10)
        await world.keep_asking(40, 5)
        reading = world.middleware.service.reading()

        assert reading.seats == world.controller.seats
        assert reading.adaptive is not None
        assert (reading.adaptive.least, reading.adaptive.largest) == (2, 100)
        assert reading.adaptive.decisions

    play(scene)


def test_nothing_runs_when_nobody_asks() -> None:
    async def scene() -> None:
        world = World()
        await world.keep_asking(40, 2)
        await asyncio.sleep(15)  # longer than a wait may last, which has a timer, too
        loop = asyncio.get_running_loop()
        assert [one for one in loop._scheduled if not one.cancelled()] == []  # type: ignore[attr-defined]

    play(scene)
