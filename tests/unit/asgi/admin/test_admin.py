"""Authorization, paths and formats of the admin."""

import json

import pytest
from starlette.types import Scope

from apf_middleware.asgi.admin import Admin
from apf_middleware.asgi.admin.protocol import MARK
from apf_middleware.classification import ANONYMOUS, Identity
from apf_middleware.config.admin import AdminSettings
from tests.support.admin_world import OLGA, PATH, WALL, AdminWorld
from tests.support.asgi_exchange import http_scope, websocket_scope

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def world() -> AdminWorld:
    return AdminWorld()


@pytest.mark.parametrize(
    "identity",
    [
        ANONYMOUS,
        Identity("system:anonymous", ("operators", "system:authenticated")),
        Identity("mallory", ("operators", "system:unauthenticated", "system:authenticated")),
        Identity("mallory", ("operators",)),
        Identity(""),
    ],
)
@pytest.mark.parametrize("page", ["dump_requests", "openapi.json", "nothing/here", ""])
async def test_a_caller_without_credentials_gets_a_challenge(world: AdminWorld, identity: Identity, page: str) -> None:
    status, headers, body = await world.get(page, identity)

    assert status == 401
    assert headers["www-authenticate"] == 'Bearer realm="apf"'
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body)["type"] == "urn:apf:admin:unauthenticated"


@pytest.mark.parametrize("page", ["dump_requests", "openapi.json", "nothing/here", ""])
async def test_a_caller_in_no_allowed_group_is_refused_for_any_page(world: AdminWorld, page: str) -> None:
    status, headers, body = await world.get(page, Identity("bob", ("users", "system:authenticated")))

    assert status == 403
    assert "www-authenticate" not in headers
    assert "operators" not in body


async def test_one_group_of_several_is_enough(world: AdminWorld) -> None:
    status, _, _ = await world.get("flows", Identity("ada", ("users", "auditors", "system:authenticated")))

    assert status == 200


async def test_without_groups_there_is_no_admin(world: AdminWorld) -> None:
    admin = Admin(world, AdminSettings(), lambda: WALL)

    assert not admin.is_for(http_scope(f"{PATH}/dump_queues"))


@pytest.mark.parametrize(
    ("scope", "is_its"),
    [
        (http_scope(PATH), True),
        (http_scope(f"{PATH}/"), True),
        (http_scope(f"{PATH}/anything/else", "DELETE"), True),
        (http_scope(f"/api{PATH}/flows", root_path="/api"), True),
        (http_scope(f"{PATH}x"), False),
        (http_scope(f"/api{PATH}/flows"), False),
        (http_scope("/"), False),
        (websocket_scope(f"{PATH}/flows"), True),
        (websocket_scope(f"{PATH}x"), False),
    ],
)
def test_everything_below_its_path_is_the_admins(world: AdminWorld, scope: Scope, *, is_its: bool) -> None:
    assert world.admin.is_for(scope) is is_its


async def test_a_dump_cannot_be_changed(world: AdminWorld) -> None:
    status, headers, _ = await world.get("flows", method="POST")

    assert (status, headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
async def test_a_reload_is_a_post_request(world: AdminWorld, method: str) -> None:
    status, headers, _ = await world.get("reload", method=method)

    assert (status, headers["allow"], world.reloads) == (405, "POST", 0)


async def test_head_has_the_headers_and_no_body(world: AdminWorld) -> None:
    status, headers, body = await world.get("flows", method="HEAD")

    assert (status, body) == (200, "")
    assert int(headers["content-length"]) > 0


async def test_an_unknown_page_lists_the_known_ones(world: AdminWorld) -> None:
    for page in ("", "dump", "flows/", "dump_queues/x"):
        status, _, body = await world.get(page)

        assert status == 404
        assert "dump_priority_levels, dump_queues, dump_requests, configuration, flows, fleet, queues, gates" in body


async def test_every_response_has_the_mark_and_is_not_cached(world: AdminWorld) -> None:
    for page, identity in (("flows", OLGA), ("nothing", OLGA), ("flows", ANONYMOUS)):
        _, headers, _ = await world.get(page, identity)

        assert headers[MARK] == "1"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("accept", "query", "is_json"),
    [
        ("", "", False),
        ("*/*", "", False),
        ("application/json", "", True),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "", False),
        ("application/json;q=0.5, text/plain", "", False),
        ("text/plain;q=0.5, application/json", "", True),
        ("application/json;q=0", "", False),
        ("application/json;q=x", "", True),
        ("application/json", "?format=text", False),
        ("text/plain", "?format=json", True),
    ],
)
async def test_the_caller_chooses_the_format(world: AdminWorld, accept: str, query: str, *, is_json: bool) -> None:
    _, headers, _ = await world.get(f"dump_priority_levels{query}", headers={"Accept": accept})

    assert headers["content-type"] == ("application/json" if is_json else "text/plain; charset=utf-8")
    assert headers["vary"] == "accept"


@pytest.mark.parametrize("page", ["flows?format=xml", "flows?by=name"])
async def test_invalid_parameters_are_reported(world: AdminWorld, page: str) -> None:
    status, _, body = await world.get(page)

    assert status == 400
    assert "must be" in json.loads(body)["detail"]
