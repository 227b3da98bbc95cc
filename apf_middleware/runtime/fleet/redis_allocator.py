"""The allocator of a fleet at Redis, in the process of the member that has begun its epoch.

Redis stores grants only for the allocator of the latest epoch, in the same step in which it looks. So an allocator that
was stopped, or cut off, can't grant any more when another one has begun.
"""

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fleet.messages import Leave, Report, read_message, write
from apf_middleware.runtime.fleet.pace import Pace
from apf_middleware.runtime.fleet.participant import Participant
from apf_middleware.runtime.fleet.redis_link import AT_ONCE, STORE_ERRORS, Claim, RedisLink
from apf_middleware.runtime.log import log_event

if TYPE_CHECKING:
    from apf_middleware.fleet.allocator import Allocator

__all__ = ["RedisAllocator"]

_SECOND = 10**9
_AT_LEAST_S = 0.001  # Redis takes 0 for no limit


class RedisAllocator:
    """Serve the allocator of the epoch that this process has begun by its ``claim``."""

    def __init__(self, claim: Claim, link: RedisLink, participant: Participant) -> None:
        self.allocator: Allocator = participant.allocate(claim.epoch, claim.expected)
        self._link = link
        self._participant = participant
        self._now = participant.now
        self._interval_s = participant.timing.interval_ns / _SECOND
        self._pace = Pace(participant.now)
        self._asking: set[str] = set()
        self._known: set[str] = set(claim.expected or ())

    async def serve(self) -> None:
        """Take reports and answer them, until a later epoch has begun or the store fails."""
        try:
            while True:
                await self._receive_all()
                if not await self._divide():
                    return
                if rest_s := self._pace.rest_s:
                    await anyio.sleep(rest_s)
        finally:
            with anyio.CancelScope(shield=True):
                await self._end()

    async def _receive_all(self) -> None:
        """Take all reports that there are; wait up to an interval for the first one."""
        wait_s, taken = self._interval_s, AT_ONCE
        while taken >= AT_ONCE:
            reports = await self._link.take_reports(wait_s)
            for data in reports:
                self._receive(data)
            wait_s, taken = _AT_LEAST_S, len(reports)

    def _receive(self, data: bytes) -> None:
        """Take the message of a member."""
        try:
            message = read_message(data)
        except InvalidValueError as error:
            log_event(logging.WARNING, "apf.fleet-message-refused", error=str(error))
            return
        if isinstance(message, Report) and message.epoch == self.allocator.epoch:
            self.allocator.receive(self._now(), message)
            self._asking.add(message.member)
        elif isinstance(message, Leave):
            self.allocator.leave(self._now(), message.member)
            self._known.discard(message.member)

    async def _divide(self) -> bool:
        """Divide the seats, and store the grants; return False if a later epoch has begun."""
        allocator, now = self.allocator, self._now()
        self._participant.count_members(allocator)
        asking, self._asking = self._asking, set()
        with self._pace.work():
            grants = allocator.divide(now, asking)
        live = allocator.accounts.keys()
        is_sure = not allocator.is_learning(now)
        forgotten = self._known - live if is_sure else set()
        self._known |= live
        written = {name: write(one) for name, one in grants.items()}
        if not await self._link.grant(allocator.epoch, written, forgotten, is_sure=is_sure):
            return False
        self._known.difference_update(forgotten)
        return True

    async def _end(self) -> None:
        """Let another member begin the next epoch at once."""
        self._participant.stop_allocating(self.allocator)
        with suppress(*STORE_ERRORS):
            await self._link.resign(self.allocator.epoch)

    def __repr__(self) -> str:
        return f"<RedisAllocator {self.allocator!r}>"
