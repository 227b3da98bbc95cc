"""The alarm, on both kinds of event loops, under virtual time."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from apf_middleware.runtime.alarm import Alarm
from tests.support.virtual_loop import VirtualLoop

MS = 1_000_000

pytestmark = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def run(backend: str, function: Callable[[], Awaitable[None]]) -> None:
    clock: dict[str, Any] = (
        {"loop_factory": VirtualLoop} if backend == "asyncio" else {"clock": MockClock(autojump_threshold=0)}
    )
    anyio.run(function, backend=backend, backend_options=clock)


def now() -> int:
    return round(anyio.current_time() * 10**9)


def test_an_alarm_fires_once_at_the_earliest_requested_time(backend: str) -> None:
    rung: list[int] = []

    async def ask() -> None:
        alarm, began = Alarm(lambda: rung.append(now() - began), now), now()
        for delay in (500, 20, 400):
            alarm.ask(began + delay * MS)
        await anyio.sleep(1)
        assert [at // MS for at in rung] == [20]
        alarm.ask(now() + 10 * MS)
        await anyio.sleep(1)
        assert len(rung) == 2, "it can be asked again"

    run(backend, ask)


def test_a_cancelled_alarm_does_not_ring(backend: str) -> None:
    rung: list[int] = []

    async def ask() -> None:
        alarm = Alarm(lambda: rung.append(1), now)
        alarm.ask(now() + 5 * MS)
        alarm.cancel()
        assert repr(alarm) == "<Alarm at None>"
        await anyio.sleep(1)

    run(backend, ask)
    assert rung == []


def test_an_alarm_outlives_the_event_loop_that_it_was_set_on(backend: str) -> None:
    rung: list[int] = []
    alarm = Alarm(lambda: rung.append(1), now)

    async def ask_and_end() -> None:
        alarm.ask(now() + 5 * MS)

    async def ask_and_wait() -> None:
        alarm.ask(now() + 20 * MS)
        await anyio.sleep(1)

    run(backend, ask_and_end)
    run(backend, ask_and_wait)
    assert rung == [1]


def test_an_alarm_without_an_event_loop_is_not_set(backend: str) -> None:
    alarm = Alarm(lambda: None, lambda: 0)
    alarm.ask(5)
    assert repr(alarm) == "<Alarm at None>", backend
