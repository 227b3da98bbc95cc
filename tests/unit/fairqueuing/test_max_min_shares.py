"""Max-min fair shares that follow the demands. Random changes are in tests/property/test_disciplines.py."""

import pytest

from apf_middleware.fairqueuing.max_min_shares import MaxMinShares
from apf_middleware.fairqueuing.service_meter import ServiceMeter
from apf_middleware.fairqueuing.work import WEIGHT_ONE


def divided(capacity: int, *demands: int) -> tuple[MaxMinShares, list[ServiceMeter]]:
    claims = [ServiceMeter(index) for index in range(len(demands))]
    shares = MaxMinShares(capacity, claims)
    for claim, demand in zip(claims, demands, strict=True):
        shares.change(claim, demand)
        shares.check()
    return shares, claims


@pytest.mark.parametrize(
    ("capacity", "demands", "limited", "fair"),
    [
        (4, (1, 2), [], None),
        (4, (1, 3), [], None),
        (4, (1, 4), [1], 3),
        (4, (8, 1, 8), [0, 2], 1.5),
        (4, (8, 8, 8), [0, 1, 2], 4 / 3),
        (0, (1, 0), [0], 0),
        (7, (1, 2, 9, 9), [2, 3], 2),
    ],
)
def test_the_least_demands_are_met_and_the_others_share_the_rest(
    capacity: int, demands: tuple[int, ...], limited: list[int], fair: float | None
) -> None:
    shares, claims = divided(capacity, *demands)

    assert [claim.index for claim in claims if claim.is_limited] == limited
    assert shares.limited == len(limited)
    assert fair is None or shares.free / shares.limited == pytest.approx(fair)


def test_a_change_returns_the_queues_that_crossed_the_boundary() -> None:
    shares, claims = divided(6, 2, 2, 2)
    assert list(shares.change(claims[0], 9)) == [claims[0]]
    assert set(shares.resize(4)) == {claims[1], claims[2]}
    assert set(shares.change(claims[0], 0)) == {claims[0], claims[1], claims[2]}
    shares.check()
    assert (shares.free, shares.limited) == (0, 0)


def test_more_seats_grant_what_fewer_denied() -> None:
    shares, claims = divided(3, 2, 2, 2)
    assert shares.limited == 3
    assert set(shares.resize(6)) == set(claims)
    assert shares.resize(7) == ()
    shares.check()


@pytest.mark.parametrize("closing_up", [False, True])
def test_a_queue_that_is_closed_leaves_its_share_to_the_others(*, closing_up: bool) -> None:
    shares, claims = divided(4, 9, 2, 9)
    gone = claims[0]
    if closing_up:
        del claims[0]
        for index, claim in enumerate(claims):
            claim.index = index
    else:
        gone.is_closed = True
    shares.forget(gone, closing_up=closing_up)
    shares.check()

    assert (shares.free, shares.limited) == (2, 1)
    assert repr(shares) == "<MaxMinShares of 4 seats: 2 for 1 limited queues>"


def test_a_queue_that_demands_nothing_has_no_part() -> None:
    shares, claims = divided(2, 3, 0, 3)
    shares.change(claims[0], 0)
    shares.check()
    assert [claim.is_limited for claim in claims] == [False, False, True]


@pytest.mark.parametrize(
    ("capacity", "claims", "shares"),
    [
        (6, ((9, 1), (9, 2)), (2, 4)),
        (6, ((1, 1), (9, 2)), (1, 5)),
        (6, ((9, 1), (3, 2)), (3, 3)),
        (8, ((9, 0.25), (9, 0.75), (4, 1)), (1, 3, 4)),
        (8, ((9, 0.25), (9, 0.75), (5, 1)), (1, 3, 4)),
        (0, ((1, 3), (1, 1)), (0, 0)),
    ],
)
def test_a_queue_counts_as_often_as_it_weighs(
    capacity: int, claims: tuple[tuple[int, float], ...], shares: tuple[float, ...]
) -> None:
    found, queues = divided(capacity, *(rho for rho, _ in claims))
    found.weigh()
    for queue, (_, weight) in zip(queues, claims, strict=True):
        found.reweigh(queue, round(weight * WEIGHT_ONE))
        found.check()

    each = tuple(queue.weight * found.free / found.limited if queue.is_limited else queue.rho for queue in queues)
    assert each == pytest.approx(shares)


def test_a_new_weight_returns_the_queues_that_crossed_the_boundary() -> None:
    shares, claims = divided(6, 4, 3, 3)
    shares.weigh()
    assert list(shares.reweigh(claims[0], WEIGHT_ONE)) == []
    assert [claim.is_limited for claim in claims] == [True, True, True]

    assert list(shares.reweigh(claims[0], 4 * WEIGHT_ONE)) == [claims[0]]
    assert list(shares.reweigh(claims[1], 1)) == []
    assert list(shares.resize(8)) == [claims[2]]
    assert (shares.free, shares.limited) == (1, 1)
    assert repr(shares) == "<MaxMinShares of 8 seats: 1 for 1.52588e-05 limited queues>"
