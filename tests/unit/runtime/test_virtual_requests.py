"""Virtual requests are counted exactly as requests that wait for their seats."""

import random
from collections.abc import Callable
from heapq import heappop, heappush
from zlib import crc32

import pytest

from apf_middleware.classification import Classification
from apf_middleware.config import Configuration, load_text
from apf_middleware.fairqueuing import Reason, TicketState, Work
from apf_middleware.metrics import APFCollector
from apf_middleware.runtime import Admission, Controller, NamedQueues, read_server
from apf_middleware.runtime.timeouts import Timeouts
from apf_middleware.runtime.virtual_requests import VirtualRequest, VirtualRequests

MS = 10**6


def configuration(discipline: str, response: str = "Queue", seats: int = 3) -> Configuration:
    queuing = "waitLimit: 80ms, queuing: {queues: 4, handSize: 2, queueLengthLimit: 6}" if response == "Queue" else ""
    return load_text(f"""
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none, discipline: {discipline}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: crowd}}
spec: {{shares: 100, response: {response}, {queuing}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: batch}}
spec: {{shares: 50, lendablePercent: 50, waitLimit: 200ms, queuing: {{queues: 2, handSize: 1, queueLengthLimit: 9}}}}
""")


class World:
    """A controller under a clock of its own, and events in the order of their times."""

    def __init__(self, config: Configuration) -> None:
        self.time = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._alarms: list[WorldAlarm] = []
        self.controller = Controller(config, now=lambda: self.time, alarm=self.alarm)
        self.admissions: list[Admission] = []
        self.rejected: list[Admission] = []
        self.limits = {
            name: Timeouts(runtime.wait_limit_ns, lambda: self.time, WaitingRequest.expire, self.alarm)
            for name, runtime in self.controller.levels.items()
        }
        self.requests = VirtualRequests(lambda: self.time, self.rejected.append, alarm=self.alarm)

    def at(self, time: int, event: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._events, (time, self._number, event))

    def alarm(self, ring: Callable[[], None], _now: Callable[[], int]) -> "WorldAlarm":
        self._alarms.append(WorldAlarm(self, ring))
        return self._alarms[-1]

    def end_loop(self) -> None:
        """Lose all that was scheduled, as if another event loop began."""
        self._events.clear()
        for alarm in self._alarms:
            alarm.forget()

    def run(self, until: int | None = None) -> None:
        while self._events and (until is None or self._events[0][0] <= until):
            self.time, _, event = heappop(self._events)
            event()
        if until is not None:
            self.time = until

    def ask(self, level: str = "crowd", flow: str = "alice", seats: int = 1) -> Admission:
        """Return an admission that hasn't arrived yet."""
        place = Classification("all", level, flow, crc32(flow.encode()))
        self.admissions.append(Admission(self.controller.destination(place, Work(seats))))
        return self.admissions[-1]

    def begin(self, level: str = "crowd", flow: str = "alice", seats: int = 1) -> VirtualRequest:
        return self.requests.begin(self.time, self.ask(level, flow, seats))


class WorldAlarm:
    """An alarm in a world."""

    def __init__(self, world: World, ring: Callable[[], None]) -> None:
        self._world = world
        self._ring = ring
        self._at: int | None = None

    def ask(self, at: int) -> None:
        if self._at is None or at < self._at:
            self._at = at
            self._world.at(max(at, self._world.time), lambda: self._fire(at))

    def forget(self) -> None:
        self._at = None

    def _fire(self, at: int) -> None:
        if at == self._at:
            self._at = None
            self._ring()


class WaitingRequest:
    """A request that runs for ``lasts`` as soon as it has its seats."""

    def __init__(self, world: World, admission: Admission, lasts: int) -> None:
        self._world, self._admission, self._lasts = world, admission, lasts
        controller = world.controller
        controller.arrive(world.time, admission)
        if admission.state is TicketState.WAITING:
            admission.waiter = self
            world.limits[admission.level].begin(self)
        else:
            self.wake()

    def expire(self) -> None:
        self._world.controller.abandon(self._admission, Reason.TIME_OUT)

    def wake(self) -> None:
        self._world.limits[self._admission.level].end(self)
        if self._admission.is_seated:
            end = self._admission.seated_at + self._lasts
            self._world.at(end, lambda: self._world.controller.release(self._admission))


def play(config: Configuration, seed: int, *, virtual: bool) -> World:
    """Play random requests, the times of which are never the same."""
    world, chance = World(config), random.Random(seed)
    time = 0
    for number in range(400):
        time += chance.randrange(2 * 10 * MS)
        lasts = chance.randrange(1, 60 * MS)
        level, flow = chance.choice(["crowd", "crowd", "batch"]), f"flow-{chance.randrange(5)}"
        seats = chance.choice([1, 1, 1, 2])

        def arrive(level: str = level, flow: str = flow, seats: int = seats, lasts: int = lasts) -> None:
            if virtual:
                world.at(world.time + lasts, world.begin(level, flow, seats).finish)
            else:
                WaitingRequest(world, world.ask(level, flow, seats), lasts)

        world.at(time, arrive)
        if number == 200:
            time += 10**9  # an idle time
    world.run()
    return world


def scrape(world: World) -> list[str]:
    """Return all metrics, at one time."""
    world.time = 3600 * 1000 * MS
    queues = NamedQueues(world.controller)
    collector = APFCollector(lambda: read_server(world.controller, queues))
    return collector.write(open_metrics=False).decode().splitlines()


@pytest.mark.parametrize("response", ["Queue", "Reject"])
@pytest.mark.parametrize("discipline", ["equal-serial", "max-min-serial", "max-min-concurrent"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_happens_to_them_is_what_would_happen_to_real_ones(discipline: str, response: str, seed: int) -> None:
    config = configuration(discipline, response)
    real, virtual = (play(config, seed, virtual=one) for one in (False, True))

    def outcomes(world: World) -> list[tuple[object, ...]]:
        return [(one.flow, one.width, one.reason, one.waited) for one in world.admissions]

    assert outcomes(virtual) == outcomes(real)
    assert {one.reason for one in virtual.admissions} >= {None, Reason.TIME_OUT if response == "Queue" else None}
    assert {*map(id, virtual.rejected)} == {id(one) for one in virtual.admissions if one.reason is not None}
    assert scrape(virtual) == scrape(real)
    virtual.controller.sharing.check()
    assert all(runtime.shared.queueset.is_idle for runtime in virtual.controller.registry)


def test_one_that_waited_runs_virtually_for_as_long_as_the_real_one_did() -> None:
    world = World(configuration("equal-serial", seats=1))
    first, second = world.begin(), world.begin()
    assert [one.admission.state for one in (first, second)] == [TicketState.SEATED, TicketState.WAITING]
    world.run(10 * MS)
    second.finish()
    world.run(30 * MS)
    first.finish()
    assert second.admission.is_seated, "from now on, for 10 ms"
    world.run(39 * MS)
    assert second.admission.is_seated
    world.run(41 * MS)
    assert second.admission.state is TicketState.RELEASED
    second.finish()
    assert second.admission.waited == 0.03


def test_one_whose_deadline_comes_while_it_waits_is_rejected() -> None:
    world = World(configuration("equal-serial", seats=1))
    first = world.begin()
    admission = world.ask()
    admission.set_deadline(20 * MS, 15 * MS)
    second = world.requests.begin(0, admission)
    second.finish()
    world.run(14 * MS)
    assert admission.state is TicketState.WAITING
    world.run(15 * MS)
    assert (admission.reason, admission.waited) == (Reason.DEADLINE, 0.015)
    assert world.rejected == [admission]
    first.finish()
    world.run()
    world.controller.sharing.check()


def test_a_deadline_ends_the_wait_and_not_the_run() -> None:
    world = World(configuration("equal-serial", seats=1))
    first = world.begin()
    admission = world.ask()
    admission.set_deadline(25 * MS, 20 * MS)
    second = world.requests.begin(0, admission)
    world.run(10 * MS)
    first.finish()
    world.run(15 * MS)
    second.finish()
    world.run(24 * MS)
    assert admission.is_seated, "for as long as the real one ran: 15 ms from 10 ms on"
    world.run(25 * MS)
    assert admission.state is TicketState.RELEASED


def test_one_that_is_refused_on_arrival_asks_for_no_seats() -> None:
    world = World(configuration("equal-serial", seats=1))
    admission = world.ask()
    world.controller.refuse(0, admission, Reason.DEADLINE)
    request = world.requests.begin(0, admission)
    request.finish()
    assert (admission.reason, world.rejected) == (Reason.DEADLINE, [admission])


def test_after_the_end_of_the_mode_seats_are_free_when_the_real_request_has_ended() -> None:
    world = World(configuration("equal-serial", seats=1))
    first, waited = world.begin(), world.begin()
    world.run(MS)
    first.finish()
    assert waited.admission.is_seated
    world.requests.clear()
    waited.finish()
    assert waited.admission.state is TicketState.RELEASED, "it doesn't take its seats for as long as it has waited"


def test_the_end_of_the_mode_frees_the_seats_of_requests_that_have_ended() -> None:
    world = World(configuration("equal-serial", seats=1))
    running, waiting = world.begin(), world.begin()
    world.run(MS)
    waiting.finish()
    assert world.controller.let_pass() == 1
    assert waiting.admission.has_passed
    world.requests.clear()
    assert running.admission.is_seated, "its real request still runs"
    running.finish()
    world.run()
    assert running.admission.state is TicketState.RELEASED
    assert world.rejected == []

    ended = world.begin()
    waits = world.begin()
    world.run(world.time + MS)
    waits.finish()
    ended.finish()
    assert waits.admission.is_seated, "for another millisecond"
    world.requests.clear()
    assert waits.admission.state is TicketState.RELEASED
    world.run()
    world.controller.sharing.check()


def test_seats_come_free_although_the_event_loop_has_ended_that_had_the_timer() -> None:
    world = World(configuration("equal-serial", seats=1))
    first, second = world.begin(), world.begin()
    world.run(MS)
    second.finish()
    first.finish()
    assert second.admission.is_seated, "for another millisecond"
    world.end_loop()
    world.time = 10 * MS
    third = world.begin()
    assert third.admission.is_waiting
    world.run(10 * MS)
    assert (second.admission.state, third.admission.state) == (TicketState.RELEASED, TicketState.SEATED)


def test_seats_that_are_given_back_early_while_the_wait_lasts_are_held_for_as_long_as_the_real_ones() -> None:
    world = World(configuration("equal-serial", seats=1))
    first, second = world.begin(), world.begin()
    streams = second.admission.destination.runtime.streams
    passing = world.ask()
    passing.pass_with(second)
    world.run(10 * MS)
    assert passing.charge(2)
    assert passing.release()
    assert streams.open == 1
    world.run(30 * MS)
    first.finish()
    world.run(39 * MS)
    assert second.admission.is_seated
    world.run(41 * MS)
    assert second.admission.state is TicketState.RELEASED
    assert sum(second.admission.destination.counters.streams.counts) == 1
    world.controller.sharing.check()


def test_one_that_would_have_been_rejected_has_no_place_among_the_streams() -> None:
    world = World(configuration("equal-serial", seats=1))
    first, second = world.begin(), world.begin()
    streams = second.admission.destination.runtime.streams
    passing = world.ask()
    passing.pass_with(second)
    assert passing.release()
    assert streams.open == 1
    world.run(100 * MS)
    assert second.admission.reason is Reason.TIME_OUT
    assert streams.open == 0
    assert passing.release()
    assert streams.open == 0
    first.finish()


def test_a_task_that_the_app_has_left_behind_gives_back_nothing_and_gets_no_error() -> None:
    world = World(configuration("equal-serial", seats=1))
    request = world.begin()
    streams = request.admission.destination.runtime.streams
    passing = world.ask()
    passing.pass_with(request)
    passing.long_term()
    request.finish()
    assert passing.stream is not None
    passing.stream.close()
    assert passing.release()
    assert not passing.charge(2)
    assert streams.open == 0
