"""How requests wait for their gates, and how those waits end."""

from collections.abc import Callable

import pytest

from apf_middleware.fairqueuing import Reason, TicketState, Work
from apf_middleware.gates import (
    AcquisitionStage,
    Capacity,
    Condition,
    CustomGate,
    GateRequest,
    ParkDecision,
    Reject,
    Terms,
    Tokens,
)
from apf_middleware.gates.slot import MOST_CHECKS
from tests.support.gate_world import (
    BYPASSES,
    MS,
    SECOND,
    WIDE,
    GateWorld,
    OwnSwitch,
    RemoteWorld,
    Switch,
    asked,
    asynchronous,
    level,
    polled,
    remote,
)


class FarPlaces:
    """A gate of an app's own, whose leases are elsewhere."""

    name = "far"

    def __init__(self) -> None:
        self.given_back: list[object] = []

    async def try_acquire(self, _request: GateRequest, _key: object, _cost: int) -> object:
        raise NotImplementedError

    def release(self, lease: object) -> None:
        self.given_back.append(lease)


def _key(request: GateRequest) -> object:
    return request.state.get("key", "")


def test_requests_that_wait_at_the_shutdown_leave_nothing_behind() -> None:
    """Their responses, with the status 503, are tested in tests/integration/test_gates.py."""
    world = GateWorld(Capacity("db", 1, WIDE), seats=5)
    for name in "abcd":
        world.arrive(name, "db")
    for name in "bcd":
        world.give_up(name, Reason.QUEUE_CLOSED)
    world.finish("a")
    assert not list(world.scheduler)
    assert not world.scheduler.slots.of(world.gate("db"))
    assert world.sharing.next_event_at() is None


def test_a_parked_request_knows_its_gate_and_runs_when_that_opens() -> None:
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


def test_a_lower_level_is_served_while_the_head_of_a_higher_one_is_parked() -> None:
    world = GateWorld(Switch().gate(), levels={"high": level(1, least=1), "low": level(2)})
    world.arrive("a", "switch", to="high")
    assert world.arrive("b", to="low").is_seated


def test_an_event_before_an_evaluation_does_not_repeat_it() -> None:
    world, checks = asynchronous()
    world.emit("well")
    world.arrive("a", "remote")
    world.conclude(checks[0], ParkDecision())
    assert world.acquisition("a").stage is AcquisitionStage.PARKED
    assert len(checks) == 1


@pytest.mark.parametrize("between", [(), ("db",)])
def test_each_of_several_asynchronous_gates_is_asked_once(between: tuple[str, ...]) -> None:
    first, second = (Condition(name, remote, Terms(events=("well",))) for name in ("first", "second"))
    world = GateWorld(first, Capacity("db", 1, WIDE), second)
    checks = asked(world)
    world.arrive("a", "first", *between, "second")
    assert world.conclude(checks[0], "lease") == []
    assert world.conclude(checks[1], "lease") == ["a"]
    assert [check.need.gate.name for check in checks] == ["first", "second"]


def test_a_request_that_an_asynchronous_gate_parks_keeps_no_lease_of_another() -> None:
    far = FarPlaces()
    world = GateWorld(CustomGate(far, Terms()), Condition("second", remote, Terms(events=("well",))))
    checks = asked(world)
    world.arrive("a", "far", "second")
    world.conclude(checks[0], "lease")
    assert far.given_back == []
    world.conclude(checks[1], ParkDecision())
    assert far.given_back == ["lease"]
    world.emit("well")
    for _ in range(2):
        world.conclude(checks[-1], "lease")
    assert world.served == ["a"]
    assert [check.need.gate.name for check in checks] == ["far", "second", "far", "second"]


def test_an_event_during_an_evaluation_repeats_it_immediately() -> None:
    world, checks = asynchronous()
    world.arrive("a", "remote")
    assert world.acquisition("a").stage is AcquisitionStage.CHECKING
    world.emit("well")
    world.conclude(checks[0], ParkDecision())
    assert len(checks) == 2
    assert world.conclude(checks[1], "lease") == ["a"]


def test_few_requests_at_a_time_are_checked_by_an_asynchronous_gate() -> None:
    world, checks = asynchronous()
    for number in range(100):
        world.arrive(f"{number}", "remote", flow=f"{number % 5}")
    assert len(checks) == MOST_CHECKS
    for check in checks.copy():
        world.conclude(check, ParkDecision())
    assert len(checks) == MOST_CHECKS, "it is shut, and nobody else is asked"
    world.emit("well")
    assert len(checks) == 2 * MOST_CHECKS
    while len(world.served) < 100:
        world.conclude(checks[MOST_CHECKS + len(world.served)], "lease")
        world.finish(world.served[-1])
    assert len(checks) == MOST_CHECKS + 100


def test_an_event_without_listeners_costs_nothing() -> None:
    switch = Switch()
    world = GateWorld(switch.gate())
    world.arrive("a", "switch")
    world.emit("something else")
    assert len(switch.asked) == 1
    assert world.gate("switch").counters.events == 0


def test_an_event_of_another_gate_does_not_help() -> None:
    switch, other = Switch(), Switch(answer=True)
    world = GateWorld(switch.gate(), other.gate("other", events=("elsewhere",)))
    world.arrive("a", "other", "switch")
    before = len(switch.asked)
    world.emit("elsewhere")
    world.emit("other")
    assert len(switch.asked) == before


def test_an_admitted_request_leaves_only_its_number_of_attempts() -> None:
    switch = Switch()
    world = GateWorld(switch.gate())
    world.arrive("a", "switch")
    switch.answer = True
    world.emit("well")
    acquisition = world.acquisition("a")
    assert (acquisition.slot, acquisition.candidate_of, acquisition.refusal) == (None, None, None)
    assert acquisition.attempts == 2


def test_all_indexes_are_empty_in_the_end() -> None:
    world = GateWorld(Capacity("db", 1, WIDE, key=_key), seats=10)
    for number in range(30):
        world.arrive(f"{number}", "db", flow=f"{number % 4}", key=number % 3)
    while world.tickets:
        for name in world.names(TicketState.SEATED):
            world.finish(name)
    assert len(world.served) == len(set(world.served)) == 30
    assert not world.scheduler.slots.of(world.gate("db"))
    assert not list(world.scheduler)
    assert world.gate("db").parked == 0


def test_one_or_all_parked_requests_can_be_kicked() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), seats=10)
    for name in "abc":
        world.arrive(name, "switch")
    switch.answer = True
    assert world.kick("b") == ["b"]
    world.scheduler.open_slots(0, world.gate("switch"))
    assert sorted(world.note(world.sharing.settle(0))) == ["a", "c"]


def test_an_event_with_a_key_opens_that_slot_and_one_without_opens_all() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), seats=10)
    for key in range(3):
        world.arrive(f"{key}", "switch", key=key)
    switch.answer = True
    assert world.emit("well", 1) == ["1"]
    assert sorted(world.emit("well")) == ["0", "2"]


def test_events_do_not_open_what_an_operator_has_closed() -> None:
    switch = Switch(answer=True)
    world = GateWorld(switch.gate())
    world.close("switch")
    world.arrive("a", "switch")
    world.emit("well")
    world.wait(2 * SECOND)
    world.kick("a")
    assert switch.asked == []
    assert world.open("switch") == ["a"]


def test_a_gate_that_is_opened_early_has_no_timer_left() -> None:
    world = GateWorld(Switch().gate())
    world.close("switch", until=SECOND)
    world.open("switch")
    assert world.sharing.next_event_at() is None


def test_a_gate_that_is_closed_for_a_while_opens_by_itself() -> None:
    world = GateWorld(Switch(answer=True).gate())
    world.close("switch", until=SECOND)
    world.arrive("a", "switch")
    assert world.wait(SECOND - 1) == []
    assert world.wait(1) == ["a"]


def test_to_kick_helps_the_parked_and_those_in_backoff_and_is_remembered_while_a_question_is_out() -> None:
    own = OwnSwitch()
    world = polled(own)
    world.arrive("a", "own")
    own.answer = "lease"
    assert world.kick("a") == ["a"]
    world.kick("a")  # which runs already
    remote_world, checks = asynchronous()
    remote_world.arrive("b", "remote")
    remote_world.kick("b")
    remote_world.conclude(checks[0], ParkDecision())
    assert len(checks) == 2


def test_a_larger_limit_lets_more_run_at_once_without_any_release() -> None:
    db = Capacity("db", 1, WIDE)
    world = GateWorld(db, seats=10)
    for number in range(6):
        world.arrive(f"{number}", "db")
    db.resize(3)
    world.scheduler.open_slots(0, db)
    assert world.note(world.sharing.settle(0)) == ["1", "2"]


def test_a_request_that_leaves_is_removed_and_the_next_one_is_considered() -> None:
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
    remote_world.conclude(checks[0], "lease")
    assert not list(remote_world.scheduler)
    assert not remote_world.scheduler.slots.of(remote_world.gate("remote"))


def test_when_a_candidate_leaves_the_next_request_of_its_queue_may_try() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), seats=1)
    world.arrive("a", "switch")
    world.arrive("b", "switch")
    world.arrive("runs", flow="x")
    switch.answer = True
    world.emit("well")  # a is let into its queue, where no seat is free
    assert world.acquisition("a").stage is AcquisitionStage.QUEUED
    world.give_up("a")
    assert world.finish("runs") == ["b"]


@pytest.mark.parametrize("leaves", ["second", "third"])
def test_a_request_may_leave_in_the_step_in_which_an_earlier_one_of_its_flow_is_seated(leaves: str) -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), switch.gate("closed"), levels={"level": level(1, fifo=True)})
    world.close("closed")
    world.arrive("first", "switch")
    world.arrive("second", "closed")
    world.arrive("third")
    runs = world.arrive("runs", flow="x")
    switch.answer = True
    world.emit("well")
    runs.work = Work(1, 1, 10 * MS)
    world.finish("runs")
    world.now += 10 * MS
    assert world.give_up(leaves) == ["first"], "the seat that has lingered is free in the same step"
    assert [ticket.is_seated for ticket in world.tickets.values()] == [True, False]
    world.open("closed")
    world.finish("first")
    assert world.served == ["runs", "first", *({"second", "third"} - {leaves})]


def test_a_request_whose_next_gate_opens_too_late_is_rejected_when_its_first_one_opens() -> None:
    world = GateWorld(Capacity("db", 1, WIDE), Capacity("cache", 1, WIDE), seats=5)
    world.arrive("holder", "db")
    world.arrive("a", "db", "cache")
    world.arrive("b", "db", flow="other")
    world.close("cache", until=world.now + 60 * SECOND)

    assert world.finish("holder") == ["b"]
    assert world.refused == ["a"]
    assert world.finish("b") == []
    assert not list(world.scheduler)


def test_parked_requests_are_counted() -> None:
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

    remote = RemoteWorld()
    remote.come("asked")
    assert remote.gate("remote").parked == 1, "a request about which a gate is asked waits, too"


def test_the_wait_for_a_gate_is_observed_once_with_all_of_its_attempts() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), limit_ns=60 * SECOND)
    world.arrive("a", "switch")
    world.wait(20 * MS)
    world.emit("well")
    world.wait(20 * MS)
    switch.answer = True
    world.emit("well")
    counters = world.gate("switch").counters
    assert (counters.waits.count, counters.waits.total) == (1, 40 * MS)
    assert world.acquisition("a").attempts == 3


def test_of_a_thousand_parked_on_a_hundred_keys_an_event_touches_its_own() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), seats=10, careful=False)
    for number in range(1_000):
        world.arrive(f"{number}", "switch", key=number % 100, flow=f"{number % 7}")
    before = len(switch.asked)
    world.emit("well", 42)
    assert [_key(request) for request in switch.asked[before:]] == [42]


def test_no_more_wait_for_a_gate_than_it_allows_by_default_half_of_a_queue() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(max_parked=None), levels={"l": level(1, queues=1, length=10)})
    states = [world.arrive(f"{number}", "switch", to="l", flow=f"{number}").state.value for number in range(7)]
    assert states == ["waiting"] * 5 + ["rejected"] * 2
    assert world.arrive("other", to="l").is_seated
    few = GateWorld(Switch(answer=True).gate("first"), Switch().gate(max_parked=2))
    few.close("first")
    waited = few.arrive("waited", "first", "switch")
    assert [few.arrive(f"{number}", "switch").is_waiting for number in range(3)] == [True, True, False]
    few.open("first")
    assert waited.is_waiting
    assert few.gate("switch").parked == 3, "a request that has waited is not new"


def first_to_wait(world: RemoteWorld, beside: int = 2) -> None:
    """Park ``first``, let others arrive behind it, and start its next evaluation."""
    world.come("first")
    world.answer("first", ParkDecision())
    for number in range(beside):
        world.come(f"beside {number}")
    world.emit("remote")
    assert world.slot("remote").first is world.acquisition("first")
    assert world.acquisition("first").stage is AcquisitionStage.CHECKING


def cancelled(world: RemoteWorld) -> None:
    world.give_up("first", Reason.CANCELLED)


def timed_out(world: RemoteWorld) -> None:
    world.give_up("first", Reason.TIME_OUT)


def answered_too_late(world: RemoteWorld) -> None:
    world.give_up("first", Reason.TIME_OUT)
    world.answer("first", "lease")


def rejected_by_it(world: RemoteWorld) -> None:
    world.answer("first", Reject())


def raised(world: RemoteWorld) -> None:
    world.answer("first", RuntimeError("away"))


def parked_beyond_its_limit(world: RemoteWorld) -> None:
    world.answer("first", ParkDecision(retry_at=world.now + 1000 * SECOND))


def admitted(world: RemoteWorld) -> None:
    assert world.answer("first", "lease") == ["first"]


def kicked_and_rejected(world: RemoteWorld) -> None:
    world.kick("first")
    world.answer("first", Reject())


ENDS = (
    cancelled,
    timed_out,
    answered_too_late,
    rejected_by_it,
    raised,
    parked_beyond_its_limit,
    admitted,
    kicked_and_rejected,
)


@pytest.mark.parametrize("on_error", ["admit", "reject", "backoff"])
@pytest.mark.parametrize("end", ENDS)
def test_a_gate_continues_however_its_first_waiting_request_ends(
    end: Callable[[RemoteWorld], None], on_error: str
) -> None:
    """The slot used to keep the ended request as its first, whose bypasses are bounded, and then asked for no other."""
    world = RemoteWorld(on_error=on_error)
    first_to_wait(world)
    end(world)
    for number in range(10 * BYPASSES):
        world.come(f"later {number}")
    world.serve_all()

    assert {f"later {number}" for number in range(10 * BYPASSES)} <= {*world.served}
    assert not world.scheduler.slots.of(world.gate("remote"))
    assert world.gate("remote").parked == 0


def test_a_gate_continues_after_another_gate_rejects_its_first_waiting_request() -> None:
    world = RemoteWorld(Condition("db", lambda _: Reject(), Terms()))
    world.come("first", "remote", "db")
    world.answer("first", ParkDecision())
    world.come("beside")
    world.emit("remote")
    world.answer("first", "lease")
    assert world.refused == ["first"]
    for number in range(10 * BYPASSES):
        world.come(f"later {number}")
    world.serve_all()

    assert len(world.served) == 10 * BYPASSES + 1


def test_the_wait_of_one_that_an_asynchronous_gate_rejects_is_observed() -> None:
    world = RemoteWorld()
    first_to_wait(world, beside=0)
    world.now += SECOND
    world.answer("first", Reject())

    counters = world.gate("remote").counters
    assert counters.waits.total == SECOND
    assert counters.rejected == 1


@pytest.mark.parametrize("waits_for", ["a seat", "another gate"])
def test_a_removed_gate_gets_the_leases_back_of_requests_that_wait(waits_for: str) -> None:
    far = FarPlaces()
    world = GateWorld(CustomGate(far, WIDE), Condition("remote", remote, WIDE), seats=1)
    checks = asked(world)
    world.arrive("a", "far", *(["remote"] if waits_for == "another gate" else []))
    if waits_for == "a seat":
        world.arrive("runs", flow="x")
    world.conclude(checks[0], "lease")
    assert far.given_back == []
    world.scheduler.retire(world.now, "far")
    world.note(world.sharing.settle(world.now))
    assert far.given_back == ["lease"]

    if waits_for == "a seat":
        assert world.finish("runs") == ["a"]
    else:
        assert world.conclude(checks[1], "another") == ["a"]
    world.finish("a")
    assert far.given_back == ["lease"]
    assert not list(world.scheduler)


def test_an_event_that_a_removed_gate_emits_as_it_gets_a_lease_back_may_end_a_wait() -> None:
    class Telling(FarPlaces):
        def release(self, lease: object) -> None:
            super().release(lease)
            switch.answer = Reject()
            world.scheduler.emit(world.now, "well")
            world.sharing.settle(world.now)

    far, switch = Telling(), Switch()
    world = GateWorld(CustomGate(far, WIDE), switch.gate(), levels={"held": level(1), "open": level(1)})
    checks = asked(world)
    world.arrive("a", "far", to="held")
    parked = world.arrive("parked", "switch", to="open")
    world.operate("held", held=True)
    world.conclude(checks[0], "lease")
    world.scheduler.retire(world.now, "far")
    world.note(world.sharing.settle(world.now))
    assert far.given_back == ["lease"]
    assert parked.is_rejected
    assert world.operate("held") == ["a"]


@pytest.mark.parametrize("given", [ParkDecision(), Reject(), "lease"])
def test_a_request_passes_if_its_gate_is_removed_during_its_evaluation(given: object) -> None:
    world = RemoteWorld()
    world.come("asked")
    world.scheduler.retire(world.now, "remote")
    assert world.answer("asked", given) == ["asked"]
    world.finish("asked")
    assert not list(world.scheduler)


def test_a_removed_gate_gets_no_lease_back_that_it_has_not_granted() -> None:
    switch = Switch()
    world = GateWorld(switch.gate(), Capacity("db", 1, WIDE))
    world.arrive("a", "switch", "db")
    world.scheduler.retire(world.now, "db")
    switch.answer = True
    assert world.emit("well") == ["a"]
    assert world.errors == []


def test_a_removed_gate_changes_nothing_for_the_other_gates_of_requests() -> None:
    world = GateWorld(Switch().gate("first"), Switch().gate("second"), Capacity("db", 1, WIDE), seats=5)
    db = world.gate("db")
    world.arrive("runs", "db")
    world.arrive("next", "db")
    world.arrive("waits", "first", "second")
    before = world.evaluated("db")
    world.scheduler.retire(world.now, "first")
    world.note(world.sharing.settle(world.now))
    assert world.acquisition("waits").slot is world.slot("second")
    assert world.evaluated("db") == before, "the request there doesn't try again"

    world.scheduler.retire(world.now, "db")
    assert world.note(world.sharing.settle(world.now)) == ["next"]
    assert db.used("") == 1
    world.finish("runs")
    assert db.used("") == 0


def test_a_request_whose_gate_is_removed_while_it_waits_for_a_seat_does_not_wait_there_any_more() -> None:
    switch = Switch()
    gate = switch.gate()
    world = GateWorld(gate)
    world.arrive("a", "switch")
    world.arrive("runs", flow="x")
    switch.answer = True
    world.emit("well")
    world.scheduler.retire(world.now, "switch")
    world.note(world.sharing.settle(world.now))
    assert world.acquisition("a").slot is None
    assert gate.parked == 0
    assert not world.scheduler.slots.of(gate)
    assert world.finish("runs") == ["a"]


def test_of_the_answers_that_come_after_a_request_has_left_only_leases_are_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = GateWorld(Condition("remote", remote, Terms(events=("well",))))
    given_back: list[object] = []
    monkeypatch.setattr(world.gate("remote"), "undo", lambda _key, lease: given_back.append(lease))
    checks = asked(world)
    for name in "abc":
        world.arrive(name, "remote")
        world.give_up(name)
    for check, given in zip(checks, ("lease", ParkDecision(), Reject()), strict=True):
        world.conclude(check, given)
    assert given_back == ["lease"]


def test_a_level_without_queues_refuses_a_request_whose_key_cannot_be_computed() -> None:
    def fail(_: GateRequest) -> str:
        raise LookupError

    gate = Capacity("db", 1, Terms(on_error="reject", status=502), fail)
    world = GateWorld(gate, levels={"level": level(2, queues=0)})
    assert world.arrive("a", "db").is_rejected
    refusal = world.refusals["a"]
    assert refusal is not None
    assert refusal.status == 502
    assert world.gate("db").counters.rejected == 1


@pytest.mark.parametrize("waited", [0, 1])
def test_a_request_that_stops_waiting_knows_when_its_gate_opens(waited: int) -> None:
    world = GateWorld(Tokens("rate", 0.25, 1, terms=WIDE), seats=5)
    world.arrive("a", "rate")
    world.arrive("b", "rate")
    world.wait(waited * SECOND)
    acquisition = world.acquisition("b")
    world.give_up("b")
    assert acquisition.refusal is not None
    assert acquisition.refusal.retry_after == 4 - waited


def test_the_next_poll_of_a_gate_is_no_promise_that_it_opens_then() -> None:
    world = polled(OwnSwitch())
    world.arrive("a", "own")
    acquisition = world.acquisition("a")
    world.give_up("a")
    assert acquisition.refusal is not None
    assert acquisition.refusal.retry_after is None


def test_a_request_that_waited_only_for_a_seat_in_the_end_was_not_refused_by_its_gate() -> None:
    switch = Switch()
    world = GateWorld(switch.gate())
    world.arrive("a", "switch")
    world.arrive("runs", flow="x")
    switch.answer = True
    world.emit("well")
    acquisition = world.acquisition("a")
    world.give_up("a")
    assert acquisition.refusal is None


def test_a_lease_that_ends_with_the_headers_is_given_back_once() -> None:
    short, long = FarPlaces(), FarPlaces()
    short.name, long.name = "short", "long"
    world = GateWorld(CustomGate(short, Terms(release="headers")), CustomGate(long, Terms()))
    checks = asked(world)
    ticket = world.arrive("a", "short", "long")
    world.conclude(checks[0], "until headers")
    assert world.conclude(checks[1], "until the end") == ["a"]
    world.sharing.release_leases(world.now, ticket, early=True)
    assert (short.given_back, long.given_back) == (["until headers"], [])
    world.finish("a")
    assert (short.given_back, long.given_back) == (["until headers"], ["until the end"])


def test_a_lease_that_ends_with_the_headers_goes_to_a_waiting_request_at_once() -> None:
    world = GateWorld(Capacity("db", 1, Terms(max_parked=10, release="headers")), seats=2)
    runs = world.arrive("runs", "db")
    world.arrive("waits", "db")
    assert world.note(world.sharing.release_leases(world.now, runs, early=True)) == ["waits"]


def test_a_request_with_a_lease_passes_although_its_gate_stops_another() -> None:
    world = RemoteWorld()
    world.come("a")
    world.come("b")
    world.answer("b", ParkDecision())
    assert world.answer("a", "lease") == ["a"]


@pytest.mark.parametrize("length", [1, 3])
def test_one_request_may_wait_for_a_gate_however_short_its_queue_is(length: int) -> None:
    world = GateWorld(Switch().gate(max_parked=None), levels={"level": level(1, length=length)})
    assert world.arrive("a", "switch").is_waiting
    assert world.arrive("b", "switch").is_rejected


def test_each_gate_counts_only_the_wait_for_itself() -> None:
    first, second = Switch(), Switch()
    world = GateWorld(*(one.gate(name, flush_ns=60 * SECOND) for name, one in (("first", first), ("second", second))))
    world.arrive("a", "first", "second")
    world.wait(2 * SECOND)
    first.answer = True
    world.emit("first")
    world.wait(3 * SECOND)
    second.answer = True
    assert world.emit("second") == ["a"]
    assert [world.gate(name).counters.waits.total for name in ("first", "second")] == [2 * SECOND, 3 * SECOND]
