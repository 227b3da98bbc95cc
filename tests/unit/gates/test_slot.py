"""Slots: order, turns, bypasses, reservations and hints."""

import pytest

from apf_middleware.fairqueuing import Ticket, Work
from apf_middleware.gates import (
    QUEUE,
    SKIP,
    AcquisitionStage,
    Capacity,
    Condition,
    Gate,
    GateRequest,
    Hint,
    ParkDecision,
    Terms,
    Tokens,
)
from apf_middleware.gates.slot import Acquisition, Slot
from tests.support.gate_world import MS, SECOND, WIDE, GateWorld, OwnSwitch, Switch, asynchronous, level, polled


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
    assert world.errors == []
    assert gate.counters.events == 2


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


def acquisitions(*flows: str) -> list[Acquisition]:
    """Return requests of these flows, in the order of their arrival."""
    place = GateWorld().plain.levels["level"]
    return [
        Acquisition(
            Ticket(flow, 1, Work(1)),
            place,
            GateRequest("level", "schema", flow),
            number=number,
            now=0,
            limit_ns=SECOND,
        )
        for number, flow in enumerate(flows)
    ]


def _no_error(gate: Gate, error: BaseException) -> None:
    raise AssertionError(f"{gate!r} has failed") from error


def test_a_slot_is_reserved_for_a_request_that_was_bypassed_as_often_as_its_gate_allows() -> None:
    slot = Slot(Capacity("db", 1, Terms(most_bypasses=2)), "", _no_error)
    first, other = acquisitions("a", "b")
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


def test_a_request_that_an_event_could_not_help_may_leave() -> None:
    switch = Switch()
    gate = switch.gate(flush_ns=60 * SECOND)
    gate.hints["well"] = lambda name, request: Hint.QUEUE if request.state["me"] == name else Hint.SKIP
    world = GateWorld(gate, seats=5)
    for name in "abc":
        world.arrive(name, "switch", me=name)
    world.emit("well", payload="none of them")
    world.give_up("a")
    switch.answer = True
    assert world.emit("well", payload="c") == ["c"]
    world.give_up("b")
    world.finish("c")
    assert not world.scheduler.slots.of(gate)


def test_the_fair_order_decides_between_two_candidates() -> None:
    own = OwnSwitch()
    world = polled(own)
    for number in range(5):
        world.arrive(f"elephant{number}", "own", flow="elephant")
    world.arrive("mouse", "own", flow="mouse")
    own.answer = "lease"
    assert world.wait(20 * MS)[:2] == ["elephant0", "mouse"]


def test_a_useless_event_costs_no_request_its_turn() -> None:
    """A request that tried in vain used to start again, behind those that had been served while it waited."""

    def order(*, emits_events: bool) -> list[str]:
        world = GateWorld(Capacity("db", 1, WIDE), seats=20)
        world.arrive("first", "db", flow="few")
        world.arrive("wide", "db", flow="wide", width=4)
        for number in range(8):
            world.arrive(f"narrow {number}", "db", flow="narrow")
        while world.tickets:
            if emits_events:
                world.emit("db")
            world.finish(world.served[-1])
        return world.served

    assert order(emits_events=True) == order(emits_events=False)
    assert order(emits_events=False).index("wide") == 4


def test_a_slot_is_not_kept_for_a_request_that_an_event_could_not_help() -> None:
    switch = Switch()
    gate = switch.gate(most_bypasses=2)
    gate.hints["well"] = lambda _event, request: SKIP if request.state["me"] == "0" else QUEUE
    world = GateWorld(gate, seats=9)
    names = [str(number) for number in range(6)]
    for name in names:
        world.arrive(name, "switch", me=name)
    switch.answer = True
    assert world.emit("well") == names[1:]


def test_a_request_for_which_there_is_no_room_does_not_ask_after_another_was_stopped() -> None:
    world = GateWorld(Capacity("db", 4, WIDE, cost=lambda request: int(str(request.state["cost"]))), seats=5)
    for name, cost in (("runs", 3), ("large", 3), ("small", 2)):
        world.arrive(name, "db", flow=name, cost=cost)
    before = world.evaluated("db")
    assert world.emit("db") == []
    assert world.evaluated("db") == before + 1
    assert world.arrive("least", "db", flow="least", cost=1).is_waiting is False


def test_a_request_with_enough_time_waits_for_a_gate_where_only_other_levels_wait() -> None:
    world = GateWorld(Tokens("rate", 0.25, 1, terms=WIDE), levels={"first": level(2), "second": level(1)})
    world.arrive("a", "rate", to="first")
    world.arrive("b", "rate", to="first")
    assert world.arrive("c", "rate", to="second", limit_ns=4 * SECOND).is_waiting


def test_a_release_costs_no_more_than_three_evaluations_however_many_wait() -> None:
    db = Capacity("db", 1, WIDE)
    world = GateWorld(db, seats=5, careful=False)
    world.arrive("first", "db")
    for number in range(2_000):
        world.arrive(f"{number}", "db", flow=f"{number % 50}")
    before, name = db.counters.evaluated, "first"
    for _ in range(100):
        [name] = world.finish(name)
    assert db.counters.evaluated - before <= 300


def kept_for_big() -> GateWorld:
    """Return a world in which ``memory`` is reserved for ``big``, which waits there, and so does ``late``."""
    terms = Terms(max_parked=1000, most_bypasses=1, flush_ns=60 * SECOND)
    memory = Capacity("memory", 4, terms, cost=lambda request: int(str(request.state["size"])))
    world = GateWorld(memory, Switch().gate(flush_ns=60 * SECOND), seats=9, limit_ns=60 * SECOND)
    world.arrive("a", "memory", flow="a", size=1)
    world.arrive("big", "memory", "switch", flow="big", size=4)
    world.arrive("b", "memory", flow="b", size=1)
    world.finish("a")  # now it is the turn of ``big``, for which there is no room yet
    assert world.arrive("c", "memory", flow="c", size=1).is_seated
    assert world.arrive("late", "memory", flow="late", size=1).is_waiting
    assert world.slot("memory").holder is world.acquisition("big")
    return world


def test_a_reservation_lasts_while_its_request_waits_at_the_slot() -> None:
    world = kept_for_big()
    assert world.finish("b") == []
    assert world.acquisition("big").attempts == 3, "it has tried again, in vain"
    assert world.wait(30 * SECOND) == []


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("ends", ["the request leaves", "it lapses", "it lapses, although the request tries again"])
def test_a_slot_is_free_again_when_the_reservation_of_a_request_at_another_gate_ends(
    ends: str,
    is_closed: bool,  # noqa: FBT001
) -> None:
    world = kept_for_big()
    if is_closed:  # so that the request goes on to that gate without asking the first one
        world.arrive("other", "switch")
    world.finish("b")
    assert world.finish("c") == []
    assert world.acquisition("big").slot is world.slot("switch")
    assert world.slot("memory").holder is world.acquisition("big")
    if ends == "the request leaves":
        assert world.give_up("big") == ["late"]
    elif ends == "it lapses":
        assert world.wait(SECOND) == ["late"]
    else:
        served = world.wait(SECOND // 2)
        world.emit("well")
        assert served + world.wait(SECOND // 2) == ["late"]


def test_the_next_request_is_asked_about_when_a_candidate_that_waited_for_a_seat_is() -> None:
    world, checks = asynchronous()
    world.arrive("a", "remote")
    world.conclude(checks.pop(), ParkDecision())
    world.arrive("b", "remote")
    world.arrive("runs", flow="x")
    world.emit("well")
    assert checks == []
    world.finish("runs")
    assert len(checks) == 2


def test_of_several_reservations_that_of_the_earliest_request_counts() -> None:
    slot = Slot(Capacity("db", 1, Terms(most_bypasses=1)), "", _no_error)
    alike, earlier, due, holder, later = acquisitions("flow", "a", "b", "flow", "c")
    for one in (later, holder, due):
        slot.note_bypass(one)
    slot.reserve(later)
    slot.reserve(holder)
    assert slot.holder is holder
    kept = [slot.is_kept_from(one, 1) for one in (alike, earlier, due, holder, later)]
    assert kept == [False, True, False, False, True]


def test_a_hint_is_asked_about_all_events_since_a_request_was_stopped_and_no_earlier_ones() -> None:
    gate = Switch().gate()
    gate.hints["well"] = lambda helps, _request: QUEUE if helps else SKIP
    slot, [waits] = Slot(gate, "", _no_error), acquisitions("flow")
    slot.open(("well", True))
    slot.open(("well", False))
    assert slot.may_help(waits, 0)
    assert not slot.may_help(waits, 1)
    for _ in range(100):
        slot.open(("well", False))
    assert slot.may_help(waits, 0), "more events than are remembered may help"
    assert not slot.may_help(waits, slot.opening - 1)


def test_a_slot_stays_shut_for_small_requests_when_a_large_one_is_stopped() -> None:
    switch = Switch()
    gate = Condition("switch", switch, WIDE, cost=lambda request: int(str(request.state["cost"])))
    world = GateWorld(gate, seats=5)
    world.arrive("small", "switch", flow="small", cost=1)
    world.arrive("large", "switch", flow="large", cost=4)
    world.kick("large")
    assert [request.state["cost"] for request in switch.asked] == [1, 4]


def test_levels_take_turns_also_with_requests_for_which_there_is_no_room() -> None:
    memory = Capacity("memory", 4, WIDE, cost=lambda request: int(str(request.state["size"])))
    world = GateWorld(memory, levels=dict.fromkeys(("runs", "x", "y", "new"), level(1)))
    world.arrive("runs", "memory", to="runs", size=1)
    for number in range(4):
        for name in "xy":
            world.arrive(f"{name}{number}", "memory", to=name, size=4)
    order = []
    for number in range(6):
        if number == 4:
            world.arrive("new0", "memory", to="new", size=4)
            world.arrive("new1", "memory", to="new", size=4)
        world.emit("memory")
        first = world.slot("memory").first
        assert first is not None
        order.append(next(name for name, ticket in world.tickets.items() if ticket is first.ticket))
        world.give_up(order[-1])
    assert order[:4] == ["x0", "y0", "x1", "y1"]
    assert {name[:-1] for name in order[4:]} != {"new"}
