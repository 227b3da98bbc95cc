"""The configuration in force, and its reload."""

import json
import logging
from typing import Any

import pytest

from apf_middleware.asgi.admin.openapi import describe
from apf_middleware.classification import ANONYMOUS, Identity
from apf_middleware.config import Place, Problem, Severity, load_text
from tests.support.admin_world import CONFIG, OLGA, PATH, AdminWorld
from tests.support.json_schema import wrong

pytestmark = pytest.mark.anyio


PLACE = Place("apf.yaml", 2, 10)
WARNING = Problem(PLACE, "spec.shares", 1, "odd", severity=Severity.WARNING)
ERROR = Problem(PLACE, "spec.shares", "many", "wrong", "Write a number")
CONTENT = {"200": "application/json", "409": "application/problem+json", "422": "application/json"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def world() -> AdminWorld:
    world = AdminWorld()
    world.problems = (WARNING, ERROR)
    return world


def described(status: int) -> dict[str, Any]:
    """Return the description of an answer of this status."""
    responses = describe(PATH, "")["paths"][f"{PATH}/reload"]["post"]["responses"]
    [(content_type, content)] = responses[str(status)]["content"].items()
    assert content_type == CONTENT.get(str(status), "application/problem+json")
    schema: dict[str, Any] = content["schema"]
    return schema


@pytest.mark.parametrize(
    ("outcome", "status", "problems"), [(True, 200, [WARNING]), (False, 422, [ERROR]), (None, 409, None)]
)
async def test_the_result_lists_the_problems_with_their_places(
    world: AdminWorld, *, outcome: bool | None, status: int, problems: list[Problem] | None
) -> None:
    world.outcome = outcome
    found, headers, body = await world.get("reload", method="POST")
    answer = json.loads(body)

    assert (found, world.reloads, headers["x-apf-admin"]) == (status, 1, "1")
    assert list(wrong(answer, described(status), describe(PATH, ""))) == []
    if problems is None:
        assert "only a configuration that came from files can be" in answer["detail"]
    else:
        assert answer["reloaded"] is outcome
        assert answer["problems"] == [problem.as_dict() for problem in problems]
        assert (answer["seats"], answer["levels"], answer["schemas"]) == (2, 3, 3)


@pytest.mark.parametrize(
    ("identity", "status"),
    [
        (ANONYMOUS, 401),
        (Identity("mallory", ("operators",)), 401),
        (Identity("bob", ("users", "system:authenticated")), 403),
        (Identity("vera", ("auditors", "system:authenticated")), 403),
    ],
)
async def test_only_editors_can_reload(world: AdminWorld, identity: Identity, status: int) -> None:
    found, _, body = await world.get("reload", identity, method="POST")

    assert (found, world.reloads) == (status, 0)
    assert list(wrong(json.loads(body), described(status), describe(PATH, ""))) == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://shop.example", "Host": "shop.example"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://shop.example", "Host": "inside:8000"}, 200),
        ({"Origin": "https://shop.example", "Host": "Shop.example"}, 200),
        ({"Origin": "https://shop.example:8443", "Host": "shop.example:8443"}, 200),
        ({"Origin": "https://shop.example:8443", "Host": "shop.example"}, 403),
        ({"Origin": "https://evil.example", "Host": "shop.example"}, 403),
        ({"Origin": "null", "Host": "shop.example"}, 403),
        ({"Origin": "", "Host": "shop.example"}, 403),
        ({"Origin": "https://shop.example"}, 403),
        ({"Origin": ""}, 403),
    ],
)
async def test_a_page_of_another_site_cannot_have_it_read(
    world: AdminWorld, headers: dict[str, str], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "apf_middleware")
    found, _, body = await world.get("reload", headers=headers, method="POST")

    assert (found, world.reloads) == (status, int(status == 200))
    assert ("cross-site" in body) is (status == 403)
    [record] = caplog.records
    why = {"by": '"olga (http)"', "what": '"POST reload"', "why": '"cross-site"'}
    refused = ("apf.change-refused", why)
    asked = ("apf.reload-asked", {"user": "olga", "client": "127.0.0.1"})
    assert (record.__dict__["event"], record.__dict__["apf"]) == (asked if status == 200 else refused)


async def test_the_actor_of_a_reload_is_logged_on_one_line(world: AdminWorld, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apf_middleware")
    await world.get("reload", Identity("eve\napf.reloaded", OLGA.groups), method="POST")

    assert caplog.messages == ["apf.reload-asked user=eve\\napf.reloaded client=127.0.0.1"]


async def test_the_configuration_is_shown_so_that_it_can_be_loaded(world: AdminWorld) -> None:
    world.problems = ()
    text = await world.get_text("configuration")

    assert text.startswith("# No warnings.\n---\n")
    assert load_text(text) == world.configuration
    answer = await world.get_json("configuration")
    assert answer["problems"] == []
    assert {one["kind"] for one in answer["documents"]} == {"Server", "PriorityLevel", "FlowSchema"}


async def test_warnings_are_shown_above_the_configuration(world: AdminWorld) -> None:
    await world.get_text("configuration")
    warning = Problem(Place("apf.yaml", 1, 7), "spec", "a\nb: {}", "it is odd\nkind: Server", "", Severity.WARNING)
    world.problems = [warning]

    first, *rest = (await world.get_text("configuration")).splitlines()

    assert first.startswith("# apf.yaml:7 (document 1): warning: spec is")
    assert rest[0] == "---"
    [problem] = (await world.get_json("configuration"))["problems"]
    assert (problem["line"], problem["rule"]) == (7, "it is odd\nkind: Server")


async def test_another_configuration_is_written_anew(world: AdminWorld) -> None:
    before = await world.get_text("configuration")
    world.configuration = load_text(CONFIG.replace("seats: 2", "seats: 77").replace("DISCIPLINE", "equal-serial"))

    after = await world.get_text("configuration")

    assert "seats: 2\n" in before
    assert "seats: 77\n" in after
    assert (await world.get_json("configuration"))["documents"][0]["spec"]["seats"] == 77
