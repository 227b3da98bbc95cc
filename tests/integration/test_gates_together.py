"""Gates together with other features: paused and closed queues, streams, named queues, charges, spans."""

import json

import anyio
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.types import Receive, Scope, Send

from apf_middleware.classification import RequestDigest
from apf_middleware.config import Configuration, load_text
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime import Admission
from apf_middleware.snapshots import NamedQueueSnapshot
from tests.support.asgi_exchange import Exchange, http_scope
from tests.support.dumps import cells
from tests.support.gated_app import GatedApp
from tests.support.protected_app import problem, settle

pytestmark = pytest.mark.anyio

WATCHED = (
    "admin: {groups: [operators]}\n  authentication: [{type: proxy, networks: [127.0.0.1], userHeaders: [X-User]}]"
)
EVENTS = [(b"content-type", b"text/event-stream")]


def configuration(
    *,
    gates: str = "{name: db, capacity: 1}",
    level: str = "",
    server: str = "",
    schema: str = "gates: [db]",
    seats: int = 10,
) -> Configuration:
    return load_text(
        f"""
apiVersion: apf/v1
kind: Server
spec:
  seats: {seats}
  defaults: none
  gates: [{gates}]
  {server}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: crowd}}
spec:
  shares: 1000
  waitLimit: 10s
  queuing: {{queues: 2, handSize: 1, queueLengthLimit: 100}}
  {level}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: batch}}
spec: {{shares: 1, minSeats: 1, waitLimit: 10s, gates: [db]}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: gated}}
spec:
  level: crowd
  precedence: 10
  {schema}
  distinguisher: {{source: header, name: X-User}}
  rules:
  - httpRules: [{{paths: ["/db/*"]}}]
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: others}}
spec:
  level: crowd
  rules:
  - httpRules: [{{}}]
"""
    )


class GatedQueueApp(GatedApp):
    """A gated app with named queues."""

    def operate(self, action: str, mode: str = "drain") -> None:
        self.middleware.service.queues.operate("crowd", action, mode=mode)

    @property
    def status(self) -> NamedQueueSnapshot:
        return self.middleware.service.queues.status("crowd")

    async def finish_all(self, *exchanges: Exchange, path: str = "/db/hold") -> None:
        """End the holder, so that all requests are answered."""
        self.finish(path)
        with anyio.fail_after(60):
            for exchange in exchanges:
                await exchange.end()
        assert self.is_idle()


# Operations on queues


async def test_parked_requests_stay_parked_while_their_queue_is_paused() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration())
        holder = await protected.holder("/db/hold")
        parked = protected.request("/db/parked")
        await settle()
        assert (protected.status.pending, protected.status.inqueue, protected.status.running) == (1, 0, 1)

        protected.operate("pause")
        late = protected.request("/db/late", user="bob")
        await settle()
        protected.finish("/db/hold")
        await holder.end()
        await settle()
        assert protected.started == ["/db/hold"]
        assert protected.used("db") == 0
        status = protected.status
        assert (str(status.state), status.pending + status.inqueue, status.running) == ("Paused", 2, 0)
        assert status.arrived == 3

        protected.operate("open")
        with anyio.fail_after(60):
            await parked.end()
            await late.end()
        assert (parked.status, late.status) == (200, 200)
        assert protected.is_idle()


async def test_a_queue_with_parked_requests_is_not_closed_yet() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration())
        protected.gates.close("db")
        parked = protected.request("/db/parked")
        await settle()
        protected.operate("close")
        status = protected.status
        assert (str(status.state), status.pending, status.inqueue, status.running) == ("Closing", 1, 0, 0)
        newcomer = await protected.request("/db/newcomer").end()
        assert problem(newcomer)["reason"] == "queue-closing"

        protected.gates.open("db")
        with anyio.fail_after(60):
            await parked.end()
        assert parked.status == 200
        assert str(protected.status.state) == "Closed"
        assert problem(await protected.request("/db/too-late").end())["reason"] == "queue-closed"
        assert protected.is_idle()


async def test_a_shedding_queue_rejects_parked_requests() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration())
        holder = await protected.holder("/db/hold")
        parked = [protected.request(f"/db/{number}", user=f"u{number}") for number in range(3)]
        await settle()
        assert protected.status.pending == 3

        protected.operate("close", "shed")
        with anyio.fail_after(60):
            for one in parked:
                await one.end()
        assert {problem(one)["reason"] for one in parked} == {"queue-closing"}
        assert (protected.status.pending, str(protected.status.state)) == (0, "Closing")
        assert protected.started == ["/db/hold"]
        await protected.finish_all(holder)
        assert str(protected.status.state) == "Closed"
        assert protected.status.arrived == 4


async def test_parked_requests_of_a_deleted_queue_are_rejected() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(
            tasks, configuration(server="queues: {header: X-Queue, groups: ['system:unauthenticated']}")
        )
        holder = await protected.holder("/db/hold")
        scope = http_scope("/anything", headers={"X-Queue": "batch"})
        parked = Exchange(protected.middleware, scope, tasks).body().start()
        await settle()
        assert [one.level for one in protected.gates.parked("db")] == ["batch"]
        protected.middleware.service.queues.delete("batch", cascade=True)
        with anyio.fail_after(60):
            await parked.end()
        assert problem(parked)["reason"] == "queue-closed"
        await protected.finish_all(holder)


# Streams


@pytest.mark.parametrize("release", ["response", "headers"])
async def test_event_streams_release_seats_at_the_start_and_leases_as_the_gate_says(release: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration(gates=f"{{name: db, capacity: 1, release: {release}}}", seats=1))
        protected.may_finish["/db/hold"] = anyio.Event()

        async def app(scope: Scope, _receive: Receive, send: Send) -> None:
            protected.started.append(scope["path"])
            await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
            await protected.may_finish["/db/hold"].wait()
            await send({"type": "http.response.body", "body": b""})

        protected.middleware.app = app
        first = protected.request("/db/first")
        await settle()
        second = protected.request("/db/second")
        await settle()
        has_lease_back = release == "headers"
        assert protected.status.used == 0
        assert protected.used("db") == (0 if has_lease_back else 1)
        assert protected.started == ["/db/first", "/db/second"][: 2 if has_lease_back else 1]
        await protected.finish_all(first, second)
        assert protected.started == ["/db/first", "/db/second"]


async def test_a_stream_without_gates_leaves_nothing_behind_where_requests_keep_their_order() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration(level="dequeueStrategy: fifo"))

        async def app(scope: Scope, _receive: Receive, send: Send) -> None:
            assert scope["apf"].release()
            await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
            await send({"type": "http.response.body", "body": b""})

        protected.middleware.app = app
        assert (await protected.request("/other").end()).status == 200
        assert protected.is_idle()


async def test_a_stream_beyond_the_limit_is_rejected_before_any_gate() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration(level="streams: {maxOpen: 1}", gates="{name: db, capacity: 5}"))
        protected.may_finish["/db/hold"] = anyio.Event()
        accepts = {"X-User": "alice", "Accept": "text/event-stream"}
        first = Exchange(protected.middleware, http_scope("/db/hold", headers=accepts), tasks).body().start()
        await settle()
        asked = protected.gates.scheduler.gates["db"].counters.evaluated
        second = (
            await Exchange(protected.middleware, http_scope("/db/two", headers=accepts), tasks).body().start().end()
        )

        assert problem(second)["reason"] == "stream-limit"
        assert protected.gates.scheduler.gates["db"].counters.evaluated == asked == 1
        await protected.finish_all(first)


# Levels and named queues


async def test_a_request_passes_the_gates_of_its_level_with_any_schema() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration(level="gates: [db]", schema=""))
        holder = await protected.holder("/hold")
        waiter = protected.request("/db/waiter")
        await settle()
        assert protected.started == ["/hold"]
        assert protected.used("db") == 1
        await protected.finish_all(holder, waiter, path="/hold")


async def test_a_request_that_names_its_queue_passes_the_gates_of_that_queue() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(
            tasks, configuration(server="queues: {header: X-Queue, groups: ['system:unauthenticated']}")
        )
        protected.gates.close("db")
        named = Exchange(protected.middleware, http_scope("/other", headers={"X-Queue": "batch"}), tasks).body().start()
        await protected.request("/other").end()
        await settle()
        assert protected.started == ["/other"]
        [parked] = protected.gates.parked()
        assert (parked.level, parked.schema, parked.gate) == ("batch", "others", "db")
        protected.gates.open("db")
        with anyio.fail_after(60):
            await named.end()
        assert protected.is_idle()


# Costs


async def test_a_gate_can_charge_the_width_of_a_request() -> None:
    routes = 'routes: [{path: "/db/{name}", resource: reports, estimate: {seats: 3}}]'
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(
            tasks, configuration(gates="{name: db, capacity: 4, cost: seats}", server=routes, seats=30)
        )
        holder = await protected.holder("/db/hold")
        waiter = protected.request("/db/waiter")
        await settle()
        assert (protected.used("db"), protected.status.used) == (3, 3)
        assert "/db/waiter" not in protected.started
        await protected.finish_all(holder, waiter)


async def test_a_gate_decides_the_cost_of_a_request() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration(gates="{name: db, capacity: 4, cost: 4}"))
        holder = await protected.holder("/db/hold")
        assert (protected.used("db"), protected.status.used) == (4, 1)
        await protected.finish_all(holder)


async def test_a_corrected_charge_does_not_change_gate_usage() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration(gates="{name: db, capacity: 1, cost: seats}"))
        holder = await protected.holder("/db/hold")
        assert holder.scope["apf"].charge(7)
        waiter = protected.request("/db/waiter")
        await settle()
        assert protected.used("db") == 1
        assert protected.gates.parked()[0].cost == 1
        await protected.finish_all(holder, waiter)


async def test_a_configured_gate_counts_each_key_separately() -> None:
    routes = 'routes: [{path: "/db/{shard}/{name}", resource: reports}]'
    for key, same, other in (
        ("{source: header, name: X-User}", {"path": "/db/a/1"}, {"path": "/db/a/1", "user": "bob"}),
        ("{source: pathParameter, name: shard}", {"path": "/db/a/1", "user": "bob"}, {"path": "/db/b/1"}),
        (
            "{source: header, name: X-User, transform: '(.).*'}",
            {"path": "/db/1", "user": "anna"},
            {"path": "/db/1", "user": "bob"},
        ),
    ):
        async with anyio.create_task_group() as tasks:
            protected = GatedQueueApp(
                tasks, configuration(gates=f"{{name: db, capacity: 1, key: {key}}}", server=routes)
            )
            protected.gates.scheduler.gates["db"].check()
            protected.may_finish["/db/a/hold"] = anyio.Event()
            holder = protected.request("/db/a/hold")
            await settle()
            waiter = protected.request(**same)
            await settle()
            assert protected.started == ["/db/a/hold"], key
            await protected.request(**other).end()
            assert protected.started == ["/db/a/hold", other["path"]], key
            await protected.finish_all(holder, waiter, path="/db/a/hold")


def lose_key(_: RequestDigest) -> str:
    raise LookupError("no such tenant")


@pytest.mark.parametrize(("on_error", "status"), [("admit", 200), ("reject", 502), ("backoff", 502)])
async def test_a_request_whose_key_cannot_be_computed_is_handled_as_configured(on_error: str, status: int) -> None:
    key = f"key: {{source: callable, callable: '{__name__}:lose_key'}}"
    gates = f"{{name: db, capacity: 1, status: 502, onError: {on_error}, {key}}}"
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration(gates=gates))
        assert (await protected.request("/db/1").end()).status == status
        assert protected.gates.scheduler.gates["db"].counters.evaluations["error"] == 1
        assert protected.is_idle()


# Other configurations


async def test_a_gate_added_by_a_reload_applies_to_later_requests() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration())
        holder = await protected.holder("/db/hold")
        waiter = protected.request("/db/waiter")
        await settle()
        service = protected.middleware.service
        both = configuration(gates="{name: db, capacity: 1}, {name: mail, capacity: 1}", schema="gates: [mail, db]")
        service.adopt(service.prepare(both))
        later = protected.request("/db/later", user="bob")
        await settle()
        assert protected.used("mail") == 0
        assert {one.gate for one in protected.gates.parked()} == {"db"}
        await protected.finish_all(holder, waiter, later)
        assert protected.gates.scheduler.gates["mail"].counters.evaluations["passed"] >= 1


async def test_leases_of_a_gate_removed_by_a_reload_are_released() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration(gates="{name: db, capacity: 1}, {name: mail, capacity: 1}"))
        service = protected.middleware.service
        holder = await protected.holder("/db/hold")
        waiter = protected.request("/db/waiter")
        await settle()
        anew = configuration(gates="{name: db, capacity: 1, cost: seats}")
        service.adopt(service.prepare(anew))
        assert "mail" not in protected.gates
        with anyio.fail_after(60):
            await waiter.end()  # the gate that it waited for is gone
        second = await protected.holder("/db/second")
        assert protected.used("db") == 1
        protected.finish("/db/hold")
        await holder.end()
        assert protected.used("db") == 1, "a lease of the gate before was given back to the one after"
        await protected.finish_all(second, path="/db/second")


async def test_a_configuration_with_an_undefined_gate_changes_nothing() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration())
        service = protected.middleware.service
        with pytest.raises(InvalidValueError, match="gate of the level 'crowd' is 'nothing'"):
            service.adopt(service.prepare(configuration(level="gates: [nothing]")))
        assert protected.used("db") == 0
        assert (await protected.request("/db/1").end()).status == 200
        assert protected.is_idle()


# Dumps and spans


async def shown(protected: GatedQueueApp, page: str) -> Exchange:
    scope = http_scope(
        f"/debug/api_priority_and_fairness/{page}", headers={"X-User": "olga", "X-Remote-Group": "operators"}
    )
    return await Exchange(protected.middleware, scope, protected.tasks).body().start().end()


async def test_dumps_show_parked_requests_with_their_gate_and_time() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration(server=WATCHED))
        holder = await protected.holder("/db/hold")
        parked = protected.request("/db/parked", user="bob")
        await settle()

        levels = cells((await shown(protected, "dump_priority_levels")).content.decode())
        assert levels[0][-2:] == ["CancelledRequests", "ParkedRequests"]
        assert [(row[0], row[4], row[5], row[-1]) for row in levels if row[0] == "crowd"] == [("crowd", "0", "1", "1")]
        queues = cells((await shown(protected, "dump_queues")).content.decode())
        assert queues[0][-1] == "ParkedRequests"
        assert sum(int(row[-1]) for row in queues[1:]) == 1
        requests = cells((await shown(protected, "dump_requests?includeRequestDetails=1")).content.decode())
        assert requests[0][-3:] == ["SubResource", "HeldBy", "HeldSince"]
        assert {len(row) for row in requests} == {20}
        by_flow = {row[4]: row for row in requests}
        assert by_flow["holder"][-2] == "<none>"
        assert by_flow["bob"][-2] == "db"
        assert by_flow["bob"][-1] >= by_flow["bob"][5]
        assert by_flow["bob"][3] == "-1"
        assert by_flow["bob"][9] == by_flow["holder"][-1]

        dumped = {
            one["flow"]: one
            for one in json.loads((await shown(protected, "dump_requests?format=json")).content)["requests"]
        }
        assert dumped["holder"]["held_by"] is None
        held = dumped["bob"]["held_by"]
        assert (held["gate"], held["stage"], dumped["bob"]["seated_at"]) == ("db", "parked", None)
        assert protected.gates.kick("db", held["number"]) == 1
        flows = {one["flow"]: one for one in json.loads((await shown(protected, "flows?format=json")).content)["flows"]}
        assert (flows["bob"]["waiting"], flows["bob"]["executing"], flows["bob"]["seats_in_use"]) == (1, 0, 0)
        await protected.finish_all(holder, parked)


async def test_dumps_show_requests_behind_a_parked_one_in_strict_order() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, configuration(server=WATCHED, level="dequeueStrategy: fifo"))
        holder = await protected.holder("/db/hold")
        parked, behind = protected.request("/db/parked", user="bob"), protected.request("/db/behind", user="bob")
        await settle()
        requests = json.loads((await shown(protected, "dump_requests?format=json")).content)["requests"]
        held = [one["held_by"] for one in requests if one["flow"] == "bob"]
        assert {(one["gate"], one["stage"]) for one in held} == {("db", "parked"), (None, "behind")}
        await protected.finish_all(holder, parked, behind)


async def test_the_span_of_a_wait_names_the_gate(spans: InMemorySpanExporter) -> None:
    config = configuration(server="telemetry: {tracing: true}", gates="{name: db, capacity: 1, maxParked: 2}")
    async with anyio.create_task_group() as tasks:
        protected = GatedQueueApp(tasks, config)
        holder = await protected.holder("/db/hold")
        waiters = [protected.request(f"/db/{number}") for number in range(2)]
        await settle()
        first = next(one.ticket for one in protected.gates.scheduler if one.ticket.is_waiting)
        assert isinstance(first, Admission)
        protected.controller.abandon(first, Reason.TIME_OUT)
        await protected.finish_all(holder, *waiters)
        waits = [dict(span.attributes or {}) for span in spans.get_finished_spans() if span.name == "apf wait"]
        assert sorted((one["apf.outcome"], one.get("apf.gate")) for one in waits) == [
            ("rejected", "db"),
            ("seated", None),
        ]
