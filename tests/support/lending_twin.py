"""The plain twin of `Lending`: recomputes everything from scratch at each step, and keeps no sums.

Levels have one queue here, so that the order within a level is the order of arrival; fair queuing has twins of its own.
How much service a level lags behind, and what counts as far, is read from the level that this one is the twin of: these
are integrals over time, and tests of their own say what they must come to.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from apf_middleware.fairqueuing import LevelLimits, Reason, Work
from apf_middleware.fairqueuing.sharing.proportion import divide

__all__ = ["SEAT", "PlainLending", "PlainLevel", "PlainParent", "PlainTicket"]

INFINITE = 2**200
SEAT = 2**20
"""In what parts of a seat levels deserve some."""


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
    weight: int = 0
    kept: int = 0


@dataclass(eq=False)
class PlainLevel:
    name: str
    limits: LevelLimits
    exempt: bool = False
    queue_length_limit: int = 0  # 0: nobody waits
    backfill: int = 0
    is_draining: bool = False
    is_held: bool = False
    cap: int | None = None
    pause_ns: int = 0
    is_closing: bool = False
    parent: PlainParent | None = None
    priority: int = 0
    weight: int = 0
    turn: int = 0
    lag: Callable[[], int] = lambda: 0
    far: Callable[[], int] = lambda: 0
    is_user: Callable[[], bool] = lambda: False
    kept: int = 0  # of its min while another one drains
    least: int = 0  # found anew at each step
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
        return bool(self.waiting) and not self.is_stopped

    @property
    def is_stopped(self) -> bool:
        return self.is_held or (self.cap is not None and self.used >= max(self.cap, self.least))

    @property
    def promised(self) -> int:
        """If there were seats for all mins."""
        if self.exempt or (self.is_closing and self.is_idle):
            return 0
        if self.is_draining:
            return self.kept if self.waiting else min(self.kept, self.used)
        return self.limits.min

    @property
    def counted(self) -> int:
        return max(self.used, self.least)


Member = PlainLevel | PlainParent


class PlainLending:
    def __init__(self, seats: int, levels: list[PlainLevel]) -> None:
        self.seats = seats
        self.levels = levels
        self.parents: list[PlainParent] = []
        self.turns = 0
        self.makes_room = False

    # Limits

    def children(self, parent: PlainParent | None) -> list[PlainLevel]:
        return [level for level in self.levels if level.parent is parent]

    def refresh(self) -> None:
        """Who is promised what: all mins, or while a level drains, those that there were."""
        self.makes_room = False
        for level in self.levels:
            level.least = level.promised
        self.makes_room = any(level.least or level.waiting for level in self.levels if level.is_draining)
        if not self.makes_room:
            return
        for level in self.levels:
            if not level.is_draining:
                level.least = min(level.promised, level.kept)
        if self.staying + self.leaving >= self.seats:
            for level in [level for level in self.levels if not self.has_seat_in_parent(level)]:
                if level.is_draining and not level.exempt:
                    level.least = min(level.least, 1) or int(bool(level.waiting) and level.limits.max > 0)

    def has_seat_in_parent(self, level: PlainLevel) -> bool:
        """Whether the parent's own min has a seat for the level, besides those that its siblings are promised."""
        if level.parent is None:
            return False
        promised = sum(child.least for child in self.children(level.parent))
        kept = min(level.parent.kept, level.parent.limits.min)
        return promised <= kept and (level.least > 0 or promised < kept)

    def parent_least(self, parent: PlainParent) -> int:
        own = min(parent.kept, parent.limits.min) if self.makes_room else parent.limits.min
        children = self.children(parent)
        if children and all(child.is_closing and child.is_idle for child in children):
            own = 0
        return max(own, sum(child.least for child in children))

    def parent_counted(self, parent: PlainParent) -> int:
        return max(self.parent_least(parent), sum(child.counted for child in self.children(parent)))

    @property
    def staying(self) -> int:
        levels = sum(level.least for level in self.children(None) if not level.is_draining)
        return levels + sum(map(self.parent_least, self.parents))

    @property
    def leaving(self) -> int:
        return sum(level.least for level in self.children(None) if level.is_draining)

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
        if level.is_draining and level.parent is None:
            others = self.staying + self.leaving - level.least
            return min(level.limits.max, self.total - others)
        if level.parent is not None:
            siblings = sum(child.least for child in self.children(level.parent) if child is not level)
            return min(level.limits.max, self.parent_most(level.parent) - siblings)
        return min(level.limits.max, max(self.seats, self.staying) - self.staying + level.least)

    def _within_parent(self, level: PlainLevel, seats: int) -> int:
        """Return what the siblings leave of so many seats."""
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

    # Who deserves what

    def _entitled(self) -> dict[Member, int]:
        """If all levels were busy."""
        limited = [level for level in self.levels if not level.exempt]
        top: list[Member] = [*(level for level in limited if level.parent is None), *self.parents]
        found = self._entitle(top, self.total * SEAT)
        for parent in self.parents:
            found |= self._entitle([level for level in limited if level.parent is parent], found[parent])
        return found

    def _entitle(self, members: list[Member], total: int) -> dict[Member, int]:
        bounds = {one: (self._least_of(one), self._most_of(one)) for one in members}
        parts = _parts(total, [(one.weight, least * SEAT, most * SEAT) for one, (least, most) in bounds.items()])
        nominal = [max(one.limits.nominal, least) * SEAT for one, (least, _) in bounds.items()]
        return dict(zip(members, map(min, parts, nominal), strict=True))

    def _least_of(self, one: Member) -> int:
        return one.least if isinstance(one, PlainLevel) else self.parent_least(one)

    def _most_of(self, one: Member) -> int:
        return self.most(one) if isinstance(one, PlainLevel) else self.parent_most(one)

    def deserved(self) -> dict[Member, int]:
        """Return what each waiting level deserves now, if there are several."""
        entitled = self._entitled()
        waiting = [level for level in self.levels if level.waits or level.is_user()]
        if len(waiting) < 2:
            return entitled
        families = {one: [level for level in waiting if level.parent is one] for one in self.parents}
        families = {parent: children for parent, children in families.items() if children}
        top: list[Member] = [*(level for level in waiting if level.parent is None), *families]
        total = self.free + sum(one.counted if isinstance(one, PlainLevel) else self.parent_counted(one) for one in top)
        claims = {one: self._claim(one, families) for one in top}
        ranks = {
            one: _borrows(one) if isinstance(one, PlainLevel) else min(map(_borrows, families[one])) for one in top
        }
        found = entitled | _dealt(total * SEAT, claims, ranks, entitled)
        for parent, children in families.items():
            others = sum(child.counted for child in self.children(parent) if child not in children)
            room = max(0, found[parent] - others * SEAT)
            claims = {child: self._claim(child, families) for child in children}
            found |= _dealt(room, claims, {child: _borrows(child) for child in children}, entitled)
        return found

    def _claim(self, one: Member, families: dict[PlainParent, list[PlainLevel]]) -> tuple[int, int, int]:
        if isinstance(one, PlainLevel):
            wanted = min(self.most(one), one.used + sum(ticket.work.width for ticket in one.waiting))
            wanted = wanted if one.cap is None else min(wanted, max(one.cap, one.least))
            least = max(one.least, min(wanted, one.limits.nominal)) if one.is_draining else one.least
            return one.weight, least * SEAT, max(least, wanted) * SEAT
        least = self.parent_least(one)
        others = sum(child.counted for child in self.children(one) if child not in families[one])
        wanted = others * SEAT + sum(self._claim(child, families)[2] for child in families[one])
        return one.weight, least * SEAT, max(least * SEAT, min(self.parent_most(one) * SEAT, wanted))

    def rank(self, level: PlainLevel) -> tuple[int, int, tuple[int, bool], int, Fraction, bool, int, str]:
        is_ahead = level.lag() < 0 and self._far(level) != INFINITE and not level.is_draining
        in_min = 0 if is_ahead or level.used >= self.promised(level) else 1 if level.used >= level.least else 2
        return (-in_min, *self._rank_beyond_min(level))

    def _rank_beyond_min(self, level: PlainLevel) -> tuple[int, tuple[int, bool], int, Fraction, bool, int, str]:
        used, weight = level.used, level.weight or 1
        last = (not level.is_draining, level.turn, level.name)
        missing = self.deserved()[level] - used * SEAT
        lag, far = Fraction(level.lag(), weight), Fraction(self._far(level), weight)
        are_narrow = self._far(level) == INFINITE
        if used < level.least and (lag >= 0 or are_narrow or level.is_draining):
            return (0, (0, False), 0, Fraction(used, weight), *last)
        if missing >= SEAT and (lag >= 0 or are_narrow or level.is_draining):
            return (1, (0, False), 0, Fraction(used, weight) - (0 if are_narrow else lag), *last)
        if lag > far:
            return (2, (0, False), 0, -lag, *last)
        if missing >= SEAT:
            return (3, (0, False), 0, Fraction(used, weight), *last)
        lags_behind = missing > 0 and lag >= 0
        if lags_behind and used * SEAT < self._entitled()[level]:
            return (4, (0, False), 0, -lag, *last)
        return (5, _borrows(level), 0 if lags_behind else 1, -lag, *last)

    def _far(self, level: PlainLevel) -> int:
        waiting = [one for one in self.levels if one.waits]
        are_wide = any(ticket.work.width > 1 for one in waiting for ticket in one.waiting)
        return level.far() if are_wide and len(waiting) > 1 else INFINITE

    def _wanted(self, level: PlainLevel, width: int) -> int | None:
        """Return the seats that the level would count for with this ticket; None while its own max forbids it."""
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
            limit = level.least if level.parent in saving else self.promised(level) if saver else self.limit(level)
            is_beyond = level.waiting[0].work.width > self.most(level) and (saver or level.parent in saving)
            if wanted is not None and wanted <= limit and not is_beyond:
                return level, saver, saving
            is_far = level.lag() > self._far(level)
            if wanted is None and not (is_far and level.used < self.most(level)):
                continue
            if saver is None and level.parent not in saving:
                if level.parent is not None:
                    saving.append(level.parent)
                    most = self.parent_most(level.parent)
                    is_stopped = wanted is None or wanted > self._within_parent(level, most)
                    counted = sum(child.counted for child in self.children(level.parent))
                    if is_stopped and not (is_far and counted < most):
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
        self.refresh()
        while (level := self._survey()[0] or self._next_passing()) is not None:
            ticket = level.waiting.pop(0)
            self._seat(level, ticket)
            seated.append(ticket.number)
            if is_contended:
                self.turns += 1
                level.turn = self.turns
            self.refresh()
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
            elif level.parent not in saving and saver is not None and self._may_pass(level) and self._lets_pass(saver):
                saver.passers.append(level.waiting[0])
                return level
        return None

    def _may_pass(self, level: PlainLevel) -> bool:
        behind = [one for one in self.levels if one.waits and one.lag() > self._far(one)]
        return not behind or level in behind

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
        self.refresh()

    def arrive(self, now: int, level: PlainLevel, ticket: PlainTicket) -> list[int]:
        ended = self.advance(now)
        width = ticket.work.width
        if level.pause_ns and not level.is_draining and not ticket.work.linger_ns:
            ticket.work = replace(ticket.work, linger_ns=level.pause_ns)
        if level.is_draining or level.is_closing:
            ends = level.is_closing and not level.is_idle
            return ended + self._reject(ticket, Reason.QUEUE_CLOSING if ends else Reason.QUEUE_CLOSED)
        if level.exempt:
            self._seat(level, ticket)
            return [*ended, ticket.number, *self.dispatch()]
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
        if level.is_stopped:
            limit = 0
        elif level.parent in saving or (saver is not None and self.rank(saver) <= self.rank(level)):
            limit = level.least if width <= most else 0
        fits = level.used + width <= limit if width <= most else not level.running and most <= limit
        if not (limit and fits):
            return self._reject(ticket, Reason.CONCURRENCY_LIMIT) + self.dispatch()
        self._seat(level, ticket)
        return [ticket.number, *self.dispatch()]

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

    def cap(self, now: int, caps: dict[str, int], pause_ns: int) -> list[int]:
        ended = self.advance(now)
        for level in self.levels:
            level.cap = None if level.is_draining or level.exempt else caps.get(level.name)
            level.pause_ns = 0 if level.cap is None else pause_ns
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


def _borrows(level: PlainLevel) -> tuple[int, bool]:
    return -level.priority, not level.weight


def _parts(total: int, claims: list[tuple[int, int, int]]) -> list[int]:
    least = sum(lower for _, lower, _ in claims)
    return [
        lower if total <= least else int(part)
        for (_, lower, _), part in zip(claims, divide(Fraction(total), claims), strict=True)
    ]


def _dealt(
    total: int,
    claims: dict[Member, tuple[int, int, int]],
    ranks: dict[Member, tuple[int, bool]],
    entitled: dict[Member, int],
) -> dict[Member, int]:
    """Of ``total``: first what is nominally theirs, the rest by rank; all at once where the ranks are the same."""
    if len(set(ranks.values())) == 1:
        weighted = [(weight or 1, lower, upper) for weight, lower, upper in claims.values()]
        return dict(zip(claims, _parts(total, weighted), strict=True))
    capped = [(weight, low, max(low, min(high, entitled[one]))) for one, (weight, low, high) in claims.items()]
    parts = dict(zip(claims, _parts(total, capped), strict=True))
    for rank in sorted(set(ranks.values())):
        those = [one for one in claims if ranks[one] == rank]
        room = total - sum(part for one, part in parts.items() if one not in those)
        dealt = _parts(room, [(claims[one][0] or 1, parts[one], claims[one][2]) for one in those])
        parts |= dict(zip(those, dealt, strict=True))
    return parts
