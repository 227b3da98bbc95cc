"""Recordings in the admin: who may start them, with what, and how many there may be."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from apf_middleware.asgi.admin.recordings import MOST_AT_ONCE
from tests.support.admin_world import LOUIS, OLGA, DescribedAdmin, RecordedStream

pytestmark = pytest.mark.anyio


@pytest.fixture
def office() -> DescribedAdmin:
    return DescribedAdmin()


@asynccontextmanager
async def recording(office: DescribedAdmin, **order: object) -> AsyncGenerator[RecordedStream, None]:
    """Start a recording, and stop it in the end."""
    async with anyio.create_task_group() as tasks:
        stream = RecordedStream(office, {"seconds": 600, **order})
        await tasks.start(stream.run)
        yield stream
        tasks.cancel_scope.cancel()


async def test_a_recording_is_listed_until_it_is_stopped(
    office: DescribedAdmin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "apf_middleware")
    assert (await office.call("GET", "recordings", identity=LOUIS))[1]["recordings"] == []
    async with recording(office, sample=0.5, names="plain") as stream:
        _, listed = await office.call("GET", "recordings", identity=LOUIS)
        [one] = listed["recordings"]
        assert one == {
            "id": stream.header["id"],
            "by": "olga (http)",
            "since": 0.0,
            "left": 600.0,
            "rows": 0,
            "lost": 0,
            "sample": 0.5,
            "names": "plain",
        }
        office.time += 60 * 10**9
        _, shown = await office.call("GET", f"recordings/{one['id']}", identity=LOUIS)
        assert (shown["recording"]["since"], shown["recording"]["left"]) == (60.0, 540.0)

        status, _ = await office.call("DELETE", f"recordings/{one['id']}")
        assert status == 200
        await stream.end()
        assert stream.footer["reason"] == "stopped"
        assert (await office.call("GET", "recordings"))[1]["recordings"] == []
        assert (await office.call("DELETE", f"recordings/{one['id']}"))[0] == 404
    said = [record.getMessage() for record in caplog.records]
    assert said[0].startswith('apf.recording-started by="olga (http)" id=')
    assert said[1].startswith('apf.recording-stopped by="olga (http)" id=')
    assert said[2].startswith("apf.recording-ended id=")


@pytest.mark.parametrize(
    ("order", "status", "field"),
    [
        ({}, 422, "seconds"),
        ({"seconds": 0}, 422, "seconds"),
        ({"seconds": 1e9}, 422, "seconds"),
        ({"seconds": "600"}, 422, "seconds"),
        ({"seconds": 1, "sample": 0}, 422, "sample"),
        ({"seconds": 1, "sample": 1.5}, 422, "sample"),
        ({"seconds": 1, "names": "secret"}, 422, "names"),
        ({"seconds": 1, "key": "00"}, 422, "key"),
        ({"seconds": 1, "key": "x" * 64}, 422, "key"),
        ({"seconds": 1, "key": None}, 422, "key"),
        ({"seconds": 1, "more": 1}, 422, "more"),
        (b"seconds", 400, ""),
    ],
)
async def test_wrong_orders_are_refused(office: DescribedAdmin, order: object, status: int, field: str) -> None:
    found, answer = await office.call("POST", "recordings", order)

    assert found == status
    assert field in str(answer)
    assert not office.observers


async def test_readers_may_look_but_not_record(office: DescribedAdmin) -> None:
    order: Any = {"seconds": 1}

    assert (await office.call("POST", "recordings", order, identity=LOUIS))[0] == 403
    assert (await office.call("DELETE", "recordings/1", identity=LOUIS))[0] == 403
    assert (await office.call("GET", "recordings/1/2", identity=OLGA))[0] == 404
    assert (await office.call("PUT", "recordings", order))[0] == 405
    assert not office.observers


async def test_there_is_only_a_small_number_at_once(office: DescribedAdmin) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(MOST_AT_ONCE):
            await tasks.start(RecordedStream(office, {"seconds": 600}).run)
        status, answer = await office.call("POST", "recordings", {"seconds": 1})
        tasks.cancel_scope.cancel()

    assert status == 409
    assert "4 recordings already" in answer["detail"]


async def test_a_server_that_shuts_down_begins_no_recording(office: DescribedAdmin) -> None:
    office.controller.close()

    assert (await office.call("POST", "recordings", {"seconds": 1}))[0] == 409
