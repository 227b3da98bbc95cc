"""``apf queue top`` in a terminal: a board that is looked at again and again, and a keyboard.

Workers are asked in a thread of their own, so that keys are heard while one of them doesn't answer.
"""

import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, Final

import typer
from rich.console import Console, Group
from rich.live import Live

from apf_middleware.cli.control.board import Board, Key, Order
from apf_middleware.cli.control.outcome import end, require_some
from apf_middleware.cli.control.server import Server
from apf_middleware.cli.control.table import terminal_width
from apf_middleware.cli.control.workers import Reply, page

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["keys_in", "watch"]

_ESCAPES: Final = {"\x1b[A": Key.UP, "\x1bOA": Key.UP, "\x1b[B": Key.DOWN, "\x1bOB": Key.DOWN}
_BLINK_S: Final = 0.1
_PLAIN_WIDTH: Final = 120


def watch(server: Server, interval: float) -> None:
    """Until somebody quits; once, where nobody can look or press keys."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # better a ? than nothing
    board = Board(server.name)
    replies = _look(server)
    require_some(replies)
    board.look(replies, time.monotonic())
    if sys.stdin.isatty() and sys.stdout.isatty():
        _watch_live(server, board, interval)
    else:
        time.sleep(interval)  # rejections per second take two looks
        _show_once(server, board)


def _look(server: Server) -> list[Reply]:
    return server.renewed().ask("GET", page("queues"))


def _obey(server: Server, order: Order) -> list[Reply]:
    return server.renewed().ask("POST", page("queues", order.queue, order.action), order.body)


def _show_once(server: Server, board: Board) -> None:
    replies = _look(server)
    require_some(replies)
    board.look(replies, time.monotonic())
    for line in board.lines(terminal_width() or _PLAIN_WIDTH, keys=False):
        typer.echo(line.plain.rstrip())
    end(replies, board.queues)


def _watch_live(server: Server, board: Board, interval: float) -> None:
    console = Console()
    with (
        suppress(KeyboardInterrupt),  # the other way to quit
        ThreadPoolExecutor(1, thread_name_prefix="apf top") as asking,
        _keyboard(),
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        session = _Session(server, board, asking, interval)
        shown = None
        while not board.is_over:
            size = console.size
            picture = size, board.lines(size.width, size.height)
            if picture != shown:
                live.update(Group(*picture[1]), refresh=True)
                shown = picture
            session.step()


class _Session:
    """What goes on between two pictures."""

    def __init__(self, server: Server, board: Board, asking: ThreadPoolExecutor, interval: float) -> None:
        self._server = server
        self._board = board
        self._asking = asking
        self._interval = interval
        self._due = time.monotonic() + interval
        self._looking: Future[list[Reply]] | None = None
        self._obeying: list[tuple[Order, Future[list[Reply]]]] = []

    def step(self) -> None:
        """Wait a moment for keys, and hear what workers have said meanwhile."""
        for key in _pressed(_BLINK_S):
            order = self._board.press(key)
            if order is not None:
                self._board.message = f"{order.action} {order.queue} …"
                self._obeying.append((order, self._asking.submit(_obey, self._server, order)))
                self._due = 0.0
        while self._obeying and self._obeying[0][1].done():
            order, told = self._obeying.pop(0)
            self._board.obeyed(order, told.result())
        now = time.monotonic()
        if self._looking is None and now >= self._due:
            self._due = now + self._interval
            self._looking = self._asking.submit(_look, self._server)
        elif self._looking is not None and self._looking.done():
            self._board.look(self._looking.result(), now)
            self._looking = None


@contextmanager
def _keyboard() -> Iterator[None]:
    """Keys come one by one and aren't shown."""
    import termios  # noqa: PLC0415 - only Unix has these
    import tty  # noqa: PLC0415

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _pressed(patience: float) -> Sequence[str | Key]:
    ready, _, _ = select.select([sys.stdin], [], [], patience)
    if not ready:
        return ()
    heard = os.read(sys.stdin.fileno(), 64)
    return list(keys_in(heard.decode(errors="ignore"))) if heard else ("q",)  # the terminal has gone


def keys_in(text: str) -> Iterator[str | Key]:
    """The keys that a terminal has sent."""
    while text:
        escape = next((one for one in _ESCAPES if text.startswith(one)), None)
        if escape is not None:
            yield _ESCAPES[escape]
        elif text[0] == "\x1b":
            yield Key.ESCAPE
            return  # what follows belongs to a key that means nothing here
        else:
            yield text[0]
        text = text[len(escape or text[0]) :]
