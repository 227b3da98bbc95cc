"""The command ``apf simulate``."""

import json
from pathlib import Path

import pytest

from tests.support.command_line import invoke as apf
from tests.support.simulated_worlds import SCENARIO


def test_two_configurations_are_compared_in_words(scenario: Path, tmp_path: Path) -> None:
    result = apf("simulate", scenario, "--compare", "none", "own", "--no-curves")

    assert result.exit_code == 0
    assert "From none to own:\n  mice gains: 100 % of its requests are served instead of 0 %" in result.stdout

    other = tmp_path / "other.yaml"
    other.write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 3}\n")
    result = apf("simulate", scenario, "--compare", "own", other, "--no-curves")
    assert "mice loses" in result.stdout

    other.write_text(SCENARIO.replace("seats: 10", "seats: 3"))
    assert apf("simulate", scenario, "--compare", "own", other, "--no-curves").stdout == result.stdout, "its scenario"

    result = apf("simulate", scenario, "--compare", "own", "nothing")
    assert result.exit_code == 2
    assert "'nothing' must be a file or one of none, fifo" in " ".join(result.stderr.split())


def test_configurations_with_different_seats_have_the_same_backend(scenario: Path, tmp_path: Path) -> None:
    text = SCENARIO.replace("duration: 3s", "duration: 1s")
    scenario.write_text(text)
    more = tmp_path / "more.yaml"
    more.write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 100}\n")
    alone = apf("simulate", scenario, "-o", "json")
    compared = apf("simulate", scenario, "--compare", "own", more, "-o", "json")
    other_way = apf("simulate", scenario, "--compare", more, "kubernetes", "-o", "json")
    as_many = apf("simulate", scenario, "--compare", "none", "own", "-o", "json")
    scenario.write_text(text.replace("  tenants:", "  backend: {places: 10}\n  tenants:"))
    with_places = apf("simulate", scenario, "--compare", "own", more, "-o", "json")

    own, hundred = json.loads(compared.stdout)
    assert own == json.loads(alone.stdout)
    assert hundred["goodput"] < own["goodput"], "100 at once are too many for the backend of 10"
    assert json.loads(other_way.stdout)[0] == hundred, "also if neither side is the scenario's configuration"
    assert with_places.stdout == compared.stdout
    said = "the numbers of seats differ: all sides have the backend of own, which serves 10 requests at once"
    assert [said in one.stderr for one in (compared, other_way, as_many, with_places)] == [True, True, False, False]


def test_results_come_as_json_too(scenario: Path) -> None:
    one = json.loads(apf("simulate", scenario, "-o", "json").stdout)
    two = json.loads(apf("simulate", scenario, "-o", "json", "--compare", "fifo", "own", "--seed", "7").stdout)

    assert [tenant["name"] for tenant in one["tenants"]] == ["mice", "elephant"]
    assert [result["configuration"] for result in two] == ["fifo", "own"]
    assert two[1]["tenants"] != one["tenants"]


def test_what_is_wrong_with_a_scenario_is_reported_with_its_place(scenario: Path) -> None:
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


def test_an_invalid_trace_is_reported(scenario: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.log"
    bad.write_text("hello\n")

    for command in (("simulate", scenario, "--trace", bad), ("recommend", bad, "--objective", "p99=1s")):
        result = apf(*command)
        assert result.exit_code == 2
        assert f"{bad}:1: a line must be JSON, or of the common or combined log form" in result.stderr


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a scenario with five members of a fleet."""
    text = SCENARIO.replace("  duration: 3s\n", "  duration: 3s\n  members: 5\n")
    path = tmp_path / "shared.yaml"
    path.write_text(text.replace("seats: 10", "seats: 10, fleet: {name: shop}"))
    return path


def test_events_without_a_fleet_are_reported_with_their_place(shared: Path) -> None:
    events = "events: [{type: crash, at: 1s, members: [0]}]"
    text = shared.read_text().replace("members: 5", f"members: {{count: 2, {events}}}")
    shared.write_text(text.replace(", fleet: {name: shop}", "").replace("duration: 3s", "duration: 1500ms"))

    result = apf("simulate", shared, "--no-curves")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{shared}:7 (document 1): error: spec.members.events[0].type is 'crash', but ")

    assert apf("simulate", shared, "--compare-fleet", "--no-curves").exit_code == 0, "its layouts bring a fleet"


def test_a_fleet_is_compared_with_one_server_and_a_split(shared: Path, scenario: Path) -> None:
    result = apf("simulate", shared, "--compare-fleet", "--no-curves")

    assert (result.exit_code, result.stderr) == (0, "")
    header, *rows = result.stdout.splitlines()[-4:]
    assert header.split()[:3] == ["layout", "goodput", "served"]
    assert [row.split()[0] for row in rows] == ["one-server", "split", "fleet"]
    assert "at most 10 of 10 seats in use at one moment" in result.stdout

    three = json.loads(apf("simulate", shared, "--compare-fleet", "-o", "json").stdout)
    assert [one["configuration"] for one in three] == ["one-server", "split", "fleet"]
    assert [len(one["fleet"]["members"]) for one in three] == [1, 5, 5]

    result = apf("simulate", scenario, "--compare-fleet")
    assert result.exit_code == 2
    assert "Write members in the scenario" in " ".join(result.stderr.split())


def test_one_comparison_at_a_time(shared: Path) -> None:
    result = apf("simulate", shared, "--compare-fleet", "--compare", "own", "fifo")

    assert result.exit_code == 2
    assert "it can't be combined with --compare" in " ".join(result.stderr.split())


def test_a_fleet_meets_the_variants(shared: Path) -> None:
    result = apf("simulate", shared, "--compare", "kubernetes", "own", "-o", "json")

    kubernetes, own = json.loads(result.stdout)
    assert kubernetes["fleet"]["budget"] == 50, "Kubernetes has no fleets, so each member has all seats"
    assert own["fleet"]["budget"] == 10
