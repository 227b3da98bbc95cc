"""Requests that are being received, against a twin that looks at all of them whenever one must be ended."""

import asyncio
import threading
from collections import Counter
from dataclasses import dataclass, field
from timeit import repeat

from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.classification import Classification
from apf_middleware.config.bodies import BodySettings
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime import IncomingBodies, IncomingBody
from tests.support.virtual_alarm import NullAlarm, VirtualAlarm

SEATS = {"users": 3, "crowd": 1, "none": 0}


@dataclass
class Twin:
    """Knows all that are being received, in the order in which they came."""

    present: list[IncomingBody] = field(default_factory=list)

    def victim(self) -> set[IncomingBody]:
        """Those that may be ended: the oldest of each flow that has most, in the levels that have most by seats."""
        levels = Counter(one.level for one in self.present)
        load = {level: number / max(SEATS[level], 0.5) for level, number in levels.items()}
        found = set()
        for level in [level for level in levels if load[level] == max(load.values())]:
            flows = Counter(one.flow for one in self.present if one.level == level)
            for flow in [flow for flow, number in flows.items() if number == max(flows.values())]:
                found.add(next(one for one in self.present if (one.level, one.flow) == (level, flow)))
        return found


@given(
    st.integers(1, 6),
    st.lists(
        st.tuples(st.sampled_from(["come", "come", "go", "time"]), st.sampled_from(sorted(SEATS)), st.integers(0, 4)),
        max_size=60,
    ),
)
def test_the_oldest_upload_of_the_largest_flow_is_ended(most: int, steps: list[tuple[str, str, int]]) -> None:
    now = 0
    bodies = IncomingBodies(lambda: now, lambda *_: NullAlarm())
    bodies.adopt(BodySettings(max_receiving=most, patience_ns=10, min_rate=10**9), SEATS)
    twin = Twin()
    for what, level, number in steps:
        if what == "come":
            incoming = IncomingBody(Classification("schema", level, f"flow {number}", number))
            twin.present.append(incoming)
            allowed = twin.victim() if len(twin.present) > most else set()
            bodies.begin(incoming)
            ended = {one for one in twin.present if one.reason is not None}
            assert len(ended) == bool(allowed)
            assert ended <= allowed
            assert all(one.reason is Reason.BODY_LIMIT for one in ended)
            twin.present = [one for one in twin.present if one not in ended]
        elif what == "go" and twin.present:
            bodies.end(twin.present.pop(number % len(twin.present)))
        elif what == "time":
            now += 5 * number
            for one in twin.present[::2]:
                one.arrived += 10
            due = [one for one in twin.present if one.until <= now]
            slow = {one for one in due if one.arrived < 10}
            bodies._look()
            assert {one for one in twin.present if one.reason is Reason.SLOW_BODY} == slow
            twin.present = [one for one in twin.present if one not in slow]
            assert all(one.until > now for one in twin.present)
        assert bodies.number == len(twin.present)
        bodies.check()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 300), st.booleans()), max_size=80))
def test_a_flow_reserves_no_more_than_the_free_seats(steps: list[tuple[int, int, bool]]) -> None:
    bodies = IncomingBodies(lambda: 0, lambda *_: NullAlarm())
    bodies.adopt(BodySettings(buffer=1, max_buffered=1000), SEATS)
    flows = [IncomingBody(Classification("schema", "users", f"flow {number}", number)) for number in range(4)]
    for number, size, gives in steps:
        incoming = flows[number]
        if gives:
            bodies.give(incoming, min(size, incoming.kept))
        else:
            has_room = bodies.keep(incoming, size)
            assert has_room == (incoming.kept <= 1000 - sum(one.kept for one in flows))
        assert bodies.kept == sum(one.kept for one in flows)
        bodies.check()


def test_each_upload_has_windows_of_its_own() -> None:
    alarm = VirtualAlarm()
    bodies = IncomingBodies(lambda: alarm.now, alarm.make)
    bodies.adopt(BodySettings(patience_ns=10, min_rate=10**9), SEATS)
    fast, slow = (IncomingBody(Classification("schema", "users", "flow", 1)) for _ in range(2))
    bodies.begin(fast)
    alarm.run(5)
    slow.arrived = 10  # what came before doesn't count
    bodies.begin(slow)
    fast.arrived = 10
    alarm.run(10)
    assert (fast.reason, slow.reason) == (None, None), "the window of the slow one ends later"
    alarm.run(15)
    assert (fast.reason, slow.reason) == (None, Reason.SLOW_BODY)
    alarm.run(20)
    assert fast.reason is Reason.SLOW_BODY, "nothing has arrived in its second window"
    assert bodies.number == 0


def test_a_server_that_stops_ends_the_uploads_that_do_not_run() -> None:
    bodies = IncomingBodies(lambda: 0, lambda *_: NullAlarm())
    waits, runs, late, later = (IncomingBody(Classification("schema", "users", "flow", 1)) for _ in range(4))
    runs.is_running = True
    bodies.begin(waits)
    bodies.close()
    bodies.begin(late)
    bodies.begin(runs)
    bodies.open()
    bodies.begin(later)

    assert [one.reason for one in (waits, late)] == [Reason.QUEUE_CLOSED] * 2
    assert [one.reason for one in (runs, later)] == [None] * 2
    assert bodies.number == 2


def test_a_task_is_interrupted_in_its_own_event_loop() -> None:
    incoming, threads = IncomingBody(Classification("schema", "users", "flow", 1)), []

    async def wait() -> None:
        interrupted = asyncio.Event()

        def interrupt() -> None:
            threads.append(threading.current_thread())
            interrupted.set()

        incoming.begin_to_wait(interrupt)
        await asyncio.to_thread(incoming.interrupt)
        async with asyncio.timeout(60):
            await interrupted.wait()
        incoming.end_to_wait()
        incoming.interrupt()

    asyncio.run(wait())

    assert threads == [threading.current_thread()]


def test_the_upload_to_end_is_found_as_fast_among_many() -> None:
    """Also when as many older ones have ended."""

    def fastest(number: int) -> float:
        bodies = IncomingBodies(lambda: 0, lambda *_: NullAlarm())
        bodies.adopt(BodySettings(max_receiving=number), SEATS)
        for _ in range(3 * number // 2):
            bodies.begin(IncomingBody(Classification("schema", "users", "flow", 1)))
        assert bodies.number == number
        return min(repeat(bodies._levels["users"].first, number=10, repeat=20))

    assert fastest(100_000) < 20 * fastest(100)
