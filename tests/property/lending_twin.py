"""The plain twin of `Lending`: recomputes everything from scratch at each step, and keeps no sums.

Levels have one queue here, so that the order within a level is the order of arrival; fair queuing has twins of its own.
"""

from dataclasses import dataclass, field
from fractions import Fraction

from apf_middleware.fairqueuing import LevelLimits, Reason, Work

__all__ = ["PlainLending", "PlainLevel", "PlainParent", "PlainTicket"]


@dataclass(eq=False)
class PlainTicket:
    number: int
    work: Work
    state: str = "new"
    reason: Reason | None = None
    ends_at: int = 0


@dataclass(frozen=True)
class PlainParent:
    name: str
    limits: LevelLimits


@dataclass(eq=False)
class PlainLevel:
    name: str
    limits: LevelLimits
    exempt: bool = False
    queue_length_limit: int = 0  # 0: nobody waits
    backfill: int = 0
    is_draining: bool = False
    is_held: bool = False
    is_closing: bool = False
    parent: PlainParent | None = None
    priority: int = 0
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

    @property
    def waits(self) -> bool:
        return bool(self.waiting) and not self.is_held

    @property
    def least(self) -> int:
        return 0 if self.exempt or (self.is_closing and self.is_idle) else self.limits.min

    @property
    def counted(self) -> int:
        return max(self.used, self.least)


class PlainLending:
    def __init__(self, seats: int, levels: list[PlainLevel]) -> None:
        self.seats = seats
        self.levels = levels
        self.parents: list[PlainParent] = []
        self.turns = 0

    # Limits

    def children(self, parent: PlainParent | None) -> list[PlainLevel]:
        return [level for level in self.levels if level.parent is parent]

    def parent_least(self, parent: PlainParent) -> int:
        return max(parent.limits.min, sum(child.least for child in self.children(parent)))

    def parent_counted(self, parent: PlainParent) -> int:
        return max(self.parent_least(parent), sum(child.counted for child in self.children(parent)))

    @property
    def staying(self) -> int:
        levels = sum(level.least for level in self.children(None) if not level.is_draining)
        return levels + sum(map(self.parent_least, self.parents))

    @property
    def leaving(self) -> int:
        return sum(level.least for level in self.levels if level.is_draining)

    @property
    def total(self) -> int:
        return max(self.seats, self.staying + self.leaving)

    @property
    def free(self) -> int:
        taken = sum(level.counted for level in self.children(None)) + sum(map(self.parent_counted, self.parents))
        return self.total - taken

    def parent_most(self, parent: PlainParent) -> int:
        least = self.parent_least(parent)
        return max(least, min(parent.limits.max, max(self.seats, self.staying) - self.staying + least))

    def most(self, level: PlainLevel) -> int:
        if level.exempt:
            return level.limits.max
        if level.is_draining:
            others = self.staying + self.leaving - level.least
            return min(level.limits.max, self.total - others)
        if level.parent is not None:
            siblings = sum(child.least for child in self.children(level.parent) if child is not level)
            return min(level.limits.max, self.parent_most(level.parent) - siblings)
        return min(level.limits.max, max(self.seats, self.staying) - self.staying + level.least)

    def _within_parent(self, level: PlainLevel, seats: int) -> int:
        """What the siblings leave to this one of so many seats."""
        return seats - sum(child.counted for child in self.children(level.parent) if child is not level)

    def limit(self, level: PlainLevel) -> int:
        if level.is_held:
            return 0
        if level.parent is None:
            room = self.free + level.counted
        else:
            allowed = min(self.parent_most(level.parent), self.free + self.parent_counted(level.parent))
            room = self._within_parent(level, max(self.parent_least(level.parent), allowed))
        return max(level.least, min(self.most(level), room))

    def promised(self, level: PlainLevel) -> int:
        if level.parent is None:
            return level.least
        return max(level.least, min(self.most(level), self._within_parent(level, self.parent_least(level.parent))))

    def rank(self, level: PlainLevel) -> tuple[int, int, bool, Fraction, bool, int, str]:
        used, nominal = level.used, level.limits.nominal
        tier = 0 if used < self.promised(level) else 1 if used < nominal else 2
        borrows = tier == 2
        priority, without = (-level.priority, not nominal) if borrows else (0, False)
        return (tier, priority, without, Fraction(used, nominal or 1), not level.is_draining, level.turn, level.name)

    def _wanted(self, level: PlainLevel, width: int) -> int | None:
        """What the level would count for with this ticket; None while its own max forbids it."""
        most = self.most(level)
        if width > most:
            return None if level.running or level.used >= most else most
        return level.used + width if level.used + width <= most else None

    def _survey(self) -> tuple[PlainLevel | None, PlainLevel | None, list[PlainParent]]:
        """Whose turn it is; for whom seats are saved up, and within which parents."""
        saver: PlainLevel | None = None
        saving: list[PlainParent] = []
        for level in sorted((level for level in self.levels if level.waits), key=self.rank):
            wanted = self._wanted(level, level.waiting[0].work.width)
            if wanted is None:
                continue
            limit = level.least if level.parent in saving else self.promised(level) if saver else self.limit(level)
            if wanted <= limit:
                return level, saver, saving
            if saver is None and level.parent not in saving:
                if level.parent is not None:
                    saving.append(level.parent)
                    if wanted > self._within_parent(level, self.parent_most(level.parent)):
                        continue
                saver = level
        return None, saver, saving

    # What happens

    def _seat(self, level: PlainLevel, ticket: PlainTicket) -> None:
        if not level.exempt:
            ticket.work = ticket.work.within(self.most(level))
        ticket.state = "seated"
        level.running.append(ticket)

    def dispatch(self) -> list[int]:
        seated = []
        is_contended = sum(level.waits for level in self.levels) > 1
        while (level := self._survey()[0] or self._next_passing()) is not None:
            ticket = level.waiting.pop(0)
            self._seat(level, ticket)
            seated.append(ticket.number)
            if is_contended:
                self.turns += 1
                level.turn = self.turns
        return seated

    def _next_passing(self) -> PlainLevel | None:
        """Who may be seated although it's the turn of others, for whom too few seats are free."""
        if not any(level.backfill for level in self.levels):
            return None
        _, saver, saving = self._survey()
        for level in sorted((level for level in self.levels if level.waits), key=self.rank):
            limit, width = self.limit(level), level.waiting[0].work.width
            if level.used >= limit:
                continue
            wanted = self._wanted(level, width)
            if wanted is None or wanted > limit:
                self._lets_pass(level)  # and there is nobody else in its level
            elif level.used + width <= level.least:
                return level
            elif level.parent not in saving and saver is not None and self._lets_pass(saver):
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
        if level.is_draining or level.is_closing:
            ends = level.is_closing and not level.is_idle
            return ended + self._reject(ticket, Reason.QUEUE_CLOSING if ends else Reason.QUEUE_CLOSED)
        if level.exempt:
            self._seat(level, ticket)
            return [*ended, ticket.number]
        if not self.most(level) or not level.queue_length_limit:
            return ended + self._arrive_without_queue(level, ticket)
        others_wait = any(other.waits for other in self.levels if other is not level)
        if others_wait and not level.is_held and not level.waiting and level.used + width <= level.least:
            self._seat(level, ticket)  # whoever waits elsewhere loses nothing, and it is nobody's turn
            return [*ended, ticket.number]
        if len(level.waiting) >= level.queue_length_limit:
            return ended + self._reject(ticket, Reason.QUEUE_FULL)
        ticket.state = "waiting"
        level.waiting.append(ticket)
        return ended + self.dispatch()

    def _arrive_without_queue(self, level: PlainLevel, ticket: PlainTicket) -> list[int]:
        width, most, limit = ticket.work.width, self.most(level), self.limit(level)
        _, saver, saving = self._survey()
        if level.is_held:
            limit = 0
        elif level.parent in saving or (saver is not None and self.rank(saver) <= self.rank(level)):
            limit = level.least
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

    def operate(self, now: int, level: PlainLevel, *, held: bool, closing: bool) -> list[int]:
        ended = self.advance(now)
        level.is_held, level.is_closing = held, closing
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
