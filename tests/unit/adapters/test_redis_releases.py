"""Pending releases are retried until they succeed or expire, in virtual time."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from apf_middleware.adapters import redis_releases
from apf_middleware.adapters.redis_releases import PendingRelease, PendingReleases
from apf_middleware.propagation.current import CURRENT_DEADLINE
from tests.support.virtual_loop import VirtualLoop


class Server:
    """A fake Redis server; it answers at once or, while ``is_away``, fails after 0.5 s."""

    def __init__(self) -> None:
        self.is_away = False
        self.tried: list[float] = []
        self.has: list[str] = []
        self.settled: list[str] = []
        self.now = self.most = 0

    def item(self, name: str, until: float = 0, *, is_withdrawal: bool = False) -> PendingRelease:
        then = partial(self.settled.append, name)
        return PendingRelease(partial(self._take, name), until, then, is_withdrawal)

    async def _take(self, name: str) -> None:
        self.tried.append(asyncio.get_running_loop().time())
        self.now += 1
        self.most = max(self.most, self.now)
        is_lost = self.is_away  # also if the server comes back before that is noticed
        try:
            await asyncio.sleep(0.5 if is_lost else 0.001)
            if is_lost:
                raise ConnectionError("away")
            self.has.append(name)
        finally:
            self.now -= 1


def run(scenario: Callable[[Server, PendingReleases], Awaitable[None]], at_once: int = 4) -> None:
    async def play() -> None:
        await scenario(Server(), PendingReleases("db", at_once))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(play())


def test_a_return_is_sent_once_and_reported() -> None:
    async def scenario(server: Server, releases: PendingReleases) -> None:
        releases.add(server.item("a", until=60))
        assert len(releases) == 1
        await asyncio.sleep(1)
        assert (server.has, server.settled, len(server.tried), len(releases)) == (["a"], ["a"], 1, 0)

    run(scenario)


def test_a_return_knows_nothing_of_the_request_that_causes_it() -> None:
    seen = []

    async def send() -> None:
        seen.append(CURRENT_DEADLINE.get())

    async def scenario(_: Server, releases: PendingReleases) -> None:
        CURRENT_DEADLINE.set(1)
        releases.add(PendingRelease(send))
        await asyncio.sleep(1)
        assert seen == [None]

    run(scenario)


def test_failed_releases_are_repeated_after_growing_pauses() -> None:
    async def scenario(server: Server, releases: PendingReleases) -> None:
        server.is_away = True
        releases.add(server.item("a", until=60))
        await asyncio.sleep(10)
        assert len(releases) == 1
        server.is_away = False
        tried = len(server.tried)
        await asyncio.sleep(1.2)
        assert server.has == server.settled == ["a"]
        assert tried <= len(server.tried) <= tried + 1  # the last attempt may have been on its way
        pauses = [after - before - 0.5 for before, after in zip(server.tried, server.tried[1:tried], strict=False)]
        assert 0.015 <= pauses[0] <= 0.03
        assert all(0.375 <= pause <= 0.625 for pause in pauses[6:])

    run(scenario)


def test_a_return_ends_when_the_lease_has_expired() -> None:
    async def scenario(server: Server, releases: PendingReleases) -> None:
        server.is_away = True
        releases.add(server.item("a", until=5))
        await asyncio.sleep(6.5)
        assert (server.has, server.settled, len(releases)) == ([], ["a"], 0)
        assert max(server.tried) < 5

    run(scenario)


def test_a_return_without_a_time_limit_is_tried_once() -> None:
    async def scenario(server: Server, releases: PendingReleases) -> None:
        server.is_away = True
        releases.add(server.item("a"))
        await asyncio.sleep(5)
        assert (len(server.tried), len(releases)) == (1, 0)

    run(scenario)


def test_an_error_after_a_return_loses_no_other_release() -> None:
    async def scenario(server: Server, releases: PendingReleases) -> None:
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
        error = ValueError("a gate of the app")

        def fail() -> None:
            raise error

        server.is_away = True
        releases.add(PendingRelease(partial(server._take, "lost"), 0.2, fail))
        for number in range(8):
            releases.add(server.item(str(number), until=60))
        await asyncio.sleep(1)
        server.is_away = False
        await asyncio.sleep(5)
        assert sorted(server.has) == sorted(server.settled) == [str(number) for number in range(8)]
        assert (len(releases), failures) == (0, [error])

    run(scenario)


def test_releases_keep_their_order_with_bounded_concurrency() -> None:
    async def scenario(server: Server, releases: PendingReleases) -> None:
        names = [f"{number:03}" for number in range(500)]
        for name in names:
            releases.add(server.item(name, until=60))
        await asyncio.sleep(2)
        batches = [sorted(server.has[first : first + 4]) for first in range(0, 500, 4)]
        assert [name for batch in batches for name in batch] == names
        assert server.most == 4

    run(scenario)


def test_the_number_of_pending_releases_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_releases, "MOST_PENDING", 20)

    async def scenario(server: Server, releases: PendingReleases) -> None:
        server.is_away = True
        for number in range(100):
            releases.add(server.item(str(number), until=60))
            await asyncio.sleep(0.1)
            assert len(releases) <= 24  # and those that are being sent
        server.is_away = False
        await asyncio.sleep(5)
        assert "99" in server.has
        assert 20 <= len(server.has) <= 24

    run(scenario)


def test_withdrawals_are_dropped_before_releases_and_sent_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_releases, "MOST_PENDING", 20)

    async def scenario(server: Server, releases: PendingReleases) -> None:
        server.is_away = True
        for number in range(10):
            releases.add(server.item(f"release {number}", until=600))
        for number in range(100):
            releases.add(server.item(f"withdrawal {number}", until=600, is_withdrawal=True))
            await asyncio.sleep(0.1)
        for number in range(10, 16):
            releases.add(server.item(f"release {number}", until=600))
        server.is_away = False
        await asyncio.sleep(5)
        assert set(server.has[:16]) == {f"release {number}" for number in range(16)}
        assert set(server.has[16:]) == {f"withdrawal {number}" for number in range(96, 100)}

    run(scenario)


def test_closing_tries_the_rest_without_a_pause() -> None:
    async def scenario(server: Server, releases: PendingReleases) -> None:
        server.is_away = True
        for number in range(10):
            releases.add(server.item(str(number), until=600))
        await asyncio.sleep(60)
        server.is_away = False
        began = asyncio.get_running_loop().time()
        await releases.aclose()
        assert len(server.has) == 10
        assert asyncio.get_running_loop().time() - began < 1

    run(scenario)


def test_closing_has_a_time_limit_and_logs_what_is_left(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(server: Server, releases: PendingReleases) -> None:
        server.is_away = True
        for number in range(10):
            releases.add(server.item(str(number), until=600))
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        with caplog.at_level(logging.WARNING, "apf_middleware"):
            await releases.aclose()
        assert asyncio.get_running_loop().time() - began == pytest.approx(2, abs=0.01)

    run(scenario)
    assert [record.getMessage() for record in caplog.records] == ["apf.not-given-back gate=db count=10"]


def test_closing_has_a_time_limit_if_a_cancellation_is_lost() -> None:
    async def scenario(_: Server, releases: PendingReleases) -> None:
        async def send() -> None:
            """Lose a cancellation, as redis-py may do before Python 3.12."""
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            await asyncio.sleep(60)

        releases.add(PendingRelease(send, 600))
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        await releases.aclose()
        assert asyncio.get_running_loop().time() - began == pytest.approx(2, abs=0.1)

    run(scenario)


def test_closing_without_pending_releases_is_immediate() -> None:
    async def scenario(server: Server, releases: PendingReleases) -> None:
        await releases.aclose()
        releases.add(server.item("a", until=60))
        await asyncio.sleep(1)
        await releases.aclose()
        assert server.has == ["a"]
        assert repr(releases) == "<PendingReleases of 'db': 0 pending>"

    run(scenario)
