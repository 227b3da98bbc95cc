"""What operators change at one member of a fleet reaches the others, and those that join later."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from apf_middleware.asgi.admin.dumps import dump_fleet
from apf_middleware.asgi.admin.formatting import Formatter
from apf_middleware.asgi.reload import ConfigurationOrigin
from apf_middleware.asgi.service import Service
from apf_middleware.asgi.shadow_control import read_trial
from apf_middleware.config import load
from apf_middleware.exceptions import QueueConflictError, QueueNotFoundError
from apf_middleware.gates import Gates
from tests.support.log_events import events
from tests.support.until import until

pytestmark = pytest.mark.anyio

CONFIGURATION = """
apiVersion: apf/v1
kind: Server
spec:
  seats: {seats}
  defaults: none
  fleet: {{name: shop, directory: {directory}, interval: 50ms, lease: 10s}}
  gates: [{{name: pool, capacity: 3}}]
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: web}}
spec: {{shares: 10, gates: [pool]}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: batch}}
spec: {{shares: 5}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: web, rules: [{{httpRules: [{{}}]}}]}}
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


def service(directory: Path, seats: int = 8) -> Service:
    """Return a server with files of its own."""
    path = directory / f"{seats}-{len(list(directory.glob('*.yaml')))}.yaml"
    path.write_text(CONFIGURATION.format(seats=seats, directory=directory))
    return Service(load(path), origin=ConfigurationOrigin((path,)))


@asynccontextmanager
async def running(*services: Service) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        for one in services:
            assert one.fleet is not None
            await tasks.start(one.fleet.serve)
        yield
        tasks.cancel_scope.cancel()


def has_answer(one: Service) -> bool:
    reading = None if one.fleet is None else one.fleet.participant.reading()
    return reading is not None and reading.members == 3


def state(one: Service, queue: str) -> str:
    level = one.controller.configuration.levels.get(queue)
    return "deleted" if level is None else level.state


async def test_queues_are_operated_everywhere(directory: Path) -> None:
    one, two = service(directory), service(directory)
    async with running(one, two):
        one.queues.operate("batch", "pause")
        await until(lambda: state(two, "batch") == "paused")
        two.queues.operate("batch", "close")
        await until(lambda: state(one, "batch") == "closed")
        late = service(directory)
        async with running(late):
            await until(lambda: state(late, "batch") == "closed")
            late.queues.operate("batch", "open")
            await until(lambda: state(one, "batch") == state(two, "batch") == "open")


def test_the_first_request_without_lifespan_tells_why_there_are_no_seats(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = service(directory)
    one.keep_house(one.now())
    assert "the server sends no lifespan messages" in caplog.text


async def test_the_shadows_of_members_share_the_max_of_a_level(directory: Path) -> None:
    for one in (members := (service(directory), service(directory))):
        one.queues.update("batch", max=3)
    text = CONFIGURATION.format(seats=8, directory=directory).replace("shares: 5", "shares: 5, maxSeats: 6")

    def most(one: Service) -> tuple[int, int]:
        """Return the seats that the level may have at this member, and in its shadow."""
        assert one.shadow._shadow is not None
        tried = one.shadow._shadow.server.controller
        return one.controller.sharing.levels["batch"].most, tried.sharing.levels["batch"].most

    for one in members:
        one.shadow.start(read_trial(text, "new.yaml"))
    async with running(*members):
        await until(lambda: sorted(map(most, members)) == [(1, 2), (2, 4)])


async def test_queues_are_created_changed_and_deleted_everywhere(directory: Path) -> None:
    one, two = service(directory), service(directory)
    async with running(one, two):
        one.queues.create("night", weight=3, max=2)
        await until(lambda: state(two, "night") == "open")
        two.queues.update("night", weight=9)
        await until(lambda: one.controller.configuration.levels["night"].shares.shares == 9)
        one.queues.delete("night", cascade=True)
        await until(lambda: state(two, "night") == "deleted")


async def test_an_operator_who_asks_all_members_succeeds_although_they_tell_each_other(directory: Path) -> None:
    one, two = service(directory), service(directory)
    async with running(one, two):
        one.queues.create("night", weight=3)
        await until(lambda: state(two, "night") == "open")
        assert two.queues.create("night", weight=3).weight == 3
        with pytest.raises(QueueConflictError, match="there is a queue of this name already"):
            two.queues.create("night", weight=3)
        await until(lambda: "night" in one.queues._followed)
        with pytest.raises(QueueConflictError, match="another member of the fleet has created it otherwise"):
            one.queues.create("night", weight=4)
        two.queues.delete("night", cascade=True)
        await until(lambda: state(one, "night") == "deleted")
        one.queues.delete("night")
        with pytest.raises(QueueNotFoundError):
            two.queues.delete("night")


async def test_all_members_switch_and_those_that_start_later(directory: Path) -> None:
    one, two = service(directory), service(directory)
    async with running(one, two):
        for mode in ("observe", "off", "on", "observe"):
            one.switch(mode)
            one.notices.tell_mode(mode)
            await until(lambda mode=mode: two.mode == mode)  # type: ignore[misc]
        late = service(directory)
        async with running(late):
            await until(lambda: late.mode == "observe")


async def test_a_mode_that_another_version_knows_is_logged(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    one, two = service(directory), service(directory)
    async with running(one, two):
        with caplog.at_level(logging.WARNING, "apf_middleware"):
            one.notices._tell("mode", {"mode": "dry-run"})
            await until(lambda: "dry-run" in caplog.text)
        assert (one.mode, two.mode) == ("on", "on")


async def test_the_allocator_may_change(directory: Path) -> None:
    one, two = service(directory), service(directory)
    async with running(two):
        async with running(one):
            one.queues.operate("batch", "close")
            await until(lambda: state(two, "batch") == "closed")
        late = service(directory)
        async with running(late):
            await until(lambda: state(late, "batch") == "closed")


async def test_gates_are_operated_everywhere(directory: Path) -> None:
    one, two = service(directory), service(directory)

    def is_open(server: Service) -> bool:
        assert server.controller.gates is not None
        return next(gate for gate in server.controller.gates.list() if gate.gate == "pool").state != "held"

    async with running(one, two):
        one.notices.tell_gate("pool", None, is_open=False)
        await until(lambda: not is_open(two))
        late = service(directory)
        async with running(late):
            await until(lambda: not is_open(late))
            late.notices.tell_gate("pool", None, is_open=True)
            await until(lambda: is_open(two))
            late.notices.tell_gate("pool", 3600.0, is_open=False)
            await until(lambda: not is_open(two))
            later = service(directory)
            async with running(later):
                await until(lambda: later.fleet is not None and bool(later.fleet.participant.reading()))
                await anyio.sleep(0.2)
                assert is_open(later), "nobody knows how much of the time is left"


async def test_a_reload_reaches_all_and_the_newest_configuration_divides_the_seats(directory: Path) -> None:
    one, two = service(directory), service(directory)
    files = sorted(directory.glob("*.yaml"))  # noqa: ASYNC240 - before the servers run
    async with running(one, two):
        for path in files:
            path.write_text(CONFIGURATION.format(seats=20, directory=directory))
        assert await one.reload()
        await until(lambda: two.configuration.server.seats == 20)
        fleets = [server.fleet.participant for server in (one, two) if server.fleet is not None]
        await until(lambda: [one.allocator.budget.seats for one in fleets if one.allocator is not None] == [20])


async def test_members_with_an_older_configuration_are_warned(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = service(directory)
    async with running(one):
        await anyio.sleep(0.1)
        two = service(directory, 30)
        async with running(two):
            assert one.fleet is not None
            member = one.fleet.participant.member
            assert member is not None
            await until(lambda: member.is_outdated)
            await until(lambda: "apf.fleet-configuration-differs" in events(caplog))
        await until(lambda: not member.is_outdated)


async def test_a_change_that_is_not_possible_elsewhere_is_logged_there(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    one, two = service(directory), service(directory)
    async with running(one, two):
        for key in ("queue:batch", "gate:none", "unknown"):
            assert one.fleet is not None
            assert one.fleet.participant.member is not None
            one.fleet.participant.member.tell(key, '{"level": {"kind": "Nonsense"}, "seconds": null, "open": true}')
        one.queues.operate("web", "pause")
        await until(lambda: state(two, "web") == "paused")
    refused = [record for record in caplog.records if getattr(record, "event", "") == "apf.fleet-notice-refused"]
    about = {(record.apf["fleet"], record.apf["key"]) for record in refused}  # type: ignore[attr-defined]
    assert about == {("shop", "queue:batch"), ("shop", "gate:none")}


async def test_the_dump_shows_all_members_whichever_is_asked(directory: Path) -> None:
    one, two, three = service(directory), service(directory), service(directory, 30)
    async with running(one, two, three):
        await until(lambda: all(map(has_answer, (one, two, three))))
        found = [json.loads(await dump_fleet(server, Formatter(0), {}, as_json=True)) for server in (one, two, three)]
        assert [answer["seats"] for answer in found] == [8, 8, 30], "each server's own configuration"
        for answer in found:
            members = answer["members"]
            assert len({member["member"] for member in members}) == 3
            assert [member["is_allocator"] for member in members].count(True) == 1
            assert [member["is_outdated"] for member in members].count(True) == 2
            assert all(member["age"] < 10 for member in members)
        text = (await dump_fleet(one, Formatter(0), {}, as_json=False)).decode()
        assert text.splitlines()[0].split(",")[0] == "MemberName"
        assert len(text.splitlines()) == 4


async def test_the_dump_of_a_server_without_a_fleet_or_an_answer_is_empty(directory: Path) -> None:
    path = directory / "alone.yaml"
    path.write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 5}\n")
    assert json.loads(await dump_fleet(Service(load(path)), Formatter(0), {}, as_json=True))["members"] == []
    assert json.loads(await dump_fleet(service(directory), Formatter(0), {}, as_json=True))["members"] == []


def test_without_a_fleet_nobody_is_told(directory: Path) -> None:
    alone = service(directory)
    alone.queues.operate("batch", "close")
    assert state(alone, "batch") == "closed"
    assert isinstance(alone.controller.gates, Gates)


async def test_a_configuration_is_tried_and_promoted_everywhere(directory: Path) -> None:
    one, two = service(directory), service(directory)
    text = CONFIGURATION.format(seats=8, directory=directory).replace("shares: 5", "shares: 7")
    async with running(one, two):
        one.shadow.start(read_trial(text, "new.yaml"))
        one.notices.tell_shadow(text, "new.yaml")
        await until(lambda: two.shadow.is_running)
        assert two.shadow.trial is not None
        assert (two.shadow.trial.source, two.shadow.trial.text) == ("new.yaml", text)
        late = service(directory)
        async with running(late):
            await until(lambda: late.shadow.is_running)

            two.notices.tell_shadow(None)
            await until(lambda: not one.shadow.is_running and not late.shadow.is_running)

        one.shadow.start(read_trial(text, "new.yaml"))
        one.notices.tell_shadow(text, "new.yaml")
        two.shadow.start(read_trial(text, "new.yaml"))
        await until(lambda: two.shadow.is_running)
        assert await one.shadow.promote() == ()
        one.notices.tell_promotion(text, "new.yaml")
        await until(lambda: two.controller.configuration.levels["batch"].shares.shares == 7)
        assert two.shadow.was_promoted


@pytest.mark.parametrize("tries", [True, False])
async def test_what_is_promoted_is_in_force_whatever_a_member_tries(directory: Path, *, tries: bool) -> None:
    one, two = service(directory), service(directory)
    text = CONFIGURATION.format(seats=8, directory=directory)
    older, newer = (text.replace("shares: 5", f"shares: {shares}") for shares in (6, 7))
    async with running(one, two):
        one.notices.tell_mode("observe")
        await until(lambda: two.mode == "observe")  # so it is no newcomer
        if tries:
            two.shadow.start(read_trial(older, "older.yaml"))
        one.notices.tell_shadow(newer, "newer.yaml")
        one.notices.tell_promotion(newer, "newer.yaml")  # before the other member has looked
        await until(lambda: two.controller.configuration.levels["batch"].shares.shares == 7)
        await until(lambda: two.shadow.was_promoted)
        assert two.shadow.trial is None


async def test_a_promotion_that_a_member_can_not_read_is_logged(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = service(directory)
    text = CONFIGURATION.format(seats=8, directory=directory)
    with caplog.at_level(logging.WARNING, "apf_middleware"):
        one.shadow.follow_promotion(text.replace("shares: 5", "shares: -5"), "new.yaml")
        await until(lambda: "apf.shadow-refused source=new.yaml" in caplog.text)
    assert "spec.shares is -5" in caplog.text
    assert one.controller.configuration.levels["batch"].shares.shares == 5


async def test_a_configuration_that_is_no_text_is_refused(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    one, two = service(directory), service(directory)
    async with running(one, two):
        one.notices._tell("shadow", {"configuration": "bm90IHBhY2tlZA==", "source": "x", "classify_only": False})
        await until(lambda: "apf.fleet-notice-refused" in caplog.text)
        assert two.shadow.trial is None
