"""Runs of the simulator against queueing theory, and their reproducibility."""

import math
from dataclasses import replace

import pytest

from apf_middleware.config.scenario import read_scenario_text
from apf_middleware.simulation import simulate
from apf_middleware.simulation.run import Simulation
from tests.support.simulated_worlds import LEVEL, POISSON, SERVER, play, seats_over_time, world


def waits_in_theory(seats: int, load: float) -> float:
    """Return the part of requests that wait, by Erlang C: Poisson arrivals, exponential service times."""
    terms = [load**n / math.factorial(n) for n in range(seats)]
    full = load**seats / math.factorial(seats) * seats / (seats - load)
    return full / (sum(terms) + full)


def test_waits_are_those_of_queueing_theory() -> None:
    """Four seats at a load of 75 %: 51 % of the requests wait, and the mean wait of all is 25 ms."""
    result = play("  duration: 400s\n  warmUp: 10s\n", POISSON)

    [tenant] = result.tenants
    expected_wait_ms = waits_in_theory(4, 3.0) * 50 / (4 - 3.0)
    assert expected_wait_ms == pytest.approx(25.5, abs=0.1)
    assert tenant.mean_ms == pytest.approx(50 + expected_wait_ms, rel=0.08)
    assert result.level("all").seats == pytest.approx(3.0, rel=0.03)
    assert tenant.rate == pytest.approx(60, rel=0.03)
    assert result.goodput == pytest.approx(0.75, rel=0.03)


def test_several_servers_share_the_requests() -> None:
    for balancing in ("random", "round-robin"):
        scenario, configuration = world(f"  duration: 60s\n  servers: 3\n  balancing: {balancing}\n", POISSON)
        simulation = Simulation(scenario, configuration)
        result = simulation.run("own")

        served = [site.controller.levels["all"].dispatched for site in simulation.servers]
        assert len(served) == 3
        assert max(served) - min(served) <= (1 if balancing == "round-robin" else 0.15 * sum(served))
        assert result.level("all").nominal == 12


def test_seats_can_be_learned_from_durations() -> None:
    learned = ", defaults: none, estimation: {default: {source: learned, durationPerSeat: 100ms}}"
    server = SERVER.format(seats=40, more=learned) + LEVEL.format(
        seats=40, wait="1s", queuing="{queues: 4, handSize: 2}"
    )
    result = play("  duration: 20s\n", "name: t, arrivals: {type: constant, rate: 2}, service: 400ms", server=server)

    assert seats_over_time(result)[0] <= 1.1, "at first one seat is assumed"
    assert seats_over_time(result)[-1] == pytest.approx(2 * 4 * 0.4, rel=0.3)


def test_levels_lend_immediately_or_every_ten_seconds() -> None:
    """The controller's alarm fires in virtual time."""
    levels = "".join(
        f"---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: {name}}}\n"
        "spec: {shares: 50, lendablePercent: 100, waitLimit: 1m, queuing: {queues: 4, handSize: 1}}\n"
        f"---\napiVersion: apf/v1\nkind: FlowSchema\nmetadata: {{name: {name}}}\n"
        f"spec: {{level: {name}, rules: [{{subjects: [{{user: {name}}}], httpRules: [{{}}]}}]}}\n"
        for name in ("busy", "idle")
    )
    spec = "  duration: 30s\n"
    tenant = "name: busy, arrivals: {type: closed, connections: 30}, service: 100ms"
    used = {}
    for borrowing in ("immediate", "periodic"):
        server = SERVER.format(seats=20, more=f", defaults: none, borrowing: {borrowing}") + levels
        used[borrowing] = seats_over_time(play(spec, tenant, server=server), "busy")

    assert min(used["immediate"]) > 18
    assert max(used["periodic"][:19]) < 11
    assert min(used["periodic"][25:]) > 14


def test_the_same_seed_gives_the_same_result_and_another_one_does_not() -> None:
    scenario, configuration = world("  duration: 20s\n  servers: 2\n", POISSON + ", retries: {most: 2}, timeout: 150ms")

    assert simulate(scenario, configuration) == simulate(scenario, configuration)
    assert simulate(replace(scenario, seed=2), configuration) != simulate(scenario, configuration)


def test_progress_is_reported() -> None:
    reports: list[tuple[float, int]] = []
    scenario, configuration = world("  duration: 10s\n", POISSON)
    simulate(scenario, configuration, on_progress=lambda part, asked: reports.append((part, asked)))

    assert [part for part, _ in reports] == [number / 20 for number in range(1, 21)]
    assert [asked for _, asked in reports] == sorted(asked for _, asked in reports)


@pytest.mark.parametrize(
    "called",
    [
        pytest.param("retries: {most: 50, backOff: 100ms}", id="the crash ends the call"),
        pytest.param("timeout: 100ms, retries: {most: 50, backOff: 3s}", id="the crash is during the back-off"),
    ],
)
def test_a_process_that_has_crashed_repeats_none_of_its_calls(called: str) -> None:
    scenario, configuration = read_scenario_text(f"""
apiVersion: apf/v1
kind: Scenario
spec:
  duration: 6s
  members: {{count: 1, events: [{{type: crash, at: 1s, duration: 1s, members: [0]}}]}}
  tenants:
  - {{name: caller, arrivals: {{type: constant, rate: 1}}, service: 1ms, calls: [called], end: 1s}}
  - {{name: called, arrivals: {{type: called}}, service: 2s, {called}}}
---
apiVersion: apf/v1
kind: Server
spec: {{seats: 60, fleet: {{name: shop}}}}
""").unwrap()
    result = simulate(scenario, configuration)

    assert (result.tenant("caller").failed, result.tenant("caller").served) == (1, 0)
    assert (result.tenant("called").failed, result.tenant("called").tries) == (1, 1)
