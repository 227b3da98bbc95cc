"""Reloads through the admin of a running middleware whose configuration is a file."""

import json
import logging
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup

from tests.support.asgi_exchange import Exchange, http_scope
from tests.support.protected_app import ProtectedApp, configuration
from tests.support.reloadable_app import ReloadableApp, level, written

pytestmark = pytest.mark.anyio

PATH = "/debug/api_priority_and_fairness/reload"


@pytest.fixture
def server(tmp_path: Path) -> str:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret-o,olga,1,"operators"\nsecret-v,vera,3,"viewers"\nsecret-u,ulla,2,"users"\n')
    who = f"authentication: [{{type: tokens, file: {json.dumps(str(tokens))}}}]"
    return f", {who}, admin: {{groups: [viewers], operators: [operators]}}"


async def post(protected: ProtectedApp, tasks: TaskGroup, token: str = "secret-o") -> Exchange:  # noqa: S107
    scope = http_scope(PATH, "POST", {"Authorization": f"Bearer {token}"})
    return await Exchange(protected.middleware, scope, tasks).body().start().end()


async def test_an_operator_can_reload_while_all_seats_are_taken(
    tmp_path: Path, server: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with anyio.create_task_group() as tasks:
        file = tmp_path / "apf.yaml"
        protected = ReloadableApp(tasks, file, written(level("crowd"), server=server))
        holder = await protected.holder()
        waiting = protected.request("/second")
        file.write_text(written(level("crowd"), seats=2, server=server))
        with caplog.at_level(logging.INFO, "apf_middleware"):
            answer = await post(protected, tasks)

        report = json.loads(answer.content)
        assert (answer.status, report["reloaded"], report["seats"]) == (200, True, 2)
        assert {problem["severity"] for problem in report["problems"]} == {"warning"}
        events = [record.__dict__["event"] for record in caplog.records]
        assert events == ["apf.reload-asked", "apf.reloaded", "apf.configuration-warning"]
        assert (await waiting.end()).status == 200, "the second seat is there"
        protected.finish()
        await holder.end()
        assert PATH not in protected.started
        assert protected.is_idle()


async def test_errors_of_a_reloaded_file_are_shown_with_their_position(tmp_path: Path, server: str) -> None:
    async with anyio.create_task_group() as tasks:
        file = tmp_path / "apf.yaml"
        protected = ReloadableApp(tasks, file, written(level("crowd"), server=server))
        file.write_text(written(level("crowd", "{shares: many}"), server=server))
        broken = await post(protected, tasks)

        report = json.loads(broken.content)
        [problem] = report["problems"]
        assert (broken.status, report["reloaded"], report["seats"]) == (422, False, 1)
        assert (problem["severity"], problem["file"], problem["line"]) == ("error", str(file), 10)
        assert (problem["field"], problem["value"]) == ("spec.shares", "'many'")
        file.write_text(written(level("crowd"), server=server))
        assert (await post(protected, tasks)).status == 200


@pytest.mark.parametrize(("token", "status"), [("secret-v", 403), ("secret-u", 403), ("nonsense", 401)])
async def test_callers_without_permission_cannot_reload(tmp_path: Path, server: str, token: str, status: int) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ReloadableApp(tasks, tmp_path / "apf.yaml", written(level("crowd"), server=server))
        assert (await post(protected, tasks, token)).status == status
        assert protected.loads() == {"success": 1, "failure": 0}


async def test_a_viewer_gets_an_error_that_names_the_required_role(
    tmp_path: Path, server: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ReloadableApp(tasks, tmp_path / "apf.yaml", written(level("crowd"), server=server))
        answer = await post(protected, tasks, "secret-v")

    assert "spec.admin.operators" in json.loads(answer.content)["detail"]
    [record] = [one for one in caplog.records if one.__dict__.get("event") == "apf.change-refused"]
    assert 'by="vera (http)"' in record.getMessage()


async def test_a_configuration_made_in_python_cannot_be_reloaded(server: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(server=server))
        answer = await post(protected, tasks)

        assert answer.status == 409
        assert "only a configuration that came from files can be read again" in json.loads(answer.content)["detail"]
