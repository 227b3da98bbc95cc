"""``apf simulate`` and ``apf recommend`` as a person runs them."""

import importlib
import json
import random
import re
import struct
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from apf_middleware.config import load
from apf_middleware.config.scenario import read_scenario_text
from apf_middleware.simulation.trace import RequestTrace
from tests.e2e.terminal import ROOT, terminal
from tests.support.command_line import invoke as apf

SCENARIO = """\
apiVersion: apf/v1
kind: Scenario
metadata: {name: small}
spec:
  about: An elephant and ten mice.
  duration: 3s
  tenants:
  - {name: mice, count: 10, arrivals: {type: poisson, rate: 10}, service: 20ms, timeout: 1s}
  - {name: elephant, arrivals: {type: closed, connections: 200}, service: 20ms, timeout: 1s}
---
apiVersion: apf/v1
kind: Server
spec: {seats: 10}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    dice = random.Random(1)
    path = tmp_path / "trace.jsonl"
    lines = [
        json.dumps({"time": n / 100, "duration": dice.expovariate(20), "user": f"u{n % 3}", "path": f"/{n % 2}"})
        for n in range(1_000)
    ]
    path.write_text("\n".join(lines))
    return path


def test_a_scenario_comes_out_as_tables_and_curves(scenario: Path) -> None:
    result = apf("simulate", scenario)

    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "An elephant and ten mice."
    assert lines[1].startswith("small, own: ")
    assert " ".join(lines[2].split()) == "tenant requests served p50 p90 p99 per s seats rejected timed out fair part"
    assert lines[3].split()[2:4] == ["100.0", "%"]
    assert any(line.startswith("goodput ") for line in lines)
    assert any(line.startswith("users") and "⣿" in line for line in lines)
    assert "⣿" not in apf("simulate", scenario, "--no-curves").stdout


def test_two_configurations_are_compared_in_words(scenario: Path, tmp_path: Path) -> None:
    result = apf("simulate", scenario, "--compare", "none", "own", "--no-curves")

    assert result.exit_code == 0
    assert "From none to own:\n  mice gains: 100 % of its requests are served instead of 0 %" in result.stdout

    other = tmp_path / "other.yaml"
    other.write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 3}\n")
    result = apf("simulate", scenario, "--compare", "own", other, "--no-curves")
    assert "mice pays" in result.stdout

    other.write_text(SCENARIO.replace("seats: 10", "seats: 3"))
    assert apf("simulate", scenario, "--compare", "own", other, "--no-curves").stdout == result.stdout, "its scenario"

    result = apf("simulate", scenario, "--compare", "own", "nothing")
    assert result.exit_code == 2
    assert "'nothing' must be a file or one of none, fifo" in " ".join(result.stderr.split())


def test_it_is_said_that_gates_are_left_out(scenario: Path, trace: Path) -> None:
    gates = "gates: [{name: db, capacity: 1}], routes: [{path: /*, resource: r, gates: [db, mail]}]"
    scenario.write_text(SCENARIO.replace("seats: 10", f"seats: 10, {gates}").replace("duration: 3s", "duration: 1s"))
    gated = scenario.with_name("gated.yaml")
    gated.write_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{seats: 10, {gates}}}\n")
    said = "gates aren't simulated, all requests pass them: db, mail\n"

    assert apf("simulate", scenario, "--no-curves").stderr == said
    found = apf("recommend", trace, "--objective", "p99=10s", "--config", gated, "--rows", 50)
    assert (found.exit_code, found.stderr) == (0, said)


def test_results_come_as_json_too(scenario: Path) -> None:
    one = json.loads(apf("simulate", scenario, "-o", "json").stdout)
    two = json.loads(apf("simulate", scenario, "-o", "json", "--compare", "fifo", "own", "--seed", "7").stdout)

    assert [tenant["name"] for tenant in one["tenants"]] == ["mice", "elephant"]
    assert [result["configuration"] for result in two] == ["fifo", "own"]
    assert two[1]["tenants"] != one["tenants"]


def test_plots_are_drawn(scenario: Path, tmp_path: Path) -> None:
    assert apf("simulate", scenario, "--plot", tmp_path / "p.png", "--compare", "none", "own").exit_code == 0
    assert apf("simulate", scenario, "--plot", tmp_path / "p.svg").exit_code == 0

    width, height = struct.unpack(">II", (tmp_path / "p.png").read_bytes()[16:24])
    assert (width, height) == (1375, 1100)
    drawn = ET.parse(tmp_path / "p.svg").getroot()  # noqa: S314 - our own file
    assert sum(1 for _ in drawn.iter("{http://www.w3.org/2000/svg}path")) > 30

    result = apf("simulate", scenario, "--plot", tmp_path / "p.txt")
    assert result.exit_code == 2
    assert "its name must end with .png, .svg, .pdf" in result.stderr


def test_names_in_plots_are_what_they_are(tmp_path: Path) -> None:
    trace, drawn = tmp_path / "t.jsonl", tmp_path / "p.svg"
    names = ["$\\frac{$", "_hidden", "a & b"]
    trace.write_text(
        "".join(json.dumps({"time": n, "duration": 0.1, "user": name}) + "\n" for n, name in enumerate(names))
    )

    assert apf("simulate", "--trace", trace, "--plot", drawn).exit_code == 0
    legend = drawn.read_text()
    assert [f"<!-- {name} -->" in legend for name in ("$\\frac{$", " _hidden", "a &amp; b")] == [True, True, True]


def test_where_nothing_can_be_written_nothing_is_simulated(scenario: Path, trace: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"

    for command in (
        ("simulate", scenario, "--plot", nowhere / "p.png"),
        ("recommend", trace, "--objective", "p99=1s", "--write", nowhere / "r.yaml"),
    ):
        result = apf(*command)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "there is no folder" in result.stderr
    result = apf("recommend", trace, "--objective", "p99=1s", "--write", tmp_path)
    assert (result.exit_code, "is a folder" in result.stderr) == (2, True)


def test_without_matplotlib_it_is_told_how_to_get_it(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    result = apf("simulate", scenario, "--plot", tmp_path / "p.png")

    assert result.exit_code == 2
    assert "pip install 'apf-middleware[plots]'" in result.stderr


def test_what_is_wrong_with_a_scenario_is_told_with_its_place(scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("service: 20ms, timeout", "service: 20, timeot"))

    result = apf("simulate", scenario)

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{scenario}:8 (document 1): error: spec.tenants[0].service is 20" in result.stderr
    assert "Did you mean timeout?" in result.stderr


def test_recorded_requests_need_no_scenario(trace: Path, tmp_path: Path) -> None:
    config = tmp_path / "apf.yaml"
    config.write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 6}\n")

    by_user = apf("simulate", config, "--trace", trace, "--no-curves")
    by_path = apf("simulate", config, "--trace", trace, "--no-curves", "--by", "path")

    assert by_user.stdout.startswith("trace.jsonl, own: 1,000 requests in ")
    assert [line.split()[0] for line in by_user.stdout.splitlines()[2:5]] == ["u0", "u1", "u2"]
    assert {line.split()[0] for line in by_path.stdout.splitlines()[2:4]} == {"/0", "/1"}
    assert apf("simulate", config).exit_code == 2, "without a trace there must be a scenario"
    alone = apf("simulate", "--trace", trace, "--no-curves")
    assert (alone.exit_code, alone.stdout.splitlines()[1].startswith("tenant ")) == (0, True)
    nothing = apf("simulate")
    assert (nothing.exit_code, "there must be a scenario, or recorded" in nothing.stderr) == (2, True)


def test_a_trace_that_is_none_is_told(scenario: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.log"
    bad.write_text("hello\n")

    for command in (("simulate", scenario, "--trace", bad), ("recommend", bad, "--objective", "p99=1s")):
        result = apf(*command)
        assert result.exit_code == 2
        assert f"{bad}:1: a line must be JSON, or of the common or combined log form" in result.stderr


def test_lines_that_are_left_out_are_told(trace: Path, scenario: Path) -> None:
    trace.write_text(trace.read_text() + "\nnot a request\n")

    result = apf("simulate", scenario, "--trace", trace, "--no-curves")

    assert result.exit_code == 0
    assert "1 lines can't be read and are left out" in result.stderr


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


def test_an_objective_that_cannot_be_met_is_told_and_fails(trace: Path) -> None:
    result = apf("recommend", trace, "--objective", "p99=5ms")

    assert result.exit_code == 1
    assert result.stdout.splitlines()[-2].endswith("missed, by no more than requests themselves take.")
    assert result.stdout.splitlines()[-1] == "--write FILE writes the configuration."


def test_an_objective_must_be_one(trace: Path) -> None:
    for objective, rule in (("fast", "isn't like p99=200ms"), ("p98=1s", "it must be one of p50, p90, p95, p99")):
        result = apf("recommend", trace, "--objective", objective)
        assert result.exit_code == 2
        assert rule in result.stderr


def test_a_terminal_shows_how_far_it_is(scenario: Path) -> None:
    with terminal("apf_middleware", "simulate", str(scenario), "--no-curves") as screen:
        assert screen.read_to_end() == 0

    assert "━" in screen.text
    assert " requests" in screen.text


def test_the_scenarios_in_the_documentation_are_fine() -> None:
    page = (ROOT / "docs" / "simulator.md").read_text()
    scenarios = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)

    assert len(scenarios) == 1
    assert [read_scenario_text(text).problems for text in scenarios] == [()]


def test_the_lines_of_json_in_the_documentation_are_a_trace(tmp_path: Path) -> None:
    [line] = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "simulator.md").read_text(), re.DOTALL)
    (tmp_path / "t").write_text(line)

    assert RequestTrace(tmp_path / "t").survey().counts["user"] == {"alice": 1}


@pytest.mark.parametrize("module", ["benchmarks.simulate", "benchmarks.fidelity", "benchmarks.bad_scenarios"])
def test_benchmarks_say_what_they_take(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [module, "--help"])

    with pytest.raises(SystemExit) as ended:
        importlib.import_module(module).main()

    assert ended.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_the_speed_of_the_simulator_is_measured() -> None:
    command = [sys.executable, "-m", "benchmarks.simulate", "--json", "--requests", "3000"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    rows = json.loads(result.stdout)
    assert [row["case"] for row in rows] == ["calm", "overload", "trace"]
    assert all(row["requests"] > 1_000 and row["us_per_request"] > 0 for row in rows)
