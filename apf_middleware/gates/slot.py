"""What is known of one gate and one key: whether it is open, up to which cost, and who waits for it.

``closed_at`` is the *watermark*, the smallest cost known not to fit: as long as nothing has happened, who costs as much
or more needn't be asked again. Whatever may help opens the slot: the watermark goes up to infinity and ``opening``, the
sequence number, grows by one. That is all, however many wait; the gatekeeper lets the candidates of its lines try. The
state is kept, so an event that nobody waits for isn't lost (it is *level-triggered*).

*Bounded bypass.* The request whose turn comes next is the slot's ``first``: levels take turns, within a level flows do,
and within a flow requests keep their order. While ``first`` doesn't fit, others that do may pass, but only so many, no
matter when they arrived; then the slot is *reserved* for it, and nobody else is let try. The count belongs to the
request, not to the slot, so it survives when the request is stopped by another of its gates. Several requests may hold
reservations of one slot: the earliest goes first, at each of its slots, so two can't wait for each other.

A reservation is meant for a request that waits here. While its holder waits for something else, a seat or another
gate, it lapses after a while; the next one of the same request lasts twice as long. So a request of a level that gets
no seats doesn't keep a gate from others for ever, and one whose seat takes long gets both in the end.
"""

from collections import deque
from collections.abc import Hashable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from apf_middleware.gates.line import Line
from apf_middleware.gates.passage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apf_middleware.fairqueuing import SharedLevel
    from apf_middleware.gates.gate import Gate
    from apf_middleware.gates.passage import Passage

__all__ = ["MOST_CHECKS", "OPEN", "Due", "GateReservation", "Slot"]

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


class GateReservation:
    """``slot`` is kept for ``passage``, until ``lapses_at`` if that isn't None."""

    __slots__ = ("lapses_at", "passage", "slot")

    def __init__(self, slot: "Slot", passage: "Passage") -> None:
        self.slot: Slot = slot
        self.passage: Passage = passage
        self.lapses_at: int | None = None

    def end(self) -> None:
        """Let others try again."""
        self.lapses_at = None
        del self.slot.reservations[self.passage]
        self.passage.reservations.remove(self)

    def __repr__(self) -> str:
        return f"<GateReservation of {self.slot!r} for {self.passage!r}>"


class Slot:
    """One gate's slot for one ``key``."""

    __slots__ = (
        "cause",
        "checking",
        "closed_at",
        "due",
        "due_at",
        "errors",
        "first",
        "gate",
        "has_penalty",
        "key",
        "lines",
        "log",
        "opening",
        "refusals",
        "reservations",
        "settled",
        "tried_at",
        "turn",
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
        self.first: Passage | None = None
        self.turn: int = 0  # of the level whose request was the first one last
        self.reservations: dict[Passage, GateReservation] = {}
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
    def holder(self) -> "Passage | None":
        """The request that the slot is reserved for: the earliest one that holds a reservation."""
        return min(self.reservations, key=lambda passage: passage.number) if self.reservations else None

    @property
    def is_busy(self) -> bool:
        """Whether as many are being checked as may be at a time."""
        return self.checking >= MOST_CHECKS

    @property
    def reach(self) -> int:
        """Whose cost is less may try."""
        return 0 if self.gate.is_closed else self.closed_at

    def is_kept_from(self, passage: "Passage", cost: int) -> bool:
        """Whether the slot is reserved for another request.

        A reservation bars neither an earlier request that has been passed as often, which would else wait for this one
        while it may wait for that, nor an earlier one of the same flow, level and cost.
        """
        holder = self.holder
        if holder is None or holder is passage:
            return False
        if passage.number > holder.number:
            return True
        is_alike = (passage.flow, passage.level, cost) == (holder.flow, holder.level, holder.cost_at(self))
        return not (is_alike or passage.is_due)

    def next_of(self, line: Line) -> "Passage | None":
        """Whose turn it is in ``line``, if anybody's."""
        owner = self.holder
        if owner is None:
            if self.first is None and self.reach == OPEN:
                self._choose_first()
            owner = self.first
            if owner is None or owner.level is not line.level or owner.cost_at(self) >= self.reach:
                return line.best(self.reach)
        elif owner.level is not line.level:
            return None
        earlier = line.earliest(owner.flow, owner.cost_at(self))
        if earlier is not None and earlier.number < owner.number:
            return earlier
        if owner.slot is self and owner.line is None and owner.stage is Stage.PARKED:
            return owner
        return None if self.reservations else line.best(self.reach)

    def _choose_first(self) -> None:
        """Give the turn to the next level, and in it to the request that is next, whether or not it fits."""
        line = min((line for line in self.lines.values() if line.length), key=lambda line: line.turn, default=None)
        if line is not None:
            self.first = line.best(OPEN)
            self.turn = line.turn
            line.turn += 1

    def line_of(self, level: "SharedLevel") -> Line:
        line = self.lines.get(id(level))
        if line is None:
            line = self.lines[id(level)] = Line(self, level)
            line.turn = self.turn
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
        first = self.first
        if first is passage:
            self.first = None
        elif first is not None:
            self.note_bypass(first)
            if first.line is None:  # one that waits for a seat isn't kept waiting by those who pass this gate
                self.reserve(first)
        self.refusals = self.errors = 0

    def note_bypass(self, passage: "Passage") -> None:
        """Another one got the turn of ``passage``."""
        passage.bypasses += 1
        passage.is_due = passage.is_due or passage.bypasses >= self.gate.most_bypasses

    def reserve(self, passage: "Passage") -> None:
        """Keep the slot for ``passage``, which waits here, if it has been passed often enough."""
        if not passage.is_due:
            return
        reservation = self.reservations.get(passage)
        if reservation is None:
            reservation = self.reservations[passage] = GateReservation(self, passage)
            passage.reservations.append(reservation)
        reservation.lapses_at = None

    def forget(self, passage: "Passage") -> None:
        """It doesn't wait here any more."""
        if self.first is passage:
            self.first = None

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
        is_left = not self.checking and self.due_at is None and not self.reservations
        return is_left and all(line.is_empty for line in self.lines.values())

    def __iter__(self) -> "Iterator[Passage]":
        for line in self.lines.values():
            yield from line
            yield from line.aside

    def check(self) -> None:
        """Raise AssertionError where what is kept doesn't add up."""
        for line in self.lines.values():
            line.check()
        assert self.first is None or self.first.slot is self, f"{self.first!r} is first in {self!r}, and isn't there"
        for passage, reservation in self.reservations.items():
            assert reservation in passage.reservations, f"{reservation!r} isn't known to its holder"
            assert passage.stage not in {Stage.PASSED, Stage.ENDED}, f"{passage!r} is gone, and {self!r} is reserved"

    def __repr__(self) -> str:
        state = "closed" if self.gate.is_closed else "open" if self.closed_at == OPEN else f"shut at {self.closed_at}"
        return f"<Slot {self.gate.name}[{self.key!r}]: {state}>"
