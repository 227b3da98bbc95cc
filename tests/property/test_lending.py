"""Invariants of levels that lend and borrow: the reference implementation agrees, and unmet mins are never lent.

Hypothesis draws levels and steps. After each step the states of all tickets, the order in which the step seated them,
and all limits equal those of the reference implementation, and the invariants below are checked from the outside.
"""

from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from apf_middleware.fairqueuing import (
    Lending,
    LevelLimits,
    LevelShares,
    QueueSetSettings,
    Reason,
    Ticket,
    TicketState,
    Work,
)
from apf_middleware.fairqueuing.sharing.hierarchy import Hierarchy
from tests.support.examples import examples
from tests.support.lending_twin import PlainLending, PlainLevel, PlainParent, PlainTicket

if TYPE_CHECKING:
    from apf_middleware.fairqueuing import SharedLevel

pytestmark = pytest.mark.timeout(600)

_MS = 10**6
_NAMES = ("a", "b", "c", "d")

_seats = st.sampled_from((1, 1, 1, 1, 2, 3, 5, 11))
_lingers = st.sampled_from((0, 1, 20 * _MS, 20 * _MS))
_works = st.builds(Work, _seats) | st.builds(Work, _seats, _seats, _lingers) | st.builds(Work, _seats, st.just(0))
_pauses = st.sampled_from((0, 0, 1, _MS, 5 * _MS))
_rounds = st.sampled_from((0, 0, 1, 3))
_shares = st.builds(LevelShares, st.sampled_from((0, 1, 2, 3, 30)))
_any = st.sampled_from((0, 0, 1, 3, 6))


@st.composite
def _levels(draw: st.DrawFn) -> dict[str, tuple[QueueSetSettings, LevelLimits]]:
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True))
    return {name: draw(_level()) for name in names}


@st.composite
def _level(draw: st.DrawFn) -> tuple[QueueSetSettings, LevelLimits]:
    least, lendable = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    nominal = least + lendable
    limits = LevelLimits(nominal, least, nominal + draw(st.sampled_from((0, 0, 2, 20))))
    kind = draw(st.sampled_from(("queue", "queue", "queue", "reject", "exempt")))
    if kind == "exempt":
        return QueueSetSettings.without_limit(nominal), limits
    if kind == "reject":
        return QueueSetSettings.without_queues(nominal), limits
    return QueueSetSettings(nominal, 1, 1, draw(st.sampled_from((1, 3, 50))), backfill=draw(_rounds)), limits


@st.composite
def _kinships(draw: st.DrawFn) -> Hierarchy:
    """Draw a hierarchy: any of the names may be children, also without such levels; exempt levels have no parents."""
    shares = draw(st.dictionaries(st.sampled_from((*_NAMES, "p")), _shares))
    if draw(st.booleans()):
        return Hierarchy(shares=shares)
    parents = {name: draw(_level())[1] for name in draw(st.sampled_from((["p"], ["p", "q"])))}
    parent_of = draw(st.dictionaries(st.sampled_from(_NAMES), st.sampled_from(sorted(parents)), min_size=1))
    priorities = draw(st.dictionaries(st.sampled_from(_NAMES), st.integers(-1, 1), max_size=2))
    return Hierarchy(parents, parent_of, priorities, shares)


def _fitting(hierarchy: Hierarchy, wanted: dict[str, tuple[QueueSetSettings, LevelLimits]]) -> Hierarchy:
    limited = {name for name, (settings, _) in wanted.items() if not settings.exempt}
    parent_of = {name: parent for name, parent in hierarchy.parent_of.items() if name in limited}
    return Hierarchy(hierarchy.parents, parent_of, hierarchy.priorities, hierarchy.shares)


class _Machine(RuleBasedStateMachine):
    @initialize(seats=st.integers(0, 12), wanted=_levels(), may_rest=st.booleans(), hierarchy=_kinships())
    def open(
        self,
        seats: int,
        wanted: dict[str, tuple[QueueSetSettings, LevelLimits]],
        may_rest: bool,  # noqa: FBT001 - hypothesis passes it by name
        hierarchy: Hierarchy,
    ) -> None:
        self.now = 0
        self.hierarchy = hierarchy
        self.lending = Lending(seats, wanted, may_rest=may_rest, hierarchy=_fitting(hierarchy, wanted))
        self.plain = PlainLending(seats, [])
        self.pairs: dict[SharedLevel, PlainLevel] = {}
        self.tickets: list[tuple[Ticket, PlainTicket, SharedLevel]] = []
        self.was_reconfigured = False
        self._pair(wanted)
        self.plain.refresh()

    def _pair(self, wanted: dict[str, tuple[QueueSetSettings, LevelLimits]]) -> None:
        """Pair each level with one of the reference implementation, and pass on the new settings."""
        drained = not any(plain.is_draining for plain in self.plain.levels)
        had = {one.name: one.limits.min if drained else one.kept for one in self.plain.parents}
        parents = {
            name: PlainParent(name, limits, self._weight(name, limits), had.get(name, 0))
            for name, limits in self.hierarchy.parents.items()
        }
        self.plain.parents = list(parents.values())
        parent_of = _fitting(self.hierarchy, wanted).parent_of
        for name, level in self.lending.levels.items():
            settings, limits = wanted[name]
            plain = self.pairs.setdefault(level, PlainLevel(name, LevelLimits(0, 0, 0)))
            plain.kept = plain.limits.min if drained else plain.kept
            plain.limits, plain.is_draining = limits, False
            plain.weight = self._weight(name, limits)
            plain.lag = partial(getattr, level, "lag")
            plain.is_user = partial(self._is_user, level)
            plain.far = partial(getattr, self.lending._balance, "longest")
            plain.parent = parents.get(parent_of.get(name, ""))
            plain.priority = self.hierarchy.priorities.get(name, 0)
            plain.exempt, plain.queue_length_limit = settings.exempt, settings.queue_length_limit
            plain.backfill = settings.backfill
            if plain not in self.plain.levels:
                self.plain.levels.append(plain)
        live = [self.pairs[level] for level in self.lending.levels.values()]
        for plain in self.plain.levels:
            if plain not in live:
                plain.kept = plain.limits.min if drained else min(plain.kept, plain.limits.min)
                plain.is_draining = True
                plain.is_held = plain.is_closing = False
                plain.cap, plain.pause_ns = None, 0
                plain.parent, plain.priority = parents.get(plain.parent.name) if plain.parent else None, 0

    def _is_user(self, level: "SharedLevel") -> bool:
        return level in self.lending._balance.users

    def _weight(self, name: str, limits: LevelLimits) -> int:
        return self.hierarchy.shares[name].shares if name in self.hierarchy.shares else limits.nominal

    def _those(self, state: TicketState) -> list[int]:
        return [number for number, (ticket, _, _) in enumerate(self.tickets) if ticket.state is state]

    def _compare(self, seated: object, expected: list[int]) -> None:
        numbers = {id(ticket): number for number, (ticket, _, _) in enumerate(self.tickets)}
        assert isinstance(seated, list | tuple)
        assert [numbers[id(ticket)] for ticket in seated] == expected

    # Steps

    @rule(pause=_pauses, which=_any, work=_works, times=st.sampled_from((1, 1, 1, 4)))
    def arrive(self, pause: int, which: int, work: Work, times: int) -> None:
        self.now += pause
        levels = list(self.pairs)
        level = levels[which % len(levels)]
        for _ in range(times):
            ticket, plain = Ticket("flow", 0, work), PlainTicket(len(self.tickets), work)
            self.tickets.append((ticket, plain, level))
            seated = self.lending.arrive(self.now, level, ticket)
            self._compare(seated, self.plain.arrive(self.now, self.pairs[level], plain))

    @precondition(lambda self: self._those(TicketState.WAITING))
    @rule(pause=_pauses, which=_any)
    def abandon(self, pause: int, which: int) -> None:
        self.now += pause
        numbers = self._those(TicketState.WAITING)
        ticket, plain, level = self.tickets[numbers[which % len(numbers)]]
        seated = self.lending.abandon(self.now, level, ticket, Reason.TIME_OUT)
        self._compare(seated, self.plain.abandon(self.now, self.pairs[level], plain))

    @precondition(lambda self: self._those(TicketState.SEATED))
    @rule(pause=_pauses, which=_any)
    def release(self, pause: int, which: int) -> None:
        self.now += pause
        numbers = self._those(TicketState.SEATED)
        ticket, plain, level = self.tickets[numbers[which % len(numbers)]]
        seated = self.lending.release(self.now, level, ticket)
        self._compare(seated, self.plain.release(self.now, self.pairs[level], plain))

    @rule(pause=_pauses, which=_any, works=st.lists(_works, min_size=2, max_size=5))
    def turn_over(self, pause: int, which: int, works: list[Work]) -> None:
        """Let requests come and go: on their own, the rules above do this in few of the steps."""
        for number, work in enumerate(works):
            self.arrive(pause, which + number, work, 1)
            if self._those(TicketState.SEATED):
                self.release(0, which)

    @rule(pause=st.sampled_from((None, 0, 1, _MS, 5 * _MS)))
    def tick(self, pause: int | None) -> None:
        """Let time pass, by default until the next event."""
        due = self.lending.next_event_at()
        if pause is not None:
            self.now += pause
        elif due is not None:
            self.now = max(self.now, due)
        self._compare(self.lending.tick(self.now), self.plain.advance(self.now))

    @rule()
    def look(self) -> None:
        self.lending.snapshot()

    @rule(which=_any, pause=_pauses, held=st.booleans(), closing=st.booleans())
    def operate(self, which: int, pause: int, held: bool, closing: bool) -> None:  # noqa: FBT001 - by name
        self.now += pause
        levels = [level for level in self.lending.levels.values() if not level.exempt]
        if levels:
            level = levels[which % len(levels)]
            plain = self.pairs[level]
            self.was_reconfigured |= plain.is_closing and plain.is_idle and not closing  # its min was lent
            seated = self.lending.operate(self.now, level, held=held, closing=closing)
            self._compare(seated, self.plain.operate(self.now, plain, held=held, closing=closing))

    @rule(caps=st.dictionaries(st.sampled_from(_NAMES), st.integers(1, 6)), pause=_pauses, after=_pauses)
    def cap(self, caps: dict[str, int], pause: int, after: int) -> None:
        self.now += pause
        seated = self.lending.cap(self.now, caps, after)
        self._compare(seated, self.plain.cap(self.now, caps, after))

    @rule(seats=st.integers(0, 12), wanted=_levels(), keeps=st.sampled_from((True, True, False)), hierarchy=_kinships())
    def reconfigure(
        self,
        seats: int,
        wanted: dict[str, tuple[QueueSetSettings, LevelLimits]],
        keeps: bool,  # noqa: FBT001 - hypothesis passes it by name
        hierarchy: Hierarchy,
    ) -> None:
        self.hierarchy = hierarchy
        if keeps:
            wanted = {name: (level.settings, level.limits) for name, level in self.lending.levels.items()} | wanted
        self.was_reconfigured = True
        expected = self.plain.advance(self.now)
        before = dict.fromkeys(number for number, (_, plain, _) in enumerate(self.tickets) if plain.state == "waiting")
        seated = self.lending.reconfigure(self.now, seats, wanted, _fitting(hierarchy, wanted))
        self.plain.seats = seats
        self._pair(wanted)
        self.plain._forget()
        expected += self.plain.dispatch()
        self._compare(seated, expected)
        assert set(expected) <= before.keys()

    # Invariants

    @invariant()
    def the_twin_agrees(self) -> None:
        self.lending.check()
        for ticket, plain, _ in self.tickets:
            assert ticket.state.value == plain.state, f"{ticket!r} and {plain!r}"
            assert ticket.reason is plain.reason
        live = [level for level in self.pairs if level in [*self.lending.levels.values(), *self.lending.draining]]
        assert [self.pairs[level] for level in live] == [p for p in self.pairs.values() if p in self.plain.levels]
        for level in live:
            twin = self.pairs[level]
            expected = max(twin.limits.min, twin.used) if twin.exempt else self.plain.limit(twin)
            expected = expected if twin.cap is None else min(expected, max(twin.cap, twin.least))
            assert level.current == expected, f"the limit of {level!r}"

    @invariant()
    def unmet_mins_are_never_lent(self) -> None:
        if self.was_reconfigured:  # then more may run than there are seats now
            return
        plain = self.plain
        members = {level: max(level.least, min(level.used, plain.most(level))) for level in plain.levels}
        children = {one: sum(members[level] for level in plain.children(one)) for one in plain.parents}
        counted = [max(plain.parent_least(one), number) for one, number in children.items()]
        alone = sum(members[level] for level in plain.children(None) if not level.exempt)
        assert alone + sum(counted) <= plain.total
        assert all(number <= plain.parent_most(one) for one, number in children.items())

    @invariant()
    def somebody_is_seated_when_nothing_runs(self) -> None:
        levels = self.plain.levels
        if not any(level.used for level in levels):
            assert not any(level.waits for level in levels if self.plain.most(level))

    @invariant()
    def nobody_gets_lost(self) -> None:
        self.lending.snapshot()  # so that lone tickets are recorded
        for level in self.pairs:
            states = [ticket.state for ticket, _, its_level in self.tickets if its_level is level]
            rejected = states.count(TicketState.REJECTED)
            assert sum(level.queueset.rejected.values()) == rejected
            assert level.queueset.dispatched == len(states) - rejected - states.count(TicketState.WAITING)


TestLending = _Machine.TestCase
TestLending.settings = examples(25, stateful_step_count=40)
