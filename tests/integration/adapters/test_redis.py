"""Rates, quotas and capacities that servers share, in a real Redis; each HandlerApp is a server of its own."""

import asyncio
import time
from collections.abc import AsyncIterator, Hashable, Iterator
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from redis import Redis as SynchronousRedis
from redis.asyncio import Redis

from apf_middleware import Gates
from apf_middleware.adapters import redis_releases
from apf_middleware.adapters.redis import RedisSharing, by_flow, redis_capacity, redis_quota, redis_rate
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates import CustomGate, GateRequest, Park, Reject
from tests.support import databases
from tests.support.databases import Redis as RedisServer
from tests.support.handler_app import HandlerApp
from tests.support.protected_app import problem
from tests.support.until import until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

REQUEST = GateRequest("level", "schema", "alice")
PATIENT = RedisSharing(timeout=10)  # for a machine that is busy with something else too


MADE: list[Gates] = []


def made(**more: Any) -> Gates:  # noqa: ANN401
    """Gates that are closed at the end of the test."""
    MADE.append(Gates(**more))
    return MADE[-1]


@pytest.fixture(autouse=True)
async def closing() -> AsyncIterator[None]:
    yield
    for gates in MADE:
        for gate in gates.scheduler.gates.values():
            await gate.aclose()
    MADE.clear()


@pytest.fixture
async def redis(redis_server: RedisServer) -> AsyncIterator[Redis]:
    client = Redis.from_url(redis_server.url)
    await client.flushdb()
    yield client
    await client.aclose()


def gate_of(gates: Gates, name: str = "db") -> Any:  # noqa: ANN401 - an adapter's own
    gate = gates.scheduler.gates[name]
    assert isinstance(gate, CustomGate)
    return gate.own


def rate(redis: Redis, rate: float = 1, burst: int = 3, **more: Any) -> tuple[Gates, Any]:  # noqa: ANN401
    gates = made(flush=60)
    redis_rate(gates, "db", redis, rate=rate, burst=burst, **{"sharing": PATIENT, **more})
    return gates, gate_of(gates)


def quota(redis: Redis, limit: int = 3, per: float = 30, **more: Any) -> tuple[Gates, Any]:  # noqa: ANN401
    gates = made(flush=60)
    redis_quota(gates, "db", redis, limit=limit, per=per, **{"sharing": PATIENT, **more})
    return gates, gate_of(gates)


def capacity(redis: Redis, limit: int = 3, hold: float = 30, **more: Any) -> tuple[Gates, Any]:  # noqa: ANN401
    gates = made(flush=60)
    redis_capacity(gates, "db", redis, limit=limit, hold=hold, **{"sharing": PATIENT, **more})
    return gates, gate_of(gates)


async def passed(asking: Any, count: int, key: Hashable = "alice", cost: int = 1) -> int:  # noqa: ANN401
    """How many of so many, who ask at once, pass."""
    answers = await asyncio.gather(*(asking.try_acquire(REQUEST, key, cost) for _ in range(count)))
    return sum(not isinstance(answer, Park | Reject) for answer in answers)


# Rates


async def test_a_bucket_is_shared_and_no_token_is_spent_twice(redis: Redis) -> None:
    (_, one), (_, other) = rate(redis, 0.1, 20), rate(redis, 0.1, 20)

    found = await asyncio.gather(passed(one, 25), passed(other, 25))

    assert sum(found) == 20


async def test_each_key_has_its_own_bucket_and_costs_are_charged(redis: Redis) -> None:
    _, one = rate(redis, 0.1, 5)

    assert await passed(one, 5, "alice") == 5
    assert await passed(one, 1, "bob", cost=4) == 1
    assert await passed(one, 2, "bob", cost=1) == 1
    assert await one.try_acquire(REQUEST, "carol", 6) == Reject()


async def test_gates_whose_names_have_colons_share_nothing(redis: Redis) -> None:
    gates = made(flush=60)
    for name in ("a", "a:b", "a%3Ab"):
        redis_rate(gates, name, redis, rate=0.1, burst=1, sharing=PATIENT)

    assert await passed(gate_of(gates, "a"), 2, "b:c") == 1
    assert await passed(gate_of(gates, "a:b"), 2, "c") == 1
    assert await passed(gate_of(gates, "a%3Ab"), 2, "c") == 1
    assert sorted(await redis.keys()) == [b"apf:a%253Ab:c", b"apf:a%3Ab:c", b"apf:a:b%3Ac"]


async def test_gates_share_nothing_if_one_prefix_begins_with_the_other(redis: Redis) -> None:
    gates, others = made(flush=60), made(flush=60)
    redis_rate(gates, "shop", redis, rate=0.1, burst=1, sharing=PATIENT)
    redis_rate(others, "test", redis, rate=0.1, burst=1, sharing=replace(PATIENT, prefix="apf:shop"))

    assert await passed(gate_of(gates, "shop"), 2, "test:alice") == 1
    assert await passed(gate_of(others, "test"), 2, "alice") == 1


async def test_no_gate_has_a_key_of_a_fleet(redis: Redis) -> None:
    gates = made(flush=60)
    redis_rate(gates, "{shop}", redis, rate=0.1, burst=1, sharing=PATIENT)

    assert await passed(gate_of(gates, "{shop}"), 1, "state") == 1
    assert await redis.keys() == [b"apf:%7Bshop%7D:state"]


async def test_flows_of_different_schemas_share_nothing_although_their_names_are_equal(redis: Redis) -> None:
    _, one = rate(redis, 0.001, 1)
    for schema in ("orders", "reports"):
        assert await passed(one, 2, by_flow(replace(REQUEST, schema=schema))) == 1

    assert sorted(await redis.keys()) == [b"apf:db:orders,alice", b"apf:db:reports,alice"]


KEYS: tuple[Hashable, ...] = (
    *("", "a", "a,b", "a,", ",", "(a)", "(a,b,)", "()", "7", "(7)", "None", "a:b", "a%2Cb", "a%3Ab"),
    *(
        (),
        ("",),
        ("", ""),
        ("a",),
        ("a", ""),
        ("a", "b"),
        ("a,b",),
        ("a:b",),
        ("a", "b", "c"),
        ("a,b", "c"),
        ("a", "b,c"),
    ),
    *((("a", "b"), "c"), ("a", ("b", "c")), (("a",), "c"), ((), ""), ((),), ("(a,b,)", "c")),
    *(7, None, (7,), ("a", 7), ("a", "7")),
)


async def test_no_two_keys_have_the_same_place(redis: Redis) -> None:
    _, one = rate(redis)

    places = {one._place(key): key for key in KEYS}

    assert len(places) == len(KEYS)
    assert {place.count(":") for place in places} == {2}


async def test_a_bucket_reports_exactly_when_the_next_token_comes(redis: Redis) -> None:
    _, one = rate(redis, 1, 2)
    began = time.monotonic()
    assert await passed(one, 2) == 2

    answer = await one.try_acquire(REQUEST, "alice", 1)

    assert isinstance(answer, Park)
    assert answer.retry_in is not None
    assert 0.999 - (time.monotonic() - began) < answer.retry_in <= 1
    await asyncio.sleep(answer.retry_in)
    assert await passed(one, 1) == 1


async def test_a_full_bucket_is_removed(redis: Redis) -> None:
    _, one = rate(redis, 0.1, 2)
    await passed(one, 1)

    assert 0 < await redis.pttl("apf:db:alice") <= 10_010


async def test_times_are_kept_to_the_microsecond(redis: Redis) -> None:
    """Lua writes large numbers with fourteen digits; these have sixteen."""
    _, one = rate(redis, 7, 2)
    await passed(one, 1)

    kept = await redis.get("apf:db:alice")
    assert kept is not None
    assert kept.isdigit()


async def test_the_clock_of_the_server_does_not_matter(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    (_, one), (_, other) = rate(redis, 0.001, 3), rate(redis, 0.001, 3)
    assert await passed(one, 3) == 3
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)

    answer = await other.try_acquire(REQUEST, "alice", 1)

    assert isinstance(answer, Park)
    assert answer.retry_in == pytest.approx(1000, abs=60)


async def test_a_redis_clock_set_back_does_not_extend_waits(redis: Redis) -> None:
    """As when another server takes over: what is kept lies an hour ahead."""
    (_, one), (_, other) = rate(redis, 1, 3), quota(redis, 3, 30)
    await redis.set("apf:db:alice", int((time.time() + 3600) * 1e6))

    answer = await one.try_acquire(REQUEST, "alice", 1)
    await redis.delete("apf:db:alice")
    await redis.hset("apf:db:alice", mapping={"used": 3, "ends": int((time.time() + 3600) * 1e6)})

    assert isinstance(answer, Park)
    assert answer.retry_in == pytest.approx(1, abs=0.1)
    assert await passed(other, 1) == 1


async def test_requests_wait_for_their_tokens_and_are_served_in_time(redis: Redis) -> None:
    async with anyio.create_task_group() as tasks:
        gates, _ = rate(redis, 50, 2, key=lambda _: "all")
        protected = HandlerApp(tasks, gates, lambda _: anyio.lowlevel.checkpoint())
        began = time.monotonic()
        for waiter in protected.request_many(8):
            assert (await waiter.end()).status == 200

        assert time.monotonic() - began >= 0.11
        assert protected.is_idle()


async def test_a_request_that_would_wait_too_long_for_a_token_is_rejected_with_retry_after(redis: Redis) -> None:
    async with anyio.create_task_group() as tasks:
        gates, _one = rate(redis, 0.01, 1)
        protected = HandlerApp(tasks, gates, lambda _: anyio.lowlevel.checkpoint(), wait="60s")
        first = await protected.request("/db/1", user="u0").end()
        refused = await protected.request("/db/2", user="u0").end()

        assert first.status == 200
        assert (refused.status, problem(refused)["reason"], problem(refused)["gate"]) == (429, "gate", "db")
        assert 60 <= int(refused.headers["retry-after"]) <= 134


async def test_a_token_is_returned_when_another_gate_refuses(redis: Redis) -> None:
    async with anyio.create_task_group() as tasks:
        gates, one = rate(redis, 0.01, 2, key=lambda _: "all")
        gates.capacity("full", limit=0)
        protected = HandlerApp(tasks, gates, lambda _: anyio.lowlevel.checkpoint(), gate="[db, full]", wait="1s")
        refused = await protected.request("/db/1").end()
        assert refused.status == 503
        await until(lambda: not len(one._releases))

        assert await passed(one, 3, "all") == 2


async def test_a_token_is_spent_when_its_request_is_served(redis: Redis) -> None:
    async with anyio.create_task_group() as tasks:
        gates, one = rate(redis, 0.01, 2, key=lambda _: "all")
        protected = HandlerApp(tasks, gates, lambda _: anyio.lowlevel.checkpoint())
        assert (await protected.request("/db/1").end()).status == 200

        assert await passed(one, 3, "all") == 1


# Quotas


async def end_window(redis: Redis) -> None:
    """As if the window of a quota were over."""
    await redis.hset("apf:db:alice", "ends", int(time.time() * 1e6) - 1)


async def test_a_quota_is_shared_and_begins_anew_when_its_window_is_over(redis: Redis) -> None:
    (_, one), (_, other) = quota(redis, 10, 60), quota(redis, 10, 60)
    assert sum(await asyncio.gather(passed(one, 8), passed(other, 8))) == 10
    answer = await one.try_acquire(REQUEST, "alice", 1)
    assert isinstance(answer, Park)
    assert answer.retry_in is not None
    assert 0 < answer.retry_in <= 60

    await end_window(redis)

    assert await passed(other, 12) == 10
    assert 0 < await redis.pttl("apf:db:alice") <= 60_010
    assert await one.try_acquire(REQUEST, "alice", 11) == Reject()


async def test_returned_quota_counts_in_its_own_window_only(redis: Redis) -> None:
    _, one = quota(redis, 2, 60)
    lease = await one.try_acquire(REQUEST, "alice", 2)
    one.undo(lease)
    await until(lambda: not len(one._releases))
    assert await passed(one, 3) == 2

    await end_window(redis)
    assert await passed(one, 1) == 1
    one.undo(lease)  # of the window before
    await until(lambda: not len(one._releases))
    assert await passed(one, 3) == 1


# Capacities


async def test_a_capacity_is_shared_between_servers(redis: Redis) -> None:
    now, most = 0, 0

    async def use(_path: str) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await until(lambda: most >= 3)
        await asyncio.sleep(0.003)
        now -= 1

    async with anyio.create_task_group() as tasks:
        scenes = [HandlerApp(tasks, capacity(redis)[0], use) for _ in range(2)]
        waiters = [waiter for protected in scenes for waiter in protected.request_many(12, users=2)]
        for waiter in waiters:
            await waiter.end()

        assert {waiter.status for waiter in waiters} == {200}
        assert most == 3
        assert all(protected.is_idle() for protected in scenes)
        releases = [gate_of(protected.gates)._releases for protected in scenes]
        await until(lambda: not any(map(len, releases)))
        assert await redis.zcard("apf:db:") == 0


async def test_many_places_of_one_request_are_returned(redis: Redis) -> None:
    _, gate = capacity(redis, limit=10_000)
    for _ in range(2):
        lease = await gate.try_acquire(REQUEST, "", 9_000)
        assert not isinstance(lease, Park)
        gate.release(lease)
        await until(lambda: not len(gate._releases))


async def test_the_next_request_is_admitted_when_redis_knows_of_the_release(redis: Redis) -> None:
    """A gate that is asked too early would wait for its poll, a second each time here."""
    async with anyio.create_task_group() as tasks:
        gates, _ = capacity(redis, 1, poll=30)
        door = anyio.Event()
        protected = HandlerApp(tasks, gates, lambda _: door.wait())
        waiters = protected.request_many(6)
        await until(lambda: len(protected.started) == 1 and protected.parked == 5)
        await asyncio.sleep(0.02)
        door.set()
        with anyio.fail_after(20):
            for waiter in waiters:
                await waiter.end()


async def test_an_outdated_refusal_is_asked_again(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place comes back after Redis has refused and before we hear of it."""
    gates, one = capacity(redis, 1, poll=30)
    refused, arrives, door = anyio.Event(), anyio.Event(), anyio.Event()
    ask = one.try_acquire

    async def slowly(request: GateRequest, key: object, cost: int) -> object:
        answer = await ask(request, key, cost)
        if isinstance(answer, Park):
            refused.set()
            await arrives.wait()
        return answer

    monkeypatch.setattr(one, "try_acquire", slowly)
    async with anyio.create_task_group() as tasks:
        protected = HandlerApp(
            tasks, gates, lambda path: door.wait() if path == "/db/1" else anyio.lowlevel.checkpoint()
        )
        first, second = protected.request("/db/1"), protected.request("/db/2")
        await refused.wait()
        door.set()
        await first.end()
        await until(lambda: not len(one._releases))
        arrives.set()
        await second.end()

        assert second.status == 200
        assert gates.scheduler.gates["db"].counters.rescues == 0


async def test_permits_of_a_dead_server_expire(redis: Redis) -> None:
    (_, dead), (_, other) = capacity(redis, 3, 60), capacity(redis, 3, 60)
    assert await passed(dead, 1, cost=2) == 1
    assert await passed(other, 3) == 1
    assert await other.try_acquire(REQUEST, "alice", 4) == Reject()

    places: Any = await redis.zrange("apf:db:alice", 0, -1, withscores=True)
    for place, ends in places:
        assert 0 < ends / 1e6 - time.time() <= 60
        await redis.zadd("apf:db:alice", {place: (time.time() - 1) * 1e6})  # as if that time were over

    assert await passed(other, 4) == 3


# Redis is down


@pytest.fixture(scope="module", autouse=True)
def end_soon() -> Iterator[None]:
    """Let an event loop that ends try only for a tenth of a second to return leases to a Redis that is gone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis_releases.PendingReleases.aclose, "__defaults__", (0.1,))
        yield


@pytest.mark.parametrize(("on_error", "status"), [("admit", 200), ("reject", 503), ("backoff", 503)])
@pytest.mark.parametrize("fault", ["gone", "hanging"])
async def test_when_redis_is_down_the_policy_decides(on_error: Any, status: int, fault: str) -> None:  # noqa: ANN401
    with databases.redis() as server:
        client = Redis.from_url(server.url, retry=None)
        async with anyio.create_task_group() as tasks:
            gates = made()
            redis_capacity(gates, "db", client, limit=1, hold=5, sharing=RedisSharing(timeout=0.25), on_error=on_error)
            wait = "2s" if on_error == "backoff" else "20s"  # only with a backoff does the request wait so long
            protected = HandlerApp(tasks, gates, lambda _: anyio.lowlevel.checkpoint(), wait=wait)
            while (await protected.request("/db/1").end()).status != 200:
                pass  # a busy machine may have made the first question last too long
            if fault == "gone":
                server.stop()
            else:
                server.pause()
            answer = await protected.request("/db/2").end()

            assert answer.status == status
            assert gates.scheduler.gates["db"].counters.evaluations["error"] >= 1
            if fault == "hanging":
                server.resume()
        await client.aclose()


async def test_requests_continue_when_redis_is_back() -> None:
    with databases.redis() as server:
        client = Redis.from_url(server.url, retry=None)
        async with anyio.create_task_group() as tasks:
            gates = made()
            redis_rate(
                gates,
                "db",
                client,
                rate=100,
                burst=10,
                sharing=RedisSharing(timeout=0.25),
                on_error="backoff",
                status=503,
            )
            protected = HandlerApp(tasks, gates, lambda _: anyio.lowlevel.checkpoint())
            server.pause()
            waiter = protected.request("/db/1")
            await until(lambda: gates.scheduler.gates["db"].counters.evaluations["error"] >= 2)
            assert protected.started == []
            server.resume()
            await waiter.end()

            assert waiter.status == 200
        await client.aclose()


# Mistakes


@pytest.mark.parametrize(
    ("add", "options", "rule"),
    [
        (redis_rate, {"rate": 0, "burst": 1}, "more than 0 a second"),
        (redis_rate, {"rate": 1, "burst": 0}, "at least 1"),
        (redis_quota, {"limit": 0, "per": 1}, "at least 1"),
        (redis_quota, {"limit": 1, "per": 0}, "more than 0 seconds"),
        (redis_capacity, {"limit": 0, "hold": 1}, "at least 1"),
        (redis_capacity, {"limit": 1, "hold": 0}, "more than 0 seconds"),
    ],
)
async def test_invalid_arguments_are_refused(add: Any, options: dict[str, Any], rule: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidValueError, match=rule):
        add(Gates(), "db", Redis(), **options)


async def test_a_client_whose_answers_cannot_be_awaited_is_refused() -> None:
    """All its commands would fail, and so admit their requests."""
    with pytest.raises(InvalidValueError, match="it must be an asynchronous client"):
        redis_rate(Gates(), "db", SynchronousRedis(), rate=1, burst=1)  # type: ignore[arg-type]


async def test_sharing_needs_a_positive_time() -> None:
    with pytest.raises(InvalidValueError, match="more than 0 seconds"):
        RedisSharing(timeout=0)
