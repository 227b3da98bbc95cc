"""Recorded requests that are replayed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apf_middleware.config import load_text
from apf_middleware.config.fingerprint import fingerprint
from apf_middleware.config.scenario import Scenario
from apf_middleware.exceptions import InvalidValueError, TraceFormatError
from apf_middleware.recordings import Footer, Header
from apf_middleware.simulation import simulate
from apf_middleware.simulation.recording import MOST_CLIENTS, OTHERS, Recording
from apf_middleware.simulation.run import Simulation
from apf_middleware.simulation.trace import RequestTrace
from tests.support.simulated_worlds import world


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


def test_clients_beyond_the_bound_are_served(tmp_path: Path) -> None:
    number = MOST_CLIENTS + 50
    rows = [{"time": n / 1000, "duration": 0.001, "user": f"u{n}"} for n in range(number)]
    simulation = Simulation(Scenario(), load_text("", defaults="web"), recording=recording(tmp_path / "t", rows))
    result = simulation.run("own")

    assert len(simulation.measurements.clients) == MOST_CLIENTS
    assert result.requests == sum(tenant.served for tenant in result.tenants) == number


def test_a_tenant_can_replay_a_file(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"time": 5}\n{"time": 6, "duration": 0.2}\n{"time": 8}\n')
    scenario, configuration = world(
        "  duration: 10s\n", "name: t, arrivals: {type: replay, file: t.jsonl}, service: 50ms, begin: 1s, end: 3500ms"
    )
    result = simulate(replace(scenario, folder=str(tmp_path)), configuration)

    [tenant] = result.tenants
    assert (tenant.requests, tenant.worst_ms) == (2, 200)
    assert [round(window.begin_s, 2) for window in result.windows if window.served[0]] == [1.0, 2.0]


# Recordings of a server


ONE_SEAT = """
apiVersion: apf/v1
kind: Server
spec: {seats: 1, defaults: none}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: all}
spec: {shares: 1000, maxSeats: 1, waitLimit: 10s, queuing: {queues: 4, handSize: 2, queueLengthLimit: 2}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: all}
spec: {level: all, rules: [{httpRules: [{paths: [/never]}]}]}
"""


def recorded(tmp_path: Path, rows: list[dict[str, Any]], *, workers: int = 1, config: str = ONE_SEAT) -> Recording:
    """Return a recording that was made with this configuration."""
    digest = fingerprint(load_text(config))
    path = tmp_path / "recorded.jsonl"
    lines = [Header("2026-10-10T13:55:36+00:00", configuration=digest, workers=workers).line()]
    lines += [json.dumps({"schema": "all", "level": "all", "flow": "~1"} | row) for row in rows]
    path.write_text("\n".join([*lines, Footer(len(rows), seconds=10).line()]))
    trace = RequestTrace(path)
    return Recording(trace, trace.survey(), "flow")


def test_requests_are_placed_as_in_the_recording_under_the_same_configuration(tmp_path: Path) -> None:
    """The rules of this configuration accept no recorded request."""
    rows = [{"time": 1.0, "duration": 0.5}, {"time": 1.1, "duration": 0.5}]
    found = recorded(tmp_path, rows)

    same = simulate(Scenario(), load_text(ONE_SEAT), recording=found)
    assert same.level("all").dispatched == 2
    assert same.level("all").wait_p99_ms == pytest.approx(400, rel=0.01)
    assert [tenant.name for tenant in same.tenants] == ["all/~1"]

    other = simulate(Scenario(), load_text(ONE_SEAT.replace("waitLimit: 10s", "waitLimit: 9s")), recording=found)
    assert other.level("all").dispatched == 0


@pytest.mark.parametrize(
    ("before", "after", "dispatched"), [("waitLimit: 10s", "waitLimit: 9s", 2), ("never", "no", 0)]
)
def test_requests_are_placed_as_in_the_recording_under_the_same_schemas(
    tmp_path: Path, before: str, after: str, dispatched: int
) -> None:
    rows = [{"time": 1.0, "duration": 0.5}, {"time": 1.1, "duration": 0.5}]
    found = replace(recorded(tmp_path, rows), known=load_text(ONE_SEAT))

    other = simulate(Scenario(), load_text(ONE_SEAT.replace(before, after)), recording=found)
    assert other.level("all").dispatched == dispatched
    unknown = replace(found, known=load_text(ONE_SEAT.replace("seats: 1", "seats: 2")))
    assert not unknown.is_placed_by(load_text(ONE_SEAT.replace(before, after)))


def test_rejected_requests_take_as_long_as_others_if_they_are_served(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"time": 0, "duration": 0.25, "outcome": "served"}]
    rows += [{"time": 5, "outcome": "rejected", "reason": "queue-full", "wait": 0}]
    result = simulate(Scenario(), load_text(ONE_SEAT), recording=recorded(tmp_path, rows))

    assert (result.tenants[0].served, result.tenants[0].worst_ms) == (2, 250)


def test_requests_of_a_log_without_a_duration_take_as_long_as_others(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"time": 0, "duration": 0.25}, {"time": 2, "path": "/slow", "duration": 1}]
    found = recording(tmp_path / "t", [*rows, {"time": 4}, {"time": 6, "path": "/slow", "user": "alice"}])
    result = simulate(Scenario(), load_text("", defaults="web"), recording=found)

    assert found.survey.unmeasured == 2
    assert result.tenant("alice").worst_ms == 1000
    assert result.tenant("(anonymous)").mean_ms == pytest.approx(500)


@pytest.mark.parametrize("outcome", ["", "served", "rejected", "hung-up", "waiting"])
def test_a_trace_without_any_duration_is_an_error(tmp_path: Path, outcome: str) -> None:
    found = recorded(tmp_path, [{"time": 1, "wait": 0.5, "outcome": outcome}])

    with pytest.raises(TraceFormatError, match=r"recorded.jsonl: there is no request with a duration.* Write dur"):
        simulate(Scenario(), load_text(ONE_SEAT), recording=found)


def test_requests_that_never_ask_for_seats_need_no_duration(tmp_path: Path) -> None:
    found = recorded(tmp_path, [{"time": 1, "wait": 0, "outcome": "rejected", "reason": "body-limit"}])
    result = simulate(Scenario(), load_text(ONE_SEAT), recording=found)

    assert result.tenants[0].rejected == {"body-limit": 1}


@pytest.mark.parametrize(("left", "rejected"), [(0, {"deadline": 1}), (0.0004, {"deadline": 1}), (0.0006, {})])
def test_a_request_whose_time_is_over_on_arrival_gets_no_seats(
    tmp_path: Path, left: float, rejected: dict[str, int]
) -> None:
    config = ONE_SEAT.replace("defaults: none", "defaults: none, deadlines: {}")
    rows = [{"time": 0, "duration": 0.25}, {"time": 1, "deadline": left, "duration": 0.25}]
    result = simulate(Scenario(), load_text(config), recording=recorded(tmp_path, rows, config=config))

    assert result.tenants[0].rejected == rejected
    assert result.level("all").dispatched == 2 - len(rejected)


def test_rejected_requests_of_many_clients_take_different_times(tmp_path: Path) -> None:
    """Each client has one such request, so its duration must not be the first that any client draws."""
    rows: list[dict[str, Any]] = [
        {"time": 0, "user": f"u{n}", "duration": n / 100, "outcome": "served", "seats": 1} for n in range(1, 101)
    ]
    rows += [
        {"time": 5, "user": f"v{n}", "outcome": "rejected", "reason": "queue-full", "wait": 0, "seats": 1, "flow": "~2"}
        for n in range(100)
    ]
    found = recorded(tmp_path, rows)
    everybody = load_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 1000}\n")

    means = [simulate(Scenario(seed=seed), everybody, recording=found).tenant("all/~2").mean_ms for seed in (1, 2, 1)]

    assert means == [pytest.approx(500, rel=0.25), pytest.approx(500, rel=0.25), means[0]]
    assert means[0] != means[1], "the seed decides"


def test_clients_hang_up_when_they_did(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"time": 0, "duration": 3, "outcome": "served"}]
    rows += [{"time": 1, "outcome": "hung-up", "reason": "cancelled", "wait": 0.5}]
    rows += [{"time": 2, "outcome": "hung-up", "reason": "cancelled", "wait": 5, "flow": "~2"}]
    result = simulate(Scenario(), load_text(ONE_SEAT), recording=recorded(tmp_path, rows))

    assert result.tenant("all/~1").timeouts == 1
    assert (result.tenant("all/~2").timeouts, result.tenant("all/~2").served) == (0, 1), "its seat came before"


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("hung-up", "cancelled"),
        ("rejected", "slow-body"),
        ("rejected", "body-limit"),
        ("rejected", "stream-limit"),
    ],
)
def test_requests_that_were_refused_before_they_asked_for_seats_take_none(
    tmp_path: Path, outcome: str, reason: str
) -> None:
    rows: list[dict[str, Any]] = [{"time": 0, "duration": 1, "outcome": "served"}]
    rows += [{"time": 2, "outcome": outcome, "reason": reason, "wait": 0}]
    rows += [{"time": 2.1, "duration": 1, "outcome": "served", "wait": 0}]
    result = simulate(Scenario(), load_text(ONE_SEAT), recording=recorded(tmp_path, rows))

    assert result.tenants[0].rejected == {reason: 1}
    assert (result.level("all").dispatched, result.level("all").rejected) == (2, 1)
    assert result.level("all").wait_p99_ms == 0


def test_each_process_serves_its_own_requests(tmp_path: Path) -> None:
    rows = [{"time": 1, "duration": 1, "worker": number % 2, "flow": f"~{number}"} for number in range(4)]
    found = recorded(tmp_path, rows, workers=2)
    result = simulate(Scenario(servers=2), load_text(ONE_SEAT), recording=found)

    assert result.level("all").dispatched == 4
    assert result.level("all").wait_p99_ms == pytest.approx(1000, rel=0.01)


def test_recorded_deadlines_end_waits(tmp_path: Path) -> None:
    config = ONE_SEAT.replace("defaults: none", "defaults: none, deadlines: {}")
    rows: list[dict[str, Any]] = [{"time": 0, "duration": 3, "outcome": "served"}]
    rows += [{"time": 1, "outcome": "rejected", "reason": "deadline", "deadline": 0.5, "wait": 0.5}]
    result = simulate(Scenario(), load_text(config), recording=recorded(tmp_path, rows, config=config))

    assert result.tenants[0].rejected == {"deadline": 1}
