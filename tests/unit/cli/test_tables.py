"""Results of the simulator as tables."""

from pathlib import Path

from tests.support.command_line import invoke as apf


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
