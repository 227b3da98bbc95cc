"""The lag of a server's event loop, and what it does to elastic levels; in virtual time."""

import logging
from collections.abc import Callable
from random import Random

import pytest

from apf_middleware.config import Configuration
from apf_middleware.runtime import Admission
from apf_middleware.runtime.event_loop_monitor import EventLoopMonitor
from tests.support.level_world import LevelWorld, configuration
from tests.support.log_events import events

MS = 10**6
SECOND = 10**9
ELASTIC = ", elastic: true, lendablePercent: 100"


class MonitoredServer:
    """A server with the elastic level ``crowd``, and timers of a virtual event loop that ring ``late``."""

    def __init__(self, config: Configuration) -> None:
        self.world = LevelWorld(config)
        self.late = 0
        self.rests = 0
        self.at: int | None = None
        self.monitor = EventLoopMonitor(self.world.controller, self.rest, chance=Random(1), alarm=self.alarm)

    def rest(self) -> None:
        self.rests += 1

    def alarm(self, ring: Callable[[], None], _now: Callable[[], int]) -> "MonitoredServer":
        self.ring = ring
        return self

    def ask(self, at: int) -> None:
        self.at = at if self.at is None else min(at, self.at)

    def run(self, duration: int) -> None:
        end = self.world.time + duration
        while self.at is not None and self.at + self.late <= end:
            self.world.time, self.at = self.at + self.late, None
            self.ring()
        self.world.time = end

    @property
    def cap(self) -> int | None:
        return self.world.crowd.shared.snapshot().cap


def busy(config: Configuration, requests: int = 4) -> tuple[MonitoredServer, list[Admission]]:
    server = MonitoredServer(config)
    admissions = [server.world.arrive() for _ in range(requests)]
    server.monitor.begin()
    return server, admissions


@pytest.mark.parametrize(
    ("level", "server", "is_on"), [("", "", False), (ELASTIC, "", True), ("", ", eventLoop: {}", True)]
)
def test_the_lag_is_measured_only_where_it_matters(level: str, server: str, is_on: bool) -> None:  # noqa: FBT001
    found, _ = busy(configuration(level, server))
    found.run(5 * SECOND)

    assert found.monitor.is_on is is_on
    assert (found.monitor.lag.probes > 0) is is_on
    assert (found.monitor.reading() is not None) is is_on


def test_levels_of_another_total_have_other_bounds() -> None:
    server, _ = busy(configuration(ELASTIC))
    server.run(SECOND)
    level = server.monitor.control.levels["crowd"]
    before = level.most
    server.world.controller.resize(2 * server.world.controller.seats)
    server.run(SECOND)

    assert server.monitor.control.levels["crowd"] is level
    assert level.most == 2 * before


def test_caps_fall_while_the_loop_is_late_and_rise_after_that(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apf_middleware")
    server, admissions = busy(configuration(ELASTIC))
    server.late = 30 * MS
    server.run(5 * SECOND)
    assert (server.cap, server.world.crowd.shared.current) == (1, 1)
    assert server.monitor.control.levels["crowd"].reason.value == "held-floor"
    reading = server.monitor.reading()
    assert reading is not None
    assert reading.lag["99"] >= 30 * MS
    assert [(one.name, one.cap, one.reason, one.changes["cut-lag"]) for one in reading.levels] == [
        ("crowd", 1, "held-floor", 2)
    ]

    server.world.release(admissions.pop())
    server.late = 0
    server.run(30 * SECOND)
    assert server.cap is None
    assert events(caplog) == ["apf.elastic-levels-capped", "apf.elastic-levels-open"]


def test_a_capped_level_seats_one_request_after_another_with_a_pause() -> None:
    server, admissions = busy(configuration(ELASTIC))
    server.late = 30 * MS
    server.run(5 * SECOND)
    waiting = [server.world.arrive() for _ in range(2)]
    for admission in admissions:
        server.world.release(admission)
    # no pause after those that arrived before the cap
    assert [one.is_seated for one in waiting] == [True, False]

    server.world.release(waiting[0])
    assert [one.is_seated for one in waiting] == [False, False]
    server.world.time += 2 * MS
    server.world.controller.tick()
    assert waiting[1].is_seated


@pytest.mark.parametrize(("text", "cap"), [(", lendablePercent: 50", 2), ("", 3), (", minSeats: 3", 3)])
def test_the_min_stays(text: str, cap: int) -> None:
    server, _ = busy(configuration(f", elastic: true{text}"))
    server.late = 30 * MS
    server.run(10 * SECOND)

    assert server.cap == cap


def test_the_target_is_configured() -> None:
    server, _ = busy(configuration(ELASTIC, ", eventLoop: {lagTarget: 50ms}"))
    server.late = 30 * MS
    server.run(10 * SECOND)

    assert server.cap is None


def test_a_level_that_is_not_elastic_any_more_has_no_cap() -> None:
    server, _ = busy(configuration(ELASTIC))
    server.late = 30 * MS
    server.run(5 * SECOND)
    server.world.controller.reconfigure(configuration())
    server.monitor.adopt()

    assert server.cap is None
    assert server.monitor.is_on is False
    server.run(5 * SECOND)
    assert server.at is None


def test_a_level_that_becomes_elastic_is_controlled() -> None:
    server, _ = busy(configuration())
    server.world.controller.reconfigure(configuration(ELASTIC))
    server.monitor.adopt()
    server.monitor.begin()
    server.late = 30 * MS
    server.run(5 * SECOND)

    assert server.cap == 1


def test_an_idle_server_rests() -> None:
    server, admissions = busy(configuration(ELASTIC))
    server.run(10 * SECOND)
    assert server.rests == 0
    for admission in admissions:
        server.world.release(admission)
    server.run(10 * SECOND)
    assert server.rests == 1
    assert server.at is None

    server.world.release(server.world.arrive())
    server.monitor.begin()
    server.run(SECOND)
    assert server.rests == 1
    server.monitor.end()
    probes = server.monitor.lag.probes
    server.run(SECOND)
    assert server.monitor.lag.probes == probes


def test_it_shows_itself() -> None:
    server = MonitoredServer(configuration())

    assert repr(server.monitor).startswith("<EventLoopMonitor: <EventLoopLag: ")
