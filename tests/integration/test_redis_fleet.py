"""Members meet at a real Redis, share one budget, and bear a Redis that is gone, slow, or has lost everything."""

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from redis.asyncio import Redis as Client
from redis.exceptions import RedisError

from apf_middleware.config.fleet import FleetSettings
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fleet.messages import Report, Taken
from apf_middleware.runtime.fleet.member import FleetMember
from apf_middleware.runtime.fleet.redis_address import resolve_labels
from apf_middleware.runtime.fleet.redis_link import Division, DivisionAnswer, RedisLink
from tests.support import databases
from tests.support.databases import Redis
from tests.support.examples import seeds
from tests.support.fleet_members import SEATS, BusyProcess, FleetProcess, find_more_seats, running, until, waits
from tests.support.log_events import events
from tests.support.prerequisites import require_redis

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from apf_middleware.runtime import Admission
    from apf_middleware.runtime.fleet.redis_link import AllocatorState

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

LEASE_S = 1.0
CLUSTER_LEASE_S = 5.0  # a client asks a cluster several questions before its first command may be late
STATE = "apf:{shop}:state"
NAME = "FLEET_STORE"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server() -> Iterator[Redis]:
    require_redis()
    with databases.redis() as server:
        yield server


@pytest.fixture
async def client(server: Redis) -> AsyncIterator[Client]:
    async with Client.from_url(server.url) as client:
        yield client


class Member(FleetProcess):
    """A member that meets the others at ``server``."""

    def __init__(self, server: Redis, more: str = "") -> None:
        super().__init__(f"store: '{server.url}', interval: 50ms, lease: {LEASE_S}s{more}")

    @property
    def epoch(self) -> int:
        """The epoch in which it allocates; 0 if it doesn't."""
        allocator = self.fleet.participant.allocator
        return 0 if allocator is None else allocator.epoch

    @property
    def distrusts(self) -> bool:
        """Whether it allocated with seats of members unknown to it when it began; the time now doesn't matter."""
        allocator = self.fleet.participant.allocator
        assert allocator is not None
        return allocator.is_learning(0)


async def test_the_seats_of_a_fleet_adapt(server: Redis) -> None:
    fleet = f"store: '{server.url}', interval: 50ms, lease: 2s"
    await find_more_seats(BusyProcess(fleet), BusyProcess(fleet))


async def test_the_first_member_gets_all_seats_when_no_former_lease_can_hold(server: Redis) -> None:
    member = Member(server)
    async with running(member):
        began = asyncio.get_running_loop().time()
        admissions = [member.arrive("a") for _ in range(SEATS + 3)]
        await until(lambda: member.in_use == SEATS, member)
        assert asyncio.get_running_loop().time() - began >= LEASE_S
        assert waits(admissions) == 3
    assert member.controller.member is None


async def test_two_members_divide_the_seats_by_their_demand(server: Redis) -> None:
    one, two = Member(server), Member(server)
    async with running(one, two):
        first = [one.arrive("a") for _ in range(40)]
        await until(lambda: one.in_use == SEATS, one, two)
        for _ in range(20):
            two.arrive("b")
        await until(lambda: one.seats == SEATS // 2, one, two)
        assert not two.in_use, "the requests of the other member still run"
        for admission in [admission for admission in first if admission.is_seated][: SEATS // 2]:
            one.controller.release(admission)
        await until(lambda: one.in_use == two.in_use == SEATS // 2, one, two)
        await until(lambda: (one.epoch == 0) != (two.epoch == 0), one, two)  # the former may not know that it is none


async def test_seats_pass_from_member_to_member_without_the_allocator(
    server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = Member(server), Member(server)
    passed: list[Taken] = []
    note_taken = RedisLink.note_taken

    def note_and_count(link: RedisLink, taken: Taken) -> bool:
        passed.append(taken)
        return note_taken(link, taken)

    monkeypatch.setattr(RedisLink, "note_taken", note_and_count)
    first = [one.arrive("a") for _ in range(2 * SEATS)]

    async def work() -> None:
        while True:
            await anyio.sleep(0.005)
            seated = next(admission for admission in first if admission.is_seated)
            one.controller.release(seated)
            first.remove(seated)
            first.append(one.arrive("a"))

    async with running(one, two), anyio.create_task_group() as tasks:
        await until(lambda: one.in_use == SEATS, one, two)
        tasks.start_soon(work)
        for _ in range(20):
            mouse = two.arrive("b")
            await until(lambda admission=mouse: admission.is_seated, one, two)  # type: ignore[misc]
            two.controller.release(mouse)
            await until(lambda: one.in_use == SEATS, one, two)
        tasks.cancel_scope.cancel()
    assert len(passed) >= 10


async def test_an_allocator_learns_from_a_refusal_that_a_seat_was_passed_on(
    server: Redis, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message that tells it was lost."""
    answers: list[DivisionAnswer] = []
    exchange = RedisLink.exchange

    async def exchange_and_note(link: RedisLink, division: Division, wait_s: float = 0) -> DivisionAnswer:
        answer = await exchange(link, division, wait_s)
        answers.append(answer)
        return answer

    monkeypatch.setattr(RedisLink, "exchange", exchange_and_note)
    one, two = Member(server), Member(server)
    async with running(one, two):
        first = [one.arrive("a") for _ in range(40)]
        await until(lambda: one.in_use == SEATS, one, two)
        await client.hset(STATE, mapping={"round": "taken", "standing": ""})
        for _ in range(20):
            two.arrive("b")
        await until(lambda: one.seats == SEATS // 2, one, two)
        for admission in [admission for admission in first if admission.is_seated][: SEATS // 2]:
            one.controller.release(admission)
        await until(lambda: one.in_use == two.in_use == SEATS // 2, one, two)
    refused = next(place for place, answer in enumerate(answers) if answer.is_refused)
    assert not answers[refused + 1].is_refused


async def test_a_fleet_that_begins_again_waits_for_no_lease(server: Redis, client: Client) -> None:
    """All members have left, and Redis knows that."""
    one = Member(server)
    async with running(one):
        admission = one.arrive("a")
        await until(lambda: admission.is_seated, one)
        one.controller.release(admission)
    assert not [field for field in await client.hkeys(STATE) if str(field).startswith("b'm:")]
    two = Member(server)
    async with running(two):
        await until(lambda: two.seats >= 1, two)
        assert two.epoch >= 2  # on a busy machine, it may have begun several
        assert not two.distrusts


async def test_a_member_that_leaves_gives_its_seats_back_at_once(server: Redis) -> None:
    one, two = Member(server), Member(server)
    async with running(one, two):
        first = [one.arrive("a") for _ in range(SEATS)]
        await until(lambda: one.in_use >= SEATS - 1, one, two)
        one.scope.cancel()
        for admission in first:
            one.controller.leave(admission)
        second = [two.arrive("b") for _ in range(SEATS)]
        await until(lambda: not waits(second), two)
    assert not one.arrive("late").is_seated


async def test_a_member_that_leaves_with_requests_keeps_its_seats_for_a_lease(server: Redis) -> None:
    one, two = Member(server), Member(server)
    async with running(one, two):
        first = [one.arrive("a") for _ in range(2)]
        await until(lambda: one.in_use == 2, one, two)
        assert one.fleet.participant.member is not None
        lease_until = one.fleet.participant.member.membership.limit.lease_until
        one.scope.cancel()
        second = [two.arrive("b") for _ in range(SEATS)]
        is_held = True
        while is_held:
            in_use = two.in_use
            is_held = two.controller.now() < lease_until
            assert in_use <= SEATS - 2 or not is_held
            await asyncio.sleep(0.005)
        await until(lambda: not waits(second), two)
        assert [admission.is_seated for admission in first] == [True, True]


async def test_another_member_takes_over_when_the_allocator_has_gone(server: Redis, client: Client) -> None:
    one, two = Member(server), Member(server)
    async with running(one, two):
        admissions = [two.arrive("b") for _ in range(SEATS)]
        await until(lambda: two.in_use >= SEATS - 1, one, two)
        epoch = int(await client.hget(STATE, "epoch") or 0)  # on a busy machine, there may have been a change already
        await client.hset(STATE, "owner", "somebody that has been killed")
        await until(lambda: max(one.epoch, two.epoch) > epoch, one, two)
        assert await client.hget(STATE, "owner") != b"somebody that has been killed"
        assert epoch >= 1
        for admission in admissions:
            two.controller.leave(admission)
        admissions = [one.arrive("a") for _ in range(SEATS)]
        await until(lambda: one.in_use == SEATS, one, two)


async def test_no_grant_of_an_allocator_is_stored_after_another_epoch_has_begun(server: Redis, client: Client) -> None:
    one = Member(server)
    async with running(one):
        await until(lambda: one.seats >= 1, one)
        await client.hset(STATE, "epoch", 7)
        await until(lambda: one.epoch >= 8, one)
        assert one.fleet.participant.member is not None
        assert one.fleet.participant.member.membership.epoch >= 8


async def test_a_redis_to_which_all_connections_are_new_is_not_trusted_for_a_lease(
    server: Redis, client: Client
) -> None:
    """It may be a replica that lacks a member, which may have seats."""
    one = Member(server)
    async with running(one):
        admission = one.arrive("a")
        await until(lambda: admission.is_seated, one)
        epoch, participant = one.epoch, one.fleet.participant
        await client.execute_command("CLIENT", "KILL", "TYPE", "normal")  # type: ignore[no-untyped-call]
        await until(lambda: one.epoch > epoch, one)
        await until(lambda: participant.allocator is not None and len(participant.allocator.accounts) == 1, one)
        assert one.distrusts


async def test_a_redis_without_its_data_is_not_trusted_for_a_lease(server: Redis, client: Client) -> None:
    """An unknown member may have seats, so only those that members report to have can move."""
    one, two = Member(server), Member(server)
    async with running(one, two):
        held = [one.arrive("a") for _ in range(SEATS - 1)]
        await until(lambda: not waits(held), one, two)
        await client.flushall()
        # The former allocator may not know yet that it is none. On a busy machine, there may be further ones.
        await until(lambda: any(member.epoch >= 2 and member.distrusts for member in (one, two)), one, two)
        for admission in held:
            one.controller.release(admission)
        moved = [two.arrive("b") for _ in range(SEATS)]
        await until(lambda: two.in_use >= SEATS - 1, one, two)
        await until(lambda: not waits(moved), one, two)


async def test_members_of_a_redis_that_doesn_t_answer_keep_their_seats_for_a_lease(
    server: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fallback = ", fallback: {members: 2, share: 0.5}"
    one, two = Member(server, fallback), Member(server, fallback)
    async with running(one, two):
        await until(lambda: one.seats >= 3 and two.seats >= 3, one, two)
        server.pause()
        try:
            await until(lambda: one.seats == two.seats == SEATS // 4, one, two)
            assert one.arrive("a").is_seated, "its fallback seats need no leave"
        finally:
            server.resume()
        began = asyncio.get_running_loop().time()
        await until(lambda: one.seats > SEATS // 4 and two.seats > SEATS // 4, one, two)
        print("back after", asyncio.get_running_loop().time() - began)
        await until(lambda: "apf.fleet-store-answers" in events(caplog), one, two)
    assert "apf.fleet-store-failed" in events(caplog)


class RegularReports:
    """Counts the reports of ``process`` that aren't sent at once, and measures the time from one of the others."""

    def __init__(self, process: FleetProcess, monkeypatch: pytest.MonkeyPatch) -> None:
        self._process = process
        self._clock = asyncio.get_running_loop().time
        self._sent_at_once = 0.0
        self.waits: list[float] = []
        send = RedisLink.send

        def send_and_note(link: RedisLink, epoch: int, report: Report) -> "Awaitable[AllocatorState]":
            self.waits.append(self._clock() - self._sent_at_once)
            return send(link, epoch, report)

        monkeypatch.setattr(RedisLink, "send", send_and_note)

    @property
    def _member(self) -> FleetMember:
        member = self._process.fleet.participant.member
        assert member is not None
        return member

    @property
    def has_answer(self) -> bool:
        return self._member.exchanges.count > 0

    def send_at_once(self) -> None:
        if self._member.send_now():
            self._sent_at_once = self._clock()


async def test_a_report_that_is_sent_at_once_counts_as_a_regular_one(
    server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = FleetProcess(f"store: '{server.url}', interval: 300ms, lease: 5s")
    async with running(one):
        regular = RegularReports(one, monkeypatch)
        await until(lambda: regular.has_answer, one)
        regular.waits.clear()
        await until(lambda: bool(regular.waits), one)
        await asyncio.sleep(0.2)
        regular.send_at_once()
        regular.waits.clear()
        await until(lambda: bool(regular.waits), one)
        assert regular.waits[0] >= 0.29


async def test_reports_without_answers_replace_no_regular_one(server: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the regular ones notice that Redis has stopped."""
    one = FleetProcess(f"store: '{server.url}', interval: 300ms, lease: 5s")
    async with running(one):
        regular = RegularReports(one, monkeypatch)
        await until(lambda: regular.has_answer, one)
        server.pause()
        try:
            regular.waits.clear()
            with anyio.fail_after(60):
                while not regular.waits:
                    regular.send_at_once()
                    await asyncio.sleep(0.2)
        finally:
            server.resume()


async def test_members_bear_a_redis_that_is_restarted_empty(server: Redis) -> None:
    one = Member(server)
    async with running(one):
        await until(lambda: one.seats >= 1, one)
        server.stop()
        held = [one.arrive("a") for _ in range(SEATS)]
        await asyncio.sleep(0.1)
        with databases.redis(server.port):
            await until(lambda: not waits(held) and one.epoch > 1, one)


@pytest.mark.parametrize("nonsense", [b"", b"nonsense", b'{"v": 99}', b'{"v": 1, "end": 7}', b'{"v": 1}'])
async def test_nonsense_in_redis_harms_nobody(server: Redis, client: Client, nonsense: bytes) -> None:
    member = Member(server)
    async with running(member):
        await until(lambda: member.seats >= 1, member)
        assert member.fleet.participant.member is not None
        name = member.fleet.participant.member.membership.member
        await client.rpush("apf:{shop}:reports", nonsense)
        await client.rpush("apf:{shop}:to:" + name, nonsense)
        admissions = [member.arrive("a") for _ in range(SEATS)]
        await until(lambda: not waits(admissions), member)


async def test_redis_learns_labels_of_flows_and_members_find_these_again(server: Redis, client: Client) -> None:
    one, two = Member(server), Member(server)
    commands: list[str] = []
    flow = sum(b"elephant")
    async with client.monitor() as monitor, running(one, two), anyio.create_task_group() as tasks:

        async def watch() -> None:
            async for command in monitor.listen():
                commands.append(command["command"])  # noqa: PERF401 - there is no end

        tasks.start_soon(watch)
        for member in (one, two):
            for name in ("elephant", "elephant", "elephant", "mouse"):
                for _ in range(SEATS):
                    member.arrive(name)

        def factors(member: Member) -> Mapping[int, int]:
            return member.controller.levels["web"].factors

        await until(lambda: flow in factors(one) and flow in factors(two), one, two)
        tasks.cancel_scope.cancel()
    text = "".join(commands)
    label = resolve_labels(FleetSettings(server.url, "shop"), {}).label(flow)
    assert str(label) in text
    assert f"[{flow}," not in text
    assert f",{flow}," not in text


@pytest.mark.parametrize(("command", "said"), [("lpop", "'lpop'"), ("llen", "script")])
async def test_a_command_that_is_not_allowed_floods_neither_the_log_nor_the_epochs(
    server: Redis, client: Client, caplog: pytest.LogCaptureFixture, command: str, said: str
) -> None:
    """Other commands are answered all the time, and the member becomes the allocator again and again."""
    caplog.set_level(logging.INFO)
    await client.execute_command("ACL", "SETUSER", "default", f"-{command}")  # type: ignore[no-untyped-call]
    member, began_at = Member(server), time.monotonic()
    async with running(member):
        await until(lambda: member.epochs >= 3, member)
        assert time.monotonic() - began_at >= LEASE_S, "there are no more than two epochs in each lease"
    assert events(caplog).count("apf.fleet-joined") == 1
    refused = [record.getMessage() for record in caplog.records if said in record.getMessage()]
    assert len(refused) == 1, "the cause is logged once"
    assert "127.0.0.1" in refused[0]
    assert "apf.fleet-allocates" not in events(caplog), "it has never divided the seats"


async def test_a_redis_far_away_has_time_for_new_connections(server: Redis) -> None:
    """Logging in and loading the scripts takes longer than a command may."""
    async with contextlib.AsyncExitStack() as stack:
        distant = await asyncio.start_server(partial(pass_slowly, server.port), "127.0.0.1", 0)
        await stack.enter_async_context(distant)
        port = distant.sockets[0].getsockname()[1]
        member = FleetProcess(f"store: 'redis://127.0.0.1:{port}', interval: 50ms, lease: 5s")
        await stack.enter_async_context(running(member))
        await until(lambda: member.is_answered, member)
        assert member.epochs == 1, "no other epoch has begun before its first grants"


async def test_a_member_doesn_t_wait_at_its_end_for_a_redis_that_doesn_t_answer(
    server: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """It has lost its connections, and another would take half a lease."""
    loop = asyncio.get_running_loop()
    member = FleetProcess(f"store: '{server.url}', interval: 50ms, lease: 20s")
    try:
        async with running(member):
            await until(lambda: member.is_answered, member)
            server.pause()
            await until(lambda: "apf.fleet-store-failed" in events(caplog) and member.allocates_no_more, member)
            ends_at = loop.time()
    finally:
        server.resume()
    assert loop.time() - ends_at < 8


async def pass_slowly(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass all data on after 0.15 s, so that an answer takes 0.3 s of the 0.5 s that it may."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(2**16):
                await asyncio.sleep(0.15)
                writer.write(data)
        writer.close()

    beyond = await asyncio.open_connection("127.0.0.1", port)
    try:
        await asyncio.gather(copy(reader, beyond[1]), copy(beyond[0], writer))
    finally:
        beyond[1].close()
        writer.close()


async def test_a_redis_that_refuses_commands_is_an_outage(server: Redis, client: Client) -> None:
    await client.set(STATE, "not a hash")
    member = Member(server)
    async with running(member):
        assert member.arrive("a").is_waiting
        await asyncio.sleep(0.2)
        await client.delete(STATE)
        await until(lambda: member.seats >= 1, member)


class Disturber:
    """Does to a Redis what operators, other programs and failures may do."""

    def __init__(self, server: Redis, client: Client, random: Random) -> None:
        self.server = server
        self.client = client
        self.random = random
        self.ways: list[Callable[[], Awaitable[object]]] = [
            client.flushall,
            client.script_flush,
            partial(client.execute_command, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"),
            self.delete,
            self.overwrite,
            self.change,
            self.stop,
        ]

    async def disturb(self) -> None:
        with contextlib.suppress(RedisError):
            await self.random.choice(self.ways)()

    async def key(self) -> str:
        keys = [key for key in await self.client.keys("*") if isinstance(key, bytes)]
        return self.random.choice(sorted(["other", *(key.decode() for key in keys)]))

    async def delete(self) -> None:
        await self.client.delete(await self.key())

    async def overwrite(self) -> None:
        await self.client.set(await self.key(), "nonsense")

    async def change(self) -> None:
        field = self.random.choice(["epoch", "until", "owner", "round", "standing"])
        value = self.random.choice(["0", "99", "x", "1e300", "taken"])
        await self.client.hset(STATE, field, value)

    async def stop(self) -> None:
        self.server.pause()
        await asyncio.sleep(self.random.choice([0.05, 0.4]))
        self.server.resume()


@pytest.mark.parametrize("seed", seeds(2))
async def test_the_budget_holds_whatever_happens_to_redis(server: Redis, client: Client, seed: int) -> None:
    random = Random(seed)
    disturber = Disturber(server, client, random)
    members = [Member(server) for _ in range(3)]
    admissions: list[tuple[Member, Admission]] = []
    async with running(*members):
        for _ in range(80):
            await disturber.disturb()
            for member in members:
                admissions += ((member, member.arrive(random.choice("abc"))) for _ in range(random.randrange(4)))
            for member, admission in random.sample(admissions, len(admissions) // 2):
                if admission.is_seated:
                    member.controller.release(admission)
                    admissions.remove((member, admission))
            assert sum(member.seats for member in members) <= SEATS
            assert sum(member.in_use for member in members) <= SEATS
            await asyncio.sleep(0.03)
        await client.flushall()
        for member, admission in admissions:
            member.controller.leave(admission)
        last = [member.arrive("d") for member in members for _ in range(SEATS)]
        await until(lambda: waits(last) == 2 * SEATS, *members)


async def test_a_password_comes_from_a_file_and_may_change(server: Redis, client: Client, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("wrong\n")
    await client.config_set("requirepass", "first")
    member = Member(server, f", redis: {{passwordFile: {secret}}}")
    async with running(member):
        await asyncio.sleep(0.2)
        assert not member.seats
        secret.write_text("first\n")
        await until(lambda: member.seats >= 1, member)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://127.0.0.1/0?colour=blue", "argument 'colour'"),
        ("rediss://127.0.0.1/0?ssl_ca_certs=/missing.pem", "No such file or directory"),
    ],
)
async def test_an_address_that_redis_py_can_t_use_is_refused(url: str, said: str) -> None:
    with pytest.raises(InvalidValueError, match=f"store .*{said}.* Correct its query"):
        FleetProcess(f"store: '{url}'")


async def test_a_store_may_be_a_unix_socket(tmp_path: Path) -> None:
    require_redis()
    path = tmp_path / "redis"
    with databases.redis(None, "--unixsocket", str(path)):
        member = FleetProcess(f"store: 'unix://{path}', interval: 50ms, lease: {LEASE_S}s")
        async with running(member):
            await until(lambda: member.seats >= 1, member)


async def test_members_meet_in_a_cluster_whichever_node_they_know() -> None:
    require_redis()
    with databases.redis_cluster() as nodes:
        members = [
            FleetProcess(f"store: 'redis+cluster://127.0.0.1:{node.port}', interval: 50ms, lease: {CLUSTER_LEASE_S}s")
            for node in nodes
        ]
        async with running(*members):
            admissions = [member.arrive("a") for member in members for _ in range(SEATS)]
            await until(lambda: waits(admissions) == SEATS, *members)
            assert sum(member.in_use for member in members) == SEATS


async def test_members_of_a_cluster_that_is_gone_have_their_fallback_seats(caplog: pytest.LogCaptureFixture) -> None:
    """Redis-py has other errors for a cluster none of whose nodes can be reached."""
    require_redis()
    with databases.redis_cluster() as nodes:
        fleet = f"interval: 50ms, lease: {CLUSTER_LEASE_S}s, fallback: {{members: 2, share: 0.5}}"
        member = FleetProcess(f"store: 'redis+cluster://127.0.0.1:{nodes[0].port}', {fleet}")
        async with running(member):
            await until(lambda: member.seats >= SEATS // 2, member)
            for node in nodes:
                await asyncio.to_thread(node.stop)
            await until(lambda: member.seats == SEATS // 4, member)
            assert member.arrive("a").is_seated
    assert "apf.fleet-store-failed" in events(caplog)
    assert "apf.service-failed" not in events(caplog)


async def test_the_documented_commands_are_enough(server: Redis, client: Client) -> None:
    text = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text()
    words = text.partition("**What it needs**")[2].partition("\n- **")[0].partition("in a cluster")[0]
    commands = [word.lower().replace(" ", "|") for word in re.findall("`([A-Z ]+)`", words)]
    allowed = ["-@all", "+select", *(f"+{command}" for command in commands)]
    asking: Callable[..., Awaitable[object]] = client.execute_command
    await asking("ACL", "SETUSER", "member", "on", "nopass", "~apf:*", *allowed)
    url = server.url.replace("//", "//member:any@")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NAME, f"{url.removesuffix('/0')}/1")
        member, other = (FleetProcess(f"store: 'env:{NAME}', interval: 50ms, lease: {LEASE_S}s") for _ in range(2))
    async with running(member, other):
        await until(lambda: member.seats >= 1 and other.seats >= 1, member, other)
    async with running(member):  # a member has left, and another one begins the next epoch
        admissions = [member.arrive("a") for _ in range(SEATS)]
        await until(lambda: not waits(admissions), member)
    refused: Any = await asking("ACL", "LOG")
    # since 7.2, and before subcommands had permissions, it has redis-py's CLIENT SETINFO, which does without
    assert [entry for entry in refused if not entry[b"object"].startswith(b"client")] == []
