"""Random requests, reloads and operations: no counter that Prometheus reads ever falls, and all sums are right.

Prometheus takes a counter that falls for one that began again from 0. Time is virtual.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

import anyio
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.service import Service
from apf_middleware.config import Configuration, load_text
from apf_middleware.exceptions import APFError
from tests.support.asgi_exchange import Exchange, http_scope, websocket_scope
from tests.support.examples import seeds
from tests.support.protected_app import settle
from tests.support.reloadable_app import written
from tests.support.virtual_loop import VirtualLoop

Series = tuple[str, tuple[tuple[str, str], ...]]

LEVEL: Final = "---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: {}}}\nspec: {{{}}}\n"
SCHEMA: Final = """---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: {name}}}
spec:
  level: {level}
  distinguisher: {{source: header, name: x-user}}
  gates: [{gates}]
  rules: [{{httpRules: [{{paths: [/{path}]}}]}}]
"""
QUEUED: Final = (
    "shares: 5, waitLimit: 100ms, streams: {maxOpen: 2}, queuing: {queues: 2, handSize: 1, queueLengthLimit: 3}"
)
LEVELS: Final = (QUEUED, QUEUED, f"{QUEUED}, parent: tenants", "shares: 3, response: Reject", "type: Exempt")
GATES: Final = ("capacity: 1", "capacity: 2", "capacity: 1, per: flow", "tokens: {rate: 50, burst: 2}")


GAUGES: Final = frozenset(
    {
        "apf_current_executing_requests",
        "apf_current_executing_seats",
        "apf_current_inqueue_requests",
        "apf_current_inqueue_seats",
        "apf_open_streams",
        "apf_parked_requests",
        "apf_queue_requests",
        "apf_queue_used_seats",
        "apf_receiving_requests",
    }
)
"""What there is now; 0 in the end."""


def configuration(chance: Random) -> Configuration:
    """Return a configuration with some of three levels, and three schemas that are at any of them."""
    names = ["a", *chance.sample("bc", chance.randint(0, 2))]
    levels = {name: chance.choice(LEVELS) for name in names}
    if any("parent" in spec for spec in levels.values()):
        levels["tenants"] = "shares: 10"
    server = (
        f", estimation: {{default: {{source: constant, seats: {chance.choice((1, 2))}}}, cap: false}}"
        f", deadlines: {{prediction: {chance.choice(('on', 'off'))}}}, bodies: {{holdSeats: false}}"
        f", gates: [{{name: db, {chance.choice(GATES)}}}]"
    )
    documents = [LEVEL.format(*one) for one in levels.items()]
    for path in "xyz":
        name, gates = chance.choice((f"{path}-1", f"{path}-2")), chance.choice(("", "", "db"))
        documents.append(SCHEMA.format(name=name, level=chance.choice(names), path=path, gates=gates))
    return load_text(written(*documents, seats=chance.choice((2, 4)), server=server))


@dataclass(frozen=True)
class Plan:
    """What the app does with a request: hold it, and perhaps end it as a stream, with an error or a status."""

    hold_s: float
    status: int
    is_stream: bool
    releases: bool
    charges: bool
    fails: str


def plan(chance: Random) -> Plan:
    return Plan(
        hold_s=chance.choice((0, 0.01, 0.1, 1, 30)),
        status=chance.choice((200, 200, 503)),
        is_stream=chance.random() < 0.2,
        releases=chance.random() < 0.2,
        charges=chance.random() < 0.1,
        fails=chance.choice(("", "", "", "early", "late")),
    )


class World:
    """The middleware with random traffic, and the counters of the last scrape."""

    def __init__(self, seed: int, tasks: anyio.abc.TaskGroup) -> None:
        self.chance, self.tasks = Random(seed), tasks
        self.exchanges: list[Exchange] = []
        self.registry = CollectorRegistry()
        self.middleware = APFMiddleware(self.serve, configuration(self.chance), registry=self.registry)
        self.service = self.middleware.service
        self.before: Mapping[Series, float] = {}
        self.known = self.objects()

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        one: Plan = scope["plan"]
        is_socket = scope["type"] == "websocket"
        await receive()
        if is_socket:
            await send({"type": "websocket.accept"})
        if one.charges:
            scope["apf"].charge(3)
        if one.releases:
            scope["apf"].release()
        if one.fails == "early":
            raise ValueError
        await asyncio.sleep(one.hold_s)
        if not is_socket:
            kind = [(b"content-type", b"text/event-stream")] if one.is_stream else []
            await send({"type": "http.response.start", "status": one.status, "headers": kind})
            await asyncio.sleep(one.hold_s)
        if one.fails == "late":
            raise ValueError
        await send({"type": "websocket.close"} if is_socket else {"type": "http.response.body"})

    # Steps

    async def step(self) -> str:
        """Do something random, and return its name."""
        running = [one for one in self.exchanges if not one.ended.is_set()]
        steps = {"ask": 12, "pass time": 6, "cancel": 2, "hang up": 2, "reload": 3, "switch": 2, "queue": 2, "gate": 1}
        [name] = self.chance.choices(list(steps), list(steps.values()))
        if name == "ask":
            self.exchanges = [*running, *(self.ask() for _ in range(self.chance.randint(1, 4)))]
        elif name == "pass time":
            await asyncio.sleep(self.chance.choice((0.001, 0.02, 0.2, 2)))
        elif name == "reload":
            self.service.adopt(self.service.prepare(configuration(self.chance)))
        elif name == "switch":
            self.service.switch(self.chance.choice(("on", "on", "observe", "off")))
        elif name == "queue":
            self.operate()
        elif name == "gate":
            gates = self.service.controller.gates
            assert gates is not None
            gates.close("db", self.chance.choice((0.05, 0.5)))
        elif running and name == "cancel":
            self.chance.choice(running).cancel_scope.cancel()
        elif running:
            self.chance.choice(running).disconnect()
        await settle()
        return name

    def ask(self) -> Exchange:
        chance, path = self.chance, f"/{self.chance.choice('xyz')}"
        headers = {"x-user": chance.choice("uvw"), "grpc-timeout": chance.choice(("50m", "500m", "10S", "bad"))}
        if chance.random() < 0.1:
            exchange = Exchange(self.middleware, websocket_scope(path, plan=plan(chance)), self.tasks)
            exchange.deliver({"type": "websocket.connect"})
        else:
            scope = http_scope(path, chance.choice(("GET", "POST")), headers, plan=plan(chance))
            exchange = Exchange(self.middleware, scope, self.tasks).body()
        return exchange.start()

    def operate(self) -> None:
        name, queues = self.chance.choice(("a", "b", "c", "live", "tenants")), self.service.queues
        action = self.chance.choice(("open", "open", "pause", "close", "shed", "delete", "create"))
        try:
            if action == "create":
                queues.create(name)
            elif action == "delete":
                queues.delete(name, cascade=True)
            elif action == "shed":
                queues.operate(name, "close", mode="shed")
            else:
                queues.operate(name, action)
        except APFError:  # the queue, or its state, isn't suitable
            pass

    # Checks

    def objects(self) -> set[tuple[str, ...]]:
        """Return the levels, and the schemas with their levels, which have series. The sums of parents may fall."""
        configuration = self.service.controller.configuration
        schemas = {(schema.level, schema.name) for schema in configuration.schemas}
        return schemas | {(name,) for name in configuration.working_levels}

    def check(self, step: str) -> None:
        """Compare with the scrape before, as far as objects were there all the time."""
        metrics = {one.name: one for one in self.registry.collect()}
        now = {
            (one.name, tuple(one.labels.items())): one.value
            for metric in metrics.values()
            if metric.type != "gauge"
            for one in metric.samples
        }
        present, self.known = self.known, self.objects()
        present &= self.known
        for (name, labels), value in self.before.items():
            if now.get((name, labels), value) < value:
                found = dict(labels)
                owner = [found[one] for one in ("queue", "priority_level", "flow_schema") if one in found]
                assert owner and tuple(owner) not in present, (step, name, found)  # noqa: PT018
        self.before = now
        self.check_sums(metrics)

    def check_sums(self, metrics: Mapping[str, Metric]) -> None:
        """Check that all requests that have got seats run or have ended, and that all are counted by their seats."""

        def total(name: str, suffix: str = "") -> float:
            return sum(one.value for one in metrics[name].samples if one.name == name + suffix)

        dispatched = total("apf_dispatched_requests", "_total")
        waiting, running = total("apf_current_inqueue_requests"), total("apf_current_executing_requests")
        assert dispatched == total("apf_request_execution_seconds", "_count") + running
        passed = sum(one.counters.passed for one in self.service.reading().schemas)
        arrived = dispatched + waiting + passed + total("apf_rejected_requests", "_total")
        assert arrived == total("apf_work_estimated_seats", "_count")
        for name in GAUGES:
            assert all(one.value >= 0 for one in metrics[name].samples), name

    def check_nothing_is_left(self) -> None:
        for metric in self.registry.collect():
            assert metric.name not in GAUGES or not any(one.value for one in metric.samples), metric


async def live(seed: int, steps: int) -> None:
    async with anyio.create_task_group() as tasks:
        world = World(seed, tasks)
        for _ in range(steps):
            world.check(await world.step())
        for one in world.exchanges:
            one.cancel_scope.cancel()
        await asyncio.sleep(60)
        world.check("the end")
        world.check_nothing_is_left()


@pytest.mark.parametrize("seed", seeds(4))
def test_no_counter_falls(seed: int) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.MonkeyPatch.context() as patch:
        loop = runner.get_loop()
        clocked = partial(Service, now=lambda: round(loop.time() * 10**9))
        patch.setattr("apf_middleware.asgi.middleware.Service", clocked)
        runner.run(live(seed, 60))
