"""Measurements of a run and of its windows."""

import pytest

from tests.support.simulated_worlds import one_level, play, seats_over_time


def test_the_warm_up_is_not_counted() -> None:
    """For five seconds a crowd fills the seats and the queue; after that one asks ten times a second."""
    result = play(
        "  duration: 15s\n  warmUp: 10s\n",
        "name: crowd, arrivals: {type: poisson, rate: 500}, service: 40ms, end: 5s, timeout: 200ms",
        "name: one, arrivals: {type: constant, rate: 10}, service: 100ms",
        server=one_level(4, queuing="{queues: 1, handSize: 1, queueLengthLimit: 50}"),
    )

    crowd, one = result.tenants
    level = result.level("all")
    assert (crowd.requests, crowd.rejections, crowd.timeouts) == (0, 0, 0)
    assert (one.requests, level.dispatched, level.rejected) == (50, 50, 0)
    assert level.seats == pytest.approx(1, rel=0.02)
    assert level.most_seats == pytest.approx(1, rel=0.02)
    assert (level.wait_p99_ms, level.quantiles_ms["p99"]) == (0, 100)
    assert seats_over_time(result)[2] == 4, "curves show it all the same"


def test_the_last_window_has_the_fairness_of_the_whole_run() -> None:
    """Each waits for several windows, and few ask often; nobody has more than anybody else all the same."""
    result = play(
        "  duration: 30s\n  warmUp: 5s\n",
        "name: many, count: 20, arrivals: {type: constant, rate: 0.5}, service: 50ms",
        "name: early, arrivals: {type: closed, connections: 40}, service: 100ms, end: 5s",
        server=one_level(1),
    )

    curve = [window.fairness for window in result.windows]
    assert curve[-1] == result.fairness
    assert result.fairness is not None
    assert result.fairness > 0.95
    assert min(one for one in curve[30:] if one is not None) > 0.95
    assert max(one for one in curve[:10] if one is not None) < 0.5, "while the early ones were there"
    assert result.tenant("early").fairness == 1, "what it waited for when the warm-up ended, it got"
