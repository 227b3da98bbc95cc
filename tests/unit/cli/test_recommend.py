"""The command ``apf recommend``."""

import json
from pathlib import Path

import pytest

from apf_middleware.config import load
from apf_middleware.config.fingerprint import fingerprint
from tests.support.command_line import invoke as apf


def test_seats_are_recommended_with_the_evidence(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "recommended.yaml"

    result = apf("recommend", trace, "--objective", "p99=240ms", "--write", out)

    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("1,000 requests in 10 s, ")
    assert lines[1] == "Objective: p99 within 240 ms, at most 0.1 % rejected"
    assert any(line.startswith("bisection") and line.endswith("missed") for line in lines)
    seats = load(out).server.seats
    assert lines[-1] == f"{seats} seats: the objective is met."

    document = json.loads(apf("recommend", trace, "--objective", "p99=0.24s", "-o", "json").stdout)
    assert (document["seats"], document["meets"]) == (seats, True)


def test_an_objective_that_cannot_be_met_is_reported_and_fails(trace: Path) -> None:
    result = apf("recommend", trace, "--objective", "p99=5ms")

    assert result.exit_code == 1
    assert result.stdout.splitlines()[-2].endswith("missed, but only because requests themselves take too long.")
    assert result.stdout.splitlines()[-1] == "--write FILE writes the configuration."


def test_an_invalid_objective_is_refused(trace: Path) -> None:
    for objective, rule in (
        ("fast", "isn't like p99=200ms"),
        ("p99=\u0662\u0660\u0660ms", "isn't like p99=200ms"),
        ("p98=1s", "it must be one of p50, p90, p95, p99"),
        (f"p99={'9' * 400}ms", "at most 86400000"),
    ):
        result = apf("recommend", trace, "--objective", objective)
        assert result.exit_code == 2
        assert rule in result.stderr


def test_the_seats_of_each_process_of_a_recording_are_recommended(tmp_path: Path) -> None:
    header = {"recording": "begin", "start": "2026-11-24T06:53:41+00:00", "configuration": "x", "workers": 2}
    rows = [
        {"time": n / 20, "duration": 0.1, "user": "alice", "worker": worker} for n in range(99) for worker in range(2)
    ]
    path = tmp_path / "two.jsonl"
    path.write_text("\n".join(map(json.dumps, [header | {"version": 1}, *rows])))

    lines = apf("recommend", path, "--objective", "p99=150ms").stdout.splitlines()
    assert any(line.startswith("tried            seats per process  worst level") for line in lines)
    assert lines[-2] == "2 seats per process: the objective is met."
    document = json.loads(apf("recommend", path, "--objective", "p99=150ms", "-o", "json").stdout)
    assert (document["seats"], document["servers"]) == (2, 2)

    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("apiVersion: apf/v1\nkind: Server\nspec: {fleet: {name: shop}}\n")
    result = apf("recommend", path, "--objective", "p99=150ms", "--config", fleet)
    assert "seats per process" not in result.stdout


def test_rows_without_durations_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(json.dumps({"time": n / 100, "user": "alice"}) for n in range(50)))

    result = apf("recommend", path, "--objective", "p99=150ms")

    assert result.exit_code == 2
    assert f"apf recommend: {path}: there is no request with a duration in it" in result.stderr


PATTERN = """
apiVersion: apf/v1
kind: Server
spec: {seats: 20, defaults: none}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: batch}
spec: {shares: 50}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: web}
spec: {shares: 50}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: batch}
spec: {level: batch, precedence: 2, rules: [{subjects: [{user: "batch-*"}], httpRules: [{paths: [/*]}]}]}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: web}
spec: {level: web, precedence: 3, rules: [{httpRules: [{paths: [/*]}]}]}
"""


def test_trials_place_requests_as_they_were_recorded(tmp_path: Path) -> None:
    """The pattern of the first schema doesn't match the hashed names of its users."""
    config = tmp_path / "apf.yaml"
    config.write_text(PATTERN)
    header = {"recording": "begin", "start": "2026-11-24T06:53:41+00:00", "version": 1}
    rows = [
        {"time": n / 20, "duration": 0.1, "user": f"~{level}", "schema": level, "level": level, "outcome": "served"}
        for n in range(99)
        for level in ("batch", "web", "batch")
    ]
    path = tmp_path / "recording.jsonl"
    path.write_text("\n".join(map(json.dumps, [header | {"configuration": fingerprint(load(config))}, *rows])))

    result = apf("recommend", path, "--objective", "p99=150ms", "--config", config, "-o", "json")
    shares = json.loads(result.stdout)["shares"]
    assert shares["batch"] == pytest.approx(2 * shares["web"], abs=2)


def test_heavy_flows_count_although_their_users_are_anonymous(tmp_path: Path) -> None:
    rows = [
        {"time": n / 20, "duration": 0.05, "schema": "web", "level": "web", "flow": f"~{n % 5}", "outcome": "served"}
        for n in range(200)
    ]
    path, config = tmp_path / "recording.jsonl", tmp_path / "apf.yaml"
    path.write_text("\n".join(map(json.dumps, rows)))
    config.write_text(PATTERN)

    result = apf("recommend", path, "--objective", "p99=150ms", "--config", config)
    assert ": 5 heavy flows cover a light one with probability" in result.stdout


def test_the_result_is_shown_if_its_file_cannot_be_written(trace: Path) -> None:
    result = apf("recommend", trace, "--objective", "p99=240ms", "--write", "/dev/full")

    assert result.exit_code == 2
    assert "the objective is met" in result.stdout
    assert result.stderr.endswith("apf recommend: /dev/full can't be written: no space left on device\n")
