"""Elastic levels on a modelled event loop: light requests beside batch requests that compute on the loop."""

from dataclasses import replace

import pytest

from benchmarks.event_loop_model import CASES, RULES, SECOND, LoopWorld

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize(("name", "part", "kept"), [("blocking", 0.2, 0.9), ("small", 0.5, 0.9), ("steps", 0.5, 0.8)])
def test_light_requests_are_served_in_time_at_a_small_cost(name: str, part: float, kept: float) -> None:
    case = replace(CASES[name], seconds=40)
    without, found = (LoopWorld(case, RULES[rule]()).run() for rule in ("no caps", "ours"))

    assert found.light_ms(0.99) < part * without.light_ms(0.99)
    assert found.batch > kept * without.batch


@pytest.mark.parametrize("name", ["light", "pauses"])
def test_a_loop_that_has_time_is_left_alone(name: str) -> None:
    assert LoopWorld(CASES[name], RULES["ours"]()).run().caps == []


def test_caps_fall_in_a_burst_and_rise_after_it() -> None:
    caps = LoopWorld(CASES["burst"], RULES["ours"]()).run().caps
    (first, lowest), *_ = caps
    grown = [cap for at, cap in caps if at > 32 * SECOND]

    assert 20 * SECOND < first < 23 * SECOND
    assert lowest == 1
    assert len(grown) > 5
    assert grown == sorted(grown, key=lambda cap: cap or 10**6)
