"""The screen of ``apf queue top`` without a terminal: replies and keys come in, lines and commands go out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from rich.text import Text

from apf_middleware.classification.text import printable
from apf_middleware.cli.control.merging import MergedQueue, QueueReply, disagreements, merge_queues
from apf_middleware.cli.control.rendering import format_number
from apf_middleware.cli.control.workers import Reply
from apf_middleware.cli.output import plural, shorten

__all__ = ["Key", "QueueCommand", "TopScreen"]

_BAR: Final = 10
_NAME_LEAST: Final = 8
_FRAME: Final = 5
"""Lines that aren't rows: the title, the head, an empty one, the message, the keys."""

_STYLES: Final = {"Open": "green", "Paused": "yellow", "Closing": "red", "Closed": "red"}
_ODD: Final = "bold magenta"
_HEAD: Final = ("STATE", f"{'SEATS':{_BAR}}", "USED/MAX", "DESERVED", "SHARE", "WAITING", "REJ/s")
_KEYS: Final = "↑↓ select   p pause   o open   c close   q quit"
_QUESTIONS: Final[Mapping[str, tuple[str, Mapping[str, Mapping[str, str]]]]] = {
    "pause": ("pause {}? y yes, any other key no", {"y": {}}),
    "open": ("open {}? y yes, any other key no", {"y": {}}),
    "close": (
        "close {}? d drain, s shed waiting requests, any other key no",
        {"d": {"mode": "drain"}, "s": {"mode": "shed"}},
    ),
}
_ACTIONS: Final = {"p": "pause", "o": "open", "c": "close"}


class Key(Enum):
    """Keys that aren't characters."""

    UP = auto()
    DOWN = auto()
    ESCAPE = auto()


@dataclass(frozen=True, slots=True)
class QueueCommand:
    """A request to all workers."""

    queue: str
    action: str
    body: Mapping[str, str]


@dataclass(slots=True)
class TopScreen:
    """The queues of the server ``name``; keys act on the ``selected`` one."""

    name: str
    queues: list[MergedQueue] = field(default_factory=list)
    selected: str = ""
    message: str = ""
    is_over: bool = False
    _workers: int = 0
    _silent: list[str] = field(default_factory=list)
    _odd: list[str] = field(default_factory=list)
    _rates: dict[str, float] = field(default_factory=dict)
    _updated_at: float | None = None
    _asked: tuple[str, str] | None = None  # the action and the queue that must be confirmed

    # Input

    def update(self, replies: Sequence[QueueReply], at: float) -> None:
        """Show the replies that came at the time ``at``, in seconds."""
        before = self._rejections()
        self._workers = len(replies)
        self._silent = [f"worker {reply.worker}: {reply.trouble}" for reply in replies if not reply.is_done]
        if any(reply.is_done for reply in replies):
            self.queues = merge_queues(replies)
        self._odd = disagreements(self.queues)
        passed = 0.0 if self._updated_at is None else at - self._updated_at
        if passed > 0:  # counts fall when a worker ends, because its counters are gone
            self._rates = {
                name: max(0, number - before.get(name, number)) / passed for name, number in self._rejections().items()
            }
        self._updated_at = at
        names = [queue.total.name for queue in self.queues]
        if self.selected not in names:
            self.selected = names[0] if names else ""

    def _rejections(self) -> dict[str, int]:
        return {queue.total.name: queue.total.rejections for queue in self.queues}

    def finish(self, command: QueueCommand, replies: Sequence[Reply[Any]]) -> None:
        """Show the outcome of a command."""
        done = sum(reply.is_done for reply in replies)
        outcome = f"{command.action} {command.queue}: done by {done} of {len(replies)} workers"
        others = sorted({reply.trouble for reply in replies if not reply.is_done})
        self.message = "; ".join((outcome, *others))

    def press(self, key: str | Key) -> QueueCommand | None:
        """React to a key; return the command that it causes, if any."""
        if self._asked is not None:
            (action, queue), self._asked = self._asked, None
            body = _QUESTIONS[action][1].get(key) if isinstance(key, str) else None
            self.message = "" if body is not None else f"{action} {queue}: no"
            return None if body is None else QueueCommand(queue, action, body)
        if key == "q":
            self.is_over = True
        elif key in {Key.UP, "k"}:
            self._move(-1)
        elif key in {Key.DOWN, "j"}:
            self._move(1)
        elif isinstance(key, str) and key in _ACTIONS and self.selected:
            self._asked = (_ACTIONS[key], self.selected)
        return None

    def _move(self, by: int) -> None:
        names = [queue.total.name for queue in self.queues]
        if self.selected in names:
            self.selected = names[min(max(names.index(self.selected) + by, 0), len(names) - 1)]

    # Output

    def lines(self, width: int, height: int | None = None, *, keys: bool = True) -> list[Text]:
        """Return at most ``height`` lines, no wider than ``width``; ``keys`` says whether keys can be pressed."""
        title = f"apf top: {printable(self.name)}, {plural(self._workers, 'worker')}"
        lines = [Text(title, "bold"), self._line("NAME", _HEAD, width, "bold reverse" if keys else "bold")]
        for queue in self._visible(height):
            lines.append(self._row(queue, width))
            if keys and queue.total.name == self.selected:
                lines[-1].stylize("reverse")
        if keys:
            lines += [Text(), Text(self._message(), "yellow"), Text(self._prompt(), "bold" if self._asked else "dim")]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return lines

    def _visible(self, height: int | None) -> list[MergedQueue]:
        """Return as many queues as fit, the selected one among them."""
        if height is None or len(self.queues) <= height - _FRAME:
            return self.queues
        room = max(1, height - _FRAME)
        names = [queue.total.name for queue in self.queues]
        at = names.index(self.selected) if self.selected in names else 0
        first = min(max(0, at - room // 2), len(names) - room)
        return self.queues[first : first + room]

    def _message(self) -> str:
        if not self._workers:
            return "no worker has a socket in the directory any more"
        return "; ".join((*([self.message] if self.message else ()), *self._silent, *self._odd))

    def _prompt(self) -> str:
        if self._asked is None:
            return _KEYS
        action, queue = self._asked
        return _QUESTIONS[action][0].format(printable(queue, most=20))

    def _row(self, queue: MergedQueue, width: int) -> Text:
        total = queue.total
        filled = min(_BAR, -(-total.used * _BAR // total.max)) if total.max else 0
        rate = self._rates.get(total.name)
        cells = (
            total.state,
            "█" * filled + "·" * (_BAR - filled),
            f"{total.used}/{total.max}",
            format_number(total.deserved),
            f"{total.share:.2f}",
            str(total.inqueue + total.pending),
            "-" if rate is None else f"{rate:.1f}",
        )
        indent = "" if queue.field("parent") is None else "  "
        line = self._line(indent + printable(total.name), cells, width)
        start = line.plain.index(total.state, self._name_width(width))
        line.stylize(_STYLES.get(total.state, _ODD), start, start + len(total.state))
        return line

    @staticmethod
    def _name_width(width: int) -> int:
        return max(_NAME_LEAST, min(40, width - sum(len(head) + 2 for head in _HEAD) - 2))

    def _line(self, name: str, cells: Sequence[str], width: int, style: str = "") -> Text:
        room = self._name_width(width)
        state, *others = cells
        numbers = [cell.rjust(len(head)) for cell, head in zip(others, _HEAD[1:], strict=True)]
        return Text("  ".join((shorten(name, room).ljust(room), state.ljust(len("Closing")), *numbers)), style)
