"""Workers notice that their parent process stops them."""

import multiprocessing
import threading
from multiprocessing.process import BaseProcess
from typing import Any

import anyio
import hypercorn.run
import pytest
from hypercorn.config import Config, Sockets

from apf_middleware.asgi import lifespan
from apf_middleware.asgi.lifespan import ParentWatch
from tests.support.virtual_loop import VirtualLoop


def now() -> int:
    return round(anyio.current_time() * 10**9)


def watch_in(process: BaseProcess, event: Any, monkeypatch: pytest.MonkeyPatch) -> list[bool]:  # noqa: ANN401
    """Watch as in ``process``, set the event, and return whether it was set at each call of ``leave``."""
    monkeypatch.setattr(lifespan, "current_process", lambda: process)
    left: list[bool] = []

    async def live() -> None:
        watch = ParentWatch(now)
        watch.start(lambda: left.append(event.is_set()))
        await anyio.sleep(60)
        event.set()
        await anyio.sleep(60)
        watch.stop()

    anyio.run(live, backend="asyncio", backend_options={"loop_factory": VirtualLoop})
    return left


def test_a_worker_leaves_once_when_the_event_that_its_process_was_given_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch reads a private field, so this fails where a process of `multiprocessing` no longer has it."""
    event = threading.Event()
    process = multiprocessing.get_context("spawn").Process(target=print, kwargs={"shutdown_event": event})
    assert watch_in(process, event, monkeypatch) == [True]


def test_a_process_without_such_an_event_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watch_in(multiprocessing.current_process(), threading.Event(), monkeypatch) == []


def test_hypercorn_gives_its_workers_the_event_by_this_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where hypercorn names its argument differently, and so its workers would notice nothing."""
    event = threading.Event()
    made: list[BaseProcess] = []
    context = multiprocessing.get_context("spawn")

    class Unstarted(context.Process):  # type: ignore[name-defined, misc]
        def start(self) -> None:
            made.append(self)

    monkeypatch.setattr(context, "Process", Unstarted)
    config = Config()
    config.workers = 1
    hypercorn.run._populate([], config, lambda *_: None, Sockets([], [], []), event, context)  # type: ignore[arg-type]
    assert watch_in(made[0], event, monkeypatch) == [True]
