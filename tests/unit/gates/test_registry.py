"""What operators see of gates: states whose names can't be read the wrong way."""

from typing import Any

import pytest

from apf_middleware import Gates
from apf_middleware.adapters.breakers import Circuit
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates import Gate, GateRequest, Park, Reject
from tests.support.gate_world import GateWorld

REQUEST = GateRequest("level", "schema", "flow")


def state(gates: Gates, name: str = "db") -> str:
    return next(status.state for status in gates.list() if status.gate == name)


def world_of(gates: Gates) -> GateWorld:
    return GateWorld(*_all(gates), seats=10)


def _all(gates: Gates) -> list[Gate]:
    return list(gates.scheduler.gates.values())


def shown(world: GateWorld, gates: Gates) -> str:
    """Return the state of the gates at work in ``world``."""
    gates.scheduler = world.scheduler
    return state(gates)


def test_a_breaker_that_is_open_is_blocking_before_any_request_asks() -> None:
    gates = Gates()
    now = [0.0]
    circuit = Circuit(gates, "db", clock=lambda: now[0])
    assert state(gates) == "passing"
    circuit.note("open", 30)
    assert state(gates) == "blocking"
    now[0] = 31.0
    assert state(gates) == "passing", "it lets a request try"
    circuit.note("closed")
    assert state(gates) == "passing"


@pytest.mark.parametrize("answer", [False, Park(), Park(retry_in=10_000), Reject(), RuntimeError("away")])
def test_a_condition_is_blocking_after_a_refusal_until_an_event(answer: Any) -> None:  # noqa: ANN401
    gates = Gates()
    answers = [answer]

    @gates.condition("db", on_error="reject")
    def ask(_: GateRequest) -> object:
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]

    world = world_of(gates)
    assert shown(world, gates) == "passing"
    world.arrive("a", "db")
    assert shown(world, gates) == "blocking"
    if world.tickets["a"].is_waiting:
        world.give_up("a")
    answers[0] = True
    world.emit("db")
    assert shown(world, gates) == "passing"
    world.arrive("b", "db")
    assert (world.served, shown(world, gates)) == (["b"], "passing")


def test_a_capacity_that_is_full_is_blocking_and_one_that_an_operator_has_closed_is_held() -> None:
    gates = Gates()
    gates.capacity("db", limit=1)
    world = world_of(gates)
    assert shown(world, gates) == "passing"
    world.arrive("a", "db")
    assert shown(world, gates) == "blocking"
    world.close("db")
    assert shown(world, gates) == "held"
    world.open("db")
    world.finish("a")
    assert shown(world, gates) == "passing"


def test_one_key_that_is_full_says_nothing_of_the_others() -> None:
    gates = Gates()
    gates.capacity("db", limit=1, key=lambda request: request.flow)
    world = world_of(gates)
    world.arrive("a", "db", flow="x")
    assert shown(world, gates) == "passing"
    world.arrive("b", "db", flow="x")
    assert [(status.key, status.state) for status in gates.list()] == [("x", "blocking")]


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), "30"])
def test_a_gate_is_closed_for_a_time_that_can_be_counted(seconds: Any) -> None:  # noqa: ANN401
    gates = Gates()
    gates.capacity("db", limit=1)
    with pytest.raises(InvalidValueError, match="for_"):
        gates.close("db", for_=seconds)


def test_the_one_event_of_a_gate_needs_no_list() -> None:
    class Memory:
        name, events = "memory", "model.loaded"

        def try_acquire(self, _request: GateRequest, _key: object, _cost: int) -> Park:
            return Park()

        def release(self, lease: object) -> None: ...

    gates = Gates()
    gates.add(Memory())

    assert gates.scheduler.gates["memory"].events == ("model.loaded",)
