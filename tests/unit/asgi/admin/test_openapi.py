"""The OpenAPI description: valid for version 3.1, complete, and matched by every answer."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from fastapi.openapi.models import OpenAPI

from apf_middleware.asgi.admin.openapi import describe
from apf_middleware.classification import Identity
from apf_middleware.snapshots.fleet import FleetFlowSnapshot, FleetLevelSnapshot, FleetMemberSnapshot
from tests.support.admin_world import PATH, AdminWorld, busy
from tests.support.json_schema import wrong

pytestmark = pytest.mark.anyio

PAGES = {
    "dump_priority_levels": "Levels",
    "dump_queues": "Queues",
    "dump_requests": "Requests",
    "dump_requests?includeRequestDetails=1": "Requests",
    "configuration": "Configuration",
    "flows": "Flows",
    "fleet": "Fleet",
}


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(describe(PATH, "/api")))
    return found


def test_it_is_openapi_as_fastapi_understands_it(description: dict[str, Any]) -> None:
    parsed = OpenAPI.model_validate(description)

    assert description["openapi"] == "3.1.0"
    assert parsed.servers is not None
    assert [server.url for server in parsed.servers] == ["/api"]
    assert [server["url"] for server in describe(PATH, "")["servers"]] == ["/"]
    operations = [operation for one in description["paths"].values() for operation in one.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations) > 6
    for operation in operations:
        assert {"401", "403"} < set(operation["responses"])
        assert len({"200", "201"} & set(operation["responses"])) == 1


async def test_it_is_served_and_lists_all_pages(description: dict[str, Any]) -> None:
    world = AdminWorld()
    served = json.loads(await world.get_text("openapi.json"))
    pages = re.findall(r"[\w.]+(?=[,.])", (await world.get("nothing"))[2].partition("Here are ")[2])

    assert served["paths"] == description["paths"]
    assert {path.removeprefix(f"{PATH}/").partition("/")[0] for path in served["paths"]} == set(pages)
    for path, item in served["paths"].items():
        for method in ("get", "post", "patch", "delete"):
            page = path.removeprefix(f"{PATH}/").replace("{name}", "crowd")
            status, headers, _ = await world.get(page, method=method.upper())
            assert (status == 405) == (method not in item)
            if status == 405:
                assert {one.lower() for one in headers["allow"].split(", ")} - {"head"} == set(item)


class ShownFleet:
    """A fleet with one member, which has answered already."""

    participant = member = property(lambda self: self)

    def ask(self) -> None:
        """Do nothing: the answer is there."""

    def members(self) -> tuple[FleetMemberSnapshot, ...]:
        return (
            FleetMemberSnapshot("m", is_allocator=True, seats=4, seats_in_use=3, demand=9, age=0.25, is_outdated=False),
        )

    def levels(self, names: Mapping[int, str]) -> tuple[FleetLevelSnapshot, ...]:
        named = [FleetFlowSnapshot(name, f"{number:016x}", 2, 1.5) for number, name in names.items()]
        return (FleetLevelSnapshot("crowd", 3, 9, 20, (*named, FleetFlowSnapshot(None, "00000000000000ff", 1, 1))),)


@pytest.mark.parametrize(("page", "name"), PAGES.items())
@pytest.mark.parametrize("discipline", ["equal-serial", "max-min-serial"])
async def test_every_answer_is_as_described(description: dict[str, Any], page: str, name: str, discipline: str) -> None:
    world = AdminWorld(discipline)
    world.fleet = ShownFleet()
    admissions = busy(world)
    world.time += 10**9
    world.release(admissions[-1])
    answer = await world.get_json(page)
    operation = description["paths"][f"{PATH}/{page.partition('?')[0]}"]["get"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]

    assert schema == {"$ref": f"#/components/schemas/{name}"}
    assert list(wrong(answer, schema, description)) == []
    key = next(key for key, value in answer.items() if isinstance(value, list) and value)
    del answer[key][0][next(iter(answer[key][0]))]
    assert name == "Configuration" or list(wrong(answer, schema, description)), "the check bites"


async def test_refusals_are_as_described(description: dict[str, Any]) -> None:
    world = AdminWorld()
    schema = {"$ref": "#/components/schemas/Problem"}
    for page, identity in (
        ("flows?by=x", None),
        ("flows", Identity("x")),
        ("flows", Identity("x", ("system:authenticated",))),
    ):
        status, headers, body = await (world.get(page, identity) if identity else world.get(page))

        assert str(status) in description["paths"][f"{PATH}/flows"]["get"]["responses"]
        assert headers["content-type"] == "application/problem+json"
        assert list(wrong(json.loads(body), schema, description)) == []


async def test_the_parameters_are_those_that_are_understood(description: dict[str, Any]) -> None:
    world = AdminWorld()
    for path, item in description["paths"].items():
        for parameter in item.get("get", {}).get("parameters", ()):
            schema = parameter["schema"]
            examples = schema.get("enum", schema.get("examples", ("1",)))
            for value in examples if parameter["in"] == "query" else ():
                page = f"{path.removeprefix(f'{PATH}/')}?{parameter['name']}={value}"
                assert (await world.get(page))[0] == 200
