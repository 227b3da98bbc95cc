"""Which level is served next, where seats are free that several waiting levels could use.

**Order.** Levels under their min (for a child: within the min of its parent) come first, then those that use at least
one seat less than they deserve (see `balance`). Within these two groups the level with the fewest used seats for its
weight comes first. Next comes a level that deserves part of one more seat, and then all others: there the largest lag
for the weight comes first. Beyond what a level has while all are busy, the priority goes before that, and levels
without a weight come last. Of equals the level comes first that was served longest ago, and a draining one before all.
Fractions are compared by cross-multiplication of integers.

**Saving up.** If the next ticket of the first level doesn't fit, the free seats are saved up for it. Behind it, levels
are served that stay within their min, which takes nothing from it. A level that is held back by its own max saves
nothing up, and one that is held back by its parent's max only among the children of that parent.

**Back-fill.** Others may be served before a ticket for which seats are saved up, for a bounded number of rounds (see
`reservation`). A ticket may pass up to two others: the first of its own level, and the one of another level for which
seats are saved up.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from apf_middleware.fairqueuing.seats import Reservation
from apf_middleware.fairqueuing.sharing.balance import SEAT, Balance
from apf_middleware.fairqueuing.sharing.ledger import SeatLedger
from apf_middleware.fairqueuing.sharing.level import SharedLevel
from apf_middleware.fairqueuing.ticket import Ticket

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.sharing.hierarchy import Parent

__all__ = ["Backfill", "Decision", "LevelScheduler"]


class Decision:
    """The outcome of a survey: the ``ticket`` of ``level`` to be seated next, if any fits.

    Seats are saved up for ``saver``, and within the parents ``saving``. ``blocked`` are the tickets whose turn it is
    and for which some seats are free, but too few.
    """

    __slots__ = ("blocked", "level", "saver", "saving", "ticket")

    def __init__(self) -> None:
        self.level: SharedLevel | None = None
        self.ticket: Ticket | None = None
        self.saver: SharedLevel | None = None
        self.saving: list[Parent] = []
        self.blocked: list[tuple[SharedLevel, Ticket]] = []


class Backfill(NamedTuple):
    """A ``ticket`` of ``level`` that may be seated before others, whose reservations it has to be counted in."""

    level: SharedLevel
    ticket: Ticket
    passed: tuple[tuple[Reservation, bool], ...] = ()  # and whether each is of the ticket's own level

    def note_seated(self) -> None:
        """Count the ticket, which has been seated, as one that passed."""
        for reservation, own in self.passed:
            reservation.let_pass(self.ticket, own=own)


class LevelScheduler:
    """Choose among the levels in ``waiting``, those with requests that wait for a turn."""

    __slots__ = ("_balance", "_ledger", "waiting")

    def __init__(self, ledger: SeatLedger, balance: Balance) -> None:
        self._ledger = ledger
        self._balance = balance
        self.waiting: list[SharedLevel] = []  # changed in place only

    def divide(self) -> None:
        """Divide the seats anew among the waiting levels, because these or the seats have changed."""
        if len(self.waiting) > 1:
            self._balance.divide(self.waiting, self._ledger.free)
        else:
            for level in self.waiting:
                level.deserved = level.entitled

    def may_seat(self) -> bool:
        """Return whether a survey is worth while: a seat is free that some waiting level could use."""
        if self._ledger.free > 0:
            return bool(self.waiting)
        return any(level.queueset.seats_in_use < _in_min(level) for level in self.waiting)

    def survey(self, now: int) -> Decision:
        """Decide which ticket is seated next, and for which others seats are saved up. No seats change hands."""
        decision = Decision()
        if len(self.waiting) > 1:
            self._balance.advance(now, self.waiting)
            self._balance.divide(self.waiting, self._ledger.free)
        levels = self.waiting.copy()
        while levels:
            level = _first_of(levels)
            levels.remove(level)
            queueset = level.queueset
            queueset.concurrency = 0  # so that a tick moves the meters on and dispatches nothing
            if queueset.discipline.is_restless:
                queueset.tick(now)
            ticket = queueset.head()
            is_saving = decision.saver is not None or decision.saving
            limit = self._limit_in_turn(level, decision) if is_saving else self._ledger.limit_of(level)
            wanted = _seats_wanted(level, ticket.width)
            if wanted <= limit:
                decision.level, decision.ticket = level, ticket
                break
            if decision.saver is None:
                if queueset.seats_in_use < limit:
                    decision.blocked.append((level, ticket))
                if self._save_up(level, wanted, decision):
                    levels = [one for one in levels if one.queueset.seats_in_use < self._limit_in_turn(one, decision)]
        return decision

    @staticmethod
    def _save_up(level: SharedLevel, wanted: int, decision: Decision) -> bool:
        """Save seats up for ``level``, unless its own max holds it back; return whether all others are concerned."""
        parent = level.parent
        if wanted > level.most or parent in decision.saving:
            return False
        if parent is not None:
            decision.saving.append(parent)
            if wanted > parent.room_in_max(level.counted):
                return False
        decision.saver = level
        return True

    def _limit_in_turn(self, level: SharedLevel, decision: Decision) -> int:
        """Return what ``level`` may use while seats are saved up for levels that come before it."""
        if level.parent in decision.saving:
            return level.least
        return self._ledger.limit_of(level) if decision.saver is None else _in_min(level)

    def limit_of_newcomer(self, now: int, level: SharedLevel) -> int:
        """Return the limit of a level without queues, which has no turn: the min while a level that is first saves."""
        decision = self.survey(now)
        saver = decision.saver
        if level.parent in decision.saving or (saver is not None and _first_of((saver, level)) is saver):
            return level.least
        return self._ledger.limit_of(level)

    # Back-fill

    def find_backfill(self, decision: Decision) -> Backfill | None:
        """Return the first ticket in order that may be seated although ``decision`` found none."""
        levels = self.waiting.copy()
        while levels:
            level = _first_of(levels)
            levels.remove(level)
            found = self._find_in(level)
            if found is None:
                continue
            if level.queueset.seats_in_use + found.ticket.width <= level.least:
                return found
            if level.parent in decision.saving:
                continue
            saver = decision.saver
            if saver is None or saver is level:
                return found
            if self._may_be_passed(saver):
                return found._replace(passed=(*found.passed, (saver.queueset.reservation, False)))
        return None

    def _find_in(self, level: SharedLevel) -> Backfill | None:
        """Return what could be seated in ``level``, if seats were saved up in no other level."""
        queueset, limit = level.queueset, self._ledger.limit_of(level)
        free = limit - queueset.seats_in_use
        if free <= 0:
            return None
        head = queueset.head()
        if _seats_wanted(level, head.width) <= limit:
            return Backfill(level, head)
        queueset.concurrency = limit
        ticket = queueset.find_behind(head, free)
        queueset.concurrency = 0
        return None if ticket is None else Backfill(level, ticket, ((queueset.reservation, True),))

    def _may_be_passed(self, saver: SharedLevel) -> bool:
        queueset = saver.queueset
        queueset.concurrency = self._ledger.limit_of(saver)
        may = queueset.may_be_passed(queueset.head())
        queueset.concurrency = 0
        return may

    def __repr__(self) -> str:
        return f"<LevelScheduler: {len(self.waiting)} levels wait>"


def _in_min(level: SharedLevel) -> int:
    """Return what ``level`` may use of seats that are promised to it or to its parent."""
    parent = level.parent
    if parent is None:
        return level.least
    return max(level.least, min(level.most, parent.room_in_min(level.counted)))


def _seats_wanted(level: SharedLevel, width: int) -> int:
    """Return what ``level`` would use with one more ticket of this ``width``; more than its max if that can't be.

    A ticket that is wider than the max counts as the max, and runs alone.
    """
    used, most = level.queueset.seats_in_use, level.most
    if width <= most:
        return used + width
    return most if used < most and not level.queueset.executing else most + 1


def _first_of(levels: Sequence[SharedLevel]) -> SharedLevel:
    """Return the level that is served first, of at least one."""
    first = levels[0]
    first_group, first_taken = _rank(first)
    for level in levels[1:]:
        group, taken = _rank(level)
        ahead = group - first_group
        if not ahead:
            ahead = taken * (first.weight or 1) - first_taken * (level.weight or 1)
        if ahead < 0 or (not ahead and _turn(level) < _turn(first)):
            first, first_group, first_taken = level, group, taken
    return first


def _rank(level: SharedLevel) -> tuple[int, int]:
    """Return the group of ``level``, and what it has had already, to be divided by its weight: the lowest is first."""
    used = level.queueset.seats_in_use
    if used < level.least or (level.parent is not None and used < _in_min(level)):
        return 0, used
    missing = level.deserved - used * SEAT
    if missing >= SEAT:
        return 1, used
    lags_behind = missing > 0 and level.lag >= 0
    if lags_behind and used * SEAT < level.entitled:
        return 2, -level.lag
    return 2 * level.borrows_as + (0 if lags_behind else 1), -level.lag


def _turn(level: SharedLevel) -> tuple[bool, int, str]:
    """Return a key that differs for any two levels; a draining level may have the name of another one."""
    return (not level.is_draining, level.turn, level.name)
