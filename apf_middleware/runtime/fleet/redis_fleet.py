"""The fleet of several hosts: its processes exchange messages through Redis, and one of them is the allocator.

Each member sends reports, and waits for grants. A report is answered with what Redis knows of the allocator. If that
isn't alive, the member tries to begin the next epoch, and one of them succeeds.

Redis may be gone, slow, or restarted without data. No request gets an error for that: each member goes on with its
grant until the lease ends, and then with its fallback seats.
"""

import secrets
import socket
from contextlib import suppress
from os import getpid
from typing import Final

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fleet.membership import Membership
from apf_middleware.fleet.messages import Grant, Leave, read_message, write
from apf_middleware.runtime.event_loop import is_asyncio
from apf_middleware.runtime.fleet.bell import Bell
from apf_middleware.runtime.fleet.member import FleetMember
from apf_middleware.runtime.fleet.participant import Participant
from apf_middleware.runtime.fleet.redis_address import RedisAddress
from apf_middleware.runtime.fleet.redis_allocator import RedisAllocator
from apf_middleware.runtime.fleet.redis_link import STORE_ERRORS, AllocatorState, RedisLink
from apf_middleware.runtime.fleet.store_failures import StoreFailures

__all__ = ["RedisFleet"]

_SECOND: Final = 10**9
# what errors say if Redis doesn't allow a command to this user; in a script before 7.2, the second one
_FORBIDDEN: Final = "NOPERM", "The user executing the script can't"


class RedisFleet:
    """Take part, as ``participant``, in the fleet whose keys begin with ``prefix`` at ``address``."""

    def __init__(self, address: RedisAddress, prefix: str, participant: Participant) -> None:
        RedisLink.check(address)
        self.participant: Participant = participant
        self._address = address
        self._prefix = prefix
        self._bell = Bell()
        self._failures = StoreFailures(participant, str(address))
        self._claims_at = participant.now()
        self._count = 0  # the latest number of reports that Redis has told
        self._link: RedisLink | None = None

    async def serve(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Take part until cancelled; while Redis fails, the process goes on with its fallback seats."""
        participant = self.participant
        participant.begin()
        if not is_asyncio():
            participant.fail("a store in Redis needs asyncio")
            task_status.started()
            return
        name = f"{socket.gethostname()}-{getpid()}-{secrets.token_hex(4)}"
        link = self._link = self._new_link(name)
        member = participant.join(name, self._bell.ring, self._send_now)
        task_status.started()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._receive, link, member)
                await self._send(link, member, tasks)
        finally:
            with anyio.CancelScope(shield=True):
                await self._leave(link, member)

    def _new_link(self, member: str) -> RedisLink:
        return RedisLink(self._address, self._prefix, member, self.participant.timing)

    async def _send(self, link: RedisLink, member: FleetMember, tasks: TaskGroup) -> None:
        while True:
            try:
                await self._exchange(link, member, tasks)
            except STORE_ERRORS as error:
                self._failures.note(error)
                await anyio.sleep(self._failures.pause_s)
                continue
            self._failures.note_answer()
            await self._await_turn(link, member)
            if gap_s := member.gap_s():
                await anyio.sleep(gap_s)

    async def _await_turn(self, link: RedisLink, member: FleetMember) -> None:
        """Wait for a ring, or until the next regular report is due.

        A report that has been sent at once meanwhile counts as a regular one, if it has been answered.
        """
        while pause_s := member.pause_s():
            if await self._bell.wait(pause_s) or link.unanswered:
                return

    async def _exchange(self, link: RedisLink, member: FleetMember, tasks: TaskGroup) -> None:
        """Send a report; begin an epoch if there is no allocator."""
        membership = member.membership
        known = membership.epoch
        found = await link.send(known, member.report())
        if self._is_served(membership, found):
            membership.join(found.epoch)
            self._count = found.count
        elif self.participant.now() >= self._claims_at:
            await self._claim(link, membership, tasks)
        if membership.epoch != known:
            self._bell.ring()  # the new allocator needs a report

    async def _claim(self, link: RedisLink, membership: Membership, tasks: TaskGroup) -> None:
        """Begin the next epoch, unless another member does.

        The allocator's connection is opened before that: the others don't wait long for its first grants.
        """
        own, is_mine = self._new_link(membership.member), False
        timing, answered_at = self.participant.timing, membership.answered_at
        leased_ns = timing.lease_ns + timing.interval_ns  # others may have had an answer an interval later
        is_leased = answered_at is not None and self.participant.now() - answered_at < leased_ns
        try:
            await own.open_for_reports()
            claim = await link.claim(membership.epoch, self._count, is_leased=is_leased)
            membership.join(claim.epoch)
            is_mine = claim.is_mine
        finally:
            if not is_mine:
                with anyio.CancelScope(shield=True), suppress(*STORE_ERRORS):
                    await own.aclose()
        if is_mine:
            tasks.start_soon(self._allocate, RedisAllocator(claim, own, self.participant))

    def _is_served(self, membership: Membership, found: AllocatorState) -> bool:
        """Return whether there is an allocator: not one of an earlier epoch, and not one that this process has lost."""
        own = self.participant.allocator
        is_lost = found.owner == membership.member and (own is None or own.epoch != found.epoch)
        return found.is_alive and found.epoch >= membership.epoch and not is_lost

    def _send_now(self) -> bool:
        """Send a report at once, if the connection can take it."""
        member, link = self.participant.member, self._link
        if member is None or link is None:
            return False
        return link.send_now(member.membership.epoch, member.report, self._take_state)

    def _take_state(self, found: AllocatorState | None) -> None:
        """Note the answer to a report; if there is no allocator for it, the next exchange looks for another."""
        member = self.participant.member
        if member is None:
            return
        membership = member.membership
        if found is not None and found.epoch == membership.epoch and self._is_served(membership, found):
            self._count = found.count
        else:
            self._bell.ring()

    async def _allocate(self, allocator: RedisAllocator) -> None:
        try:
            await allocator.serve()
        except STORE_ERRORS as error:
            self._failures.note(error)
            pause_ns = int(self._failures.pause_s * _SECOND)
            if any(text in str(error) for text in _FORBIDDEN):
                # each try is an epoch, and permissions seldom change; after a lease, the outage would seem to be over
                pause_ns = self.participant.timing.lease_ns // 2
            self._claims_at = self.participant.now() + pause_ns
        finally:
            with anyio.CancelScope(shield=True):
                await allocator.end()

    async def _receive(self, link: RedisLink, member: FleetMember) -> None:
        def take(data: bytes) -> None:
            try:
                grant = read_message(data)
                if isinstance(grant, Grant):
                    member.receive(grant)
            except InvalidValueError as error:
                self.participant.refuse(error)

        while True:
            try:
                await link.take_grants(take)
            except STORE_ERRORS as error:
                self._failures.note(error)
                await anyio.sleep(self._failures.pause_s)

    async def _leave(self, link: RedisLink, member: FleetMember) -> None:
        if self.participant.leave():
            with suppress(*STORE_ERRORS):
                await link.leave(write(Leave(member.membership.member)))
        with suppress(*STORE_ERRORS):
            await link.aclose()

    def __repr__(self) -> str:
        return f"<RedisFleet at {self._address}: {self.participant!r}>"
