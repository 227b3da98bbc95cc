"""Headroom behind the middleware: the durations of routes are learned, and seats are kept for short requests."""

from dataclasses import replace

import anyio
import pytest

from apf_middleware.config import Configuration
from apf_middleware.gates import HeadroomGate
from tests.support.gated_app import DB, GatedApp, configuration
from tests.support.protected_app import problem, settle

pytestmark = pytest.mark.anyio

SECOND = 10**9


def with_headroom(config: Configuration, percent: int = 50) -> Configuration:
    levels = dict(config.levels)
    levels["crowd"] = replace(levels["crowd"], headroom_percent=percent)
    return replace(config, levels=levels)


def headroom_of(app: GatedApp) -> HeadroomGate:
    """Return the gate, for which requests typically take ten seconds."""
    gate = app.gates.scheduler.gates["headroom:crowd"]
    assert isinstance(gate, HeadroomGate)
    for _ in range(20):
        gate.headroom.observe(10 * SECOND, 1)
    return gate


async def test_short_requests_pass_where_others_wait() -> None:
    async with anyio.create_task_group() as tasks:
        app = GatedApp(tasks, with_headroom(configuration("[]", seats=4, server=DB)))
        gate = headroom_of(app)
        for _ in range(4):  # three are learned from, and the last is short
            await app.request("/short").end()
        holders = [await app.holder(f"/hold/{number}") for number in range(2)]
        waiter = app.request("/hold/waiter")
        await settle()
        assert (gate.used("long"), gate.parked) == (2, 1)

        for _ in range(3):
            await app.request("/short").end()
        app.finish("/hold/0")
        await waiter.end()
        app.finish("/hold/1")
        for holder in holders:
            await holder.end()
        assert app.is_idle()
        assert gate.used("long") == 0


async def test_a_long_request_that_waits_too_long_is_rejected_as_any_other() -> None:
    async with anyio.create_task_group() as tasks:
        app = GatedApp(tasks, with_headroom(configuration("[]", seats=2, wait="50ms", server=DB)))
        headroom_of(app)
        for _ in range(4):
            await app.request("/short").end()
        holder = await app.holder("/hold/0")
        waiter = app.request("/hold/waiter")
        await waiter.ended.wait()
        assert waiter.status == 429
        assert problem(waiter)["gate"] == "headroom:crowd"
        app.finish("/hold/0")
        await holder.end()
        assert app.is_idle()


async def test_without_headroom_there_is_no_gate() -> None:
    async with anyio.create_task_group() as tasks:
        app = GatedApp(tasks, configuration("[]", seats=2))

        assert app.controller.gates is None
