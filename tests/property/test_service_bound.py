"""No flow starves: over any interval a waiting flow gets its max-min fair share less a bound, whatever happened before.

The worlds are random, and the oracle is independent of the disciplines (`apf_middleware.testing.shortfall` defines the
terms). A plain discipline that is fair by construction shows that the bound can be met in these worlds; first come,
first served is the control that must break it.
"""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import DISCIPLINES, Discipline, QueueSetSettings
from apf_middleware.testing import Caller, observe
from tests.support.examples import examples
from tests.support.fair_worlds import KINDS, fair_world
from tests.support.least_served_discipline import LeastServed

SECOND = 10**9

seeds = st.integers(0, 10**9)


def judge(kind: str, seed: int, discipline: type[Discipline[Any]]) -> None:
    observation = fair_world(kind, seed).play(discipline)

    shortfall, drought = observation.shortfall.worst, observation.shortfall.worst_drought
    rounds = observation.queueset.rounds
    assert observation.queueset.is_idle
    assert rounds or shortfall is None or shortfall.ratio <= 1, f"more than C + 1 requests behind: {shortfall}"
    assert drought is None or drought.ratio <= 1 + rounds, f"too long without its share: {drought}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("discipline", DISCIPLINES.values(), ids=list(DISCIPLINES))
@examples(3)
@given(seed=seeds)
def test_no_flow_falls_behind_by_more_than_the_bound(kind: str, discipline: type[Discipline[Any]], seed: int) -> None:
    judge(kind, seed, discipline)


@pytest.mark.parametrize("kind", KINDS)
@examples(2)
@given(seed=seeds)
def test_the_bound_is_tight(kind: str, seed: int) -> None:
    judge(kind, seed, LeastServed)


@pytest.mark.parametrize("seed", [49, 2593])
@pytest.mark.parametrize("discipline", DISCIPLINES.values(), ids=list(DISCIPLINES))
def test_seats_that_are_kept_free_for_wide_requests_are_shared_out(
    discipline: type[Discipline[Any]], seed: int
) -> None:
    """While seats are idle because a wide request waits, a narrow flow has its share of the few seats in use."""
    judge("uneven linger", seed, discipline)


@pytest.mark.parametrize("discipline", [*DISCIPLINES.values(), LeastServed], ids=[*DISCIPLINES, "least-served"])
@pytest.mark.parametrize("seed", [35, 42])
def test_a_wide_request_is_made_up_for_by_more_than_its_share(discipline: type[Discipline[Any]], seed: int) -> None:
    """Each time that other requests end to make room for a wide one, its flow loses service; it must get this back."""
    judge("all", seed, discipline)


@pytest.mark.parametrize("discipline", DISCIPLINES.values(), ids=list(DISCIPLINES))
def test_the_last_of_many_flows_lacks_more_whatever_the_order(discipline: type[Discipline[Any]]) -> None:
    """Forty flows have one request each: the share of the last one is a fortieth, then a thirty-ninth and so on."""
    level = QueueSetSettings(1, 1, 1, 1000, exact=64)

    shortfall = observe(level, [Caller(1, (SECOND,), [(0, 1)])] * 40, discipline=discipline).shortfall

    assert shortfall.worst is not None
    assert shortfall.worst.amount == sum(Fraction(SECOND, flows) for flows in range(2, 41))


def test_first_come_first_served_breaks_the_bound() -> None:
    one_queue = QueueSetSettings(2, 1, 1, 1000)
    callers = [Caller(connections, (SECOND,), [(0, 100 * SECOND)]) for connections in (40, 4)]

    shortfall = observe(one_queue, callers).shortfall

    assert shortfall.worst is not None
    assert shortfall.worst.flow == 1
    assert shortfall.worst.ratio > 4
