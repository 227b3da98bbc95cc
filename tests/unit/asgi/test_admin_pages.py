"""The admin that follows from its settings."""

import json

import pytest

from apf_middleware.asgi.admin_pages import build_admin
from apf_middleware.config.admin import AdminSettings
from tests.support.admin_world import PATH, WALL, AdminWorld

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("has_console", [False, True])
async def test_the_console_is_described_if_it_is_there(*, has_console: bool) -> None:
    world = AdminWorld()
    world.admin = build_admin(world, AdminSettings(operators=("operators",), console=has_console), lambda: WALL)
    described = json.loads(await world.get_text("openapi.json"))["paths"]

    assert (f"{PATH}/console/" in described) is has_console
    assert (f"{PATH}/console/events" in described) is has_console
    assert (await world.get("console/"))[0] == (200 if has_console else 404)
