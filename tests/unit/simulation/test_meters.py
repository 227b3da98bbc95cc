"""Meters of levels and tenants."""

from tests.support.simulated_worlds import one_level, play


def test_level_results_count_the_requests_of_tenants() -> None:
    result = play(
        "  duration: 12s\n  warmUp: 2s\n",
        "name: t, arrivals: {type: poisson, rate: 500}, service: 40ms, timeout: 300ms",
        server=one_level(4, queuing="{queues: 1, handSize: 1, queueLengthLimit: 50}"),
    )

    [tenant], level = result.tenants, result.level("all")
    assert level.dispatched + level.rejected == tenant.requests
    assert tenant.rejections < level.rejected < tenant.rejections + tenant.timeouts, "some leave while they are served"
