"""What operators see of gates: states whose names can't be read the wrong way."""

from typing import Any

import pytest

from apf_middleware import Gates
from apf_middleware.adapters.breakers import Circuit
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates import QUEUE, SKIP, Capacity, Gate, GateRequest, Hint, Park, Reject
from tests.support.gate_world import MS, WIDE, GateWorld, level

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


def test_a_larger_limit_lets_those_pass_at_once_who_wait_for_it() -> None:
    gates = Gates()
    gates.capacity("db", limit=1)
    world = GateWorld(seats=10, scheduler=gates.scheduler)
    for name in "abc":
        world.arrive(name, "db", flow=name)
    gates.resize("db", 2)
    assert world.note(world.sharing.settle(0)) == ["b"]


def test_a_hint_says_whom_an_event_may_help() -> None:
    gates, asked = Gates(), []

    @gates.condition("model", on="loaded")
    def has_loaded(request: GateRequest) -> bool:
        asked.append(request.flow)
        return len(asked) > 1

    @gates.hint("model", on="loaded")
    def is_useful(event: object, request: GateRequest) -> Hint:
        return QUEUE if request.flow == event else SKIP

    world = GateWorld(seats=10, scheduler=gates.scheduler)
    world.arrive("a", "model", flow="x")
    world.arrive("b", "model", flow="y")
    assert world.emit("loaded", payload="y") == ["b"]
    assert asked == ["x", "y"]


def test_a_request_that_is_kicked_tries_alone() -> None:
    gates, asked = Gates(), []

    @gates.condition("db")
    def never(request: GateRequest) -> bool:
        asked.append(request.flow)
        return False

    world = GateWorld(seats=10, scheduler=gates.scheduler)
    for name in "abc":
        world.arrive(name, "db", flow=name)
    chosen = next(parked for parked in gates.parked("db") if parked.flow == "b")
    assert asked == ["a"]
    assert gates.kick("db", chosen.id) == 1
    world.note(world.sharing.settle(0))
    assert asked == ["a", "b"]
    assert gates.kick("db", 10**9) == 0


def test_a_gate_that_is_closed_for_some_seconds_opens_after_them() -> None:
    gates = Gates()
    gates.capacity("db", limit=1)
    world = GateWorld(seats=10, scheduler=gates.scheduler)
    gates.close("db", for_=1.5)
    world.arrive("a", "db")
    assert world.wait(1_499 * MS) == []
    assert world.wait(MS) == ["a"]


def test_an_own_gate_is_asked_with_the_request_the_key_and_the_cost() -> None:
    calls: list[tuple[object, ...]] = []

    class Memory:
        name = "memory"

        def key(self, request: GateRequest) -> str:
            return f"of {request.flow}"

        def cost(self, _request: GateRequest) -> int:
            return 3

        def try_acquire(self, request: GateRequest, key: str, cost: int) -> str:
            calls.append((request.flow, key, cost))
            return "lease"

        def release(self, lease: str) -> None:
            calls.append((lease,))

    gates = Gates()
    gates.add(Memory())
    world = GateWorld(scheduler=gates.scheduler)
    world.arrive("a", "memory", flow="x")
    world.finish("a")
    assert calls == [("x", "of x", 3), ("lease",)]


def test_a_condition_needs_its_name() -> None:
    decorate: Any = Gates().condition
    with pytest.raises(InvalidValueError, match=r"must be a string. Write @gates.condition\(\"name\"\)$"):
        decorate(lambda _: True)


def test_a_name_that_no_gate_has_is_refused_with_those_that_exist() -> None:
    gates = Gates()
    gates.capacity("web", limit=1)
    gates.capacity("db", limit=1)
    with pytest.raises(InvalidValueError, match=r"^gate is 'dp', .*There are: db, web$"):
        gates.open("dp")
    with pytest.raises(InvalidValueError, match=r"There are: none$"):
        Gates().open("db")


def test_a_gate_whose_key_is_none_does_not_concern_the_request() -> None:
    gates = Gates()
    gates.capacity("db", limit=1, key=lambda request: request.flow if request.flow != "none" else None)
    world = GateWorld(seats=10, scheduler=gates.scheduler)
    for name in ("a", "b"):
        assert world.arrive(name, "db", flow="none").is_seated
    assert [status.key for status in gates.list()] == [None]


def test_a_request_that_a_gate_lets_try_is_shown_until_it_has_its_seat() -> None:
    gates = Gates()
    world = GateWorld(Capacity("db", 1, WIDE), levels={"low": level(1), "high": level(1, least=1)})
    gates.scheduler = world.scheduler
    world.arrive("a", "db", to="high")
    world.arrive("b", "db", to="low")
    world.arrive("long", to="low", flow="other")
    for end in ("a", "long"):
        assert [one.flow for one in gates.parked("db")] == ["flow"]
        assert [(status.key, status.parked) for status in gates.list()] == [("", 1)]
        world.finish(end)
    assert world.served == ["a", "long", "b"]
    assert [(status.key, status.parked) for status in gates.list()] == [(None, 0)]


def test_a_gate_of_the_app_s_own_says_when_its_leases_end() -> None:
    class Places:
        name = "places"
        release_at = "headers"

        def try_acquire(self, _request: GateRequest, _key: object, _cost: int) -> object:
            raise NotImplementedError

        def release(self, lease: object) -> None:
            raise NotImplementedError

    gates = Gates()
    gates.add(Places())
    assert gates.scheduler.gates["places"].terms.release == "headers"
