"""Who passes wide tickets among levels that share seats, when whoever's turn it is doesn't fit.

Two may have to give leave. A level's own first ticket may wait for seats that its level must save up; behind it,
tickets of the level's other queues may pass. And seats may be saved up for the first of another level; behind that one,
whoever takes seats that aren't promised may pass. How long each gives leave is said by `reservation`.
"""

from typing import TYPE_CHECKING

from apf_middleware.fairqueuing.backfill import find_behind
from apf_middleware.fairqueuing.sharing.turns import Turn, first_of, seats_wanted

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.reservation import Reservation
    from apf_middleware.fairqueuing.sharing.lending import Lending
    from apf_middleware.fairqueuing.sharing.level import SharedLevel
    from apf_middleware.fairqueuing.ticket import Ticket

__all__ = ["Passing", "find_passing"]


class Passing:
    """``ticket`` of ``level`` may be seated; when it is, those whom it passes have to `note` it."""

    __slots__ = ("_passed", "level", "ticket")

    def __init__(self, level: "SharedLevel", ticket: "Ticket") -> None:
        self.level: SharedLevel = level
        self.ticket: Ticket = ticket
        self._passed: list[tuple[Reservation, bool]] = []

    def passes(self, level: "SharedLevel") -> None:
        """It passes the first one of ``level``."""
        self._passed.append((level.queueset.reservation, level is self.level))

    def note(self) -> None:
        """It has been seated."""
        for reservation, own in self._passed:
            reservation.let_pass(self.ticket, own=own)


def find_passing(lending: "Lending", turn: Turn) -> Passing | None:
    """Whose turn comes first of those who may pass, when a survey has come to this ``turn`` and nobody fits."""
    levels = lending.waiting.copy()
    while levels:
        level = first_of(levels)
        levels.remove(level)
        passing = _pass_in(lending, level)
        if passing is None:
            continue
        saver = turn.saver
        if _is_promised(level, passing.ticket):
            return passing
        if level.parent in turn.saving:
            continue
        if saver is None or saver is level:
            return passing
        if _gives_leave(lending, saver):
            passing.passes(saver)
            return passing
    return None


def _is_promised(level: "SharedLevel", ticket: "Ticket") -> bool:
    return level.queueset.seats_in_use + ticket.width <= level.least


def _pass_in(lending: "Lending", level: "SharedLevel") -> Passing | None:
    """Who could be seated in ``level``, if seats were saved up for nobody elsewhere."""
    queueset, limit = level.queueset, lending.limit_of(level)
    free = limit - queueset.seats_in_use
    if free <= 0:
        return None
    head = queueset.head()
    if seats_wanted(level, head.width) <= limit:
        return Passing(level, head)
    queueset.concurrency = limit
    ticket = find_behind(queueset, head, free)
    queueset.concurrency = 0
    if ticket is None:
        return None
    passing = Passing(level, ticket)
    passing.passes(level)
    return passing


def _gives_leave(lending: "Lending", saver: "SharedLevel") -> bool:
    queueset = saver.queueset
    queueset.concurrency = lending.limit_of(saver)
    leave = queueset.rounds > 0 and queueset.lets_pass(queueset.head(), queueset.rounds)
    queueset.concurrency = 0
    return leave
