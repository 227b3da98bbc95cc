"""Named queues: answers, errors, bodies and the audit log."""

import logging
import os
from dataclasses import replace
from typing import Any

import pytest

from apf_middleware.asgi.admin.queues import MOST_FLOWS
from apf_middleware.classification import Identity
from apf_middleware.config.adaptive_seats import AdaptiveSeats, SeatBounds
from tests.support.admin_world import LOUIS, OLGA, SECOND, DescribedAdmin, busy

pytestmark = pytest.mark.anyio


@pytest.fixture
def office() -> DescribedAdmin:
    return DescribedAdmin()


async def test_queues_are_listed_with_the_worker_that_has_them(office: DescribedAdmin) -> None:
    busy(office)
    status, answer = await office.call("GET", "queues")

    assert status == 200
    assert answer["worker"]["pid"] == os.getpid()
    assert answer["worker"]["app"] == "shop"
    queues = {one["name"]: one for one in answer["queues"]}
    assert sorted(queues) == ["catch-all", "crowd", "exempt"]
    assert queues["crowd"]["inqueue"] == 3
    assert queues["crowd"]["running"] == 2
    assert "documents" not in answer


async def test_adaptive_seats_are_told_with_the_list(office: DescribedAdmin) -> None:
    assert (await office.call("GET", "queues"))[1]["adaptive"] is None
    bounds = AdaptiveSeats(SeatBounds(2, 50, 4))
    configuration = office.controller.configuration
    office.controller.reconfigure(replace(configuration, server=replace(configuration.server, seats=bounds)))
    _, answer = await office.call("GET", "queues")

    assert answer["adaptive"] == {"seats": 4, "min": 2, "max": 50, "reason": "start", "shared": False}
    assert (await office.call("GET", "queues?documents=1"))[1]["adaptive"] == answer["adaptive"]


async def test_with_documents_comes_what_to_commit_and_what_was_changed(office: DescribedAdmin) -> None:
    await office.call("POST", "queues", {"name": "batch", "weight": 3})
    _, answer = await office.call("GET", "queues?documents=1")

    assert [one["metadata"]["name"] for one in answer["documents"]] == ["batch", "catch-all", "crowd", "exempt"]
    assert answer["drift"] == [{"queue": "batch", "field": "queue", "file": None, "live": "batch"}]
    assert (await office.call("GET", "queues/batch"))[1]["drift"] == answer["drift"]
    assert (await office.call("GET", "queues/crowd"))[1]["drift"] == []


@pytest.mark.parametrize("identity", [OLGA, None], ids=["http", "socket"])
async def test_a_queue_is_created_changed_and_deleted(office: DescribedAdmin, identity: Identity | None) -> None:
    answers: list[tuple[int, Any]] = []
    for method, page, order in (
        ("POST", "queues", {"name": "batch", "weight": 2, "max": 2, "dequeue_strategy": "fifo", "wait_limit": 1.5}),
        ("PATCH", "queues/batch", {"weight": 5, "max": None, "reclaimable": False, "priority": -1}),
        ("POST", "queues/batch/pause", {}),
        ("POST", "queues/batch/close", {"mode": "shed"}),
        ("POST", "queues/batch/open", {}),
        ("POST", "queues/batch/close", {}),
        ("DELETE", "queues/batch", None),
        ("GET", "queues/batch", None),
    ):
        answers.append(await office.call(method, page, order, identity=identity))

    assert [status for status, _ in answers] == [201, 200, 200, 200, 200, 200, 200, 404]
    states = [document["queue"]["state"] for status, document in answers[:6]]
    assert states == ["Open", "Open", "Paused", "Closed", "Open", "Closed"]
    created, changed = answers[0][1]["queue"], answers[1][1]["queue"]
    assert (created["weight"], created["max"], created["dequeue_strategy"]) == (2, 2, "fifo")
    assert (changed["weight"], changed["reclaimable"], changed["priority"]) == (5, False, -1)
    [document] = answers[0][1]["documents"]
    assert (document["spec"]["maxSeats"], document["spec"]["waitLimit"]) == (2, "1500ms")
    assert answers[6][1]["deleted"] == "batch"


async def test_a_queue_that_is_open_is_deleted_only_in_cascade(office: DescribedAdmin) -> None:
    await office.call("POST", "queues", {"name": "batch"})
    status, answer = await office.call("DELETE", "queues/batch")

    assert (status, answer["type"]) == (409, "urn:apf:admin:conflict")
    assert "it is Open. Close it" in answer["detail"]
    assert (await office.call("DELETE", "queues/batch?cascade=1"))[0] == 200


@pytest.mark.parametrize(
    ("method", "page", "order", "status", "fields"),
    [
        ("POST", "queues", {}, 422, ["name"]),
        ("POST", "queues", {"name": "A b"}, 422, ["name"]),
        ("POST", "queues", {"name": 7}, 422, ["name"]),
        ("POST", "queues", {"name": "x", "weight": 0}, 422, ["weight"]),
        ("POST", "queues", {"name": "x", "weight": -1, "min": -1}, 422, ["min", "weight"]),
        ("POST", "queues", {"name": "x", "weight": "many", "colour": "red"}, 422, ["weight", "colour"]),
        ("POST", "queues", {"name": "x", "weight": True}, 422, ["weight"]),
        ("POST", "queues", {"name": "x", "min": 2, "max": 1}, 422, ["min"]),
        ("POST", "queues", {"name": "x", "parent": "nobody"}, 422, ["parent"]),
        ("POST", "queues", {"name": "x", "parent": "x"}, 422, ["parent"]),
        ("POST", "queues", {"name": "x", "wait_limit": -1}, 422, ["wait_limit"]),
        ("POST", "queues", {"name": "x", "wait_limit": 1e300}, 422, ["wait_limit"]),
        ("POST", "queues", {"name": "x", "wait_limit": 9e15}, 422, ["wait_limit"]),
        ("POST", "queues", {"name": "x", "dequeue_strategy": "lifo"}, 422, ["dequeue_strategy"]),
        ("POST", "queues", {"name": "x", "weight": None}, 422, ["weight"]),
        ("POST", "queues", {"name": "crowd"}, 409, []),
        ("PATCH", "queues/crowd", {}, 422, ["*"]),
        ("PATCH", "queues/crowd", {"name": "other"}, 422, ["name"]),
        ("PATCH", "queues/nobody", {"weight": 1}, 404, []),
        ("PATCH", "queues/exempt", {"weight": 1}, 409, []),
        ("POST", "queues/crowd/close", {"mode": "kill"}, 422, ["mode"]),
        ("POST", "queues/crowd/open", {"mode": "drain"}, 422, ["mode"]),
        ("POST", "queues/nobody/open", {}, 404, []),
        ("POST", "queues/exempt/close", {}, 409, []),
        ("DELETE", "queues/exempt", None, 409, []),
        ("DELETE", "queues/catch-all?cascade=1", None, 409, []),
        ("DELETE", "queues/nobody", None, 404, []),
        ("GET", "queues/nobody/waiting", None, 404, []),
        ("POST", "queues/crowd/explode", {}, 404, []),
        ("GET", "queues/crowd/waiting/x", None, 404, []),
        ("PUT", "queues/crowd", {}, 405, []),
    ],
)
async def test_what_cannot_be_is_refused_and_names_the_fields(
    office: DescribedAdmin,
    method: str,
    page: str,
    order: object,
    *,
    status: int,
    fields: list[str],
) -> None:
    before = office.queues.list()
    found, answer = await office.call(method, page, order)

    assert (found, answer["status"]) == (status, status)
    assert [one["field"] for one in answer.get("errors", ())] == fields
    assert office.queues.list() == before


async def test_readers_may_not_change_queues(office: DescribedAdmin) -> None:
    for method, page, order in (
        ("POST", "queues", {"name": "x"}),
        ("PATCH", "queues/crowd", {"weight": 1}),
        ("POST", "queues/crowd/close", {}),
        ("DELETE", "queues/crowd", None),
    ):
        status, answer = await office.call(method, page, order, identity=LOUIS)
        assert status == 403
        assert "spec.admin.operators" in answer["detail"]
    assert (await office.call("GET", "queues/crowd", identity=LOUIS))[0] == 200


async def test_waiting_requests_are_listed_by_flow(office: DescribedAdmin) -> None:
    busy(office)
    office.time += 2 * SECOND
    status, answer = await office.call("GET", "queues/crowd/waiting")

    assert status == 200
    assert (answer["waiting"], answer["seats"], answer["oldest"]) == (3, 4, 2.0)
    assert answer["flows"] == [
        {"flow": "alice", "waiting": 2, "seats": 3, "oldest": 2.0},
        {"flow": "carol\n", "waiting": 1, "seats": 1, "oldest": 2.0},
    ]
    assert (await office.call("GET", "queues/exempt/waiting"))[1]["flows"] == []
    assert MOST_FLOWS == 100


async def test_changes_and_refusals_are_logged_with_the_actor(
    office: DescribedAdmin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "apf_middleware")
    forger = Identity('eve\n" action=open by="root', OLGA.groups)
    await office.call("POST", "queues/crowd/pause", {}, identity=forger)
    await office.call("POST", "queues/crowd/close", {"mode": "drain"}, identity=None)
    await office.call("DELETE", "queues/nobody")
    await office.call("GET", "queues/nobody")

    paused, closed, refused = [record.getMessage() for record in caplog.records]
    assert paused.startswith(
        'apf.queue-operated queue=crowd by="eve\\\\n\\" action=open by=\\"root (http)" action=pause'
    )
    assert closed == ('apf.queue-operated queue=crowd by="uid:1000 pid:42 (socket)" action=close mode=drain')
    assert refused.startswith('apf.change-refused by="olga (http)" what="delete queue nobody" why=')
    assert caplog.records[2].levelno == logging.WARNING
