"""A client of aiohttp tells a service what is known about the current request."""

import pytest
from aiohttp import ClientSession, TraceRequestStartParams, web
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
    raise web.HTTPFound("/")


async def test_each_request_of_a_session_tells_it() -> None:
    CURRENT_CRITICALITY.set(Criticality.SHEDDABLE)
    CURRENT_DEADLINE.set(NOW + 2 * SECOND)
    app = web.Application()
    app.router.add_get("/", answer)
    app.router.add_get("/away", lead_away)
    CLOCK["now"] = NOW
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        trace = call_trace(DeadlineHeaders({"x-left": "seconds"}, clock=lambda: CLOCK["now"]), CriticalityHeaders())
        async with ClientSession(trace_configs=[trace], headers={"x-own": "yes"}) as session:
            [(host, port)] = runner.addresses
            async with session.get(f"http://{host}:{port}/") as response:
                found = await response.json()
            assert found == {"x-left": "2.000", "x-criticality": "sheddable", "x-own": "yes"}
            async with session.get(f"http://{host}:{port}/away") as response:
                assert (await response.json())["x-left"] == "1.000", "a redirection has taken a second"
            CURRENT_DEADLINE.set(NOW)
            with pytest.raises(DeadlineError):
                await session.get(f"http://{host}:{port}/")
    finally:
        await runner.cleanup()


async def test_all_headers_with_baggage_are_kept() -> None:
    CURRENT_CRITICALITY.set(Criticality.SHEDDABLE)
    headers = CIMultiDict([("baggage", "tenant=7"), ("Baggage", "user=3")])
    trace = call_trace(CriticalityHeaders({"baggage": "baggage"}))
    trace.freeze()
    async with ClientSession() as session:
        params = TraceRequestStartParams("GET", URL("http://x/"), headers)
        await trace.on_request_start.send(session, trace.trace_config_ctx(), params)

    assert headers.getall("baggage") == ["tenant=7,user=3,apf.criticality=sheddable"]
