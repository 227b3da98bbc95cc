"""The allocator of one host's fleet, in the process of the member that has begun its epoch.

Members connect to a Unix socket and keep the connection. Only the latest grant of each member is kept for sending: a
member that doesn't read holds nothing up. When a connection ends, the member's lock tells whether its process has
ended, in which case its seats are free at once; otherwise they are free when its lease ends.
"""

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel
from anyio import TASK_STATUS_IGNORED
from anyio.abc import ByteStream, SocketAttribute, SocketListener, TaskStatus

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fleet.messages import Report, read_message, write
from apf_middleware.runtime.fleet.bell import Bell
from apf_middleware.runtime.fleet.frames import FrameReader, framed
from apf_middleware.runtime.fleet.host_directory import FileLock, HostDirectory
from apf_middleware.runtime.fleet.pace import Pace
from apf_middleware.runtime.fleet.participant import Participant
from apf_middleware.runtime.forks import close_in_children
from apf_middleware.runtime.unix_streams import LoopStream, accept_stream

if TYPE_CHECKING:
    from apf_middleware.fleet.allocator import Allocator
    from apf_middleware.fleet.messages import Grant

__all__ = ["GONE", "HostAllocator"]

GONE: Final = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
"""The errors of a connection whose peer has gone."""

_SECOND: Final = 10**9
_LOOKS_S: Final = (0.0, 0.005, 0.02, 0.1)  # a process that is killed closes its connections before its lock, or after


class _Connection:
    """The connection of one ``member``, which its reports name, and the ``grant`` to be sent next."""

    __slots__ = ("bell", "grant", "member", "stream")

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.member = ""
        self.bell = Bell()
        self.grant: Grant | None = None

    def post(self, grant: "Grant") -> None:
        """Send ``grant`` at once, or as soon as the connection can take it."""
        if isinstance(self.stream, LoopStream) and self.stream.is_idle:
            self.grant = None
            self.stream.send_now(framed(write(grant)))
        else:
            self.grant = grant
            self.bell.ring()

    async def send(self, timeout_s: float) -> None:
        """Send posted grants, until the peer doesn't read for ``timeout_s``."""
        while True:
            await self.bell.wait(timeout_s)
            grant, self.grant = self.grant, None
            if grant is not None:
                with anyio.fail_after(timeout_s):
                    await self.stream.send(framed(write(grant)))


class HostAllocator:
    """Serve the allocator of this ``epoch``, as long as that is the latest one in ``directory``.

    The ``lock`` marks it as alive. ``expected`` are the members that may have grants, or None if the directory may lack
    some of them.
    """

    def __init__(
        self,
        epoch: int,
        expected: Collection[str] | None,
        directory: HostDirectory,
        lock: FileLock,
        participant: Participant,
    ) -> None:
        self.allocator: Allocator = participant.allocate(epoch, expected)
        self._is_sure = expected is not None
        self._directory = directory
        self._lock = lock
        self._participant = participant
        self._now = participant.now
        self._interval_s = participant.timing.interval_ns / _SECOND
        self._timeout_s = participant.timing.lease_ns / _SECOND
        self._connections: dict[str, _Connection] = {}
        self._asking: set[str] = set()
        self._bell = Bell()
        self._pace = Pace(participant.now)

    async def serve(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Listen, report that to ``task_status``, and serve until a later epoch has begun."""
        path = self._directory.socket_path(self.allocator.epoch)
        try:
            async with await anyio.create_unix_listener(path, mode=0o600) as listener:
                close_in_children(listener.extra(SocketAttribute.raw_socket))  # noqa: S610 - not Django's
                task_status.started()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._accept, listener)
                    await self._keep_dividing()
                    tasks.cancel_scope.cancel()
        finally:
            self._participant.stop_allocating(self.allocator)
            with suppress(OSError):  # it is removed already, or nothing can be removed now
                path.unlink()
            self._lock.release()

    async def _accept(self, listener: SocketListener) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    stream = await accept_stream(listener)
                except OSError as error:  # no file descriptor is free
                    self._participant.refuse_connections(error)
                    await anyio.sleep(self._interval_s)
                    continue
                tasks.start_soon(self._serve_member, stream)

    async def _serve_member(self, stream: ByteStream) -> None:
        connection = _Connection(stream)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, connection, tasks.cancel_scope)
                with suppress(TimeoutError, *GONE):
                    await connection.send(self._timeout_s)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(stream)
        await self._note_gone(connection)

    async def _read(self, connection: _Connection, scope: anyio.CancelScope) -> None:
        reader = FrameReader(connection.stream)
        try:
            while True:
                self._receive(await reader.read(), connection)
        except InvalidValueError as error:
            self._participant.refuse(error, connection.member)
        except GONE:
            pass
        scope.cancel()

    def _receive(self, data: bytes, connection: _Connection) -> None:
        """Take a report; if it gives seats back, divide them at once."""
        report = read_message(data)
        if not isinstance(report, Report):
            raise InvalidValueError("message", data[:80], "it must be a report")
        connection.member = report.member
        allocator = self.allocator
        if report.epoch == allocator.epoch:
            self._connections[report.member] = connection
            is_less = allocator.receive(self._now(), report)
            self._asking.add(report.member)
            if not is_less or self._pace.rest_s or not self._divide():
                self._bell.ring()

    async def _note_gone(self, connection: _Connection) -> None:
        """Free the seats of a member whose connection has ended, if its process has ended, too."""
        name = connection.member
        if self._connections.get(name) is not connection:
            return  # it never reported, or has connected again
        del self._connections[name]
        for pause_s in _LOOKS_S:
            await anyio.sleep(pause_s)
            if name in self._connections:
                return
            if not self._directory.is_alive(name):
                self.allocator.leave(self._now(), name)
                self._bell.ring()
                return

    async def _keep_dividing(self) -> None:
        """Divide the seats after each report, and at each interval, until a later epoch has begun."""
        while True:
            await self._bell.wait(self._interval_s)
            self._lock.renew(self._now())
            await anyio.lowlevel.checkpoint()  # reports that have arrived at the same time are taken together
            self._bell.silence()
            if not self._divide():
                return
            if rest_s := self._pace.rest_s:
                await anyio.sleep(rest_s)

    def _divide(self) -> bool:
        """Divide the seats, and post the grants; return False if a later epoch has begun."""
        allocator, now = self.allocator, self._now()
        if not self._directory.is_latest(allocator.epoch):
            return False
        if self._is_sure and allocator.is_learning(now):
            with suppress(OSError):  # no file descriptor is free
                allocator.expect(self._directory.live_members())
        self._participant.note_division(allocator)
        asking, self._asking = self._asking, set()
        with self._pace:
            grants = allocator.divide(now, asking)
        for name, grant in grants.items():
            connection = self._connections.get(name)
            if connection is not None:
                connection.post(grant)
        return True

    def __repr__(self) -> str:
        return f"<HostAllocator {self.allocator!r}>"
