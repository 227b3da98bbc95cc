"""Random requests with deadlines: none waits past its deadline, none begins after it, and no seat is lost.

Time is virtual; at random moments the event loop stands still.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.service import Service
from apf_middleware.config import load_text
from tests.support.asgi_exchange import http_scope
from tests.support.examples import examples
from tests.support.virtual_loop import VirtualLoop

MARGIN_S = 0.01
TOLERANCE_S = 0.002
CONFIGURATION = """
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none, deadlines: {{}}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: web}}
spec: {{shares: 1000, waitLimit: 1s, queuing: {{queues: {queues}, handSize: 1, queueLengthLimit: 100}}{deadline}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: web, distinguisher: {{source: header, name: x-user}}, rules: [{{httpRules: [{{}}]}}]}}
"""


@dataclass(frozen=True)
class Call:
    """A request that arrives after ``gap_ms``, with so much time or any, and runs for ``hold_ms``."""

    gap_ms: int
    limit_ms: int | None
    hold_ms: int
    user: str
    stall_ms: int


@dataclass
class End:
    """What became of a request: its arrival, the time when the app began it, and the end with its status."""

    arrived: float
    deadline: float | None
    began: float | None = None
    ended: float = 0.0
    status: int = 0


calls = st.builds(
    Call,
    st.sampled_from((0, 0, 1, 7, 40)),
    st.one_of(st.none(), st.integers(0, 400)),
    st.sampled_from((0, 3, 20, 90, 300)),
    st.sampled_from("abc"),
    st.sampled_from((0, 0, 0, 0, 30, 200)),
)


class World:
    """The middleware in virtual time."""

    def __init__(self, configuration: str) -> None:
        self.app = APFMiddleware(self.serve, load_text(configuration))
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.running = self.most = 0

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        end, call = scope["end"], scope["call"]
        end.began = self.loop.time()
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(call.hold_ms / 1000)
        self.running -= 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def ask(self, call: Call, own_s: float | None) -> End:
        headers = {"x-user": call.user}
        limits = [] if own_s is None else [own_s]
        if call.limit_ms is not None:
            headers["grpc-timeout"] = f"{call.limit_ms}m"
            limit_s = call.limit_ms / 1000
            limits.append(limit_s - min(MARGIN_S, limit_s / 2))
        end = End(self.loop.time(), self.loop.time() + min(limits) if limits else None)
        messages: list[Any] = []

        async def send(message: Any) -> None:  # noqa: ANN401
            messages.append(message)

        async def receive() -> Any:  # noqa: ANN401
            if not messages:
                messages.append(None)
                return {"type": "http.request", "body": b"", "more_body": False}
            return await self.loop.create_future()

        await self.app(http_scope("/", headers=headers, end=end, call=call), receive, send)
        end.ended = self.loop.time()
        end.status = next(one["status"] for one in messages if one is not None and "status" in one)
        return end

    async def play(self, script: list[Call], own_s: float | None, *, stalls: bool) -> list[End]:
        tasks = []
        for call in script:
            await asyncio.sleep(call.gap_ms / 1000)
            tasks.append(asyncio.create_task(self.ask(call, own_s)))
            if stalls and call.stall_ms:
                await asyncio.sleep(0.001)
                self.loop.stall(call.stall_ms / 1000)
        return list(await asyncio.gather(*tasks))


def play(script: list[Call], seats: int, queues: int, own_s: float | None, *, stalls: bool) -> list[End]:
    """Play a script with all clocks virtual."""
    deadline = "" if own_s is None else f", deadline: {round(own_s * 1000)}ms"

    async def live() -> list[End]:
        world = World(CONFIGURATION.format(seats=seats, queues=queues, deadline=deadline))
        ends = await world.play(script, own_s, stalls=stalls)
        await asyncio.sleep(0.001)
        level = world.app.service.controller.levels["web"].shared
        assert level.queueset.is_idle
        assert level.alone is None
        assert world.most <= seats
        return ends

    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.MonkeyPatch.context() as patch:
        loop = runner.get_loop()
        clocked = partial(Service, now=lambda: round(loop.time() * 10**9))
        patch.setattr("apf_middleware.asgi.middleware.Service", clocked)
        return runner.run(live())


scripts = st.lists(calls, min_size=1, max_size=25)


@given(scripts, st.integers(1, 3), st.sampled_from((1, 4)), st.sampled_from((None, 0.15)))
@examples(60)
def test_nobody_waits_past_a_deadline(script: list[Call], seats: int, queues: int, own_s: float | None) -> None:
    for end in play(script, seats, queues, own_s, stalls=False):
        assert end.status in {200, 429, 504}
        if end.status != 200 and end.deadline is not None:
            assert end.began is None
            assert end.ended <= max(end.arrived, end.deadline) + TOLERANCE_S
        if end.status == 504:
            assert end.deadline is not None
        if end.began is not None and end.deadline is not None:
            assert end.began < end.deadline + TOLERANCE_S


@given(scripts, st.integers(1, 3), st.sampled_from((1, 4)), st.sampled_from((None, 0.15)))
@examples(60)
def test_nothing_begins_after_its_deadline_however_late_the_event_loop_is(
    script: list[Call], seats: int, queues: int, own_s: float | None
) -> None:
    for end in play(script, seats, queues, own_s, stalls=True):
        assert end.status in {200, 429, 504}
        if end.began is not None and end.deadline is not None:
            assert end.began < end.deadline + TOLERANCE_S


@given(scripts, st.integers(1, 3))
@examples(30)
def test_requests_without_limits_are_served_as_without_deadlines(script: list[Call], seats: int) -> None:
    plain = [Call(call.gap_ms, None, call.hold_ms % 40, call.user, 0) for call in script]
    ends = play(plain, seats, 4, None, stalls=False)

    assert {end.status for end in ends} == {200}
