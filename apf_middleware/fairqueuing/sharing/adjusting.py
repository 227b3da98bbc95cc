"""Limits adjusted every ten seconds (``borrowing: periodic``), as in Kubernetes.

Between two adjustments each level has a fixed limit. At an adjustment the demand of each level in the last period is
measured, `adjust_limits` computes the new limits, and every queue set gets its limit.

No timer runs. A call first makes the adjustments that have become due since the last call. Each measures the demand at
its own time, so averages and smoothing are the same as with a timer. The limits of the last adjustment apply from the
call on; no request could have used them earlier. If many adjustments were missed, no request arrived or ended for a
long time, so each of them only lets old demand decay a little more. So the first `MOST_MADE_UP` are made one by one,
and the others, except the last, in one step.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing.disciplines import Discipline, EqualSerial
from apf_middleware.fairqueuing.queueset import QueueSet
from apf_middleware.fairqueuing.sharing.base import WITHOUT_SEATS, Sharing, Wanted
from apf_middleware.fairqueuing.sharing.borrowing import LevelDemand, adjust_limits, forget_demand
from apf_middleware.fairqueuing.sharing.grant import SeatGrant
from apf_middleware.fairqueuing.sharing.hierarchy import NO_HIERARCHY, Hierarchy
from apf_middleware.fairqueuing.sharing.level import LevelRecord, SharedLevel
from apf_middleware.fairqueuing.sharing.levels import SharedLevels
from apf_middleware.fairqueuing.sharing.limits import LevelLimits, LevelShares, limits_from_shares
from apf_middleware.fairqueuing.ticket import Reason, Ticket, TicketState
from apf_middleware.snapshots import SharingSnapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apf_middleware.exceptions import InfeasibleError

__all__ = ["ADJUSTMENT_PERIOD_NS", "MOST_MADE_UP", "Adjusting"]

ADJUSTMENT_PERIOD_NS = 10_000_000_000
"""The time between two adjustments, as in Kubernetes."""

MOST_MADE_UP = 60
"""The number of missed adjustments that are made one by one: those of ten minutes."""

_NEW: Final = TicketState.NEW
_WAITING: Final = TicketState.WAITING
_SEATED: Final = TicketState.SEATED
_NONE: Final[tuple[Ticket, ...]] = ()


class Adjusting(Sharing):
    """Share ``seats`` among the levels of ``wanted``; `adjust_limits`, with ``deduct_exempt``, computes their limits.

    ``discipline`` and ``room`` are as for a `QueueSet`, and ``may_rest`` as for a `SharedLevel`. ``fair_fraction`` and
    ``failure`` are those of the last adjustment; each level keeps its ``record`` of it.
    """

    __slots__ = (
        "_drained_at",
        "_due_at",
        "_levels",
        "_strict",
        "_waiting",
        "deduct_exempt",
        "failure",
        "fair_fraction",
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
        deduct_exempt: bool = False,
        now: int = 0,
        room: Callable[[int], int] | None = None,
    ) -> None:
        self._due_at = require_integer("now", now) + ADJUSTMENT_PERIOD_NS
        self._drained_at: int | None = None  # when a draining level was forgotten, until limits are adjusted
        SharedLevels.require(seats, wanted, hierarchy)
        make_queueset = partial(QueueSet, discipline=discipline, strict_upstream=strict_upstream, room=room)
        self._strict = strict_upstream
        self._waiting: list[SharedLevel] = []
        self._levels = levels = SharedLevels(make_queueset, may_rest=may_rest)
        # an adjustment may be due before any request, so every request must be passed to this object
        super().__init__(seats, levels.by_name, levels.draining, levels.parents, alone_until=0)
        self.deduct_exempt: bool = deduct_exempt
        self.fair_fraction: float = 0.0
        self.failure: InfeasibleError | None = None
        levels.adopt(now, wanted, hierarchy)
        self._adjust(now)
        self._apply(now)

    # What happens to tickets

    def arrive(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        queueset = level.queueset
        if ticket.state is not _NEW:
            return queueset.arrive(now, ticket)  # which raises the error
        ended = self._advance(now)
        if ticket.width <= level.alone_width and level.seat_alone(now, ticket):
            return [*ended, ticket] if ended else (ticket,)
        level.settle_alone()
        level.alone_width = 0
        level.lengthen(ticket)
        seated = queueset.arrive(now, ticket)
        self._note(now, level)
        return [*ended, *seated] if ended else seated

    def abandon(
        self, now: int, level: SharedLevel, ticket: Ticket, reason: Reason = Reason.TIME_OUT
    ) -> Sequence[Ticket]:
        queueset = level.queueset
        if ticket.state is not _WAITING or ticket.queueset is not queueset or reason not in queueset.rejected:
            return queueset.abandon(now, ticket, reason)  # which raises the error
        ended = self._advance(now)
        # an adjustment that was due has seated it, or let a gate reject it
        if not ticket.is_waiting:
            return ended
        seated = queueset.abandon(now, ticket, reason)
        self._note(now, level)
        return [*ended, *seated, *self._adjust_drained(now)]

    def arrive_parked(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        ended = self.tick(now)
        level.settle_alone()
        level.alone_width = 0
        level.lengthen(ticket)
        level.queueset.arrive_parked(now, ticket)
        return ended

    def unpark(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        ended = self._advance(now)
        level.settle_alone()
        level.alone_width = 0
        seated = level.queueset.unpark(now, ticket)
        self._note(now, level)
        return [*ended, *seated]

    def release(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        queueset = level.queueset
        if ticket.state is not _SEATED or ticket.queueset is not queueset:
            return queueset.release(now, ticket)  # which raises the error
        ended = self._advance(now)
        # an adjustment would have settled the lone request, so ``ended`` is empty here
        if level.alone is ticket:
            return level.release_alone(now, ticket)
        seated = queueset.release(now, ticket)
        self._note(now, level)
        if self._drained_at is not None:
            return [*ended, *seated, *self._adjust_drained(now)]
        return [*ended, *seated] if ended else seated

    # Time

    def tick(self, now: int) -> Sequence[Ticket]:
        seated = list(self._advance(now))
        # a copy, because `_note` may forget a level
        for level in list(self._levels):
            ends_at = level.queueset.next_event_at()
            if ends_at is not None and ends_at <= now:
                seated += level.queueset.tick(now)
                self._note(now, level)
        return [*seated, *self._adjust_drained(now)]

    def next_event_at(self) -> int | None:
        # Only waiting requests can use more seats. If none waits, the next call makes up for missed adjustments.
        due = [self._due_at] if self._waiting else []
        if self._drained_at is not None:
            due.append(self._drained_at)
        ends = (level.queueset.next_event_at() for level in self._levels)
        return min([*due, *(ends_at for ends_at in ends if ends_at is not None)], default=None)

    def _advance(self, now: int) -> Sequence[Ticket]:
        """Make the adjustments that were due by ``now``; the queue sets check that it is an integer."""
        if now.__class__ is not int or now < self._due_at:
            return _NONE
        self._levels.settle_alone()
        missed = (now - self._due_at) // ADJUSTMENT_PERIOD_NS + 1
        for _ in range(min(missed, MOST_MADE_UP)):
            self._adjust(self._due_at)
            self._due_at += ADJUSTMENT_PERIOD_NS
        if missed > MOST_MADE_UP:
            skipped = missed - MOST_MADE_UP - 1
            self._due_at += skipped * ADJUSTMENT_PERIOD_NS
            self._adjust(self._due_at, skipped)
            self._due_at += ADJUSTMENT_PERIOD_NS
        return self._apply(now)

    def _adjust_drained(self, now: int) -> Sequence[Ticket]:
        """Adjust the limits at once if a draining level has been forgotten; the regular adjustments keep their times.

        Kubernetes does the same: when a level has drained, it processes its configuration again, and adjusts.
        """
        if self._drained_at is None:
            return _NONE
        self._drained_at = None
        self._levels.settle_alone()
        self._adjust(now)
        return self._apply(now)

    # Seats

    def limit_of(self, level: SharedLevel) -> int:
        return level.queueset.concurrency

    def _adjust(self, at: int, skipped: int = 0) -> None:
        """Measure the demand at this time, after ``skipped`` adjustments were left out, and compute new limits."""
        # A draining level may have the same name as another one.
        levels = dict(self.levels) | {f"{level.name}\0{place}": level for place, level in enumerate(self.draining)}
        limits = self._limits_now()
        level_demands = {name: _level_demand(at, level, limits[level], skipped) for name, level in levels.items()}
        adjustment = adjust_limits(level_demands, deduct_exempt=self.deduct_exempt)
        self.fair_fraction, self.failure = adjustment.fair_fraction, adjustment.failure
        for name, level in levels.items():
            level.record = LevelRecord(level_demands[name].demand, adjustment.levels[name])

    def _limits_now(self) -> dict[SharedLevel, LevelLimits]:
        """Return the limits of all levels; while some drain, the others may have less.

        A draining level has its own limits for as long as requests wait there, and then the seats that it uses. With
        ``strict_upstream``, the seats are divided by the shares of all levels until the draining ones are idle.
        """
        if self._strict and self.draining:
            shares = {one: one.shares or LevelShares(one.limits.nominal, exempt=one.exempt) for one in self._levels}
            return limits_from_shares(self.seats, shares, strict_upstream=True)
        found = {level: level.limits for level in self._levels}
        leaving = 0
        for level in self.draining:
            queueset, limits = level.queueset, level.limits
            # one seat at least, because otherwise its requests would never be served
            nominal = max(limits.nominal, 1)
            if not (queueset.waiting or queueset.parked):
                nominal = min(nominal, queueset.seats_in_use)
            found[level] = LevelLimits(nominal, min(max(limits.min, 1), nominal), max(limits.max, nominal))
            leaving += nominal
        nominal = sum(level.limits.nominal for level in self.levels.values())
        room = max(self.seats - leaving, 0)
        if leaving and nominal > room:
            found |= {level: _part_of(level.limits, room, nominal) for level in self.levels.values()}
        return found

    def _apply(self, now: int) -> Sequence[Ticket]:
        """Apply the limits of the last adjustment, and seat tickets within them."""
        seated: list[Ticket] = []
        limits_now = self._limits_now()
        for level in list(self._levels):
            assert level.record is not None, "an adjustment has been made"
            limits, current = limits_now[level], level.record.adjustment.current
            level.most = level.ceiling = limits.max
            # a limit in force is a promise until the next adjustment
            level.least = 0 if level.exempt else current
            settings = level.settings if limits.max or level.exempt else WITHOUT_SEATS
            allowed = 0 if level.is_held else min(current, max(level.cap, limits.min))
            seated += level.queueset.reconfigure(now, replace(settings, concurrency=allowed))
            level.alone_width = 0
            self._note(now, level)
        return seated

    def _note(self, now: int, level: SharedLevel) -> None:
        queueset = level.queueset
        waits = queueset.waiting > 0
        if waits is not level.waits:
            level.waits = waits
            if waits:
                self._waiting.append(level)
            else:
                self._waiting.remove(level)
        if not waits and queueset.is_idle:
            if level.is_draining:
                if self._levels.forget(level):
                    self._drained_at = now
            else:
                level.allow_alone(now)

    # Levels

    def reconfigure(
        self, now: int, seats: int, wanted: Wanted, hierarchy: Hierarchy = NO_HIERARCHY
    ) -> Sequence[Ticket]:
        SharedLevels.require(seats, wanted, hierarchy)
        ended = self.tick(now)
        self._levels.settle_alone()
        self._resize(seats)
        self._levels.adopt(now, wanted, hierarchy)
        self._adjust(now)
        return [*ended, *self._apply(now)]

    def operate(self, now: int, level: SharedLevel, *, held: bool = False, closing: bool = False) -> Sequence[Ticket]:
        ended = self.tick(now)
        self._levels.operate(level, held=held, closing=closing)
        return [*ended, *self._apply(now)]

    def cap(self, now: int, caps: "Mapping[str, int]", pause_ns: int = 0) -> Sequence[Ticket]:
        ended = self.tick(now)
        self._levels.cap(caps, pause_ns)
        return [*ended, *self._apply(now)]

    def restrict(self, now: int, grant: SeatGrant | None) -> Sequence[Ticket]:  # noqa: ARG002
        raise InvalidValueError("grant", grant, "seats that are adjusted from time to time can't be shared by a fleet")

    def forget_drained(self, now: int) -> Sequence[Ticket]:
        ended = self._advance(now)
        for level in self._levels.leaving():
            self._note(now, level)
        return [*ended, *self._adjust_drained(now)]

    # Looking

    def snapshot(self) -> SharingSnapshot:
        return self._levels.snapshot(self.seats)

    def check(self) -> None:
        self._levels.check()
        for level in self._levels:
            waits = level.queueset.waiting > 0
            assert level.waits is waits is (level in self._waiting), f"whether {level!r} waits"


def _part_of(limits: LevelLimits, seats: int, total: int) -> LevelLimits:
    """Return ``limits`` with ``seats`` / ``total`` of the nominal seats, rounded down, but not to 0."""
    nominal = max(limits.nominal * seats // total, min(limits.nominal, 1))
    return LevelLimits(nominal, min(limits.min, nominal), limits.max)


def _level_demand(at: int, level: SharedLevel, limits: LevelLimits, skipped: int) -> LevelDemand:
    """Return the demand of ``level`` at this time, and begin its next period."""
    queueset = level.queueset
    current = queueset.concurrency
    queueset.concurrency = 0  # free the seats of lingers that end by then, but seat no ticket: that time has passed
    queueset.tick(at)
    queueset.concurrency = current
    smoothed = 0.0
    if level.record is not None:
        current = level.record.adjustment.current  # if several are made at once, that of the one before
        smoothed = level.record.adjustment.smoothed
    if skipped:
        smoothed = forget_demand(smoothed, queueset.seats_in_use + queueset.seats_waiting, skipped)
    if level.is_closing and level.is_idle:  # it is closed, and promised nothing
        limits = LevelLimits(limits.nominal, 0, limits.max)
    return LevelDemand(limits, queueset.demand.reset(at), smoothed, current, exempt=level.exempt)
