"""The monitors of waits on event loops."""

import asyncio
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
            self.is_over = False

        def become_long(self) -> None:
            settled.append(self.number)
            if len(settled) == 3:
                have_settled.set()
            if not self.number:
                raise ValueError

    for number in range(3):
        monitor.watch(WaitingTask(number))  # type: ignore[arg-type]
    async with asyncio.timeout(5):
        await have_settled.wait()
    loop.set_exception_handler(None)

    assert settled == [0, 1, 2]
    assert [type(one) for one in failures] == [ValueError]


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
