"""A member of a fleet never begins a request beyond the seats of its grant, whatever its levels are promised."""

import random

import pytest

from apf_middleware.fairqueuing import Lending, LevelLimits, QueueSetSettings, Reason, Ticket, TicketState, Work
from apf_middleware.fairqueuing.sharing.grant import LEASED_FOR_EVER, LevelGrant, SeatGrant
from apf_middleware.fairqueuing.sharing.hierarchy import Hierarchy
from apf_middleware.fairqueuing.sharing.level import SharedLevel
from tests.support.examples import seeds

pytestmark = pytest.mark.timeout(600)

Wanted = dict[str, tuple[QueueSetSettings, LevelLimits]]


class World:
    """A sharing under random arrivals, ends, hang-ups, reloads and grants."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0
        self.fleet_seats = self.random.randint(1, 12)
        # A request that is wider than its level's max takes more seats than that, so wide worlds have no maxes.
        self.is_wide = self.random.random() < 0.5
        wanted, self.hierarchy = self.draw_levels()
        self.lending = Lending(self.fleet_seats, wanted, may_rest=self.random.random() < 0.7, hierarchy=self.hierarchy)
        self.tickets: list[tuple[SharedLevel, Ticket]] = []
        self.begun = 0

    def draw_levels(self) -> tuple[Wanted, Hierarchy]:
        wanted: Wanted = {}
        for name in self.random.sample("abcd", self.random.randint(1, 4)):
            least = 0 if self.is_wide else self.random.randint(0, 2)
            nominal = least + self.random.randint(0, 3)
            limits = LevelLimits(nominal, least, nominal + (20 if self.is_wide else self.random.choice((0, 2, 20))))
            kind = self.random.choice(("queue", "queue", "queue", "reject", "exempt"))
            if kind == "exempt":
                wanted[name] = QueueSetSettings.without_limit(nominal), limits
            elif kind == "reject":
                wanted[name] = QueueSetSettings.without_queues(nominal), limits
            else:
                wanted[name] = QueueSetSettings(nominal, 2, 1, 50, backfill=self.random.choice((0, 2))), limits
        limited = [name for name, (settings, _) in wanted.items() if not settings.exempt]
        children = self.random.sample(limited, self.random.choice((0, 0, min(2, len(limited)))))
        if not children:
            return wanted, Hierarchy()
        least = 0 if self.is_wide else self.random.randint(0, 1)
        most = 40 if self.is_wide else self.random.choice((6, 40))
        return wanted, Hierarchy({"p": LevelLimits(least, least, most)}, dict.fromkeys(children, "p"))

    @property
    def used(self) -> int:
        """The seats of limited levels in use."""
        levels = [*self.lending.levels.values(), *self.lending.draining]
        return sum(one.queueset.seats_in_use + (one.alone is not None) for one in levels if not one.exempt)

    @property
    def granted(self) -> int:
        """The seats that may be used now; after the lease, those of the fallback."""
        grant = self.lending.grant
        assert grant is not None
        return grant.seats if self.now < grant.lease_until else grant.fallback

    def draw_grant(self) -> SeatGrant:
        seats = self.random.randint(0, self.fleet_seats)
        rest, levels = seats, {}
        for name in [*self.lending.levels, *self.lending.parents]:
            least = self.random.randint(0, rest)
            rest -= least
            levels[name] = LevelGrant(self.random.randint(0, 3000), least)
        lease_until = self.random.choice((self.now + 5, self.now + 50, LEASED_FOR_EVER))
        maxes = {name: self.random.randint(0, seats) for name in "abcdp" if self.random.random() < 0.3}
        return SeatGrant(seats, lease_until, self.random.randint(0, 2), levels, maxes=maxes)

    def step(self) -> None:
        self.now += self.random.choice((0, 0, 1, 7))
        choice = self.random.random()
        if choice < 0.4:
            level = self.random.choice(list(self.lending.levels.values()))
            width = min(self.random.choice((1, 1, 2, 5)) if self.is_wide else 1, self.fleet_seats)
            linger_ns = self.random.choice((0, 0, 3))
            work = Work(width, self.random.choice((0, width)) if linger_ns else 0, linger_ns)
            ticket = Ticket("flow", self.random.randint(0, 3), work)
            self.tickets.append((level, ticket))
            self.lending.arrive(self.now, level, ticket)
        elif choice < 0.7 and (running := [one for one in self.tickets if one[1].is_seated]):
            level, ticket = self.random.choice(running)
            self.lending.release(self.now, level, ticket)
        elif choice < 0.8 and (waiting := [one for one in self.tickets if one[1].is_waiting]):
            level, ticket = self.random.choice(waiting)
            self.lending.abandon(self.now, level, ticket, Reason.TIME_OUT)
        elif choice < 0.9:
            self.lending.restrict(self.now, self.draw_grant())
        elif choice < 0.92:
            wanted, self.hierarchy = self.draw_levels()
            self.lending.reconfigure(self.now, self.fleet_seats, wanted, self.hierarchy)
        elif choice < 0.94:
            caps = {name: self.random.randint(1, 4) for name in "abcd" if self.random.random() < 0.5}
            self.lending.cap(self.now, caps, self.random.choice((0, 3)))
        else:
            self.lending.tick(self.now)


def occupies(ticket: Ticket) -> bool:
    return ticket.state in {TicketState.SEATED, TicketState.LINGERING}


@pytest.mark.parametrize("seed", seeds(100))
def test_no_request_begins_beyond_the_grant(seed: int) -> None:
    world = World(seed)
    world.lending.restrict(0, world.draw_grant())
    begun = 0
    for _ in range(300):
        before = world.lending.grant
        assert before is not None
        world.step()
        now_begun = sum(not level.exempt and hasattr(ticket, "seated_at") for level, ticket in world.tickets)
        if now_begun > begun:
            # a step may seat requests with the former grant, or with its fallback, before it adopts another
            allowed = max(before.seats, world.granted, before.fallback if world.now >= before.lease_until else 0)
            assert world.used <= allowed, f"{world.used} seats used of {allowed}"
        begun = now_begun
        if not world.is_wide:  # while seats are saved up for a wide request, time alone can change which level is first
            world.lending.check()


def used_of_maxes(world: World) -> dict[str, int]:
    """Return the seats in use at the levels and parents whose max is divided."""
    grant = world.lending.grant
    assert grant is not None
    used = dict.fromkeys(grant.maxes, 0)
    for level in world.lending.levels.values():
        for name in {level.name, level.parent.name if level.parent else level.name} & used.keys():
            used[name] += 0 if level.exempt else level.queueset.seats_in_use + (level.alone is not None)
    return used


@pytest.mark.parametrize("seed", seeds(100))
def test_no_request_begins_beyond_the_part_of_a_max(seed: int) -> None:
    world = World(seed)
    world.lending.restrict(0, world.draw_grant())
    before = used_of_maxes(world)
    for _ in range(300):
        grant, hierarchy = world.lending.grant, world.hierarchy
        world.step()
        after = used_of_maxes(world)
        # a reload may change parents
        if grant is not None and grant is world.lending.grant and hierarchy is world.hierarchy:
            for name in after:
                most = max(before.get(name, 0), grant.maxes[name])
                assert after[name] <= most, f"{after[name]} seats used of {name}, allowed {most}"
        before = after


@pytest.mark.parametrize("seed", seeds(20))
def test_without_a_grant_all_seats_are_available_again(seed: int) -> None:
    world = World(seed)
    world.lending.restrict(0, SeatGrant(0))
    for _ in range(100):
        world.step()
    world.lending.restrict(world.now, None)

    assert world.lending.ledger.total >= world.fleet_seats
    assert world.lending.next_event_at() is None or world.lending.alone_until < LEASED_FOR_EVER
    world.lending.check()


def level_of(nominal: int, most: int) -> tuple[QueueSetSettings, LevelLimits]:
    return QueueSetSettings(nominal, 1, 1, 1000), LevelLimits(nominal, 0, most)


@pytest.mark.parametrize(("weights", "expected"), [((3072, 1024), 3.0), ((1024, 1024), 1.0), ((300, 1000), 0.3)])
def test_the_weights_of_a_grant_divide_its_seats(weights: tuple[int, int], expected: float) -> None:
    """Both levels have the same shares of the fleet's seats, but not the same parts of this member's seats."""
    lending = Lending(8, {"a": level_of(4, 8), "b": level_of(4, 8)})
    lending.restrict(0, SeatGrant(3, levels={name: LevelGrant(one) for name, one in zip("ab", weights, strict=True)}))
    served = dict.fromkeys("ab", 0)
    running: list[tuple[SharedLevel, Ticket]] = []

    def arrive(now: int, level: SharedLevel) -> None:
        running.extend((level, ticket) for ticket in lending.arrive(now, level, Ticket(level.name, 0, Work())))

    for level in lending.levels.values():
        for _ in range(10):
            arrive(0, level)
    for turn in range(1, 3000):
        now = turn * 10**6
        level, ticket = running.pop(0)
        served[level.name] += 1
        seated = lending.release(now, level, ticket)
        running.extend((lending.levels[one.flow], one) for one in seated)
        arrive(now, level)
    assert served["a"] / served["b"] == pytest.approx(expected, rel=0.02)


def test_promised_seats_are_withheld_until_they_are_free() -> None:
    """A level that uses all seats gets no more, so that another's min is free again; nobody exceeds the grant."""
    lending = Lending(8, {"busy": level_of(4, 8), "idle": (QueueSetSettings(4, 1, 1, 9), LevelLimits(4, 4, 8))})
    busy, idle = lending.levels.values()
    grant = SeatGrant(3, levels={"busy": LevelGrant(3), "idle": LevelGrant(1, 1)})
    lending.restrict(0, SeatGrant(3, levels={"busy": LevelGrant(3), "idle": LevelGrant(1)}))
    first, second, *others = (Ticket("flow", 0, Work()) for _ in range(5))
    for ticket in (first, second, *others):
        lending.arrive(0, busy, ticket)
    lending.restrict(1, grant)
    late = Ticket("flow", 0, Work())
    lending.arrive(2, idle, late)
    assert (busy.queueset.seats_in_use, late.is_waiting) == (3, True), "the grant is exhausted"
    lending.check()

    lending.release(3, busy, first)
    assert (busy.queueset.seats_in_use, late.is_waiting) == (2, True), "the seat is free, but not promised yet"
    lending.restrict(4, grant)
    assert late.is_seated
    lending.release(5, idle, late)
    lending.release(6, busy, second)
    assert (busy.queueset.seats_in_use, idle.least, lending.ledger.free) == (2, 1, 0)
    lending.check()


def test_a_request_wider_than_any_grant_runs_alone_in_its_level() -> None:
    lending = Lending(12, {"a": level_of(12, 12), "b": level_of(12, 12)})
    narrow, wide, other = Ticket("flow", 0, Work()), Ticket("flow", 0, Work(10)), Ticket("flow", 0, Work())
    lending.restrict(0, SeatGrant(8, most=8))
    a, b = lending.levels["a"], lending.levels["b"]
    lending.arrive(0, a, narrow)
    lending.arrive(1, a, wide)
    assert wide.is_waiting
    lending.arrive(2, b, other)
    lending.release(3, a, narrow)
    assert wide.is_seated is not other.is_seated
    lending.restrict(4, None)
    assert (a.most, b.most) == (12, 12)


def test_a_request_waits_until_the_part_of_its_max_is_large_enough() -> None:
    """Meanwhile no seats are saved up for it, and it isn't rejected."""
    lending = Lending(12, {"a": level_of(6, 6), "b": level_of(6, 12)})
    wide, *others = Ticket("flow", 0, Work(4)), *(Ticket("flow", 0, Work()) for _ in range(9))
    a, b = lending.levels["a"], lending.levels["b"]
    for part in (0, 3):
        lending.restrict(0, SeatGrant(12, maxes={"a": part}))
        if part == 0:
            lending.arrive(0, a, wide)
        assert wide.is_waiting
    for ticket in others:
        assert [*lending.arrive(1, b, ticket)] == [ticket]
    lending.release(2, b, others[0])
    lending.restrict(3, SeatGrant(12, maxes={"a": 4}))
    assert wide.is_seated


def test_the_mins_of_other_levels_don_t_let_a_request_run_beyond_its_part() -> None:
    """The mins leave one seat of the max, in one process. In a fleet others may use it, as the other parts say."""
    wanted = {name: (QueueSetSettings(4, 1, 1, 9), LevelLimits(4, 0, 4)) for name in "ac"}
    wanted["b"] = QueueSetSettings(3, 1, 1, 9), LevelLimits(3, 3, 4)
    lending = Lending(4, wanted, hierarchy=Hierarchy({"p": LevelLimits(4, 0, 4)}, {"c": "p"}))
    a, c = lending.levels["a"], lending.levels["c"]
    assert (a.ceiling, c.ceiling) == (1, 1)
    lending.restrict(0, SeatGrant(4, maxes={"a": 1, "p": 1}))
    wide, child = Ticket("flow", 0, Work(2)), Ticket("flow", 0, Work(2))
    lending.arrive(0, a, wide)
    lending.arrive(0, c, child)
    assert wide.is_waiting
    assert child.is_waiting
    lending.restrict(1, SeatGrant(4, maxes={"a": 2, "p": 2}))
    assert wide.is_seated
    assert child.is_seated
    lending.restrict(2, None)
    assert (a.ceiling, c.ceiling) == (1, 1)


def test_a_level_without_seats_has_none_in_a_fleet_either() -> None:
    """All seats are promised to others, so its requests are rejected, as in one process."""
    lending = Lending(3, {"a": level_of(3, 3), "b": (QueueSetSettings(3, 1, 1, 9), LevelLimits(3, 3, 3))})
    lending.restrict(0, SeatGrant(3))
    late = Ticket("flow", 0, Work())
    lending.arrive(0, lending.levels["a"], late)
    assert late.state is TicketState.REJECTED


def test_the_configured_weights_return_with_the_last_grant() -> None:
    lending = Lending(8, {"a": level_of(4, 8), "b": level_of(2, 8)})
    lending.restrict(0, SeatGrant(3, levels={"a": LevelGrant(7, 1), "b": LevelGrant(9)}))
    assert [level.weight for level in lending.levels.values()] == [7, 9]
    lending.restrict(0, None)
    assert [level.weight for level in lending.levels.values()] == [4, 2]


def test_a_lease_ends_before_the_next_request_begins() -> None:
    lending = Lending(8, {"a": level_of(8, 8)})
    lending.restrict(0, SeatGrant(2, lease_until=100, fallback=1, levels={"a": LevelGrant(1, 2)}))
    level = lending.levels["a"]
    first, second, third = (Ticket("flow", 0, Work()) for _ in range(3))
    lending.arrive(99, level, first)
    assert lending.next_event_at() == 100
    lending.arrive(100, level, second)
    assert (first.is_seated, second.is_waiting) == (True, True)
    assert lending.grant == SeatGrant(1, fallback=1)
    lending.arrive(101, level, third)
    lending.release(102, level, first)
    assert (second.is_seated, third.is_waiting) == (True, True)
