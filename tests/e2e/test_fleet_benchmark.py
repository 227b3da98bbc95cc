"""The benchmark of fleets runs and says what it promises, and what it measures with can be trusted.

Figures are for people, except one: a fleet never has more calls in flight than seats.
"""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from apf_middleware.config import load
from apf_middleware.config.build import derive_limits
from benchmarks import fleet, fleet_faults
from benchmarks.fleet_backend import BackendProcess, running_backend
from benchmarks.fleet_faults import FAULTS, Observation, Peaks, measure_fault, report_of
from benchmarks.fleet_semaphore import RedisSemaphore
from benchmarks.load import LoadReport
from benchmarks.wire_callers import LoadPlan
from benchmarks.wire_configs import write_config
from tests.support.until import until

ROOT = Path(__file__).parents[2]


def rows(*arguments: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "benchmarks.fleet", "--json", *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)
    assert result.returncode == 0, result.stdout + result.stderr
    return cast("list[dict[str, Any]]", json.loads(result.stdout))


def test_a_fleet_is_measured_beside_one_process() -> None:
    few = ("--rounds", "1", "--seconds", "1", "--warm-up", "0.5", "--connections", "60")
    one, host = rows(*few, "--only", "^(one|fleet-host)$", "--scenario", "one worker")

    assert {"scenario", "rounds", "is_pinned", *fleet._MEASURED} <= set(host)
    assert (one["row"], host["row"]) == ("one", "fleet-host")
    assert (one["goodput_ratio"], one["p50_ratio"], one["p99_ratio"]) == (1, 1, 1)
    assert one["exchanges"] is None
    assert host["exchanges"] > 5
    for row in (one, host):
        assert 5 <= row["most_in_flight"] <= 10
        assert 20 < row["total_goodput"] < 520
        assert row["mice_p50_ms"] >= 20
        assert 0 < row["server_cpu"] < 2


def test_figures_of_rounds_are_compared_within_a_round() -> None:
    def report(goodput: float, p99: float | None, peak: int) -> dict[str, Any]:
        about = {"most_in_flight": peak, "total_goodput": goodput, "mice_p50_ms": 20.0, "mice_p99_ms": p99}
        return dict.fromkeys(LoadReport.__dataclass_fields__, 1.0) | about

    base = [report(100, 20, 9), report(200, 40, 10), report(400, 40, 10)]
    found = fleet.together([report(90, 30, 7), report(200, 80, 11), report(200, None, 8)], base)

    assert (found["most_in_flight"], found["total_goodput"]) == (11, 200)
    assert (found["goodput_ratio"], found["p99_ratio"]) == (0.9, 1.75)
    assert found["exchanges"] is None
    assert fleet.together(base, [])["goodput_ratio"] is None


@pytest.mark.parametrize(("row", "seats"), [("one", 10), ("static-2", 2), ("static-3", 3), ("fleet-host", 10)])
def test_each_row_has_the_seats_that_it_says(row: str, seats: int, tmp_path: Path) -> None:
    [found] = [one for one in fleet.ROWS if one.name == row]
    assert found.config is not None
    configuration = load(write_config(found.config, tmp_path))
    limits = derive_limits(configuration)["tenants"]

    assert (configuration.server.seats, limits.nominal, limits.max) == (seats, seats, seats)
    assert (configuration.server.fleet is not None) is row.startswith("fleet")


def test_the_load_spreads_over_the_ports_of_all_workers() -> None:
    plan = LoadPlan(1, elephants=5, connections=200, ports=(1, 2, 3, 4))
    connections = Counter((number % 5, plan.elephant_port(number)) for number in range(plan.connections))

    assert set(connections.values()) == {10}
    assert len(connections) == 20
    assert [plan.mouse_port(number) for number in range(6)] == [1, 2, 3, 4, 1, 2]


def test_an_elephant_may_have_one_worker_only() -> None:
    plan = LoadPlan(1, ports=(1, 2, 3, 4), elephant_ports=(4,))

    assert {plan.elephant_port(number) for number in range(plan.connections)} == {4}
    assert {plan.mouse_port(number) for number in range(4)} == {1, 2, 3, 4}
    assert (LoadPlan(7).elephant_port(3), LoadPlan(7).mouse_port(3)) == (7, 7)


# The backend


async def _connected(
    backend: BackendProcess, number: int
) -> Sequence[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    return [await asyncio.open_unix_connection(backend.socket) for _ in range(number)]


def test_the_backend_counts_the_calls_of_all_connections(tmp_path: Path) -> None:
    async def call() -> None:
        callers = await _connected(backend, 7)
        for _, writer in callers:
            writer.write(b"?")
        assert [await reader.read(1) for reader, _ in callers] == [b"!"] * 7
        for _, writer in callers:
            writer.close()

    with running_backend(tmp_path, None) as backend:
        asyncio.run(call())
        for scoreboard in (backend.every, backend.attended):
            assert (scoreboard.in_flight, scoreboard.peak, scoreboard.finished) == (0, 7, 7)


def test_a_call_whose_caller_has_gone_goes_on_but_is_not_attended(tmp_path: Path) -> None:
    async def call() -> None:
        callers = await _connected(backend, 200)  # so many take more than a second
        for _, writer in callers:
            writer.write(b"?")
        for _, writer in callers:
            writer.close()
        await until(lambda: backend.attended.finished == 200)
        assert backend.every.in_flight > 0
        await until(lambda: backend.every.finished == 200)

    with running_backend(tmp_path, None) as backend:
        asyncio.run(call())
        assert (backend.attended.in_flight, backend.every.in_flight) == (0, 0)


# The semaphore in Redis


class Script:
    """A Redis whose script finds room each time that it is told to."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.removed: list[str] = []

    def register_script(self, _script: str) -> "Script":
        return self

    async def __call__(self, keys: list[str], args: list[Any]) -> int:  # noqa: ARG002 - as in Redis
        self.asked.append(args)
        return self.answers.pop(0)

    async def zrem(self, _key: str, holder: str) -> None:
        self.removed.append(holder)


def ask(redis: Script) -> list[int]:
    statuses = []

    async def send(message: Any) -> None:  # noqa: ANN401 - a message
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def app(_scope: Any, _receive: Any, send: Any) -> None:  # noqa: ANN401 - an app
        assert redis.removed == []
        await send({"type": "http.response.start", "status": 200})

    async def receive() -> Any:  # noqa: ANN401 - nothing
        raise AssertionError("nothing is received")

    asyncio.run(RedisSemaphore(app, cast("Any", redis), 10, "w")({"type": "http"}, receive, send))
    return statuses


def test_the_semaphore_asks_until_there_is_room_and_gives_it_back() -> None:
    redis = Script(0, 0, 1)

    assert ask(redis) == [200]
    assert redis.asked == [[10, 10_000, "w-1"]] * 3
    assert redis.removed == ["w-1"]


def test_the_semaphore_gives_up_as_the_other_rows_do() -> None:
    redis = Script(*[0] * 40)

    assert ask(redis) == [429]
    assert 11 <= len(redis.asked) <= 33, "it waits for 0.8 s, with pauses of 25 to 75 ms"
    assert redis.removed == []


# Faults


def test_a_fault_is_reported_from_what_the_backend_shows() -> None:
    """400 calls a second, none for a second after the fault, then as before; for 10 ms there are 12 in flight."""
    seen, finished = [], 0
    for tick in range(4000):
        at = tick / 500
        finished += 4 * (not 4 <= at < 5 and tick % 5 == 0)
        seen.append(Observation(at, finished, 12 if 6 <= at < 6.01 else 10))
    found = report_of("a fault", 4.0, seen, Peaks(12, 13, 11))

    assert found.goodput_before == pytest.approx(400, rel=0.01)
    assert found.least_goodput == 0
    assert found.back_after_ms == pytest.approx(1000, abs=20)
    assert (found.most_in_flight, found.with_abandoned, found.after_continue) == (12, 13, 11)
    assert found.over_seat_ms == pytest.approx(2 * 10, abs=0.1)


def test_a_goodput_that_does_not_return_is_reported() -> None:
    seen = [Observation(tick / 500, min(tick, 2000), 10) for tick in range(4000)]
    found = report_of("a fault", 4.0, seen, Peaks(10, 10))

    assert (found.back_after_ms, found.least_goodput, found.over_seat_ms) == (None, 0, 0)


def test_a_killed_worker_s_seats_are_used_by_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_faults, "_BEFORE_S", 2.5)  # the goodput before is that of two seconds
    found = measure_fault(FAULTS[0])

    assert found.most_in_flight <= 10
    assert found.back_after_ms is not None
    assert found.goodput_before > 0, "the load had begun"
    assert found.lost > 0, "requests to its port fail"
