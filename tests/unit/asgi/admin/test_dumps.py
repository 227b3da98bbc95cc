"""Dumps of a controller with a clock that the tests set."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from apf_middleware.asgi.admin.dumps import _LEVELS, _QUEUES, _REQUESTS, PORTION, Cells, write_json, write_text
from apf_middleware.asgi.admin.formatting import short_name
from apf_middleware.classification import Classification, Identity
from apf_middleware.classification.text import abridge
from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.runtime import Admission, Destination
from tests.support.admin_world import SECOND, AdminWorld, busy
from tests.support.dumps import cells

pytestmark = pytest.mark.anyio


@pytest.fixture
def world() -> AdminWorld:
    return AdminWorld()


async def test_levels_are_shown_by_name(world: AdminWorld) -> None:
    admissions = busy(world)
    world.request("alice")
    world.request("alice")
    others = [world.request("alice") for _ in range(3)]
    world.controller.abandon(admissions[3], Reason.CANCELLED)
    world.controller.abandon(admissions[4], Reason.TIME_OUT)
    world.controller.abandon(admissions[2], Reason.TIME_OUT)
    assert [one.reason for one in others].count(Reason.QUEUE_FULL) == 2

    _, *rows = cells(await world.get_text("dump_priority_levels"))

    assert rows == [
        ["catch-all", "0", "true", "false", "0", "0", "0", "0", "0", "0"],
        ["crowd", "2", "false", "false", "3", "2", "2", "5", "2", "1"],
        ["exempt", "0", "false", "false", "0", "1", "1", "0", "0", "0"],
    ]


async def test_elastic_levels_have_a_column_for_their_caps(world: AdminWorld) -> None:
    levels = {name: replace(one, elastic=name == "crowd") for name, one in world.configuration.levels.items()}
    world.controller.reconfigure(replace(world.configuration, levels=levels))
    names, *rows = cells(await world.get_text("dump_priority_levels"))
    assert (names[-1], [row[-1] for row in rows]) == ("ElasticCap", ["<none>", "<none>", "<none>"])

    world.controller.cap({"crowd": 1}, 0)
    _, *rows = cells(await world.get_text("dump_priority_levels"))
    assert [row[-1] for row in rows] == ["<none>", "1", "<none>"]
    assert [level["cap"] for level in (await world.get_json("dump_priority_levels"))["levels"]] == [None, 1, None]


async def test_levels_as_json_tell_their_seats_too(world: AdminWorld) -> None:
    admissions = busy(world)
    world.release(admissions[-1])
    dump = await world.get_json("dump_priority_levels")
    crowd, exempt = dump["levels"][1:]

    assert dump["seats"] == 2
    assert [level["level"] for level in dump["levels"]] == ["catch-all", "crowd", "exempt"]
    wanted = {"waiting": 3, "seats_waiting": 4, "executing": 2, "seats_in_use": 2, "dispatched": 2, "nominal": 2}
    assert {key: crowd[key] for key in wanted} == wanted
    assert crowd["discipline"] == "equal-serial"
    assert crowd["meters"]["active_queues"] == 2
    assert crowd["rejected"] == {reason.value: 0 for reason in Reason}
    assert (exempt["executing"], exempt["lingering"], exempt["seats_in_use"], exempt["max"]) == (0, 1, 3, None)


async def test_requests_that_never_reached_their_level_count_there(world: AdminWorld) -> None:
    admission = Admission(world.request("alice").destination)
    world.controller.refuse(world.time, admission, Reason.SLOW_BODY)

    [crowd] = [one for one in (await world.get_json("dump_priority_levels"))["levels"] if one["level"] == "crowd"]
    assert {reason: number for reason, number in crowd["rejected"].items() if number} == {"slow-body": 1}


async def test_queues_are_shown_all_with_their_sums(world: AdminWorld) -> None:
    busy(world)
    _, *rows = cells(await world.get_text("dump_queues"))

    assert [row[:2] for row in rows] == [["catch-all", str(n)] for n in range(len(rows) - 2)] + [
        ["crowd", "0"],
        ["crowd", "1"],
    ]
    crowd = rows[-2:]
    assert sorted(int(row[2]) for row in crowd) == [1, 2]
    assert [row[3] for row in crowd] == ["1", "1"]
    assert [row[4] for row in crowd] == ["1", "1"]
    assert sum(int(row[6]) for row in crowd) == 4
    assert sum(int(row[7]) for row in crowd) == 4
    assert sum(float(row[8].removesuffix("ss")) for row in crowd) == pytest.approx(4 * 0.003)
    queues = (await world.get_json("dump_queues"))["queues"]
    assert [queue["next_dispatch_r"] for queue in queues[-2:]] == [row[5] for row in crowd]
    assert all(row[5].endswith("ss") for row in crowd)


async def test_next_dispatch_r_is_shown_as_upstreams_meters_would_hold_it() -> None:
    world = AdminWorld("equal-serial, strictUpstream: true")
    busy(world)
    before = (await world.get_json("dump_queues"))["queues"][-1]["next_dispatch_r"]
    discipline: Any = world.controller.levels["crowd"].shared.queueset.discipline
    discipline.epochs = 1

    after = (await world.get_json("dump_queues"))["queues"][-1]["next_dispatch_r"]

    assert float(before.removesuffix("ss")) - float(after.removesuffix("ss")) == pytest.approx((2**64 - 1) // 2 / 1e8)


@pytest.mark.parametrize("discipline", ["max-min-serial", "max-min-concurrent"])
async def test_a_discipline_without_that_meter_has_none_to_show(discipline: str) -> None:
    world = AdminWorld(discipline)
    busy(world)

    assert {row[5] for row in cells(await world.get_text("dump_queues"))[1:]} == {"<none>"}
    assert {queue["next_dispatch_r"] for queue in (await world.get_json("dump_queues"))["queues"]} == {None}


async def test_requests_are_shown_by_level_and_queue_the_waiting_first(world: AdminWorld) -> None:
    busy(world)
    _, *rows = cells(await world.get_text("dump_requests"))

    assert [row[0] for row in rows] == ["crowd"] * 5 + ["exempt"]
    assert [row[2:4] for row in rows[:5]] in (
        [["0", "0"], ["0", "1"], ["0", "-1"], ["1", "0"], ["1", "-1"]],
        [["0", "0"], ["0", "-1"], ["1", "0"], ["1", "1"], ["1", "-1"]],
    )
    never = "0001-01-01T00:00:00Z"
    assert all((row[9] == never) is (row[3] != "-1") for row in rows)
    assert {(row[4], row[5], row[6], row[9]) for row in rows[:5]} == {
        ("alice", "2023-11-14T22:15:00Z", "1", "2023-11-14T22:15:00Z"),
        ("bob", "2023-11-14T22:15:00Z", "1", "2023-11-14T22:15:00Z"),
        ("alice", "2023-11-14T22:15:00.5Z", "2", never),
        ("carol\\n", "2023-11-14T22:15:00.5Z", "1", never),
        ("alice", "2023-11-14T22:15:00.5Z", "1", never),
    }
    arrived = "2023-11-14T22:15:00.5Z"
    assert rows[5] == ["exempt", "exempt", "-1", "-1", "", arrived, "1", "3", "1.5s", arrived]


@pytest.mark.parametrize("value", ["1", "false", "yes"])
async def test_details_tell_whose_a_request_is_and_what_about(world: AdminWorld, value: str) -> None:
    busy(world)
    head, *rows = cells(await world.get_text(f"dump_requests?includeRequestDetails={value}"))

    about = ["list", "/tenants/acme/orders\\n", "acme", "number-7", "shop/v1", "orders", "status"]
    assert head[10:] == ["UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"]
    assert {tuple(row[11:]) for row in rows} == {tuple(about)}
    assert rows[-1][10] == "user-"
    requests = (await world.get_json(f"dump_requests?includeRequestDetails={value}"))["requests"]
    assert {
        key: value for key, value in requests[-1].items() if isinstance(value, str) and not key.endswith("_at")
    } == {
        "level": "exempt",
        "schema": "exempt",
        "flow": "",
        "user": "user-",
        "verb": "list",
        "path": "/tenants/acme/orders\n",
        "namespace": "acme",
        "name": "number-7",
        "api_group": "shop",
        "api_version": "v1",
        "resource": "orders",
        "subresource": "status",
    }


@pytest.mark.parametrize("page", ["dump_requests", "dump_requests?includeRequestDetails="])
async def test_without_details_no_caller_is_named(world: AdminWorld, page: str) -> None:
    busy(world)

    assert "user-" not in await world.get_text(page)
    assert "APIPath" not in await world.get_text(page)
    assert "user" not in (await world.get_json(page))["requests"][0]


async def test_a_destination_that_cannot_tell_leaves_the_columns_empty(world: AdminWorld) -> None:
    place = Classification("exempt", "exempt", "", 0)
    admission = Admission(Destination(world.controller, place, Work(), Identity("bob")))
    world.controller.arrive(world.time, admission)
    world.running.note_seated(admission)

    [row] = cells(await world.get_text("dump_requests?includeRequestDetails=1"))[1:]

    assert row[10:] == ["bob", *[""] * 7]


async def test_requests_as_json_tell_the_same(world: AdminWorld) -> None:
    busy(world)
    requests = (await world.get_json("dump_requests"))["requests"]

    assert requests[-1] == {
        "level": "exempt",
        "schema": "exempt",
        "flow": "",
        "queue": None,
        "position": None,
        "arrived_at": "2023-11-14T22:15:00.5Z",
        "seated_at": "2023-11-14T22:15:00.5Z",
        "seats": 1,
        "final_seats": 3,
        "linger": 1.5,
        "width": 3,
        "weight": 1,
        "held_by": None,
    }
    assert sorted(one["flow"] for one in requests) == ["", "alice", "alice", "alice", "bob", "carol\n"]


async def test_heavy_flows_are_shown_by_what_they_had_wanted_and_have(world: AdminWorld) -> None:
    admissions = busy(world)
    world.request("alice")
    for _ in range(5):
        world.request("dave")
    world.time += SECOND
    world.release(admissions[0])

    flows = {flow["flow"]: flow for flow in (await world.get_json("flows"))["flows"]}

    assert flows["alice"]["work"] == 1.5
    assert {key: flows["dave"][key] for key in ("work", "rejected", "waiting")} == {
        "work": 0.0,
        "rejected": 3,
        "waiting": 2,
    }
    assert (flows["bob"]["executing"], flows["bob"]["seats_in_use"]) == (1, 1)
    assert next(row[2] for row in cells(await world.get_text("flows"))[1:]) == "alice"
    assert next(row[2] for row in cells(await world.get_text("flows?by=rejected"))[1:]) == "dave"
    first = cells(await world.get_text("flows?by=waiting"))[1]
    assert int(first[7]) == max(flow["waiting"] for flow in flows.values())
    assert ["1.50000000ss", "0.00000000ss"] in [row[3:5] for row in cells(await world.get_text("flows"))]


async def test_weights_are_shown_of_requests_and_of_flows_that_have_some(world: AdminWorld) -> None:
    gold = [world.request("gold", weight=weight) for weight in (4, 0.5)]
    world.request("iron", weight=0.5)
    gone = world.request("", level="exempt")
    world.running.work.add(("crowd", "everybody", "past"), SECOND)
    world.release(gone)

    requests = (await world.get_json("dump_requests"))["requests"]
    flows = (await world.get_json("flows"))["flows"]
    rows = {row[2]: row[-1] for row in cells(await world.get_text("flows"))}

    assert sorted((one["flow"], one["weight"]) for one in requests) == [("gold", 0.5), ("gold", 4), ("iron", 0.5)]
    assert {flow["flow"]: flow["weight"] for flow in flows} == {"gold": 4, "iron": 0.5, "past": None, "": None}
    assert rows == {"FlowDistinguisher": "Weight", "gold": "4", "iron": "0.5", "past": "<none>", "": "<none>"}
    assert [one.flow_weight for one in gold] == [4, 0.5]


async def test_no_more_than_the_heaviest_flows_are_shown(world: AdminWorld) -> None:
    for number in range(500):
        world.running.work.add(("crowd", "everybody", f"w{number}"), number)
        world.running.rejections.add(("crowd", "everybody", f"r{number}"), number)

    flows = (await world.get_json("flows"))["flows"]

    assert len(flows) == 40
    assert [flow["flow"] for flow in flows[:2]] == ["w499", "w498"]


# Rows that Kubernetes wrote. Only the first of its queues is known; the second one has a longer NextDispatchR, as some
# queue must have had to make the first one's column as wide as it is.
LEVELS = """\
PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, WaitingRequests, ExecutingRequests, DispatchedRequests, \
RejectedRequests, TimedoutRequests, CancelledRequests
catch-all,         0,            true,   false,       0,               0,                 1,                  \
0,                0,                0
workload-high,     0,            true,   false,       0,               0,                 500,                \
0,                0,                0
"""

QUEUES = """\
PriorityLevelName, Index,  PendingRequests, ExecutingRequests, SeatsInUse, NextDispatchR,   InitialSeatsSum, \
MaxSeatsSum, TotalWorkSum
workload-low,      14,     27,              0,                 0,          77.64342019ss,   270,             \
270,         0.81000000ss
workload-low,      24,     0,               26,                266,        4871.76000000ss, 0,               \
0,           0.00000000ss
"""

REQUESTS = """\
PriorityLevelName, FlowSchemaName,   QueueIndex, RequestIndexInQueue, FlowDistingsher,                        \
ArriveTime,                     InitialSeats, FinalSeats, AdditionalLatency, StartTime
exempt,            exempt,           -1,         -1,                  ,                                       \
2023-07-15T04:51:25.596404345Z, 1,            0,          0s,                2023-07-15T04:51:25.596404345Z
workload-low,      service-accounts, 14,         0,                   system:serviceaccount:default:loadtest, \
2023-07-18T00:12:51.386556253Z, 10,           0,          0s,                0001-01-01T00:00:00Z
"""


@pytest.mark.parametrize(("columns", "text"), [(_LEVELS, LEVELS), (_QUEUES, QUEUES), (_REQUESTS, REQUESTS)])
async def test_tables_are_spaced_as_upstreams_to_the_byte(columns: Cells, text: str) -> None:
    rows = [tuple(cell.strip() for cell in line.split(",")) for line in text.splitlines()[1:]]

    assert (await write_text(columns, rows, lambda row: row)).decode() == text


async def test_a_table_without_rows_is_its_head() -> None:
    assert await write_text(("A", "LongerThanEight", "C"), [], lambda row: row) == b"A,      LongerThanEight, C\n"


async def test_widths_are_counted_in_characters_over_all_portions() -> None:
    rows = [("é" * (9 if number == PORTION + 3 else 1), "x") for number in range(2 * PORTION)]
    lines = (await write_text(("A", "B"), rows, lambda row: row)).decode().splitlines()

    assert len(lines) == 2 * PORTION + 1
    assert lines[0] == "A,         B"
    assert lines[PORTION + 4] == "ééééééééé, x"
    assert {len(line) for line in lines} == {12}


@pytest.mark.parametrize("number", [0, 1, PORTION, PORTION + 1, 3 * PORTION])
async def test_json_is_whole_however_many_portions_it_is_written_in(number: int) -> None:
    written = await write_json("rows", list(range(number)), lambda rows: [{"number": row} for row in rows], seats=7)

    assert json.loads(written) == {"seats": 7, "rows": [{"number": row} for row in range(number)]}


@pytest.mark.parametrize("as_json", [True, False])
async def test_others_have_their_turn_between_portions(*, as_json: bool) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    rows = list(range(10 * PORTION))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        if as_json:
            await write_json("rows", rows, lambda rows: [{"row": row} for row in rows])
        else:
            await write_text(("A", "B"), rows, lambda row: (str(row), ""))
        tasks.cancel_scope.cancel()

    assert turns >= 9  # trio chooses at random which of two tasks runs first, so perhaps not after the last portion


@pytest.mark.parametrize(
    ("query", "flows"),
    [
        ("flow=alice", ["alice", "alice", "alice"]),
        ("level=crowd&schema=everybody&flow=bob", ["bob"]),
        ("level=exempt", [""]),
        ("flow=nobody", []),
        ("flow=alice&most=2", ["alice", "alice"]),
        ("flow=alice&most=x", ["alice", "alice", "alice"]),
        ("most=0", []),
        ("flow=bob&most=" + "9" * 5000, ["bob"]),
    ],
)
async def test_requests_of_one_flow_may_be_asked_for(query: str, flows: list[str]) -> None:
    world = AdminWorld()
    busy(world)
    found = (await world.get_json(f"dump_requests?{query}"))["requests"]

    assert [one["flow"] for one in found] == flows


async def test_requests_of_a_flow_that_is_known_by_a_hash_are_found_by_its_whole_name() -> None:
    world = AdminWorld()
    world.request(abridge("x" * 300))
    found = (await world.get_json(f"dump_requests?flow={'x' * 300}"))["requests"]

    assert [request["flow"] for request in found] == [abridge("x" * 300)]


async def test_requests_of_a_long_flow_are_found_by_its_short_name() -> None:
    world = AdminWorld()
    one, other = "x" * 200 + "1", "x" * 200 + "2"
    world.request(one)
    world.request(other)
    found = (await world.get_json(f"dump_requests?flow={quote(short_name(one))}"))["requests"]

    assert [request["flow"] for request in found] == [one]
