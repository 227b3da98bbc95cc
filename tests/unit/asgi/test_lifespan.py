"""Workers notice that their parent process stops them, and the services beside an app don't end it by their errors."""

import asyncio
import multiprocessing
import threading
from multiprocessing.process import BaseProcess
from typing import Any

import anyio
import hypercorn.run
import pytest
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from hypercorn.config import Config, Sockets
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi.lifespan import ParentWatch, run_beside, run_lifespan
from tests.support.virtual_loop import VirtualLoop


async def ignore(_: Message) -> None:
    """Send nothing."""


def now() -> int:
    return round(anyio.current_time() * 10**9)


def watch_in(process: BaseProcess, event: Any, monkeypatch: pytest.MonkeyPatch) -> list[bool]:  # noqa: ANN401
    """Watch as in ``process``, set the event, and return whether it was set at each call of ``leave``."""
    monkeypatch.setattr("multiprocessing.process.current_process", lambda: process)
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


class FailingService:
    """A service that fails: the first time before it has started, the second time later, and then never."""

    def __init__(self) -> None:
        self.begun: list[float] = []

    async def serve(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        self.begun.append(anyio.current_time())
        if len(self.begun) == 1:
            raise ValueError("too early")
        task_status.started()
        if len(self.begun) == 2:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.fail)
        await anyio.sleep_forever()

    async def fail(self) -> None:
        await anyio.sleep(5)
        raise KeyError("too late")


def test_a_service_that_fails_is_started_again_and_the_app_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    service = FailingService()

    async def live() -> float:
        begin = anyio.current_time()
        await run_beside([service.serve], ignore, lambda _: anyio.sleep(60))
        return anyio.current_time() - begin

    lived = anyio.run(live, backend="asyncio", backend_options={"loop_factory": VirtualLoop})

    assert round(lived, 3) == 60
    assert [round(one - service.begun[0]) for one in service.begun] == [0, 1, 7]
    failures = [record.getMessage() for record in caplog.records if "apf.service-failed" in record.getMessage()]
    assert len(failures) == 2
    assert "ValueError: too early" in failures[0]
    assert "KeyError: 'too late'" in failures[1]


def test_an_error_of_the_app_itself_is_raised_as_it_is() -> None:
    async def fail(_: Send) -> None:
        raise LookupError("the app's own")

    with pytest.raises(LookupError, match="the app's own"):
        anyio.run(run_beside, [FailingService().serve], ignore, fail, backend_options={"loop_factory": VirtualLoop})


@pytest.mark.parametrize("last", ["lifespan.shutdown.complete", "lifespan.shutdown.failed", "lifespan.startup.failed"])
def test_services_have_ended_when_the_server_gets_the_last_message(last: str) -> None:
    """Then uvicorn ends the process with the signal that has stopped it, without waiting for any task."""
    seen: list[str] = []

    async def serve(*, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            seen.append("ended")

    async def send(message: Message) -> None:
        seen.append(message["type"])

    async def live(send: Send) -> None:
        await send({"type": "lifespan.startup.complete"})
        await anyio.sleep(60)
        await send({"type": last})

    anyio.run(run_beside, [serve], send, live, backend_options={"loop_factory": VirtualLoop})
    assert seen == ["lifespan.startup.complete", "ended", last]


async def idle(*, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
    task_status.started()
    await anyio.sleep_forever()


def test_a_server_that_ends_its_event_loop_after_the_last_message_sees_no_cancellation() -> None:
    """As uvicorn does if its port is in use; of a lifespan that is cancelled it says that there is none."""
    lifespans: list[asyncio.Task[None]] = []

    async def serve() -> None:
        answered = asyncio.Event()

        async def send(_message: Message) -> None:
            answered.set()

        async def live(send: Send) -> None:
            await send({"type": "lifespan.shutdown.complete"})

        lifespans.append(asyncio.create_task(run_beside([idle], send, live)))
        await answered.wait()
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        asyncio.run(serve())

    assert [task.cancelled() for task in lifespans] == [False]


def test_the_cancellation_of_an_app_that_lives_is_raised() -> None:
    async def cancel() -> bool:
        lifespan = asyncio.create_task(run_beside([idle], ignore, lambda _: anyio.sleep(60)))
        await asyncio.sleep(1)
        lifespan.cancel()
        await asyncio.wait([lifespan])
        return lifespan.cancelled()

    assert anyio.run(cancel, backend="asyncio", backend_options={"loop_factory": VirtualLoop})


class RecordedSteps:
    """Steps at startup and shutdown that only say in which order they come."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def begin(self) -> None:
        self.order.append("begin")

    def ready(self) -> None:
        self.order.append("ready")

    def end(self) -> None:
        self.order.append("end")

    async def finish(self) -> None:
        self.order.append("finish")

    def close(self) -> None:
        self.order.append("close")


def lived(app: ASGIApp) -> list[str]:
    """Return the steps of a lifespan, and what the server is sent between them."""
    steps = RecordedSteps()
    messages: list[Message] = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        steps.order.append(message["type"])

    async def live() -> None:
        await run_lifespan(app, {"type": "lifespan"}, receive, send, steps)

    anyio.run(live)
    return steps.order


WHOLE = ["begin", "ready", "lifespan.startup.complete", "end", "finish", "close", "lifespan.shutdown.complete"]


def test_each_step_of_a_lifespan_comes_once() -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(2):
            message = await receive()
            await send({"type": f"{message['type']}.complete"})

    assert lived(app) == WHOLE


def test_a_lifespan_that_the_app_does_not_support_is_completed_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ValueError("only http")

    with caplog.at_level("INFO"):
        assert lived(app) == WHOLE
    assert "apf.lifespan-unsupported" in caplog.text
    assert "only http" in caplog.text


def test_an_app_that_fails_its_startup_before_it_receives_anything_is_not_answered_for() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    assert lived(app) == ["close", "lifespan.startup.failed"]


def test_an_app_that_answers_the_lifespan_like_a_request_has_not_ended() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})

    assert lived(app) == ["http.response.start"]
