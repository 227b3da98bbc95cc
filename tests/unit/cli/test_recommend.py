"""The command ``apf recommend``."""

import json
from pathlib import Path

from apf_middleware.config import load
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
    for objective, rule in (("fast", "isn't like p99=200ms"), ("p98=1s", "it must be one of p50, p90, p95, p99")):
        result = apf("recommend", trace, "--objective", objective)
        assert result.exit_code == 2
        assert rule in result.stderr
