"""Seats lent and reclaimed at each dispatch: the *immediate* way, and the default.

**The pool.** T seats are shared: the server's, or all mins together where that is more, for those are promised. Each
limited level counts for the larger of what it uses and its min; an exempt level for what it uses. ``_free`` is T less
what all levels count for. So the limit of a level at this moment, given what the others count for, is

    L = _free + what the level itself counts for,   but at least its min and at most its max.

Within its min a level is always served, also when exempt load has eaten everything; beyond it, only as long as all
unmet mins of the others stay free. No dispatch of its own changes a level's L, so it is enough to set it before a call
(*steering*), and the queue set does the rest. Its max is bounded by what the other mins leave of T.

**Turns.** Where seats are free and several levels wait, those under their min come first, then those that use at least
one seat less than they deserve (see `balance`), in the order of used seats by weight. The part of a seat that is left
then goes by turns, to the level whose service lags behind most for its weight, borrowers of a higher priority first.
Equals go by whose turn is longest ago. One ticket at a time, for each changes the ranks. If the first doesn't fit,
the seats that are free are saved up for it. Behind it, those pass who stay within their min, which takes nothing from
it, and others for as many rounds as its level says (see `reservation`). A level that is held back by its own max saves
nothing and waits aside, and only others of its own level may need its leave to pass.

**Nobody waits for ever.** A ticket that is wider than its level's max counts as that max, and runs when nothing else of
its level does. If nothing runs anywhere, then L is the max for every level, so whoever is first is seated. And what is
saved up, seats in use beyond the others' mins, comes back when their requests end.

**Parents.** For the pool a parent counts as one level does, for the larger of what its children count for and its min;
and for a parent its children count as levels do for the pool. So the limit of a child is what its siblings leave of the
parent's limit, within its own bounds. A child that is held back by its parent's max has seats saved up only there.

**Levels that go**, because they aren't wanted any more, keep their min (one seat at least), max and weight for as long
as requests wait there, and deserve their nominal seats before anything else is divided. So a reload that renames or
removes a level changes nothing for these requests. The others keep the mins that they had before; what is new or higher
counts when the level has drained. So the server never runs more requests than it has seats for.

**Virtual time.** A level's meters must run at the seats that it really has. Were R to run ahead of service while seats
are lent to others, then all who are backlogged would lag behind R, and a flow that arrives, starting at R, would stand
behind every one of them: mice behind elephants. Were it to fall behind, a new flow would be served alone until it has
caught up. L is no measure of that, for it changes with every other level's steps and includes seats that are saved up
for others. What a level really has is what it uses, and that changes only by its own steps: its meters run at that.
"""

from collections.abc import Sequence
from typing import Final

from apf_middleware.fairqueuing.sharing.balance import Balance
from apf_middleware.fairqueuing.sharing.base import refuse_time
from apf_middleware.fairqueuing.sharing.level import SharedLevel
from apf_middleware.fairqueuing.sharing.passing import find_passing
from apf_middleware.fairqueuing.sharing.pool import Pool
from apf_middleware.fairqueuing.sharing.turns import Turn, first_of, seats_wanted
from apf_middleware.fairqueuing.ticket import Reason, Ticket, TicketState

__all__ = ["Lending"]

_NEW: Final = TicketState.NEW
_WAITING: Final = TicketState.WAITING
_SEATED: Final = TicketState.SEATED
_NOBODY: Final[tuple[Ticket, ...]] = ()
_NEVER: Final = 1 << 100  # later than any time, in nanoseconds


class Lending(Pool):
    """Shares seats at each dispatch."""

    __slots__ = ("_clock", "_lingering", "_turns")

    quick_until: int

    def _prepare(self, now: int) -> None:
        self._clock = now
        self._turns = 0
        self._balance = Balance(now)
        self.waiting: list[SharedLevel] = []
        self._lingering: list[SharedLevel] = []
        self.quick_until = _NEVER  # the first linger's end
        self._is_restless = self._backfills = False
        self._passed = {}

    # What happens to tickets

    def arrive(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        if ticket.width <= level.quick_width and now < self.quick_until and level.seat_alone(now, ticket):
            if level.exempt:
                level.counted = 1
                self._free -= 1
            return (ticket,)
        queueset = level.queueset
        if ticket.state is not _NEW:
            return queueset.arrive(now, ticket)  # which says what is wrong
        ended = _NOBODY if self._clock <= now < self.quick_until and not self._is_restless else self._advance(now)
        if level.alone is not None or level.booked_count != level.alone_count:
            level.wake()
        level.quick_width = 0
        waiting = self.waiting
        if not level.is_common:
            seated = self._arrive_apart(now, level, ticket)
        elif not waiting or level.exempt or (level.waits and len(waiting) == 1):
            # Steering, written out: this is where most requests pass.
            limit = self._free + level.counted
            if limit > level.most:  # noqa: PLR1730 - min() and max() take three times as long
                limit = level.most
            queueset.concurrency = limit if limit > level.least else level.least  # noqa: FURB136
            seated = queueset.arrive(now, ticket)
            self._clock = now
            used = queueset.seats_in_use
            counted = used if used > level.least else level.least  # noqa: FURB136
            self._free -= counted - level.counted
            level.counted = counted
            if not used or level.waits is not (queueset.waiting > 0):
                self._note(now, level)
        else:
            seated = self._arrive_among_others(now, level, ticket)
        return [*ended, *seated] if ended else seated

    def _arrive_apart(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """The level has a parent, is held or closing, or drains."""
        waiting = self.waiting
        if level.is_held or level.queueset.is_quiescing:
            level.queueset.concurrency = 0
        elif waiting and not (level.waits and len(waiting) == 1):
            return self._arrive_among_others(now, level, ticket)
        else:
            level.queueset.concurrency = self.limit_of(level)
        seated = level.queueset.arrive(now, ticket)
        self._clock = now
        self._note(now, level)
        return seated

    def _arrive_among_others(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Others wait already: nobody may take what they come first for."""
        queueset = level.queueset
        if not queueset.settings.queues:
            queueset.concurrency = self._limit_of_newcomer(now, level)
        elif not level.waits and queueset.seats_in_use + ticket.width <= level.least:
            queueset.concurrency = level.least
        else:
            queueset.concurrency = 0
        seated = queueset.arrive(now, ticket)
        self._clock = now
        self._note(now, level)
        if ticket.state is _WAITING and self._may_seat():
            return self._dispatch(now)
        return seated

    def abandon(
        self, now: int, level: SharedLevel, ticket: Ticket, reason: Reason = Reason.TIME_OUT
    ) -> Sequence[Ticket]:
        queueset = level.queueset
        if ticket.state is not _WAITING or ticket.queueset is not queueset or reason not in queueset.rejected:
            return queueset.abandon(now, ticket, reason)  # which says what is wrong
        ended = self._advance(now)
        if ended and not ticket.is_waiting:
            return ended
        queueset.concurrency = 0
        queueset.abandon(now, ticket, reason)
        self._note(now, level)
        seated = self._dispatch(now) if self.waiting else _NOBODY
        return [*ended, *seated] if ended else seated

    def unpark(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        ended = self._advance(now)
        level.wake()
        level.quick_width = 0
        level.queueset.concurrency = 0
        level.queueset.unpark(now, ticket)
        self._note(now, level)
        return [*ended, *self._dispatch(now)]

    def release(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        if level.alone is ticket and now < self.quick_until and not (level.exempt and self.waiting):
            level.release_alone(now, ticket)
            if level.exempt:
                level.counted = 0
                self._free += 1
            return _NOBODY
        queueset = level.queueset
        if ticket.state is not _SEATED or ticket.queueset is not queueset:
            return queueset.release(now, ticket)  # which says what is wrong
        if level.alone is not None or not level.is_common:
            return self._release_apart(now, level, ticket)
        ended = _NOBODY if self._clock <= now < self.quick_until and not self._is_restless else self._advance(now)
        waiting = self.waiting
        others_wait = waiting and not (level.waits and len(waiting) == 1)
        if others_wait:
            queueset.concurrency = 0
            self._balance.observe((now - ticket.seated_at) * ticket.width)
        else:
            limit = self._free + level.counted
            if limit > level.most:  # noqa: PLR1730 - min() and max() take three times as long
                limit = level.most
            queueset.concurrency = limit if limit > level.least else level.least  # noqa: FURB136
        seated = queueset.release(now, ticket)
        self._clock = now
        used = queueset.seats_in_use
        counted = used if used > level.least else level.least  # noqa: FURB136
        self._free -= counted - level.counted
        level.counted = counted
        if ticket.work.linger_ns:
            self._let_linger(level)
        if not used or level.waits is not (queueset.waiting > 0):
            self._note(now, level)
        if others_wait:
            seated = [*seated, *self._dispatch(now)]
        return [*ended, *seated] if ended else seated

    def _release_apart(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """The level has a parent, is held or closing, drains, or has one alone: who is seated now is seated in turn."""
        level.wake()
        ended = self._advance(now)
        level.queueset.concurrency = 0
        if self.waiting:
            self._balance.observe((now - ticket.seated_at) * ticket.width)
        level.queueset.release(now, ticket)
        self._clock = now
        if ticket.work.linger_ns:
            self._let_linger(level)
        self._note(now, level)
        seated = self._dispatch(now) if self.waiting else _NOBODY
        return [*ended, *seated] if ended else seated

    # Time

    def _advance(self, now: int) -> Sequence[Ticket]:
        """Free what has lingered long enough, and seat whoever comes first for it."""
        if now.__class__ is not int or now < self._clock:
            refuse_time(now, self._clock)
        self._clock = now
        if now < self.quick_until:
            return self._dispatch(now) if self._is_restless and self.waiting else _NOBODY
        due = [level for level in self._lingering if (level.queueset.next_event_at() or 0) <= now]
        for level in due:
            level.queueset.concurrency = 0
            level.queueset.tick(now)
        for level in due:  # not sooner: one that is over may change what others may have, whose lingers would end then
            self._note(now, level)
        self._lingering = [level for level in self._lingering if level.queueset.next_event_at() is not None]
        self._find_first_end()
        return self._dispatch(now) if self.waiting else _NOBODY

    def _let_linger(self, level: SharedLevel) -> None:
        if level not in self._lingering:
            self._lingering.append(level)
        self._find_first_end()

    def _find_first_end(self) -> None:
        ends = (level.queueset.next_event_at() for level in self._lingering)
        self.quick_until = min((ends_at for ends_at in ends if ends_at is not None), default=_NEVER)

    def tick(self, now: int) -> Sequence[Ticket]:
        return self._advance(now)

    def next_event_at(self) -> int | None:
        return self.quick_until if self.quick_until < _NEVER else None

    # Seats

    def _limit_of_newcomer(self, now: int, level: SharedLevel) -> int:
        """The limit where nobody waits: not beyond the min while seats are saved up for one that ranks higher."""
        turn = self._survey(now)
        saver = turn.saver
        if level.parent in turn.saving or (saver is not None and first_of((saver, level)) is saver):
            return level.least
        return self.limit_of(level)

    def _dispatch(self, now: int) -> Sequence[Ticket]:
        """Seat those whose turn it is, one by one."""
        seated: list[Ticket] = []
        is_contended = len(self.waiting) > 1
        while self._may_seat():
            turn = self._survey(now)
            level, ticket = turn.level, turn.ticket
            passing = None
            if ticket is None and self._backfills and (passing := find_passing(self, turn)) is not None:
                level, ticket = passing.level, passing.ticket
            if level is None or ticket is None:
                if self._park_barred(now, turn):
                    continue
                for one, passed in turn.passed:
                    one.queueset.no_accommodation += 1
                    passed.pass_over()
                break
            level.queueset.tick(now)
            gatekeeper = level.queueset.gatekeeper
            if gatekeeper is not None and not gatekeeper.admits(now, ticket):
                self._note(now, level)
                continue
            level.queueset.seat_head(now, ticket)
            if passing is not None:
                passing.note()
            if is_contended:
                self._turns += 1
                level.turn = self._turns
                level.used_before = level.queueset.seats_in_use
            seated.append(ticket)
            self._note(now, level)
        return seated

    def _park_barred(self, now: int, turn: Turn) -> bool:
        """Of those for whom seats are saved up, park who may not pass its gates; whether there was one."""
        for level, ticket in turn.passed:
            gatekeeper = level.queueset.gatekeeper
            if gatekeeper is not None and gatekeeper.bars(now, ticket):
                self._note(now, level)
                return True
        return False

    def _may_seat(self) -> bool:
        """Whether a survey is worth while: somebody waits, and any seat is free for somebody who does."""
        if self._free > 0:
            return bool(self.waiting)
        for level in self.waiting:
            parent = level.parent
            promised = level.least if parent is None else parent.promised_to(level)
            if level.queueset.seats_in_use < promised:
                return True
        return False

    def _survey(self, now: int) -> Turn:
        """Whose turn it is, and for whom seats are saved up. No seats change hands."""
        turn = Turn()
        if len(self.waiting) > 1:
            self._balance.advance(now, self.waiting)
            self._balance.divide(self.waiting, self._free)
        levels = self.waiting.copy()
        while levels:
            level = first_of(levels)
            levels.remove(level)
            queueset = level.queueset
            queueset.concurrency = 0  # to advance its meters is not to dispatch
            if queueset.discipline.is_restless:
                queueset.tick(now)
            ticket = queueset.head()
            limit = self._limit_in_turn(level, turn) if turn.saver or turn.saving else self.limit_of(level)
            wanted = seats_wanted(level, ticket.width)
            if wanted <= limit:
                turn.level, turn.ticket = level, ticket
                break
            if turn.saver is None:
                if queueset.seats_in_use < limit:
                    turn.passed.append((level, ticket))
                parent = level.parent
                if wanted > level.most or parent in turn.saving:
                    continue
                if parent is not None:
                    turn.saving.append(parent)
                    if wanted > parent.room_within(level):
                        continue
                turn.saver = level
                levels = [one for one in levels if one.queueset.seats_in_use < self._limit_in_turn(one, turn)]
        return turn

    def _limit_in_turn(self, level: SharedLevel, turn: Turn) -> int:
        """What ``level`` may use when seats are saved up for those who came first."""
        parent = level.parent
        if turn.saver is None:
            return self.limit_of(level) if parent is None or parent not in turn.saving else level.least
        return level.least if parent is None or parent in turn.saving else parent.promised_to(level)

    def _note(self, now: int, level: SharedLevel) -> None:
        """Something has happened to ``level``: what it counts for, and whether anybody waits or is there at all."""
        queueset = level.queueset
        used = queueset.seats_in_use
        self._count(level, max(used, level.least))
        waits = queueset.waiting > 0 and not level.is_held
        has_stopped = level.waits and not waits
        if waits is not level.waits:
            level.waits = waits
            self._balance.advance(now, self.waiting)
            if waits:
                self.waiting.append(level)
                self._balance.join(now, level)
            else:
                self.waiting.remove(level)
                self._balance.leave(now, level)
            self._divide()
        drains = level.is_draining and used and not (queueset.waiting or queueset.parked)
        if drains and (has_stopped or used < level.least):
            self._wake_all()
            self._recount(now)  # it needs no more than what runs there, and others have the rest of their mins
        if not (used or queueset.waiting):
            if level.is_draining:
                if not queueset.parked:
                    self._forget(now, level)
            elif level.is_closing and level.least:
                self._wake_all()
                self._recount(now)  # it is closed, and promised nothing any more
            else:
                level.rest(now)

    # Looking

    def check(self) -> None:
        super().check()
        for level in self._all():
            lingers = level.queueset.next_event_at() is not None
            assert lingers is (level in self._lingering), f"whether {level!r} lingers"
        turn = self._survey(self._clock)
        assert turn.ticket is None, f"{turn.ticket!r} could sit and is left standing in {turn.level!r}"
