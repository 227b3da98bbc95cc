"""Circuit breakers of both libraries: open ones park or reject requests, half-open ones admit some, closed ones all."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread
import pybreaker
import pytest
from purgatory import AsyncCircuitBreakerFactory

from apf_middleware import Gates
from apf_middleware.adapters.breakers import Circuit
from apf_middleware.adapters.purgatory import purgatory_gate
from apf_middleware.adapters.pybreaker import pybreaker_gate
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates import GateRequest, Park, Probe
from tests.support.handler_app import HandlerApp
from tests.support.protected_app import problem
from tests.support.until import until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

REQUEST = GateRequest("level", "schema", "flow")


Use = Callable[[], Coroutine[Any, Any, None]]
Library = Callable[[Gates, int, float, int], "Guarded"]


class Guarded(Protocol):
    """A dependency behind a breaker."""

    circuit: Circuit

    async def call(self, what: Use) -> None: ...


class Purgatory:
    def __init__(self, gates: Gates, threshold: int, ttl: float, probes: int) -> None:
        self.factory = AsyncCircuitBreakerFactory(default_threshold=threshold, default_ttl=60)
        self.circuit = purgatory_gate(gates, "db", self.factory, "billing", probes=probes)
        self.ttl = ttl

    async def call(self, what: Use) -> None:
        async with await self.factory.get_breaker("billing", ttl=self.ttl):
            await what()


class Pybreaker:
    """pybreaker holds a lock during a call, so calls are made in threads."""

    def __init__(self, gates: Gates, threshold: int, ttl: float, probes: int) -> None:
        self.breaker = pybreaker.CircuitBreaker(fail_max=threshold, reset_timeout=ttl)
        self.circuit = pybreaker_gate(gates, "db", self.breaker, probes=probes)

    async def call(self, what: Use) -> None:
        def blocks() -> None:
            anyio.from_thread.run(what)

        await anyio.to_thread.run_sync(self.breaker.call, blocks)


@dataclass
class Dependency:
    """A dependency that counts its calls; they last until ``door`` is open, and fail while it is down."""

    is_down: bool = True
    now: int = 0
    most: int = 0
    came: int = 0
    door: anyio.Event = field(default_factory=anyio.Event)

    async def use(self) -> None:
        self.came += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self.door.wait()
            if self.is_down:
                raise ConnectionError("down")
        finally:
            self.now -= 1


@pytest.fixture(params=[Purgatory, Pybreaker])
def library(request: pytest.FixtureRequest) -> Library:
    found: Library = request.param
    return found


async def open_up(guarded: Guarded, times: int) -> None:
    """Open the breaker by failing calls."""

    async def fail() -> None:
        raise ConnectionError("down")

    for _ in range(times):
        with pytest.raises((ConnectionError, pybreaker.CircuitBreakerError)):
            await guarded.call(fail)


async def test_a_half_open_breaker_admits_one_probe_and_a_closed_one_all_requests(library: Library) -> None:
    async with anyio.create_task_group() as tasks:
        gates, dependency = Gates(flush=60), Dependency(is_down=False)
        guarded = library(gates, 2, 0.5, 1)
        await open_up(guarded, 2)
        protected = HandlerApp(tasks, gates, lambda _: guarded.call(dependency.use))
        waiters = protected.request_many(20, users=3)
        await until(lambda: dependency.came == 1 and protected.parked == 19)
        await asyncio.sleep(0.03)
        assert (dependency.came, protected.parked) == (1, 19)

        dependency.door.set()
        for waiter in waiters:
            await waiter.end()
        assert guarded.circuit.state == "closed"
        assert {waiter.status for waiter in waiters} == {200}
        assert protected.rescues == 0
        assert protected.is_idle()


async def test_the_number_of_simultaneous_probes_is_configurable() -> None:
    """A half-open breaker of Purgatory admits all calls; the gate doesn't."""
    async with anyio.create_task_group() as tasks:
        gates, dependency = Gates(flush=60), Dependency(is_down=False)
        guarded = Purgatory(gates, 2, 0.05, 3)
        await open_up(guarded, 2)
        protected = HandlerApp(tasks, gates, lambda _: guarded.call(dependency.use))
        waiters = protected.request_many(10)
        await until(lambda: dependency.came == 3)
        await asyncio.sleep(0.02)
        assert dependency.came == 3

        dependency.door.set()
        for waiter in waiters:
            await waiter.end()


async def test_a_failed_probe_opens_the_breaker_again(library: Library) -> None:
    async with anyio.create_task_group() as tasks:
        gates, dependency, states = Gates(flush=60), Dependency(), []
        dependency.door.set()
        guarded = library(gates, 1, 0.3, 1)
        await open_up(guarded, 1)

        async def quietly(_path: str) -> None:
            try:
                await guarded.call(dependency.use)
            except (ConnectionError, pybreaker.CircuitBreakerError):
                states.append(guarded.circuit.state)
                dependency.is_down = False

        protected = HandlerApp(tasks, gates, quietly)
        for waiter in protected.request_many(5):
            await waiter.end()
        assert states
        assert "closed" not in states  # on a slow machine a breaker may be half open again already
        assert (dependency.came, protected.rescues) == (5, 0)


async def test_a_request_that_cannot_wait_is_rejected_with_retry_after(library: Library) -> None:
    async with anyio.create_task_group() as tasks:
        gates = Gates()
        guarded = library(gates, 1, 300, 1)
        await open_up(guarded, 1)
        protected = HandlerApp(tasks, gates, lambda _: anyio.lowlevel.checkpoint(), wait="200s")
        refused = await protected.request("/db/1").end()

        assert (refused.status, problem(refused)["reason"], problem(refused)["gate"]) == (503, "gate", "db")
        assert 240 <= int(refused.headers["retry-after"]) <= 400
        assert protected.started == []


async def test_closing_a_breaker_by_hand_admits_all_parked_requests() -> None:
    async with anyio.create_task_group() as tasks:
        gates = Gates(flush=60)
        guarded = Pybreaker(gates, 1, 30, 1)
        guarded.breaker.open()
        protected = HandlerApp(tasks, gates, lambda _: anyio.lowlevel.checkpoint(), wait="60s")
        waiters = protected.request_many(3)
        await until(lambda: protected.parked == 3)
        await anyio.to_thread.run_sync(guarded.breaker.close)
        with anyio.fail_after(60):
            for waiter in waiters:
                await waiter.end()


async def test_pybreaker_notifies_before_the_state_changes() -> None:
    """This is why the adapter takes the state from the notification and not from the breaker."""
    seen = []

    class Listener(pybreaker.CircuitBreakerListener):
        def state_change(self, cb: pybreaker.CircuitBreaker, old_state: Any, new_state: Any) -> None:  # noqa: ANN401, ARG002
            seen.append((cb.current_state, new_state.name))

    breaker = pybreaker.CircuitBreaker(listeners=[Listener()])
    breaker.open()

    assert seen == [("closed", "open")]
    assert breaker.current_state == "open"


async def test_a_breaker_that_is_already_open_blocks() -> None:
    breaker = pybreaker.CircuitBreaker(reset_timeout=30)
    breaker.open()

    assert pybreaker_gate(Gates(), "db", breaker).state == "open"


async def test_another_circuit_of_the_factory_changes_nothing() -> None:
    gates = Gates()
    guarded = Purgatory(gates, 1, 30, 1)
    async with anyio.create_task_group():
        breaker = await guarded.factory.get_breaker("shipping")
        with pytest.raises(ConnectionError):
            async with breaker:
                raise ConnectionError("down")

    assert guarded.circuit.state == "closed"


async def test_a_breaker_becomes_half_open_with_time() -> None:
    now = [100.0]
    circuit = Circuit(Gates(), "db", 2, clock=lambda: now[0])

    assert circuit.ask(REQUEST) is None
    circuit.note("open", 5)
    assert circuit.ask(REQUEST) == Park(retry_in=5)
    now[0] = 105
    assert circuit.ask(REQUEST) == Probe(2)
    circuit.note("half-open", 5)
    assert circuit.ask(REQUEST) == Probe(2)
    circuit.note("closed")
    assert circuit.ask(REQUEST) is None


@pytest.mark.parametrize("ttl", ["10", 0, -1, True])
async def test_a_ttl_with_which_an_open_breaker_would_go_unnoticed_is_refused(ttl: Any) -> None:  # noqa: ANN401
    gates = Gates()
    with pytest.raises(InvalidValueError, match="ttl is"):
        purgatory_gate(gates, "db", AsyncCircuitBreakerFactory(), "db", ttl=ttl)
    assert not gates.names
