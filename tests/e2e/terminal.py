"""Examples as a person starts them: in a terminal or into a pipe, and stopped with Ctrl-C."""

import errno
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "LC_ALL": "C.UTF-8",
    "TERM": "xterm-256color",
    "COLUMNS": "80",
    "LINES": "24",
}
CURSOR_OFF, CURSOR_ON = "\x1b[?25l", "\x1b[?25h"


class Terminal:
    """A process in a pseudo-terminal, and what it has written there."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self._screen = screen
        self._written = b""

    @property
    def text(self) -> str:
        return self._written.decode(errors="ignore")

    def type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def read_until(self, text: str) -> None:
        while text not in self.text:
            assert self._read(), f"it ended before it wrote {text!r}: {self.text}"

    def read_to_end(self) -> int:
        while self._read():
            pass
        return self.process.wait()

    def _read(self) -> bool:
        try:
            chunk = os.read(self._screen, 65536)
        except OSError as error:  # how Linux says that the other side is closed
            if error.errno != errno.EIO:
                raise
            return False
        self._written += chunk
        return bool(chunk)


@contextmanager
def heeded_sigint() -> Iterator[None]:
    """Restore SIGINT: a process started in a shell's background inherits that it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def terminal(module: str, *arguments: str, **environment: str) -> Iterator[Terminal]:
    """``python -m module`` in a terminal."""
    screen, keyboard = pty.openpty()
    try:
        with heeded_sigint():
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env={**ENVIRONMENT, **environment},
                stdin=keyboard,
                stdout=keyboard,
                stderr=keyboard,
            )
    finally:
        os.close(keyboard)
    try:
        yield Terminal(process, screen)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        os.close(screen)


def pipe(module: str, *arguments: str, encoding: str = "utf-8", **environment: str) -> subprocess.CompletedProcess[str]:
    """``python -m module`` into pipes."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**ENVIRONMENT, "PYTHONIOENCODING": encoding, **environment},
        capture_output=True,
        encoding=encoding,
        check=False,
        timeout=60,
    )
