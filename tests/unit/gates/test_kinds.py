"""Capacities, token buckets and conditions."""

from typing import TYPE_CHECKING

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Reason
from apf_middleware.gates import (
    Condition,
    CustomGate,
    GateRequest,
    Park,
    Probe,
    Terms,
    Tokens,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from apf_middleware.gates import (
        Gate,
    )
from apf_middleware.gates import ParkDecision, kinds
from tests.support.gate_world import MS, SECOND, WIDE, GateWorld

REQUEST = GateRequest("level", "schema", "flow")


class _Retry:
    name = "own"

    def try_acquire(self, _request: GateRequest, _key: object, _cost: int) -> object:
        return Park(retry_in=100)

    def release(self, lease: object) -> None: ...


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


def test_requests_that_cannot_be_served_in_time_are_rejected_only_behind_their_own_flow() -> None:
    world = GateWorld(Tokens("quota", 1, 1, terms=WIDE), seats=100, limit_ns=5 * SECOND)
    for number in range(10):
        world.arrive(f"elephant{number}", "quota", flow="elephant")
    assert [number for number in range(10) if f"elephant{number}" in world.refusals] == [6, 7, 8, 9]
    assert world.arrive("mouse", "quota", flow="mouse").is_waiting


def test_tokens_that_were_taken_stay_taken_at_another_rate() -> None:
    gate = Tokens("quota", 10, 10, terms=Terms(), key=lambda request: request.flow)
    for _ in range(10):
        assert gate.acquire(0, GateRequest("level", "schema", "flow"), "flow", 1) == 1
    assert gate.opens_at(0, "flow", 1) == SECOND // 10

    gate.set_rate(0, 1, 10)
    assert gate.opens_at(0, "flow", 1) == SECOND

    gate.set_rate(SECOND // 2, 10, 10)
    assert gate.opens_at(SECOND // 2, "flow", 1) == SECOND // 2 + SECOND // 20


def test_of_many_flows_at_low_rates_those_nearest_to_full_are_forgotten() -> None:
    most = kinds._MOST_BUCKETS
    gate = Tokens("quota", 0.001, 2, terms=Terms(), key=lambda request: request.flow)
    assert gate.acquire(0, REQUEST, "heavy", 2) == 2
    for number in range(2 * most):
        assert gate.acquire(number, REQUEST, number, 1) == 1
        assert len(gate._full_at) <= most

    assert isinstance(gate.acquire(SECOND, REQUEST, "heavy", 1), ParkDecision), "the emptiest bucket is kept"
    assert 0 not in gate._full_at
    gate.undo(0, 1)
    assert 0 not in gate._full_at


def test_full_buckets_are_forgotten_first() -> None:
    gate = Tokens("quota", 1, 2, terms=Terms(), key=lambda request: request.flow)
    for number in range(1000):
        gate.acquire(number * SECOND, REQUEST, number, 1)

    assert len(gate._full_at) <= 64


class _Later:
    async def __call__(self, _: GateRequest) -> bool:
        return False


def test_a_condition_that_is_an_object_with_an_async_call_is_asked_as_an_asynchronous_gate() -> None:
    """It used to be called, and the coroutine, was taken for a lease."""
    world = GateWorld(Condition("later", _Later(), Terms()))
    questions: list[object] = []
    world.ask = lambda _now, check: questions.append(check)
    world.arrive("asked", "later")

    assert len(questions) == 1
    assert world.served == []


def test_a_report_of_a_condition_that_fails_is_left_out() -> None:
    def broken() -> bool:
        raise LookupError("a bug")

    condition = Condition("billing", lambda _: True, Terms(), blocks=broken)
    assert not condition.is_blocking("")
    condition.counters.count("", ParkDecision())
    assert condition.is_blocking("")


def test_a_probe_that_has_ended_makes_room_for_one_more() -> None:
    gate = Condition("breaker", lambda _: Probe(2), Terms(max_parked=1000))
    world = GateWorld(gate, seats=50)
    for name in "abcd":
        world.arrive(name, "breaker")
    assert (world.served, gate.used("")) == (["a", "b"], 2)
    assert world.finish("a") == ["c"]
    assert gate.used("") == 2
    for name in "bcd":
        world.finish(name)
    assert gate.used("") is None


@pytest.mark.parametrize("rate", [0, -1])
def test_a_bucket_that_is_never_filled_is_refused(rate: float) -> None:
    with pytest.raises(InvalidValueError, match=rf"^rate is {rate}, but it must be "):
        Tokens("quota", rate, 1, terms=Terms())
