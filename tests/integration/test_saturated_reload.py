"""Reloads while every queue is saturated: seats stay in proportion to the weights, and a level that goes keeps its own.

Requests pass through the middleware as a server would send them. Time is virtual: it moves to the next timer as soon as
every task waits, so minutes of load take a second, and the results don't depend on the machine.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.service import Service
from tests.support.asgi_exchange import Exchange, http_scope
from tests.support.virtual_loop import VirtualLoop

READ_FILES = "apf_middleware.asgi.reload.run_in_own_thread"
QUEUING = "queuing: {queues: 1, handSize: 1, queueLengthLimit: 500}"
LEVEL = """---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: {name}}}
spec: {{{seats}, {queuing}, waitLimit: 10m}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: {name}}}
spec:
  level: {name}
  rules:
  - httpRules: [{{paths: ["/{path}"]}}]
"""


def written(seats: int, levels: Iterable[str], server: str = "") -> str:
    first = f"apiVersion: apf/v1\nkind: Server\nspec: {{seats: {seats}, defaults: none{server}}}\n"
    return first + "".join(levels)


def weighted(weights: Mapping[str, int]) -> list[str]:
    """Return named queues of these weights, which take what comes to the path of their name."""
    return [LEVEL.format(name=name, path=name, seats=f"weight: {weights[name]}", queuing=QUEUING) for name in weights]


def equal(names: Iterable[str], lendable: int) -> list[str]:
    seats = f"shares: 100, lendablePercent: {lendable}"
    return [LEVEL.format(name=name, path=name, seats=seats, queuing=QUEUING) for name in names]


async def run_at_once(function: Callable[[], object], *_: object, **__: object) -> object:
    """Read files in the event loop: a thread takes real time."""
    return function()


class Server:
    """An app whose requests take ``service_s``, behind the middleware with ``text`` in a file."""

    def __init__(self, tasks: TaskGroup, file: Path, text: str, service_s: float) -> None:
        self._tasks, self._file, self._service_s = tasks, file, service_s
        self.served: Counter[str] = Counter()
        file.write_text(text)
        self._middleware = APFMiddleware(self._app, file)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - part of ASGI
        await asyncio.sleep(self._service_s)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        self.served[scope["path"]] += 1

    def request(self, path: str) -> Exchange:
        return Exchange(self._middleware, http_scope(path), self._tasks).body().start()

    async def keep_asking(self, path: str) -> None:
        """Be a client that sends its next request when the last one is answered."""
        while True:
            await self.request(path).ended.wait()

    async def reload(self, text: str) -> None:
        self._file.write_text(text)
        assert await self._middleware.reload()

    async def counted(self, seconds: float) -> Counter[str]:
        """Return how many requests are served from now on."""
        before = self.served.copy()
        await asyncio.sleep(seconds)
        return self.served - before


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[TaskGroup], Awaitable[Any]]], Any]:
    """Run a scenario in virtual time."""
    monkeypatch.setattr(READ_FILES, run_at_once)

    def run(scenario: Callable[[TaskGroup], Awaitable[Any]]) -> Any:  # noqa: ANN401 - whatever the scenario returns
        async def live() -> Any:  # noqa: ANN401
            async with anyio.create_task_group() as tasks:
                found = await scenario(tasks)
                tasks.cancel_scope.cancel()
            return found

        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            loop = runner.get_loop()
            clocked = partial(Service, now=lambda: round(loop.time() * 10**9))
            monkeypatch.setattr("apf_middleware.asgi.middleware.Service", clocked)
            return runner.run(live())

    return run


@pytest.mark.parametrize("server", ["", ", discipline: max-min-serial"], ids=["default", "max-min-serial"])
def test_weights_are_kept_before_and_after_a_reload_that_changes_them(
    play: Callable[..., Any], tmp_path: Path, server: str
) -> None:
    before, after = {"a": 100, "b": 300}, {"a": 100, "b": 100, "c": 600}

    async def scenario(tasks: TaskGroup) -> None:
        protected = Server(tasks, tmp_path / "apf.yaml", written(12, weighted(before), server), 0.05)
        for weights in (before, after):
            await protected.reload(written(12, weighted(weights), server))
            for name in weights:
                for _ in range(30 if weights is before or name == "c" else 0):
                    tasks.start_soon(protected.keep_asking, f"/{name}")
            await asyncio.sleep(2)
            served = await protected.counted(10)
            assert served.total() == pytest.approx(12 * 10 / 0.05, rel=0.02), "no seat is idle"
            for name, weight in weights.items():
                ratio = served[f"/{name}"] / served.total()
                assert ratio == pytest.approx(weight / sum(weights.values()), rel=0.02), (name, served)

    play(scenario)


def served_by_second(
    play: Callable[..., Any], file: Path, after: tuple[str, ...], *, seats: int = 9, lendable: int = 0, server: str = ""
) -> list[int]:
    """Return how many of 25 requests of the level *old* are served by each second, with a reload after 0.5 s."""

    async def scenario(tasks: TaskGroup) -> list[int]:
        protected = Server(tasks, file, written(seats, equal(("a", "b", "old"), lendable), server), 1.0)
        for number in range(80):
            for name in ("a", "b", "old")[: 3 if number < 25 else 2]:
                protected.request(f"/{name}")
        await asyncio.sleep(0.5)
        await protected.reload(written(seats, equal(after, lendable), server))
        served = []
        while protected.served["/old"] < 25:
            await asyncio.sleep(1)
            served.append(protected.served["/old"])
        return served

    found: list[int] = play(scenario)
    return found


STAYS, RENAMED, REMOVED = ("a", "b", "old"), ("a", "b", "renamed"), ("a", "b")


@pytest.mark.parametrize("borrowing", ["immediate", "periodic"])
@pytest.mark.parametrize("lendable", [0, 50])
@pytest.mark.parametrize("after", [RENAMED, REMOVED], ids=["renamed", "removed"])
def test_a_removed_level_is_served_until_it_is_empty(
    play: Callable[..., Any], tmp_path: Path, after: tuple[str, ...], lendable: int, borrowing: str
) -> None:
    server = f", borrowing: {borrowing}"
    file = tmp_path / "apf.yaml"
    unchanged = served_by_second(play, file, STAYS, lendable=lendable, server=server)
    assert unchanged[5] == 18 or lendable
    found = served_by_second(play, file, after, lendable=lendable, server=server)
    assert found[5] >= unchanged[5]
    assert len(found) <= len(unchanged), "the slowest request doesn't wait longer"


def test_strict_mode_divides_by_the_shares_of_all_levels_as_kubernetes_does(
    play: Callable[..., Any], tmp_path: Path
) -> None:
    """A level that goes keeps its shares in the sum until it is idle: all levels have less, and it has its part."""
    strict = partial(
        served_by_second, play, tmp_path / "apf.yaml", seats=12, server=", borrowing: periodic, strictUpstream: true"
    )
    per_second = {after: [now - before for before, now in pairwise(strict(after))] for after in (STAYS, RENAMED)}
    # With exempt and catch-all, whose shares are 0 and 5: ceil(12 * 100 / 305) = 4 and ceil(12 * 100 / 405) = 3 seats.
    assert set(per_second[STAYS][:-1]) == {4}
    assert set(per_second[RENAMED][:-1]) == {3}
    assert strict(REMOVED) == strict(STAYS), "the sum of the shares is the same as before"
