"""``apf simulate`` in a terminal, its documentation, and the benchmarks of the simulator."""

import importlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from apf_middleware.config.scenario import read_scenario_text
from apf_middleware.simulation.trace import RequestTrace
from tests.e2e.terminal import CURSOR_OFF, CURSOR_ON, ROOT, terminal
from tests.support.simulated_worlds import SCENARIO


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    return path


def test_a_terminal_shows_how_far_it_is(scenario: Path) -> None:
    with terminal("apf_middleware", "simulate", str(scenario), "--no-curves") as screen:
        assert screen.read_to_end() == 0

    assert "━" in screen.text
    assert " requests" in screen.text


def test_the_terminal_is_restored_when_the_command_is_terminated() -> None:
    scenario = "examples/scenarios/adaptive/fleet.yaml"  # it takes a minute
    with terminal("apf_middleware", "simulate", scenario) as screen:
        screen.read_until(" requests")
        screen.process.terminate()
        assert screen.read_to_end() == 128 + signal.SIGTERM

    assert screen.text.count(CURSOR_ON) == screen.text.count(CURSOR_OFF) == 1


def test_the_scenarios_in_the_documentation_are_fine() -> None:
    page = (ROOT / "docs" / "simulator.md").read_text()
    scenarios = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)

    assert len(scenarios) == 2
    assert [read_scenario_text(text).problems for text in scenarios] == [(), ()]


def test_the_lines_of_json_in_the_documentation_are_a_trace(tmp_path: Path) -> None:
    [line] = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "simulator.md").read_text(), re.DOTALL)
    (tmp_path / "t").write_text(line)

    assert RequestTrace(tmp_path / "t").survey().counts["user"] == {"alice": 1}


@pytest.mark.parametrize(
    "module", ["benchmarks.simulate", "benchmarks.fidelity", "benchmarks.bad_scenarios", "benchmarks.fleet_scale"]
)
def test_benchmarks_have_help(module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_fleets_of_several_sizes_are_measured() -> None:
    command = [sys.executable, "-m", "benchmarks.fleet_scale", "--json", "--members", "1", "10"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    rows = json.loads(result.stdout)
    assert [row["members"] for row in rows] == [1, 10]
    assert all(0 < row["allocator_cores"] < 1 and row["messages_per_s"] > 10 for row in rows)
