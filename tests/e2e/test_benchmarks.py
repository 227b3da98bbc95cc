"""The benchmarks run and say what they promise. Their figures are for people: nothing is asserted about speed."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apf_middleware import is_compiled
from apf_middleware.config import load, load_text
from benchmarks.shadow import CONFIGS, MODES, ROWS, ShadowedApp
from benchmarks.wire_configs import write_config
from tests.support.kubernetes_scenarios import SCENARIOS
from tests.support.own_scenarios import MORE_SCENARIOS
from tests.support.prerequisites import require_postgres

ROOT = Path(__file__).parents[2]


def rows(*arguments: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100)
    listed = json.loads(result.stdout)
    assert isinstance(listed, list)
    return listed


def test_the_benchmark_of_gates_asks_seldom_however_many_wait() -> None:
    measured = rows("benchmarks.gates", "--json", "--waiting", "100", "500", "--repetitions", "1")

    asked = {(row["case"], row["waiting"]): row["evaluations"] for row in measured}
    assert asked["release", 500] <= 3
    assert asked["event", 500] <= 1
    assert asked["nobody", 500] == 0
    assert asked["park", 500] == 0
    assert (asked["pass", 0], asked["plain", 0]) == (1, 0)
    assert all(row["us"] > 0 for row in measured)


def test_the_shares_of_busy_levels_are_measured_with_and_without_backfill() -> None:
    measured = rows("benchmarks.level_shares", "--json", "--worlds", "3", "--seconds", "2")

    assert [row["rounds"] for row in measured] == [0, 2]
    assert all(0 < row["least_part"] <= row["median_part"] <= 1 for row in measured)
    assert all(0.7 < row["utilisation"] < 1 and 0 < row["light_wait_ms"] < row["light_p99_ms"] for row in measured)


def test_the_cost_of_a_shadow_is_measured() -> None:
    measured = rows("benchmarks.shadow", "--json", "--rounds", "1", "--batches", "1")

    assert {(row["mode"], row["row"]) for row in measured} == {
        (mode, row) for mode in MODES for row in ("off", "classify-only", "shadow")
    }
    assert all(row["ratio"] == 0 for row in measured if row["row"] == "off")


@pytest.mark.skipif(is_compiled, reason="calls of compiled functions can't be counted")
@pytest.mark.parametrize("mode", MODES)
def test_a_shadow_calls_no_more_functions_than_the_middleware_itself(mode: str, tmp_path: Path) -> None:
    """Their number hardly depends on how busy the machine is, as even processor time does."""
    configuration = load(write_config("contended", tmp_path)) if mode == "contended" else load_text(CONFIGS[mode])
    bare, off, classify_only, shadow = (calls_of(ShadowedApp(row, mode, configuration)) for row in ROWS)
    own = off - bare
    noise = own / 5 if mode == "contended" else 0  # how many requests wait depends on time

    assert -noise < classify_only - off < own / 2
    assert 0 < shadow - off < own * (1.2 if mode == "alone" else 1) + noise


def calls_of(app: ShadowedApp) -> int:
    """Return how many functions a batch of requests calls."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    async def run() -> None:
        await app.run(1)  # warm up
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            await app.run(1)
        finally:
            sys.setprofile(before)

    asyncio.run(run())
    return calls


def test_the_core_is_measured_and_a_waiting_ticket_takes_at_most_600_bytes() -> None:
    few = ("--queues", "64", "--requests", "50", "--repetitions", "1", "--crowds", "1000", "10000")
    measured = rows("benchmarks.core", "--json", "--busy", *few)

    assert {"case", "queues", "backlog_per_queue", "discipline", "us_per_request", "unit_us"} <= set(measured[0])
    assert [(row["case"], row["backlog_per_queue"]) for row in measured if row["case"] != "crowd"] == [
        ("uncontended", 0),
        ("uncontended-fresh-flows", 0),
        ("saturated", 1),
        ("saturated-fresh-flows", 1),
        ("saturated", 50),
        ("saturated-fresh-flows", 50),
    ]
    assert [row["waiting"] for row in measured if row["case"] == "crowd"] == [1_000, 10_000]
    assert all(row["us_per_request"] >= 0 for row in measured)
    assert all(row["bytes_per_ticket"] <= 600 for row in measured if row["case"] == "crowd")


def test_fairness_is_measured() -> None:
    """Four scenarios stand for all 46; `tests/simulation/test_fairness.py` plays and judges Kubernetes' 39."""
    chosen = ("uniform flows, hand of 3", "no restraint, competition", "windup, saved credit", "weights through levels")
    measured = rows("benchmarks.fairness", "--json", *(f"--scenario={name}" for name in chosen))

    judged = [row for row in measured if "as_it_must_be" in row]
    assert {row["discipline"] for row in measured} == {"equal-serial", "max-min-serial", "max-min-concurrent"}
    assert len({(row["discipline"], row["scenario"]) for row in judged}) == 3 * 2
    assert all(row["as_it_must_be"] for row in judged)
    assert len({(row["discipline"], row["scenario"]) for row in measured}) == 3 * 4
    assert (len(SCENARIOS), len(MORE_SCENARIOS)) == (39, 6)
    for row in measured:
        assert row.keys() >= {"seats", "expected", "gap", "jain", "utilisation"}


def starvation(*arguments: str) -> list[dict[str, Any]]:
    """Play two scenarios, in which requests of 50 ms compete for four seats after one flow was there before."""
    chosen = ("history of 10 s", "arrival of elephant 2")
    return rows("benchmarks.fairness", "--starvation", "--json", *(f"--scenario={name}" for name in chosen), *arguments)


def served(row: dict[str, Any]) -> list[int]:
    return [int(number) for number in row["served"].split()]


def test_starvation_is_measured_and_there_is_none() -> None:
    measured = starvation()

    assert len({(row["discipline"], row["scenario"]) for row in measured}) == len(measured) == 3 * 2
    for row in measured:
        assert row["is_fair"] is row["as_it_must_be"] is row["must_be_fair"] is True
        assert row["shortfall"] <= row["bound"]
        assert row["drought"] <= row["drought_bound"]
        assert sum(row["seats"]) == pytest.approx(sum(row["expected"]), abs=0.1) == 4
        in_windows = served(row)
        assert len(in_windows) == 15
        assert in_windows[0] * 0.05 / 3 == pytest.approx(row["seats"][0], abs=0.05), "the seats of the first flow"
        assert min(in_windows) > 0.9 * max(in_windows)


def test_starvation_is_found_where_upstream_starves_a_flow() -> None:
    measured = starvation("--strict", "--discipline", "equal-serial")

    assert len(measured) == 2
    for row in measured:
        assert (row["is_fair"], row["must_be_fair"], row["as_it_must_be"]) == (False, False, True)
        assert row["shortfall"] > 10 * row["bound"]
        assert row["drought"] > 10 * row["drought_bound"]
        in_windows = served(row)
        assert in_windows[0] < 0.1 * in_windows[-1], "it has next to no seats in the first three seconds"


def test_classification_is_measured() -> None:
    measured = rows("benchmarks.classify", "--json")

    assert [(row["case"], row["schemas"]) for row in measured] == [
        ("seen", 11),
        ("new-path", 11),
        ("seen", 500),
        ("new-path", 500),
    ]
    assert all(row["us_per_request"] > 0 for row in measured)


def test_what_a_fleet_computes_is_measured() -> None:
    few = ("--members", "10", "--flows", "20", "--repetitions", "3")
    exchange, *intervals = rows("benchmarks.fleet_costs", "--json", *few)

    assert (exchange["flows"], [row["flows"] for row in intervals]) == ("20", ["20 own", "20 shared"])
    assert exchange["report"] > 0 < exchange["grant"]
    assert all(row["reports"] > 0 < row["division"] for row in intervals)


def test_answers_in_time_are_measured() -> None:
    few = ("--seconds", "0.3", "--warm-up", "0", "--disciplines", "max-min-serial")
    measured = rows("benchmarks.deadlines", "--json", *few)

    assert len(measured) == 3 * 3 * 2
    assert {row["row"] for row in measured} == {"hang-ups", "deadlines"}
    assert all(0 <= row["wasted"] <= 1 for row in measured)


def test_queues_that_bound_delay_are_compared() -> None:
    measured = rows("benchmarks.queue_policies", "--json", "--seconds", "1")

    assert len(measured) == 7 * 3
    assert {row["overload"] for row in measured} == {2, 5, 10}


def test_predicted_waits_are_measured() -> None:
    chosen = "--scenarios", "full", "overload-2", "--disciplines", "max-min-serial"
    measured = rows("benchmarks.predict", "--json", "--seconds", "4", *chosen)

    assert [row["scenario"] for row in measured] == ["full", "overload-2"]
    assert all(row["waited"] > 100 and row["error"] > 0 for row in measured)


def test_answers_in_time_of_a_real_server_are_measured() -> None:
    from benchmarks.deadlines_wire import measure  # noqa: PLC0415 - it is an app, too

    row = measure(2, "predictions", seconds=2)
    assert row["in_time"] > 0
    assert 0 < row["goodput"] <= 1.1
    assert 0 <= row["told"] <= 1


def test_adaptive_limits_are_compared_with_the_best_static_one() -> None:
    measured = rows("benchmarks.adaptive", "--json", "--only", "^pool 1.5$", "--seconds", "5")

    by_limiter = {row["limiter"]: row for row in measured}
    assert (by_limiter["best static"]["goodput"], by_limiter["best static"]["p99"]) == (1, 1)
    assert by_limiter["static 0.5 c"]["goodput"] < 0.6
    assert {"own", "Gradient2", "Vegas", "Envoy", "AIMD", "kratos BBR"} < set(by_limiter)


def test_the_cost_of_adaptive_limits_is_measured() -> None:
    measured = rows("benchmarks.adaptive_cost", "--json", "--routes", "1", "10", "--repetitions", "3")

    assert [row["call"] for row in measured[:3]] == ["observe", "note and decide", "window"]
    assert all(row["us"] > 0 for row in measured)


@pytest.mark.parametrize("case", ["cpu", "postgres"])
def test_adaptive_seats_of_a_real_server_are_measured(case: str) -> None:
    if case == "postgres":
        require_postgres()
    measured = rows("benchmarks.adaptive_wire", "--json", "--only", case, "--seconds", "2", "--fixed", "5")

    fixed, adaptive = measured
    assert (fixed["row"], fixed["seats"], fixed["is_best"], fixed["goodput_ratio"]) == ("5", 5, True, 1)
    assert adaptive["row"] == "adaptive"
    assert 2 <= adaptive["seats"] <= 200
    assert adaptive["goodput"] > 0


def test_light_requests_beside_blocking_reports_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import event_loop  # noqa: PLC0415 - it is an app, too

    monkeypatch.setattr(event_loop, "_WARM_UP_S", 1.0)
    rows = [event_loop.measure(is_elastic=is_elastic, seconds=1) for is_elastic in (False, True)]

    assert [row["row"] for row in rows] == ["not elastic", "elastic"]
    assert rows[0]["cap"] is None
    assert 1 <= rows[1]["cap"] < 50, "of 100 seats; it rises again when the load has ended"
    assert all(row["reports_per_s"] > 0 and row["lag_p99_ms"] > 2 for row in rows)
    assert event_loop.light_ratio(rows) > 0
