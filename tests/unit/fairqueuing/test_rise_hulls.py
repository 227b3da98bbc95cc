"""The hulls of rises answer as a look at each rise."""

import random

import pytest

from apf_middleware.fairqueuing.rise_hulls import RiseHulls
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from tests.support.examples import seeds


@pytest.mark.parametrize("seed", seeds(20))
def test_the_least_value_is_that_of_a_look_at_each_rise(seed: int) -> None:
    chance = random.Random(seed)
    hulls, points = RiseHulls(1000), []
    now, r = 1000, 0
    for _ in range(chance.choice([1, 7, 64, 100])):
        now += chance.choice([0, 1, 1000, 10**6])
        r += chance.choice([0, 1, 10**5, 10**9]) - chance.choice([0, 0, 0, 10**5])
        hulls.add(r, now)
        points.append((now, r))
        since = chance.randrange(len(points))
        seats, weight = chance.randrange(5), chance.choice([1, 77, WEIGHT_ONE, 5 * WEIGHT_ONE + 1])
        expected = min(r * weight - (seats * (now - 1000) << 26) for now, r in points[since:]) // weight
        assert hulls.least(seats, weight, since) == expected


def test_rises_are_forgotten() -> None:
    hulls = RiseHulls(0)
    assert hulls.least(1, WEIGHT_ONE, 0) is None
    hulls.add(5 << 10, 3)
    assert hulls.least(1, WEIGHT_ONE, 0) == 2 << 10
    assert hulls.least(1, WEIGHT_ONE, 1) is None

    hulls.clear(7)
    assert (hulls.count, hulls.epoch) == (0, 7)
    assert hulls.least(1, WEIGHT_ONE, 0) is None
    hulls.add(9 << 10, 8)
    assert hulls.least(2, 2 * WEIGHT_ONE, 0) == 8 << 10
