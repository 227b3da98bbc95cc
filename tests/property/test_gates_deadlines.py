"""No request waits beyond its limit, whatever gates do, and cancelled tasks leak nothing.

The tests use the event loops' own timers and tasks, on asyncio and on trio, with virtual clocks: when all tasks wait,
the clock jumps to the next timer.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.abc
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from apf_middleware import Gates
from apf_middleware.classification import Classification
from apf_middleware.config import load_text
from apf_middleware.fairqueuing import Reason, Work, flow_hash
from apf_middleware.gates import GateRequest, Park
from apf_middleware.runtime import Admission, Connection, Controller, wait_for_seat
from apf_middleware.runtime.waiting import Cancellable, Start, Waiter
from tests.support.examples import examples
from tests.support.virtual_loop import VirtualLoop

pytestmark = pytest.mark.timeout(600)

_LIMIT = 0.2
_TICK = 0.001
_FILE = """
apiVersion: apf/v1
kind: Server
spec: {seats: 4, defaults: none}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 1000, queuing: {queues: 4, handSize: 1, queueLengthLimit: 100}, waitLimit: 200ms}
"""


def _run(backend: str, live: Callable[[Callable[[], float]], Any]) -> None:
    if backend == "trio":
        trio.run(live, trio.current_time, clock=MockClock(autojump_threshold=0))
    else:
        failed: list[dict[str, Any]] = []
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.get_loop().set_exception_handler(lambda _, context: failed.append(context))
            runner.run(live(runner.get_loop().time))
        assert not failed


class _SilentClient:  # not of `ClientWatch`: interpreted classes cannot inherit from compiled protocols
    """A client that stays connected and sends nothing."""

    task: Cancellable | None = None

    def connection(self) -> Connection | None:
        return None

    def watch(self, waiter: Waiter, start: Start) -> None:  # noqa: ARG002 - the client never hangs up
        self.task = start(anyio.sleep_forever)

    def end_watch(self) -> None:
        if self.task is not None:
            self.task.cancel()


@dataclass(frozen=True, slots=True)
class _Request:
    comes_at: float
    flow: str
    gates: tuple[str, ...]
    takes: float
    cancelled_after: float | None


@dataclass(frozen=True, slots=True)
class _Turn:
    """A change of the dependency's state, perhaps with a retry time, and perhaps announced by an event."""

    at: float
    is_well: bool
    retry_in: float | None
    is_announced: bool


_times = st.sampled_from((0.0, 0.0, 0.01, 0.05, 0.1, 0.19, 0.2, 0.21, 0.3, 0.5))
_requests = st.lists(
    st.builds(
        _Request,
        comes_at=_times,
        flow=st.sampled_from("xyz"),
        gates=st.sampled_from(
            [
                *((), ("db",), ("state",), ("remote",), ("quota",), ("state", "db"), ("remote", "db")),
                *(("remote", "far"), ("far", "db", "remote")),
            ]
        ),
        takes=st.sampled_from((0.0, 0.01, 0.1, 0.5)),
        cancelled_after=st.sampled_from((None, None, None, 0.0, 0.01, 0.1, 0.2)),
    ),
    min_size=1,
    max_size=20,
)
_turns = st.lists(
    st.builds(_Turn, _times, st.booleans(), st.sampled_from((None, -1.0, 0.0, 0.1, 0.5)), st.booleans()), max_size=6
)


class _Scene:
    """A server with gates: a capacity, a token bucket, and a synchronous and two asynchronous conditions."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self.gates = Gates()
        self.db = self.gates.capacity("db", limit=2, max_parked=1000)
        self.gates.tokens("quota", rate=20, burst=1, max_parked=1000)
        self.is_well = True
        self.retry_in: float | None = None
        self.gates.condition("state", on="turned", max_parked=1000)(self._ask)
        for name in ("remote", "far"):
            self.gates.condition(name, on="turned", max_parked=1000)(self._ask_from_afar)
        self.controller = Controller(_CONFIGURATION, self.gates, now=self.now)

    def now(self) -> int:
        return round(self._time() * 1e9)

    def _ask(self, _: GateRequest) -> object:
        return self.is_well or Park(retry_in=self.retry_in)

    async def _ask_from_afar(self, request: GateRequest) -> object:
        answer = self._ask(request)
        await anyio.sleep(0.03)
        return answer

    async def live_through(self, requests: list[_Request], turns: list[_Turn]) -> None:
        async with anyio.create_task_group() as tasks:
            for request in requests:
                tasks.start_soon(self._serve, request)
            for turn in turns:
                tasks.start_soon(self._turn, turn)

    async def _turn(self, turn: _Turn) -> None:
        await anyio.sleep(turn.at)
        self.is_well, self.retry_in = turn.is_well, turn.retry_in
        if turn.is_announced:
            self.gates.emit("turned")

    async def _serve(self, request: _Request) -> None:
        await anyio.sleep(request.comes_at)
        came_at = anyio.current_time()
        admission = self._admission(request)
        with anyio.move_on_after(request.cancelled_after):
            self.controller.arrive(self.now(), admission)
            if admission.is_waiting:
                # If it is cancelled, it gives back everything itself.
                await wait_for_seat(admission, int(_LIMIT * 1e9), _SilentClient())
            try:
                self._check_waited(request, admission, anyio.current_time() - came_at)
                if admission.is_seated:
                    await anyio.sleep(request.takes)
            finally:
                if admission.is_seated:
                    self.controller.release(admission)
                self.controller.release_leases(admission)

    @staticmethod
    def _check_waited(request: _Request, admission: Admission, waited: float) -> None:
        assert not admission.is_waiting
        assert waited <= _LIMIT + _TICK, f"{request} has waited for {waited} s"
        if admission.reason is Reason.TIME_OUT:
            assert waited >= _LIMIT - _TICK, f"{request} could have waited longer"

    def _admission(self, request: _Request) -> Admission:
        place = Classification("catch-all", "crowd", request.flow, flow_hash("catch-all", request.flow))
        destination = self.controller.destination(place, Work())
        destination.gates = request.gates
        return Admission(destination)

    def check_that_nobody_is_left(self) -> None:
        assert not list(self.gates.scheduler)
        assert not self.db.used("")
        [crowd] = [runtime.shared for name, runtime in self.controller.levels.items() if name == "crowd"]
        crowd.settle_alone()
        assert crowd.queueset.is_idle
        self.controller.sharing.check()
        self.gates.scheduler.check()


_CONFIGURATION = load_text(_FILE)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(requests=_requests, turns=_turns)
@examples(40)
def test_no_request_waits_beyond_its_limit_and_none_is_lost(
    backend: str, requests: list[_Request], turns: list[_Turn]
) -> None:
    """Each request ends in time and gives back what it had: whether it waits for seats, is parked at a gate, is being
    evaluated, or is cancelled at the instant at which it is seated.
    """

    async def live(time: Callable[[], float]) -> None:
        scene = _Scene(time)
        with anyio.fail_after(60):
            await scene.live_through(requests, turns)
            await anyio.sleep(1)  # all asynchronous evaluations have ended
        scene.check_that_nobody_is_left()

    _run(backend, live)
