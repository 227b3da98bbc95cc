"""``apf queue top`` in a terminal: a screen that is updated again and again, and a keyboard.

Threads ask the workers, so that keys, commands and the end don't wait for a worker that hangs.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from typing import TYPE_CHECKING, Final, NamedTuple

import typer
from rich.console import Console, Group
from rich.live import Live

from apf_middleware.asgi.admin.documents import FleetMemberList, NamedQueueDocument, NamedQueueList
from apf_middleware.cli.control.outcomes import end, note, require_success
from apf_middleware.cli.control.server import Server
from apf_middleware.cli.control.threads import in_background
from apf_middleware.cli.control.top_screen import Key, QueueCommand, TopScreen
from apf_middleware.cli.control.workers import Reply, page
from apf_middleware.cli.output import terminal_width
from apf_middleware.snapshots.fleet import FleetMemberSnapshot

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["keys_in", "watch"]

_ESCAPES: Final = {"\x1b[A": Key.UP, "\x1bOA": Key.UP, "\x1b[B": Key.DOWN, "\x1bOB": Key.DOWN}
_BLINK_S: Final = 0.1
_PLAIN_WIDTH: Final = 120


class _Fetched(NamedTuple):
    """The queues of all workers, and the members of their fleet."""

    replies: list[Reply[NamedQueueList]]
    members: Sequence[FleetMemberSnapshot]


def watch(server: Server, interval: float, *, with_fleet: bool = False) -> None:
    """Show the screen until the user quits, ``with_fleet`` if asked for; show it once where no screen can be shown."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # write ? for a character that can't be encoded
    screen = TopScreen(server.name)
    fetch = partial(_fetch, server, with_fleet=with_fleet)
    fetched = fetch()
    require_success(fetched.replies)
    screen.update(fetched.replies, time.monotonic(), fetched.members)
    is_terminal, console = sys.stdin.isatty() and sys.stdout.isatty(), Console()
    if is_terminal and not console.is_dumb_terminal:
        _watch_live(server, screen, interval, fetch, console)
    else:
        if is_terminal:
            kind = os.environ.get("TERM", "")
            note(f"a terminal of the kind TERM={kind} can't show a screen, so this is one table; set TERM, as to xterm")
        time.sleep(interval)  # rejections per second need two readings
        _show_once(screen, fetch)


def _fetch(server: Server, *, with_fleet: bool) -> _Fetched:
    server = server.renewed()
    members: Sequence[FleetMemberSnapshot] = ()
    if with_fleet:
        answers = (one.document for one in server.ask("GET", page("fleet") + "?format=json", FleetMemberList))
        members = next((one.members for one in answers if one is not None and one.members), ())
    return _Fetched(server.ask("GET", page("queues"), NamedQueueList), members)


def _execute(server: Server, command: QueueCommand) -> list[Reply[NamedQueueDocument]]:
    path = page("queues", command.queue, command.action)
    return server.renewed().ask("POST", path, NamedQueueDocument, command.body)


def _show_once(screen: TopScreen, fetch: Callable[[], _Fetched]) -> None:
    replies, members = fetch()
    require_success(replies)
    screen.update(replies, time.monotonic(), members)
    for line in screen.lines(terminal_width() or _PLAIN_WIDTH, keys=False):
        typer.echo(line.plain.rstrip())
    end(replies, screen.queues)


def _watch_live(
    server: Server, screen: TopScreen, interval: float, fetch: Callable[[], _Fetched], console: Console
) -> None:
    with (
        suppress(KeyboardInterrupt),  # Ctrl-C quits, too
        _sigterm_as_ctrl_c(),
        _keyboard(),
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        session = _Session(server, screen, interval, fetch)
        shown = None
        while not screen.is_over:
            size = console.size
            now_shown = size, screen.lines(size.width, size.height)
            if now_shown != shown:
                live.update(Group(*now_shown[1]), refresh=True)
                shown = now_shown
            session.step()
        session.finish()


class _Session:
    """The work between two updates of the screen."""

    def __init__(self, server: Server, screen: TopScreen, interval: float, fetch: Callable[[], _Fetched]) -> None:
        self._server = server
        self._screen = screen
        self._interval = interval
        self._due = time.monotonic() + interval
        self._fetch = fetch
        self._fetching: Future[_Fetched] | None = None
        self._commands: list[QueueCommand] = []  # the first of them is being executed
        self._executing: Future[list[Reply[NamedQueueDocument]]] | None = None

    def step(self) -> None:
        """Wait a moment for keys, and take the replies that have come."""
        for key in _pressed():
            command = self._screen.press(key)
            if command is not None:
                self._screen.message = f"{command.action} {command.queue} …"
                self._commands.append(command)
        if self._executing is not None and self._executing.done():
            self._screen.finish(self._commands.pop(0), self._executing.result())
            self._executing = None
            self._due = 0.0
        if self._executing is None and self._commands:
            self._executing = in_background(partial(_execute, self._server, self._commands[0]))
        now = time.monotonic()
        if self._fetching is None and now >= self._due:
            self._due = now + self._interval
            self._fetching = in_background(self._fetch)
        elif self._fetching is not None and self._fetching.done():
            replies, members = self._fetching.result()
            self._screen.update(replies, now, members)
            self._fetching = None

    def finish(self) -> None:
        """Wait for the commands that were given; Ctrl-C ends this, too."""
        for command in self._commands:
            executing = self._executing or in_background(partial(_execute, self._server, command))
            executing.result()
            self._executing = None


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM quit, because a process that it kills leaves the terminal with this screen and without an echo."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _keyboard() -> Iterator[None]:
    """Read keys one by one, without an echo."""
    import termios  # noqa: PLC0415 - these modules exist only on Unix
    import tty  # noqa: PLC0415

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _pressed() -> Sequence[str | Key]:
    """Wait a moment for keys, and return those that have been pressed."""
    ready, _, _ = select.select([sys.stdin], [], [], _BLINK_S)
    if not ready:
        return ()
    received = os.read(sys.stdin.fileno(), 64)
    return list(keys_in(received.decode(errors="ignore"))) if received else ("q",)  # quit if the terminal is closed


def keys_in(text: str) -> Iterator[str | Key]:
    """Yield the keys that a terminal has sent."""
    while text:
        escape = next((one for one in _ESCAPES if text.startswith(one)), None)
        if escape is not None:
            yield _ESCAPES[escape]
        elif text[0] == "\x1b":
            yield Key.ESCAPE
            return  # the rest belongs to a key that has no meaning here
        else:
            yield text[0]
        text = text[len(escape or text[0]) :]
