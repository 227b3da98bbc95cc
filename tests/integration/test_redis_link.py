"""Each step of the protocol, in a real Redis."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterator, Mapping

import pytest
from redis.asyncio import Redis as Client
from redis.exceptions import RedisError

from apf_middleware.fleet.messages import Grant, Report, Taken, write
from apf_middleware.fleet.standing_grant import Holding, StandingGrant
from apf_middleware.runtime.fleet.redis_address import RedisAddress
from apf_middleware.runtime.fleet.redis_link import AllocatorState, Division, DivisionAnswer, RedisLink
from apf_middleware.runtime.fleet.timing import FleetTiming
from tests.support import databases
from tests.support.databases import Redis
from tests.support.prerequisites import require_redis

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

TIMING = FleetTiming(10**9, 50 * 10**9)  # an allocator is thought to be alive for ten seconds
PREFIX = "test:{shop}:"
REPORT = Report("two", 1, 1, 0, 0, 0)
SENT = write(REPORT)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    require_redis()
    with databases.redis() as server:
        yield server


@pytest.fixture
async def client(server: Redis) -> AsyncIterator[Client]:
    async with Client.from_url(server.url) as client:
        await client.flushall()
        yield client


@pytest.fixture
async def one(server: Redis, client: Client) -> AsyncIterator[RedisLink]:
    link = RedisLink(RedisAddress(server.url), PREFIX, "one", TIMING)
    yield link
    await link.aclose()


@pytest.fixture
async def two(server: Redis) -> AsyncIterator[RedisLink]:
    link = RedisLink(RedisAddress(server.url), PREFIX, "two", TIMING)
    yield link
    await link.aclose()


async def members(client: Client) -> set[str]:
    fields = await client.hkeys(PREFIX + "state")
    return {field.decode()[2:] for field in fields if isinstance(field, bytes) and field.startswith(b"m:")}


async def grant_of(link: RedisLink, wait_s: float) -> bytes | None:
    found: asyncio.Queue[bytes] = asyncio.Queue()
    taking = asyncio.create_task(link.take_grants(found.put_nowait))
    try:
        return await asyncio.wait_for(found.get(), wait_s)
    except TimeoutError:
        return None
    finally:
        assert found.empty()
        taking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await taking


def grant(number: int) -> Grant:
    return Grant(1, number, 1, 1)


async def store(
    link: RedisLink,
    epoch: int,
    grants: Mapping[str, Grant] | None = None,
    forgotten: Collection[str] = (),
    *,
    is_sure: bool = True,
    standing: StandingGrant | None = None,
) -> bool:
    """Let an allocator store grants; return False if Redis refuses them."""
    answer = await link.exchange(Division(epoch, grants or {}, standing, forgotten, is_sure))
    assert answer.reports == []
    return not (answer.is_outdated or answer.is_refused)


async def test_without_an_allocator_a_report_only_registers_its_member(one: RedisLink, client: Client) -> None:
    assert await one.send(0, REPORT) == AllocatorState(0, is_alive=False, owner="", count=1)
    assert await members(client) == {"one"}
    assert await client.keys("*") == [PREFIX.encode() + b"state"]


async def test_one_member_begins_an_epoch(one: RedisLink, two: RedisLink) -> None:
    first = await one.claim(0, 0)
    assert (first.epoch, first.is_mine, first.expected) == (1, True, None), "Redis may have lost its data"
    other = await two.claim(0, 0)
    assert (other.epoch, other.is_mine) == (1, False)
    assert await two.send(1, REPORT) == AllocatorState(1, is_alive=True, owner="one", count=2)
    assert await one.take_reports(1) == [SENT]


async def test_the_first_epoch_of_a_fleet_trusts_nobody_although_members_are_known(
    one: RedisLink, two: RedisLink
) -> None:
    """Members may have registered just after Redis has lost an earlier epoch."""
    await one.send(0, REPORT)
    claim = await two.claim(0, 0)
    assert (claim.epoch, claim.expected) == (1, None)


async def test_after_a_loss_of_data_nobody_is_trusted_until_an_allocator_is_sure(
    one: RedisLink, two: RedisLink
) -> None:
    await one.claim(0, 0)
    await store(one, 1, is_sure=False)
    await one.resign(1)
    claim = await two.claim(1, 1)
    assert (claim.epoch, claim.expected) == (2, None), "members from before the loss may still have leases"
    await store(two, 2)
    await two.resign(2)
    assert (await one.claim(2, 2)).expected == set()


async def test_the_next_allocator_expects_all_members(one: RedisLink, two: RedisLink) -> None:
    await one.claim(0, 0)
    await store(one, 1)
    count = (await two.send(1, REPORT)).count
    await one.send(1, REPORT)
    await one.resign(1)
    claim = await two.claim(1, count)
    assert (claim.epoch, claim.is_mine, claim.expected) == (2, True, {"one", "two"})
    await one.resign(1)
    assert (await one.send(1, REPORT)).is_alive, "only the owner of the latest epoch can resign"


@pytest.mark.parametrize(("epoch", "count"), [(1, 99), (7, 0)])
async def test_a_redis_that_has_gone_back_in_time_is_not_trusted(
    one: RedisLink, two: RedisLink, epoch: int, count: int
) -> None:
    """It counts fewer reports, or knows only an earlier epoch, than a member has seen."""
    await one.claim(0, 0)
    await two.send(1, REPORT)
    await one.resign(1)
    claim = await two.claim(epoch, count)
    assert (claim.epoch, claim.is_mine, claim.expected) == (epoch + 1, True, None)


@pytest.mark.parametrize(
    ("is_new", "is_leased", "expected"), [(False, True, {"two"}), (True, False, {"two"}), (True, True, None)]
)
async def test_a_redis_may_lack_members_if_a_connection_is_newer_than_its_last_grants(
    one: RedisLink, two: RedisLink, server: Redis, client: Client, *, is_new: bool, is_leased: bool, expected: object
) -> None:
    """A replica has taken over that lacks a member's first report, and other reports have raised its count since."""
    await one.claim(0, 0)
    count = (await two.send(1, REPORT)).count
    await store(one, 1)
    await one.resign(1)
    state = await client.dump(PREFIX + "state")
    assert state is not None
    await one.send(1, REPORT)
    await client.restore(PREFIX + "state", 0, state, replace=True)
    if is_new:
        await two.aclose()
        two = RedisLink(RedisAddress(server.url), PREFIX, "two", TIMING)
        assert (await two.send(1, REPORT)).count > count
    claim = await two.claim(1, count, is_leased=is_leased)
    await two.aclose()
    assert (claim.epoch, claim.is_mine, claim.expected) == (2, True, expected)


async def test_a_member_that_knows_a_later_epoch_replaces_a_living_allocator(one: RedisLink, two: RedisLink) -> None:
    await one.claim(0, 0)
    claim = await two.claim(4, 0)
    assert (claim.epoch, claim.is_mine) == (5, True)


async def test_an_owner_that_doesn_t_know_of_its_epoch_begins_another(one: RedisLink) -> None:
    """The answer to its claim was lost."""
    await one.claim(0, 0)
    claim = await one.claim(0, 0)
    assert (claim.epoch, claim.is_mine) == (2, True)


async def test_reports_for_another_epoch_are_not_kept(one: RedisLink, two: RedisLink, client: Client) -> None:
    await one.claim(0, 0)
    await two.send(0, REPORT)
    await two.send(1, REPORT)
    await one.claim(1, 0)
    assert not await client.exists(PREFIX + "reports"), "the new allocator needs new reports"


async def test_only_the_latest_grant_is_kept(one: RedisLink, two: RedisLink) -> None:
    await one.claim(0, 0)
    assert await store(one, 1, {"two": grant(1)})
    assert await store(one, 1, {"two": grant(2), "one": grant(3)})
    assert await grant_of(two, 1) == write(grant(2))
    assert await grant_of(two, 0.01) is None
    assert await grant_of(one, 1) == write(grant(3))


async def test_no_cancellation_is_lost_while_a_connection_is_opened(one: RedisLink) -> None:
    """`asyncio.wait_for` before Python 3.12 loses one that comes in the turn in which what it waits for is done."""
    for turns in range(60):
        taking = asyncio.create_task(one.take_grants(lambda _: None))
        for _ in range(turns):
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.wait({taking}, timeout=10)
        assert taking.cancelled(), f"after {turns} turns of the event loop"


async def test_no_grant_is_stored_after_another_epoch_has_begun(one: RedisLink, two: RedisLink) -> None:
    await one.claim(0, 0)
    await one.resign(1)
    await two.claim(1, 0)
    assert not await store(one, 1, {"two": grant(1)})
    assert not await store(one, 2, {"two": grant(1)}), "this is the epoch of another"
    assert await grant_of(two, 0.01) is None


async def test_an_allocator_is_alive_as_long_as_it_grants(one: RedisLink, two: RedisLink, client: Client) -> None:
    await one.claim(0, 0)
    await client.hset(PREFIX + "state", "until", 0)
    assert not (await two.send(1, REPORT)).is_alive
    assert await store(one, 1)
    assert (await two.send(1, REPORT)).is_alive


async def test_a_damaged_number_of_reports_is_counted_anew(one: RedisLink, two: RedisLink, client: Client) -> None:
    await one.claim(0, 0)
    await client.hset(PREFIX + "state", "count", "zzz")

    assert (await two.send(1, REPORT)).is_alive
    assert await client.hget(PREFIX + "state", "count") == b"1"


async def test_a_clock_that_is_set_back_doesn_t_keep_a_dead_allocator_alive(
    one: RedisLink, two: RedisLink, client: Client
) -> None:
    await one.claim(0, 0)
    await client.hincrby(PREFIX + "state", "until", 3_600_000)
    assert not (await two.send(1, REPORT)).is_alive
    assert (await two.claim(1, 0)).is_mine


async def test_more_grants_than_one_script_can_store(one: RedisLink, client: Client) -> None:
    await one.claim(0, 0)
    grants = {f"m{number}": grant(number) for number in range(2500)}
    assert await store(one, 1, grants)
    assert await client.lrange(PREFIX + "to:m2499", 0, -1) == [write(grant(2499))]
    assert len(await client.keys(PREFIX + "to:*")) == 2500


async def test_members_are_forgotten_unless_reports_wait(one: RedisLink, two: RedisLink, client: Client) -> None:
    await one.claim(0, 0)
    await two.send(1, REPORT)
    assert await store(one, 1, {}, {"two"})
    assert await members(client) == {"two"}, "the report may be from this member"
    await one.take_reports(1)
    assert await store(one, 1, {"x": grant(1)}, {"two"})
    assert not await members(client)
    assert await client.lrange(PREFIX + "to:x", 0, -1) == [write(grant(1))]


async def test_a_member_that_leaves_is_forgotten_and_tells_the_allocator(
    one: RedisLink, two: RedisLink, client: Client
) -> None:
    await one.claim(0, 0)
    await two.send(1, REPORT)
    await store(one, 1, {"two": grant(1)})
    await two.leave(b"end")
    assert await one.take_reports(1) == [SENT, b"end"]
    assert not await members(client)
    assert not await client.exists(PREFIX + "to:two")


async def test_all_keys_are_in_one_slot_and_end_some_day(one: RedisLink, client: Client) -> None:
    await one.send(0, REPORT)
    await one.claim(0, 0)
    await one.send(1, REPORT)
    await store(one, 1, {"one": grant(1)})
    keys = [key.decode() for key in await client.keys("*") if isinstance(key, bytes)]
    assert len(keys) == 3
    assert {key.partition("}")[0] for key in keys} == {"test:{shop"}
    for key in keys:
        assert await client.pttl(key) > 0


async def test_grants_are_stored_although_no_report_has_arrived(one: RedisLink, two: RedisLink) -> None:
    """They are sent together with the wait for reports."""
    await one.claim(0, 0)
    waiting = asyncio.ensure_future(one.exchange(Division(1, {"two": grant(1)}), 10))
    assert await grant_of(two, 5) == write(grant(1))
    assert not waiting.done()
    await two.send(1, REPORT)
    assert await waiting == DivisionAnswer([SENT])


async def test_an_allocator_takes_no_reports_after_another_epoch_has_begun(one: RedisLink, two: RedisLink) -> None:
    await one.claim(0, 0)
    await two.claim(4, 0)
    assert await one.exchange(Division(1, {"two": grant(1)}), 10) == DivisionAnswer(is_outdated=True)
    await one.send(5, REPORT)
    assert await two.take_reports(5) == [SENT]


async def test_a_report_can_be_sent_without_a_wait(one: RedisLink, two: RedisLink, client: Client) -> None:
    answers: list[AllocatorState | None] = []
    assert not two.send_now(1, lambda: REPORT, answers.append), "there is no connection yet"
    await two.claim(0, 0)
    for _ in range(8):
        assert two.send_now(1, lambda: REPORT, answers.append)
    assert not two.send_now(1, lambda: REPORT, answers.append), "Redis may have stopped"
    assert len(await two.take_reports(5)) == 8
    assert await two.send(1, REPORT) == AllocatorState(1, is_alive=True, owner="two", count=10)
    assert answers == [AllocatorState(1, is_alive=True, owner="two", count=count) for count in range(2, 10)]
    await client.script_flush()
    assert two.send_now(1, lambda: REPORT, answers.append)
    with pytest.raises(RedisError, match=r"NOSCRIPT|closed"):  # the first of two errors closes the connection
        await two.send(1, REPORT)
    assert answers[8:] == [None]
    assert (await two.send(1, REPORT)).count == 11, "it has connected again, with its scripts"


async def test_reports_are_answered_in_the_order_of_sending(two: RedisLink, client: Client) -> None:
    await two.claim(0, 0)
    pipe = two._pipes["steps"]
    pipe._transport.pause_reading()  # so that all answers arrive together
    counts: list[int] = []
    is_answered = asyncio.Event()

    async def send() -> None:
        counts.append((await two.send(1, REPORT)).count)

    def take(state: AllocatorState | None) -> None:
        counts.append(0 if state is None else state.count)
        is_answered.set()

    sending = asyncio.create_task(send())
    await asyncio.sleep(0)
    assert pipe.unanswered
    assert two.send_now(1, lambda: REPORT, take)
    while await client.hget(PREFIX + "state", "count") != b"3":
        pass
    await client.ping()  # by now both answers have been written
    pipe._transport.resume_reading()
    await sending
    await is_answered.wait()
    assert counts == [2, 3], "the latest count is the last one"


# Standing grants


def standing(terms: str = "3/conf", seats: int = 1) -> StandingGrant:
    """Return a grant for one, as soon as two gives a seat back."""
    return StandingGrant("one", grant(9), {"two": Holding(terms, seats)})


async def begin(one: RedisLink, two: RedisLink) -> None:
    """Begin an epoch of one; two is connected."""
    await two.send(0, REPORT)
    await one.claim(0, 0)


def giving(seats: int = 1, sequence: int = 3, configuration: str = "conf") -> Report:
    return Report("two", 1, 1, sequence, seats, 0, configuration)


async def test_a_seat_that_is_given_back_is_passed_on_at_once(one: RedisLink, two: RedisLink, client: Client) -> None:
    await begin(one, two)
    assert await store(one, 1, {"one": grant(8), "two": grant(3)}, standing=standing())
    await two.send(1, giving())
    assert 0 < await client.pttl(PREFIX + "to:one") <= 50_000
    assert await grant_of(one, 1) == write(grant(9)), "it replaces an earlier one"
    await two.send(1, giving(0))
    assert await grant_of(one, 0.01) is None, "once"
    assert await one.take_reports(1) == [write(giving()), write(Taken(1)), write(giving(0))]


@pytest.mark.parametrize("report", [giving(2), giving(sequence=2), giving(configuration="new")])
async def test_a_seat_is_passed_on_only_if_it_has_certainly_been_given_back(
    one: RedisLink, two: RedisLink, report: Report
) -> None:
    await begin(one, two)
    await store(one, 1, standing=standing())
    await two.send(1, report)
    await one.send(1, giving())
    assert await grant_of(one, 0.01) is None
    assert await store(one, 1)
    await two.send(1, giving())
    assert await grant_of(one, 0.01) is None, "the next division had no standing grant"


async def test_no_seat_is_passed_on_in_a_later_epoch(one: RedisLink, two: RedisLink) -> None:
    await begin(one, two)
    await store(one, 1, standing=standing())
    await two.claim(4, 0)
    await two.send(5, giving())
    assert await grant_of(one, 0.01) is None
    assert await store(two, 5), "nor must its allocator know of it"


async def test_a_standing_grant_is_of_one_epoch(one: RedisLink, two: RedisLink, client: Client) -> None:
    """An allocator of an older version leaves it where it is."""
    await begin(one, two)
    await store(one, 1, standing=standing())
    await client.hset(PREFIX + "state", "epoch", 2)
    await two.send(2, giving())
    assert await grant_of(one, 0.01) is None


async def test_grants_are_refused_until_the_allocator_knows_of_a_passed_seat(one: RedisLink, two: RedisLink) -> None:
    await begin(one, two)
    await store(one, 1, standing=standing())
    await two.send(1, giving())
    answer = await one.exchange(Division(1, {"two": grant(4)}), 10)
    assert answer == DivisionAnswer([write(giving()), write(Taken(1))], is_refused=True)
    assert await grant_of(two, 0.01) is None
    assert not one.note_taken(Taken(1)), "the refusal has told it"
    assert await store(one, 1, {"two": grant(4)}, standing=standing())
    await two.send(1, giving())
    assert one.note_taken(Taken(3))
    assert not one.note_taken(Taken(3))
    assert await store(one, 1, {"two": grant(5)})
    assert await grant_of(two, 1) == write(grant(5))


async def test_a_refused_allocator_is_not_thought_to_be_alive_for_longer(
    one: RedisLink, two: RedisLink, client: Client
) -> None:
    await begin(one, two)
    await store(one, 1, standing=standing())
    await two.send(1, giving())
    await client.hset(PREFIX + "state", "until", 0)
    grants = {f"m{number}": grant(number) for number in range(2500)}
    assert not await store(one, 1, grants)
    assert not await client.keys(PREFIX + "to:m*")
    assert not (await two.send(1, REPORT)).is_alive


async def test_a_redis_that_has_gone_back_in_time_passes_nothing_on(
    server: Redis, one: RedisLink, two: RedisLink, client: Client
) -> None:
    """A replica that lacks the last writes may have a standing grant that has been replaced."""
    await begin(one, two)
    await store(one, 1, standing=standing())
    former = await client.dump(PREFIX + "state")
    assert former is not None
    await store(one, 1)
    await client.restore(PREFIX + "state", 0, former, replace=True)
    again = RedisLink(RedisAddress(server.url), PREFIX, "two", TIMING)
    for _ in range(2):
        await again.send(1, giving())
    assert await grant_of(one, 0.01) is None
    assert await one.exchange(Division(1, {"two": grant(4)}), 10) == DivisionAnswer(is_outdated=True)
    assert await grant_of(two, 0.01) is None
    claim = await again.claim(1, 0)
    assert claim.epoch == 1, "the former allocator has to resign first"
    await one.resign(1)
    assert (await again.claim(1, 0)).is_mine
    assert (
        await again.exchange(Division(2, {}, StandingGrant("one", grant(9), {"two": Holding("3/conf", 1)})))
        == DivisionAnswer()
    )
    await again.send(2, giving())
    assert await grant_of(one, 1) == write(grant(9)), "this one was stored after it had connected"
    await again.aclose()


async def test_a_member_that_connects_again_passes_nothing_on_of_before(
    one: RedisLink, two: RedisLink, client: Client
) -> None:
    await begin(one, two)
    await store(one, 1, standing=standing())
    await client.client_kill_filter(_type="normal", skipme=True)
    with contextlib.suppress(RedisError):  # it may not know yet that it has lost its connection
        await two.send(1, REPORT)
    for _ in range(2):
        await two.send(1, giving())
    assert await grant_of(one, 0.01) is None
