"""What is recorded of a server in virtual time is simulated again: the same requests wait as long, and are rejected."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import pytest
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.service import Service
from apf_middleware.config import Configuration, load_text
from apf_middleware.config.scenario import Backend, Scenario
from apf_middleware.fairqueuing import TicketState
from apf_middleware.recordings import RecordedRequest
from apf_middleware.simulation.recording import Recording
from apf_middleware.simulation.requests import SimulatedRequest
from apf_middleware.simulation.run import Simulation
from apf_middleware.simulation.trace import RequestTrace
from tests.support.asgi_exchange import http_scope
from tests.support.virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable

SECOND = 10**9
SECONDS = 20.0
CONFIG = """
apiVersion: apf/v1
kind: Server
spec: {seats: 4, defaults: none, admin: {groups: [nobody]}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: tenants}
spec: {shares: 1000, maxSeats: 4, waitLimit: 500ms, queuing: {queues: exact, queueLengthLimit: 20}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: tenants}
spec: {level: tenants, distinguisher: {source: header, name: X-Tenant}, rules: [{httpRules: [{}]}]}
"""


class World:
    """A server with an elephant, whose requests come faster than they can be served, mice, and clients that hang up."""

    def __init__(self, config: Configuration) -> None:
        self.middleware = APFMiddleware(self._serve, config)
        self.content = b""
        self._dice = random.Random(7)
        self._is_over = asyncio.Event()

    async def _serve(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await asyncio.sleep(self._dice.uniform(0.01, 0.03))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def request(self, tenant: str, patience: float = 3_600.0) -> int:
        status = 0
        gone = asyncio.get_running_loop().time() + patience

        async def receive() -> Message:
            await asyncio.sleep(max(0.0, gone - asyncio.get_running_loop().time()))
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)

        scope = http_scope("/", headers={"X-Tenant": tenant})
        await self.middleware(scope, receive, send)
        return status

    async def keep_asking(self, tenant: str, pause: Callable[[], float], patience: float = 3_600.0) -> None:
        """Send a request after each pause, whatever has become of those before."""
        async with asyncio.TaskGroup() as tasks:
            while not self._is_over.is_set():
                tasks.create_task(self.request(tenant, patience))
                await asyncio.sleep(pause())

    async def keep_busy(self, tenant: str) -> None:
        """Send one request after the other."""
        while not self._is_over.is_set():
            if await self.request(tenant) == 429:
                await asyncio.sleep(self._dice.uniform(0.05, 0.15))

    async def record(self) -> None:
        """Record through the admin, as the owner of the server."""
        order = [{"type": "http.request", "body": json.dumps({"seconds": SECONDS}).encode(), "more_body": False}]

        async def receive() -> Message:
            if order:
                return order.pop()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            self.content += message.get("body", b"")

        scope = http_scope("/recordings", "POST", {"Content-Type": "application/json"})
        admin = self.middleware.service.admin
        assert admin is not None
        await admin.answer_owner(scope, receive, send, "uid:1000 pid:1")

    async def live(self, before: float) -> None:
        """Begin the load so many seconds before the recording, and end it after that."""
        dice = self._dice
        loads: list[Awaitable[None]] = [self.keep_busy("elephant") for _ in range(40)]
        loads += [self.keep_asking(f"mouse-{n}", partial(dice.expovariate, 8)) for n in range(5)]
        loads += [self.keep_asking("hasty", partial(dice.expovariate, 60), patience=0.08)]
        recording = None if before else asyncio.ensure_future(self.record())
        while recording is not None and not self.content:  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.001)
        begun = [asyncio.ensure_future(load) for load in loads]
        await asyncio.sleep(before)
        await (recording or self.record())
        self._is_over.set()
        await asyncio.gather(*begun)


def recorded(path: Path, before: float) -> Recording:
    """Return the recording of a server in virtual time."""
    config = load_text(CONFIG)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.MonkeyPatch.context() as patch:
        loop = runner.get_loop()
        clocked = partial(Service, now=lambda: round(loop.time() * SECOND))
        patch.setattr("apf_middleware.asgi.middleware.Service", clocked)

        async def play() -> bytes:
            world = World(config)
            await world.live(before)
            return world.content

        path.write_bytes(runner.run(play()))
    trace = RequestTrace(path)
    return Recording(trace, trace.survey(), "flow")


class Decisions(Simulation):
    """A simulation that notes waits and rejections by the time of arrival."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(Scenario(backend=Backend(exponent=0.0)), load_text(CONFIG), recording=recording)
        self.waits: dict[int, int] = {}
        self.refused: list[int] = []
        self.result = self.run("own")

    def seated(self, request: SimulatedRequest) -> None:
        admission = request.admission
        assert admission.state is TicketState.SEATED
        self.waits[request.asked_at] = admission.seated_at - admission.arrived_at
        super().seated(request)

    def rejected(self, request: SimulatedRequest) -> None:
        self.refused.append(request.asked_at)
        super().rejected(request)


def rows_of(recording: Recording) -> Iterator[RecordedRequest]:
    return (row for row in recording.rows(1) if row.level == "tenants")


def waits_of(rows: list[RecordedRequest]) -> dict[int, int]:
    return {row.time_ns: row.wait_ns for row in rows if row.outcome == "served" and row.wait_ns is not None}


def test_each_request_waits_as_long_and_the_same_are_rejected(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "traffic.jsonl", before=0)
    decisions = Decisions(recording)
    rows = list(rows_of(recording))
    waits = waits_of(rows)
    rejected = {row.time_ns for row in rows if row.outcome == "rejected"}

    assert recording.survey.header is not None
    assert recording.survey.header.standing == 0
    assert sum(row.outcome == "hung-up" for row in rows) > 5
    assert len(waits) > 1_500
    assert len(rejected) > 500
    assert {at: decisions.waits.get(at, -1) for at in waits} == pytest.approx(waits, abs=10_000)
    assert set(decisions.refused) == rejected


def test_a_recording_that_begins_under_overload_has_the_same_waits_on_the_whole(tmp_path: Path) -> None:
    """How far each flow was ahead of the others when it began isn't recorded, so single requests may wait otherwise."""
    recording = recorded(tmp_path / "traffic.jsonl", before=3)
    decisions = Decisions(recording)
    rows = list(rows_of(recording))
    flows = {row.time_ns: row.flow for row in rows}
    rejected = sum(row.outcome == "rejected" for row in rows)

    assert recording.survey.header is not None
    assert recording.survey.header.standing > 20
    assert len(decisions.refused) == pytest.approx(rejected, rel=0.03)
    for flow, number in Counter(flows.values()).most_common(2):  # the elephant, and the client that hangs up
        measured, simulated = (
            fmean(wait for at, wait in waits.items() if flows[at] == flow)
            for waits in (waits_of(rows), decisions.waits)
        )
        assert number > 1_000
        assert simulated == pytest.approx(measured, rel=0.15)
