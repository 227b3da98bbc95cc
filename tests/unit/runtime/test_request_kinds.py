"""How many requests read and write, counted by levels and sampled over time."""

from random import Random

import pytest

from apf_middleware.runtime import request_kinds
from apf_middleware.runtime.level import RequestKinds
from apf_middleware.runtime.request_kinds import KindSampler
from tests.support.level_world import LevelWorld, configuration
from tests.support.virtual_alarm import VirtualAlarm

MS = 10**6
SECOND = 10**9


class Level:
    """A level of which only the numbers matter."""

    def __init__(self) -> None:
        self.kinds = RequestKinds(0, 0, 0, 0)
        self.dispatched = 0

    def add_kinds(self, others: RequestKinds) -> RequestKinds:
        return RequestKinds(*map(sum, zip(self.kinds, others, strict=True)))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualAlarm:
    clock = VirtualAlarm()
    monkeypatch.setattr(request_kinds, "Alarm", clock.make)
    return clock


def test_long_requests_are_sampled_until_they_end(clock: VirtualAlarm) -> None:
    level, rests = Level(), []
    sampler = KindSampler(lambda: [level], lambda: clock.now, lambda: rests.append(clock.now), Random(1))  # type: ignore[list-item]
    level.kinds, level.dispatched = RequestKinds(3, 1, 0, 2), 4
    sampler.begin()
    sampler.begin()
    clock.run(10 * SECOND)
    level.kinds = RequestKinds(0, 0, 0, 0)
    clock.run(100 * SECOND)

    times = sampler.times()
    assert len(rests) == 1
    assert clock.at is None
    assert times["executing", "readOnly"][3] == pytest.approx(10 * SECOND, abs=50 * MS)
    assert times["executing", "mutating"][1] == times["waiting", "mutating"][2] == times["executing", "readOnly"][3]
    assert times["waiting", "readOnly"] == {0: 100 * SECOND}


def test_short_requests_are_sampled_in_proportion(clock: VirtualAlarm) -> None:
    level = Level()
    sampler = KindSampler(lambda: [level], lambda: clock.now, lambda: None, Random(7))  # type: ignore[list-item]
    for start in range(0, 2000 * SECOND, SECOND):  # one that takes 5 ms, each second
        clock.run(start)
        level.dispatched += 1
        level.kinds = RequestKinds(1, 0, 0, 0)
        sampler.begin()
        clock.run(start + 5 * MS)
        level.kinds = RequestKinds(0, 0, 0, 0)
    clock.run(2000 * SECOND)

    assert sampler.times()["executing", "readOnly"][1] == pytest.approx(10 * SECOND, rel=0.3)


def test_a_level_counts_readers_and_writers_apart_and_shows_their_sum() -> None:
    level = LevelWorld(configuration()).crowd
    reads, writes = level.counters_of("all"), level.counters_of("all", writes=True)
    reads.at_once, reads.waiting = 5, 1
    writes.at_once, writes.waiting, writes.widths = 3, 2, {4: 2}
    writes.executions.observe(MS)

    assert level.add_kinds(RequestKinds(10, 20, 30, 40)) == RequestKinds(15, 22, 31, 42)
    shown = level.schema_counters["all"]
    assert (shown.dispatched, shown.executing, shown.waiting, shown.executions.count) == (8, 7, 3, 1)
    assert (level.dispatched, shown.widths) == (8, {4: 2})
    assert not level.forget_schemas((), 0)
    assert level.schema_counters.keys() == {"all"}
    writes.waiting = reads.waiting = 0
    reads.at_once, writes.at_once = 0, 1
    assert level.forget_schemas((), 0)
    assert level.schema_counters == {}
    assert level.dispatched == 0
