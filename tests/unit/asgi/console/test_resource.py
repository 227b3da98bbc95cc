"""The console as a resource: which paths it has, and who gets an answer."""

import json
from typing import Any

import pytest
from starlette.types import Message

from apf_middleware.asgi.admin_pages import build_admin
from apf_middleware.asgi.console.assets import assets
from apf_middleware.asgi.console.resource import ConsoleResource
from apf_middleware.classification import ANONYMOUS, Identity
from apf_middleware.config.admin import AdminSettings
from tests.support.admin_world import OLGA, PATH, WALL, AdminWorld
from tests.support.asgi_exchange import http_scope

pytestmark = pytest.mark.anyio

AUDITOR = Identity("anna", ("auditors", "system:authenticated"))
STRANGER = Identity("sven", ("system:authenticated",))


class ConsoleWorld(AdminWorld):
    """A world whose admin has a console."""

    def __init__(self) -> None:
        super().__init__()
        settings = AdminSettings(groups=("auditors",), operators=("operators",), app="shop", console=True)
        self.admin = build_admin(self, settings, lambda: WALL)


async def greeting(world: AdminWorld, identity: Identity | None) -> dict[str, Any]:
    """Return the first event for a caller, who then disconnects; None is the owner."""
    sent: list[Message] = []
    received = False

    async def receive() -> Message:
        nonlocal received
        received = True
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    if identity is None:
        await world.admin.answer_owner(http_scope("/console/events"), receive, send, "uid:1000")
    else:
        await world.admin.answer(http_scope(f"{PATH}/console/events"), receive, send, identity)
    assert received
    start, first = sent[:2]
    assert start["status"] == 200
    assert dict(start["headers"])[b"content-type"] == b"text/event-stream"
    assert dict(start["headers"])[b"cache-control"] == b"no-store"
    found: dict[str, Any] = json.loads(first["body"].decode().split("data: ")[1].split("\n")[0])
    return found


def test_it_has_the_page_its_files_and_the_events() -> None:
    found = ConsoleResource(AdminWorld(), "shop", lambda: WALL)

    assert all(found.find([name]) is not None for name in (*set(assets()) - {"index.html"}, "", "events"))
    assert found.find([]) is not None
    for missing in (["index.html"], ["nothing.js"], ["console.css", ""], ["..", "assets.py"], ["../assets.py"]):
        assert found.find(missing) is None


async def test_a_path_without_its_slash_leads_to_the_page() -> None:
    status, headers, _ = await ConsoleWorld().get("console")

    assert (status, headers["location"]) == (308, "console/")


@pytest.mark.parametrize("page", ["console", "console/", "console/console.js", "console/events"])
async def test_it_is_open_to_nobody_else_than_the_rest_of_the_admin(page: str) -> None:
    world = ConsoleWorld()

    assert (await world.get(page, ANONYMOUS))[0] == 401
    assert (await world.get(page, STRANGER))[0] == 403


async def test_files_are_sent_to_authorized_callers() -> None:
    world = ConsoleWorld()
    status, headers, body = await world.get("console/", AUDITOR)
    again, _, nothing = await world.get("console/", AUDITOR, {"If-None-Match": headers["etag"]})

    assert status == 200
    assert body.startswith("<!doctype html>")
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert (again, nothing) == (304, "")


async def test_the_greeting_says_who_the_caller_is_and_what_is_allowed() -> None:
    world = ConsoleWorld()
    auditor, operator = await greeting(world, AUDITOR), await greeting(world, OLGA)

    assert (auditor["actor"], auditor["may_change"]) == ("anna", False)
    assert (operator["actor"], operator["may_change"]) == ("olga", True)
    assert operator["worker"]["app"] == "shop"


async def test_without_the_setting_only_the_owner_has_it() -> None:
    world = ConsoleWorld()
    world.admin = build_admin(world, AdminSettings(operators=("operators",)), lambda: WALL)
    status, _, body = await world.get("console/")

    assert status == 404
    assert "console" not in body.partition("Here are")[2]
    assert (await greeting(world, None))["may_change"] is True


async def test_nothing_is_changed_below_it() -> None:
    assert (await ConsoleWorld().get("console/events", method="POST"))[0] == 405
