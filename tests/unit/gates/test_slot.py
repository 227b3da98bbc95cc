"""Slots: order, turns, bypasses, reservations and hints."""

import pytest

from apf_middleware.fairqueuing import Ticket, Work
from apf_middleware.gates import (
    QUEUE,
    SKIP,
    AcquisitionStage,
    Capacity,
    GateRequest,
    Hint,
    ParkDecision,
    Terms,
)
from apf_middleware.gates.slot import Acquisition, Slot
from tests.support.gate_world import SECOND, WIDE, GateWorld, Switch, asynchronous, level


def test_a_request_that_parks_again_blocks_no_other_and_keeps_its_place_in_its_flow() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), seats=1)
    world.arrive("first", "switch", flow="x")
    world.arrive("second", "switch", flow="x")
    world.emit("well")
    assert world.arrive("other", flow="y").is_seated
    world.finish("other")
    switch.answer = True
    world.emit("well")
    assert world.finish("first") == ["second"]


def test_an_event_that_a_hint_excludes_changes_nothing() -> None:
    world, checks = asynchronous(SKIP)
    world.arrive("a", "remote")
    world.emit("well")
    world.conclude(checks[0], ParkDecision())
    assert world.acquisition("a").stage is AcquisitionStage.PARKED
    assert len(checks) == 1


@pytest.mark.parametrize(("hint", "served"), [(QUEUE, ["a"]), (SKIP, [])])
def test_hints_say_which_of_the_parked_may_try(hint: Hint, served: list[str]) -> None:
    switch = Switch()
    gate = switch.gate()
    gate.hints["loaded"] = lambda event, request: hint if request.state["model"] == event else SKIP
    world = GateWorld(gate, seats=5)
    world.arrive("b", "switch", model="y")
    world.arrive("a", "switch", model="x")
    switch.answer = True
    before = len(switch.asked)
    assert world.emit("loaded", payload="x") == served
    assert len(switch.asked) - before == len(served)
    assert sorted(world.emit("well")) == sorted({"a", "b"} - set(served)), "an event without a hint helps all"


def test_a_hint_that_raises_counts_as_queue() -> None:
    switch = Switch()
    gate = switch.gate()

    def broken(_event: object, _request: GateRequest) -> Hint:
        raise LookupError("a bug")

    gate.hints["well"] = broken
    world = GateWorld(gate)
    world.arrive("a", "switch")
    switch.answer = True
    assert world.emit("well") == ["a"]
    assert gate.counters.evaluations["error"] == 1
    assert [str(error) for error in world.errors] == ["a bug"]


def test_a_large_request_is_bypassed_at_most_the_configured_number_of_times() -> None:
    memory = Capacity(
        "memory", 4, Terms(max_parked=1000, most_bypasses=3), cost=lambda request: int(str(request.state["size"]))
    )
    world = GateWorld(memory, seats=100)
    for number in range(4):
        world.arrive(f"s{number}", "memory", size=1, flow=f"s{number}")
    world.arrive("big", "memory", size=4, flow="big")
    for number in range(4, 20):
        world.arrive(f"s{number}", "memory", size=1, flow=f"s{number}")
        if number - 4 < len(world.served):
            world.finish(world.served[number - 4])
    while "big" not in world.served:
        world.finish(next(name for name in world.served if name in world.tickets))
    assert world.served.index("big") <= 4 + 3


def test_a_candidate_gives_way_to_an_earlier_request_of_its_flow_from_another_gate() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), Capacity("db", 1, WIDE), levels={"a": level(1), "b": level(1)})
    world.arrive("earlier", "switch", "db", to="a")
    world.arrive("runs", "db", to="b")
    world.arrive("later", "db", to="a")
    world.arrive("sits", to="a", flow="other")
    world.finish("runs")  # now the later one may try, and waits for a seat
    world.arrive("runs too", "db", to="b")
    switch.answer = True
    world.emit("well")  # and the earlier one comes to the gate, which is shut
    world.finish("runs too")
    assert world.finish("sits") == ["earlier"]
    assert world.finish("earlier") == ["later"]


def test_a_reserved_request_does_not_overtake_an_earlier_one_of_its_flow() -> None:
    switch = Switch()
    memory = Capacity("memory", 4, Terms(most_bypasses=1), cost=lambda request: int(str(request.state["size"])))
    world = GateWorld(switch.gate(), memory, seats=10)
    world.arrive("earlier", "switch", "memory", size=4)
    world.arrive("runs", "memory", size=1, flow="small")
    world.arrive("big", "memory", size=4)
    world.arrive("passes", "memory", size=1, flow="small")
    switch.answer = True
    world.emit("well")
    world.finish("runs")
    assert world.finish("passes") == ["earlier"]
    assert world.finish("earlier") == ["big"]


def test_levels_that_wait_for_the_same_gate_take_turns() -> None:
    """Where seats are free, who came first used to take all that was given back, for as long as it had more."""
    world = GateWorld(Capacity("db", 1, WIDE), levels={"a": level(10), "b": level(10)})
    for number in range(20):
        world.arrive(f"a{number}", "db", to="a")
        world.arrive(f"b{number}", "db", to="b")
    for _ in range(20):
        world.finish(world.served[-1])
    assert sum(name.startswith("a") for name in world.served[1:]) == 10


def test_small_requests_bypass_a_large_one_that_waits() -> None:
    memory = Capacity("memory", 4, WIDE, cost=lambda request: int(str(request.state["size"])))
    world = GateWorld(memory, seats=100)
    world.arrive("a", "memory", size=3)
    world.arrive("big", "memory", size=4, flow="big")
    assert world.arrive("small", "memory", size=1, flow="small").is_seated


def test_a_slot_is_reserved_for_a_request_that_was_bypassed_as_often_as_its_gate_allows() -> None:
    world = GateWorld()
    slot = Slot(Capacity("db", 1, Terms(most_bypasses=2)), "", lambda _gate, _error: None)
    first, other = (
        Acquisition(
            Ticket(flow, 1, Work(1)),
            world.plain.levels["level"],
            GateRequest("level", "schema", flow),
            number=number,
            now=0,
            limit_ns=SECOND,
        )
        for number, flow in enumerate(("a", "b"))
    )
    for bypasses, is_due in ((1, False), (2, True), (3, True)):
        slot.note_bypass(first)
        slot.reserve(first)
        assert (first.bypasses, first.is_due) == (bypasses, is_due)
        assert (slot.holder is first) is slot.is_kept_from(other, 1) is is_due
    assert len(first.reservations) == 1

    first.reservations[0].end()
    assert slot.holder is None
    assert not slot.is_kept_from(other, 1)


def test_a_turn_that_another_gate_prevents_counts_as_a_bypass() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), Capacity("db", 1, WIDE), seats=10)
    world.arrive("runs", "db", flow="other")
    world.arrive("both", "switch", "db")
    assert world.acquisition("both").bypasses == 0
    switch.answer = True
    world.emit("well")
    assert world.acquisition("both").slot is world.slot("db")
    assert world.acquisition("both").bypasses == 1
