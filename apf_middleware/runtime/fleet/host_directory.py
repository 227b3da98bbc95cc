"""The files by which the processes of one host find each other, and know which of them are alive.

Each member holds a lock on a file of its own, and the allocator holds one on the file of its *epoch*. The kernel
releases a lock when its process ends, however it ends, so a lock that can be taken belongs to a process that is gone.
Process numbers aren't used: they are reused, and mean nothing in another container.

A file appears under its final name only when it is locked. The allocator of a new epoch is the process whose file gets
the next number; that number also fences its predecessor, which stops granting as soon as a later epoch exists. The file
of the latest epoch stays when its allocator ends, so that no number is used twice.

Something else may remove the files, for example a cleaner of ``/tmp``, which removes what hasn't been changed for some
days. So a process renews the times of its files, and makes its member's file again when it is missing.

The socket of an epoch has the number in its name, so no two allocators ever listen at the same path.
"""

import errno
import fcntl
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from apf_middleware.config.sockets import prepare_directory, require_room
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime.forks import close_in_children

__all__ = ["FileLock", "HostDirectory"]

_EPOCH: Final = re.compile(r"epoch-([0-9]{1,15})")
_MEMBER: Final = re.compile(r"member-([0-9]+-[0-9a-f]+)")

_LARGE_EPOCH: Final = 99_999
_RENEWAL_NS: Final = 3600 * 10**9


class FileLock:
    """A locked file at ``path``; the lock ends with `release` or `remove`, or with the process."""

    __slots__ = ("__weakref__", "_descriptor", "_renewed_at", "path")

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._renewed_at: int | None = None
        self.path: Path = path
        close_in_children(self)  # one would keep the lock when this process ends

    @property
    def is_in_place(self) -> bool:
        """Whether the file is still there."""
        return self.path.exists()

    def renew(self, now: int) -> None:
        """Set the times of the file to the present one, once an hour, so that it doesn't look unused."""
        if self._renewed_at is None:
            self._renewed_at = now
        elif self._descriptor >= 0 and now - self._renewed_at >= _RENEWAL_NS:
            self._renewed_at = now
            with suppress(OSError):
                os.utime(self._descriptor)

    def detach(self) -> int:
        """Return the descriptor of the file, and forget it."""
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def release(self) -> None:
        """Close the file, which stays."""
        if (descriptor := self.detach()) >= 0:
            os.close(descriptor)

    def remove(self) -> None:
        """Remove the file and release the lock."""
        if self._descriptor >= 0:
            self.path.unlink(missing_ok=True)
            self.release()

    def __repr__(self) -> str:
        return f"<FileLock of {self.path}>"


class HostDirectory:
    """The files of one fleet in ``directory``, which only its user may write to."""

    __slots__ = ("directory",)

    def __init__(self, directory: Path) -> None:
        self.directory: Path = directory

    def prepare(self) -> None:
        """Make the directory if it is missing; raise InvalidValueError if its place isn't safe, or it can't be used."""
        require_room("directory", self.directory, self.socket_path(_LARGE_EPOCH).name)
        prepare_directory(self.directory.parent)
        prepare_directory(self.directory)
        if not os.access(self.directory, os.W_OK | os.X_OK):
            rule = "the server's user must have write access to it"
            raise InvalidValueError("directory", str(self.directory), rule, "A fleet on a host is for one user")

    # Members

    @staticmethod
    def new_name() -> str:
        """Return the name of a new member of this process."""
        return f"{os.getpid()}-{secrets.token_hex(4)}"

    def register(self, name: str) -> FileLock:
        """Return the lock of the member of this ``name``, which has no file."""
        lock = self._make(f"member-{name}")
        if lock is None:
            raise FileExistsError(errno.EEXIST, "The member has a file", f"member-{name}")
        return lock

    def live_members(self) -> set[str]:
        """Return the members that are alive, and remove the files of the others."""
        found = set()
        with os.scandir(self.directory) as entries:
            for entry in entries:
                named = _MEMBER.fullmatch(entry.name)
                if named is None or not entry.is_file(follow_symlinks=False):
                    continue
                if not self._remove_if_free(Path(entry.path)):
                    found.add(named[1])
        return found

    def is_alive(self, member: str) -> bool:
        """Return whether the process of this member is alive."""
        path = self.directory / f"member-{member}"
        return path.exists() and not self._remove_if_free(path)

    # Epochs

    def latest_epoch(self) -> int:
        """Return the number of the latest epoch; 0 if there was none."""
        found = (_EPOCH.fullmatch(path.name) for path in self.directory.iterdir())
        return max((int(named[1]) for named in found if named is not None), default=0)

    def is_latest(self, epoch: int) -> bool:
        """Return whether no later epoch has begun, and the file of this one is still there."""
        # before each division: without a new `Path` for each name
        path = f"{self.directory}/epoch-"
        return os.access(f"{path}{epoch}", os.F_OK) and not os.access(f"{path}{epoch + 1}", os.F_OK)

    def is_held(self, epoch: int) -> bool:
        """Return whether the allocator of this epoch is alive."""
        return not _is_free(self.directory / f"epoch-{epoch}")

    def begin_epoch(self, epoch: int) -> FileLock | None:
        """Begin this epoch and remove the files of earlier ones; return None if another process has begun it."""
        lock = self._make(f"epoch-{epoch}")
        if lock is None:
            return None
        try:
            paths = list(self.directory.iterdir())
        except OSError:
            lock.release()  # otherwise this process would hold an epoch in which it does not allocate
            raise
        for path in paths:
            named = _EPOCH.fullmatch(path.name.removesuffix(".sock"))
            if named is not None and int(named[1]) < epoch:
                with suppress(OSError):  # what can't be removed isn't the file of an epoch, but a directory
                    path.unlink()
        return lock

    def socket_path(self, epoch: int) -> Path:
        """Return the path at which the allocator of this epoch listens."""
        return self.directory / f"epoch-{epoch}.sock"

    # Files

    def _make(self, name: str) -> FileLock | None:
        """Make a locked file; return None if there is a file of this ``name``."""
        path = self.directory / name
        unready = self.directory / f".{secrets.token_hex(8)}"
        descriptor = os.open(unready, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.link(unready, path)  # unlike a rename, this doesn't replace a file
        except FileExistsError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        finally:
            unready.unlink(missing_ok=True)
        return FileLock(descriptor, path)

    @staticmethod
    def _remove_if_free(path: Path) -> bool:
        if not _is_free(path):
            return False
        path.unlink(missing_ok=True)
        return True

    def __repr__(self) -> str:
        return f"<HostDirectory {self.directory}>"


def _is_free(path: Path) -> bool:
    """Return whether no process holds a lock on the file; False if another user's file doesn't show that."""
    with suppress(FileNotFoundError):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
    return True
