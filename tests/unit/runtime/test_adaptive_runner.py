"""The runner looks while requests run, tells what the seats are used for, and applies decisions; idle, it sleeps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from apf_middleware.adaptive import LimitReason
from apf_middleware.classification import Classification
from apf_middleware.config import Configuration, load_text
from apf_middleware.config.adaptive_seats import SeatBounds
from apf_middleware.fairqueuing import Reason, TicketState, Work
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.adaptive_runner import AdaptiveRunner
from apf_middleware.runtime.event_queue import EventQueue, VirtualTimer
from apf_middleware.runtime.level import LevelRuntime

MS = 10**6
SECOND = 10**9


def configuration(seats: str = "{adaptive: {min: 4, max: 100}}", promised: int = 0, wait: str = "1s") -> Configuration:
    return load_text(
        f"""
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: busy}}
spec: {{shares: 10, lendablePercent: 100, waitLimit: {wait}, queuing: {{queues: 1, handSize: 1, queueLengthLimit: 50}}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: other}}
spec: {{shares: 10, lendablePercent: 100, minSeats: {promised}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: busy, rules: [{{httpRules: [{{}}]}}]}}
"""
    )


class World:
    """A controller in virtual time; at most ``capacity`` requests run at full speed."""

    def __init__(self, config: Configuration, capacity: int = 20) -> None:
        self.events = EventQueue()
        self.timers: list[VirtualTimer] = []
        self.controller = Controller(config, now=self.events.read, alarm=self._alarm)
        self.capacity = capacity
        self.running = 0
        self.level = "busy"
        self.totals: list[int] = []
        self.status = 200

    def _alarm(self, ring: Callable[[], None], _now: Callable[[], int]) -> VirtualTimer:
        timer = VirtualTimer(self.events, ring)
        self.timers.append(timer)
        return timer

    @property
    def has_runner(self) -> bool:
        return self.controller.adaptive is not None

    @property
    def adaptive(self) -> AdaptiveRunner:
        assert isinstance(self.controller.adaptive, AdaptiveRunner)
        return self.controller.adaptive

    def admission(self, route: str | None = "GET /") -> Admission:
        destination = self.controller.destination(Classification("all", self.level, "alice", 7), Work())
        destination.route = route
        return Admission(destination)

    def arrive(self, route: str | None = "GET /") -> Admission:
        admission = self.admission(route)
        self.controller.arrive(self.events.now, admission)
        return admission

    def demand(self, number: int, seconds: float) -> None:
        """Keep ``number`` clients busy, each with one request at a time of 40 ms or more."""
        until = self.events.now + round(seconds * SECOND)
        for _ in range(number):
            self.events.at(self.events.now, self._ask, until)
        for step in range(1, round(seconds * 10)):
            self.events.at(self.events.now + step * 100 * MS, self._look, None)
        self.events.run(until + SECOND)

    def _look(self, _: object) -> None:
        self.totals.append(self.controller.seats)

    def _ask(self, until: int) -> None:
        if self.events.now < until:
            call = Call(self, self.arrive(), until)
            if call.admission.state is TicketState.WAITING:
                call.admission.waiter = call
            else:
                self.begin(call)

    def begin(self, call: "Call") -> None:
        if call.admission.seats:
            self.running += 1
            lasts = round(40 * MS * max(1.0, self.running / self.capacity))
            self.events.at(self.events.now + lasts, self._end, call)
        else:
            self.events.at(self.events.now + 40 * MS, self._ask, call.until)

    def _end(self, call: "Call") -> None:
        self.running -= 1
        if self.status >= 500:
            call.admission.fail(self.status)
        self.controller.release(call.admission)
        self._ask(call.until)


@dataclass
class Call:
    """A request of a client that makes requests ``until`` some time."""

    world: World
    admission: Admission
    until: int

    def wake(self) -> None:
        self.world.events.at(self.world.events.now, self.world.begin, self)


def test_it_finds_what_the_server_can_do() -> None:
    world = World(configuration())
    world.demand(50, 30)

    assert world.totals[0] == 4
    assert all(16 <= total <= 28 for total in world.totals[-100:]), world.totals
    assert {LimitReason.GREW, LimitReason.NO_GAIN} < world.adaptive.decisions.keys()
    assert sum(world.adaptive.decisions.values()) > 20


def test_nothing_is_tried_while_requests_run_without_seats() -> None:
    world = World(configuration("{adaptive: {min: 4, max: 100, start: 20}}"))
    world.demand(50, 10)
    found = world.controller.seats
    world.totals.clear()
    world.controller.is_passing = True
    world.demand(200, 20)

    assert set(world.totals[10:]) == {world.controller.seats}, "a try that was under way ends"
    assert abs(world.controller.seats - found) <= found / 2


def test_it_goes_on_in_another_event_loop() -> None:
    world = World(configuration())
    world.controller.release(world.arrive())
    assert len(world.events)
    world.events.heap.clear()  # with the event loop, its timers have ended
    for timer in world.timers:
        timer._at = None  # an alarm sees that its event loop is another one
    world.events.now += 10 * SECOND
    world.demand(50, 30)

    assert world.controller.seats >= 16


def test_an_idle_server_has_no_timer() -> None:
    world = World(configuration())
    world.demand(50, 2)

    assert len(world.events) == 0
    world.controller.release(world.arrive())
    assert len(world.events) == 1, "it looks once more"
    world.events.run()
    assert len(world.events) == 0


def test_without_need_nothing_changes() -> None:
    world = World(configuration("{adaptive: {min: 4, max: 100, start: 30}}"))
    world.demand(8, 10)

    assert set(world.totals) == {30}
    assert world.adaptive.total.reason is LimitReason.UNUSED


def test_seats_that_are_promised_to_idle_levels_do_not_count_as_free() -> None:
    world = World(configuration("{adaptive: {min: 20, max: 100, start: 20}}", promised=10))
    world.demand(50, 20)

    assert min(world.totals[-50:]) > 20


def test_rejections_count_as_waiting() -> None:
    """A level without room in its queue rejects at once, so nobody waits."""
    world = World(configuration(wait="0s"))
    for reason in Reason:
        before = len(world.events)
        world.adaptive.note_rejected(world.events.now, reason)
        is_for_seats = reason in {Reason.QUEUE_FULL, Reason.CONCURRENCY_LIMIT, Reason.TIME_OUT, Reason.DEADLINE}
        assert (len(world.events) > before) == is_for_seats, reason
        world.events.run()


def test_rejections_let_a_larger_total_be_tried() -> None:
    world = World(configuration())

    def reject(_: object) -> None:
        world.adaptive.note_rejected(world.events.now, Reason.QUEUE_FULL)
        if world.events.now < 5 * SECOND:
            world.events.at(world.events.now + 20 * MS, reject, None)

    reject(None)
    world.demand(4, 5)  # as many as there are seats, so that no request waits

    assert world.totals[0] == 4 < max(world.totals)


def test_a_rejection_counts_once() -> None:
    """One burst isn't a need for more seats as long as the server runs."""
    world = World(configuration("{adaptive: {min: 4, max: 100, start: 20}}"))
    world.adaptive.note_rejected(world.events.now, Reason.QUEUE_FULL)
    world.events.run()
    world.demand(8, 10)

    assert set(world.totals) == {20}


def test_a_rejection_is_forgotten_while_the_server_is_idle() -> None:
    """Bursts that are rejected in part aren't a need for more seats all the time between them."""
    world = World(configuration("{adaptive: {min: 4, max: 100, start: 20}}"))
    for _ in range(20):
        burst = [world.arrive() for _ in range(8)]
        world.adaptive.note_rejected(world.events.now, Reason.QUEUE_FULL)
        world.events.run(world.events.now + 20 * MS)
        for admission in burst:
            world.controller.release(admission)
        world.events.run(world.events.now + 3 * SECOND)
        world.totals.append(world.controller.seats)

    assert set(world.totals) == {20}


def test_requests_that_never_reach_their_level_do_not_count_as_waiting() -> None:
    world = World(configuration(wait="0s"))
    before = len(world.events)
    for reason in Reason:
        world.controller.refuse(world.events.now, world.admission(), reason)

    assert len(world.events) == before


def test_refusals_behind_the_app_reduce_the_total() -> None:
    world = World(configuration("{adaptive: {min: 4, max: 100, start: 20}}"))
    world.status = 503
    world.demand(50, 5)

    assert world.totals[-1] < 10
    assert LimitReason.REFUSED in world.adaptive.decisions


def test_requests_without_a_route_and_long_ones_are_not_observed() -> None:
    world = World(configuration())
    world.controller.release(world.arrive(route=None))
    world.controller.release(world.arrive(), long_lived=True)
    assert world.adaptive.total.window.duration_ns == 0

    admission = world.arrive()
    world.events.at(world.events.now + 5 * MS, world.controller.release, admission)
    world.events.run()
    assert world.adaptive.total.window.duration_ns == 5 * MS


def test_what_metrics_show() -> None:
    world = World(configuration())
    before = world.adaptive.reading()
    world.demand(50, 10)
    after = world.adaptive.reading()

    assert (before.least, before.largest, before.reason, before.elasticity) == (4, 100, "start", None)
    assert before.decisions == {}
    assert after.elasticity is not None
    assert after.duration_ns > 15 * MS
    assert after.decisions == world.adaptive.decisions


def test_requests_of_a_paused_level_do_not_count_as_waiting() -> None:
    """No number of seats would let them run."""
    world = World(configuration("{adaptive: {min: 4, max: 100, start: 30}}", wait="60s"))
    busy = world.controller.levels["busy"]
    world.controller.operate(busy, held=True, closing=False)
    paused = [world.arrive() for _ in range(40)]
    world.level = "other"
    world.demand(8, 10)

    assert set(world.totals) == {30}
    assert len(world.events) == 0, "nor do they keep an idle server looking"
    world.controller.operate(busy, held=False, closing=False)
    assert sum(admission.seats for admission in paused) == 30


def test_rejections_of_a_paused_level_are_not_for_lack_of_seats() -> None:
    world = World(configuration(wait="60s"))
    world.controller.operate(world.controller.levels["busy"], held=True, closing=False)
    requests = [world.arrive() for _ in range(60)]
    assert {request.reason for request in requests} == {None, Reason.QUEUE_FULL}
    world.controller.abandon(requests[0], Reason.TIME_OUT)

    assert len(world.events) == 0, "no look is needed"


def test_other_bounds_begin_anew_and_a_fixed_number_ends_it() -> None:
    world = World(configuration())
    world.demand(50, 10)
    found, runner = world.controller.seats, world.adaptive

    world.controller.reconfigure(configuration(promised=1))
    assert world.controller.adaptive is runner
    assert world.controller.seats == found

    world.controller.reconfigure(configuration("{adaptive: {min: 4, max: 6}}"))
    assert world.adaptive is not runner
    assert (world.controller.seats, world.adaptive.total.limit) == (6, 6)

    world.controller.reconfigure(configuration("7"))
    assert not world.has_runner
    assert world.controller.seats == 7

    world.controller.reconfigure(configuration("{adaptive: {min: 2, max: 60}}"))
    assert (world.controller.seats, world.adaptive.total.limit) == (7, 7), "a number that is allowed stays"

    world.controller.reconfigure(configuration("8"))
    world.controller.reconfigure(configuration("{adaptive: {min: 2, max: 60, start: 30}}"))
    assert (world.controller.seats, world.adaptive.total.limit) == (30, 30)


@pytest.mark.parametrize("reloaded_ms", [2000, 2500, 3000, 4000, 4500])
def test_a_runner_that_a_reload_has_ended_changes_nothing_more(reloaded_ms: int) -> None:
    """Its timer is still set, and it may be in the middle of a try."""
    world = World(configuration())
    world.events.at(reloaded_ms * MS, world.controller.reconfigure, configuration("25"))
    world.demand(50, 8)

    assert set(world.totals[reloaded_ms // 100 + 1 :]) == {25}


class BrokenOnce:
    """Levels of which the first look fails."""

    looks = 0

    def __iter__(self) -> Iterator[LevelRuntime]:
        self.looks += 1
        if self.looks == 1:
            raise ZeroDivisionError
        return iter(())


def test_an_error_is_not_the_last_look() -> None:
    """The event loop logs it, as any error of a timer."""
    events, levels, resized = EventQueue(), BrokenOnce(), list[int]()
    runner = AdaptiveRunner(
        SeatBounds(4, 100),
        10,
        levels=levels,
        resize=resized.append,
        now=events.read,
        alarm=lambda ring, _: VirtualTimer(events, ring),
    )

    runner.note_rejected(events.now, Reason.QUEUE_FULL)
    with pytest.raises(ZeroDivisionError):
        events.run(SECOND)
    runner.note_rejected(events.now, Reason.QUEUE_FULL)
    events.run(2 * SECOND)

    assert levels.looks > 1
