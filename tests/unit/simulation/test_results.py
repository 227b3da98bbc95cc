"""Results that are derived from others."""

import pytest

from apf_middleware.simulation import simulate, variant
from tests.support.simulated_worlds import one_level, world


def test_fairness_is_one_for_satisfied_tenants_and_low_under_monopoly() -> None:
    greedy = "name: greedy, arrivals: {type: poisson, rate: 400}, service: 50ms, timeout: 1s"
    modest = "name: modest, count: 9, arrivals: {type: poisson, rate: 2}, service: 50ms, timeout: 1s"
    flows = "{queues: 64, handSize: 4, queueLengthLimit: 20}"
    scenario, configuration = world("  duration: 20s\n  warmUp: 5s\n", greedy, modest, server=one_level(8, "1s", flows))

    fair, unfair = (simulate(scenario, variant(name, configuration)) for name in ("own", "fifo"))

    assert fair.fairness is not None
    assert unfair.fairness is not None
    assert fair.fairness > 0.98
    assert unfair.fairness < 0.3
    assert fair.tenant("modest").fairness == pytest.approx(1, abs=0.02)
