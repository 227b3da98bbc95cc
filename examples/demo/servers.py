"""uvicorn as a process of its own, which always ends with the demonstration."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO

__all__ = ["ROOT", "Server", "ServerStartError", "serve"]

ROOT = Path(__file__).parents[2]
"""The repository: servers start there, so that ``examples.demo.app`` and its files are found."""

_PATIENCE = 20.0  # seconds until a server must answer, on a slow machine too
_GRACE = 0.5  # seconds that it has for an orderly end; an overloaded one has more to finish than anybody waits for
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OPTIONS = ("--host", "127.0.0.1", "--log-level", "warning", "--no-access-log", "--timeout-keep-alive", "60")


class ServerStartError(RuntimeError):
    """A server ended, or didn't answer in time; what it wrote is in the message."""


class Server:
    """One process. Several are started at once and then awaited, because that is when each takes longest."""

    def __init__(self, app: str, environment: Mapping[str, str]) -> None:
        self.port = _free_port()
        self._written: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in stop
        self._process = subprocess.Popen(  # noqa: S603 - our own program, and no shell
            [sys.executable, "-m", "uvicorn", *_OPTIONS, "--port", str(self.port), app],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=self._written,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a terminal's Ctrl-C is for the demonstration, which then stops its servers
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + _PATIENCE
        while not self._answers():
            if self._process.poll() is not None:
                raise ServerStartError(f"uvicorn ended with status {self._process.returncode}:\n{self._output()}")
            if time.monotonic() > deadline:
                raise ServerStartError(f"uvicorn did not answer within {_PATIENCE:g} s:\n{self._output()}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def _output(self) -> str:
        self._written.seek(0)
        return self._written.read().decode(errors="replace")

    def ask_to_end(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()

    def stop(self) -> None:
        """Wait for its end, and bring it about if it doesn't come."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # the session is its own
        self._process.wait()
        self._written.close()


@contextlib.contextmanager
def serve(*apps: str, environment: Mapping[str, str] = MappingProxyType({})) -> Iterator[list[Server]]:
    """Run servers of these apps from when all of them answer until the end, with variables added to the environment."""
    servers: list[Server] = []
    try:
        for app in apps:
            with delayed_signals():  # one that was started but isn't known yet would never be stopped
                servers.append(Server(app, environment))
        for server in servers:
            server.wait()
        yield servers
    finally:
        with delayed_signals():  # an impatient second Ctrl-C must not leave one behind
            for server in servers:
                server.ask_to_end()
            for server in servers:
                server.stop()


@contextlib.contextmanager
def delayed_signals() -> Iterator[None]:
    """Delay signals that would end the demonstration until afterwards."""
    came: list[int] = []
    before = {one: signal.signal(one, lambda number, _: came.append(number)) for one in _ENDINGS}
    try:
        yield
    finally:
        for one, answer in before.items():
            signal.signal(one, answer)
        for number in came[:1]:
            signal.raise_signal(number)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
