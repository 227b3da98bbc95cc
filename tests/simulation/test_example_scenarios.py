"""The scenarios of features: what a feature brings is seen beside the same scenario without it."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from apf_middleware.config.scenario import read_scenario_text
from apf_middleware.simulation import Result, simulate
from tests.support.simulated_worlds import p99

FOLDER: Final = Path(__file__).parents[2] / "examples" / "scenarios"


def play(name: str, seconds: int, *, without: str = "") -> Result:
    """Play a scenario of this length, ``without`` a part of its text."""
    text = (FOLDER / name).read_text()
    assert without in text
    read = read_scenario_text(text.replace(without, ""))
    assert read.scenario is not None, read.problems
    assert read.configuration is not None, read.problems
    scenario = replace(read.scenario, duration_ns=seconds * 10**9, warm_up_ns=seconds * 10**9 // 3)
    return simulate(scenario, read.configuration)


def test_deadlines_spend_no_time_on_late_answers() -> None:
    told = play("deadlines/late-answers.yaml", 9)
    untold = play("deadlines/late-answers.yaml", 9, without='  deadlines: {prediction: "on"}\n')

    assert told.goodput > 0.97
    assert untold.goodput < 0.9


def test_a_criticality_tells_the_requests_of_one_caller_apart() -> None:
    apart = play("criticality/batch-beside-users.yaml", 9)
    together = play("criticality/batch-beside-users.yaml", 9, without=", headers: {x-criticality: sheddable}")

    assert apart.tenant("users").served_part == 1
    assert p99(apart, "users") < 300
    assert (together.tenant("users").served_part or 0) < 0.5
    assert apart.goodput > 0.97


def test_a_criticality_has_a_weight_within_a_level() -> None:
    weighted = play("criticality/urgent-within-a-level.yaml", 9)
    equal = play("criticality/urgent-within-a-level.yaml", 9, without="  weight: 4\n")

    assert weighted.tenant("urgent").served_part == 1
    assert p99(weighted, "urgent") < 300
    assert (equal.tenant("urgent").served_part or 0) < 0.8
    assert weighted.tenant("others").rate > 100, "they get what is left"


def test_headroom_lets_short_requests_pass_long_ones() -> None:
    kept = play("headroom/short-beside-long.yaml", 30)
    full = play("headroom/short-beside-long.yaml", 30, without=", headroom: 20%")

    assert p99(kept, "look-ups") < 50
    assert p99(full, "look-ups") > 300
    assert kept.tenant("reports").rate > 0.75 * full.tenant("reports").rate
