"""What exact queues, back-fill and max-min shares are there for, each shown by a scenario that is unfair without."""

from dataclasses import replace

import pytest

from apf_middleware.fairqueuing import DISCIPLINES
from apf_middleware.testing import Outcome, play
from benchmarks.backfill import play_mix
from tests.support.kubernetes_scenarios import SCENARIOS, worst_deviation
from tests.support.level_weights import EXPECTED, play_levels
from tests.support.own_scenarios import MORE_SCENARIOS

CASES = {case.name: case for case in (*SCENARIOS, *MORE_SCENARIOS)}


def played(name: str, discipline: str = "equal-serial", *, exact: bool = False, backfill: int = 0) -> Outcome:
    scenario = CASES[name].scenario
    settings = replace(scenario.settings, exact=2000 if exact else 0, backfill=backfill)
    return play(replace(scenario, settings=settings), discipline=DISCIPLINES[discipline])


def deviation(name: str, discipline: str = "equal-serial", *, exact: bool = False, backfill: int = 0) -> float:
    """In the last window."""
    case = CASES[name]
    last = len(case.expectations) - 1
    outcome = played(name, discipline, exact=exact, backfill=backfill)
    return worst_deviation(case.expected(last), outcome, last)


@pytest.mark.parametrize("name", ["windup, upper bound", "windup, saved credit"])
def test_using_idle_seats_costs_a_flow_nothing(name: str) -> None:
    case = CASES[name]
    strict = play(case.scenario, strict_upstream=True)
    last = len(case.expectations) - 1

    assert worst_deviation(case.expected(last), strict, last) > 0.16
    assert deviation(name, "equal-serial") < 0.11
    assert deviation(name, "max-min-serial") < 0.001
    assert deviation(name, "max-min-concurrent") < 0.001


@pytest.mark.parametrize(
    ("name", "discipline", "backfill"),
    [
        ("windup, upper bound", "max-min-serial", 2),
        ("different widths", "max-min-concurrent", 0),
        ("too wide", "max-min-concurrent", 0),
    ],
)
def test_the_best_discipline_comes_within_two_percent_of_the_ideal(name: str, discipline: str, backfill: int) -> None:
    assert deviation(name, discipline, exact=True, backfill=backfill) <= 0.02


@pytest.mark.parametrize("discipline", DISCIPLINES)
@pytest.mark.parametrize("backfill", [0, 2])
def test_flows_of_different_widths_differ_by_one_request_at_most(discipline: str, backfill: int) -> None:
    """In half a minute on six seats, 3.3 % of three seats are a request of two seats and one second, and a half."""
    assert deviation("different widths", discipline, exact=True, backfill=backfill) <= 0.034


def test_with_exact_queues_a_thousand_flows_get_equal_seats() -> None:
    case, sharded, exact = CASES["1,000 flows"], played("1,000 flows"), played("1,000 flows", exact=True)

    assert worst_deviation(case.expected(1), sharded, 1) > 10
    assert worst_deviation(case.expected(1), exact, 1) <= 0.25
    assert exact.gap < 0.5


def test_back_fill_costs_a_flow_of_wide_requests_nothing() -> None:
    """Services of one length don't gain by it, but those of random lengths do (see below)."""
    name = "10 of 12 seats at once"
    without, filled = played(name, exact=True), played(name, exact=True, backfill=2)

    assert sum(filled.averages[0]) >= sum(without.averages[0])
    assert filled.averages[0] == pytest.approx([sum(filled.averages[0]) / 3] * 3, rel=0.01)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_weights_of_levels_apply_to_their_flows(discipline: str) -> None:
    got, gap = play_levels(DISCIPLINES[discipline], exact=100, backfill=2)

    assert got == pytest.approx(EXPECTED, rel=0.02)
    assert gap < 3


@pytest.mark.parametrize("flows", [1, 4])
def test_back_fill_uses_nine_of_ten_seats_with_random_services(flows: int) -> None:
    without, filled = play_mix(0, flows, seconds=100), play_mix(2, flows, seconds=100)

    assert without["utilisation"] < 0.85
    assert filled["utilisation"] > 0.90
    assert filled["wide_seats"] > 0.95 * without["wide_seats"]
