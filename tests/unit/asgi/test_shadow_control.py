"""The shadow of a server: its start and end, by operators, by the configuration and by other members of a fleet."""

import logging
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.shadow import ShadowTrial
from apf_middleware.asgi.shadow_control import read_trial
from apf_middleware.config import ConfigurationError, load_text
from apf_middleware.exceptions import InvalidValueError
from tests.support.protected_app import ProtectedApp, configuration, settle
from tests.support.reloadable_app import ReloadableApp
from tests.support.until import until

pytestmark = pytest.mark.anyio

SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {{seats: {seats}{more}}}"
NEW = SERVER.format(seats=20, more="")


@pytest.fixture(autouse=True)
def all_events(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apf_middleware")


def test_errors_of_a_text_have_their_places() -> None:
    with pytest.raises(ConfigurationError, match=r"new.yaml:3 .*spec.seats"):
        read_trial(NEW.replace("20", "-1"), "new.yaml")


def test_a_text_that_defines_nothing_is_no_configuration() -> None:
    with pytest.raises(ConfigurationError, match="there must be an object"):
        read_trial("# a file that is being written", "new.yaml")


WEIGHED = """
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 100}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: all}
spec: {level: crowd, rules: [{httpRules: [{}]}], weightFunction: "MODULE:weight"}
"""
OWN_CHAIN = """
apiVersion: apf/v1
kind: Server
spec: {authentication: [{type: function, callable: "MODULE:weight"}]}
"""


@pytest.mark.parametrize("text", [WEIGHED, OWN_CHAIN])
def test_a_text_from_the_network_may_only_name_known_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    module = f"weights_of_{'all' if text is WEIGHED else 'callers'}"
    imported = tmp_path / "imported"
    touch = f"from pathlib import Path\nPath({str(imported)!r}).touch()"
    (tmp_path / f"{module}.py").write_text(f"{touch}\ndef weight(digest): return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = text.replace("MODULE", module)

    with pytest.raises(ConfigurationError, match="own files must name a function"):
        read_trial(text, "new.yaml")
    assert not imported.exists()

    read_trial(text, "new.yaml", is_own=True)
    assert read_trial(text, "new.yaml").text == text, "now it is known"


async def test_a_trial_begins_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        service = app.middleware.service
        control = service.shadow
        assert await control.report() is None
        assert not control.stop()

        trial = read_trial(NEW, "new.yaml")
        control.start(trial)
        assert control.trial is trial
        assert control.is_running
        assert repr(service.observers) == "<RequestObservers: 1>"
        await app.request("/1").end()

        control.start(read_trial(NEW, "newer.yaml"))
        found = await control.report()
        assert found is not None
        assert (found.source, found.requests) == ("newer.yaml", 0)
        assert control.stop()
        assert repr(service.observers) == "<RequestObservers: 0>"
        assert (await app.request("/2").end()).status == 200
        assert repr(control) == "<ShadowControl: None>"
    events = [line for line in caplog.text.splitlines() if "apf.shadow" in line]
    assert [line.partition("apf.shadow-")[2].split()[0] for line in events] == [
        "started",
        "stopped",
        "started",
        "stopped",
    ]


async def test_requests_that_are_under_way_when_a_trial_ends_go_on() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        app.middleware.service.shadow.start(ShadowTrial(configuration(), "", "same"))
        holder = await app.holder()
        waiting = app.request("/waiting")
        await anyio.lowlevel.checkpoint()
        app.middleware.service.shadow.stop()
        app.finish()
        assert (await holder.end()).status == (await waiting.end()).status == 200


async def test_the_file_of_the_configuration_asks_for_a_trial(tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(NEW)
    asking = SERVER.format(seats=5, more=", shadow: {file: new.yaml, classifyOnly: true}")
    async with anyio.create_task_group() as tasks:
        app = ReloadableApp(tasks, tmp_path / "apf.yaml", asking)
        control = app.middleware.service.shadow
        found = await control.report()
        assert found is not None
        assert (found.source, found.classify_only) == (str(tmp_path / "new.yaml"), True)

        # A reload keeps it, with all that it has seen, unless its own file has changed.
        await app.request("/1").end()
        assert await app.becomes(asking.replace("seats: 5", "seats: 6"))
        found = await control.report()
        assert found is not None
        assert found.requests == 1

        (tmp_path / "new.yaml").write_text(NEW.replace("20", "30"))
        assert await app.middleware.reload()
        found = await control.report()
        assert found is not None
        assert (found.requests, found.seats) == (0, 30)

        assert await app.becomes(SERVER.format(seats=5, more=""))
        assert await control.report() is None


@pytest.mark.parametrize("text", [None, "seats: [", NEW.replace("20", "-1"), NEW.replace("20}", "20, defaults: 7}")])
async def test_a_broken_file_of_a_trial_stops_nothing(
    tmp_path: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    if text is not None:
        (tmp_path / "new.yaml").write_text(text)
    asking = SERVER.format(seats=5, more=", shadow: {file: new.yaml}")
    async with anyio.create_task_group() as tasks:
        app = ReloadableApp(tasks, tmp_path / "apf.yaml", asking)
        assert (await app.request("/1").end()).status == 200
        assert app.middleware.service.shadow.trial is None
        assert f"apf.shadow-refused source={tmp_path / 'new.yaml'}" in caplog.text
        assert await app.middleware.reload()


async def test_the_trial_of_an_operator_outlives_a_reload(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        app = ReloadableApp(tasks, tmp_path / "apf.yaml", SERVER.format(seats=5, more=""))
        app.middleware.service.shadow.start(read_trial(NEW, "new.yaml"))
        await app.request("/1").end()
        assert await app.becomes(SERVER.format(seats=6, more=", trustedProxies: {networks: [10.0.0.0/8]}"))
        await app.request("/2").end()

        found = await app.middleware.service.shadow.report()
        assert found is not None
        assert (found.requests, found.decided) == (2, 2)


async def test_a_promoted_configuration_is_in_force_until_the_next_reload(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        app = ReloadableApp(tasks, tmp_path / "apf.yaml", SERVER.format(seats=5, more=""))
        service = app.middleware.service
        assert await service.shadow.promote() == ()

        service.shadow.start(read_trial(NEW, "new.yaml"))
        assert await service.shadow.promote() == ()
        assert service.controller.seats == 20
        assert service.shadow.trial is None
        assert app.file.read_text() == SERVER.format(seats=5, more="")

        assert await app.middleware.reload()
        assert service.controller.seats == 5


async def test_the_trial_that_the_files_name_is_promoted_too(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        (tmp_path / "new.yaml").write_text(NEW)
        app = ReloadableApp(tasks, tmp_path / "apf.yaml", SERVER.format(seats=5, more=", shadow: {file: new.yaml}"))
        service = app.middleware.service
        assert await service.shadow.promote() == ()

        assert service.controller.seats == 20
        assert service.shadow.was_promoted, "so another worker that is asked for the same isn't told of an error"


async def test_a_promotion_for_another_member_that_is_refused_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with anyio.create_task_group() as tasks:
        app = ReloadableApp(tasks, tmp_path / "apf.yaml", SERVER.format(seats=5, more=""))
        service = app.middleware.service
        service.shadow.follow_promotion(SERVER.format(seats=9, more=", discipline: max-min-serial"), "new.yaml")
        await until(lambda: "apf.shadow-refused source=new.yaml" in caplog.text)

        assert "spec.discipline" in caplog.text
        assert service.controller.seats == 5


async def test_what_needs_a_restart_is_not_promoted(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        app = ReloadableApp(tasks, tmp_path / "apf.yaml", SERVER.format(seats=5, more=""))
        service = app.middleware.service
        service.shadow.start(read_trial(SERVER.format(seats=9, more=", discipline: max-min-serial"), "new.yaml"))
        [problem] = await service.shadow.promote()

        assert (problem.place.file, problem.field) == ("new.yaml", "spec.discipline")
        assert service.controller.seats == 5
        assert service.shadow.is_running
        assert service.last_reload_error is None


LEVEL = "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: batch}\nspec: {shares: 10}\n"


async def test_a_promotion_does_not_remove_the_server_document(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        app = ReloadableApp(tasks, tmp_path / "apf.yaml", SERVER.format(seats=5, more=", admin: {operators: [sre]}"))
        service = app.middleware.service
        service.shadow.start(read_trial(LEVEL, "new.yaml"))
        [problem] = await service.shadow.promote()

        assert (problem.place.file, problem.field) == ("new.yaml", "kind")
        assert "a Server document must stay" in str(problem)
        assert service.configuration.server.admin.is_on
        assert service.shadow.is_running

        service.shadow.start(read_trial(f"{LEVEL}---\n{NEW}", "new.yaml"))
        assert await service.shadow.promote() == ()
        assert "batch" in service.controller.levels


async def _app(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Do nothing."""


@pytest.mark.parametrize(("seats", "is_promoted"), [(100, True), (99, False)])
async def test_a_promotion_keeps_settings_that_were_made_in_python(*, seats: int, is_promoted: bool) -> None:
    service = APFMiddleware(_app, load_text(SERVER.format(seats=seats, more=""))).service
    service.shadow.start(read_trial(LEVEL, "new.yaml"))

    problems = await service.shadow.promote()

    assert (problems == (), "batch" in service.controller.levels) == (is_promoted, is_promoted)
    assert service.controller.seats == seats


async def test_files_without_a_server_document_may_be_followed_by_others(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        service = ReloadableApp(tasks, tmp_path / "apf.yaml", LEVEL.replace("batch", "old")).middleware.service
        service.shadow.start(read_trial(LEVEL, "new.yaml"))
        assert await service.shadow.promote() == ()
        assert "batch" in service.controller.levels


async def test_a_trial_that_the_app_can_not_serve_is_not_promoted() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        service = app.middleware.service
        gated = NEW + (
            "\n---\napiVersion: apf/v1\nkind: FlowSchema\nmetadata: {name: gated}\n"
            "spec: {level: catch-all, gates: [db], rules: [{httpRules: [{}]}]}"
        )
        service.shadow.start(read_trial(gated, "new.yaml"))
        [problem] = await service.shadow.promote()
        assert "db" in str(problem)
        assert service.shadow.is_running


async def test_a_start_that_is_impossible_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with anyio.create_task_group() as tasks:
        control = ProtectedApp(tasks).middleware.service.shadow
        first = read_trial(NEW, "new.yaml")
        control.start(first)

        def refuse(*_: object, **__: object) -> None:
            raise InvalidValueError("levels", None, "it must be possible")

        monkeypatch.setattr("apf_middleware.asgi.shadow.Shadow", refuse)
        with pytest.raises(InvalidValueError):
            control.start(read_trial(NEW, "newer.yaml"))
        assert control.trial is first
        assert control.is_running


async def test_an_error_of_the_report_ends_the_shadow(monkeypatch: pytest.MonkeyPatch) -> None:
    async with anyio.create_task_group() as tasks:
        control = ProtectedApp(tasks).middleware.service.shadow
        control.start(read_trial(NEW, "new.yaml"))

        def fail(*_: object) -> bool:
            raise LookupError("defect")

        monkeypatch.setattr("apf_middleware.runtime.shadow.server.ShadowServer.settle", fail)
        found = await control.report()
        assert found is not None
        assert found.error == "LookupError: defect"


async def test_other_members_are_followed(caplog: pytest.LogCaptureFixture) -> None:
    async with anyio.create_task_group() as tasks:
        control = ProtectedApp(tasks).middleware.service.shadow
        control.follow(NEW, "new.yaml", classify_only=False)
        await until(lambda: control.trial is not None)
        first = control.trial
        control.follow(NEW, "again.yaml", classify_only=False)
        assert control.trial is first, "this is tried already"

        control.follow("seats: [", "broken.yaml", classify_only=False)
        await until(lambda: "apf.shadow-refused" in caplog.text)
        assert control.trial is first

        control.follow(None, "", classify_only=False)
        assert control.trial is None


async def test_of_two_trials_of_other_members_the_later_one_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    readings: list[anyio.Event] = []

    async def read_later(read: Callable[[], ShadowTrial]) -> ShadowTrial:
        readings.append(may_read := anyio.Event())
        await may_read.wait()
        return read()

    monkeypatch.setattr("apf_middleware.asgi.shadow_control.run_in_own_thread", read_later)
    async with anyio.create_task_group() as tasks:
        control = ProtectedApp(tasks).middleware.service.shadow
        control.follow(NEW, "old.yaml", classify_only=False)
        await until(lambda: len(readings) == 1)
        control.follow(NEW.replace("20", "30"), "new.yaml", classify_only=False)
        await until(lambda: len(readings) == 2)
        readings[1].set()
        await until(lambda: control.trial is not None)
        readings[0].set()
        await settle()
        assert control.trial is not None
        assert control.trial.source == "new.yaml"

        control.follow(NEW, "newer.yaml", classify_only=False)
        await until(lambda: len(readings) == 3)
        control.follow(None, "", classify_only=False)
        readings[2].set()
        await settle()
        assert control.trial is None, "the end of the trial came after its beginning"
