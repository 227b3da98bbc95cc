"""What holds for the total of seats whatever the server does."""

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.adaptive import AdaptiveSettings, AdaptiveTotal, LimitReason, RequestOutcome
from tests.support.examples import examples
from tests.support.modelled_server import ModelledServer, sharing

pytestmark = pytest.mark.timeout(600)

CAPACITIES = st.floats(1, 200)
SEEDS = st.integers(0, 2**32)
BOUNDS = st.tuples(st.integers(1, 300), st.integers(1, 300)).map(sorted)


@given(bounds=BOUNDS, data=st.data(), seed=SEEDS)
@examples(25)
def test_it_never_leaves_its_bounds(bounds: list[int], data: st.DataObject, seed: int) -> None:
    floor, ceiling = bounds
    start = data.draw(st.integers(floor, ceiling))
    total = AdaptiveTotal(AdaptiveSettings(floor, ceiling, start, lag_target_ns=1))
    server = ModelledServer(total, sharing(40), seed=seed)
    for _ in range(4):
        server.slowdown = sharing(data.draw(CAPACITIES))
        server.demand = data.draw(st.sampled_from([0, 1, 10, 1000]))
        server.failing = data.draw(st.sampled_from([0.0, 0.1, 1.0]))
        server.outcome = data.draw(st.sampled_from(RequestOutcome))
        server.lag = data.draw(st.sampled_from([0, 10]))
        limits = server.run(5)
        assert floor <= min(limits) <= max(limits) <= ceiling


@given(demand=st.integers(0, 15), capacity=CAPACITIES, seed=SEEDS)
@examples(12)
def test_it_never_grows_while_seats_are_unused(demand: int, capacity: float, seed: int) -> None:
    server = ModelledServer(AdaptiveTotal(AdaptiveSettings(1, 400, 20)), sharing(capacity), demand, seed)

    assert set(server.run(30)) == {20}


@given(failing=st.floats(0.6, 1), seed=SEEDS, seconds=st.floats(10, 20))
@examples(12)
def test_it_never_grows_on_fast_errors(failing: float, seed: int, seconds: float) -> None:
    server = ModelledServer(AdaptiveTotal(AdaptiveSettings(1, 400, 20)), sharing(40), seed=seed)
    server.run(seconds)
    server.failing, server.outcome = failing, RequestOutcome.ERROR
    server.run(4)  # a window that has begun may still show successes
    begin = len(server.reasons)
    before = server.total.limit
    limits = server.run(20)

    assert max(limits) <= before
    assert LimitReason.GREW not in server.reasons[begin:]


@given(capacity=st.floats(8, 150), seed=SEEDS)
@examples(6, derandomize=True)  # the bounds are statistical
def test_it_recovers_from_the_least_total(capacity: float, seed: int) -> None:
    server = ModelledServer(AdaptiveTotal(AdaptiveSettings(1, 400, 1)), sharing(capacity), seed=seed)
    server.run(40)

    assert fmean(server.run(20)) >= 0.8 * capacity


@given(capacity=st.floats(8, 60), start=st.integers(60, 200), seed=SEEDS)
@examples(6, derandomize=True)  # the bounds are statistical
def test_it_does_not_take_an_overload_for_normal(capacity: float, start: int, seed: int) -> None:
    server = ModelledServer(AdaptiveTotal(AdaptiveSettings(1, 400, start)), sharing(capacity), seed=seed)
    server.run(60)

    assert fmean(server.run(30)) <= 1.6 * capacity


@given(capacity=st.floats(8, 100), longer=st.floats(0.2, 5), seed=SEEDS)
@examples(6, derandomize=True)  # the bounds are statistical
def test_longer_or_shorter_requests_leave_the_total(capacity: float, longer: float, seed: int) -> None:
    server = ModelledServer(AdaptiveTotal(AdaptiveSettings(1, 400, 20)), sharing(capacity), seed=seed)
    server.run(25)
    server.routes = [("all", 0.05 * longer)]
    server.run(20)

    assert 0.75 * capacity <= fmean(server.run(25)) <= 1.6 * capacity
