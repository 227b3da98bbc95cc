"""All leases or none, and what happens when a gate fails."""

import asyncio
from typing import Any

import pytest

from apf_middleware import Gates
from apf_middleware.adapters.asyncpg import pool_gate
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Reason
from apf_middleware.gates import Capacity
from tests.support.gate_world import MS, WIDE, GateWorld, OwnSwitch, Switch, polled


def test_when_the_second_gate_parks_the_first_lease_is_returned_without_an_event() -> None:
    switch = Switch()
    db = Capacity("db", 1, WIDE)
    world = GateWorld(db, switch.gate())
    world.arrive("a", "db", "switch")
    assert db.used("") == 0
    assert not world.scheduler.slots.of(db)
    assert db.counters.events == 0
    assert [slot.key for slot in world.scheduler.slots.of(world.gate("switch"))] == [""]


@pytest.mark.parametrize(("on_error", "outcome"), [("admit", "seated"), ("reject", "rejected"), ("backoff", "waiting")])
def test_a_gate_that_raises_follows_its_error_policy(on_error: str, outcome: str) -> None:
    switch = Switch(OSError("down"))
    world = GateWorld(switch.gate(on_error=on_error))
    ticket = world.arrive("a", "switch")
    assert ticket.state.value == outcome
    if outcome == "waiting":
        world.emit("well")
        assert len(switch.asked) == 1, "an event doesn't hammer a gate that has just broken"
        switch.answer = True
        assert world.wait(10 * MS) == ["a"], "and it is not parked for ever"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3)], ids=repr)
def test_an_exception_of_another_kind_is_a_failure_too(error: BaseException) -> None:
    switch = Switch(error)
    world = GateWorld(switch.gate(on_error="reject"))
    assert world.arrive("a", "switch").state.value == "rejected"

    switch.answer = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        world.arrive("b", "switch")


class StubbornSwitch(OwnSwitch):
    """Raises instead of taking a lease back."""

    def release(self, lease: object) -> None:
        raise OSError(lease)


def test_a_gate_that_fails_to_take_a_lease_back_stops_no_request() -> None:
    switch = Switch()
    world = polled(StubbornSwitch("lease"), switch.gate())
    ticket = world.arrive("a", "own", "switch")
    assert ticket.is_waiting
    assert world.gate("own").counters.evaluations["error"] == 1

    switch.answer = True
    world.emit("well")
    assert ticket.is_seated


def test_a_need_above_the_limit_is_rejected() -> None:
    memory = Capacity("memory", 4, WIDE, cost=lambda _: 5)
    world = GateWorld(memory)
    assert world.arrive("a", "memory").reason is Reason.GATE


class _FailingPool:
    """A pool of an app that can't be read any longer once it ``fails``."""

    def __init__(self) -> None:
        self.in_use = 0
        self.readings_left = 1_000_000

    def get_size(self) -> int:
        self.readings_left -= 1
        if self.readings_left < 0:
            raise RuntimeError("the pool is closed")
        return self.in_use

    def get_idle_size(self) -> int:
        return 0

    def get_max_size(self) -> int:
        return 1


def test_a_pool_that_fails_after_it_granted_a_lease_keeps_no_request_waiting() -> None:
    gates, pool = Gates(), _FailingPool()
    pool_gate(gates, "db", pool)
    world = GateWorld(*gates.scheduler.gates.values(), seats=5)
    gates.scheduler = world.scheduler
    world.arrive("a", "db")
    world.arrive("b", "db")
    assert world.served == ["a"]
    pool.readings_left = 1  # for the question, but not for whether the pool is full then
    assert world.finish("a") == ["b"]
    assert [str(error) for error in world.errors] == ["the pool is closed"]
    status = gates.list()[0]
    assert (status.state, status.acquired, status.limit) == ("passing", None, 1)
    world.arrive("c", "db")
    assert world.served == ["a", "b", "c"], "by default a gate that fails lets requests pass"


@pytest.mark.parametrize("size", ["5", 0, None])
def test_a_pool_whose_size_is_no_number_is_refused(size: Any) -> None:  # noqa: ANN401
    pool = _FailingPool()
    pool.get_max_size = lambda: size  # type: ignore[method-assign]
    with pytest.raises(InvalidValueError, match="size of the pool of the gate 'db'"):
        pool_gate(Gates(), "db", pool)
