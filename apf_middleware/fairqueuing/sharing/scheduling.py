"""The scheduler of levels: it decides which one is served next when several wait for the same free seats.

**Order.** There are seven groups, of which the first that isn't empty is served:

1. levels below their min, unless they are ahead
2. levels with a parent that has a part of its min left for them, unless they are ahead; among themselves, these come
   in the order of the other groups
3. levels that use at least one seat less than they deserve (see `balance`), unless they are ahead
4. levels that are far behind
5. levels that use at least one seat less than they deserve
6. levels that deserve a part of one more seat, aren't ahead of their share, and use less than their part of a server
   on which all levels are busy
7. all others by priority; of the same priority, levels that deserve a part of one more seat come first, and levels
   without a weight last

In groups 1 and 5, the level with the fewest used seats in proportion to its weight comes first; in the others, the one
with the largest lag in proportion to its weight. Among equals, draining levels come first, and then the level that was
served longest ago. Fractions are compared by cross-multiplication of integers.

While several levels wait, one of them for a request of several seats, a level is ahead if its lag is negative, and *far
behind* if its lag is more than the longest recent work of a request. Then a level that uses no seats isn't necessarily
behind, nor is one below its min if its next ticket needs more than that: by the seats in use alone, levels with long
and wide requests would get many times their share. (A ticket that fits in the min is seated in any order, because no
other level may use the seats of the min.) While all waiting requests need one seat, no level is ahead or far behind in
this sense, and the order in group 3 is that of groups 1 and 5: then the seats in use say enough, and to make up for a
former lag would only let them swing. A draining level always counts as not ahead: its min reduces what others may use,
so if it weren't the first, neither might find enough seats on a server where nothing runs.

**Saving up.** If the next ticket of the first level doesn't fit, the free seats are saved up for it. Other levels are
then served only within their mins, which are no part of the free seats. Tickets that are wider than their levels' maxes
aren't served meanwhile. If the first level's ticket doesn't fit because of its level's own max, no seats are saved up;
if because of the parent's max, only the other children of that parent leave seats for it. But a level that is far
behind doesn't lose the rest of these maxes to other levels while it waits for its own requests or those of its
siblings: if all of these never ended at the same moment as requests of other levels, it would starve.

**Back-fill.** Other tickets may be served before one for which seats are saved up, for a bounded number of rounds (see
`seats`). A ticket may pass at most two others: the next one of its own level, and the one of another level for which
seats are saved up. While levels are far behind, only their tickets may pass those of other levels.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from apf_middleware.fairqueuing.seats import Reservation
from apf_middleware.fairqueuing.sharing.balance import SEAT, Balance
from apf_middleware.fairqueuing.sharing.ledger import SeatLedger
from apf_middleware.fairqueuing.sharing.level import SharedLevel
from apf_middleware.fairqueuing.ticket import Ticket

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.sharing.hierarchy import Parent

__all__ = ["Backfill", "Decision", "LevelScheduler"]

_NOWHERE: Final = 1 << 100  # no lag is as large
_FIRST: Final = 1 << 30  # more than there are groups


class Decision:
    """The outcome of a survey: the ``ticket`` of ``level`` to be seated next, if any fits.

    All levels leave seats for the level ``saver``, if any, and the children of each parent in ``saving`` leave seats
    for one of them. ``blocked`` are the tickets that are next in their levels and for which too few seats are free.
    """

    __slots__ = ("blocked", "level", "saver", "saving", "ticket")

    def __init__(self) -> None:
        self.level: SharedLevel | None = None
        self.ticket: Ticket | None = None
        self.saver: SharedLevel | None = None
        self.saving: list[Parent] = []
        self.blocked: list[tuple[SharedLevel, Ticket]] = []


class Backfill(NamedTuple):
    """A ``ticket`` of ``level`` that may be seated before others, and the reservations of these."""

    level: SharedLevel
    ticket: Ticket
    passed: tuple[tuple[Reservation, bool], ...] = ()  # True: of the ticket's own level

    def note_seated(self) -> None:
        """Record in the reservations that the ticket has been seated before the others."""
        for reservation, own in self.passed:
            reservation.let_pass(self.ticket, own=own)


class LevelScheduler:
    """Choose the next level among ``waiting``, the levels with requests that wait for seats."""

    __slots__ = ("_balance", "_ledger", "waiting")

    def __init__(self, ledger: SeatLedger, balance: Balance) -> None:
        self._ledger = ledger
        self._balance = balance
        self.waiting: list[SharedLevel] = []  # changed in place only

    def divide(self) -> None:
        """Update what each waiting level deserves, because the waiting levels or the seats have changed."""
        if not self.waiting:
            self._balance.end_wait()
        if len(self.waiting) > 1 or self._balance.users:
            self._balance.divide(self.waiting, self._ledger.free)
        if len(self.waiting) < 2 and not self._balance.users:  # the last user may just have gone
            for level in self.waiting:
                level.deserved = level.entitled
            self._balance.are_wide = False  # the lag of a level that waits alone doesn't count

    def update(self, now: int) -> None:
        """Update the lags, and what each waiting level deserves, if several levels use or want the seats."""
        if len(self.waiting) > 1 or self._balance.users:
            self._balance.advance(now, self.waiting)
            self.divide()

    def may_seat(self) -> bool:
        """Return whether a waiting level could use a free seat, so that `survey` may find a ticket."""
        if self._ledger.free > 0:
            return bool(self.waiting)
        return any(level.queueset.seats_in_use < _in_min(level) for level in self.waiting)

    def survey(self, now: int) -> Decision:
        """Decide which ticket is seated next, and for which others seats are saved up; seat none."""
        decision = Decision()
        self.update(now)
        far = self._far()
        levels = self.waiting.copy()
        while levels:
            level = _first_of(levels, far)
            levels.remove(level)
            queueset = level.queueset
            queueset.concurrency = 0  # so that `tick` updates the meters and dispatches nothing
            if queueset.discipline.is_restless:
                queueset.tick(now)
            ticket = queueset.head()
            is_saving = decision.saver is not None or decision.saving
            limit = self._limit_in_turn(level, decision) if is_saving else self._ledger.limit_of(level)
            wanted = _seats_wanted(level, ticket.width)
            if wanted <= limit and not (is_saving and self._takes_saved(level, ticket, decision)):
                decision.level, decision.ticket = level, ticket
                break
            if decision.saver is None:
                if queueset.seats_in_use < limit:
                    decision.blocked.append((level, ticket))
                if self._save_up(level, wanted, ticket.width, decision, far):
                    levels = [one for one in levels if one.queueset.seats_in_use < self._limit_in_turn(one, decision)]
        return decision

    @staticmethod
    def _save_up(level: SharedLevel, wanted: int, width: int, decision: Decision, far: int) -> bool:
        """Save seats up for ``level``, unless a max stops it; return whether all other levels are concerned.

        A level that is far behind isn't stopped as long as some seats within the max are missing. At members of a
        fleet, the request may not even fit alone until the part of a max has grown; then only its siblings leave seats
        for it.
        """
        parent, alone, is_far = level.parent, min(width, level.ceiling), level.lag > far
        has_room = level.queueset.seats_in_use < level.most or alone > level.most
        if wanted > level.most and not (is_far and has_room):
            return False
        if parent in decision.saving:
            return False
        most = level.most
        if parent is not None:
            decision.saving.append(parent)
            most = min(most, parent.most)
            if wanted > parent.room_in_max(level.counted) and not (is_far and parent.total < parent.most):
                return False
        if alone > most:
            return False
        decision.saver = level
        return True

    def _limit_in_turn(self, level: SharedLevel, decision: Decision) -> int:
        """Return the seats that ``level`` may use while others are saved up for levels before it."""
        if level.parent in decision.saving:
            return level.least
        return self._ledger.limit_of(level) if decision.saver is None else _in_min(level)

    @staticmethod
    def _takes_saved(level: SharedLevel, ticket: Ticket, decision: Decision) -> bool:
        """Return whether ``ticket`` is wider than its level's max, and would take seats that are saved up for others.

        It counts as that max, which may be within the min. If it were always served within the min, a level with many
        such tickets would starve others.
        """
        return ticket.width > level.ceiling and (decision.saver is not None or level.parent in decision.saving)

    def limit_of_newcomer(self, now: int, level: SharedLevel, width: int) -> int:
        """Return the limit of a level without queues, where a ticket of this ``width`` can't wait for a turn.

        While seats are saved up for a level that comes before it, its limit is its min, or 0 for a ticket that is wider
        than its max.
        """
        decision = self.survey(now)
        saver = decision.saver
        if level.parent in decision.saving or (saver is not None and _first_of((saver, level), self._far()) is saver):
            return level.least if width <= level.ceiling else 0
        return self._ledger.limit_of(level)

    # Back-fill

    def find_backfill(self, decision: Decision) -> Backfill | None:
        """Return the first ticket in order that may be seated although ``decision`` found none."""
        far = self._far()
        levels = self.waiting.copy()
        are_behind = any(level.lag > far for level in levels)
        while levels:
            level = _first_of(levels, far)
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
            if (level.lag > far or not are_behind) and self._may_be_passed(saver):
                return found._replace(passed=(*found.passed, (saver.queueset.reservation, False)))
        return None

    def _find_in(self, level: SharedLevel) -> Backfill | None:
        """Return a ticket of ``level`` that could be seated if no seats were saved up for other levels."""
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
        head = queueset.head()  # first, because with more seats another queue might be overdue
        queueset.concurrency = self._ledger.limit_of(saver)
        may = queueset.may_be_passed(head)
        queueset.concurrency = 0
        return may

    def _far(self) -> int:
        """Return the lag beyond which a level is far behind."""
        return self._balance.longest if self._balance.are_wide else _NOWHERE

    def __repr__(self) -> str:
        return f"<LevelScheduler: {len(self.waiting)} levels wait>"


def _in_min(level: SharedLevel) -> int:
    """Return the seats that ``level`` may use within its min and that of its parent."""
    parent = level.parent
    if parent is None:
        return level.least
    return max(level.least, min(level.most, parent.room_in_min(level.counted)))


def _seats_wanted(level: SharedLevel, width: int) -> int:
    """Return the seats that ``level`` would use with one more ticket of this ``width``.

    A ticket that is wider than the level's ceiling counts as that, and runs alone. As long as other requests run, more
    than the ceiling is returned for it.
    """
    used, ceiling = level.queueset.seats_in_use, level.ceiling
    if width <= ceiling:
        return used + width
    return ceiling if used < ceiling and not level.queueset.executing else ceiling + 1


def _first_of(levels: Sequence[SharedLevel], far: int) -> SharedLevel:
    """Return the level that is served first; a lag of more than ``far`` is far behind."""
    first = levels[0]
    first_group, first_taken = _rank(first, far)
    for level in levels[1:]:
        group, taken = _rank(level, far)
        ahead = group - first_group
        if not ahead:
            ahead = taken * (first.weight or 1) - first_taken * (level.weight or 1)
        if ahead < 0 or (not ahead and _turn(level) < _turn(first)):
            first, first_group, first_taken = level, group, taken
    return first


def _rank(level: SharedLevel, far: int) -> tuple[int, int]:
    """Return the group of ``level``, and a number by which it is ordered there, in proportion to its weight."""
    used = level.queueset.seats_in_use
    is_ahead = level.lag < 0 and far != _NOWHERE and not level.is_draining
    if used < level.least and not is_ahead:
        return -2 * _FIRST, used
    group, taken = _rank_beyond_min(level, used, far, is_ahead=is_ahead)
    if level.parent is not None and not is_ahead and used < _in_min(level):
        group -= _FIRST
    return group, taken


def _rank_beyond_min(level: SharedLevel, used: int, far: int, *, is_ahead: bool) -> tuple[int, int]:
    """Return what `_rank` does, for a level without mins."""
    lag = level.lag
    missing = level.deserved - used * SEAT
    if missing >= SEAT and not is_ahead:
        return 1, used if far == _NOWHERE else used - lag  # a seat is far less than any lag: it decides among equals
    if lag > far:
        return 2, -lag
    if missing >= SEAT:
        return 3, used
    lags_behind = missing > 0 and lag >= 0
    if lags_behind and used * SEAT < level.entitled:
        return 4, -lag
    return 1 + 2 * level.borrows_as + (0 if lags_behind else 1), -lag


def _turn(level: SharedLevel) -> tuple[bool, int, str]:
    """Return the key that decides among equals; it is unique, although a draining level may have another's name."""
    return (not level.is_draining, level.turn, level.name)
