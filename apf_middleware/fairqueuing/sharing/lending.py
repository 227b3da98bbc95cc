"""Seats lent and reclaimed at each dispatch (``borrowing: immediate``, the default).

**What a level may use.** T seats are shared among the levels (see `ledger`). The *count* of a limited level is the
seats that it uses or its min, whichever is larger. The count of an exempt level is the seats that it uses. F is T minus
all counts. At this moment a level may use

    L = F + the level's own count,   but at least its min and at most its max.

A *held* level (for example one that an operator has paused) seats no request. Nor does a level that uses as many seats
as its *cap*, as long as its min doesn't promise more; its waiting requests want no seats then, so none are saved up for
them, and other levels may use what is free. Every other level is always served within its min, even when exempt
requests use all seats. Beyond its min a level is served only as long as the others can still get their mins.

A level's own dispatches don't change its L: where they increase its count, they reduce F by the same number. So the
queue set can seat several tickets in one call. Before the call, `Lending` sets the queue set's ``concurrency`` to L
(*steering*). The max of a level is at most the seats of the server minus the mins of the other levels, or the level's
own min if that is larger. (The mins of draining levels, see below, are subtracted only when the max of another draining
level is computed.) A level with a parent may use the parent's limit minus the counts of its siblings, but at least its
own min and at most its own max.

**Turns.** When seats are free and several levels wait, `scheduling` decides which level is served next. Tickets are
seated one at a time, because each of them changes the order.

**Every ticket is seated in the end.** A ticket that is wider than its level's max is seated when nothing else of its
level runs, as if it asked for that max. If nothing runs in any level, the L of the level that comes first equals its
max, so its ticket is seated. (The min of a draining level, see below, reduces the L of the other levels, but only while
requests wait for seats there, and then that level itself comes first.) If requests run and the first ticket doesn't
fit, the seats that it still needs are occupied by requests of its own level, or of other levels that use more than
their mins. When such a request ends, its seats become free.

**Draining levels** are levels that a reload has removed and that still have requests. A draining level keeps its min,
max and weight for as long as requests wait there. Whenever the scheduler divides the seats (`LevelScheduler.divide`),
draining levels get their nominal seats before the other levels get theirs. (A fleet's grant says what its member's
draining levels deserve beside the others.) So a reload that renames or removes a level changes nothing for the requests
of that level, with two exceptions: if the sum of all mins reaches the number of seats, the min of a draining level is
one seat, unless it is within the min of its parent; and when all waiting requests of the level wait for gates, it loses
the part of its min that it doesn't use. While a draining level needs a part of its min, no other level is promised more
than before it began to drain. Otherwise a reload could let the server run more requests than it has seats for.

**Virtual time.** The virtual time R of a level (see `equal_serial`) must advance at the rate at which the level is
served, that is, in proportion to the seats that the level actually uses. If R ran faster than service while seats are
lent to others, all backlogged flows would lag behind R. A new flow starts at R, so it would be served after all of
them, however little it asks for. If R ran slower than service, a new flow would be served alone until it has caught up
with the others. L isn't the number of seats in use: it changes whenever another level seats or releases a request, and
it includes free seats that are being saved up for tickets of other levels. So R advances in proportion to the seats in
use, which change only when the level itself seats or releases a request.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from apf_middleware.exceptions import ClockError, InvalidValueError, require_integer
from apf_middleware.fairqueuing.disciplines import Discipline, EqualSerial
from apf_middleware.fairqueuing.queueset import QueueSet
from apf_middleware.fairqueuing.sharing.balance import Balance
from apf_middleware.fairqueuing.sharing.base import WITHOUT_SEATS, Sharing, Wanted
from apf_middleware.fairqueuing.sharing.grant import LEASED_FOR_EVER, SeatGrant
from apf_middleware.fairqueuing.sharing.hierarchy import NO_HIERARCHY, Hierarchy
from apf_middleware.fairqueuing.sharing.ledger import SeatLedger, is_parent_closed
from apf_middleware.fairqueuing.sharing.level import SharedLevel
from apf_middleware.fairqueuing.sharing.levels import SharedLevels
from apf_middleware.fairqueuing.sharing.scheduling import Decision, LevelScheduler
from apf_middleware.fairqueuing.ticket import IS_PURE, Reason, Ticket, TicketState
from apf_middleware.snapshots import SharingSnapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apf_middleware.fairqueuing.seats import Passed

__all__ = ["Lending"]

_NEW: Final = TicketState.NEW
_WAITING: Final = TicketState.WAITING
_SEATED: Final = TicketState.SEATED
_NONE: Final[tuple[Ticket, ...]] = ()
_NEVER: Final = LEASED_FOR_EVER  # in nanoseconds; the largest integer that the compiled build keeps without an object


class Lending(Sharing):
    """Share ``seats`` among the levels of ``wanted``, lending them at each dispatch.

    ``discipline`` and ``room`` are as for a `QueueSet`. If ``may_rest`` is true, a request that is alone in its level
    bypasses the queue set (see `level`). If it is false, every request is passed to the queue set at once. The results
    are the same, but each request costs more.
    """

    __slots__ = (
        "_backfills",
        "_balance",
        "_clock",
        "_hierarchy",
        "_is_restless",
        "_levels",
        "_lingering",
        "_passed",
        "_scheduler",
        "_turns",
        "grant",
        "ledger",
        "waiting",
    )

    def __init__(
        self,
        seats: int,
        wanted: Wanted,
        *,
        discipline: Callable[[int, int], Discipline[Any]] = EqualSerial,
        strict_upstream: bool = False,
        may_rest: bool = True,
        hierarchy: Hierarchy = NO_HIERARCHY,
        now: int = 0,
        room: Callable[[int], int] | None = None,
    ) -> None:
        self._clock = require_integer("now", now)
        SharedLevels.require(seats, wanted, hierarchy)
        self.ledger: SeatLedger = SeatLedger()
        self._balance = Balance(now)
        self._scheduler = LevelScheduler(self.ledger, self._balance)
        make_queueset = partial(QueueSet, discipline=discipline, strict_upstream=strict_upstream, room=room)
        self._levels = levels = SharedLevels(make_queueset, may_rest=may_rest, limit_of=self.ledger.limit_of)
        super().__init__(seats, levels.by_name, levels.draining, levels.parents, alone_until=_NEVER)
        self.waiting: list[SharedLevel] = self._scheduler.waiting
        self._lingering: list[SharedLevel] = []
        self.grant: SeatGrant | None = None
        self._hierarchy = hierarchy
        self._is_restless = self._backfills = False
        self._passed: Passed = {}
        self._turns = 0
        levels.adopt(now, wanted, hierarchy)
        self._recount(now)

    # The life of a ticket

    def arrive(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        if (
            ticket.width <= level.alone_width
            and now < self.alone_until
            and not (level.exempt and len(self.waiting) > 1)  # the turns of several levels may change by it
            and level.seat_alone(now, ticket)
        ):
            if level.exempt:  # the count of a limited level doesn't change: it is the min, which includes this seat
                level.counted = 1
                self.ledger.free -= 1
            return (ticket,)
        queueset = level.queueset
        if ticket.state is not _NEW:
            return queueset.arrive(now, ticket)  # which raises the error
        ended = _NONE if self._clock <= now < self.alone_until and not self._is_restless else self._advance(now)
        if level.alone is not None or level.settled_count != level.alone_count:
            level.settle_alone()  # first account for requests that bypassed the queue set
        level.alone_width = 0
        waiting = self.waiting
        if not level.is_common:
            seated = self._arrive_apart(now, level, ticket)
        elif not waiting or (len(waiting) == 1 and (level.waits or level.exempt)):
            # Most requests take this branch, so it computes the limit and the counts without calling other methods.
            ledger = self.ledger
            limit = ledger.free + level.counted  # the free seats, and those that count for this level already
            if limit > level.most:  # noqa: PLR1730 - min() and max() take three times as long
                limit = level.most
            queueset.concurrency = limit if limit > level.least else level.least  # noqa: FURB136
            seated = queueset.arrive(now, ticket)
            self._clock = now
            used = queueset.seats_in_use
            counted = used if used > level.least else level.least  # noqa: FURB136
            ledger.free -= counted - level.counted
            level.counted = counted
            if not used or level.waits is not (queueset.waiting > 0):
                self._note(now, level)  # otherwise only the counts above have changed
        else:
            seated = self._arrive_among_others(now, level, ticket)
        return [*ended, *seated] if ended else seated

    def _arrive_apart(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Let ``ticket`` arrive at a level that has a parent or a cap, is held, is closing, or is draining."""
        waiting = self.waiting
        level.lengthen(ticket)
        if level.queueset.is_quiescing or level.is_stopped:
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
        """Let ``ticket`` arrive while other levels wait.

        The ticket gets seats within its level's min. Beyond the min it gets seats only if none of the waiting levels
        comes before its own level. Otherwise the ticket waits, or is rejected if its level has no queues.

        A ticket that is seated without a queue may change the turns of the levels, and so may the time that passes
        before one is rejected: another ticket may fit now.
        """
        queueset = level.queueset
        if level.exempt:
            queueset.concurrency = 0  # which its queue set ignores
        elif not queueset.settings.queues:
            queueset.concurrency = self._scheduler.limit_of_newcomer(now, level, ticket.width)
        elif not level.waits and queueset.seats_in_use + ticket.width <= level.least:
            queueset.concurrency = level.least
        else:
            queueset.concurrency = 0
        seated = queueset.arrive(now, ticket)
        self._clock = now
        self._note(now, level)
        if (ticket.state is _WAITING or not queueset.settings.queues) and self._scheduler.may_seat():
            return [*seated, *self._dispatch(now)]
        return seated

    def abandon(
        self, now: int, level: SharedLevel, ticket: Ticket, reason: Reason = Reason.TIME_OUT
    ) -> Sequence[Ticket]:
        queueset = level.queueset
        if ticket.state is not _WAITING or ticket.queueset is not queueset or reason not in queueset.rejected:
            return queueset.abandon(now, ticket, reason)  # which raises the error
        ended = self._advance(now)
        if not ticket.is_waiting:
            return ended
        queueset.concurrency = 0
        queueset.abandon(now, ticket, reason)
        self._note(now, level)
        seated = self._dispatch(now) if self.waiting else _NONE
        return [*ended, *seated] if ended else seated

    def arrive_parked(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        ended = self._advance(now)
        level.settle_alone()
        level.alone_width = 0
        level.lengthen(ticket)
        level.queueset.arrive_parked(now, ticket)
        return ended

    def unpark(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        ended = self._advance(now)
        level.settle_alone()
        level.alone_width = 0
        level.queueset.concurrency = 0
        level.queueset.unpark(now, ticket)
        self._note(now, level)
        return [*ended, *self._dispatch(now)]

    def release(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        # If ``ticket`` is alone in its level, it has one seat. In a limited level that seat is within the level's min,
        # so no other level may use it. Other levels may use the seat of an exempt level; if any of them waits,
        # `_release_apart` gives the seat to the next one.
        is_early = (not IS_PURE or now.__class__ is int) and now < self.alone_until
        if is_early and level.alone is ticket and not (level.exempt and self.waiting):
            level.release_alone(now, ticket)
            if level.exempt:
                level.counted = 0
                self.ledger.free += 1
            return _NONE
        queueset = level.queueset
        if ticket.state is not _SEATED or ticket.queueset is not queueset:
            return queueset.release(now, ticket)  # which raises the error
        if level.alone is not None or not level.is_common:
            return self._release_apart(now, level, ticket)
        ended = _NONE if self._clock <= now < self.alone_until and not self._is_restless else self._advance(now)
        ledger, waiting = self.ledger, self.waiting
        others_wait = waiting and not (level.waits and len(waiting) == 1)
        if others_wait:  # the seats go to the next level in turn, which may be another one
            queueset.concurrency = 0
            self._balance.observe((now - ticket.seated_at) * ticket.width)
        else:
            limit = ledger.free + level.counted
            if limit > level.most:  # noqa: PLR1730 - min() and max() take three times as long
                limit = level.most
            queueset.concurrency = limit if limit > level.least else level.least  # noqa: FURB136
        seated = queueset.release(now, ticket)
        self._clock = now
        used = queueset.seats_in_use
        counted = used if used > level.least else level.least  # noqa: FURB136
        ledger.free -= counted - level.counted
        level.counted = counted
        if ticket.work.linger_ns:
            self._let_linger(level)
        if not used or level.waits is not (queueset.waiting > 0):
            self._note(now, level)
        if others_wait:
            seated = [*seated, *self._dispatch(now)]
        return [*ended, *seated] if ended else seated

    def _release_apart(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Release ``ticket``, which is alone, or whose level has a parent or a cap, is held, closing or draining.

        The seats go to the next levels in turn.
        """
        level.settle_alone()
        ended = self._advance(now)
        level.queueset.concurrency = 0
        if self.waiting:
            self._balance.observe((now - ticket.seated_at) * ticket.width)
        level.queueset.release(now, ticket)
        self._clock = now
        if ticket.work.linger_ns:
            self._let_linger(level)
        self._note(now, level)
        seated = self._dispatch(now) if self.waiting else _NONE
        return [*ended, *seated] if ended else seated

    # Time

    def _advance(self, now: int) -> Sequence[Ticket]:
        """Free the seats of lingers that have ended by ``now``, and seat the next tickets."""
        if now.__class__ is not int or now < self._clock:
            _raise_time_error(now, self._clock)
        self._clock = now
        if now < self.alone_until:
            return self._dispatch(now) if self._is_restless and self._scheduler.may_seat() else _NONE
        if self.grant is not None and now >= self.grant.lease_until:
            self._levels.settle_alone()
            self.grant = self.grant.lapsed()
            self._recount(now)
        due = [level for level in self._lingering if (level.queueset.next_event_at() or 0) <= now]
        for level in due:
            level.queueset.concurrency = 0
            level.queueset.tick(now)
        # If a level has drained, `_note` reconfigures the queue sets of other levels, which ends their due lingers as a
        # side effect. All due lingers must end in the loop above, so `_note` is called only in this second loop.
        for level in due:
            self._note(now, level)
        self._lingering = [level for level in self._lingering if level.queueset.next_event_at() is not None]
        self._find_first_end()
        return self._dispatch(now) if self.waiting else _NONE

    def _let_linger(self, level: SharedLevel) -> None:
        if level not in self._lingering:
            self._lingering.append(level)
        self._find_first_end()

    def _find_first_end(self) -> None:
        ends = (level.queueset.next_event_at() for level in self._lingering)
        lease_until = _NEVER if self.grant is None else self.grant.lease_until
        self._let_seat_alone(until=min([lease_until, *(ends_at for ends_at in ends if ends_at is not None)]))

    def tick(self, now: int) -> Sequence[Ticket]:
        return self._advance(now)

    def next_event_at(self) -> int | None:
        return self.alone_until if self.alone_until < _NEVER else None

    # Turns

    def _dispatch(self, now: int) -> Sequence[Ticket]:
        """Seat tickets in turn, one by one."""
        seated: list[Ticket] = []
        scheduler = self._scheduler
        is_contended = len(self.waiting) > 1
        if not scheduler.may_seat():
            scheduler.update(now)  # as there are fewer seats now, some may have been given back that no level gets
        while scheduler.may_seat():
            decision = scheduler.survey(now)
            level, ticket = decision.level, decision.ticket
            backfill = None
            if ticket is None and self._backfills and (backfill := scheduler.find_backfill(decision)) is not None:
                level, ticket = backfill.level, backfill.ticket
            if level is None or ticket is None:
                if self._park_blocked(now, decision):
                    continue
                for one, blocked in decision.blocked:
                    one.queueset.no_accommodation += 1
                    blocked.pass_over()
                break
            level.queueset.tick(now)  # the queue set must be up to date before it seats a ticket
            # Gates are asked last, so that no ticket takes leases and then finds no seat.
            gatekeeper = level.queueset.gatekeeper
            if gatekeeper is not None and not gatekeeper.admits(now, ticket):
                self._note(now, level)
                continue
            level.queueset.seat_head(now, ticket)
            if backfill is not None:
                backfill.note_seated()
            if is_contended:  # turns and lags (see `balance`) matter only while several levels wait
                self._turns += 1
                level.turn = self._turns
            level.used_before = level.queueset.seats_in_use
            seated.append(ticket)
            self._note(now, level)
        return seated

    def _park_blocked(self, now: int, decision: Decision) -> bool:
        """Park or refuse one blocked ticket that can't pass its gates now; return False if there is none."""
        for level, ticket in decision.blocked:
            gatekeeper = level.queueset.gatekeeper
            if gatekeeper is not None and gatekeeper.bars(now, ticket):
                self._note(now, level)
                return True
        return False

    # After each step

    def _note(self, now: int, level: SharedLevel) -> None:
        """Update the count and the state of ``level`` after a change.

        The state is whether the level has waiting requests, is idle, or has drained.
        """
        queueset = level.queueset
        used = queueset.seats_in_use
        self.ledger.count(level, max(used, level.least))
        waits = level.wants_seats
        has_changed = waits is not level.waits
        if has_changed:
            self._note_waits(now, level, waits=waits)
        if level.is_draining and (used or queueset.waiting or queueset.parked):
            # Without requests that wait for seats the level needs only those in use, and the rest of its min becomes
            # free. If then a request comes back from a gate, the level may need one seat to finish. Without any request
            # that waits, a level without a min doesn't keep others from getting higher mins.
            is_over = not (level.least or queueset.parked)
            has_less = not queueset.waiting and (has_changed or is_over or used < level.least)
            if has_less or (has_changed and waits and not level.least):
                self._levels.settle_alone()
                self._recount(now)
        if used or queueset.waiting:
            return
        if level.is_draining:
            if not queueset.parked:
                self._forget(now, level)
        elif level.is_closing and (level.least or self._is_last_of_parent(level)):
            self._levels.settle_alone()  # a closed and idle level has no min any more, nor has a parent of such levels
            self._recount(now)
        else:
            level.allow_alone(now)

    def _is_last_of_parent(self, level: SharedLevel) -> bool:
        """Return whether the parent of ``level`` has been closed by it, and is still promised its min."""
        parent = level.parent
        return parent is not None and parent.least > 0 and is_parent_closed(parent, self._levels)

    def _note_waits(self, now: int, level: SharedLevel, *, waits: bool) -> None:
        self._balance.advance(now, self.waiting)
        if waits:
            self.waiting.append(level)
        else:
            self.waiting.remove(level)
        self._tell_balance(now, level, waits=waits)
        self._scheduler.divide()

    def _tell_balance(self, now: int, level: SharedLevel, *, waits: bool) -> None:
        level.waits = waits
        if waits:
            self._balance.join(now, level)
        else:
            self._balance.leave(now, level)

    def _forget(self, now: int, level: SharedLevel) -> None:
        """Forget ``level``, which has drained, unless an earlier call has forgotten it already."""
        if self._levels.forget(level):
            self._levels.settle_alone()
            self._recount(now)

    # Levels

    def limit_of(self, level: SharedLevel) -> int:
        return self.ledger.limit_of(level)

    def reconfigure(
        self, now: int, seats: int, wanted: Wanted, hierarchy: Hierarchy = NO_HIERARCHY
    ) -> Sequence[Ticket]:
        SharedLevels.require(seats, wanted, hierarchy)
        ended = self._advance(now)
        self._levels.settle_alone()
        self._resize(seats)
        self._hierarchy = hierarchy
        self._levels.adopt(now, wanted, hierarchy)
        self._recount(now)
        return [*ended, *self._dispatch(now)]

    def restrict(self, now: int, grant: SeatGrant | None) -> Sequence[Ticket]:
        ended = self._advance(now)
        self._levels.settle_alone()
        self.grant = grant if grant is None or now < grant.lease_until else grant.lapsed()
        self._recount(now)
        self._find_first_end()
        return [*ended, *self._dispatch(now)]

    def operate(self, now: int, level: SharedLevel, *, held: bool = False, closing: bool = False) -> Sequence[Ticket]:
        ended = self._advance(now)
        self._levels.operate(level, held=held, closing=closing)
        self._recount(now)
        return [*ended, *self._dispatch(now)]

    def cap(self, now: int, caps: "Mapping[str, int]", pause_ns: int = 0) -> Sequence[Ticket]:
        ended = self._advance(now)
        self._levels.cap(caps, pause_ns)
        self._recount(now)
        return [*ended, *self._dispatch(now)]

    def forget_drained(self, now: int) -> Sequence[Ticket]:
        ended = self._advance(now)
        for level in self._levels.leaving():
            self._note(now, level)
        return [*ended, *self._dispatch(now)]

    def _recount(self, now: int) -> None:
        """Compute all counts again, because levels, limits or seats have changed."""
        levels = list(self._levels)
        self.ledger.promise(self.seats, levels, self.parents.values())
        if self.grant is not None:
            self.ledger.restrict(self.grant, levels, self.parents.values())
        self._weigh(self.grant)
        self._balance.advance(now, self.waiting)
        self._backfills = any(level.settings.backfill for level in levels)
        self._is_restless = any(level.queueset.discipline.is_restless for level in levels)
        self.waiting.clear()
        for level in levels:
            queueset = level.queueset
            level.is_common = level.parent is None and level.is_open
            settings = level.settings if level.ceiling or level.exempt else WITHOUT_SEATS
            queueset.concurrency = 0  # so that the queue set seats no ticket; `_dispatch` seats them in turn
            queueset.reservation.join(self._passed)  # shared by all: a ticket may pass tickets of several levels
            if settings != queueset.settings or level.ceiling != queueset.ceiling:
                queueset.reconfigure(now, settings, level.ceiling)
            level.counted = 0
            self.ledger.count(level, max(queueset.seats_in_use, level.least))
            waits = level.wants_seats
            if waits is not level.waits:  # it has been paused, resumed, or its cap has changed
                self._tell_balance(now, level, waits=waits)
            if waits:
                self.waiting.append(level)
            level.alone_width = 0
            if queueset.is_idle:
                level.allow_alone(now)
        # Only now, because a level that has stopped waiting is charged if it uses more than it has deserved.
        self._balance.entitle(levels, self.parents.values(), self.ledger.total)
        self._scheduler.divide()

    def _weigh(self, grant: SeatGrant | None) -> None:
        """Set the weights of levels and parents: those of the ``grant``, or else those of the configuration."""
        granted = {} if grant is None else grant.levels
        sums: dict[str, int] = {}
        for level in self._levels:
            part = granted.get(level.name)
            level.before_others = level.limits.nominal if part is None else 0
            if not level.is_draining:
                level.weight = self._hierarchy.weight(level.name, level.limits)
            if part is not None and level.weight:
                level.weight = max(part.weight, 1)
            if level.parent is not None:
                sums[level.parent.name] = sums.get(level.parent.name, 0) + level.weight
        for name, parent in self.parents.items():
            parent.weight = sums.get(name, 0) if granted else self._hierarchy.weight(name, parent.limits)

    # Looking

    def snapshot(self) -> SharingSnapshot:
        return self._levels.snapshot(self.seats)

    def check(self) -> None:
        levels = list(self._levels)
        for level in levels:
            level.queueset.concurrency = 0  # with an old limit, the check would report tickets that could be seated
        self._levels.check()
        seats = self.seats if self.grant is None else self.grant.seats
        self.ledger.check(seats, levels, self.parents.values())
        for level in levels:
            assert level.waits is level.wants_seats is (level in self.waiting), f"whether {level!r} waits"
            lingers = level.queueset.next_event_at() is not None
            assert lingers is (level in self._lingering), f"whether {level!r} lingers"
        # Lags and turns change with time, and count only when something happens; queue sets' clocks can't go back.
        decision = self._scheduler.survey(self._clock if self._is_restless else self._balance.clock)
        assert decision.ticket is None, f"{decision.ticket!r} could be seated in {decision.level!r}"


def _raise_time_error(now: object, last: int) -> NoReturn:
    """Raise the error for an invalid ``now``, after a call at the time ``last``."""
    if not isinstance(now, int) or isinstance(now, bool):
        raise InvalidValueError("now", now, "it must be an integer of nanoseconds")
    raise ClockError.between(last, now)
