"""The fleet of one host: its processes meet in a directory of their user, and one of them is the allocator.

Each process looks for the allocator of the latest epoch. If there is none, or its process has ended, or it hasn't
answered for a fifth of a lease, the process begins the next epoch and allocates from then on. It is a member like the
others, over the same socket.
"""

import logging
import random
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import ByteStream, TaskStatus

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fleet.messages import Grant, read_message, write
from apf_middleware.runtime.fleet.bell import Bell
from apf_middleware.runtime.fleet.frames import FrameReader, framed
from apf_middleware.runtime.fleet.host_allocator import GONE, HostAllocator
from apf_middleware.runtime.fleet.host_directory import HostDirectory
from apf_middleware.runtime.fleet.member import FleetMember
from apf_middleware.runtime.fleet.participant import Participant
from apf_middleware.runtime.log import log_event
from apf_middleware.runtime.unix_streams import LoopStream, connect_stream

__all__ = ["HostFleet"]

_RETRY_S: Final = (0.005, 0.03)  # between two looks for an allocator
_SECOND: Final = 10**9


class HostFleet:
    """Take part, as ``participant``, in the fleet in ``directory``."""

    def __init__(self, directory: Path, participant: Participant) -> None:
        self.participant: Participant = participant
        self._directory = HostDirectory(directory)
        self._timing = participant.timing
        self._now = participant.now
        self._bell = Bell()
        self._stream: ByteStream | None = None
        self._unanswered = self._latest_epoch = 0

    async def serve(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Take part until cancelled; errors are logged, and the process goes on with its fallback seats."""
        self.participant.begin()
        try:
            name, lock = self._directory.register()
        except OSError as error:
            self.participant.fail(error)
            task_status.started()
            return
        member = self.participant.join(name, self._bell.ring, self._send_now)
        task_status.started()
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    await self._take_part(member, tasks)
        finally:
            if self.participant.leave():
                lock.remove()  # otherwise the kernel releases it when the process, and its requests, have ended

    async def _take_part(self, member: FleetMember, tasks: anyio.abc.TaskGroup) -> None:
        """Exchange messages with the allocator until it is gone, or begin a new epoch if there is none."""
        try:
            epoch = self._directory.latest_epoch()
            if epoch != self._latest_epoch:
                self._latest_epoch, self._unanswered = epoch, 0  # another member has replaced the allocator
            if not epoch or self._is_silent or not self._directory.is_held(epoch):
                await self._begin_epoch(epoch + 1, tasks)
            else:
                await self._exchange(member, epoch)
        except GONE as error:
            if not isinstance(error, FileNotFoundError | ConnectionRefusedError):  # it is about to listen, or has ended
                log_event(logging.DEBUG, "apf.fleet-disconnected", error=repr(error))
        except InvalidValueError as error:
            log_event(logging.WARNING, "apf.fleet-message-refused", error=str(error))
        await anyio.sleep(random.uniform(*_RETRY_S))  # noqa: S311 - not for security

    @property
    def _is_silent(self) -> bool:
        """Whether the allocator hasn't answered for so long that it should be replaced."""
        return self._unanswered * self._timing.interval_ns >= self._timing.patience_ns

    async def _begin_epoch(self, epoch: int, tasks: anyio.abc.TaskGroup) -> None:
        self._unanswered = 0
        lock = self._directory.begin_epoch(epoch)
        if lock is None:
            return  # another process has begun it
        expected = self._directory.live_members()  # now no member can join an earlier epoch any more
        allocator = HostAllocator(epoch, expected, self._directory, lock, self.participant)
        await tasks.start(self._allocate, allocator)

    async def _allocate(self, allocator: HostAllocator, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        try:
            await allocator.serve(task_status=task_status)
        except OSError as error:
            self.participant.fail(repr(error))
            with suppress(RuntimeError):  # it may have failed after its start
                task_status.started()

    # The member's messages

    async def _exchange(self, member: FleetMember, epoch: int) -> None:
        stream = await connect_stream(self._directory.socket_path(epoch))
        try:
            member.membership.join(epoch)
            self._stream = stream
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._receive, FrameReader(stream), member, tasks.cancel_scope)
                await self._send(stream, member)
                tasks.cancel_scope.cancel()
        finally:
            self._stream = None
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(stream)

    def _send_now(self) -> bool:
        """Send a report at once, if the connection can take it."""
        stream, member = self._stream, self.participant.member
        if member is None or not isinstance(stream, LoopStream) or not stream.is_idle:
            return False
        stream.send_now(framed(write(member.report())))
        return True

    async def _send(self, stream: ByteStream, member: FleetMember) -> None:
        """Send reports until the allocator has gone or is silent."""
        last = self._now()
        try:
            while not self._is_silent:
                if self._now() - last >= self._timing.interval_ns:
                    last = self._now()
                    self._unanswered += 1
                with anyio.fail_after(self._timing.lease_ns / _SECOND):
                    await stream.send(framed(write(member.report())))
                await self._bell.wait(member.pause_s())
                if gap_s := member.gap_s():
                    await anyio.sleep(gap_s)
        except (TimeoutError, *GONE):
            pass

    async def _receive(self, reader: FrameReader, member: FleetMember, scope: anyio.CancelScope) -> None:
        try:
            while True:
                grant = _read_grant(await reader.read())
                self._unanswered = 0
                member.receive(grant)
        except InvalidValueError as error:
            log_event(logging.WARNING, "apf.fleet-message-refused", error=str(error))
        except GONE:
            pass
        scope.cancel()


def _read_grant(data: bytes) -> Grant:
    grant = read_message(data)
    if not isinstance(grant, Grant):
        raise InvalidValueError("message", data[:80], "it must be a grant")
    return grant
