"""Other threads have functions called in the thread of the event loop, and never beside it."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync

from apf_middleware.exceptions import BlockedLoopError
from apf_middleware.runtime.event_loop import EventLoop, HomeLoop

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def in_thread(function: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Return what ``function`` returns or raises in another thread, while this one is blocked."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(function())
        except Exception as error:  # noqa: BLE001
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


def ended_loop(backend: str) -> EventLoop:
    async def find() -> EventLoop:
        return EventLoop()

    return anyio.run(find, backend=backend)


async def test_a_call_from_another_thread_runs_in_the_thread_of_the_loop() -> None:
    loop = EventLoop()
    assert await run_sync(loop.call, threading.get_ident) == threading.get_ident()
    assert loop.call(threading.get_ident) == threading.get_ident()


@pytest.mark.parametrize("error", [ValueError("mine"), TimeoutError("mine")])
async def test_what_the_function_raises_is_raised_to_the_caller(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error), match="mine") as raised:
        await run_sync(EventLoop().call, fail)
    assert raised.value is error


async def test_a_result_that_comes_when_the_waiting_thread_looks_up_is_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class LateFuture(Future[int]):
        """Times out just when the result has come."""

        def result(self, timeout: float | None = None) -> int:
            found = super().result()
            if timeout is not None:
                raise TimeoutError
            return found

    monkeypatch.setattr("apf_middleware.runtime.event_loop.Future", LateFuture)
    assert await run_sync(EventLoop().call, threading.get_ident) == threading.get_ident()


async def test_a_blocked_loop_is_an_error_and_the_function_is_not_called_later() -> None:
    loop, called = EventLoop(), []
    error = in_thread(lambda: loop.call(lambda: called.append(1), patience_s=0.1))
    await run_sync(loop.call, threading.get_ident)  # by now the loop has passed what the other thread posted
    assert isinstance(error, BlockedLoopError)
    assert "hasn't answered this thread for 0.1 s" in str(error)
    assert "anyio.to_thread.run_sync" in str(error)
    assert called == []


async def test_a_posted_function_is_called_soon_and_a_loop_knows_its_own_thread() -> None:
    loop, called = EventLoop(), anyio.Event()
    assert loop.is_here
    assert EventLoop.running() is not None
    assert in_thread(lambda: (loop.is_here, EventLoop.running())) == (False, None)
    assert in_thread(lambda: loop.post(called.set))
    with anyio.fail_after(60):
        await called.wait()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_loop_that_has_ended_is_not_waited_for(backend: str) -> None:
    loop = ended_loop(backend)
    assert not loop.is_here
    assert not loop.post(print)
    assert in_thread(lambda: loop.call(threading.get_ident)) != threading.get_ident()
    assert loop.call(threading.get_ident) == threading.get_ident()


async def test_a_handle_tells_loops_of_trio_from_others(anyio_backend: str) -> None:
    assert EventLoop().is_trio is (anyio_backend == "trio")


def test_without_a_running_loop_there_is_none() -> None:
    assert EventLoop.running() is None
    with pytest.raises(RuntimeError):
        EventLoop()


async def test_threads_call_in_the_loop_that_serves_requests() -> None:
    home = HomeLoop()
    assert not home.is_elsewhere()
    assert await run_sync(home.call, threading.get_ident) != threading.get_ident(), "no loop is known yet"
    home.find()
    assert not home.is_elsewhere()
    assert await run_sync(home.is_elsewhere)
    assert await run_sync(home.call, threading.get_ident) == threading.get_ident()
    assert home.call(threading.get_ident) == threading.get_ident()


async def call_in_own_loop(home: HomeLoop) -> int:
    return home.call(threading.get_ident)


async def test_a_thread_with_a_loop_of_its_own_calls_in_the_loop_that_serves_requests() -> None:
    home = HomeLoop()
    home.find()
    assert await run_sync(anyio.run, call_in_own_loop, home) == threading.get_ident()


async def test_a_thread_with_a_loop_of_its_own_does_not_wait_for_one_that_waits_for_it() -> None:
    home = HomeLoop()
    home.find()
    assert in_thread(lambda: anyio.run(call_in_own_loop, home)) != threading.get_ident()


def test_the_end_of_the_loop_is_no_obstacle(anyio_backend: str) -> None:
    home = HomeLoop()

    async def find() -> None:
        home.find()

    anyio.run(find, backend=anyio_backend)
    assert home.call(lambda: "done") == "done"
    assert in_thread(partial(home.call, lambda: "done")) == "done"
    home.post(lambda: None)
