"""The 39 scenarios that Kubernetes tests its queue sets with, in virtual time and with its margins.

The controls among them must come out unfair: otherwise the scenarios would prove nothing.
"""

import pytest

from apf_middleware.fairqueuing import DISCIPLINES, Reason
from apf_middleware.testing import play
from tests.support.kubernetes_scenarios import SCENARIOS, FairnessCase, worst_deviation


def test_there_are_39_scenarios() -> None:
    assert len(SCENARIOS) == 39


def test_two_scenarios_are_unfair_controls_and_one_shows_windup() -> None:
    unfair = {
        discipline: [
            case.name
            for case in SCENARIOS
            if not all(expectation.must_be_fair(discipline, strict=True) for expectation in case.expectations)
        ]
        for discipline in DISCIPLINES
    }

    controls = ["no restraint, competition", "different flows without queues"]
    assert unfair.pop("equal-serial") == [*controls, "windup, lower bound"]
    assert all(names == controls for names in unfair.values())


@pytest.mark.parametrize("strict", [False, True], ids=["corrected", "strict"])
@pytest.mark.parametrize("case", SCENARIOS, ids=lambda case: case.name)
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_each_scenario_is_fair_or_an_unfair_control(case: FairnessCase, discipline: str, *, strict: bool) -> None:
    outcome = play(case.scenario, discipline=DISCIPLINES[discipline], strict_upstream=strict)

    for window, expectation in enumerate(case.expectations):
        deviation = worst_deviation(case.expected(window), outcome, window)
        is_fair = expectation.must_be_fair(discipline, strict=strict)
        assert (deviation <= expectation.margin_of(strict=strict)) is is_fair, outcome.averages[window]

    assert (sum(outcome.rejected) > 0) is case.may_reject
    rejected = sum(outcome.queueset.rejected.values())
    assert outcome.queueset.rejected[Reason.CONCURRENCY_LIMIT] == sum(outcome.rejected) == rejected
    assert outcome.queueset.is_idle
    assert (outcome.queueset.waiting, outcome.queueset.seats_in_use, outcome.queueset.seats_waiting) == (0, 0, 0)
    if case.epochs is not None and discipline == "equal-serial" and strict:
        assert outcome.queueset.discipline.epochs == case.epochs  # type: ignore[attr-defined]
    outcome.queueset.check()


@pytest.mark.parametrize("case", SCENARIOS, ids=lambda case: case.name)
def test_the_demand_of_the_queue_set_agrees_with_an_outside_measurement(case: FairnessCase) -> None:
    outcome = play(case.scenario)

    seen, kept = outcome.demand, outcome.demand_kept
    assert (kept.duration_ns, kept.average, kept.deviation) == (seen.duration_ns, seen.average, seen.deviation)


@pytest.mark.parametrize(
    ("name", "seats"),
    [
        ("uniform flows, hand of 3", (1.983, 2.017)),
        ("different widths", (2.75, 3.0)),
        ("too wide", (1.375, 0.855, 1.395, 1.01, 1.4525)),
        ("windup, upper bound", (1.25, 1.75)),
    ],
)
def test_strict_equal_serial_gets_the_same_seats_as_kubernetes(name: str, seats: tuple[float, ...]) -> None:
    [case] = [case for case in SCENARIOS if case.name == name]

    outcome = play(case.scenario, strict_upstream=True)

    assert outcome.averages[-1] == pytest.approx(seats, abs=1e-3)
