"""The allocator of a fleet at Redis, in the process of the member that has begun its epoch.

Redis stores grants only for the allocator of the latest epoch, in the same step in which it looks. So an allocator that
was stopped, or cut off, can't grant any more when another one has begun.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fleet.messages import Leave, Report, Taken, read_message
from apf_middleware.runtime.fleet.pace import Pace
from apf_middleware.runtime.fleet.participant import Participant
from apf_middleware.runtime.fleet.redis_link import AT_ONCE, STORE_ERRORS, Claim, Division, RedisLink

if TYPE_CHECKING:
    from apf_middleware.fleet.allocator import Allocator

__all__ = ["RedisAllocator"]

_SECOND = 10**9
_AT_LEAST_S = 0.001  # Redis takes 0 for no limit


class RedisAllocator:
    """Serve the allocator of the epoch that this process has begun by its ``claim``.

    The ``link`` is its own: the allocator of an earlier epoch may still wait for reports on another one.
    """

    def __init__(self, claim: Claim, link: RedisLink, participant: Participant) -> None:
        self.allocator: Allocator = participant.allocate(claim.epoch, claim.expected)
        self._link = link
        self._participant = participant
        self._now = participant.now
        self._interval_s = participant.timing.interval_ns / _SECOND
        self._pace = Pace(participant.now)
        self._asking: set[str] = set()
        self._is_refused = False
        self._known: set[str] = set(claim.expected or ())

    async def serve(self) -> None:
        """Take reports and answer them, until a later epoch has begun or the store fails; `end` must follow."""
        link = self._link
        reports: list[bytes] | None = await link.take_reports(self._interval_s)
        while reports is not None:
            for data in reports:
                self._receive(data)
            is_all = len(reports) < AT_ONCE
            reports = await (self._divide() if is_all else link.take_reports(_AT_LEAST_S))

    def _receive(self, data: bytes) -> None:
        """Take the message of a member."""
        try:
            message = read_message(data)
        except InvalidValueError as error:
            self._participant.refuse(error)
            return
        if isinstance(message, Report) and message.epoch == self.allocator.epoch:
            self.allocator.receive(self._now(), message)
            self._asking.add(message.member)
        elif isinstance(message, Leave):
            self.allocator.leave(self._now(), message.member)
            self._known.discard(message.member)
        elif isinstance(message, Taken) and self._link.note_taken(message):
            self.allocator.take(self._now())

    async def _divide(self) -> list[bytes] | None:
        """Divide the seats, store the grants, and return the next reports; None if a later epoch has begun."""
        allocator, now, link = self.allocator, self._now(), self._link
        asking, self._asking = self._asking, set()
        if self._is_refused:
            allocator.take(now)
        with self._pace:
            grants = allocator.divide(now, asking)
            standing = allocator.stand(now)
        live = allocator.accounts.keys()
        is_sure = not allocator.is_learning(now)
        forgotten = self._known - live if is_sure else set()
        self._known |= live
        division = Division(allocator.epoch, grants, standing, forgotten, is_sure)
        rest_s = self._pace.rest_s
        answer = await link.exchange(division, 0 if rest_s else self._interval_s)
        self._is_refused = answer.is_refused
        if answer.is_outdated:
            return None
        self._participant.note_division(allocator)
        if answer.is_refused:
            allocator.retract(now, grants.keys())
            self._asking |= grants.keys()
        else:
            allocator.standing = standing
            self._known.difference_update(forgotten)
        if not rest_s:
            return answer.reports
        await anyio.sleep(rest_s)
        return await link.take_reports(self._interval_s)

    async def end(self) -> None:
        """Let another member begin the next epoch at once."""
        self._participant.stop_allocating(self.allocator)
        with suppress(*STORE_ERRORS):
            await self._link.resign(self.allocator.epoch)
        with suppress(*STORE_ERRORS):
            await self._link.aclose()

    def __repr__(self) -> str:
        return f"<RedisAllocator {self.allocator!r}>"
