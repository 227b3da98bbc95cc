"""Results of the simulator as tables."""

from pathlib import Path

import pytest

from apf_middleware.cli import tables
from tests.support.command_line import invoke as apf
from tests.support.simulated_worlds import SCENARIO


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


def test_the_table_of_tenants_fits_into_the_terminal(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "terminal_width", lambda: 80)
    lines = apf("simulate", scenario, "--no-curves").stdout.splitlines()

    assert " ".join(lines[2].split()) == "tenant requests served p50 p99 rejected timed out fair part"
    assert max(map(len, lines)) <= 80

    monkeypatch.setattr(tables, "terminal_width", lambda: 44)
    lines = apf("simulate", scenario, "--no-curves").stdout.splitlines()
    assert " ".join(lines[2].split()) == "tenant requests served p50 p99 rejected"


def test_members_come_out_as_a_table(tmp_path: Path) -> None:
    text = SCENARIO.replace("  duration: 3s\n", "  duration: 1s\n  members: 50\n")
    path = tmp_path / "shared.yaml"
    path.write_text(text.replace("seats: 10", "seats: 10, fleet: {name: shop}"))
    lines = apf("simulate", path, "--no-curves").stdout.splitlines()

    header = next(place for place, line in enumerate(lines) if line.startswith("member "))
    assert lines[header].split() == ["member", "seats", "dispatched", "rejected", "wait", "p50", "wait", "p99"]
    assert lines[header + 1].split()[0] == "0"
    assert lines[header + 41] == "and 10 more; --output json has all of them"
    assert lines[header + 42] == "at most 10 of 10 seats in use at one moment"
