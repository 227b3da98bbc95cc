"""The simulator: what comes out is what must come out, by queueing theory, by counting, and by the same dice."""

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apf_middleware.config import Configuration, load_text
from apf_middleware.config.estimation import ComputedEstimate, EstimationSettings
from apf_middleware.config.scenario import Scenario, read_scenario_text
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Work
from apf_middleware.simulation import Result, simulate, variant
from apf_middleware.simulation.destinations import DestinationResolver, RequestTemplate, identity_of
from apf_middleware.simulation.recording import OTHERS, Recording
from apf_middleware.simulation.run import Simulation
from apf_middleware.simulation.trace import RequestTrace

SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {{seats: {seats}{more}}}\n"
LEVEL = """---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: all}}
spec: {{shares: 1000, minSeats: {seats}, maxSeats: {seats}, waitLimit: {wait}, queuing: {queuing}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: all, distinguisher: {{source: user}}, rules: [{{httpRules: [{{}}]}}]}}
"""


def world(spec: str, *tenants: str, server: str = "", seats: int = 4) -> tuple[Scenario, Configuration]:
    listed = "".join(f"  - {{{tenant}}}\n" for tenant in tenants)
    text = f"apiVersion: apf/v1\nkind: Scenario\nspec:\n  backend: {{exponent: 0}}\n{spec}  tenants:\n{listed}---\n"
    return read_scenario_text(text + (server or one_level(seats))).unwrap()


def one_level(seats: int, wait: str = "1h", queuing: str = "{queues: 1, handSize: 1, queueLengthLimit: 100000}") -> str:
    more = ", defaults: none, requestTimeout: 1h"
    return SERVER.format(seats=seats, more=more) + LEVEL.format(seats=seats, wait=wait, queuing=queuing)


def play(spec: str, *tenants: str, server: str = "", seats: int = 4) -> Result:
    return simulate(*world(spec, *tenants, server=server, seats=seats))


def waits_in_theory(seats: int, load: float) -> float:
    """Erlang's C: how many have to wait of those who come at random for exponential services."""
    terms = [load**n / math.factorial(n) for n in range(seats)]
    full = load**seats / math.factorial(seats) * seats / (seats - load)
    return full / (sum(terms) + full)


POISSON = "name: t, arrivals: {type: poisson, rate: 60}, service: {type: exponential, mean: 50ms}"


# What theory says


def test_waits_are_those_of_queueing_theory() -> None:
    """Four seats at three quarters of their capacity: 51 % wait, and whoever comes waits 25 ms on average."""
    result = play("  duration: 400s\n  warmUp: 10s\n", POISSON)

    [tenant] = result.tenants
    expected_wait_ms = waits_in_theory(4, 3.0) * 50 / (4 - 3.0)
    assert expected_wait_ms == pytest.approx(25.5, abs=0.1)
    assert tenant.mean_ms == pytest.approx(50 + expected_wait_ms, rel=0.08)
    assert result.level("all").seats == pytest.approx(3.0, rel=0.03)
    assert tenant.rate == pytest.approx(60, rel=0.03)
    assert result.goodput == pytest.approx(0.75, rel=0.03)


def test_losses_are_those_of_queueing_theory() -> None:
    """No queue: of Erlang's B, 21 % are turned away."""
    scenario, configuration = world("  duration: 200s\n", POISSON)
    result = simulate(scenario, variant("max-in-flight", configuration))

    [tenant] = result.tenants
    terms = [3.0**n / math.factorial(n) for n in range(5)]
    assert tenant.rejections / tenant.tries == pytest.approx(terms[-1] / sum(terms), rel=0.06)
    assert tenant.rejected.keys() == {"concurrency-limit"}
    assert tenant.requests == tenant.served + tenant.failed


def test_a_closed_loop_sends_the_next_request_after_the_response() -> None:
    """Three connections, 50 ms of service and 100 ms of thinking: 20 a second, and nobody ever waits."""
    result = play(
        "  duration: 30s\n  warmUp: 3s\n",
        "name: t, arrivals: {type: closed, connections: 3, think: 100ms}, service: 50ms",
    )

    [tenant] = result.tenants
    assert tenant.rate == pytest.approx(20, rel=0.01)
    assert tenant.p50_ms == pytest.approx(50, rel=0.01)
    assert tenant.worst_ms == 50
    assert tenant.seats == pytest.approx(1.0, rel=0.02)


def test_a_backend_beyond_its_places_becomes_slower_for_all() -> None:
    """Twenty calls on ten places: each takes 2^1.5 times as long."""
    text = (
        "apiVersion: apf/v1\nkind: Scenario\nspec:\n  duration: 20s\n  warmUp: 5s\n  backend: {places: 10}\n"
        "  tenants:\n  - {name: t, arrivals: {type: closed, connections: 20}, service: 100ms}\n"
    )
    scenario, configuration = read_scenario_text(text).unwrap()
    result = simulate(scenario, variant("none", configuration))

    [tenant] = result.tenants
    assert tenant.p50_ms == pytest.approx(100 * 2**1.5, rel=0.01)


def test_steady_arrivals_are_evenly_spaced() -> None:
    result = play("  duration: 20s\n", "name: t, count: 3, arrivals: {type: constant, rate: 10}, service: 1ms")

    assert result.tenants[0].requests == 600
    assert {window.served[0] for window in result.windows[1:]} <= {14, 15, 16}


def test_bursts_alternate_with_pauses() -> None:
    result = play(
        "  duration: 40s\n",
        "name: t, arrivals: {type: bursts, rate: 100, on: 2s, off: 8s, idleRate: 5}, service: 1ms",
    )

    served = [window.served[0] / result.window_s for window in result.windows]
    per_period = [served[begin : begin + 20] for begin in range(0, 80, 20)]
    for rates in per_period:
        assert sum(rates[:4]) / 4 == pytest.approx(100, rel=0.25)
        assert sum(rates[4:]) / 16 == pytest.approx(5, abs=3)


def test_the_warm_up_is_not_counted() -> None:
    """For five seconds a crowd fills the seats and the queue; after that one asks ten times a second."""
    result = play(
        "  duration: 15s\n  warmUp: 10s\n",
        "name: crowd, arrivals: {type: poisson, rate: 500}, service: 40ms, end: 5s, timeout: 200ms",
        "name: one, arrivals: {type: constant, rate: 10}, service: 100ms",
        server=one_level(4, queuing="{queues: 1, handSize: 1, queueLengthLimit: 50}"),
    )

    crowd, one = result.tenants
    level = result.level("all")
    assert (crowd.requests, crowd.rejections, crowd.timeouts) == (0, 0, 0)
    assert (one.requests, level.dispatched, level.rejected) == (50, 50, 0)
    assert level.seats == pytest.approx(1, rel=0.02)
    assert level.most_seats == pytest.approx(1, rel=0.02)
    assert (level.wait_p99_ms, level.quantiles_ms["p99"]) == (0, 100)
    assert result.windows[2].seats[list(_names(result)).index("all")] == 4, "curves show it all the same"


def test_level_results_count_the_requests_of_tenants() -> None:
    result = play(
        "  duration: 12s\n  warmUp: 2s\n",
        "name: t, arrivals: {type: poisson, rate: 500}, service: 40ms, timeout: 300ms",
        server=one_level(4, queuing="{queues: 1, handSize: 1, queueLengthLimit: 50}"),
    )

    [tenant], level = result.tenants, result.level("all")
    assert level.dispatched + level.rejected == tenant.requests
    assert tenant.rejections < level.rejected < tenant.rejections + tenant.timeouts, "some leave while they are served"


def test_a_tenant_has_a_begin_and_an_end() -> None:
    result = play(
        "  duration: 12s\n", "name: t, arrivals: {type: constant, rate: 20}, service: 1ms, begin: 3s, end: 6s"
    )

    busy = [window.begin_s for window in result.windows if window.served[0]]
    assert (min(busy), max(busy)) == (3.0, 5.5)


# What clients do


def test_a_client_that_times_out_leaves_the_queue() -> None:
    result = play(
        "  duration: 20s\n",
        "name: slow, arrivals: {type: closed, connections: 1}, service: 2s",
        "name: hasty, arrivals: {type: constant, rate: 2}, service: 10ms, timeout: 300ms",
        seats=1,
    )

    hasty = result.tenant("hasty")
    assert hasty.timeouts > 20
    assert hasty.served + hasty.failed == hasty.requests == hasty.tries
    assert hasty.worst_ms is not None
    assert hasty.worst_ms <= 300
    assert result.wasted == 0, "nobody is served who has gone"
    assert result.level("all").dispatched < hasty.served + 20


def test_work_for_a_client_that_left_is_wasted() -> None:
    result = play("  duration: 10s\n", "name: t, arrivals: {type: constant, rate: 2}, service: 400ms, timeout: 100ms")

    [tenant] = result.tenants
    assert (tenant.served, tenant.timeouts) == (0, 20)
    assert result.wasted == 1.0
    assert result.goodput == 0


def test_the_wait_limit_ends_a_wait() -> None:
    result = play(
        "  duration: 20s\n",
        "name: t, arrivals: {type: poisson, rate: 20}, service: 100ms",
        server=one_level(1, wait="250ms"),
    )

    [tenant] = result.tenants
    assert tenant.rejected.keys() == {"time-out"}
    assert tenant.worst_ms is not None
    assert tenant.worst_ms <= 350.001


@pytest.mark.parametrize(("most", "tries"), [(1, 2), (3, 4)])
def test_rejected_requests_are_retried(most: int, tries: int) -> None:
    """A jail rejects everything."""
    jail = SERVER.format(seats=4, more=", defaults: none") + LEVEL.format(
        seats=0, wait="1s", queuing="{queues: 1, handSize: 1}"
    )
    result = play(
        "  duration: 10s\n",
        f"name: t, arrivals: {{type: constant, rate: 1}}, service: 1ms, retries: {{most: {most}, backOff: 10ms}}",
        server=jail,
    )

    [tenant] = result.tenants
    assert (tenant.requests, tenant.failed) == (10, 10)
    assert tenant.tries == pytest.approx(10 * tries, abs=1), "the last one's may come after the end"
    assert tenant.rejections == tenant.tries


def test_retries_wait_longer_each_time_and_obey_retry_after() -> None:
    def last_answer(more: str) -> float:
        scenario, configuration = world(
            "  duration: 60s\n",
            "name: hog, arrivals: {type: closed, connections: 1}, service: 5s, end: 1ms",
            "name: t, arrivals: {type: constant, rate: 100}, service: 1ms, begin: 1s, end: 1010ms,"
            f" retries: {{most: 20, backOff: 100ms, factor: 2, jitter: 0{more}}}",
            seats=1,
        )
        result = simulate(scenario, variant("max-in-flight", configuration))
        worst = result.tenant("t").worst_ms
        assert worst is not None
        return worst

    assert last_answer("") == pytest.approx(100 * (2**6 - 1) + 1, abs=1), "100 + 200 + … + 3200"
    assert last_answer(", longest: 300ms") == pytest.approx(300 + 300 * 13 + 1, abs=310)
    assert last_answer(", longest: 10ms, obeyRetryAfter: true") % 1000 == pytest.approx(1, abs=0.01), "whole seconds"


def test_callers_keep_their_seats_during_calls() -> None:
    result = play(
        "  duration: 20s\n",
        "name: caller, arrivals: {type: constant, rate: 1}, service: 100ms, calls: [callee, other]",
        "name: callee, arrivals: {type: called}, service: 50ms, count: 2",
        "name: other, arrivals: {type: called}, service: 30ms",
    )

    assert result.tenant("caller").p50_ms == pytest.approx(180, rel=0.01)
    assert result.tenant("callee").requests == result.tenant("other").requests == 20
    assert result.level("all").seats == pytest.approx(0.18 + 0.08, rel=0.05)


def test_a_call_that_fails_fails_its_caller() -> None:
    result = play(
        "  duration: 20s\n",
        "name: caller, arrivals: {type: constant, rate: 1}, service: 100ms, calls: [callee]",
        "name: callee, arrivals: {type: called}, service: 2s, timeout: 1s",
    )

    caller = result.tenant("caller")
    assert (caller.served, caller.failed, result.tenant("callee").timeouts) == (0, 20, 20)
    assert result.wasted == 1.0


# Servers


def test_several_servers_share_the_requests() -> None:
    for balancing in ("random", "round-robin"):
        scenario, configuration = world(f"  duration: 60s\n  servers: 3\n  balancing: {balancing}\n", POISSON)
        simulation = Simulation(scenario, configuration)
        result = simulation.run("own")

        served = [site.controller.levels["all"].dispatched for site in simulation.servers]
        assert len(served) == 3
        assert max(served) - min(served) <= (1 if balancing == "round-robin" else 0.15 * sum(served))
        assert result.level("all").nominal == 12


def test_server_overhead_delays_requests() -> None:
    """Ten seats, but half a millisecond before and after each request, one after the other: 1,000 a second at most."""
    text = (
        "apiVersion: apf/v1\nkind: Scenario\nspec:\n  duration: 5s\n  warmUp: 1s\n"
        "  backend: {overhead: 1ms, exponent: 0}\n"
        "  tenants:\n  - {name: t, arrivals: {type: closed, connections: 10}, service: 1ms}\n---\n"
    )
    result = simulate(*read_scenario_text(text + one_level(10)).unwrap())

    assert result.tenants[0].rate == pytest.approx(1000, rel=0.02)
    alone = simulate(*read_scenario_text(text.replace("connections: 10", "connections: 1") + one_level(10)).unwrap())
    assert alone.tenants[0].p50_ms == pytest.approx(2.0, rel=0.01)


def test_a_rejection_costs_server_time() -> None:
    """Nobody has a seat for two minutes, and everybody else is told so, at once: 1,000 a second at most."""
    text = (
        "apiVersion: apf/v1\nkind: Scenario\nspec:\n  duration: 5s\n  warmUp: 1s\n"
        "  backend: {overhead: 1ms, exponent: 0}\n"
        "  tenants:\n  - {name: t, arrivals: {type: closed, connections: 12, pause: 0s}, service: 120s}\n---\n"
    )
    queuing = "{queues: 1, handSize: 1, queueLengthLimit: 1}"
    result = simulate(*read_scenario_text(text + one_level(10, queuing=queuing)).unwrap())

    assert result.tenants[0].rejections / result.seconds == pytest.approx(1000, rel=0.02)


def test_the_scenario_sets_the_seats_of_requests_and_the_level_caps_them() -> None:
    wide = "name: t, arrivals: {type: constant, rate: 1}, service: 100ms, seats: 40"
    server = SERVER.format(seats=40, more=", defaults: none, estimation: {cap: %s}")
    for cap, seats in (("true", 40 * 0.15), ("false", 40)):
        level = LEVEL.format(seats=40, wait="1s", queuing="{queues: 4, handSize: 2}")
        result = play("  duration: 20s\n", wide, server=server % cap + level)

        assert result.level("all").seats == pytest.approx(seats * 0.1, rel=0.05)
        assert result.tenants[0].seats == pytest.approx(4, rel=0.05), "the work is the same"


def test_seats_can_be_learned_from_durations() -> None:
    learned = ", defaults: none, estimation: {default: {source: learned, durationPerSeat: 100ms}}"
    server = SERVER.format(seats=40, more=learned) + LEVEL.format(
        seats=40, wait="1s", queuing="{queues: 4, handSize: 2}"
    )
    result = play("  duration: 20s\n", "name: t, arrivals: {type: constant, rate: 2}, service: 400ms", server=server)

    assert result.windows[0].seats[list(_names(result)).index("all")] <= 1.1, "at first one seat is assumed"
    assert result.windows[-1].seats[list(_names(result)).index("all")] == pytest.approx(2 * 4 * 0.4, rel=0.3)


def _names(result: Result) -> list[str]:
    return [level.name for level in result.levels]


def test_levels_lend_immediately_or_every_ten_seconds() -> None:
    """The alarm of the controller rings in virtual time."""
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
        result = play(spec, tenant, server=server)
        place = _names(result).index("busy")
        used[borrowing] = [window.seats[place] for window in result.windows]

    assert min(used["immediate"]) > 18
    assert max(used["periodic"][:19]) < 11
    assert min(used["periodic"][25:]) > 14


# The same dice


def test_the_same_seed_gives_the_same_result_and_another_one_does_not() -> None:
    scenario, configuration = world("  duration: 20s\n  servers: 2\n", POISSON + ", retries: {most: 2}, timeout: 150ms")

    assert simulate(scenario, configuration) == simulate(scenario, configuration)
    assert simulate(replace(scenario, seed=2), configuration) != simulate(scenario, configuration)


def test_two_configurations_meet_the_same_arrivals() -> None:
    scenario, configuration = world(
        "  duration: 20s\n",
        POISSON,
        "name: u, count: 5, arrivals: {type: bursts, rate: 40, on: 1s, off: 1s}, service: 30ms,"
        " seats: [{seats: 1}, {seats: 2}]",
    )
    results = [simulate(scenario, variant(name, configuration)) for name in ("none", "fifo", "kubernetes", "own")]

    for result in results[1:]:
        assert [tenant.requests for tenant in result.tenants] == [tenant.requests for tenant in results[0].tenants]


def test_progress_is_reported() -> None:
    told: list[tuple[float, int]] = []
    scenario, configuration = world("  duration: 10s\n", POISSON)
    simulate(scenario, configuration, on_progress=lambda part, asked: told.append((part, asked)))

    assert [part for part, _ in told] == [number / 20 for number in range(1, 21)]
    assert [asked for _, asked in told] == sorted(asked for _, asked in told)


def test_fairness_is_one_for_satisfied_tenants_and_low_under_monopoly() -> None:
    greedy = "name: greedy, arrivals: {type: poisson, rate: 400}, service: 50ms, timeout: 1s"
    modest = "name: modest, count: 9, arrivals: {type: poisson, rate: 2}, service: 50ms, timeout: 1s"
    flows = "{queues: 64, handSize: 4, queueLengthLimit: 20}"
    scenario, configuration = world("  duration: 20s\n  warmUp: 5s\n", greedy, modest, server=one_level(8, "1s", flows))

    fair, unfair = (simulate(scenario, variant(name, configuration)) for name in ("own", "fifo"))

    assert fair.fairness is not None
    assert unfair.fairness is not None
    assert fair.fairness > 0.98
    assert unfair.fairness < 0.3
    assert fair.tenant("modest").fairness == pytest.approx(1, abs=0.02)


# Recorded requests


def test_the_last_window_has_the_fairness_of_the_whole_run() -> None:
    """Each waits for several windows, and few ask often; nobody has more than anybody else all the same."""
    result = play(
        "  duration: 30s\n  warmUp: 5s\n",
        "name: many, count: 20, arrivals: {type: constant, rate: 0.5}, service: 50ms",
        "name: early, arrivals: {type: closed, connections: 40}, service: 100ms, end: 5s",
        server=one_level(1),
    )

    curve = [window.fairness for window in result.windows]
    assert curve[-1] == result.fairness
    assert result.fairness is not None
    assert result.fairness > 0.95
    assert min(one for one in curve[30:] if one is not None) > 0.95
    assert max(one for one in curve[:10] if one is not None) < 0.5, "while the early ones were there"
    assert result.tenant("early").fairness == 1, "what it waited for when the warm-up ended, it got"


def recording(path: Path, rows: list[dict[str, Any]]) -> Recording:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    trace = RequestTrace(path)
    return Recording(trace, trace.survey())


def test_recorded_requests_keep_their_times_and_durations(tmp_path: Path) -> None:
    rows = [{"time": n / 10, "duration": 0.05, "user": "abc"[n % 3], "seats": 1 + n % 2} for n in range(300)]
    result = simulate(Scenario(), load_text("", defaults="web"), recording=recording(tmp_path / "t", rows))

    assert [(tenant.name, tenant.requests, tenant.served) for tenant in result.tenants] == [
        ("a", 100, 100),
        ("b", 100, 100),
        ("c", 100, 100),
    ]
    assert {tenant.worst_ms for tenant in result.tenants} == {50}
    assert result.seconds == pytest.approx(29.9)
    assert result.level("users").dispatched == 300


def test_clients_that_are_not_listed_are_summed_up(tmp_path: Path) -> None:
    rows = [{"time": n / 1000, "duration": 0.001, "user": f"u{n // 2}"} for n in range(60)]
    result = simulate(Scenario(), load_text("", defaults="web"), recording=recording(tmp_path / "t", rows))

    assert len(result.tenants) == 13
    assert result.tenant(OTHERS).requests == 60 - 24


def test_all_rows_of_a_log_are_replayed_including_its_last_second(tmp_path: Path) -> None:
    line = '10.0.0.1 - alice [10/Oct/2026:13:55:3{} +0000] "GET / HTTP/1.1" 200 12 0.010\n'
    (tmp_path / "log").write_text("".join(line.format(second) for second in range(4) for _ in range(50)))
    trace = RequestTrace(tmp_path / "log")
    result = simulate(Scenario(), load_text("", defaults="web"), recording=Recording(trace, trace.survey()))

    assert result.requests == 200
    assert result.seconds == pytest.approx(4)


def test_a_single_recorded_request_counts_as_one_per_second(tmp_path: Path) -> None:
    row = {"time": 7, "duration": 0.25, "user": "alice"}
    result = simulate(Scenario(), load_text("", defaults="web"), recording=recording(tmp_path / "t", [row]))

    assert result.seconds == pytest.approx(1)
    assert result.tenant("alice").rate == pytest.approx(1)


def test_a_recorded_user_and_a_tenant_may_have_the_same_name(tmp_path: Path) -> None:
    scenario, configuration = world("", "name: alice, arrivals: {type: poisson, rate: 5}, service: 1ms")
    rows = [{"time": n, "duration": 0.01, "user": user} for n in range(3) for user in ("alice", "bob")]
    result = simulate(scenario, configuration, recording=recording(tmp_path / "t", rows))

    assert [tenant.name for tenant in result.tenants] == ["alice", "alice (recorded)", "bob"]
    assert result.tenant("alice (recorded)").served == 3


def test_a_warm_up_longer_than_the_recording_is_refused(tmp_path: Path) -> None:
    short = recording(tmp_path / "t", [{"time": n, "duration": 0.01} for n in range(3)])

    with pytest.raises(InvalidValueError, match="warmUp is '5s', but it must be shorter than the simulated time, 2s"):
        simulate(Scenario(warm_up_ns=5 * 10**9), load_text("", defaults="web"), recording=short)


def test_a_recorded_caller_with_many_paths_is_one_client(tmp_path: Path) -> None:
    """A fair part is a caller's, whatever it asks for."""
    rows = [{"time": n / 100, "duration": 0.05, "user": "many", "path": f"/{n}"} for n in range(1_000)]
    rows += [{"time": n / 100, "duration": 0.05, "user": "one", "path": "/"} for n in range(1_000)]
    simulation = Simulation(Scenario(), load_text("", defaults="web"), recording=recording(tmp_path / "t", rows))
    simulation.run("own")

    assert [client.template.identity.name for client in simulation.measurements.clients] == ["many", "one"]
    assert [client.template.path for client in simulation.measurements.clients] == ["/999", "/"]


def test_clients_beyond_the_bound_are_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apf_middleware.simulation.recording.MOST_CLIENTS", 50)
    rows = [{"time": n / 1000, "duration": 0.001, "user": f"u{n}"} for n in range(100)]
    simulation = Simulation(Scenario(), load_text("", defaults="web"), recording=recording(tmp_path / "t", rows))
    result = simulation.run("own")

    assert len(simulation.measurements.clients) == 50
    assert result.requests == sum(tenant.served for tenant in result.tenants) == 100


def test_a_tenant_can_replay_a_file(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"time": 5}\n{"time": 6, "duration": 0.2}\n{"time": 8}\n')
    scenario, configuration = world(
        "  duration: 10s\n", "name: t, arrivals: {type: replay, file: t.jsonl}, service: 50ms, begin: 1s, end: 3500ms"
    )
    result = simulate(replace(scenario, folder=str(tmp_path)), configuration)

    [tenant] = result.tenants
    assert (tenant.requests, tenant.worst_ms) == (2, 200)
    assert [round(window.begin_s, 2) for window in result.windows if window.served[0]] == [1.0, 2.0]


# Where requests go


def test_requests_are_classified_as_in_production() -> None:
    configuration = load_text("", defaults="web")
    simulation = Simulation(Scenario(), configuration)
    resolver = DestinationResolver(configuration, simulation.servers[0].controller)

    def level(template: RequestTemplate) -> str:
        return resolver.destination(template).classification.level

    assert level(RequestTemplate(identity_of("alice"), path="/x?y=1&y=2&z")) == "users"
    assert level(RequestTemplate(identity_of(""))) == "anonymous"
    assert level(RequestTemplate(identity_of("", ("odd",)))) == "anonymous"
    assert level(RequestTemplate(identity_of("system:anonymous"), path="/healthz")) == "exempt"
    assert resolver.destination(RequestTemplate(identity_of("alice"))).classification.flow == "alice"


async def four_seats(_digest: object, _classification: object) -> Work:
    return Work(4)


async def seats_after_a_while(_digest: object, _classification: object) -> Work:
    await asyncio.sleep(0)
    return Work(4)


def estimated_by(function: Callable[..., Any]) -> Result:
    scenario, configuration = world("  duration: 10s\n", "name: t, arrivals: {type: constant, rate: 1}, service: 100ms")
    estimation = EstimationSettings(default=ComputedEstimate(function), cap=False)
    server = replace(configuration.server, estimation=estimation)
    return simulate(scenario, replace(configuration, server=server))


def test_async_estimators_work_if_they_never_suspend() -> None:
    assert estimated_by(four_seats).level("all").seats == pytest.approx(0.4, rel=0.05)
    with pytest.raises(InvalidValueError, match=r"in virtual time nothing can be waited for\. Say in the scenario"):
        estimated_by(seats_after_a_while)


@pytest.mark.parametrize(("named", "level"), [("paid", "paid"), ("", "all"), ("nowhere", "all")])
def test_requests_go_to_the_queue_that_they_name(named: str, level: str) -> None:
    text = one_level(4).replace("{level: all, ", "{level: all, queue: {source: header, name: X-Plan}, ")
    text = text.replace("{seats: 4", "{queues: {unknown: notFound}, seats: 4")
    text += "---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: paid}\nspec: {minSeats: 0}\n"
    configuration = load_text(text)
    simulation = Simulation(world("  duration: 1s\n", POISSON)[0], configuration)
    resolver = DestinationResolver(configuration, simulation.servers[0].controller)

    found = resolver.destination(RequestTemplate(identity_of("alice"), headers={"x-plan": named}))

    assert found.runtime.name == found.classification.level == level
