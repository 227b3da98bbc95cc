"""The fleet of one host: its processes meet in a directory of their user, and one of them is the allocator.

Each process looks for the allocator of the latest epoch. If there is none, or its process has ended, or it hasn't
answered for a fifth of a lease, the process begins the next epoch and allocates from then on. It is a member like the
others, over the same socket.
"""

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import ByteStream, TaskStatus

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fleet.messages import Grant, read_message, write
from apf_middleware.runtime.alarm import Alarm
from apf_middleware.runtime.fleet.bell import Bell
from apf_middleware.runtime.fleet.frames import FrameReader, framed
from apf_middleware.runtime.fleet.host_allocator import GONE, HostAllocator
from apf_middleware.runtime.fleet.host_directory import HostDirectory
from apf_middleware.runtime.fleet.member import FleetMember
from apf_middleware.runtime.fleet.participant import Participant
from apf_middleware.runtime.log import log_event
from apf_middleware.runtime.unix_streams import LoopStream, connect_stream

if TYPE_CHECKING:
    from apf_middleware.runtime.fleet.host_directory import FileLock

__all__ = ["HostFleet"]

_PAUSE_S: Final = (0.005, 0.03)  # between two looks for an allocator
_LONG_PAUSE_S: Final = (0.1, 0.3)  # the same while the directory can't be used
_SECOND: Final = 10**9


class HostFleet:
    """Take part, as ``participant``, in the fleet in ``directory``."""

    def __init__(self, directory: Path, participant: Participant) -> None:
        self.participant: Participant = participant
        self.directory: HostDirectory = HostDirectory(directory)
        self._timing = participant.timing
        self._now = participant.now
        self._bell = Bell()
        self._stream: ByteStream | None = None
        self._lock: FileLock | None = None
        self._unanswered = self._latest_epoch = self._failures = 0
        self._noted_at = self._unsure_until = participant.now()

    async def serve(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Take part until cancelled; while the directory can't be used, the process goes on with its fallback seats."""
        self.participant.begin()
        member = self.participant.join(self.directory.new_name(), self._bell.ring, self._send_now)
        with self._noting_failures():
            self._register(member)
        task_status.started()
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    await self._take_part(member, tasks)
        finally:
            self._leave(member)

    def _leave(self, member: FleetMember) -> None:
        """Take part no longer; the lock remains while requests may have seats by the last grant."""
        lock, self._lock = self._lock, None
        has_given_up = self.participant.leave()
        if lock is not None and has_given_up:
            lock.remove()
        elif lock is not None:
            Alarm(lock.remove, self._now).ask(member.membership.limit.lease_until)

    async def _take_part(self, member: FleetMember, tasks: anyio.abc.TaskGroup) -> None:
        """Exchange messages with the allocator until it is gone, or begin a new epoch if there is none."""
        epoch = 0
        with self._noting_failures():
            self._register(member)
            epoch = await self._find_epoch(member, tasks)
        if epoch:
            await self._meet(member, epoch)
        pause_s = _LONG_PAUSE_S if self._failures else _PAUSE_S
        await anyio.sleep(random.uniform(*pause_s))  # noqa: S311 - not for security

    async def _find_epoch(self, member: FleetMember, tasks: anyio.abc.TaskGroup) -> int:
        """Return the epoch of an allocator that is alive; begin a new one and return 0 if there is none."""
        epoch, known = self.directory.latest_epoch(), member.membership.epoch
        if epoch != self._latest_epoch:  # another member has replaced the allocator
            self._latest_epoch, self._unanswered, self._noted_at = epoch, 0, self._now()
        if epoch and epoch >= known and not self._is_silent and self.directory.is_held(epoch):
            return epoch
        # A directory in which earlier epochs are missing has lost files, perhaps also those of members.
        is_sure = epoch >= known and self._now() >= self._unsure_until
        await self._begin_epoch(max(epoch, known) + 1, tasks, is_sure=is_sure)
        return 0

    async def _meet(self, member: FleetMember, epoch: int) -> None:
        """Exchange messages with the allocator of this ``epoch`` until it is gone or silent."""
        try:
            await self._exchange(member, epoch)
        except GONE as error:
            self._count_silence()  # it is about to listen, or has ended, or cannot be reached
            if not isinstance(error, FileNotFoundError | ConnectionRefusedError):
                log_event(logging.DEBUG, "apf.fleet-disconnected", error=repr(error))
        except InvalidValueError as error:
            self.participant.refuse(error)

    @property
    def _is_silent(self) -> bool:
        """Whether the allocator hasn't answered for so long that it should be replaced."""
        return self._unanswered * self._timing.interval_ns >= self._timing.patience_ns

    def _count_silence(self) -> bool:
        """Count the intervals without an answer, not those in which this process was stopped; return if one has ended.

        Each answer sets the count to zero.
        """
        now = self._now()
        is_over = now - self._noted_at >= self._timing.interval_ns
        if is_over:
            self._noted_at = now
            self._unanswered += 1
        return is_over

    # The files

    def _register(self, member: FleetMember) -> None:
        """Make the file of ``member``, unless it is in its place; something else may have removed it."""
        lock, now = self._lock, self._now()
        if lock is None or not lock.is_in_place:
            self.directory.prepare()
            self._lock = self.directory.register(member.membership.member)
            if lock is not None:
                lock.release()
                self._unsure_until = now + self._timing.lease_ns + self._timing.margin_ns
                log_event(logging.WARNING, "apf.fleet-files-removed", directory=str(self.directory.directory))
        else:
            lock.renew(now)

    @contextmanager
    def _noting_failures(self) -> Iterator[None]:
        """Log the first of several failures to use the directory."""
        try:
            yield
        except (OSError, InvalidValueError) as error:
            if not self._failures:
                self.participant.fail(error)
            self._failures += 1
        else:
            if self._failures:
                self._failures = 0
                self.participant.note_joined()

    async def _begin_epoch(self, epoch: int, tasks: anyio.abc.TaskGroup, *, is_sure: bool) -> None:
        """Begin this epoch, unless another member does; it ``is_sure`` if no member's file has been removed."""
        self._unanswered = 0
        lock = self.directory.begin_epoch(epoch)
        if lock is None:
            return  # another process has begun it
        try:
            # from now on no member can join an earlier epoch
            expected = self.directory.live_members() if is_sure else None
        except OSError:
            lock.release()
            raise
        allocator = HostAllocator(epoch, expected, self.directory, lock, self.participant)
        await tasks.start(allocator.serve)

    # The member's messages

    async def _exchange(self, member: FleetMember, epoch: int) -> None:
        stream = await connect_stream(self.directory.socket_path(epoch))
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
        try:
            while not self._is_silent:
                if self._count_silence():
                    with self._noting_failures():
                        self._register(member)
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
            self.participant.refuse(error)
        except GONE:
            pass
        scope.cancel()


def _read_grant(data: bytes) -> Grant:
    grant = read_message(data)
    if not isinstance(grant, Grant):
        raise InvalidValueError("message", data[:80], "it must be a grant")
    return grant
