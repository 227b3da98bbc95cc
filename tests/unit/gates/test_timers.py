"""Pauses of polled and failing gates, retry times, and rescues."""

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates import (
    SKIP,
    Capacity,
    Gates,
    Park,
    Terms,
)
from apf_middleware.gates.gate import FIRST_PAUSE_NS
from apf_middleware.gates.slot import Slot
from apf_middleware.gates.timers import SlotTimers, pause, spread
from tests.support.gate_world import MS, SECOND, WIDE, GateWorld, OwnSwitch, Switch, polled


def test_a_request_in_backoff_whose_other_gate_closed_meanwhile_is_not_dispatched_when_the_pause_ends() -> None:
    own = OwnSwitch()
    world = polled(own, Capacity("db", 1, WIDE))
    world.arrive("a", "db", "own")
    own.answer = "lease"
    world.close("db")
    world.wait(20 * MS)
    assert world.served == []
    assert len(own.asked_at) == 1
    assert world.open("db") == ["a"]


def test_a_polled_gate_is_asked_after_pauses_that_double_and_never_early() -> None:
    own = OwnSwitch()
    world = polled(own)
    world.arrive("a", "own")
    world.wait(5 * SECOND)
    pauses = [later - earlier for earlier, later in zip(own.asked_at, own.asked_at[1:], strict=False)]
    assert pauses[:7] == [10 * MS, 20 * MS, 40 * MS, 80 * MS, 160 * MS, 320 * MS, 640 * MS]
    assert set(pauses[7:]) == {SECOND}


def test_a_polled_gate_is_asked_in_time_also_after_a_smaller_request_has_passed() -> None:
    """Its passing ended the pause, so that the large one waited a second, and then counted as a missed event."""
    memory = Capacity(
        "memory", 4, Terms(max_parked=10, poll_ns=10 * MS), cost=lambda request: int(str(request.state["size"]))
    )
    world = GateWorld(memory, seats=10)
    world.arrive("runs", "memory", size=2)
    world.arrive("large", "memory", size=3, flow="large")
    world.arrive("small", "memory", size=1, flow="small")
    assert world.served == ["runs", "small"]
    memory.resize(6)  # and no event reports it
    assert world.wait(10 * MS) == ["large"]
    assert memory.counters.rescues == 0


def test_no_pause_is_longer_than_a_quarter_of_the_wait_limit() -> None:
    own = OwnSwitch()
    world = polled(own, limit_ns=200 * MS)
    world.arrive("a", "own")
    world.wait(200 * MS)
    pauses = [later - earlier for earlier, later in zip(own.asked_at, own.asked_at[1:], strict=False)]
    assert max(pauses) == 50 * MS


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_pauses_are_spread_by_a_fifth(chance: float) -> None:
    assert spread(100, chance) == {0.0: 80, 0.5: 100, 1.0: 120}[chance]


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 3), (5, 48), (16, 100), (10_000, 100)])
def test_pauses_start_at_nothing_double_and_are_capped_without_overflow(count: int, expected: int) -> None:
    assert pause(count, 3, 100) == expected


def test_a_longest_pause_of_zero_disables_the_backoff() -> None:
    assert pause(5, FIRST_PAUSE_NS, 0) == 0


def test_errors_have_pauses_of_their_own_and_a_refusal_resets_them() -> None:
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
def test_idle_seats_shorten_the_pause_after_a_refusal_but_not_after_an_error(
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


def test_the_end_of_a_request_that_had_nothing_to_give_back_is_no_event() -> None:
    """Otherwise a polled gate would be asked at the end of each request, whatever its pause."""
    switch = Switch(answer=True)
    world = GateWorld(switch.gate(poll_ns=SECOND), seats=50, limit_ns=60 * SECOND)
    for number in range(20):
        world.arrive(f"runs{number}", "switch")
    switch.answer = False
    world.arrive("waits", "switch")
    asked = len(switch.asked)
    world.now += MS
    for number in range(20):
        world.arrive(f"more{number}", flow="x")  # so that no seats are idle, which could cause an earlier attempt
    for number in range(19):
        world.finish(f"runs{number}")
    assert len(switch.asked) == asked


def test_a_missed_event_is_made_up_for_and_counted() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), limit_ns=5 * SECOND)
    world.arrive("a", "switch")
    switch.answer = True  # and no event reports it
    assert world.wait(499 * MS) == []
    assert world.wait(MS) == ["a"]
    assert world.gate("switch").counters.rescues == 1


def test_a_hint_that_wrongly_skips_is_made_up_for_and_counted() -> None:
    switch = Switch()
    gate = switch.gate()
    gate.hints["loaded"] = lambda _event, _request: SKIP
    world = GateWorld(gate, limit_ns=5 * SECOND)
    world.arrive("a", "switch")
    switch.answer = True
    assert world.emit("loaded") == []
    assert world.wait(500 * MS) == ["a"]
    assert world.gate("switch").counters.rescues == 1


def test_a_useless_rescue_is_not_counted() -> None:
    switch = Switch()
    world = GateWorld(switch.gate())
    world.arrive("a", "switch")
    world.wait(3 * SECOND + MS)
    assert len(switch.asked) == 4
    switch.answer = True
    world.emit("well")
    assert world.gate("switch").counters.rescues == 0


def test_a_retry_time_that_passes_during_the_evaluation_is_made_up_for() -> None:
    """A slow remote gate may answer so; no event follows, so the gate is asked again a moment later."""
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
def test_a_retry_time_in_the_past_is_ignored(poll_ns: int | None) -> None:
    """A breaker that becomes half-open only when it is called may answer so; it used to be asked endlessly."""
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


def test_the_pause_before_a_rescue_can_be_set_and_must_not_be_zero() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(flush_ns=30 * MS))
    world.arrive("a", "switch")
    switch.answer = True
    assert world.wait(30 * MS) == ["a"]
    with pytest.raises(InvalidValueError, match="flush is 0, but it must be more than 0 seconds"):
        Gates(flush=0)


@pytest.mark.parametrize("penalty", [True, False])
def test_without_a_penalty_an_event_lets_try_at_once_where_a_pause_would_be_due(penalty: bool) -> None:  # noqa: FBT001
    own = OwnSwitch(Park(penalty=penalty))
    world = polled(own)
    world.arrive("a", "own")
    world.wait(MS)
    own.answer = "lease"
    world.emit("own")
    assert world.served == ([] if penalty else ["a"])
    world.wait(9 * MS)
    assert world.served == ["a"], "what is remote isn't asked more often than that"


def test_the_pause_of_a_failing_gate_outlives_those_that_wait_for_it() -> None:
    switch = Switch(answer=OSError("down"))
    world = GateWorld(switch.gate(on_error="backoff"), limit_ns=5 * SECOND)
    world.arrive("a", "switch")
    world.wait(100 * MS)
    asked = len(switch.asked)
    world.give_up("a")
    world.arrive("b", "switch")
    assert len(switch.asked) == asked
    world.wait(160 * MS)
    assert len(switch.asked) > asked


def test_an_operator_who_opens_a_failing_gate_ends_its_pause() -> None:
    switch = Switch(answer=OSError("down"))
    world = GateWorld(switch.gate(on_error="backoff"), limit_ns=5 * SECOND)
    world.arrive("a", "switch")
    world.wait(SECOND)
    switch.answer = True
    assert world.emit("well") == [], "an event doesn't end it"
    assert world.open("switch") == ["a"]


def test_a_polled_gate_that_says_when_is_asked_then() -> None:
    own = OwnSwitch(Park(retry_at=0.3))
    world = polled(own)
    world.arrive("a", "own")
    own.answer = "lease"
    assert world.wait(299 * MS) == []
    assert world.wait(MS) == ["a"]


def test_a_timer_that_another_one_has_replaced_does_not_count_even_if_it_is_looked_at_late() -> None:
    timers, slot = SlotTimers(lambda: 0.5), Slot(Switch().gate(), "", lambda _gate, _error: None)
    timers.after_error(0, slot)
    timers.after_error(5 * MS, slot)
    assert list(timers.pop_due(15 * MS)) == []
    assert list(timers.pop_due(25 * MS)) == [slot]


def test_a_rescue_counts_once_however_many_requests_it_helps() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), seats=5)
    for name in "abc":
        world.arrive(name, "switch")
    switch.answer = True
    assert world.wait(SECOND) == ["a", "b", "c"]
    assert world.gate("switch").counters.rescues == 1


def test_pauses_begin_anew_when_an_operator_opens_a_gate_that_fails() -> None:
    own = OwnSwitch(RuntimeError("away"))
    world = polled(own, on_error="backoff")
    world.arrive("a", "own")
    world.wait(SECOND)
    own.asked_at.clear()
    world.open("own")
    opened_at = world.now
    world.wait(10 * MS)
    assert own.asked_at == [opened_at, opened_at + 10 * MS]


def test_an_event_soon_after_a_try_opens_a_polled_gate_when_its_first_pause_is_over() -> None:
    own = OwnSwitch()
    world = polled(own)
    world.wait(SECOND)
    world.arrive("a", "own")
    world.wait(MS)
    world.emit("own")
    world.wait(10 * MS)
    assert own.asked_at[:2] == [SECOND, SECOND + 10 * MS]


def test_the_pauses_of_a_polled_gate_are_short_again_after_a_request_has_passed() -> None:
    own = OwnSwitch()
    world = polled(own)
    world.arrive("a", "own")
    world.wait(SECOND)
    own.answer = "lease"
    world.wait(SECOND)
    assert world.served == ["a"]
    own.answer = Park()
    began = world.now
    world.arrive("b", "own")
    world.wait(10 * MS)
    assert own.asked_at[-2:] == [began, began + 10 * MS]
