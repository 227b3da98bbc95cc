"""The proposal's bad scenarios: who suffers without fairness, with Kubernetes' ways, and with ours."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from apf_middleware.config.scenario import load_scenario
from apf_middleware.simulation import Result, simulate, variant
from benchmarks import bad_scenarios
from benchmarks.bad_scenarios import FOLDER, VARIANTS, compare, files, heading, table
from tests.support.simulated_worlds import p99

Results = Mapping[str, Result]


DURATIONS_S = {
    "deployment-of-doom": 6,
    "one-agent-amuck": 5,
    "priority-inversion": 12,
}
"""Shorter than in the files, but long enough for each verdict: what the other variants than ours play of a scenario.

The scenarios that aren't listed are played as they are, and all rows of their tables are compared with the
documentation.
"""

PAGE = (FOLDER.parents[1] / "docs" / "scenarios.md").read_text()


@pytest.fixture(scope="module")
def played() -> dict[str, Results]:
    found: dict[str, Results] = {}
    for path in files():
        scenario, configuration = load_scenario(path)
        short = scenario
        if path.stem in DURATIONS_S:
            short = replace(scenario, duration_ns=DURATIONS_S[path.stem] * 10**9)
        found[path.stem] = {
            name: simulate(scenario if name == "own" else short, variant(name, configuration), name=name)
            for name in VARIANTS
        }
    return found


def served(result: Result, name: str) -> float:
    return result.tenant(name).served_part or 0.0


def test_the_documentation_lists_all_bad_scenarios(played: dict[str, Results]) -> None:
    assert len(played) == 6
    for name in played:
        assert f"## {name.replace('-', ' ').capitalize()}\n" in PAGE


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_the_documentation_has_the_figures_of_this_version(path: Path, played: dict[str, Results]) -> None:
    """`python -m benchmarks.bad_scenarios` prints new ones after an intended change."""
    scenario, _ = load_scenario(path)
    names = VARIANTS[-1:] if path.stem in DURATIONS_S else VARIANTS
    results = [played[path.stem][name] for name in names]

    section = PAGE.partition(heading(scenario))[2].partition("\n## ")[0]
    head, rule, *rows = [line for line in section.splitlines() if line.startswith("|")]
    assert [head, rule, *rows[-len(names) :]] == [*table(scenario, results)]
    assert [row.split()[1] for row in rows] == [*VARIANTS]


def test_self_maintenance_needs_its_own_seats(played: dict[str, Results]) -> None:
    results = played["self-maintenance-crowded-out"]

    for name in ("heartbeats", "leader-election"):
        assert served(results["none"], name) == 0
        assert served(results["fifo"], name) == 0
        for fair in ("kubernetes", "own"):
            assert served(results[fair], name) == 1
            assert p99(results[fair], name) < 11, "it takes 10 ms when nobody else is there"
    assert served(results["own"], "jobs") > 0.75


def test_priority_inversion_is_avoided(played: dict[str, Results]) -> None:
    results = played["priority-inversion"]

    assert served(results["fifo"], "token-reviews") == 0, "whoever has a seat waits for whoever has none"
    assert served(results["fifo"], "pod-creators") == 0
    for fair in ("kubernetes", "own"):
        assert served(results[fair], "token-reviews") == 1
        assert served(results[fair], "pod-creators") > 0.8
    assert served(results["own"], "pod-creators") == 1
    assert served(results["kubernetes"], "pod-creators") < 0.95, "what it may borrow is settled every ten seconds"


def test_a_controller_running_amuck_does_not_affect_others(played: dict[str, Results]) -> None:
    results = played["deployment-of-doom"]

    for name in ("scheduler", "people"):
        assert served(results["none"], name) < 0.6
        assert p99(results["fifo"], name) > 400
        for fair in ("kubernetes", "own"):
            assert served(results[fair], name) == 1
        assert p99(results["own"], "scheduler") < 0.25 * p99(results["fifo"], "scheduler")
    assert results["own"].tenant("doom").rejected.keys() == {"queue-full"}


def test_one_agent_running_amuck_affects_only_itself(played: dict[str, Results]) -> None:
    results = played["one-agent-amuck"]

    assert served(results["none"], "kubelets") < 0.6
    assert p99(results["fifo"], "kubelets") > 400
    for fair in ("kubernetes", "own"):
        assert served(results[fair], "kubelets") == 1
        assert p99(results[fair], "kubelets") < 200
        assert served(results[fair], "amuck") < 0.5


def test_overbearing_tenants_do_not_crowd_out_others(played: dict[str, Results]) -> None:
    results = played["overbearing-tenants"]

    for unfair in ("none", "fifo"):
        assert served(results[unfair], "modest") == 0
        assert results[unfair].wasted > 0.8, "retries for answers that come too late"
    for fair in ("kubernetes", "own"):
        assert served(results[fair], "modest") == 1
        assert results[fair].goodput > 0.95
        assert results[fair].wasted < 0.01
        overbearing = results[fair].tenant("overbearing")
        assert overbearing.fairness is not None
        assert overbearing.fairness > 0.95, "they have all that is left"


def test_a_level_that_was_idle_gets_its_seats_back_at_once(played: dict[str, Results]) -> None:
    results = played["garbage-collector-crowded-out"]

    assert served(results["none"], "garbage-collector") < 0.3
    assert served(results["fifo"], "garbage-collector") == 0
    assert served(results["kubernetes"], "garbage-collector") < 0.95, "until the next adjustment they are lent out"
    assert served(results["own"], "garbage-collector") == 1
    assert p99(results["own"], "garbage-collector") < 0.5 * p99(results["kubernetes"], "garbage-collector")


def test_the_scenarios_need_no_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in files():
        shutil.copy(path, tmp_path)
    played: list[str] = []
    monkeypatch.setattr(bad_scenarios, "simulate", lambda *_, name: played.append(name))

    for path in sorted(tmp_path.iterdir()):
        scenario, results = compare(path)
        assert (scenario.name, len(results)) == (path.stem, len(VARIANTS))

    assert played == [*VARIANTS] * 6
