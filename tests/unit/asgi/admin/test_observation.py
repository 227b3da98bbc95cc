"""Levels, queues and requests as they are observed."""

import pytest

from apf_middleware.asgi.admin.observation import ObservedRequest, count_present, observe_flows, observe_requests
from apf_middleware.snapshots.requests import HeldSnapshot
from tests.support.admin_world import SECOND, AdminWorld, busy
from tests.support.dumps import cells

pytestmark = pytest.mark.anyio


@pytest.fixture
def world() -> AdminWorld:
    return AdminWorld()


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


async def test_seats_are_shared_fairly_between_the_flows_of_a_level(world: AdminWorld) -> None:
    world.request("heavy", seats=2)
    for _ in range(3):
        world.request("heavy")
    world.request("light", weight=3)
    flows = {one.flow: one for one in observe_flows(world, 5)}

    assert (flows["heavy"].seats_in_use, flows["heavy"].seats_waiting) == (2, 3)
    assert flows["light"].fair == 1  # no more than it wants, though its weight would allow more
    assert flows["heavy"].fair == 1


async def test_a_flow_without_requests_has_neither_a_share_nor_a_wait(world: AdminWorld) -> None:
    world.release(world.request("gone"))
    world.time += 5 * SECOND
    [flow] = observe_flows(world, 5)

    assert (flow.flow, flow.oldest, flow.fair, flow.weight) == ("gone", 0, None, None)


async def test_an_exempt_level_is_not_shared(world: AdminWorld) -> None:
    world.request("", level="exempt")
    [flow] = observe_flows(world, 5)

    assert (flow.seats_in_use, flow.fair) == (1, None)


async def test_flows_of_each_level_are_kept_if_asked_for(world: AdminWorld) -> None:
    for number in range(5):
        world.request("", level="exempt")
        world.request(f"flow-{number}")
    of_all, of_each = observe_flows(world, 1), observe_flows(world, 1, of_each_level=True)

    assert len({one.level for one in of_all if one.waiting or one.executing}) == 1
    assert {one.level for one in of_each} == {"crowd", "exempt"}


async def test_a_request_that_a_gate_holds_waits_but_asks_for_no_seats(world: AdminWorld) -> None:
    world.request("alice")
    [running] = observe_requests(world)
    held = ObservedRequest(
        *(running.admission, 0, None, running.work, 3, None),
        held_by=HeldSnapshot("db", 0, 1, "parked"),
    )
    present = count_present(world, [running, held])["crowd"]
    [flow] = present.values()

    assert (flow.waiting, flow.executing, flow.seats, flow.seats_waiting) == (1, 1, 1, 0)
    assert flow.fair == 1
