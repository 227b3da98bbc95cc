"""The monitors of waits on event loops."""

import asyncio
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from apf_middleware.runtime.wait_monitor import WaitMonitor, WaitMonitors


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_client_that_cannot_be_watched_does_not_keep_other_waits_from_becoming_long() -> None:
    loop = asyncio.get_running_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    monitor, settled, have_settled = WaitMonitors(lambda: 0).of(loop), [], asyncio.Event()

    class WaitingTask:
        def __init__(self, number: int) -> None:
            self.number = number

        def become_long(self) -> None:
            settled.append(self.number)
            if len(settled) == 3:
                have_settled.set()
            if not self.number:
                raise ValueError

    for number in range(3):
        monitor.watch(WaitingTask(number))  # type: ignore[arg-type]
    async with asyncio.timeout(60):
        await have_settled.wait()
    loop.set_exception_handler(None)

    assert settled == [0, 1, 2]
    assert [type(one) for one in failures] == [ValueError]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_wait_that_is_over_is_not_kept_and_does_not_become_long() -> None:
    monitor, have_settled, long = WaitMonitors(lambda: 0).here(), asyncio.Event(), []
    assert monitor is not None

    class WaitingTask:
        def __init__(self, number: int) -> None:
            self.number = number

        def become_long(self) -> None:
            long.append(self.number)
            have_settled.set()

    begun = [WaitingTask(number) for number in range(3)]
    numbers = [monitor.watch(wait) for wait in begun]  # type: ignore[arg-type]
    kept = [weakref.ref(wait) for wait in begun]
    del begun
    monitor.forget(numbers[0])
    monitor._look()  # the others are no longer new, as after some milliseconds
    monitor.forget(numbers[2])
    assert [one() is not None for one in kept] == [False, True, False]
    async with asyncio.timeout(60):
        await have_settled.wait()

    assert long == [1]
    assert kept[1]() is None
    monitor.forget(numbers[1])  # as the end of a long wait does
    assert repr(monitor) == "<WaitMonitor: 0 new, {}>"


def test_a_loop_that_is_closed_is_forgotten_when_another_one_comes() -> None:
    monitors, loops = WaitMonitors(lambda: 0), [asyncio.new_event_loop() for _ in range(3)]
    first, second = monitors.of(loops[0]), monitors.of(loops[1])
    assert monitors.of(loops[0]) is first
    assert monitors.of(loops[1]) is second
    loops[0].close()
    monitors.of(loops[2])
    assert repr(monitors) == "<WaitMonitors of 2 loops>"
    assert monitors.of(loops[1]) is second
    for one in loops:
        one.close()


def test_the_monitor_of_the_loop_that_runs_in_this_thread_is_found() -> None:
    monitors, first, second = WaitMonitors(lambda: 0), asyncio.new_event_loop(), asyncio.new_event_loop()

    async def look() -> WaitMonitor | None:
        found = monitors.here()
        assert found is None or found.is_here
        return found

    assert monitors.here() is None
    one = first.run_until_complete(look())
    assert one is not None
    assert one is monitors.of(first) is first.run_until_complete(look())
    assert not one.is_here
    assert monitors.here() is None
    assert second.run_until_complete(look()) is monitors.of(second)
    with ThreadPoolExecutor(1) as thread:  # a loop may run in another thread later
        assert thread.submit(first.run_until_complete, look()).result() is one
        assert thread.submit(first.run_until_complete, look()).result() is one
    for loop in (first, second):
        loop.close()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_many_waits_that_begin_together_have_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor, timers = WaitMonitors(lambda: 0).here(), []
    assert monitor is not None
    monkeypatch.setattr(monitor.loop, "call_later", lambda *call: timers.append(call))
    for _ in range(3):
        monitor.watch(object())  # type: ignore[arg-type]

    assert len(timers) == 1
