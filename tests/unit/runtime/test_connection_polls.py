"""Looks at connections, in virtual time: how often, for how long, and what follows from them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from apf_middleware.runtime.connection_polls import MOST_LOOKS, POLL_NS, ConnectionPolls
from tests.support.virtual_loop import VirtualLoop

LOOK = POLL_NS / 10**9
LAST = MOST_LOOKS * LOOK


class Connection:
    def __init__(self) -> None:
        self.looks = 0
        self.gone = False

    @property
    def disconnected(self) -> bool:
        self.looks += 1
        return self.gone


class Wait:
    """Notes what is decided about it, and when."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, float]] = []

    def _note(self, what: str) -> None:
        self.notes.append((what, round(asyncio.get_running_loop().time(), 4)))

    def hang_up(self) -> None:
        self._note("gone")

    def watch_client(self) -> None:
        self._note("watched")


class FailingWait(Wait):
    def watch_client(self) -> None:
        raise LookupError("no receive")


def run(test: Callable[[ConnectionPolls], Coroutine[Any, Any, None]]) -> list[dict[str, Any]]:
    """Run a test in virtual time, and return what the loop has been told of errors."""
    errors: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        runner.run(test(ConnectionPolls(loop)))
    return errors


@pytest.mark.parametrize("after", [0.0, 0.5, 0.97])
def test_a_hang_up_is_noticed_within_the_time_between_two_looks(after: float) -> None:
    async def test(polls: ConnectionPolls) -> None:
        connection, wait = Connection(), Wait()
        polls.begin(connection, wait)
        await asyncio.sleep(after)
        connection.gone = True
        await asyncio.sleep(2)
        [(what, at)] = wait.notes
        assert what == "gone"
        assert after <= at <= after + LOOK + 0.001
        assert repr(polls) == "<ConnectionPolls: 0 connections>"

    assert run(test) == []


def test_the_client_is_watched_when_there_were_enough_looks() -> None:
    async def test(polls: ConnectionPolls) -> None:
        connections, waits = [Connection() for _ in range(3)], [Wait() for _ in range(3)]
        for connection, wait in zip(connections, waits, strict=True):
            polls.begin(connection, wait)
            await asyncio.sleep(0.1)
        await asyncio.sleep(3)
        for number, (connection, wait) in enumerate(zip(connections, waits, strict=True)):
            assert connection.looks == MOST_LOOKS
            [(what, at)] = wait.notes
            assert what == "watched"
            assert LAST - LOOK <= at - number * 0.1 <= LAST + LOOK

    assert run(test) == []


def test_a_wait_that_is_over_is_not_looked_at_and_not_kept() -> None:
    async def test(polls: ConnectionPolls) -> None:
        ended, going_on, wait = Connection(), Connection(), Wait()
        polled = polls.begin(ended, wait)
        polls.begin(going_on, Wait())
        await asyncio.sleep(5.5 * LOOK)
        assert ended.looks == going_on.looks == 5
        polled.end()
        ended.gone = True
        await asyncio.sleep(LOOK)
        assert (ended.looks, going_on.looks) == (5, 6)
        assert wait.notes == []
        assert repr(polls) == "<ConnectionPolls: 1 connections>"

    assert run(test) == []


def test_an_error_of_one_does_not_affect_the_others() -> None:
    async def test(polls: ConnectionPolls) -> None:
        waits = [Wait(), FailingWait(), Wait()]
        for wait in waits:
            polls.begin(Connection(), wait)
        await asyncio.sleep(2)
        assert [[what for what, _ in wait.notes] for wait in waits] == [["watched"], [], ["watched"]]

    [error] = run(test)
    assert isinstance(error["exception"], LookupError)


def test_looks_begin_again_when_there_were_none_for_a_time() -> None:
    async def test(polls: ConnectionPolls) -> None:
        for _ in range(2):
            connection = Connection()
            polled = polls.begin(connection, Wait())
            await asyncio.sleep(3.5 * LOOK)
            assert connection.looks == 3
            polled.end()
            await asyncio.sleep(1)

    assert run(test) == []
