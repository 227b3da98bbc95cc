"""The levels' promises hold while the total of seats moves: limits, mins and the order of requests, at every size."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.classification import Classification
from apf_middleware.config import load_text
from apf_middleware.fairqueuing import Reason, TicketState, Work
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.event_queue import EventQueue, VirtualTimer
from tests.support.examples import examples

pytestmark = pytest.mark.timeout(600)

LEVELS = ("gold", "silver", "rest")
SHARES = {"gold": 50, "silver": 30, "rest": 20}
CONFIGURATION = """
apiVersion: apf/v1
kind: Server
spec: {{seats: {{adaptive: {{min: 1, max: 60, start: 10}}}}, defaults: none, discipline: {discipline}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: rest, rules: [{{httpRules: [{{}}]}}]}}
""" + "".join(
    f"""---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{{{name: {name}}}}}
spec:
  shares: {shares}
  lendablePercent: 50
  waitLimit: 1s
  queuing: {{{{queues: 8, handSize: 2, queueLengthLimit: 40}}}}
"""
    for name, shares in SHARES.items()
)
DISCIPLINES = ("equal-serial", "max-min-serial", "max-min-concurrent")

steps = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.sampled_from(LEVELS), st.integers(1, 6)),
        st.tuples(st.just("release"), st.integers(0, 1000), st.just(0)),
        st.tuples(st.just("abandon"), st.integers(0, 1000), st.just(0)),
        st.tuples(st.just("resize"), st.integers(1, 60), st.just(0)),
        st.tuples(st.just("pass"), st.integers(1, 10**9), st.just(0)),
    ),
    max_size=120,
)


class World:
    """A controller whose total of seats is moved by hand, and all of its requests."""

    def __init__(self, discipline: str) -> None:
        self.events = EventQueue()
        configuration = load_text(CONFIGURATION.format(discipline=discipline))
        self.controller = Controller(
            configuration, now=self.events.read, alarm=lambda ring, _: VirtualTimer(self.events, ring)
        )
        self.requests: list[Admission] = []
        self.flows = 0
        self.most = self.controller.seats  # so far

    def of(self, state: TicketState) -> list[Admission]:
        return [one for one in self.requests if one.state is state]

    def used(self, level: str | None = None) -> int:
        return sum(one.seats for one in self.requests if level in {None, one.level})

    def arrive(self, level: str, flow: int) -> None:
        place = Classification("all", level, str(flow), flow * 7919)
        self.requests.append(Admission(self.controller.destination(place, Work())))
        self.controller.arrive(self.events.now, self.requests[-1])

    def release(self, chosen: int) -> None:
        if running := self.of(TicketState.SEATED):
            self.controller.release(running[chosen % len(running)])

    def abandon(self, chosen: int) -> None:
        if waiting := self.of(TicketState.WAITING):
            self.controller.abandon(waiting[chosen % len(waiting)], Reason.TIME_OUT)

    def elapse(self, nanoseconds: int) -> None:
        self.events.run(self.events.now + nanoseconds)

    def check_growth(self, before: dict[str, int]) -> None:
        """Check that seats beyond a smaller total are only given to levels that are owed them."""
        if self.used() > self.controller.seats:
            for name, seats in before.items():
                assert self.used(name) <= max(seats, self.controller.registry.limits[name].min)

    def check(self) -> None:
        controller = self.controller
        controller.sharing.check()
        total, limits = controller.seats, controller.registry.limits
        self.most = max(self.most, total)
        assert self.used() <= self.most, "a smaller total may be exceeded, but never what there was"
        assert sum(one.min for one in limits.values()) <= total
        waiting = {one.level for one in self.of(TicketState.WAITING)}
        if not waiting:
            return
        owed = {name: limits[name].min - self.used(name) for name in LEVELS}
        for name in waiting:
            # a min is only late while requests still run that were seated when the total was larger
            assert owed[name] <= 0 or self.used() >= total, (name, owed, total)
        kept = sum(max(0, owed[name]) for name in set(LEVELS) - waiting)
        assert self.used() + kept >= total, "seats are free although requests wait"


@given(discipline=st.sampled_from(DISCIPLINES), crowd=st.integers(0, 30), plan=steps)
@examples(150)
def test_promises_hold_at_every_size(discipline: str, crowd: int, plan: list[tuple[str, object, int]]) -> None:
    world = World(discipline)
    for number in range(crowd):  # more than there are seats, so that a smaller total is exceeded, and requests wait
        world.arrive(LEVELS[number % len(LEVELS)], number % 7)
    for kind, first, second in plan:
        before = {name: world.used(name) for name in LEVELS}
        match kind, first:
            case "arrive", str(level):
                world.arrive(level, second)
            case "release", int(chosen):
                world.release(chosen)
            case "abandon", int(chosen):
                world.abandon(chosen)
            case "resize", int(seats):
                world.controller.resize(seats)
                assert world.controller.seats == seats
            case "pass", int(time):
                world.elapse(time)
        world.check_growth(before)
        world.check()
    for _ in world.requests:
        world.release(0)
    assert world.used() == 0
    assert not world.of(TicketState.WAITING), "nobody is lost"


@given(seats=st.integers(1, 60), discipline=st.sampled_from(DISCIPLINES))
@examples(30)
def test_busy_levels_divide_any_total_by_their_shares(seats: int, discipline: str) -> None:
    world = World(discipline)
    for number in range(70 * len(LEVELS)):
        world.arrive(LEVELS[number % len(LEVELS)], number % 5)
    world.controller.resize(seats)
    for _ in range(300):  # who was seated before leaves, and everybody asks again
        one = world.of(TicketState.SEATED)[0]
        world.controller.release(one)
        world.arrive(one.level, len(world.requests) % 5)
        world.elapse(10**6)
    for name, shares in SHARES.items():
        part = Fraction(shares * seats, 100)
        assert abs(world.used(name) - part) <= 2, (name, seats, world.used(name))
