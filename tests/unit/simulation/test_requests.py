"""Clients: time-outs, retries and calls to other servers."""

import pytest

from apf_middleware.simulation import simulate, variant
from tests.support.simulated_worlds import LEVEL, SERVER, play, world


def test_a_client_that_times_out_leaves_the_queue() -> None:
    result = play(
        "  duration: 20s\n",
        "name: slow, arrivals: {type: closed, connections: 1}, service: 2s",
        "name: hasty, arrivals: {type: constant, rate: 2}, service: 10ms, timeout: 300ms",
        seats=1,
    )

    hasty = result.tenant("hasty")
    assert hasty.timeouts > 20
    assert hasty.served + hasty.failed == hasty.requests == hasty.tries
    assert hasty.worst_ms is not None
    assert hasty.worst_ms <= 300
    assert result.wasted == 0, "nobody is served who has gone"
    assert result.level("all").dispatched < hasty.served + 20


def test_work_for_a_client_that_left_is_wasted() -> None:
    result = play("  duration: 10s\n", "name: t, arrivals: {type: constant, rate: 2}, service: 400ms, timeout: 100ms")

    [tenant] = result.tenants
    assert (tenant.served, tenant.timeouts) == (0, 20)
    assert result.wasted == 1.0
    assert result.goodput == 0


@pytest.mark.parametrize(("most", "tries"), [(1, 2), (3, 4)])
def test_rejected_requests_are_retried(most: int, tries: int) -> None:
    """A jail rejects everything."""
    jail = SERVER.format(seats=4, more=", defaults: none") + LEVEL.format(
        seats=0, wait="1s", queuing="{queues: 1, handSize: 1}"
    )
    result = play(
        "  duration: 10s\n",
        f"name: t, arrivals: {{type: constant, rate: 1}}, service: 1ms, retries: {{most: {most}, backOff: 10ms}}",
        server=jail,
    )

    [tenant] = result.tenants
    assert (tenant.requests, tenant.failed) == (10, 10)
    assert tenant.tries == pytest.approx(10 * tries, abs=1), "the last one's may come after the end"
    assert tenant.rejections == tenant.tries


def test_retries_wait_longer_each_time_and_obey_retry_after() -> None:
    def last_answer(more: str) -> float:
        scenario, configuration = world(
            "  duration: 60s\n",
            "name: hog, arrivals: {type: closed, connections: 1}, service: 5s, end: 1ms",
            "name: t, arrivals: {type: constant, rate: 100}, service: 1ms, begin: 1s, end: 1010ms,"
            f" retries: {{most: 20, backOff: 100ms, factor: 2, jitter: 0{more}}}",
            seats=1,
        )
        result = simulate(scenario, variant("max-in-flight", configuration))
        worst = result.tenant("t").worst_ms
        assert worst is not None
        return worst

    assert last_answer("") == pytest.approx(100 * (2**6 - 1) + 1, abs=1), "100 + 200 + … + 3200"
    assert last_answer(", longest: 300ms") == pytest.approx(300 + 300 * 13 + 1, abs=310)
    assert last_answer(", longest: 10ms, obeyRetryAfter: true") % 1000 == pytest.approx(1, abs=0.01), "whole seconds"


def test_callers_keep_their_seats_during_calls() -> None:
    result = play(
        "  duration: 20s\n",
        "name: caller, arrivals: {type: constant, rate: 1}, service: 100ms, calls: [callee, other]",
        "name: callee, arrivals: {type: called}, service: 50ms, count: 2",
        "name: other, arrivals: {type: called}, service: 30ms",
    )

    assert result.tenant("caller").p50_ms == pytest.approx(180, rel=0.01)
    assert result.tenant("callee").requests == result.tenant("other").requests == 20
    assert result.level("all").seats == pytest.approx(0.18 + 0.08, rel=0.05)


def test_a_call_that_fails_fails_its_caller() -> None:
    result = play(
        "  duration: 20s\n",
        "name: caller, arrivals: {type: constant, rate: 1}, service: 100ms, calls: [callee]",
        "name: callee, arrivals: {type: called}, service: 2s, timeout: 1s",
    )

    caller = result.tenant("caller")
    assert (caller.served, caller.failed, result.tenant("callee").timeouts) == (0, 20, 20)
    assert result.wasted == 1.0
