"""The body of a recording: its first and last line, the lines between, and when it ends."""

import anyio
import pytest

from apf_middleware.asgi.admin import recording_stream
from apf_middleware.config.fingerprint import fingerprint
from tests.support.admin_world import SECOND, DescribedAdmin, RecordedStream, busy

pytestmark = pytest.mark.anyio


@pytest.fixture
def office() -> DescribedAdmin:
    return DescribedAdmin()


async def test_requests_that_are_there_already_come_first_and_unfinished_ones_last(office: DescribedAdmin) -> None:
    alice, bob, *_ = busy(office)
    office.time += SECOND
    async with anyio.create_task_group() as tasks:
        stream = RecordedStream(office, {"seconds": 600, "names": "plain"})
        await tasks.start(stream.run)
        office.time += SECOND // 2
        office.release(alice)
        office.release(bob)
        await stream.stop()
        tasks.cancel_scope.cancel()

    header, *rows, footer = stream.lines
    assert (header["recording"], header["standing"], header["mode"], header["sample"]) == ("begin", 6, "on", 1.0)
    assert header["configuration"] == fingerprint(office.configuration)
    ended = [row for row in rows if row["outcome"] == "served"]
    assert sorted((row["user"], round(row["duration"], 6), row["wait"]) for row in ended) == [
        ("user-alice", 0.5, 0),
        ("user-bob", 0.5, 0),
    ]
    assert all(row["standing"] for row in rows)
    assert {row["outcome"] for row in rows} >= {"served", "waiting"}
    assert (footer["recording"], footer["rows"], footer["lost"], footer["reason"]) == ("end", len(rows), 0, "stopped")
    assert len(rows) == 6
    assert footer["is_settled"] is True


async def test_it_ends_after_its_time(office: DescribedAdmin) -> None:
    async with anyio.create_task_group() as tasks:
        stream = RecordedStream(office, {"seconds": 5})
        await tasks.start(stream.run)
        office.time += 5 * SECOND
        await stream.end()

    assert (stream.footer["reason"], stream.footer["seconds"]) == ("time", 5.0)
    assert not office.observers


async def test_it_ends_when_the_server_shuts_down(office: DescribedAdmin) -> None:
    async with anyio.create_task_group() as tasks:
        stream = RecordedStream(office, {"seconds": 600})
        await tasks.start(stream.run)
        office.controller.close()
        await stream.end()

    assert stream.footer["reason"] == "shutdown"
    assert not office.observers


async def test_it_ends_when_its_client_disconnects(office: DescribedAdmin) -> None:
    async with anyio.create_task_group() as tasks:
        stream = RecordedStream(office, {"seconds": 600})
        await tasks.start(stream.run)
        assert office.observers
        stream.disconnect()
        await stream.end()

    assert stream.lines == [stream.header]
    assert not office.observers


async def test_another_mode_or_configuration_is_noted(office: DescribedAdmin) -> None:
    for change in ("mode", "configuration"):
        async with anyio.create_task_group() as tasks:
            stream = RecordedStream(office, {"seconds": 600})
            await tasks.start(stream.run)
            if change == "mode":
                office.mode = "observe"
            else:
                office.configuration = DescribedAdmin().configuration
            await anyio.sleep(0.3)
            await stream.stop()

        assert stream.footer["is_settled"] is False


async def test_a_client_without_traffic_gets_signs_of_life(
    office: DescribedAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_stream, "_QUIET_S", 0.01)
    async with anyio.create_task_group() as tasks:
        stream = RecordedStream(office, {"seconds": 600})
        await tasks.start(stream.run)
        while stream.content.count(b"\n") < 4:  # noqa: ASYNC110 - the recording says nothing else
            await anyio.sleep(0.01)
        await stream.stop()

    assert len(stream.lines) == 2, "the others are empty"
