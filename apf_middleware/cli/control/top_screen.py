"""The screen of ``apf queue top`` without a terminal: replies and keys come in, lines and commands go out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from rich.text import Text

from apf_middleware.asgi.admin.documents import AdaptiveSeatsDocument, NamedQueueList
from apf_middleware.classification.text import printable
from apf_middleware.cli.control.merging import MergedQueue, QueueReply, disagreements, merge_queues
from apf_middleware.cli.control.rendering import format_number
from apf_middleware.cli.control.workers import Reply
from apf_middleware.cli.output import shorten
from apf_middleware.simulation.braille import curve
from apf_middleware.snapshots.fleet import FleetMemberSnapshot
from apf_middleware.wording import plural

__all__ = ["Key", "QueueCommand", "TopScreen"]

_BAR: Final = 10
_NAME_LEAST: Final = 8
_FRAME: Final = 5
"""Lines that aren't rows: the title, the head, an empty one, the message, the keys."""

_STYLES: Final = {"Open": "green", "Paused": "yellow", "Closing": "red", "Closed": "red"}
_ODD: Final = "bold magenta"
_HEAD: Final = ("STATE", f"{'SEATS':{_BAR}}", "USED/MAX", "DESERVED", "SHARE", "WAITING", "REJ/s")
_MEMBER_HEAD: Final = ("GRANTED", "IN USE", "DEMAND", "REPORT", "ROLE     ")
_CURVE: Final = 40
"""The number of readings of the seats that are shown."""

_MOST_MEMBERS: Final = 10
_LEAST_QUEUES: Final = 3
_FLEET_FRAME: Final = 3
"""Lines about the fleet that aren't members: an empty one, the head, the number of the others."""

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
    """The queues of the server ``name``, and the ``members`` of its fleet; keys act on the ``selected`` queue."""

    name: str
    queues: list[MergedQueue] = field(default_factory=list)
    members: Sequence[FleetMemberSnapshot] = ()
    selected: str = ""
    message: str = ""
    is_over: bool = False
    _workers: int = 0
    _silent: list[str] = field(default_factory=list)
    _odd: list[str] = field(default_factory=list)
    _rates: dict[str, float] = field(default_factory=dict)
    _updated_at: float | None = None
    _adaptive: Sequence[AdaptiveSeatsDocument] = ()
    _seats: list[int] = field(default_factory=list)
    _asked: tuple[str, str] | None = None  # the action and the queue that must be confirmed

    # Input

    def update(self, replies: Sequence[QueueReply], at: float, members: Sequence[FleetMemberSnapshot] = ()) -> None:
        """Show the replies that came at the time ``at``, in seconds, and the members of the fleet."""
        self.members = members
        before = self._rejections()
        self._workers = len(replies)
        self._silent = [f"worker {reply.worker}: {reply.trouble}" for reply in replies if not reply.is_done]
        if any(reply.is_done for reply in replies):
            self.queues = merge_queues(replies)
        self._odd = disagreements(self.queues)
        self._note_seats(replies)
        passed = 0.0 if self._updated_at is None else at - self._updated_at
        if passed > 0:  # counts fall when a worker ends, because its counters are gone
            self._rates = {
                name: max(0, number - before.get(name, number)) / passed for name, number in self._rejections().items()
            }
        self._updated_at = at
        names = [queue.total.name for queue in self.queues]
        if self.selected not in names:
            self.selected = names[0] if names else ""

    def _note_seats(self, replies: Sequence[QueueReply]) -> None:
        """Add the adaptive seats of all workers to the curve; a fleet's count once."""
        lists = [reply.document for reply in replies if isinstance(reply.document, NamedQueueList)]
        found = [one.adaptive for one in lists if one.adaptive is not None]
        shared = max((one for one in found if one.shared), key=lambda one: one.seats, default=None)
        self._adaptive = found = found if shared is None else [shared]
        if found:
            self._seats = [*self._seats, sum(one.seats for one in found)][-_CURVE:]

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
        title = f"apf top: {printable(self.name)}, {plural(self._workers, 'worker')}{self._about_seats()}"
        lines = [Text(title, "bold"), self._line("NAME", _HEAD, width, "bold reverse" if keys else "bold")]
        for queue in self._visible(height):
            lines.append(self._row(queue, width))
            if keys and queue.total.name == self.selected:
                lines[-1].stylize("reverse")
        lines += self._fleet(width, height, "bold reverse" if keys else "bold")
        if keys:
            lines += [Text(), Text(self._message(), "yellow"), Text(self._prompt(), "bold" if self._asked else "dim")]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return lines

    def _about_seats(self) -> str:
        """Return the adaptive number of seats, its bounds, the reason of the last decision, and its recent course."""
        found = self._adaptive
        if not found:
            return ""
        bounds = f"{sum(one.min for one in found)} to {sum(one.max for one in found)}"
        reasons = ", ".join(sorted({one.reason for one in found}))
        [line] = curve(self._seats, max(self._seats), width=(len(self._seats) + 1) // 2, height=1)
        return f", {self._seats[-1]} seats ({bounds}; {reasons}) {line}"

    def _visible(self, height: int | None) -> list[MergedQueue]:
        """Return as many queues as fit, the selected one among them."""
        room = len(self.queues) if height is None else max(1, height - _FRAME - len(self._fleet(0, height)))
        if len(self.queues) <= room:
            return self.queues
        names = [queue.total.name for queue in self.queues]
        at = names.index(self.selected) if self.selected in names else 0
        first = min(max(0, at - room // 2), len(names) - room)
        return self.queues[first : first + room]

    def _fleet(self, width: int, height: int | None, style: str = "") -> list[Text]:
        """Return the lines of the members: those with the largest demand, and the number of the others."""
        most = _MOST_MEMBERS if height is None else min(_MOST_MEMBERS, height - _FRAME - _LEAST_QUEUES - _FLEET_FRAME)
        if not self.members or most < 1:
            return []
        room = max(_NAME_LEAST, min(40, width - sum(len(head) + 2 for head in _MEMBER_HEAD)))
        lines = [Text(), Text("  ".join(("MEMBER".ljust(room), *_MEMBER_HEAD)), style)]
        for one in sorted(self.members, key=lambda member: (-member.demand, member.member))[:most]:
            role = "allocator" if one.is_allocator else "outdated" if one.is_outdated else ""
            cells = (str(one.seats), str(one.seats_in_use), str(one.demand), f"{one.age:.2f}s", role)
            written = (cell.rjust(len(head)) for cell, head in zip(cells, _MEMBER_HEAD, strict=True))
            lines.append(Text("  ".join((shorten(printable(one.member), room).ljust(room), *written))))
        if len(self.members) > most:
            lines.append(Text(f"and {plural(len(self.members) - most, 'other')}", "dim"))
        return lines

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
