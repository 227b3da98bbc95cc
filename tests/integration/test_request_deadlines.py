"""Requests with deadlines: none waits past its deadline, none runs after it, and the app knows what is left."""

import time
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Message

from apf_middleware.adapters.deadlines import DeadlineHeaders
from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.load_reports import rejected_for_load
from apf_middleware.asgi.request_deadlines import build_deadlines
from apf_middleware.asgi.resolver import ResolvedRequest
from apf_middleware.config import Configuration, load_text
from apf_middleware.fairqueuing import Reason
from apf_middleware.propagation.current import CURRENT_DEADLINE
from tests.support.asgi_exchange import Exchange, http_scope
from tests.support.gated_app import DB, GatedApp
from tests.support.gated_app import configuration as gated
from tests.support.protected_app import ALL_HEADERS, ProtectedApp, configuration, problem, settle

pytestmark = pytest.mark.anyio


def with_deadlines(settings: str = "", *, wait: str = "10s", seats: int = 1) -> Configuration:
    return configuration(seats=seats, wait=wait, server=f"{ALL_HEADERS}, deadlines: {{{settings}}}")


async def no_message() -> Message:
    raise AssertionError("nothing has to be received")


def ask(protected: ProtectedApp, path: str, **headers: str) -> Exchange:
    exchange = protected.open(path)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    exchange.scope["headers"] += [(name.encode(), value.encode()) for name, value in named.items()]
    return exchange.body().start()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("limit", "wait"), [("60m", "10s"), ("11m", "10s"), ("500m", "60s")])
async def test_a_wait_ends_at_the_deadline(limit: str, wait: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, with_deadlines(wait=wait))
        holder = await protected.holder()
        hurried, patient = ask(protected, "/hurried", grpc_timeout=limit), protected.request("/patient")
        began = time.monotonic()
        await hurried.end()

        assert time.monotonic() - began >= int(limit[:-1]) / 1000 - 0.012, "the margin is 10 ms"
        assert hurried.status == 504
        assert problem(hurried)["reason"] == "deadline"
        assert protected.waiting == 1
        protected.finish()
        await patient.end()
        await holder.end()
        assert protected.started == ["/hold", "/patient"]
        assert protected.is_idle()


async def test_the_wait_limit_of_the_level_can_t_be_extended() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, with_deadlines(wait="30ms"))
        holder = await protected.holder()
        patient = ask(protected, "/patient", grpc_timeout="1H")
        await patient.end()
        assert (patient.status, problem(patient)["reason"]) == (429, "time-out")
        protected.finish()
        await holder.end()


async def test_a_request_that_is_late_on_arrival_is_not_run() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, with_deadlines())
        for limit, status in (("0m", 504), ("0S", 504), ("1u", 504), ("999u", 504), ("10S", 200), ("soon", 200)):
            exchange = ask(protected, f"/{limit}", grpc_timeout=limit)
            await exchange.end()
            assert exchange.status == status
        exchange = ask(protected, "/health", grpc_timeout="0m")
        await exchange.end()
        assert exchange.status == 200, "exempt"
        assert protected.started == ["/10S", "/soon", "/health"]
        level = protected.middleware.service.controller.levels["crowd"]
        counters = level.schema_counters["everybody"]
        assert (counters.rejected[Reason.DEADLINE], counters.expired, counters.late) == (4, 4, 0)
        assert not rejected_for_load(level), "an idle server isn't busy because of clients in a hurry"
        assert protected.is_idle()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(("limit", "left"), [("1S", 990), ("20m", 10), ("5m", 2.5), ("0m", 0)])
async def test_the_margin_takes_at_most_half_of_a_limit(limit: str, left: float) -> None:
    service = APFMiddleware(Starlette(), with_deadlines()).service
    scope = http_scope("/", headers={"grpc-timeout": limit})
    resolved = await service.resolver.resolve(scope, service.now(), no_message)
    assert isinstance(resolved, ResolvedRequest)
    assert service.deadlines is not None
    assert service.deadlines.find(resolved, scope) == left * 1_000_000


@pytest.mark.parametrize(("mode", "status"), [("on", 429), ("shadow", 504)])
async def test_a_request_that_can_t_be_in_time(mode: str, status: int) -> None:
    """Its route takes some milliseconds, so ten requests ahead of it take longer than it has."""
    async with anyio.create_task_group() as tasks:
        config = configuration(length=50, queues=1, server=f'{ALL_HEADERS}, deadlines: {{prediction: "{mode}"}}')
        protected = ProtectedApp(tasks, config)
        service = protected.middleware.service
        for _ in range(10):
            service.controller.costs.observe("GET /wait", 20_000_000, 1)
        holder = await protected.holder("/wait")
        waiting = [protected.request("/wait") for _ in range(10)]
        await anyio.lowlevel.checkpoint()
        late = ask(protected, "/wait", grpc_timeout="60m")
        idle = ask(protected, "/health", grpc_timeout="60m")
        await late.end()
        await idle.end()

        assert late.status == status
        assert problem(late)["reason"] == "deadline"
        assert idle.status == 200, "exempt"
        assert service.controller.late_arrivals is not None
        assert service.controller.late_arrivals.outcomes["crowd", "late"] == 1
        assert service.reading().predictions["crowd"].outcomes["rejected"] == (mode == "on")
        protected.finish("/wait")
        for exchange in (holder, *waiting):
            await exchange.end()
        assert protected.is_idle()


async def test_requests_that_need_a_gate_are_not_judged() -> None:
    async with anyio.create_task_group() as tasks:
        server = f'{DB.replace("capacity: 1", "capacity: 100")}, deadlines: {{prediction: "on"}}'
        protected = GatedApp(tasks, gated(seats=1, server=server))
        service = protected.middleware.service
        for _ in range(10):
            service.controller.costs.observe("GET /db/wait", 10**9, 1)
        holder = await protected.holder("/db/wait")
        waiting = [protected.request("/db/wait") for _ in range(10)]
        await settle()
        hurried = ask(protected, "/db/wait", grpc_timeout="5S")
        await settle()

        assert hurried.status is None
        assert protected.waiting == 11
        protected.finish("/db/wait")
        for exchange in (holder, *waiting, hurried):
            await exchange.end()


async def test_a_request_that_gets_its_seat_too_late_is_not_run() -> None:
    """The event loop was blocked when its deadline came, and the seat came free before that was noticed."""
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, with_deadlines())
        holder = await protected.holder()
        late = ask(protected, "/late", grpc_timeout="10S")
        await anyio.sleep(0.01)
        protected.finish()
        service = protected.middleware.service
        admission = service.controller.levels["crowd"].shared.queueset
        assert admission.waiting == 1
        clock, service.controller.now = service.controller.now, lambda: clock() + 20 * 10**9
        await late.end()
        await holder.end()

        assert late.status == 504
        assert problem(late)["reason"] == "deadline"
        assert late.headers["x-apf-priority-level"] == "crowd"
        assert late.headers["retry-after"] == "1"
        runtime = service.controller.levels["crowd"]
        assert runtime.schema_counters["everybody"].late == 1
        assert rejected_for_load(runtime) == 1
        assert protected.started == ["/hold"]
        assert protected.is_idle()


async def test_a_request_that_is_late_teaches_no_duration() -> None:
    """Otherwise the durations of its route would seem short while the event loop is blocked."""
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, with_deadlines())
        service = protected.middleware.service
        for _ in range(10):
            service.controller.costs.observe("GET /late", 10**9, 1)
        holder = await protected.holder()
        late = ask(protected, "/late", grpc_timeout="10S")
        await anyio.sleep(0.01)
        protected.finish()
        clock, service.controller.now = service.controller.now, lambda: clock() + 20 * 10**9
        await late.end()
        await holder.end()

        assert late.status == 504
        known = service.controller.costs.guess("GET /late")
        assert known is not None
        assert known.duration_ns == pytest.approx(10**9)


async def test_deadlines_may_be_removed_while_a_request_becomes_late() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, with_deadlines())
        service = protected.middleware.service
        holder = await protected.holder()
        late = ask(protected, "/late", grpc_timeout="10S")
        await anyio.sleep(0.01)
        service.adopt(service.prepare(configuration()))
        assert service.deadlines is None
        protected.finish()
        clock, service.controller.now = service.controller.now, lambda: clock() + 20 * 10**9
        await late.end()
        await holder.end()

        assert late.status == 504
        assert protected.is_idle()


async def test_a_request_whose_body_has_taken_most_of_the_time_needn_t_wait() -> None:
    """The middleware receives the body first, and leaves time for the rest only while the request waits."""
    async with anyio.create_task_group() as tasks:
        config = configuration(server=f"{ALL_HEADERS}, bodies: {{holdSeats: false}}, deadlines: {{}}")
        protected = ProtectedApp(tasks, config)
        service = protected.middleware.service
        for _ in range(10):
            service.controller.costs.observe("POST /up", 10**9, 1)
        upload = protected.open("/up", "POST")
        upload.scope["headers"] += [(b"grpc-timeout", b"10S"), (b"content-length", b"3")]
        upload.start()
        await settle()
        clock = service.now
        service.now = service.controller.now = lambda: clock() + 9_500_000_000
        await upload.body(b"abc").end()

        assert upload.status == 200
        assert protected.is_idle()


LEVEL_DEADLINE = """
apiVersion: apf/v1
kind: Server
spec: {seats: 1, defaults: none}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: web}
spec: {shares: 10, deadline: 10s}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: all}
spec: {level: web, rules: [{httpRules: [{}]}]}
"""


async def remaining(request: Request) -> JSONResponse:
    admission = request.scope["apf"]
    left = admission.remaining
    until = None if admission.deadline is None else admission.deadline - time.monotonic()
    return JSONResponse({"left": left, "until": until, "headers": DeadlineHeaders().headers()})


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("text", "headers", "least", "most"),
    [
        (LEVEL_DEADLINE, {}, 9, 10),
        (LEVEL_DEADLINE, {"grpc-timeout": "1S"}, 9, 10),  # not read
        (LEVEL_DEADLINE.replace("defaults", "deadlines: {}, defaults"), {"grpc-timeout": "5S"}, 4, 4.99),
        (LEVEL_DEADLINE.replace("defaults", "deadlines: {}, defaults"), {"grpc-timeout": "50S"}, 9, 10),
        (LEVEL_DEADLINE.replace("defaults", "deadlines: {headers: {x-s: seconds}, margin: 1s}, defaults"),
         {"x-s": "6", "grpc-timeout": "2S"}, 4, 5),
        (LEVEL_DEADLINE.replace("defaults", "deadlines: {query: timeout}, defaults"), {}, 2, 2.99),
    ],
)  # fmt: skip
async def test_the_app_knows_what_is_left_and_passes_it_on(
    text: str, headers: dict[str, str], least: float, most: float
) -> None:
    app = APFMiddleware(Starlette(routes=[Route("/", remaining)]), load_text(text))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        found = (await client.get("/?timeout=3s", headers=headers)).json()
    assert least <= found["left"] <= most
    assert found["until"] == pytest.approx(found["left"], abs=0.5)
    assert int(found["headers"]["grpc-timeout"].rstrip("mu")) > 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_without_deadlines_there_is_none() -> None:
    text = LEVEL_DEADLINE.replace(", deadline: 10s", "")
    app = APFMiddleware(Starlette(routes=[Route("/", remaining)]), load_text(text))
    assert app.service.deadlines is None
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        found = (await client.get("/", headers={"grpc-timeout": "1S"})).json()
    assert found == {"left": None, "until": None, "headers": {}}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_request_without_a_deadline_has_not_that_of_its_caller() -> None:
    """A call within the process has the context of the request that makes it."""
    text = LEVEL_DEADLINE.replace(", deadline: 10s", "").replace("defaults", "deadlines: {}, defaults")
    app = APFMiddleware(Starlette(routes=[Route("/", remaining)]), load_text(text))
    token = CURRENT_DEADLINE.set(time.monotonic_ns() + 10**10)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        found = (await client.get("/")).json()
    CURRENT_DEADLINE.reset(token)
    assert found == {"left": None, "until": None, "headers": {}}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_passed_in_front_ends_counts_if_they_are_trusted() -> None:
    settings = "deadlines: {}, trustedProxies: {networks: [127.0.0.1/32]}, defaults"
    app = APFMiddleware(
        Starlette(routes=[Route("/", remaining)]), load_text(LEVEL_DEADLINE.replace("defaults", settings))
    )
    headers = {"grpc-timeout": "9S", "x-request-start": f"t={time.time() - 5}"}
    found = []
    for peer in ("127.0.0.1", "127.0.0.2"):
        transport = httpx.ASGITransport(app, client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            found.append((await client.get("/", headers=headers)).json()["left"])
    assert found[0] <= 4
    assert found[1] > 8


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("started", ["x-request-start", "x-queue-start"])
async def test_what_passed_in_front_ends_counts_for_the_deadline_of_a_level(started: str) -> None:
    settings = "deadlines: {}, trustedProxies: {networks: [127.0.0.1/32]}, defaults"
    app = APFMiddleware(
        Starlette(routes=[Route("/", remaining)]), load_text(LEVEL_DEADLINE.replace("defaults", settings))
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        found = (await client.get("/", headers={started: f"{time.time() - 5}"})).json()["left"]
        late = await client.get("/", headers={started: f"{time.time() - 15}"})
    assert 4 < found <= 5
    assert late.status_code == 504


OWN = LEVEL_DEADLINE.replace("level: web", "level: web, deadline: 2s")
EXTENDED = OWN.replace(
    "defaults",
    "deadlines: {groups: [gateways], extendTo: 30s}, trustedProxies: {networks: [127.0.0.1/32]}, "
    "authentication: [{type: tokens, file: TOKENS}], defaults",
)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("text", "peer", "headers", "most"),
    [
        (OWN, "127.0.0.2", {}, 2),
        (EXTENDED, "127.0.0.2", {}, 2),
        (EXTENDED, "127.0.0.1", {}, 2),
        (EXTENDED, "127.0.0.2", {"grpc-timeout": "1S"}, 1),
        (EXTENDED, "127.0.0.2", {"grpc-timeout": "20S"}, 2),
        (EXTENDED, "127.0.0.1", {"grpc-timeout": "20S"}, 20),
        (EXTENDED, "127.0.0.1", {"grpc-timeout": "90S"}, 30),
        (EXTENDED, "127.0.0.2", {"grpc-timeout": "20S", "authorization": "Bearer secret"}, 20),
        (EXTENDED, "127.0.0.2", {"grpc-timeout": "20S", "authorization": "Bearer other"}, 2),
        (EXTENDED.replace("extendTo: 30s", "extendTo: 1s"), "127.0.0.1", {"grpc-timeout": "20S"}, 2),
        (EXTENDED.replace("groups: [gateways], extendTo: 30s", ""), "127.0.0.1", {"grpc-timeout": "20S"}, 2),
    ],
)
async def test_who_may_extend_the_deadline_of_a_schema(
    text: str, peer: str, headers: dict[str, str], most: float, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("secret,shop,1,gateways\nother,guest,2,guests\n")
    text = text.replace("TOKENS", str(tokens))
    app = APFMiddleware(Starlette(routes=[Route("/", remaining)]), load_text(text))
    transport = httpx.ASGITransport(app, client=(peer, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        found = (await client.get("/", headers=headers)).json()["left"]
    assert most - 0.9 < found <= most


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_counters_go_on_after_a_reload() -> None:
    app = APFMiddleware(Starlette(), load_text(LEVEL_DEADLINE.replace("defaults", "deadlines: {}, defaults")))
    before = app.service.deadlines
    assert before is not None
    before.reader.invalid["grpc-timeout"] += 1
    after = build_deadlines(app.service.configuration, app.service.chain, app.service.controller.costs, before)
    assert after is not None
    assert after.reader.invalid == {"grpc-timeout": 1}
