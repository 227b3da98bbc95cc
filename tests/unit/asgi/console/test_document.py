"""The document that the page shows: complete, bounded, and in the form of JSON."""

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from apf_middleware.asgi.admin.formatting import Formatter
from apf_middleware.asgi.console import document
from apf_middleware.asgi.console.document import MOST_FLOWS, MOST_KEYS, MOST_PARKED, MOST_QUEUES, observe_console
from apf_middleware.config.problems import Place, Problem, Severity
from apf_middleware.fairqueuing import Reason
from apf_middleware.snapshots import GateSnapshot, ParkedRequest
from apf_middleware.snapshots.fleet import FleetFlowSnapshot, FleetLevelSnapshot, FleetMemberSnapshot
from tests.support.admin_world import SECOND, WALL, AdminWorld, busy


def shown(world: AdminWorld) -> dict[str, Any]:
    text = json.dumps(observe_console(world).as_json(Formatter(WALL)))
    found: dict[str, Any] = json.loads(text)
    return found


def test_levels_flows_and_queues_are_those_of_one_moment() -> None:
    world = AdminWorld()
    busy(world)
    found = shown(world)
    levels = {one["level"]: one for one in found["levels"]}
    traffic = {one["level"]: one for one in found["traffic"]}
    flows = {one["flow"]: one for one in found["flows"] if one["level"] == "crowd"}

    assert found["at"].startswith("2023-11-14T22:15:")
    assert (found["seats"], found["mode"], found["adaptive"], found["members"]) == (2, "on", None, [])
    assert (levels["crowd"]["seats_in_use"], levels["crowd"]["waiting"]) == (2, 3)
    assert (traffic["crowd"]["arrived"], traffic["crowd"]["at_once"]) == (5, 2)
    assert set(levels) == set(traffic) == {"catch-all", "crowd", "exempt"}
    assert (flows["alice"]["seats_in_use"], flows["alice"]["waiting"], flows["alice"]["seats_waiting"]) == (1, 2, 3)
    assert flows["alice"]["fair"] + flows["bob"]["fair"] + flows["carol\n"]["fair"] == pytest.approx(2, abs=0.01)
    assert found["present_flows"] == 4
    assert sum(one["waiting"] for one in found["queues"]) == 3
    assert len(found["wait_bounds"]) + 1 == len(traffic["crowd"]["waits"])


def test_waits_are_counted_when_they_end() -> None:
    world = AdminWorld()
    running = world.request("alice", seats=2)
    world.request("bob")
    world.time += SECOND
    world.release(running)
    traffic = next(one for one in shown(world)["traffic"] if one["level"] == "crowd")

    assert (traffic["at_once"], traffic["after_wait"], traffic["waited"], traffic["ended"]) == (1, 1, 1, 1)
    assert sum(traffic["waits"]) == 1


def test_the_oldest_wait_of_a_flow_is_shown() -> None:
    world = AdminWorld()
    world.request("alice", seats=2)
    world.request("bob")
    world.time += SECOND
    world.request("bob")
    flow = next(one for one in shown(world)["flows"] if one["flow"] == "bob")

    assert flow["oldest"] == 1


def test_flows_and_queues_are_bounded_whatever_clients_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.admin_world.CONFIG", _many_queues())
    world = AdminWorld()
    for number in range(400):
        world.request(f"{number} {'long' * 500}", entropy=number * 7919)
    found = shown(world)

    assert found["present_flows"] == 400
    assert len(found["flows"]) <= 3 * MOST_FLOWS
    assert found["waiting_queues"] > MOST_QUEUES
    assert len(found["queues"]) == MOST_QUEUES
    assert max(len(one["flow"]) for one in found["flows"]) <= 120
    assert len(json.dumps(found)) < 60_000
    assert found["queues"][0]["waiting"] == max(one["waiting"] for one in found["queues"])
    assert all(one["waiting"] >= sum(part["waiting"] for part in one["parts"]) for one in found["queues"])


def test_keys_of_gates_are_bounded_whatever_clients_send() -> None:
    world = AdminWorld()
    keys = [f"{'long' * 500} {number}" for number in range(400)]
    gates = [GateSnapshot("tenant", key, "capacity", "blocking", n, 1.0, 1, 1, 0, 0) for n, key in enumerate(keys, 1)]
    gates.append(GateSnapshot("db", None, "capacity", "passing", 0, None, 0, 5, 0, 0))
    parked = [
        ParkedRequest(n, "crowd", "all", "alice", "tenant", key, 1, "parked", n, n, 1) for n, key in enumerate(keys)
    ]
    world.controller.gates = SimpleNamespace(list=lambda: gates, parked=lambda: parked)  # type: ignore[assignment]
    found = shown(world)
    tenants = [one for one in found["gates"] if one["gate"] == "tenant"]

    assert [one["parked"] for one in tenants] == list(range(400, 400 - MOST_KEYS, -1))
    assert [(one["gate"], one["key"]) for one in found["gates"][MOST_KEYS:]] == [("db", None)]
    assert (found["other_keys"], found["parked_requests"]) == (400 - MOST_KEYS, sum(range(401)))
    assert len(found["parked"]) == MOST_PARKED
    assert {len(one["key"]) for one in (*tenants, *found["parked"])} == {120}
    assert len({one["key"] for one in tenants}) == MOST_KEYS, "keys that begin alike stay different"
    assert len(json.dumps(found)) < 20_000


def test_long_names_that_begin_alike_stay_different() -> None:
    world = AdminWorld()
    for last in "1212":
        world.request("x" * 200 + last)
    found = shown(world)
    names = {one["flow"] for one in found["flows"]}

    assert len(names) == 2
    assert {part["flow"] for queue in found["queues"] for part in queue["parts"]} <= names
    assert all(one.startswith("x" * 100) and len(one) == 120 for one in names)


def _many_queues() -> str:
    from tests.support.admin_world import CONFIG  # noqa: PLC0415 - before it is patched

    few, many = "{queues: 2, handSize: 2, queueLengthLimit: 3}", "{queues: 64, handSize: 4, queueLengthLimit: 50}"
    assert few in CONFIG
    return CONFIG.replace(few, many)


def test_problems_are_bounded() -> None:
    world = AdminWorld()
    place = Place("apf.yaml", 1, 2)
    world.problems = [Problem(place, "spec", number, "it is odd", severity=Severity.WARNING) for number in range(50)]
    found = shown(world)

    assert (len(found["problems"]), found["other_problems"]) == (document.MOST_PROBLEMS, 50 - document.MOST_PROBLEMS)
    assert found["problems"][0]["rule"] == "it is odd"


def test_rejections_are_those_of_the_level() -> None:
    world = AdminWorld()
    admissions = busy(world)
    waiting = next(one for one in admissions if not one.is_seated and not one.is_rejected)
    world.controller.abandon(waiting, Reason.TIME_OUT)
    level = next(one for one in shown(world)["levels"] if one["level"] == "crowd")

    assert level["rejected"]["time-out"] == 1


def test_changed_queues_are_counted() -> None:
    world = AdminWorld()
    assert shown(world)["drift"] == 0

    world.queues.operate("crowd", "pause")
    found = shown(world)

    assert found["drift"] == 1
    assert next(one for one in found["named_queues"] if one["name"] == "crowd")["state"] == "Paused"


class Member:
    """A member of a fleet, whose allocator answers each question before the next one."""

    def __init__(self) -> None:
        self.questions = 0

    def ask(self) -> None:
        self.questions += 1

    def members(self) -> tuple[FleetMemberSnapshot, ...]:
        return tuple(
            FleetMemberSnapshot(f"worker-{n}", n == 0, 3, 2, 5, 0.1, is_outdated=False) for n in range(self.questions)
        )

    def levels(self, names: Mapping[int, str]) -> tuple[FleetLevelSnapshot, ...]:
        flows = [FleetFlowSnapshot(name, f"{number:016x}", 5, 1) for number, name in names.items()]
        flows.append(FleetFlowSnapshot(None, "00000000000000ff", 1, 2.5))
        return (FleetLevelSnapshot("crowd", 4, 9, 120, tuple(flows)),) if self.questions else ()


def test_members_of_the_fleet_are_those_of_the_last_answer() -> None:
    world, member = AdminWorld(), Member()
    world.fleet = SimpleNamespace(participant=SimpleNamespace(member=member))

    assert shown(world)["members"] == []
    [one] = shown(world)["members"]
    assert (one["member"], one["is_allocator"], one["seats"], one["demand"]) == ("worker-0", True, 3, 5)


def test_levels_of_the_fleet_name_the_flows_that_have_requests_here() -> None:
    world, member = AdminWorld(), Member()
    world.fleet = SimpleNamespace(participant=SimpleNamespace(member=member))
    for number, flow in enumerate(("alice", "bob", "long" * 100), 1):
        world.request(flow, entropy=number)

    assert shown(world)["fleet_levels"] == []
    [level] = shown(world)["fleet_levels"]
    numbers = level["seats_in_use"], level["demand"], level["arrivals"]
    assert (level["level"], *numbers) == ("crowd", 4, 9, 120)
    names = {one["label"][-2:]: one["flow"] for one in level["flows"]}
    assert (names["01"], names["02"], names["ff"]) == ("alice", "bob", None)
    assert len(names["03"]) < 200, "clients may choose long names"
    assert level["flows"][-1] == {"flow": None, "label": "00000000000000ff", "demand": 1, "weight": 2.5}


def test_a_fleet_that_this_process_has_not_joined_has_no_members() -> None:
    world = AdminWorld()
    world.fleet = SimpleNamespace(participant=SimpleNamespace(member=None))

    assert (shown(world)["members"], shown(world)["fleet_levels"]) == ([], [])


def test_adaptive_seats_have_their_bounds_and_the_reason() -> None:
    world = AdminWorld()
    world.controller.adaptive = SimpleNamespace(bounds=SimpleNamespace(min=1, max=9), reason="grows")

    assert shown(world)["adaptive"] == {"seats": 2, "min": 1, "max": 9, "reason": "grows", "shared": False}
