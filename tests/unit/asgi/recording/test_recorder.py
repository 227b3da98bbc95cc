"""A recorder: what it records of requests, and what it drops."""

import gc
import weakref

import anyio
import pytest

from apf_middleware.asgi.recording import Disguise, NeededFacts, Recorder, RecordingSettings, recorder
from apf_middleware.recordings import Pseudonyms, RecordedRequest
from tests.support.protected_app import ProtectedApp, configuration, settle

pytestmark = pytest.mark.anyio


def recorder_of(app: ProtectedApp, *, sample: float = 1.0, seconds: float = 600.0) -> Recorder:
    service, pseudonyms = app.middleware.service, Pseudonyms(bytes(32))
    found = Recorder(
        RecordingSettings("1", "olga", seconds, sample, "plain"),
        Disguise(NeededFacts(service.configuration), pseudonyms, are_plain=True),
        pseudonyms,
        now=service.controller.now,
        address_of=service.chain.client_address,
    )
    service.observers.add(found)
    return found


def taken(found: Recorder) -> list[RecordedRequest]:
    return list(found.take(1_000))


async def test_a_request_is_recorded_when_it_has_ended() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks, configuration(length=1, queues=1))
        found = recorder_of(app)
        before = await app.holder()
        waiting = app.request("/waiting", "POST", user="bob")
        await settle()
        await app.request("/rejected?token=secret").end()

        assert [(row.path, row.outcome, row.reason, row.status) for row in taken(found)] == [
            ("/rejected", "rejected", "queue-full", 0)
        ]
        assert not found.has_more
        app.finish()
        await before.end()
        await waiting.end()

    [first, second] = taken(found)
    assert (first.path, first.user, first.flow, first.schema, first.level) == (
        "/hold",
        "system:anonymous",
        "",
        "everybody",
        "crowd",
    )
    assert (first.outcome, first.status, first.seats, first.address, first.headers) == (
        "served",
        200,
        1,
        "127.0.0.1",
        {"x-user": "holder"},
    )
    assert first.duration_ns is not None
    assert (second.method, second.path, second.flow) == ("POST", "/waiting", "")
    assert second.wait_ns is not None
    assert 0 <= first.time_ns < second.time_ns
    assert abs(second.time_ns + second.wait_ns - first.time_ns - first.duration_ns) < 10**9
    assert (found.rows, found.lost) == (3, 0)


async def test_failures_and_hang_ups_have_their_outcome() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        found = recorder_of(app)
        await app.request("/boom").end()
        await app.holder()
        waiting = app.request("/waiting")
        await settle()
        waiting.disconnect()
        await waiting.end()
        app.finish()

    assert [(row.path, row.outcome, row.reason) for row in taken(found)] == [
        ("/boom", "failed", ""),
        ("/waiting", "hung-up", "cancelled"),
        ("/hold", "served", ""),
    ]


async def test_requests_that_came_before_count_from_the_beginning() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        service = app.middleware.service
        service.running.shown = True  # as with an admin
        service.controller.record(service.running)
        running = await app.holder()
        waiting = app.request("/waiting", user="bob")
        await settle()
        [queued] = [ticket for queue in service.controller.levels["crowd"].shared.queueset.deck for ticket in queue]
        standing = [*service.running.admissions, queued]
        found = recorder_of(app)  # forgets the running requests, because there is no admin
        found.adopt(standing)  # type: ignore[arg-type]
        app.finish()
        await running.end()
        await waiting.end()

    first, second = taken(found)
    assert [one.is_standing for one in (first, second)] == [True, True]
    assert (first.time_ns, first.wait_ns, first.flow, first.outcome) == (1, 0, "holder", "served")
    assert (second.time_ns, second.flow, second.outcome) == (2, "bob", "served")
    assert first.duration_ns is not None
    assert second.wait_ns is not None
    assert abs(second.wait_ns - first.duration_ns) < 10**9
    assert found.standing == 2
    assert app.is_idle()


async def test_requests_that_have_not_ended_are_kept_as_they_are() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        found = recorder_of(app)
        await app.holder()
        app.request("/waiting", user="bob")
        await settle()
        found.stop()
        found.stop()
        rows = taken(found)
        app.finish()

    assert [(row.path, row.outcome, row.duration_ns) for row in rows] == [
        ("/hold", "running", None),
        ("/waiting", "waiting", None),
    ]
    assert rows[1].level == "crowd"
    assert taken(found) == [], "their ends are no longer recorded"


async def test_rows_that_do_not_fit_are_lost_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MOST_ROWS_WAITING", 3)
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        found = recorder_of(app)
        for number in range(5):
            await app.request(f"/{number}").end()

    assert [row.path for row in taken(found)] == ["/0", "/1", "/2"]
    assert (found.rows, found.lost) == (3, 2)
    assert repr(found) == "<Recorder 1: 3 rows, 2 lost>"


async def test_a_sample_has_whole_flows() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        found = recorder_of(app, sample=0.5)
        for _ in range(3):
            for number in range(20):
                await app.request("/", user=f"user-{number}").end()

    flows = [row.flow for row in taken(found)]
    assert 3 < len(set(flows)) < 17
    assert {flows.count(flow) for flow in flows} == {3}


async def test_nothing_is_recorded_after_its_time() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        found = recorder_of(app, seconds=1e-9)
        await app.request("/").end()

    assert found.is_over
    assert taken(found) == []


class BrokenDisguise:
    """A disguise with a defect."""

    def __getattr__(self, name: str) -> object:
        raise LookupError(name)


async def test_a_request_that_can_not_be_recorded_is_served(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        found = recorder_of(app)
        with monkeypatch.context() as patched:
            patched.setattr(found, "disguise", BrokenDisguise())
            for _ in range(2):
                assert (await app.request("/odd").end()).status == 200
        await app.request("/usual").end()

    assert [row.path for row in taken(found)] == ["/usual"]
    assert found.lost == 2
    assert [record.getMessage()[:21] for record in caplog.records] == ["apf.recording-error i"]


async def test_rows_that_wait_keep_no_scope_in_memory() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        found = recorder_of(app)
        request = app.open("/one")
        request.scope["state"]["large"] = kept = Large()
        scope = weakref.ref(kept)
        await request.body().start().end()
        del request, kept
        gc.collect()

        assert scope() is None
    assert found.has_more


class Large:
    """An object of a scope."""
