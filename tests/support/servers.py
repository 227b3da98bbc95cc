"""Real servers as processes of their own: a free port, a wait until they answer, what they take of the processor.

A measurement is about the server only if nothing else runs where it does. Hence a process of its own, and a core of its
own where the machine has two; the load comes from the other. Demonstrations and tests start their servers here too.
"""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

__all__ = [
    "ROOT",
    "Kind",
    "Server",
    "ServerStartError",
    "await_answer",
    "busy_seconds",
    "cores",
    "cpu_seconds",
    "free_port",
    "is_runnable",
    "pinned",
    "serve",
]

ROOT: Final = Path(__file__).parents[2]
"""The repository: servers start there, so that ``package.module:app`` is found."""

Kind = Literal["uvicorn", "hypercorn", "granian"]

_PROC: Final = Path("/proc")
_PATIENCE: Final = 60.0  # seconds until a server must answer, on a machine that is busy with something else too
_GRACE: Final = 5.0  # seconds that a server has for an orderly end
_PORTS: Final = range(10_000, 32_000)

_port_numbers = itertools.count(os.getpid() * 331)


class ServerStartError(RuntimeError):
    """A server ended, or did not answer in time; what it wrote is in the message."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers. ``written`` is the file with its output."""

    process: subprocess.Popen[bytes]
    port: int
    written: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def output(self) -> str:
        return self.written.read_text(errors="replace")

    def stop(self) -> None:
        """Ask it to end, and make it end if it doesn't; its workers too."""
        if self.process.poll() is None:
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE)
        with contextlib.suppress(ProcessLookupError):  # the group is the server's own: see start_new_session
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def serve(
    app: str,
    *options: str,
    kind: Kind = "uvicorn",
    environment: Mapping[str, str] | None = None,
    core: int | None = None,
    ready: str = "/",
    python: str = sys.executable,
    folder: Path = ROOT,
) -> Iterator[Server]:
    """Run a server of ``app`` (``package.module:name``) on a free port, ready when it answers GET ``ready``.

    Any answer will do, a refusal too. ``environment`` is added to ours; ``options`` are the server's own. ``python``
    runs it in ``folder``, from which it imports first.
    """
    with tempfile.TemporaryDirectory(prefix="apf-server-") as name:
        written = Path(name) / "output"
        with pinned(core):
            server = _start(_command(kind, app, options, python), written, environment or {}, folder)
        try:
            await_answer(server, ready)
            yield server
        finally:
            server.stop()


def _start(command: "_Command", written: Path, environment: Mapping[str, str], folder: Path) -> Server:
    port = free_port()
    with written.open("wb") as output:
        process = subprocess.Popen(
            command.on(port),
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Server(process, port, written)


@dataclass(frozen=True, slots=True)
class _Command:
    before: Sequence[str]
    port: str  # with {port} where the number goes
    after: Sequence[str]

    def on(self, port: int) -> list[str]:
        return [*self.before, self.port.format(port=port), *self.after]


def _command(kind: Kind, app: str, options: Sequence[str], python: str) -> _Command:
    run = (python, "-m", kind)
    if kind == "uvicorn":
        quiet = ("--log-level", "warning", "--no-access-log")
        return _Command((*run, "--host", "127.0.0.1", "--port"), "{port}", (*quiet, *options, app))
    if kind == "hypercorn":
        return _Command((*run, "--bind"), "127.0.0.1:{port}", (*options, app))
    asgi = ("--interface", "asgi", "--log-level", "warning")
    return _Command((*run, "--host", "127.0.0.1", "--port"), "{port}", (*asgi, *options, app))


def await_answer(server: Server, path: str) -> None:
    """Wait until a server answers GET ``path``; raise ServerStartError if it doesn't."""
    deadline = time.monotonic() + _PATIENCE
    while not _answers(server.port, path):
        if server.process.poll() is not None:
            raise ServerStartError(f"the server ended with status {server.process.returncode}:\n{server.output()}")
        if time.monotonic() > deadline:
            raise ServerStartError(f"the server did not answer GET {path} in {_PATIENCE:g} s:\n{server.output()}")
        time.sleep(0.02)


def _answers(port: int, path: str) -> bool:
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(request.encode())
            return connection.recv(64).startswith(b"HTTP/1.")
    except OSError:
        return False


def free_port() -> int:
    """Return a free port, another one at each call.

    Another process could take it before it is used. So processes whose ids are close, such as those of parallel tests,
    begin at different ports, and none of these is given to connections by the system.
    """
    return next(port for number in _port_numbers if _is_free(port := _PORTS[number % len(_PORTS)]))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def cores() -> tuple[int, int] | None:
    """One core for the server and one for the load, or None where there is one only, or no way to choose."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    ours = sorted(os.sched_getaffinity(0))
    return (ours[0], ours[-1]) if len(ours) > 1 else None


@contextlib.contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Pin the processes that start in here to ``core``, with all their threads; None pins nothing."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_seconds(pid: int) -> float | None:
    """Return the processor time that a process has taken; None where the system doesn't say.

    The scheduler of Linux counts nanoseconds, of threads that have not ended; without its statistics there are ticks.
    """
    scheduled = _scheduled_ns(pid)
    if scheduled:
        return scheduled / 1e9
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else None


def is_runnable(pid: int) -> bool:
    """Return whether a process runs, or would if a core were free; False where the system doesn't say."""
    return _stat(pid)[:1] == ["R"]


def _stat(pid: int) -> list[str]:
    """Return the fields of a process after its name, which may contain spaces and parentheses."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _scheduled_ns(pid: int) -> int:
    """Return 0 where the kernel keeps no such statistics: the file is missing, or has zeros."""
    taken = 0
    for thread in (_PROC / str(pid) / "task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            taken += int(thread.read_text().split()[0])
    return taken


def busy_seconds() -> float | None:
    """Return the processor time of all processes on all cores, which shows load from elsewhere."""
    try:
        line = (_PROC / "stat").read_text().partition("\n")[0]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq = map(int, line.split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
