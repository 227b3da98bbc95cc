"""The plain twin of `Lending`: recomputes everything from scratch at each step, and keeps no sums.

Levels have one queue here, so that the order within a level is the order of arrival; fair queuing has twins of its own.
"""

from dataclasses import dataclass, field
from fractions import Fraction

from apf_middleware.fairqueuing import LevelLimits, Reason, Work

__all__ = ["PlainLending", "PlainLevel", "PlainTicket"]


@dataclass(eq=False)
class PlainTicket:
    number: int
    work: Work
    state: str = "new"
    reason: Reason | None = None
    ends_at: int = 0


@dataclass(eq=False)
class PlainLevel:
    name: str
    limits: LevelLimits
    exempt: bool = False
    queue_length_limit: int = 0  # 0: nobody waits
    backfill: int = 0
    is_draining: bool = False
    turn: int = 0
    waiting: list[PlainTicket] = field(default_factory=list)
    running: list[PlainTicket] = field(default_factory=list)
    lingering: list[PlainTicket] = field(default_factory=list)
    head: PlainTicket | None = None  # for whom seats are saved up
    rounds: dict[int, int] = field(default_factory=dict)  # that each has begun, by its number
    passers: list[PlainTicket] = field(default_factory=list)  # who was seated before the head in this round

    @property
    def used(self) -> int:
        return sum(ticket.work.width for ticket in self.running + self.lingering)

    @property
    def is_idle(self) -> bool:
        return not (self.waiting or self.running or self.lingering)


class PlainLending:
    def __init__(self, seats: int, levels: list[PlainLevel]) -> None:
        self.seats = seats
        self.levels = levels
        self.turns = 0

    # Limits

    def _limited(self) -> list[PlainLevel]:
        return [level for level in self.levels if not level.exempt]

    @property
    def total(self) -> int:
        return max(self.seats, sum(level.limits.min for level in self._limited()))

    def most(self, level: PlainLevel) -> int:
        others = sum(other.limits.min for other in self._limited() if other is not level)
        return min(level.limits.max, self.total - others)

    def limit(self, level: PlainLevel) -> int:
        taken = sum(
            other.used if other.exempt else max(other.used, other.limits.min)
            for other in self.levels
            if other is not level
        )
        return max(level.limits.min, min(self.most(level), self.total - taken))

    def rank(self, level: PlainLevel) -> tuple[int, Fraction, int, str, bool]:
        used, limits = level.used, level.limits
        group = 0 if used < limits.min else 1 if used < limits.nominal else 2 if limits.nominal else 3
        return (group, Fraction(used, limits.nominal or 1), level.turn, level.name, level.is_draining)

    def _wanted(self, level: PlainLevel, width: int) -> int | None:
        """What the level would count for with this ticket; None while its own max forbids it."""
        most = self.most(level)
        if width > most:
            return None if level.running or level.used >= most else most
        return level.used + width if level.used + width <= most else None

    def _saver(self) -> PlainLevel | None:
        """For whom seats are saved up, when nobody can be seated."""
        for level in sorted((level for level in self.levels if level.waiting), key=self.rank):
            if self._wanted(level, level.waiting[0].work.width) is not None:
                return level
        return None

    # What happens

    def _seat(self, level: PlainLevel, ticket: PlainTicket) -> None:
        if not level.exempt:
            ticket.work = ticket.work.within(self.most(level))
        ticket.state = "seated"
        level.running.append(ticket)

    def dispatch(self) -> list[int]:
        seated = []
        is_contended = sum(bool(level.waiting) for level in self.levels) > 1
        while (level := self._next() or self._next_passing()) is not None:
            ticket = level.waiting.pop(0)
            self._seat(level, ticket)
            seated.append(ticket.number)
            if is_contended:
                self.turns += 1
                level.turn = self.turns
        return seated

    def _next(self) -> PlainLevel | None:
        saves = False
        for level in sorted((level for level in self.levels if level.waiting), key=self.rank):
            wanted = self._wanted(level, level.waiting[0].work.width)
            if wanted is None:
                continue
            if wanted <= (level.limits.min if saves else self.limit(level)):
                return level
            saves = True
        return None

    def _next_passing(self) -> PlainLevel | None:
        """Who may be seated although it's the turn of others, for whom too few seats are free."""
        if not any(level.backfill for level in self.levels):
            return None
        saver = self._saver()
        for level in sorted((level for level in self.levels if level.waiting), key=self.rank):
            limit, width = self.limit(level), level.waiting[0].work.width
            if level.used >= limit:
                continue
            wanted = self._wanted(level, width)
            if wanted is None or wanted > limit:
                self._lets_pass(level)  # and there is nobody else in its level
            elif level.used + width <= level.limits.min:
                return level
            elif saver is not None and self._lets_pass(saver):
                saver.passers.append(level.waiting[0])
                return level
        return None

    def _lets_pass(self, level: PlainLevel) -> bool:
        if not level.backfill:
            return False
        head, there = level.waiting[0], level.running + level.lingering
        level.passers = [one for one in level.passers if one.state != "released"]
        own = [one for one in level.passers if one in there]
        others = sum(one.work.width for one in level.passers if one not in there)
        limit, most = min(self.most(level), self.limit(level) + others), self.most(level)
        if head.work.width > most:
            fits = len(level.running) <= len(own) and limit == most
        else:
            fits = level.used - sum(one.work.width for one in own) + head.work.width <= limit
        if head is not level.head or fits:
            level.head, level.passers = head, []
            level.rounds[head.number] = level.rounds.get(head.number, 0) + 1
        return level.rounds[head.number] <= level.backfill

    def advance(self, now: int) -> list[int]:
        ended = False
        for level in self.levels:
            for ticket in [ticket for ticket in level.lingering if ticket.ends_at <= now]:
                level.lingering.remove(ticket)
                ticket.state = "released"
                ended = True
        self._forget()
        return self.dispatch() if ended else []

    def _forget(self) -> None:
        self.levels = [level for level in self.levels if not (level.is_draining and level.is_idle)]

    def arrive(self, now: int, level: PlainLevel, ticket: PlainTicket) -> list[int]:
        ended = self.advance(now)
        width = ticket.work.width
        if level.is_draining:
            return ended + self._reject(ticket, Reason.QUEUE_CLOSED)
        if level.exempt:
            self._seat(level, ticket)
            return [*ended, ticket.number]
        if not self.most(level) or not level.queue_length_limit:
            return ended + self._arrive_without_queue(level, ticket)
        others_wait = any(other.waiting for other in self.levels if other is not level)
        if others_wait and not level.waiting and level.used + width <= level.limits.min:
            self._seat(level, ticket)  # whoever waits elsewhere loses nothing, and it is nobody's turn
            return [*ended, ticket.number]
        if len(level.waiting) >= level.queue_length_limit:
            return ended + self._reject(ticket, Reason.QUEUE_FULL)
        ticket.state = "waiting"
        level.waiting.append(ticket)
        return ended + self.dispatch()

    def _arrive_without_queue(self, level: PlainLevel, ticket: PlainTicket) -> list[int]:
        width, most, limit = ticket.work.width, self.most(level), self.limit(level)
        saver = self._saver()
        if saver is not None and self.rank(saver) <= self.rank(level):
            limit = level.limits.min
        fits = level.used + width <= limit if width <= most else not level.running and most <= limit
        if not (limit and fits):
            return self._reject(ticket, Reason.CONCURRENCY_LIMIT)
        self._seat(level, ticket)
        return [ticket.number]

    def _reject(self, ticket: PlainTicket, reason: Reason) -> list[int]:
        ticket.state, ticket.reason = "rejected", reason
        return []

    def abandon(self, now: int, level: PlainLevel, ticket: PlainTicket) -> list[int]:
        ended = self.advance(now)
        if ticket.state != "waiting":
            return ended
        level.waiting.remove(ticket)
        self._reject(ticket, Reason.TIME_OUT)
        self._forget()
        return ended + self.dispatch()

    def release(self, now: int, level: PlainLevel, ticket: PlainTicket) -> list[int]:
        ended = self.advance(now)
        level.running.remove(ticket)
        if ticket.work.linger_ns:
            ticket.state, ticket.ends_at = "lingering", now + ticket.work.linger_ns
            level.lingering.append(ticket)
        else:
            ticket.state = "released"
        self._forget()
        return ended + self.dispatch()
