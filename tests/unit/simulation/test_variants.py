"""Variants of a configuration."""

import math

import pytest

from apf_middleware.simulation import simulate, variant
from tests.support.simulated_worlds import POISSON, world


def test_losses_are_those_of_queueing_theory() -> None:
    """No queue: of Erlang's B, 21 % are turned away."""
    scenario, configuration = world("  duration: 200s\n", POISSON)
    result = simulate(scenario, variant("max-in-flight", configuration))

    [tenant] = result.tenants
    terms = [3.0**n / math.factorial(n) for n in range(5)]
    assert tenant.rejections / tenant.tries == pytest.approx(terms[-1] / sum(terms), rel=0.06)
    assert tenant.rejected.keys() == {"concurrency-limit"}
    assert tenant.requests == tenant.served + tenant.failed


def test_two_configurations_meet_the_same_arrivals() -> None:
    scenario, configuration = world(
        "  duration: 20s\n",
        POISSON,
        "name: u, count: 5, arrivals: {type: bursts, rate: 40, on: 1s, off: 1s}, service: 30ms,"
        " seats: [{seats: 1}, {seats: 2}]",
    )
    results = [simulate(scenario, variant(name, configuration)) for name in ("none", "fifo", "kubernetes", "own")]

    for result in results[1:]:
        assert [tenant.requests for tenant in result.tenants] == [tenant.requests for tenant in results[0].tenants]
