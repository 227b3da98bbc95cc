"""What the kube-scheduler's queue is tested for upstream, told of requests that wait for gates."""

from typing import TYPE_CHECKING, Any

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import DISCIPLINES, Adjusting, Lending, Reason
from apf_middleware.gates import (
    QUEUE,
    SKIP,
    Capacity,
    Condition,
    CustomGate,
    Gate,
    GateRequest,
    Gates,
    Hint,
    Park,
    Probe,
    Reject,
    Stage,
    Terms,
    Tokens,
)
from apf_middleware.gates.gate import FIRST_PAUSE_NS
from apf_middleware.gates.slot import MOST_CHECKS
from apf_middleware.gates.timers import pause, spread
from tests.unit.gates.gateworld import MS, SECOND, GateWorld, level

if TYPE_CHECKING:
    from collections.abc import Callable

WIDE = Terms(max_parked=100_000)


class Switch:
    """A dependency that is well or not, and how often somebody has looked."""

    def __init__(self, answer: object = False) -> None:  # noqa: FBT002
        self.answer = answer
        self.asked: list[GateRequest] = []

    def __call__(self, request: GateRequest) -> object:
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def gate(self, name: str = "switch", **terms: Any) -> Condition:  # noqa: ANN401
        return Condition(name, self, Terms(**{"max_parked": 100_000, "events": ("well",), **terms}), key=_key)


def _key(request: GateRequest) -> object:
    return request.state.get("key", "")


class OwnSwitch:
    """A gate of an app's own."""

    name = "own"
    poll = 0.01

    def __init__(self, answer: object = None) -> None:
        self.answer = Park() if answer is None else answer
        self.asked_at: list[int] = []
        self.world: GateWorld | None = None
        self.out = 0

    def try_acquire(self, _request: GateRequest, _key: object, _cost: int) -> object:
        assert self.world is not None
        self.asked_at.append(self.world.now)
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer == "lease":
            self.out += 1
        return self.answer

    def release(self, lease: object) -> None:
        assert lease == "lease"
        self.out -= 1


def polled(own: OwnSwitch, *more: Gate, limit_ns: int = 60 * SECOND, **terms: Any) -> GateWorld:  # noqa: ANN401
    gate = CustomGate(own, Terms(**{"max_parked": 100_000, "poll_ns": 10 * MS, **terms}))
    own.world = GateWorld(gate, *more, seats=10, limit_ns=limit_ns)
    return own.world


# Order, gates, back-off


@pytest.mark.parametrize("discipline", sorted(DISCIPLINES))
@pytest.mark.parametrize("share", [Lending, Adjusting])
def test_01_freed_seats_go_by_level_as_they_would_without_gates(discipline: str, share: type[Lending]) -> None:
    """With gates that let everybody pass, the order is the same as with none (12: neutrality)."""

    def order(*gates: str) -> list[str]:
        well = Switch(answer=True)
        levels = {"a": level(4), "b": level(2), "c": level(1)}
        world = GateWorld(well.gate(), levels=levels, share=share, discipline=DISCIPLINES[discipline])
        for number in range(10):
            for to in "abc":
                world.arrive(f"{to}{number}", *gates, to=to, flow=f"{number % 3}")
        while world.tickets:
            world.now += MS
            world.finish(next(name for name in world.served if name in world.tickets))
        return world.served

    assert order("switch") == order()


def test_02_an_arrival_that_may_pass_is_seated_in_its_own_step() -> None:
    world = GateWorld(Capacity("db", 1, WIDE))
    assert world.arrive("a", "db").is_seated
    assert world.sharing.next_event_at() is None


def test_03_whoever_waits_when_the_server_stops_leaves_nothing_behind() -> None:
    """That they are answered with 503 is shown where they are: tests/integration/test_gates.py."""
    world = GateWorld(Capacity("db", 1, WIDE), seats=5)
    for name in "abcd":
        world.arrive(name, "db")
    for name in "bcd":
        world.give_up(name, Reason.QUEUE_CLOSED)
    world.finish("a")
    assert not list(world.scheduler)
    assert not world.scheduler.slots.of(world.gate("db"))
    assert world.sharing.next_event_at() is None


def test_04_a_parked_request_knows_its_gate_and_runs_when_that_opens() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), Capacity("db", 1, WIDE))
    world.arrive("a", "db", "switch")
    slot = world.acquisition("a").slot
    assert slot is not None
    assert slot.gate.name == "switch"
    assert world.gate("db").used("") == 0, "the lease of before is given back in the same step"
    switch.answer = True
    assert world.emit("well") == ["a"]
    assert world.gate("db").used("") == 1


def test_05_when_the_second_gate_parks_the_first_lease_is_returned_without_an_event() -> None:
    switch = Switch()
    db = Capacity("db", 1, WIDE)
    world = GateWorld(db, switch.gate())
    world.arrive("a", "db", "switch")
    assert db.used("") == 0
    assert not world.scheduler.slots.of(db)
    assert db.counters.events == 0
    assert [slot.key for slot in world.scheduler.slots.of(world.gate("switch"))] == [""]


def test_06_a_request_in_backoff_whose_other_gate_closed_meanwhile_is_not_dispatched_when_the_pause_ends() -> None:
    own = OwnSwitch()
    world = polled(own, Capacity("db", 1, WIDE))
    world.arrive("a", "db", "own")
    own.answer = "lease"
    world.close("db")
    world.wait(20 * MS)
    assert world.served == []
    assert len(own.asked_at) == 1
    assert world.open("db") == ["a"]


def test_07_a_polled_gate_is_asked_after_pauses_that_double_and_never_early() -> None:
    own = OwnSwitch()
    world = polled(own)
    world.arrive("a", "own")
    world.wait(5 * SECOND)
    pauses = [later - earlier for earlier, later in zip(own.asked_at, own.asked_at[1:], strict=False)]
    assert pauses[:7] == [10 * MS, 20 * MS, 40 * MS, 80 * MS, 160 * MS, 320 * MS, 640 * MS]
    assert set(pauses[7:]) == {SECOND}


def test_07_no_pause_is_longer_than_a_quarter_of_the_wait_limit() -> None:
    own = OwnSwitch()
    world = polled(own, limit_ns=200 * MS)
    world.arrive("a", "own")
    world.wait(200 * MS)
    pauses = [later - earlier for earlier, later in zip(own.asked_at, own.asked_at[1:], strict=False)]
    assert max(pauses) == 50 * MS


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_07_pauses_are_spread_by_a_fifth(chance: float) -> None:
    assert spread(100, chance) == {0.0: 80, 0.5: 100, 1.0: 120}[chance]


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 3), (5, 48), (16, 100), (10_000, 100)])
def test_08_pauses_start_at_nothing_double_and_are_capped_without_overflow(count: int, expected: int) -> None:
    assert pause(count, 3, 100) == expected


def test_09_a_longest_pause_of_zero_disables_the_backoff() -> None:
    assert pause(5, FIRST_PAUSE_NS, 0) == 0


def test_10_errors_have_pauses_of_their_own_and_a_refusal_resets_them() -> None:
    own = OwnSwitch()
    world = polled(own, on_error="backoff")
    world.arrive("a", "own")
    world.wait(200 * MS)
    slot = world.acquisition("a").slot
    assert slot is not None
    assert slot.refusals == 5
    own.answer = OSError("down")
    while slot.errors < 4:
        world.wait(MS)
    assert own.asked_at[-1] - own.asked_at[-2] == 40 * MS, "the third pause of errors, not the eighth of refusals"
    own.answer = Park()
    world.wait(SECOND)
    assert slot.errors == 0
    own.answer = OSError("down")
    count = len(own.asked_at)
    while len(own.asked_at) == count:
        world.wait(10 * MS)
    asked_at = own.asked_at[-1]
    while own.asked_at[-1] == asked_at:
        world.wait(MS)
    assert own.asked_at[-1] - asked_at == 10 * MS


@pytest.mark.parametrize("answer", ["refusal", "error"])
def test_11_idle_seats_let_a_refused_one_try_before_its_pause_is_over_but_never_one_whose_gate_broke(
    answer: str,
) -> None:
    own = OwnSwitch(Park() if answer == "refusal" else OSError("down"))
    world = polled(own, on_error="backoff")
    world.arrive("other")
    world.arrive("other2", flow="x")
    world.arrive("a", "own")
    world.wait(75 * MS)
    assert own.asked_at[-1] == 70 * MS
    own.answer = "lease"
    world.wait(10 * MS)
    world.finish("other")
    assert world.served[2:] == (["a"] if answer == "refusal" else [])


def test_11_the_end_of_a_request_that_had_nothing_to_give_back_is_no_event() -> None:
    """A gate that is polled would be asked for each request that ends, whatever its pause."""
    switch = Switch(answer=True)
    world = GateWorld(switch.gate(poll_ns=SECOND), seats=50, limit_ns=60 * SECOND)
    for number in range(20):
        world.arrive(f"runs{number}", "switch")
    switch.answer = False
    world.arrive("waits", "switch")
    asked = len(switch.asked)
    world.now += MS
    for number in range(20):
        world.arrive(f"more{number}", flow="x")  # so that no seats idle, which may have it tried before its time
    for number in range(19):
        world.finish(f"runs{number}")
    assert len(switch.asked) == asked


def test_12_of_two_that_may_try_at_the_same_time_the_fair_order_decides() -> None:
    own = OwnSwitch()
    world = polled(own)
    for number in range(5):
        world.arrive(f"elephant{number}", "own", flow="elephant")
    world.arrive("mouse", "own", flow="mouse")
    own.answer = "lease"
    assert world.wait(20 * MS)[:2] == ["elephant0", "mouse"]


def test_13_a_request_that_parks_again_blocks_nobody_and_keeps_its_place_in_its_flow() -> None:
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


def test_14_a_lower_level_is_served_while_the_head_of_a_higher_one_is_parked() -> None:
    world = GateWorld(Switch().gate(), levels={"high": level(1, least=1), "low": level(2)})
    world.arrive("a", "switch", to="high")
    assert world.arrive("b", to="low").is_seated


def test_15_a_missed_event_is_made_up_for_and_counted() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), limit_ns=5 * SECOND)
    world.arrive("a", "switch")
    switch.answer = True  # and nobody tells
    assert world.wait(499 * MS) == []
    assert world.wait(MS) == ["a"]
    assert world.gate("switch").counters.rescues == 1


def test_15_a_rescue_in_vain_is_none() -> None:
    switch = Switch()
    world = GateWorld(switch.gate())
    world.arrive("a", "switch")
    world.wait(3 * SECOND + MS)
    assert len(switch.asked) == 4
    switch.answer = True
    world.emit("well")
    assert world.gate("switch").counters.rescues == 0


def test_15_a_time_that_has_passed_while_it_was_told_is_soon_made_up_for() -> None:
    """As of a remote gate whose answer was slow: nobody is told of it again, so it is asked again in a moment."""
    switch = Switch(Park(retry_at=0.5))
    world = GateWorld(switch.gate())
    world.now = SECOND
    world.arrive("a", "switch")
    asked = len(switch.asked)
    world.now = world.sharing.next_event_at() or 0
    assert SECOND < world.now <= SECOND + 20 * MS
    world.note(world.sharing.tick(world.now))
    assert len(switch.asked) == asked + 1


@pytest.mark.parametrize("poll_ns", [None, 10 * MS])
def test_15_a_time_that_has_passed_tells_nothing_so_the_gate_is_not_asked_again_at_once(poll_ns: int | None) -> None:
    """As of a breaker that was to be half-open by then, but isn't until somebody calls: it was asked without end."""
    switch = Switch(Park(retry_at=0.5))
    world = GateWorld(switch.gate(poll_ns=poll_ns))
    world.arrive("a", "switch")
    asked = len(switch.asked)
    for _ in range(100):
        world.now = max(world.now, world.sharing.next_event_at() or 0)
        world.note(world.sharing.tick(world.now))
        if world.now >= 3 * SECOND:
            break
    assert world.now >= 3 * SECOND
    assert len(switch.asked) - asked <= 12


def test_16_the_pause_before_a_rescue_can_be_set_and_must_not_be_zero() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(flush_ns=30 * MS))
    world.arrive("a", "switch")
    switch.answer = True
    assert world.wait(30 * MS) == ["a"]
    with pytest.raises(InvalidValueError, match="flush is 0, but it must be more than 0 seconds"):
        Gates(flush=0)


# Events and hints


def asked(world: GateWorld) -> list[Any]:
    """Collect the questions of asynchronous gates."""
    checks: list[Any] = []
    world.ask = lambda _now, check: checks.append(check)
    return checks


async def remote(_: GateRequest) -> bool:
    return False


def asynchronous(hint: Hint | None = None) -> tuple[GateWorld, list[Any]]:
    gate = Condition("remote", remote, Terms(max_parked=1000, events=("well",)))
    if hint is not None:
        gate.hints["well"] = lambda _event, _request: hint
    world = GateWorld(gate)
    return world, asked(world)


def answer(world: GateWorld, check: Any, given: object) -> list[str]:  # noqa: ANN401
    return world.note(world.sharing.conclude(world.now, check, given))


def parks() -> object:
    from apf_middleware.gates import Hold  # noqa: PLC0415

    return Hold()


def test_17_an_event_before_the_question_is_known_to_the_answer() -> None:
    world, checks = asynchronous()
    world.emit("well")
    world.arrive("a", "remote")
    answer(world, checks[0], parks())
    assert world.acquisition("a").stage is Stage.PARKED
    assert len(checks) == 1


def test_17_an_event_for_nothing_costs_nobody_its_turn() -> None:
    """Who was let try in vain used to begin anew, behind those who had been served while it waited."""

    def order(*, is_told: bool) -> list[str]:
        world = GateWorld(Capacity("db", 1, WIDE), seats=20)
        world.arrive("first", "db", flow="few")
        world.arrive("wide", "db", flow="wide", width=4)
        for number in range(8):
            world.arrive(f"narrow {number}", "db", flow="narrow")
        while world.tickets:
            if is_told:
                world.emit("db")
            world.finish(world.served[-1])
        return world.served

    assert order(is_told=True) == order(is_told=False)
    assert order(is_told=False).index("wide") == 4


def test_18_an_event_between_question_and_answer_has_it_asked_again_at_once() -> None:
    world, checks = asynchronous()
    world.arrive("a", "remote")
    assert world.acquisition("a").stage is Stage.CHECKING
    world.emit("well")
    answer(world, checks[0], parks())
    assert len(checks) == 2
    assert answer(world, checks[1], "lease") == ["a"]


def test_18_of_the_many_who_wait_for_an_asynchronous_gate_a_few_are_checked_at_a_time() -> None:
    world, checks = asynchronous()
    for number in range(100):
        world.arrive(f"{number}", "remote", flow=f"{number % 5}")
    assert len(checks) == MOST_CHECKS
    for check in checks.copy():
        answer(world, check, parks())
    assert len(checks) == MOST_CHECKS, "it is shut, and nobody else is asked"
    world.emit("well")
    assert len(checks) == 2 * MOST_CHECKS
    while len(world.served) < 100:
        answer(world, checks[MOST_CHECKS + len(world.served)], "lease")
        world.finish(world.served[-1])
    assert len(checks) == MOST_CHECKS + 100


def test_19_an_event_that_a_hint_says_to_be_of_no_help_changes_nothing() -> None:
    world, checks = asynchronous(SKIP)
    world.arrive("a", "remote")
    world.emit("well")
    answer(world, checks[0], parks())
    assert world.acquisition("a").stage is Stage.PARKED
    assert len(checks) == 1


@pytest.mark.parametrize(("hint", "served"), [(QUEUE, ["a"]), (SKIP, [])])
def test_19_hints_say_which_of_the_parked_may_try(hint: Hint, served: list[str]) -> None:
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


def test_20_an_event_that_no_gate_listens_to_costs_nothing() -> None:
    switch = Switch()
    world = GateWorld(switch.gate())
    world.arrive("a", "switch")
    assert world.sharing.scheduler.emit(0, "something else") is False
    assert len(switch.asked) == 1
    assert world.gate("switch").counters.events == 0


@pytest.mark.parametrize(("on_error", "outcome"), [("admit", "seated"), ("reject", "rejected"), ("backoff", "waiting")])
def test_21_a_gate_that_raises_does_what_its_terms_say(on_error: str, outcome: str) -> None:
    switch = Switch(OSError("down"))
    world = GateWorld(switch.gate(on_error=on_error))
    ticket = world.arrive("a", "switch")
    assert ticket.state.value == outcome
    if outcome == "waiting":
        world.emit("well")
        assert len(switch.asked) == 1, "an event doesn't hammer a gate that has just broken"
        switch.answer = True
        assert world.wait(10 * MS) == ["a"], "and it is not parked for ever"


@pytest.mark.parametrize("penalty", [True, False])
def test_22_without_a_penalty_an_event_lets_try_at_once_where_a_pause_would_be_due(penalty: bool) -> None:  # noqa: FBT001
    own = OwnSwitch(Park(penalty=penalty))
    world = polled(own)
    world.arrive("a", "own")
    world.wait(MS)
    own.answer = "lease"
    world.emit("own")
    assert world.served == ([] if penalty else ["a"])
    world.wait(9 * MS)
    assert world.served == ["a"], "what is remote isn't asked more often than that"


def test_23_an_event_of_another_gate_does_not_help() -> None:
    switch, other = Switch(), Switch(answer=True)
    world = GateWorld(switch.gate(), other.gate("other", events=("elsewhere",)))
    world.arrive("a", "other", "switch")
    before = len(switch.asked)
    world.emit("elsewhere")
    world.emit("other")
    assert len(switch.asked) == before


def test_24_after_it_has_been_let_in_nothing_is_left_but_the_count_of_attempts() -> None:
    switch = Switch()
    world = GateWorld(switch.gate())
    world.arrive("a", "switch")
    switch.answer = True
    world.emit("well")
    acquisition = world.acquisition("a")
    assert (acquisition.slot, acquisition.candidate_of, acquisition.refusal) == (None, None, None)
    assert acquisition.attempts == 2


def test_25_all_indexes_are_empty_in_the_end() -> None:
    world = GateWorld(Capacity("db", 1, WIDE, key=_key), seats=10)
    for number in range(30):
        world.arrive(f"{number}", "db", flow=f"{number % 4}", key=number % 3)
    while world.tickets:
        for name in [name for name, ticket in world.tickets.items() if ticket.is_seated]:
            world.finish(name)
    assert len(world.served) == len(set(world.served)) == 30
    assert not world.scheduler.slots.of(world.gate("db"))
    assert not list(world.scheduler)
    assert world.gate("db").parked == 0


def test_26_a_hint_that_raises_counts_as_queue() -> None:
    switch = Switch()
    gate = switch.gate()

    def broken(_event: object, _request: GateRequest) -> Hint:
        raise LookupError("a bug")

    gate.hints["well"] = broken
    world = GateWorld(gate)
    world.arrive("a", "switch")
    switch.answer = True
    assert world.emit("well") == ["a"]
    assert gate.counters.hint_errors == 1


def test_27_one_can_be_kicked_and_all_can() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), seats=10)
    for name in "abc":
        world.arrive(name, "switch")
    switch.answer = True
    assert world.kick("b") == ["b"]
    world.scheduler.open_slots(0, world.gate("switch"), "kick")
    assert sorted(world.note(world.sharing.settle(0))) == ["a", "c"]


def test_28_an_event_with_a_key_opens_that_slot_and_one_without_opens_all() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), seats=10)
    for key in range(3):
        world.arrive(f"{key}", "switch", key=key)
    switch.answer = True
    assert world.emit("well", 1) == ["1"]
    assert sorted(world.emit("well")) == ["0", "2"]


def test_29_events_do_not_open_what_an_operator_has_closed() -> None:
    switch = Switch(answer=True)
    world = GateWorld(switch.gate())
    world.close("switch")
    world.arrive("a", "switch")
    world.emit("well")
    world.wait(2 * SECOND)
    world.kick("a")
    assert switch.asked == []
    assert world.open("switch") == ["a"]


def test_29_a_gate_that_is_closed_for_a_while_opens_by_itself() -> None:
    world = GateWorld(Switch(answer=True).gate())
    world.close("switch", until=SECOND)
    world.arrive("a", "switch")
    assert world.wait(SECOND - 1) == []
    assert world.wait(1) == ["a"]


def test_30_to_kick_helps_the_parked_and_those_in_backoff_and_is_remembered_while_a_question_is_out() -> None:
    own = OwnSwitch()
    world = polled(own)
    world.arrive("a", "own")
    own.answer = "lease"
    assert world.kick("a") == ["a"]
    world.kick("a")  # which runs already
    remote_world, checks = asynchronous()
    remote_world.arrive("b", "remote")
    remote_world.kick("b")
    answer(remote_world, checks[0], parks())
    assert len(checks) == 2


def test_31_a_larger_limit_lets_more_run_at_once_without_any_release() -> None:
    db = Capacity("db", 1, WIDE)
    world = GateWorld(db, seats=10)
    for number in range(6):
        world.arrive(f"{number}", "db")
    db.resize(3)
    world.scheduler.open_slots(0, db, "resize")
    assert world.note(world.sharing.settle(0)) == ["1", "2"]


def test_32_who_leaves_is_gone_from_everywhere_and_the_next_one_is_considered() -> None:
    db = Capacity("db", 2, WIDE, cost=lambda request: int(str(request.state.get("size", 1))))
    world = GateWorld(db, Switch().gate(), seats=1)
    world.arrive("runs", "db")
    world.arrive("waits for a seat", "db", flow="x")
    world.arrive("parked", "switch", flow="y")
    world.give_up("parked", Reason.CANCELLED)
    world.give_up("waits for a seat", Reason.CANCELLED)
    world.arrive("next", "db", flow="x")
    assert world.finish("runs") == ["next"]
    remote_world, checks = asynchronous()
    remote_world.arrive("a", "remote")
    remote_world.give_up("a")
    answer(remote_world, checks[0], "lease")
    assert not list(remote_world.scheduler)
    assert not remote_world.scheduler.slots.of(remote_world.gate("remote"))


def test_32_when_the_candidate_leaves_the_next_of_its_line_is_let_try() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), seats=1)
    world.arrive("a", "switch")
    world.arrive("b", "switch")
    world.arrive("runs", flow="x")
    switch.answer = True
    world.emit("well")  # a is let into its queue, where no seat is free
    assert world.acquisition("a").stage is Stage.QUEUED
    world.give_up("a")
    assert world.finish("runs") == ["b"]


def test_33_gauges_equal_a_recount_and_moves_are_counted_by_what_caused_them() -> None:
    switch = Switch()
    gate = switch.gate()
    world = GateWorld(gate, seats=10)
    for name in "abc":
        world.arrive(name, "switch")
    assert gate.parked == 3
    world.give_up("b")
    assert gate.parked == 2
    switch.answer = True
    world.emit("well")
    assert gate.parked == 0
    assert gate.counters.moves["parked", "refusal"] == 1
    assert gate.counters.moves["parked", "arrival"] == 2
    assert gate.counters.moves["active", "event"] == 2


def test_34_the_wait_for_a_gate_is_observed_once_with_all_of_its_attempts() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), limit_ns=60 * SECOND)
    world.arrive("a", "switch")
    world.wait(20 * MS)
    world.emit("well")
    world.wait(20 * MS)
    switch.answer = True
    world.emit("well")
    tally = world.gate("switch").counters
    assert (tally.waits.count, tally.waits.total) == (1, 40 * MS)
    assert world.acquisition("a").attempts == 3


def test_35_of_a_thousand_parked_on_a_hundred_keys_an_event_touches_its_own() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), seats=10, careful=False)
    for number in range(1_000):
        world.arrive(f"{number}", "switch", key=number % 100, flow=f"{number % 7}")
    before = len(switch.asked)
    world.emit("well", 42)
    assert [_key(request) for request in switch.asked[before:]] == [42]


# What else must hold


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


def test_who_waited_through_an_outage_gets_no_more_than_its_share_afterwards() -> None:
    """Without the clamp of virtual time it would get all of the next hundred dispatches."""
    switch = Switch()
    world = GateWorld(switch.gate(), seats=1, careful=False, limit_ns=600 * SECOND)
    for number in range(100):
        world.arrive(f"down{number}", "switch", flow="down")
    for number in range(300):
        world.arrive(f"up{number}", flow="up")
    for _ in range(100):
        world.now += 100 * MS
        world.finish(world.served[-1])
    switch.answer = True
    world.emit("well")
    for _ in range(100):
        world.now += 100 * MS
        world.finish(world.served[-1])
    assert 45 <= sum(name.startswith("down") for name in world.served[-100:]) <= 55


def test_parked_requests_are_no_demand() -> None:
    world = GateWorld(Switch().gate(), levels={"a": level(2), "b": level(2)}, share=Adjusting)
    for number in range(50):
        world.arrive(f"{number}", "switch", to="a")
    assert world.sharing.levels["a"].queueset.seats_waiting == 0
    world.wait(30 * SECOND)
    record = world.sharing.levels["a"].record
    assert record is None or record.demand.maximum <= 1


def test_the_tenant_whose_quota_is_used_up_does_not_block_another_in_the_same_queue() -> None:
    world = GateWorld(
        Tokens("quota", 1, 1, terms=WIDE, key=lambda request: request.flow), levels={"l": level(1, queues=1)}
    )
    world.arrive("a0", "quota", flow="a", to="l")
    world.arrive("a1", "quota", flow="a", to="l")
    world.arrive("b0", "quota", flow="b", to="l")
    assert world.finish("a0") == ["b0"]


@pytest.mark.parametrize("fifo", [True, False])
def test_in_a_fifo_queue_nobody_overtakes_a_parked_one_of_its_flow(fifo: bool) -> None:  # noqa: FBT001
    switch = Switch()
    world = GateWorld(switch.gate(), levels={"l": level(1, queues=1, fifo=fifo)})
    world.arrive("a0", "switch", flow="a", to="l")
    world.arrive("a1", flow="a", to="l")
    world.arrive("b0", flow="b", to="l")
    assert world.served == (["b0"] if fifo else ["a1"])
    switch.answer = True
    world.emit("well")
    while world.tickets:
        world.finish(world.served[-1])
    assert [name for name in world.served if name[0] == "a"] == (["a0", "a1"] if fifo else ["a1", "a0"])


def test_a_fifo_flow_goes_on_when_the_one_that_blocks_it_gives_up() -> None:
    world = GateWorld(Switch().gate(), levels={"l": level(1, queues=1, fifo=True)})
    world.arrive("a0", "switch", flow="a", to="l")
    world.arrive("a1", flow="a", to="l")
    assert world.give_up("a0") == ["a1"]


def test_a_big_request_is_passed_so_often_and_no_more() -> None:
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


def test_who_may_try_gives_way_to_an_earlier_one_of_its_flow_that_comes_from_another_gate() -> None:
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


def test_one_that_was_passed_often_enough_does_not_overtake_an_earlier_one_of_its_flow() -> None:
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


def test_small_ones_pass_while_a_big_one_waits_for_room() -> None:
    memory = Capacity("memory", 4, WIDE, cost=lambda request: int(str(request.state["size"])))
    world = GateWorld(memory, seats=100)
    world.arrive("a", "memory", size=3)
    world.arrive("big", "memory", size=4, flow="big")
    assert world.arrive("small", "memory", size=1, flow="small").is_seated


def test_half_open_lets_one_probe_and_then_all() -> None:
    state: dict[str, object] = {"answer": False}
    gate = Condition("breaker", lambda _: state["answer"], Terms(max_parked=1000, events=("state",)))
    world = GateWorld(gate, seats=50)
    for number in range(20):
        world.arrive(f"{number}", "breaker")
    state["answer"] = Probe(1)
    assert world.emit("state") == ["0"]
    state["answer"] = True
    world.finish("0")
    assert len(world.served) == 20


@pytest.mark.parametrize("gate", ["own", "tokens", "condition"])
def test_what_cannot_be_had_in_time_is_rejected_at_once(gate: str) -> None:
    gates: dict[str, Callable[[], Gate]] = {
        "own": lambda: CustomGate(_Retry(), Terms()),
        "tokens": lambda: Tokens("own", 0.01, 1, terms=Terms(status=429)),
        "condition": lambda: Condition("own", lambda _: Park(retry_in=100), Terms()),
    }
    world = GateWorld(gates[gate](), seats=5, limit_ns=SECOND)
    if gate == "tokens":
        world.arrive("first", "own")
    ticket = world.arrive("a", "own")
    assert ticket.reason is Reason.GATE
    refusal = world.refusals["a"]
    assert refusal is not None
    assert refusal.retry_after == 100
    assert refusal.status == (429 if gate == "tokens" else 503)
    assert not world.scheduler.slots.of(world.gate("own"))


class _Retry:
    name = "own"

    def try_acquire(self, _request: GateRequest, _key: object, _cost: int) -> object:
        return Park(retry_in=100)

    def release(self, lease: object) -> None: ...


def test_tokens_let_pass_exactly_as_many_as_there_are() -> None:
    world = GateWorld(Tokens("quota", 10, 3, terms=WIDE), seats=100, limit_ns=60 * SECOND)
    for number in range(20):
        world.arrive(f"{number}", "quota", flow=f"{number % 2}")
    assert len(world.served) == 3
    for served in range(4, 20):
        world.wait(100 * MS - 1)
        assert len(world.served) == served - 1
        world.wait(1)
        assert len(world.served) == served


def test_of_the_hopeless_those_behind_their_own_flow_are_rejected_and_others_wait() -> None:
    world = GateWorld(Tokens("quota", 1, 1, terms=WIDE), seats=100, limit_ns=5 * SECOND)
    for number in range(10):
        world.arrive(f"elephant{number}", "quota", flow="elephant")
    assert [number for number in range(10) if f"elephant{number}" in world.refusals] == [6, 7, 8, 9]
    assert world.arrive("mouse", "quota", flow="mouse").is_waiting


def test_no_more_wait_for_a_gate_than_it_allows_by_default_half_of_a_queue() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(max_parked=None), levels={"l": level(1, queues=1, length=10)})
    states = [world.arrive(f"{number}", "switch", to="l", flow=f"{number}").state.value for number in range(7)]
    assert states == ["waiting"] * 5 + ["rejected"] * 2
    assert world.arrive("other", to="l").is_seated
    few = GateWorld(Switch().gate(max_parked=2))
    assert [few.arrive(f"{number}", "switch").is_waiting for number in range(3)] == [True, True, False]


def test_parked_requests_count_for_the_length_of_their_queue() -> None:
    world = GateWorld(Switch().gate(), levels={"l": level(1, queues=1, length=3)})
    world.arrive("runs", to="l")
    for number in range(3):
        world.arrive(f"{number}", "switch", to="l")
    assert world.arrive("other", to="l").reason is Reason.QUEUE_FULL
    assert world.arrive("another", "switch", to="l").reason is Reason.QUEUE_FULL


def test_an_exempt_level_has_no_gates() -> None:
    from apf_middleware.fairqueuing import LevelLimits, QueueSetSettings  # noqa: PLC0415

    switch = Switch()
    exempt = (QueueSetSettings.without_limit(), LevelLimits(1, 0, 1))
    world = GateWorld(switch.gate(), levels={"e": exempt, "l": level(1)})
    assert world.arrive("a", "switch", to="e").is_seated
    assert switch.asked == []


def test_a_request_that_is_kept_waiting_holds_no_seat_nor_does_one_that_saves_up_seats_hold_a_lease() -> None:
    db = Capacity("db", 1, WIDE)
    world = GateWorld(db, seats=3)
    world.arrive("narrow", flow="x")
    world.arrive("wide", "db", width=3, flow="y")
    assert db.used("") == 0
    assert world.finish("narrow") == ["wide"]
    assert world.sharing.levels["level"].queueset.seats_in_use == 3


def test_no_seats_are_saved_up_for_who_may_not_pass() -> None:
    world = GateWorld(Capacity("db", 1, WIDE), seats=3)
    world.arrive("narrow", flow="x")
    world.arrive("wide", "db", width=3, flow="y")
    world.close("db")
    assert world.arrive("behind", flow="z").is_seated


def test_an_event_from_within_a_gate_is_dealt_with_at_the_end_of_the_step() -> None:
    first, second = Switch(), Switch(answer=True)
    world = GateWorld(first.gate("first"), seats=5)

    def tells(_: GateRequest) -> bool:
        first.answer = True
        world.sharing.emit(world.now, "well")
        return True

    world.scheduler.add(Condition("second", tells, WIDE))
    world.arrive("a", "first")
    world.arrive("b", "second", flow="x")
    assert sorted(world.served) == ["a", "b"]
    assert second.answer


def test_rejections_can_say_their_own_status_and_time() -> None:
    world = GateWorld(Switch(Reject(status=402, retry_after=7)).gate())
    world.arrive("a", "switch")
    refusal = world.refusals["a"]
    assert refusal is not None
    assert (refusal.gate, refusal.status, refusal.retry_after) == ("switch", 402, 7)


def test_with_a_wider_need_than_the_limit_nobody_waits_for_ever() -> None:
    memory = Capacity("memory", 4, WIDE, cost=lambda _: 5)
    world = GateWorld(memory)
    assert world.arrive("a", "memory").reason is Reason.GATE
