"""Nobody starves: over any interval a waiting flow gets its max-min fair share but for a bound, whatever happened before.

The worlds are random, and the judge knows nothing of disciplines (`apf_middleware.testing.shortfall` has the
definitions). A plain discipline that is fair by construction shows that the bound can be met in all of these worlds, and
two unfair ones show that the judge sees it.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apf_middleware.fairqueuing import DISCIPLINES, Discipline
from tests.support.fair_worlds import KINDS, fair_world
from tests.support.least_served import LeastServed

seeds = st.integers(0, 10**9)


def judge(kind: str, seed: int, discipline: type[Discipline[Any]]) -> None:
    observation = fair_world(kind, seed).play(discipline)

    shortfall, drought = observation.shortfall.worst, observation.shortfall.worst_drought
    assert observation.queueset.is_idle
    assert shortfall is None or shortfall.ratio <= 1, f"more than C + 1 requests behind: {shortfall}"
    assert drought is None or drought.ratio <= 1, f"too long without its share: {drought}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("discipline", DISCIPLINES.values(), ids=list(DISCIPLINES))
@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_no_flow_falls_behind_by_more_than_the_bound(kind: str, discipline: type[Discipline[Any]], seed: int) -> None:
    judge(kind, seed, discipline)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_the_bound_can_be_met(kind: str, seed: int) -> None:
    judge(kind, seed, LeastServed)
