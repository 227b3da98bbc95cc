"""Arrivals in time."""

import pytest

from tests.support.simulated_worlds import play


def test_a_closed_loop_sends_the_next_request_after_the_response() -> None:
    """Three connections, 50 ms of service and 100 ms of thinking: 20 a second, and nobody ever waits."""
    result = play(
        "  duration: 30s\n  warmUp: 3s\n",
        "name: t, arrivals: {type: closed, connections: 3, think: 100ms}, service: 50ms",
    )

    [tenant] = result.tenants
    assert tenant.rate == pytest.approx(20, rel=0.01)
    assert tenant.p50_ms == pytest.approx(50, rel=0.01)
    assert tenant.worst_ms == 50
    assert tenant.seats == pytest.approx(1.0, rel=0.02)


def test_steady_arrivals_are_evenly_spaced() -> None:
    result = play("  duration: 20s\n", "name: t, count: 3, arrivals: {type: constant, rate: 10}, service: 1ms")

    assert result.tenants[0].requests == 600
    assert {window.served[0] for window in result.windows[1:]} <= {14, 15, 16}


def test_bursts_alternate_with_pauses() -> None:
    result = play(
        "  duration: 40s\n",
        "name: t, arrivals: {type: bursts, rate: 100, on: 2s, off: 8s, idleRate: 5}, service: 1ms",
    )

    served = [window.served[0] / result.window_s for window in result.windows]
    per_period = [served[begin : begin + 20] for begin in range(0, 80, 20)]
    for rates in per_period:
        assert sum(rates[:4]) / 4 == pytest.approx(100, rel=0.25)
        assert sum(rates[4:]) / 16 == pytest.approx(5, abs=3)


def test_a_tenant_has_a_begin_and_an_end() -> None:
    result = play(
        "  duration: 12s\n", "name: t, arrivals: {type: constant, rate: 20}, service: 1ms, begin: 3s, end: 6s"
    )

    busy = [window.begin_s for window in result.windows if window.served[0]]
    assert (min(busy), max(busy)) == (3.0, 5.5)
