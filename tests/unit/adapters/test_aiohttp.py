"""A client of aiohttp tells a service what is known about the current request."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, TCPConnector, TraceConfig, TraceRequestStartParams, web
from multidict import CIMultiDict
from yarl import URL

from apf_middleware.adapters.aiohttp import call_trace
from apf_middleware.adapters.criticality import CriticalityHeaders
from apf_middleware.adapters.deadlines import DeadlineHeaders
from apf_middleware.criticality import Criticality
from apf_middleware.exceptions import DeadlineError
from apf_middleware.propagation.current import CURRENT_CRITICALITY, CURRENT_DEADLINE

SECOND = 10**9
NOW = 50 * SECOND

CLOCK = {"now": NOW}

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


async def answer(request: web.Request) -> web.Response:
    return web.json_response({name: request.headers.get(name) for name in ("x-left", "x-criticality", "x-own")})


async def lead_away(request: web.Request) -> web.Response:
    CLOCK["now"] += SECOND
    raise web.HTTPFound("/", text="x" * 1_000_000)  # more than the client has read when it follows


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """The address of a server."""
    app = web.Application()
    app.router.add_get("/", answer)
    app.router.add_get("/away", lead_away)
    CLOCK["now"] = NOW
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    [(host, port)] = runner.addresses
    yield f"http://{host}:{port}"
    await runner.cleanup()


def trace() -> TraceConfig:
    return call_trace(DeadlineHeaders({"x-left": "seconds"}, clock=lambda: CLOCK["now"]), CriticalityHeaders())


async def test_each_request_of_a_session_tells_it(url: str) -> None:
    CURRENT_CRITICALITY.set(Criticality.SHEDDABLE)
    CURRENT_DEADLINE.set(NOW + 2 * SECOND)
    async with ClientSession(trace_configs=[trace()], headers={"x-own": "yes"}) as session:
        async with session.get(f"{url}/") as response:
            found = await response.json()
        assert found == {"x-left": "2.000", "x-criticality": "sheddable", "x-own": "yes"}
        async with session.get(f"{url}/away") as response:
            assert (await response.json())["x-left"] == "1.000", "a redirection has taken a second"
        CURRENT_DEADLINE.set(NOW)
        with pytest.raises(DeadlineError):
            await session.get(f"{url}/")


async def test_a_redirection_without_time_keeps_no_connection(url: str) -> None:
    CURRENT_DEADLINE.set(NOW + SECOND)
    async with ClientSession(connector=TCPConnector(limit=1), trace_configs=[trace()]) as session:
        with pytest.raises(DeadlineError) as raised:
            await session.get(f"{url}/away")
        CURRENT_DEADLINE.set(NOW + 9 * SECOND)
        async with asyncio.timeout(60), session.get(f"{url}/") as response:
            assert response.status == 200
        del raised  # until here it has kept the response of the first call


async def test_all_headers_with_baggage_are_kept() -> None:
    CURRENT_CRITICALITY.set(Criticality.SHEDDABLE)
    headers = CIMultiDict([("baggage", "tenant=7"), ("Baggage", "user=3")])
    telling = call_trace(CriticalityHeaders({"baggage": "baggage"}))
    telling.freeze()
    async with ClientSession() as session:
        params = TraceRequestStartParams("GET", URL("http://x/"), headers)
        await telling.on_request_start.send(session, telling.trace_config_ctx(), params)

    assert headers.getall("baggage") == ["tenant=7,user=3,apf.criticality=sheddable"]
