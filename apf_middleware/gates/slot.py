"""What is known of one gate and one key: whether it is open, up to which cost, and who waits for it.

``closed_at`` is the *watermark*, the smallest cost known not to fit: as long as nothing has happened, who costs as much
or more needn't be asked again. Whatever may help opens the slot: the watermark goes up to infinity and ``opening``, the
sequence number, grows by one. That is all, however many wait; the gatekeeper lets the candidates of its lines try. The
state is kept, so an event that nobody waits for isn't lost (it is *level-triggered*).

Bounded bypass: the first candidate that is told to wait is the slot's ``big`` one. Others may pass it, if they are
smaller or of other levels, but only so many who came later; then nobody else tries until it has passed or left. Levels
that wait for the same slot take turns.
"""

from collections import deque
from collections.abc import Hashable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from apf_middleware.gates.line import Line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apf_middleware.fairqueuing import SharedLevel
    from apf_middleware.gates.gate import Gate
    from apf_middleware.gates.passage import Passage

__all__ = ["MOST_CHECKS", "OPEN", "Due", "Slot"]

MOST_CHECKS: Final = 16
"""So many requests are checked asynchronously at a time, of each slot; others wait."""

OPEN: Final = 1 << 62
"""A watermark above every cost."""

_MOST_EVENTS: Final = 16  # about which hints are asked; when there were more, everybody may try


class Due(Enum):
    """Why a slot is opened at a certain time."""

    POLL = "poll"
    ERROR = "error"
    TOLD = "told"  # the gate has said when
    RESCUE = "rescue"  # nothing was told for long


class Slot:
    """One gate's slot for one ``key``."""

    __slots__ = (
        "big",
        "bypasses",
        "cause",
        "checking",
        "closed_at",
        "due",
        "due_at",
        "errors",
        "gate",
        "has_penalty",
        "key",
        "lines",
        "log",
        "opening",
        "refusals",
        "settled",
        "tried_at",
    )

    errors: int
    refusals: int

    def __init__(self, gate: "Gate", key: Hashable) -> None:
        self.gate: Gate = gate
        self.key: Hashable = key
        self.closed_at: int = OPEN
        self.opening: int = 0
        self.cause: str = ""  # of the last opening that was needed
        self.settled: int = -1  # the opening after which somebody was told to wait; hints are asked of what came later
        self.log: deque[tuple[int, tuple[str, Any] | None]] = deque(maxlen=_MOST_EVENTS)
        self.lines: dict[int, Line] = {}  # by the identity of their level
        self.big: Passage | None = None
        self.bypasses: int = 0
        self.checking: int = 0  # how many are being checked asynchronously
        self.refusals = self.errors = 0  # in a row
        self.has_penalty: bool = True
        self.tried_at: int = -1
        self.due_at: int | None = None
        self.due: Due | None = None

    @property
    def parked(self) -> int:
        """How many stand in its lines."""
        return sum(line.length + len(line.aside) for line in self.lines.values())

    @property
    def is_reserved(self) -> bool:
        """Whether only the big one may try."""
        return self.big is not None and self.bypasses >= self.gate.most_bypasses

    @property
    def is_busy(self) -> bool:
        """Whether as many are being checked as may be at a time."""
        return self.checking >= MOST_CHECKS

    @property
    def reach(self) -> int:
        """Whose cost is less may try."""
        return 0 if self.gate.is_closed else self.closed_at

    def is_kept_from(self, passage: "Passage", cost: int) -> bool:
        """Whether the big one comes first; but nobody overtakes an earlier one of its own flow, level and cost."""
        big = self.big
        if big is None or big is passage or self.bypasses < self.gate.most_bypasses:
            return False
        is_alike = (passage.flow, passage.level, cost) == (big.flow, big.level, big.cost_at(self))
        return not (is_alike and passage.number < big.number)

    def next_of(self, line: Line) -> "Passage | None":
        """Whose turn it is in ``line``, if anybody's."""
        big = self.big
        if big is None or self.bypasses < self.gate.most_bypasses:
            return line.best(self.reach)
        if big.level is not line.level:
            return None
        earlier = line.earliest(big.flow, big.cost_at(self))
        return big if earlier is None or earlier.number > big.number else earlier

    def line_of(self, level: "SharedLevel") -> Line:
        line = self.lines.get(id(level))
        if line is None:
            line = self.lines[id(level)] = Line(self, level)
        return line

    def pass_turn(self, line: Line) -> None:
        """One of this line has passed: the other levels' lines come first now, or one of them could take it all."""
        if len(self.lines) > 1:
            self.lines[id(line.level)] = self.lines.pop(id(line.level))

    # What happens

    def shut(self, watermark: int) -> None:
        """So much doesn't fit."""
        self.closed_at = min(self.closed_at, watermark)
        self.settled = self.opening

    def open(self, cause: str, event: tuple[str, Any] | None = None) -> None:
        """Something has happened that may help; of an ``event``, hints may say otherwise."""
        if self.closed_at < OPEN or cause != Due.RESCUE.value:
            self.cause = cause
        self.closed_at = OPEN
        self.opening += 1
        if self.gate.hints:
            self.log.append((self.opening, event))
        for line in self.lines.values():
            aside, line.aside = line.aside, {}
            for passage in aside:
                line.put(passage, passage.cost_at(self))

    def note_passed(self, passage: "Passage") -> None:
        """It has passed the gate."""
        if self.big is passage:
            self.big = None
        elif self.big is not None and passage.number > self.big.number:
            self.bypasses += 1
        self.refusals = self.errors = 0

    def note_stuck(self, passage: "Passage") -> None:
        """It was let try, and was told to wait."""
        if self.big is None:
            self.big = passage
            self.bypasses = 0

    def forget(self, passage: "Passage") -> None:
        """It has nothing to do with this slot any more."""
        if self.big is passage:
            self.big = None

    # Who waits

    def ahead_of(self, passage: "Passage") -> int:
        """At least so much is taken before it gets its turn: what others of its flow wait for."""
        line = self.lines.get(id(passage.level))
        return 0 if line is None else line.count_of(passage.flow)

    def put(self, passage: "Passage", cost: int, before: Line | None) -> None:
        """It stands here; ``before``, it was the candidate of that line, if of any."""
        line = self.line_of(passage.level)
        line.put(passage, cost, is_back=line is before)

    def take(self, passage: "Passage", cost: int) -> None:
        """It isn't here any more, or may try: the caller has marked it so."""
        line = self.lines[id(passage.level)]
        if passage in line.aside:
            del line.aside[passage]
        else:
            line.take(passage, cost)

    @property
    def is_idle(self) -> bool:
        """Whether nobody is here, so that there is no need to keep it."""
        return not self.checking and self.due_at is None and all(line.is_empty for line in self.lines.values())

    def __iter__(self) -> "Iterator[Passage]":
        for line in self.lines.values():
            yield from line
            yield from line.aside

    def check(self) -> None:
        """Raise AssertionError where what is kept doesn't add up."""
        for line in self.lines.values():
            line.check()
        assert self.big is None or self.big.slot is self, f"{self!r} is kept for {self.big!r}, which isn't there"
        assert self.gate.is_async or self.bypasses <= self.gate.most_bypasses, f"too many have passed by in {self!r}"

    def __repr__(self) -> str:
        state = "closed" if self.gate.is_closed else "open" if self.closed_at == OPEN else f"shut at {self.closed_at}"
        return f"<Slot {self.gate.name}[{self.key!r}]: {state}>"
