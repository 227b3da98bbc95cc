"""The files of a server's control sockets: one for each worker, ``<app>.<pid>.sock`` in one directory.

A peer that may connect may do everything, so it must be impossible for other users to replace a socket: only its owner
and root may be able to write to the directory, and to rename it or a directory above it. The command line finds sockets
by the same rules.

A worker listens under another name first, so a file with the final name has a listener from the beginning. A file that
refuses connections therefore belongs to a worker that has died. Its process number isn't used to find that out: it may
belong to another process by now, and means nothing in another container.
"""

import os
import re
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apf_middleware.exceptions import InvalidValueError, reason_of

__all__ = [
    "DEFAULT_APP",
    "DIRECTORY_VARIABLE",
    "LONGEST_PATH",
    "SocketFile",
    "chosen_directory",
    "find_sockets",
    "is_refused",
    "prepare_directory",
    "remove_dead",
    "require_app",
    "require_directory",
    "require_room",
    "require_safe",
    "socket_path",
]

DEFAULT_APP: Final = "app"
"""The default name of a server in the names of its sockets."""

DIRECTORY_VARIABLE: Final = "APF_RUNTIME_DIR"
"""The environment variable that names the directory; it takes precedence over the configuration."""

LONGEST_PATH: Final = 103
"""The longest path of a socket, in bytes: the limit of macOS. That of Linux is 107."""

_APP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_NAME: Final = re.compile(rf"(?P<app>{_APP.pattern})\.(?P<pid>[0-9]{{1,10}})\.sock")
_LONGEST_PID: Final = 2**22  # on Linux; other systems have shorter numbers
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True, order=True)
class SocketFile:
    """One worker's socket."""

    app: str
    pid: int
    path: Path


def chosen_directory(configured: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the directory for sockets, the environment's or the configured one; None if there is neither."""
    chosen = environment.get(DIRECTORY_VARIABLE) or configured
    return Path(chosen) if chosen else None


def require_app(app: str) -> str:
    """Return ``app`` if it can be part of a file's name, or raise InvalidValueError."""
    if not _APP.fullmatch(app):
        raise InvalidValueError("app", app, "it must be up to 40 letters, digits, - and _, and not begin with - or _")
    return app


def require_directory(name: str, directory: str, app: str) -> Path:
    """Return an absolute path with room for the name of a socket, or raise InvalidValueError."""
    path = Path(directory)
    if not path.is_absolute() or "\0" in directory:
        raise InvalidValueError(name, directory, "it must be an absolute path", "Write it like /run/shop")
    require_room(name, path, _first_name(app, _LONGEST_PID))
    return path


def socket_path(directory: Path, app: str, pid: int) -> Path:
    """Return the file of one worker; InvalidValueError if the path is too long for the system."""
    require_room(DIRECTORY_VARIABLE, directory, _first_name(require_app(app), pid))
    return directory / f"{app}.{pid}.sock"


def _first_name(app: str, pid: int) -> str:
    # The name under which a worker listens at first is longer by a dot and an underscore.
    return f".{app}.{pid}.sock_"


def require_room(name: str, directory: Path, file: str) -> None:
    """Raise InvalidValueError if the path of the socket ``file`` in ``directory`` is too long for the system."""
    length = len(os.fsencode(directory / file))
    if length > LONGEST_PATH:
        rule = f"the path of a socket in it must not be longer than {LONGEST_PATH} bytes, and would have {length}"
        raise InvalidValueError(name, str(directory), rule, "Take a shorter directory, like /run/shop")


def require_safe(directory: Path) -> None:
    """Raise InvalidValueError if users other than root, the current user and the owner can change this directory."""
    try:
        if not os.path.lexists(directory):
            raise _unsafe(directory, "there is no such directory", "The server makes it when it starts")
        if directory.is_symlink() or not directory.is_dir():
            raise _unsafe(directory, "it must be a directory, not a link to one")
        real = directory.resolve(strict=True)
        _require_kept(directory, real, {0, os.geteuid(), real.stat().st_uid})
    except OSError as error:
        raise _unsafe(directory, f"it must be a directory: {reason_of(error)}") from error


def prepare_directory(directory: Path) -> None:
    """Create the directory for this user if it is missing; raise InvalidValueError if its place isn't safe."""
    try:
        if not os.path.lexists(directory):
            directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        hint = "Create it, with access for this user only"
        raise _unsafe(directory, f"it is missing and can't be created: {reason_of(error)}", hint) from error
    require_safe(directory)
    if directory.stat().st_uid not in {0, os.geteuid()}:
        raise _unsafe(directory, "it must belong to root or to the server's user", "Its owner could replace sockets")


def _require_kept(directory: Path, real: Path, trusted: set[int]) -> None:
    """Raise an error if users other than the ``trusted`` ones can replace this directory, or write into it."""
    for one in (real, *real.parents):
        found = one.stat()
        # In a sticky directory users can't rename files of others, but they can create files with free names.
        is_sticky = bool(found.st_mode & stat.S_ISVTX)
        if found.st_uid not in trusted:
            raise _unsafe(directory, f"{one} must belong to root or to the owner of the sockets")
        if found.st_mode & _OTHERS_WRITE and (one == real or not is_sticky):
            hint = f"Take a directory in it, like {one / 'apf'}" if is_sticky else f"chmod go-w {one}"
            raise _unsafe(directory, f"other users must not have write access to {one}", hint)


def _unsafe(directory: Path, rule: str, hint: str = "") -> InvalidValueError:
    return InvalidValueError(DIRECTORY_VARIABLE, str(directory), rule, hint)


def find_sockets(directory: Path, app: str | None = None) -> list[SocketFile]:
    """Return the sockets in a directory, of one ``app`` or of all."""
    found = []
    for entry in os.scandir(directory):
        named = _NAME.fullmatch(entry.name)
        if named is None or app not in {None, named["app"]}:
            continue
        if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
            found.append(SocketFile(named["app"], int(named["pid"]), Path(entry.path)))
    return sorted(found)


def is_refused(path: Path) -> bool:
    """Return whether no process listens at ``path``."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0)  # a worker that is too busy to accept isn't dead
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):  # another worker may just have removed it
            return True
        except OSError:
            return False
    return False


def remove_dead(directory: Path) -> None:
    """Remove the sockets of workers that have died."""
    for one in find_sockets(directory):
        if is_refused(one.path):
            one.path.unlink(missing_ok=True)
