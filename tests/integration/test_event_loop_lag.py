"""The lag of real event loops: asyncio, uvloop and trio."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
import trio
import uvloop

from apf_middleware.runtime.event_loop_lag import EventLoopLag

MS = 10**6
SECOND = 10**9
Run = Callable[[Callable[[], Awaitable[Any]]], Any]

LOOPS: dict[str, tuple[Run, Callable[[float], Awaitable[None]]]] = {
    "asyncio": (lambda main: asyncio.run(main()), asyncio.sleep),  # type: ignore[arg-type]
    "uvloop": (lambda main: uvloop.run(main()), asyncio.sleep),  # type: ignore[arg-type]
    "trio": (trio.run, trio.sleep),
}


def meter() -> EventLoopLag:
    return EventLoopLag(time.monotonic_ns, is_busy=lambda: True, on_rest=lambda: None)


def block(duration_ns: int) -> None:
    end = time.monotonic_ns() + duration_ns
    while time.monotonic_ns() < end:
        pass


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_that_blocks_is_late(name: str) -> None:
    run, sleep = LOOPS[name]
    lag = meter()

    async def main() -> None:
        lag.begin()
        for _ in range(20):
            block(130 * MS)  # once a probe was late, others come due meanwhile
            await sleep(0)  # no longer: on a busy machine that could be any time

    run(main)

    assert lag.probes >= 5
    assert lag.quantile(0.99) > 15 * MS
    assert lag.window.share_above(2 * MS) > 0.5  # of at least five probes, nine of ten are late


@pytest.mark.parametrize("name", LOOPS)
def test_another_loop_is_measured_anew(name: str) -> None:
    run, sleep = LOOPS[name]
    lag = meter()

    async def main() -> None:
        lag.begin()
        await sleep(0.95)

    for _ in range(2):
        before = lag.probes
        run(main)
        assert lag.probes > before
        lag.begin()  # without a loop, nothing is scheduled
        time.sleep(0.02)
    assert lag.window.count_above(SECOND) == 0


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_of_trio_is_probed_less_often(name: str) -> None:
    run, sleep = LOOPS[name]
    gaps: list[int] = []
    lag = EventLoopLag(
        time.monotonic_ns,
        is_busy=lambda: True,
        on_rest=lambda: None,
        on_probe=lambda _now, gap, _lag: gaps.append(gap),
        suspicious_ns=10 * SECOND,
        chance=Random(2),
    )

    async def main() -> None:
        lag.begin()
        while not gaps:
            await sleep(0.01)

    run(main)

    expected = round((600 if name == "trio" else 400) * (0.5 + Random(2).random())) * MS
    assert gaps[0] == expected


def test_an_idle_loop_is_hardly_woken() -> None:
    lag = meter()

    async def main() -> float:
        lag.begin()
        begin = time.process_time()
        await asyncio.sleep(1.5)
        return time.process_time() - begin

    used = asyncio.run(main())

    assert lag.probes <= 8 or lag.window.count_above(2 * MS)  # a machine that is busy with other things is late
    assert used < 0.02 * lag.probes / 10
