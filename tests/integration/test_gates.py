"""Gates behind the middleware: requests wait for a dependency without a seat, and leases come back on every path."""

import asyncio
import threading
from functools import partial
from typing import Any

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from apf_middleware import Gates
from apf_middleware.asgi import APFMiddleware
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates import GateRequest, Park, Tokens
from apf_middleware.propagation.current import CURRENT_DEADLINE
from apf_middleware.runtime import Admission
from tests.support.asgi_exchange import Exchange, http_scope, websocket_scope
from tests.support.gated_app import DB, GatedApp, configuration
from tests.support.protected_app import ProtectedApp, problem, settle

pytestmark = pytest.mark.anyio


@pytest.mark.usefixtures("way")
async def test_requests_wait_for_the_database_gate_while_others_pass() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=DB))
        holder = await protected.holder("/db/hold")
        waiter = protected.request("/db/waiter")
        other = protected.request("/other")
        await other.end()
        await settle()

        assert protected.started == ["/db/hold", "/other"]
        [status] = protected.gates.list()
        assert (status.gate, status.state, status.parked, status.acquired, status.limit) == ("db", "blocking", 1, 1, 1)
        protected.finish("/db/hold")
        await waiter.end()
        await holder.end()
        assert waiter.status == 200
        assert protected.is_idle()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("end", ["hang up", "cancel", "raise", "time out", "close"])
async def test_leases_are_released_however_a_request_ends(end: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=DB, wait="50ms" if end == "time out" else "10s"))
        holder = await protected.holder("/db/hold")
        waiter = protected.request("/db/boom" if end == "raise" else "/db/waiter")
        await anyio.sleep(0.01)
        if end == "hang up":
            waiter.disconnect()
        elif end == "cancel":
            waiter.cancel_scope.cancel()
        elif end == "close":
            protected.controller.close()
        elif end == "raise":
            protected.finish("/db/hold")
        await waiter.ended.wait()
        if end == "time out":
            assert waiter.status == 503
            assert problem(waiter)["gate"] == "db"
        elif end == "close":
            assert waiter.status == 503
            assert problem(waiter)["reason"] == "queue-closed"
        protected.finish("/db/hold")
        await holder.end()
        assert protected.is_idle()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_lease_granted_at_the_instant_of_cancellation_passes_to_the_next_request() -> None:
    """Whoever cancels the task doesn't know yet that the request has just been seated."""
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=DB))
        holder = await protected.holder("/db/hold")
        first = protected.open("/db/first").body()
        task = asyncio.get_running_loop().create_task(protected.middleware(first.scope, first.receive, first.send))
        await settle()
        second = protected.request("/db/second")
        await settle()
        holding = holder.scope["apf"]
        assert isinstance(holding, Admission)

        protected.controller.release(holding)  # first is seated and woken, and its task hasn't run yet
        assert protected.used("db") == 1
        task.cancel()
        await second.end()

        assert "/db/first" not in protected.started
        assert task.cancelled()
        protected.finish("/db/hold")
        await holder.end()
        assert protected.is_idle()


@pytest.mark.parametrize("how", ["emit_threadsafe", "emit"])
async def test_a_condition_is_evaluated_again_on_an_event_from_another_thread(how: str) -> None:
    gates = Gates()
    state = {"open": False}
    threads: list[str] = []

    @gates.condition("db", on="breaker")
    def breaker(_: GateRequest) -> bool:
        threads.append(threading.current_thread().name)
        return state["open"]

    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(), gates)
        waiters = [protected.request(f"/db/{number}", user=f"u{number % 3}") for number in range(10)]
        await settle()
        assert protected.started == []

        state["open"] = True
        thread = threading.Thread(target=partial(getattr(gates, how), "breaker"))
        thread.start()
        with anyio.fail_after(60):
            for waiter in waiters:
                await waiter.end()
        thread.join()
        assert protected.is_idle()
        assert gates.list()[0].rescues == 0
        assert set(threads) == {threading.current_thread().name}


async def test_what_operators_do_in_other_threads_is_done_in_the_event_loop() -> None:
    gates = Gates()
    threads: list[str] = []

    @gates.condition("db")
    def breaker(_: GateRequest) -> bool:
        threads.append(threading.current_thread().name)
        return True

    gates.capacity("places", 1)
    in_thread = anyio.to_thread.run_sync
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(), gates)
        await protected.request("/db/0").end()
        await in_thread(gates.close, "db")
        waiters = [protected.request(f"/db/{number}", user=f"u{number}") for number in range(3)]
        await settle()
        assert len(await in_thread(gates.parked, "db")) == 3
        assert [one.state for one in await in_thread(gates.list)] == ["held", "passing"]
        assert await in_thread(gates.kick, "db") == 3
        await in_thread(gates.resize, "places", 5)
        with pytest.raises(InvalidValueError, match="there is no gate of this name"):
            await in_thread(gates.open, "nothing")
        await in_thread(gates.open, "db")
        for waiter in waiters:
            await waiter.end()
        await in_thread(gates.remove, "places")
    assert (len(threads), set(threads)) == (4, {threading.current_thread().name})
    assert gates.names == {"db"}


async def test_an_asynchronous_gate_is_evaluated_outside_of_the_dispatcher() -> None:
    gates = Gates()
    asked = anyio.Event()
    answer = anyio.Event()
    state = {"open": False}

    @gates.condition("db", on="breaker")
    async def remote(_: GateRequest) -> bool:
        found = state["open"]
        asked.set()
        await answer.wait()
        return found

    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(), gates)
        waiter = protected.request("/db/1")
        await asked.wait()
        state["open"] = True
        gates.emit("breaker")  # between the question and its answer
        answer.set()
        with anyio.fail_after(60):
            await waiter.end()

        assert waiter.status == 200
        assert gates.scheduler.gates["db"].counters.evaluations["parked"] == 1
        assert protected.is_idle()


async def test_an_asynchronous_gate_knows_nothing_of_the_request_that_has_emitted_an_event() -> None:
    """Such as its deadline, with which the calls of the gate would fail."""
    gates = Gates()
    state, seen = {"open": False}, []

    @gates.condition("db", on="breaker")
    async def remote(_: GateRequest) -> bool:
        seen.append(CURRENT_DEADLINE.get())
        return state["open"]

    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(), gates)
        waiter = protected.request("/db/1")
        await settle()
        state["open"] = True
        CURRENT_DEADLINE.set(1)
        gates.emit("breaker")
        await waiter.end()

        assert waiter.status == 200
        assert set(seen) == {None}
        assert protected.is_idle()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_asynchronous_gate_is_asked_after_the_step_although_tasks_begin_at_once() -> None:
    """As with ``asyncio.eager_task_factory`` (Python 3.12): the answer would come before the request waits for it."""
    gates = Gates()

    @gates.condition("db")
    async def remote(_: GateRequest) -> bool:
        return True

    def begin_at_once(loop: asyncio.AbstractEventLoop, question: Any, **_: object) -> Any:  # noqa: ANN401
        with pytest.raises(StopIteration):
            question.send(None)
        answered = loop.create_future()
        answered.set_result(None)
        return answered

    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(), gates)
        exchanges = [protected.request(f"/db/{number}") for number in range(5)]
        asyncio.get_running_loop().set_task_factory(begin_at_once)
        try:
            for exchange in exchanges:
                await exchange.end()
        finally:
            asyncio.get_running_loop().set_task_factory(None)

        assert [exchange.status for exchange in exchanges] == [200] * 5
        assert protected.controller.backlog.waiting == 0
        assert protected.is_idle()


async def test_an_asynchronous_lease_that_comes_too_late_is_released() -> None:
    class Remote:
        name = "db"

        def __init__(self) -> None:
            self.answer = anyio.Event()
            self.out = 0

        async def try_acquire(self, _request: GateRequest, _key: object, _cost: int) -> str:
            await self.answer.wait()
            self.out += 1
            return "lease"

        def release(self, lease: str) -> None:
            assert lease == "lease"
            self.out -= 1

    gates = Gates()
    remote = Remote()
    gates.add(remote)
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(), gates)
        leaver = protected.request("/db/leaver")
        await settle()
        leaver.disconnect()
        await leaver.ended.wait()
        remote.answer.set()
        await settle()

        assert remote.out == 0
        assert protected.is_idle()


@pytest.mark.parametrize("failure", [None, RuntimeError("away")])
async def test_gates_are_closed_before_the_app_receives_the_shutdown(
    failure: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    class Remote:
        name = "db"

        def try_acquire(self, _request: GateRequest, _key: object, _cost: int) -> str:
            return "lease"

        def release(self, lease: str) -> None: ...

        async def aclose(self) -> None:
            heard.append("gate")
            if failure is not None:
                raise failure

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(2):
            message = await receive()
            heard.append(message["type"])
            await send({"type": f"{message['type']}.complete"})

    messages = ["lifespan.shutdown", "lifespan.startup"]

    async def receive() -> Message:
        return {"type": messages.pop()}

    async def send(_message: Message) -> None: ...

    gates = Gates()
    gates.add(Remote())
    await APFMiddleware(app, configuration(), gates=gates)({"type": "lifespan"}, receive, send)

    assert heard == ["lifespan.startup", "gate", "lifespan.shutdown"]
    failures = [record for record in caplog.records if record.getMessage().startswith("apf.gate-failed")]
    assert len(failures) == (failure is not None)


async def test_a_quota_that_renews_too_late_rejects_at_once_with_the_correct_retry_after() -> None:
    server = ", gates: [{name: db, tokens: {rate: 0.01, burst: 1}, per: flow}]"
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=server, wait="1s"))
        served = await protected.request("/db/1").end()
        rejected = await protected.request("/db/2").end()
        other = await protected.request("/db/3", user="bob").end()

        assert (served.status, rejected.status, other.status) == (200, 429, 200)
        assert 90 <= int(rejected.headers["retry-after"]) <= 100
        assert problem(rejected)["reason"] == "gate"
        assert problem(rejected)["gate"] == "db"


async def test_an_app_gate_that_raises_admits_unless_configured_otherwise() -> None:
    gates = Gates()

    @gates.condition("db", on_error="reject", status=502)
    def broken(_: GateRequest) -> bool:
        raise OSError("gone")

    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(), gates)
        assert (await protected.request("/db/1").end()).status == 502


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_app_gate_that_awaits_something_cancelled_has_failed() -> None:
    gates = Gates()

    @gates.condition("db", on_error="reject", status=502)
    async def broken(_: GateRequest) -> bool:
        gone = asyncio.get_running_loop().create_future()
        gone.cancel()
        return bool(await gone)

    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(wait="1h"), gates)
        assert (await protected.request("/db/1").end()).status == 502
        assert protected.is_idle()


async def test_the_failures_of_one_gate_do_not_hide_those_of_another(caplog: pytest.LogCaptureFixture) -> None:
    gates = Gates()

    def fail(_: GateRequest) -> bool:
        raise OSError("gone")

    gates.condition("db")(fail)
    gates.condition("quota")(fail)
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration("[db, quota]"), gates)
        for _ in range(3):
            assert (await protected.request("/db/1").end()).status == 200

    messages = [record.getMessage() for record in caplog.records]
    failures = [message.split(" on_error")[0] for message in messages if message.startswith("apf.gate-failed")]
    assert sorted(failures) == ["apf.gate-failed gate=db", "apf.gate-failed gate=quota"]


async def test_without_queues_a_closed_gate_rejects_at_once() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=DB, response="Reject"))
        holder = await protected.holder("/db/hold")
        rejected = await protected.request("/db/1").end()
        assert rejected.status == 503
        [reading] = protected.middleware.service.reading().gates
        assert reading.rejected == 1
        protected.finish("/db/hold")
        await holder.end()
        assert protected.is_idle()


@pytest.mark.parametrize("release", ["response", "headers"])
async def test_a_stream_holds_its_lease_to_the_end_by_default(release: str) -> None:
    server = f", gates: [{{name: db, capacity: 1, release: {release}}}]"
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=server))
        used: list[int] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
            await send({"type": "http.response.start", "status": 200, "headers": []})
            used.append(protected.used("db"))
            scope["apf"].release()
            used.append(protected.used("db"))
            await send({"type": "http.response.body", "body": b""})

        protected.middleware.app = app
        await protected.request("/db/stream").end()
        assert used == ([1, 1] if release == "response" else [0, 0])
        assert protected.is_idle()


async def test_a_websocket_holds_gates_for_its_handshake_only() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=DB))
        used: list[int] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
            used.append(protected.used("db"))
            await send({"type": "websocket.accept"})
            used.append(protected.used("db"))

        protected.middleware.app = app
        exchange = Exchange(protected.middleware, websocket_scope("/db/socket"), tasks).start()
        await exchange.ended.wait()
        assert used == [1, 0]
        assert protected.is_idle()


async def test_an_app_can_see_what_holds_a_request() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=DB))
        holder = await protected.holder("/db/hold")
        waiter = protected.request("/db/waiter", user="bob")
        await settle()
        [parked] = protected.gates.parked()
        assert (parked.gate, parked.flow, parked.stage) == ("db", "bob", "parked")
        passage = next(iter(one for one in protected.gates.scheduler if one.number == parked.id))
        assert isinstance(passage.ticket, Admission)
        assert passage.ticket.held_by is not None
        assert holder.scope["apf"].held_by is None
        assert protected.gates.kick("db", parked.id) == 1
        assert "/db/waiter" not in protected.started
        protected.finish("/db/hold")
        await waiter.end()
        await holder.end()
        assert protected.is_idle()


async def test_operators_close_and_open_a_gate() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=DB))
        protected.gates.close("db", for_=10)
        waiter = protected.request("/db/waiter")
        await settle()
        assert protected.started == []
        assert protected.gates.list()[0].state == "held"
        assert _held(protected) == {"db": True}
        protected.gates.close("db", for_=0.05)
        with anyio.fail_after(60):
            await waiter.end()
        assert waiter.status == 200
        protected.gates.close("db")
        second = protected.request("/db/second")
        await settle()
        assert "/db/second" not in protected.started
        protected.gates.open("db")
        await second.end()
        assert _held(protected) == {"db": False}
        assert protected.is_idle()


def _held(protected: GatedApp) -> dict[str, bool]:
    """Return what the metrics say of the gates that operators keep closed."""
    runner = protected.controller.gate_runner
    assert runner is not None
    return {gate.name: gate.is_held for gate in runner.reading()}


async def test_a_hopeless_wait_for_a_closed_gate_ends_at_once() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=DB, wait="1s"))
        protected.gates.close("db", for_=60)
        rejected = await protected.request("/db/1").end()
        assert rejected.status == 503
        assert 55 <= int(rejected.headers["retry-after"]) <= 60


async def test_gates_change_when_the_configuration_does() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=DB))
        holder = await protected.holder("/db/hold")
        waiters = [protected.request(f"/db/{number}") for number in range(5)]
        await settle()
        assert protected.started == ["/db/hold"]
        protected.controller.reconfigure(configuration(server=", gates: [{name: db, capacity: 3}]"))
        for waiter in waiters:
            await waiter.end()
        protected.finish("/db/hold")
        await holder.end()
        assert protected.is_idle()


@pytest.mark.parametrize("changed", ["capacity: 1, per: flow", "tokens: {rate: 1, burst: 1}"])
async def test_a_gate_that_a_reload_makes_anew_counts_on(changed: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=DB))
        holder = await protected.holder("/db/hold")
        waiter = protected.request("/db/waiter")
        await settle()
        before = protected.gates.scheduler.gates["db"].counters.evaluations.copy()
        assert before == {"passed": 1, "parked": 1, "rejected": 0, "error": 0}

        protected.controller.reconfigure(configuration(server=f", gates: [{{name: db, {changed}}}]"))

        protected.finish("/db/hold")
        await waiter.end()
        await holder.end()
        [reading] = protected.middleware.service.reading().gates
        assert (reading.evaluations["passed"], reading.waits.count) == (1, 1)
        assert (await protected.request("/db/next").end()).status == 200
        assert protected.gates.scheduler.gates["db"].counters.evaluations["passed"] == 2


@pytest.mark.parametrize("seconds", [None, 0.5])
async def test_a_gate_that_a_reload_makes_anew_stays_closed(seconds: float | None) -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=DB))
        protected.gates.close("db", seconds)

        protected.controller.reconfigure(configuration(server=", gates: [{name: db, capacity: 1, per: flow}]"))

        waiter = protected.request("/db/waiter")
        await settle()
        [reading] = protected.middleware.service.reading().gates
        assert (reading.is_held, reading.parked) == (True, 1)
        if seconds is None:
            protected.gates.open("db")
        assert (await waiter.end()).status == 200
        assert protected.is_idle()


async def test_requests_parked_at_a_removed_gate_are_admitted() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=DB))
        holder = await protected.holder("/db/hold")
        waiter = protected.request("/db/waiter")
        await settle()
        protected.controller.reconfigure(configuration("[]"))
        await waiter.end()
        protected.finish("/db/hold")
        await holder.end()
        assert not list(protected.gates.scheduler)


async def test_a_polled_gate_is_evaluated_again_periodically() -> None:
    class Memory:
        name, poll = "db", 0.005

        def __init__(self) -> None:
            self.asked = 0

        def try_acquire(self, _request: GateRequest, _key: object, _cost: int) -> object:
            self.asked += 1
            return "lease" if self.asked >= 4 else Park()

        def release(self, lease: object) -> None: ...

    gates = Gates()
    memory = Memory()
    gates.add(memory)
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(), gates)
        with anyio.fail_after(60):
            waiter = await protected.request("/db/1").end()
        assert waiter.status == 200
        assert memory.asked == 4


async def test_an_undefined_gate_is_an_error() -> None:
    with pytest.raises(InvalidValueError, match="gate of the schema 'gated' is 'nothing', but there is no gate"):
        _ = APFMiddleware(ProtectedApp._app, configuration("[nothing]")).service  # type: ignore[arg-type]


@pytest.mark.parametrize("borrowing", ["immediate", "periodic"])
async def test_a_reload_adds_the_first_gates(borrowing: str) -> None:
    """Requests that run or wait keep what they have; those that come later pass the gates."""
    server = f", borrowing: {borrowing}"
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration("[]", server=server))
        service = protected.middleware.service
        assert protected.controller.gate_runner is None
        runs = await protected.holder("/db/runs")
        files = configuration(server=DB + server)
        service.adopt(service.prepare(files))
        assert protected.gates.names == {"db"}
        assert protected.used("db") == 0
        holds = await protected.holder("/db/holds")
        waits = protected.request("/db/waits")
        await settle()

        assert protected.used("db") == 1
        assert [one.parked for one in protected.gates.list()] == [1]
        for path in ("/db/holds", "/db/runs"):
            protected.finish(path)
        for one in (runs, holds, waits):
            await one.end()
            assert one.status == 200
        assert protected.is_idle()


async def test_gates_added_by_a_reload_must_be_defined() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration("[]"))
        with pytest.raises(InvalidValueError, match="gate of the schema 'gated' is 'nothing', but there is no gate"):
            protected.controller.reconfigure(configuration("[nothing]"))
        assert protected.controller.gate_runner is None
        answered = protected.request("/db/1")
        await answered.end()
        assert answered.status == 200


async def test_a_reload_that_names_a_gate_as_the_app_does_changes_nothing() -> None:
    gates = Gates()
    gates.capacity("db", limit=1)
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(), gates)
        before = protected.controller.configuration
        with pytest.raises(InvalidValueError, match="gates is 'db', but the app has a gate of this name already"):
            protected.controller.reconfigure(configuration(server=DB, seats=3))
        assert protected.controller.configuration is before
        assert protected.controller.seats == before.server.total
        assert (await protected.request("/db/1").end()).status == 200
        assert protected.is_idle()


@pytest.mark.parametrize("limit", [1, 2])
async def test_a_reload_makes_a_gate_again_that_the_app_has_removed(limit: int) -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=DB))
        protected.gates.remove("db")
        protected.controller.reconfigure(configuration(server=f", gates: [{{name: db, capacity: {limit}}}]"))
        assert protected.gates.scheduler.gates["db"].limit == limit
        assert (await protected.request("/db/1").end()).status == 200
        protected.gates.remove("db")
        protected.controller.reconfigure(configuration("[]"))
        assert not protected.gates.names


async def test_an_asynchronous_gate_that_opens_too_late_rejects_at_once() -> None:
    gates = Gates()

    @gates.condition("db")
    async def later(_: GateRequest) -> Park:
        await anyio.lowlevel.checkpoint()
        return Park(retry_in=60)

    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(), gates)
        with anyio.fail_after(60):
            refused = await protected.request("/db/1").end()

        assert (refused.status, problem(refused)["reason"]) == (503, "gate")
        assert int(refused.headers["retry-after"]) >= 60
        assert protected.is_idle()


class Watching:
    """A gate of the app's own that notes what it sees of requests."""

    name = "db"

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def try_acquire(self, request: GateRequest, _key: object, _cost: int) -> object:
        digest = request.digest
        assert digest is not None
        assert digest.headers == request.headers
        number, query, mark = digest.headers["x-number"], dict(digest.query), request.scope["state"]["mark"]
        self.seen.append((number, query, digest.host, digest.path, digest.identity.name, mark))
        return object()

    def release(self, _lease: object) -> None:
        pass


async def test_a_gate_sees_each_request_although_what_they_have_in_common_is_cached() -> None:
    gates, watching = Gates(), Watching()
    gates.add(watching)
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(), gates)
        asked = []
        for number in ("1", "2"):
            headers = {"X-User": "alice", "X-Number": number, "Host": f"shop-{number}"}
            scope = http_scope(f"/db/1?page={number}", headers=headers)
            scope["state"]["mark"] = number
            asked.append(await Exchange(protected.middleware, scope, tasks).body().start().end())

        assert watching.seen == [
            (number, {"page": number}, f"shop-{number}", "/db/1", "system:anonymous", number) for number in ("1", "2")
        ]
        first, second = (exchange.scope["apf"] for exchange in asked)
        assert first.destination is second.destination
        assert first.shown == second.shown == (None, {}), "a scope that refers to itself stays in memory"
        assert len(list(gates.scheduler)) == 0


async def test_a_gate_that_is_removed_while_a_body_arrives_rejects_the_request() -> None:
    gates = Gates()
    gates.add(Watching())
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, configuration(server=", bodies: {holdSeats: false}"), gates)
        scope = http_scope("/db/1", "POST", {"X-User": "alice", "transfer-encoding": "chunked"})
        exchange = Exchange(protected.middleware, scope, tasks).body(b"a", more=True).start()
        await settle()
        gates.remove("db")
        exchange.body(b"b")
        await exchange.end()

        assert (exchange.status, exchange.error) == (503, None)
        assert protected.controller.levels["crowd"].shared.queueset.is_idle
        assert protected.controller.bodies.number == 0


@pytest.mark.parametrize("scope", ["per: flow", "key: {source: header, name: X-User}"])
async def test_a_bucket_keeps_little_of_a_long_name(scope: str) -> None:
    async with anyio.create_task_group() as tasks:
        server = f", gates: [{{name: db, tokens: {{rate: 1, burst: 1}}, {scope}}}]"
        protected = GatedApp(tasks, configuration(server=server))
        for end in "ab":  # each has a bucket of its own
            await protected.request("/db/x", user="u" * 60_000 + end).end()

        gate = protected.gates.scheduler.gates["db"]
        assert isinstance(gate, Tokens)
        assert len(gate._full_at) == 2
        assert all(len(str(key)) < 300 for key in gate._full_at)
