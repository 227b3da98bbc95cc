"""Reloading files while no requests come: what is read again, when, and its effect."""

import logging
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.reload import PreparedConfiguration, needs_restart, server_file
from apf_middleware.asgi.signals import Signals
from apf_middleware.config import ConfigurationError, Reading, load, load_text, read
from apf_middleware.exceptions import InvalidValueError, MissingExtraError
from apf_middleware.gates import Gates
from tests.support.until import until

pytestmark = pytest.mark.anyio

SERVER = "apiVersion: apf/v1\nkind: Server\nmetadata: {{name: server}}\nspec:\n  seats: {}\n"


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "apf.yaml"
    path.write_text(SERVER.format(10))
    return path


async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
    await receive()
    await receive()


class Life:
    """A lifespan that starts at once and ends when ``over`` is set."""

    def __init__(self) -> None:
        self.inbox: list[Message] = [{"type": "lifespan.startup"}]
        self.over = anyio.Event()
        self.begun = anyio.Event()

    async def receive(self) -> Message:
        if self.inbox:
            return self.inbox.pop()
        self.begun.set()
        await self.over.wait()
        return {"type": "lifespan.shutdown"}

    async def send(self, _message: Message) -> None: ...


async def until_seats(middleware: APFMiddleware, seats: int) -> None:
    await until(lambda: middleware.service.configuration.server.seats == seats)


async def live_through(middleware: APFMiddleware, *steps: tuple[Path, int, bool]) -> None:
    """Write files while the server runs, raise SIGHUP where a step says so, and wait for the seats."""
    life = Life()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(middleware, {"type": "lifespan"}, life.receive, life.send)
        await life.begun.wait()
        for path, seats, is_raised in steps:
            path.write_text(SERVER.format(seats))
            if is_raised:
                signal.raise_signal(signal.SIGHUP)
            await until_seats(middleware, seats)
        life.over.set()


async def test_sighup_reads_the_files_again_between_beginning_and_end(file: Path) -> None:
    before = signal.getsignal(signal.SIGHUP)
    await live_through(APFMiddleware(app, file), (file, 20, True), (file, 30, True))
    assert signal.getsignal(signal.SIGHUP) is before, "the signal is given back"


async def test_sighup_is_passed_on_to_the_previous_handler(file: Path) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _frame: heard.append(number))
    try:
        await live_through(APFMiddleware(app, file), (file, 20, True))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert heard == [signal.SIGHUP]


async def test_without_files_sighup_keeps_its_meaning() -> None:
    before = signal.getsignal(signal.SIGHUP)
    life = Life()
    middleware = APFMiddleware(app)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(middleware, {"type": "lifespan"}, life.receive, life.send)
        await life.begun.wait()
        assert signal.getsignal(signal.SIGHUP) is before
        life.over.set()


def test_a_signal_with_a_harmless_default_is_not_left_to_the_system() -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    heard: list[str] = []
    try:
        signals = Signals(signal.SIGUSR1, may_end=False)
        signals.listen(lambda: heard.append("asked"))
        signal.raise_signal(signal.SIGUSR1)  # or else this process would have ended
        signals.forget()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == ["asked"]


async def test_watched_files_are_read_again_when_they_change(file: Path) -> None:
    await live_through(APFMiddleware(app, file, watch=True), (file, 20, False), (file, 31, False))


async def test_what_changes_before_the_beginning_is_seen_then(file: Path) -> None:
    middleware = APFMiddleware(app, file, watch=True)
    file.write_text(SERVER.format(2000))  # noqa: ASYNC240 - a small file of the test
    life = Life()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(middleware, {"type": "lifespan"}, life.receive, life.send)
        await until_seats(middleware, 2000)
        life.over.set()


async def test_what_changes_right_after_the_first_reading_is_seen(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_and_change(*args: Any, **named: Any) -> Reading:  # noqa: ANN401
        reading = read(*args, **named)
        file.write_text(SERVER.format(2000))
        return reading

    monkeypatch.setattr("apf_middleware.asgi.middleware.read", read_and_change)
    middleware, life = APFMiddleware(app, file, watch=True), Life()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(middleware, {"type": "lifespan"}, life.receive, life.send)
        await until_seats(middleware, 2000)
        life.over.set()


def test_watching_needs_the_extra(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(MissingExtraError, match=r"apf-middleware\[reload\]"):
        _ = APFMiddleware(app, file, watch=True).service
    assert APFMiddleware(app, file).service.configuration.server.seats == 10


@pytest.mark.parametrize("config", [None, load_text(SERVER.format(3))])
def test_only_files_can_be_watched(config: object) -> None:
    with pytest.raises(InvalidValueError, match="watch is True, but only a configuration that came from files"):
        _ = APFMiddleware(app, config, watch=True).service  # type: ignore[arg-type]


def test_a_server_within_a_list_has_its_place(file: Path, tmp_path: Path) -> None:
    write(file, "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: a}\nspec: {shares: 5}\n")
    listed = tmp_path / "list.yaml"
    server = "{apiVersion: apf/v1, kind: Server, spec: {seats: 10, discipline: max-min-serial}}"
    write(listed, f"apiVersion: v1\nkind: List\nitems:\n- {server}\n")
    sources = [file, listed]

    [found] = needs_restart(load_text(SERVER.format(10)), load(*sources), sources)

    assert (found.place.file, found.place.line) == (str(listed), 4)
    assert server_file(sources) == str(listed)


def test_changes_that_need_a_restart_are_reported_also_when_a_setting_was_removed(file: Path) -> None:
    before = load_text(f"{SERVER.format(10)}  discipline: max-min-serial\n")
    [found] = needs_restart(before, load(file), [file])
    assert (found.place.file, found.place.line, found.field, found.value) == (
        str(file),
        4,
        "spec.discipline",
        "equal-serial",
    )
    file.write_text("")
    [found] = needs_restart(before, load(), [file])
    assert (found.place.file, found.place.line) == (str(file), 0)
    assert needs_restart(before, before, [file]) == ()


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("strictUpstream: true", "spec.strictUpstream is true"),
        ("fleet: {name: shop, interval: 100ms}", "spec.fleet is {name: 'shop', interval: '100ms'}"),
    ],
)
def test_a_change_that_needs_a_restart_is_shown_as_it_is_written(file: Path, written: str, shown: str) -> None:
    file.write_text(f"{SERVER.format(10)}  {written}\n")
    [found] = needs_restart(load_text(SERVER.format(10)), load(file), [file])

    assert str(found).partition(": error: ")[2].startswith(f"{shown}, but it can't change")


async def test_exceptions_of_named_code_are_reported_and_change_nothing(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    middleware = APFMiddleware(app, file)
    service = middleware.service

    def fails(*_: object) -> None:
        raise ZeroDivisionError("in a module of the user's")

    monkeypatch.setattr("apf_middleware.asgi.reload.needs_restart", fails)
    resolver = service.resolver
    with caplog.at_level(logging.ERROR, "apf_middleware"):
        assert not await middleware.reload()
    assert "ZeroDivisionError: in a module of the user's" in caplog.text
    assert service.resolver is resolver


async def test_a_reload_in_another_event_loop_takes_effect_in_the_one_that_serves_requests(file: Path) -> None:
    middleware = APFMiddleware(app, str(file))
    service = middleware.service
    service.controller.home.find()
    threads: list[int] = []

    def adopt(prepared: PreparedConfiguration) -> None:
        threads.append(threading.get_ident())
        service.adopt(prepared)

    service._reloader._adopt = adopt
    write(file, SERVER.format(20))
    assert await run_sync(anyio.run, middleware.reload)
    assert threads == [threading.get_ident()]
    assert service.configuration.server.seats == 20


async def test_warnings_are_those_of_what_is_in_force(file: Path) -> None:
    middleware = APFMiddleware(app, file)
    service = middleware.service
    file.write_text(  # noqa: ASYNC240 - a small file of the test
        f"{SERVER.format(10)}---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: nobody}}\n"
        "spec: {shares: 10}\n"
    )
    assert await middleware.reload()
    warnings = service.problems
    assert warnings
    assert {str(one.severity) for one in warnings} == {"warning"}
    file.write_text("spec: [")  # noqa: ASYNC240 - a small file of the test
    assert not await middleware.reload()
    assert service.problems[: len(warnings)] == warnings
    assert len(service.problems) > len(warnings)
    assert service.last_reload_error is not None


async def test_warnings_are_logged_when_a_configuration_comes_into_force(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "apf_middleware")
    file.write_text(  # noqa: ASYNC240 - a small file of the test
        f"{SERVER.format(10)}---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: nobody}}\n"
        "spec: {shares: 10}\n"
    )
    middleware = APFMiddleware(app, file)
    middleware.service.begin()
    try:
        assert await middleware.reload()
    finally:
        middleware.service.end()
    at_start, at_reload = caplog.records
    assert at_start.__dict__["event"] == at_reload.__dict__["event"] == "apf.configuration-warning"
    [warning] = middleware.service.problems
    fields = {"file": str(file), "line": warning.place.line, "field": "metadata.name", "warning": str(warning)}
    assert at_start.__dict__["apf"] == at_reload.__dict__["apf"] == fields


async def test_a_reloader_shows_what_it_reads(file: Path) -> None:
    middleware = APFMiddleware(app, file)
    assert repr(middleware.service._reloader) == f"<Reloader of {file}: {{'success': 1, 'failure': 0}}>"
    assert repr(APFMiddleware(app).service._reloader) == "<Reloader of nothing: {'success': 1, 'failure': 0}>"


EMPTY = ["", "# nothing\n", "---\n---\n", "null\n", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n"]


def write(path: Path, text: str) -> None:
    path.write_text(text)


@pytest.mark.parametrize("text", EMPTY)
async def test_files_that_define_nothing_do_not_replace_a_configuration(file: Path, text: str) -> None:
    middleware = APFMiddleware(app, config=file)
    write(file, text)

    assert not await middleware.reload()

    assert middleware.service.configuration.server.seats == 10
    [problem] = middleware.service.last_reload_error.problems  # type: ignore[union-attr]
    assert "there must be an object" in problem.rule
    assert "allow_empty=True" in problem.hint


GATED = """apiVersion: apf/v1
kind: Server
spec: {{seats: 10}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: gated}}
spec:
  level: users
  gates: [{schema}]
  rules: [{{httpRules: [{{}}]}}]
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: users}}
spec:
  shares: 10
  gates:
  - db
  - {level}
"""


@pytest.mark.parametrize(
    ("schema", "level", "field", "line"),
    [("nothing", "db", "spec.gates[0]", "  gates: [nothing]"), ("db", "nothing", "spec.gates[1]", "  - nothing")],
)
async def test_an_error_that_only_a_running_server_finds_has_its_place_and_next_step(
    file: Path, schema: str, level: str, field: str, line: str
) -> None:
    gates = Gates()
    gates.capacity("db", limit=1)
    middleware = APFMiddleware(app, config=file, gates=gates)
    text = GATED.format(schema=schema, level=level)
    write(file, text)

    assert not await middleware.reload()

    [problem] = middleware.service.last_reload_error.problems  # type: ignore[union-attr]
    assert (problem.field, problem.value, problem.rule) == (field, "nothing", "there is no gate of this name")
    assert text.splitlines()[problem.place.line - 1] == line
    assert problem.hint.startswith("There are: db; define it in the Server's gates")


async def test_an_error_of_an_authenticator_has_its_line(file: Path) -> None:
    middleware = APFMiddleware(app, config=file)
    text = f"{SERVER.format(10)}  authentication:\n  - type: user\n  - type: tokens\n    file: missing.csv\n"
    write(file, text)

    assert not await middleware.reload()

    [problem] = middleware.service.last_reload_error.problems  # type: ignore[union-attr]
    assert (problem.field, problem.value) == ("spec.authentication[1].file", "missing.csv")
    assert text.splitlines()[problem.place.line - 1] == "    file: missing.csv"


async def test_a_server_document_that_vanishes_is_not_replaced_by_defaults(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "level.yaml"
    write(other, "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: a}\nspec: {shares: 5}\n")
    middleware = APFMiddleware(app, config=[file, other])
    write(file, "")

    assert not await middleware.reload()

    assert middleware.service.configuration.server.seats == 10
    assert "a Server document must stay" in str(middleware.service.last_reload_error)


async def test_a_server_document_added_by_a_reload_cannot_be_removed(file: Path) -> None:
    level = "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: a}\nspec: {shares: 5}\n"
    server = SERVER.format(10)
    write(file, level)
    middleware = APFMiddleware(app, config=file)

    write(file, f"{server}---\n{level}")
    assert await middleware.reload()
    write(file, level)
    assert not await middleware.reload()

    assert middleware.service.configuration.server.seats == 10


@pytest.mark.parametrize("text", EMPTY)
async def test_an_empty_configuration_needs_permission(file: Path, text: str) -> None:
    middleware = APFMiddleware(app, config=file, allow_empty=True)
    write(file, text)

    assert await middleware.reload()

    assert middleware.service.configuration.server.seats == 100


def test_a_server_does_not_begin_with_files_that_define_nothing(file: Path) -> None:
    write(file, "")

    with pytest.raises(ConfigurationError, match="there must be an object"):
        _ = APFMiddleware(app, config=file).service

    assert APFMiddleware(app, config=file, allow_empty=True).service.configuration.server.seats == 100
