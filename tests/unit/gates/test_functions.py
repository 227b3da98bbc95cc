"""Functions of an app that can't work as parts of a gate: they are refused, or count as failures of the gate."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from apf_middleware import Gates
from apf_middleware.adapters.httpx import host_gate
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates import Capacity, CustomGate, Gate, GateRequest, Park, Reject, Terms
from tests.support.gate_world import GateWorld, RemoteWorld


async def later(*_: object) -> Any:  # noqa: ANN401
    return "answer"


def one_by_one(*_: object) -> Iterator[str]:
    yield "answer"


async def later_one_by_one(*_: object) -> AsyncIterator[str]:
    yield "answer"


class _Own:
    name = "own"

    def __init__(self, answer: object = "lease") -> None:
        self.answer = answer

    def try_acquire(self, _request: GateRequest, _key: object, _cost: int) -> object:
        return self.answer

    def release(self, lease: object) -> None: ...


class _ReleasedLater(_Own):
    async def release(self, lease: object) -> None: ...  # type: ignore[override]


class _UndoneLater(_Own):
    async def undo(self, lease: object) -> None: ...


def add_hint(gates: Gates, function: Any) -> object:  # noqa: ANN401
    gates.capacity("db", 1)
    return gates.hint("db", on="event")(function)


@pytest.mark.parametrize("function", [later, one_by_one, later_one_by_one, "not a function"])
@pytest.mark.parametrize(
    "define",
    [
        lambda gates, function: gates.capacity("db", 1, key=function),
        lambda gates, function: gates.tokens("db", rate=1, burst=1, cost=function),
        lambda gates, function: gates.condition("db", blocks=function)(lambda _: True),
        lambda gates, function: host_gate(gates, "db", {"host": 1}, host=function),
        add_hint,
    ],
)
def test_a_function_that_nothing_awaits_is_refused(define: Callable[[Gates, Any], object], function: object) -> None:
    with pytest.raises(InvalidValueError, match="of the gate 'db' is "):
        define(Gates(), function)


@pytest.mark.parametrize("own", [_ReleasedLater(), _UndoneLater()])
def test_an_own_gate_whose_leases_would_never_come_back_is_refused(own: _Own) -> None:
    with pytest.raises(InvalidValueError, match=r"of the gate 'own' is .* it isn't awaited\. Define it with def"):
        Gates().add(own)


def test_a_text_is_not_a_list_of_the_names_of_events() -> None:
    with pytest.raises(InvalidValueError, match="events is 'well', but it must be a tuple of names"):
        Gates().capacity("db", 1, events="well")  # type: ignore[arg-type]


def test_a_class_in_place_of_an_own_gate_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="it must be an object with name, try_acquire and release"):
        Gates().add(_Own)  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [Park, Reject, one_by_one(), later_one_by_one(), None, False])
def test_an_answer_that_is_no_lease_is_an_error_of_the_gate(answer: object) -> None:
    world = GateWorld(CustomGate(_Own(answer), Terms(on_error="reject")))
    world.arrive("a", "own")
    assert (world.served, list(world.refusals), len(world.errors)) == ([], ["a"], 1)


@pytest.mark.parametrize("key", [["a"], ("a", ["b"]), one_by_one()])
def test_a_key_that_cannot_be_one_is_an_error_of_the_gate_alone(key: object) -> None:
    gate = Capacity("db", 1, Terms(on_error="reject"), lambda request: request.state["key"])
    world = GateWorld(gate, seats=5)
    world.arrive("a", "db", key="shard")
    world.arrive("b", "db", key="shard")
    world.arrive("c", "db", key=key)
    assert (world.served, list(world.refusals), len(world.errors)) == (["a"], ["c"], 1)
    assert world.finish("a") == ["b"]


def test_a_coroutine_is_no_key() -> None:
    coroutine: Any = later()
    world = GateWorld(Capacity("db", 1, Terms(on_error="reject"), lambda _: coroutine))
    world.arrive("a", "db")
    coroutine.close()
    assert (list(world.refusals), len(world.errors)) == (["a"], 1)


@pytest.mark.parametrize("host", [b"host", 1])
def test_a_host_of_another_type_is_an_error_of_the_gate(host: Any) -> None:  # noqa: ANN401
    gate = host_gate(Gates(), "db", {"host": 1}, host=lambda _: host, on_error="reject")
    world = GateWorld(gate)
    world.arrive("a", "db")
    assert (list(world.refusals), len(world.errors)) == (["a"], 1)


class _Silent(Gate):
    def acquire(self, *_: object) -> object:
        return None


def test_a_gate_that_answers_nothing_fails_and_is_not_asked_without_end() -> None:
    world = GateWorld(_Silent("db", Terms()))
    world.arrive("a", "db")
    assert (world.served, len(world.errors)) == (["a"], 1)
    later_world = RemoteWorld(seats=1)
    later_world.come("b")
    assert later_world.answer("b", None) == ["b"]
    assert len(later_world.errors) == 1
