"""The one place where requests wait, and what can come between: on each event loop, and the plain way on both."""

import asyncio
import time

import anyio
import pytest

from apf_middleware.asgi.resolver import ResolvedRequest
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Admission, Connection, Controller
from apf_middleware.runtime.waiting import Start, Waiter, wait_for_seat, wait_in_scope
from tests.support.level_world import LevelWorld
from tests.support.level_world import configuration as level_configuration
from tests.support.protected_app import ProtectedApp, configuration, settle
from tests.support.until import until

pytestmark = pytest.mark.anyio

MS = 1_000_000


@pytest.mark.usefixtures("way")
async def test_a_disconnect_is_detected_at_once() -> None:
    """Without any time passing: in the next few steps of the event loop."""
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        leavers = [protected.request(f"/{number}") for number in range(4)]
        await until(lambda: all(leaver.receive_calls for leaver in leavers))
        for leaver in leavers:
            leaver.disconnect()
        await settle()

        assert all(leaver.ended.is_set() for leaver in leavers)
        protected.finish()
        await holder.end()
        assert protected.started == ["/hold"]
        assert protected.is_idle()


@pytest.mark.usefixtures("way")
async def test_a_disconnect_before_the_watch_begins_is_detected_soon_after() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        leaver = protected.request("/leaver")
        await settle()
        leaver.disconnect()
        await leaver.end()

        assert protected.middleware.service.controller.hang_ups == 1, "it was heard to leave, and its time wasn't up"
        protected.finish()
        await holder.end()
        assert protected.is_idle()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("wait", ["1ms", "5ms", "40ms"])
async def test_a_very_short_wait_limit_ends_in_time(wait: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(wait=wait, length=50))
        holder = await protected.holder()
        late = [protected.request(f"/{number}") for number in range(20)]
        for exchange in late:
            await exchange.end()

        assert {exchange.status for exchange in late} == {429}
        protected.finish()
        await holder.end()
        assert protected.is_idle()


@pytest.mark.usefixtures("way")
async def test_a_request_is_woken_when_another_thread_gives_seats_back() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        waiting = protected.request("/waiting")
        await settle()
        assert protected.waiting == 1

        assert await anyio.to_thread.run_sync(holder.scope["apf"].release)
        with anyio.fail_after(60):
            await waiting.end()

        assert waiting.status == 200
        protected.finish()
        await holder.end()
        assert protected.is_idle()


class SilentClient:
    """A client that says nothing."""

    def connection(self) -> Connection | None:
        return None

    def watch(self, waiter: Waiter, start: Start) -> None: ...

    def end_watch(self) -> None: ...


async def _wait(admission: Admission, way: str) -> None:
    wait = wait_in_scope if way == "the plain way" else wait_for_seat
    await wait(admission, 60 * 10**9, SilentClient())


def _wait_in_a_loop_that_ends(admissions: list[Admission], way: str) -> None:
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # which asyncio calls for tasks that never end
    tasks = [loop.create_task(_wait(admission, way)) for admission in admissions]
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert not any(task.done() for task in tasks)


async def test_requests_whose_loop_has_ended_take_no_seats_from_others(way: str) -> None:
    world = LevelWorld(level_configuration(", queuing: {queues: 1, handSize: 1, queueLengthLimit: 50}"))
    running = [world.arrive() for _ in range(4)]
    lost, waiting = [world.arrive() for _ in range(40)], world.arrive()
    await anyio.to_thread.run_sync(_wait_in_a_loop_that_ends, lost, way)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_wait, waiting, way)
            await settle()
            world.release(running[0])

    assert not any(one.is_seated or one.is_waiting for one in lost)
    assert waiting.is_seated
    world.controller.sharing.check()


@pytest.mark.usefixtures("way")
async def test_no_request_is_lost_under_random_load() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(seats=3, length=200, wait="60ms"))
        everybody = []
        for number in range(300):
            path = f"/{number}"
            if number % 3 == 0:
                protected.may_finish[path] = anyio.Event()
                tasks.start_soon(_open_later, protected, path, 0.002 * (number % 7))
            exchange = protected.request(path, user=f"user-{number % 9}")
            everybody.append(exchange)
            if number % 11 == 0:
                exchange.disconnect()
            if number % 13 == 0:
                tasks.start_soon(_cancel_later, exchange.cancel_scope, 0.003)
            if number % 10 == 0:
                await anyio.sleep(0.001)
        for exchange in everybody:
            await exchange.end()

        served = sum(exchange.status == 200 for exchange in everybody)
        rejected = sum(exchange.status == 429 for exchange in everybody)
        silent = sum(exchange.status in {None, 499} for exchange in everybody)
        assert served + rejected + silent == 300
        assert served > 50
        assert protected.is_idle()
        counters = protected.middleware.service.controller.levels["crowd"].schema_counters["everybody"]
        assert counters.arrived == 300
        assert counters.dispatched == counters.executions.count


async def _open_later(protected: ProtectedApp, path: str, delay: float) -> None:
    await anyio.sleep(delay)
    protected.finish(path)


async def _cancel_later(scope: anyio.CancelScope, delay: float) -> None:
    await anyio.sleep(delay)
    scope.cancel()


async def test_the_next_request_is_seated_when_a_linger_ends() -> None:
    """Nothing else happens at that time: a timer must see to it."""
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        controller = protected.middleware.service.controller
        opened = protected.open("/")
        seen = await protected.middleware.service.resolver.resolve(opened.scope, 0, opened.receive)
        assert isinstance(seen, ResolvedRequest)
        lingering = Admission(controller.destination(seen.classification, Work(1, 1, 30 * MS)))
        controller.arrive(controller.now(), lingering)
        waiting = protected.request("/waiting")
        await settle()
        assert protected.waiting == 1
        released = controller.now()
        controller.release(lingering)
        await waiting.end()

        assert waiting.status == 200
        assert controller.now() - released >= 30 * MS, "the seats linger"
        assert protected.is_idle()


async def test_periodic_borrowing_adjusts_limits_while_requests_wait() -> None:
    """A level that wakes up has few seats until the next adjustment; ten seconds of a clock that a test turns."""
    offset = 0

    def now() -> int:
        return time.monotonic_ns() + offset

    config = configuration(seats=10, wait="50s", server=", borrowing: periodic")
    controller = Controller(config, now=now)
    before = controller.levels["crowd"].shared.current
    offset = 11 * 10**9
    controller.tick()

    assert before == 10
    assert controller.levels["crowd"].shared.record is not None
