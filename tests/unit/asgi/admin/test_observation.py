"""Levels, queues and requests as they are observed."""

import pytest

from tests.support.admin_world import SECOND, AdminWorld, busy

pytestmark = pytest.mark.anyio


@pytest.fixture
def world() -> AdminWorld:
    return AdminWorld()


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]


async def test_a_removed_level_is_shown_as_quiescing(world: AdminWorld) -> None:
    busy(world)
    sharing = world.controller.sharing
    kept = {name: (level.settings, level.limits) for name, level in sharing.levels.items() if name != "crowd"}
    sharing.reconfigure(world.time, 2, kept)

    rows = cells(await world.get_text("dump_priority_levels"))

    assert rows[2][:6] == ["crowd", "2", "false", "true", "3", "2"]


async def test_a_resting_level_shows_the_request_that_is_alone_there(world: AdminWorld) -> None:
    world.request("alice")
    assert world.controller.levels["crowd"].shared.alone is not None

    rows = cells(await world.get_text("dump_priority_levels"))
    assert rows[2][2:7] == ["false", "false", "0", "1", "1"]
    [request] = (await world.get_json("dump_requests"))["requests"]
    assert (request["flow"], request["position"]) == ("alice", None)


async def test_those_that_run_are_shown_in_the_order_in_which_they_were_seated(world: AdminWorld) -> None:
    for number in range(9):
        world.time += SECOND
        world.request(f"{number}", level="exempt")

    assert [row[9][17:19] for row in cells(await world.get_text("dump_requests"))[1:]] == [
        f"{n:02}" for n in range(1, 10)
    ]


async def test_a_request_that_lingers_is_not_shown_as_running(world: AdminWorld) -> None:
    admissions = busy(world)
    world.release(admissions[-1])
    world.running.admissions.add(admissions[-1])  # even if the record should be late

    assert "exempt" not in await world.get_text("dump_requests")


async def test_old_amounts_are_forgotten_when_flows_are_read(world: AdminWorld) -> None:
    world.running.work.add(("crowd", "everybody", "alice"), 8 * SECOND)
    world.time += 60 * SECOND

    assert [flow["work"] for flow in (await world.get_json("flows"))["flows"]] == [4.0]
