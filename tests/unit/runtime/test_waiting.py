"""One timer for all who are equally patient: each is told when its own time is up, and nobody else is."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from apf_middleware.runtime.waiting import Deadlines, WaitMonitors

MS = 1_000_000


class Loop:
    """An event loop of which nothing but timers is wanted; time is in nanoseconds."""

    def __init__(self) -> None:
        self.now = 0
        self.timers: list[tuple[int, Callable[[], None]]] = []

    def call_later(self, delay: float, ring: Callable[[], None]) -> None:
        self.timers.append((self.now + round(delay * 10**9), ring))

    def run(self, until: int) -> None:
        while self.timers and min(at for at, _ in self.timers) <= until:
            first = min(self.timers, key=lambda timer: timer[0])
            self.timers.remove(first)
            self.now = max(self.now, first[0])
            first[1]()
        self.now = until


class Waiting:
    """A wait that began when it was made."""

    def __init__(self, loop: Loop, limit_ns: int) -> None:
        self._loop = loop
        self._until = loop.now + limit_ns
        self.timed_out_at = -1  # not yet
        self.deadlines: Any = None
        self.fails = False

    def left_ns(self) -> int:
        return self._until - self._loop.now

    def time_out(self) -> None:
        self.timed_out_at = self._loop.now
        if self.fails:
            raise RuntimeError


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def deadlines(loop: Loop) -> Deadlines:
    return Deadlines(loop)  # type: ignore[arg-type]


def come(loop: Loop, deadlines: Deadlines, at: int) -> Waiting:
    loop.run(at)
    waiting = Waiting(loop, 50 * MS)
    deadlines.enter(waiting)  # type: ignore[arg-type]
    return waiting


def test_each_has_its_own_time_although_there_is_one_timer(loop: Loop, deadlines: Deadlines) -> None:
    waiting = [come(loop, deadlines, at * MS) for at in (0, 7, 7, 30)]
    assert len(loop.timers) == 1
    loop.run(200 * MS)
    assert [one.timed_out_at for one in waiting] == [50 * MS, 57 * MS, 57 * MS, 80 * MS]
    assert not loop.timers, "nobody waits any more"


def test_whoever_has_left_is_not_told_and_keeps_nobody_waiting(loop: Loop, deadlines: Deadlines) -> None:
    first, second, third = (come(loop, deadlines, at * MS) for at in (0, 10, 20))
    loop.run(25 * MS)
    deadlines.leave(first)  # type: ignore[arg-type]
    deadlines.leave(second)  # type: ignore[arg-type]
    loop.run(69 * MS)
    assert third.timed_out_at == -1
    loop.run(70 * MS)
    assert [one.timed_out_at for one in (first, second, third)] == [-1, -1, 70 * MS]


@pytest.mark.parametrize(("early", "timed_out_at"), [(100_000, 50 * MS - 100_000), (3 * MS, 50 * MS)])
def test_a_timer_that_rings_early_makes_nobody_wait_too_long(
    loop: Loop, deadlines: Deadlines, early: int, timed_out_at: int
) -> None:
    """By less than loops can tell apart it is as good as in time; by more, it is set again."""
    waiting = come(loop, deadlines, 0)
    [(_, ring)] = loop.timers
    loop.timers = [(50 * MS - early, ring)]
    loop.run(60 * MS)
    assert waiting.timed_out_at == timed_out_at


def test_one_that_fails_keeps_nobody_waiting(loop: Loop, deadlines: Deadlines) -> None:
    waiting = [come(loop, deadlines, 0) for _ in range(3)]
    waiting[0].fails = True
    with pytest.raises(RuntimeError):
        loop.run(50 * MS)
    loop.run(52 * MS)
    assert all(50 * MS <= one.timed_out_at <= 52 * MS for one in waiting)


def test_who_comes_after_all_have_gone_has_a_timer_again(loop: Loop, deadlines: Deadlines) -> None:
    first = come(loop, deadlines, 0)
    loop.run(60 * MS)
    second = come(loop, deadlines, 60 * MS)
    loop.run(110 * MS)
    assert (first.timed_out_at, second.timed_out_at) == (50 * MS, 110 * MS)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_client_that_cannot_be_listened_to_keeps_nobody_from_settling_down() -> None:
    loop = asyncio.get_running_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    monitor, settled, have_settled = WaitMonitors()[loop], [], asyncio.Event()

    class WaitingTask:
        def __init__(self, number: int) -> None:
            self.number = number
            self.woken = loop.create_future()

        def become_long(self, _: object) -> None:
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
    monitors, loops = WaitMonitors(), [asyncio.new_event_loop() for _ in range(3)]
    first, second = monitors[loops[0]], monitors[loops[1]]
    assert monitors[loops[0]] is first
    assert monitors[loops[1]] is second
    loops[0].close()
    monitors[loops[2]]
    assert set(monitors) == set(loops[1:])
    for one in loops:
        one.close()
