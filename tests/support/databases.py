"""Real PostgreSQL and Redis servers in processes of their own, each with its data in a temporary folder.

Debian's packages have them: ``apt-get install postgresql redis-server``. PostgreSQL refuses to work for root; started
by root, it runs as ``postgres``, or as ``nobody``. It listens on a Unix socket in its folder, and on no port.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.support.servers import free_port

__all__ = [
    "DatabaseStartError",
    "Postgres",
    "Redis",
    "postgres",
    "postgres_programs",
    "redis",
    "redis_cluster",
    "redis_program",
]

_PATIENCE: Final = 30.0  # seconds until it must answer
_DEBIAN: Final = Path("/usr/lib/postgresql")
_QUICK: Final = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=16MB", "autovacuum=off")
_USER: Final = "apf"


class DatabaseStartError(RuntimeError):
    """A database ended, or did not answer in time; what it wrote is in the message."""


def postgres_programs() -> Path | None:
    """Return the folder of the newest ``initdb`` and ``postgres``, or None."""
    found = sorted(_DEBIAN.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    elsewhere = shutil.which("postgres")
    return None if elsewhere is None else Path(elsewhere).resolve().parent


def redis_program() -> str | None:
    """Return the path of ``redis-server``, or None; the environment variable names another one, or Valkey's."""
    return os.environ.get("APF_REDIS_SERVER") or shutil.which("redis-server")


class _Database:
    """A process that can be paused, so that it neither answers nor closes connections."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.folder = folder

    def pause(self) -> None:
        self._signal_all(signal.SIGSTOP)
        _await(self, lambda: _state(self.process.pid) == "T")

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: int) -> None:
        """Send a signal to the process and its children, itself first."""
        for pid in (self.process.pid, *_children(self.process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        """End it, also if it is paused or has ended."""
        if self.process.poll() is not None:
            return
        self.resume()
        self.process.send_signal(signal.SIGINT)  # what PostgreSQL calls a fast shutdown
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _state(pid: int) -> str:
    """Return the letter of a process's state in ``/proc``: T if it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
    return found


class Postgres(_Database):
    """A cluster with nothing in it but the database ``postgres``, started by ``command`` as ``user``."""

    def __init__(self, command: Sequence[str], folder: Path, user: tuple[int, int] | None) -> None:
        super().__init__(_start(command, folder, user), folder)
        self._command = command
        self._user = user
        self.await_ready()

    def await_ready(self) -> None:
        _await(self, lambda: _connects(self.folder / ".s.PGSQL.5432"))
        pid_file = self.folder / "data" / "postmaster.pid"
        _await(self, lambda: pid_file.read_text().rstrip().endswith("ready"))

    def halt(self) -> None:
        """Shut it down, closing all connections; `restart` starts it again."""
        self.stop()

    def restart(self) -> None:
        self.process = _start(self._command, self.folder, self._user)
        self.await_ready()

    @property
    def url(self) -> str:
        """Return the URL for asyncpg; SQLAlchemy's begin with postgresql+asyncpg or postgresql+psycopg."""
        return f"postgresql://{_USER}@/postgres?host={self.folder}"

    def sqlalchemy_url(self, driver: str) -> str:
        return f"postgresql+{driver}://{_USER}@/postgres?host={self.folder}"


class Redis(_Database):
    """A server on a ``port`` of this machine."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, port: int) -> None:
        super().__init__(process, folder)
        self.port = port

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a PostgreSQL that answers."""
    programs = postgres_programs()
    if programs is None:
        raise DatabaseStartError("PostgreSQL is not installed: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="apf-pg-") as name:  # short, for the path of a socket may not be long
        folder = Path(name)
        user = _unprivileged()
        if user is not None:
            os.chown(folder, *user)
        data = folder / "data"
        options = ("--auth=trust", f"--username={_USER}", "--no-sync", "--encoding=UTF8", "--locale=C")
        _run([str(programs / "initdb"), *options, "--pgdata", str(data)], folder, user)
        settings = [part for one in ("listen_addresses=", *_QUICK) for part in ("-c", one)]
        command = [str(programs / "postgres"), "-D", str(data), "-k", str(folder), *settings]
        database = Postgres(command, folder, user)
        try:
            yield database
        finally:
            database.stop()


@contextlib.contextmanager
def redis(port: int | None = None, *options: str) -> Iterator[Redis]:
    """Run a Redis that answers and keeps nothing on disk."""
    program = redis_program()
    if program is None:
        raise DatabaseStartError("Redis is not installed: apt-get install redis-server")
    port = port or free_port()
    with tempfile.TemporaryDirectory(prefix="apf-redis-") as name:
        folder = Path(name)
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        database = Redis(_start([*command, "--dir", name, *options], folder, None), folder, port)
        try:
            _await(database, lambda: _connects(port))
            yield database
        finally:
            database.stop()


@contextlib.contextmanager
def redis_cluster() -> Iterator[Sequence[Redis]]:
    """Run a cluster of two nodes, each with one half of the slots."""
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port")
    with redis(None, *options, str(free_port())) as one, redis(None, *options, str(free_port())) as two:
        bus = next(line for line in _ask(two, "CLUSTER", "NODES").splitlines() if "myself" in line).split()[1]
        _ask(one, "CLUSTER", "ADDSLOTSRANGE", "0", "8191")
        _ask(two, "CLUSTER", "ADDSLOTSRANGE", "8192", "16383")
        _ask(one, "CLUSTER", "MEET", "127.0.0.1", str(two.port), bus.partition("@")[2].partition(",")[0])
        for node in (one, two):
            _await(node, lambda: "cluster_state:ok" in _ask(node, "CLUSTER", "INFO"))  # noqa: B023
            _await(node, lambda: "cluster_known_nodes:2" in _ask(node, "CLUSTER", "INFO"))  # noqa: B023
        yield one, two


def _ask(database: Redis, *words: str) -> str:
    """Send a command, and return its answer as it comes."""
    with socket.create_connection(("127.0.0.1", database.port), timeout=5) as connection:
        connection.sendall(" ".join(words).encode() + b"\r\n")
        return connection.recv(2**16).decode()


def _unprivileged() -> tuple[int, int] | None:
    """Return the user to run as instead of root."""
    if os.geteuid():
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
    raise DatabaseStartError("PostgreSQL doesn't work for root, and there is no user postgres or nobody")


def _run(command: Sequence[str], folder: Path, user: tuple[int, int] | None) -> None:
    process = _start(command, folder, user)
    if process.wait(_PATIENCE):
        raise DatabaseStartError(f"{command[0]} failed:\n{_written(folder)}")


def _start(command: Sequence[str], folder: Path, user: tuple[int, int] | None) -> subprocess.Popen[bytes]:
    with (folder / "output").open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=None if user is None else user[0],
            group=None if user is None else user[1],
            extra_groups=None if user is None else [],
        )


def _written(folder: Path) -> str:
    return (folder / "output").read_text(errors="replace")


def _await(database: _Database, answers: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not _safely(answers):
        if database.process.poll() is not None or time.monotonic() > deadline:
            raise DatabaseStartError(f"it doesn't answer:\n{_written(database.folder)}")
        time.sleep(0.02)


def _safely(answers: Callable[[], bool]) -> bool:
    try:
        return answers()
    except OSError:
        return False


def _connects(address: Path | int) -> bool:
    family = socket.AF_INET if isinstance(address, int) else socket.AF_UNIX
    with socket.socket(family) as connection:
        connection.settimeout(1)
        connection.connect(("127.0.0.1", address) if isinstance(address, int) else str(address))
        return True
