"""Mins of levels in a fleet: what no request wants is kept, however long the requests of other levels are."""

import pytest

from tests.support.reloading_fleet import MS, SECOND, ReloadingFleet, configuration

WEB = "shares: 50, lendablePercent: 100, waitLimit: 1h"
GOLD = "shares: 1, lendablePercent: 100, waitLimit: 1h"


def full(members: int, seats: int, request_ns: int, **gold: str) -> ReloadingFleet:
    """Return a fleet where the requests of the level ``web`` want more than there is."""
    fleet = ReloadingFleet(members, configuration(seats, web=WEB, **gold))
    fleet.request_ns = request_ns
    fleet.run(SECOND)
    for number in range(4 * seats):
        fleet.ask(number % members, "web", 1)
    fleet.run(5 * SECOND)
    return fleet


@pytest.mark.parametrize(("members", "seats", "least"), [(1, 8, 3), (3, 8, 3), (4, 20, 5), (8, 40, 8), (4, 100, 10)])
def test_long_requests_don_t_take_the_min_of_an_idle_level(members: int, seats: int, least: int) -> None:
    fleet = full(members, seats, 3600 * SECOND, gold=f"{GOLD}, minSeats: {least}")
    assert fleet.most["web"] == seats - least
    for number in range(least):
        fleet.ask(number % members, "gold", 1)
    fleet.run(SECOND)
    # a member with more long requests than its share may have no seat for one of its requests
    assert fleet.used["gold"] >= least - least // 10


def test_seats_beyond_the_min_are_used() -> None:
    fleet = full(8, 40, 50 * MS, gold=f"{GOLD}, minSeats: 8")
    used = 0
    for _ in range(200):
        fleet.run(7 * MS)
        used += fleet.used["web"]
    assert 0.95 * 32 <= used / 200 <= 32


def test_seats_of_a_min_are_used_as_soon_as_they_are_free() -> None:
    """The turns of a max move its seats again and again to members where other levels use all seats."""
    fleet = full(5, 16, 20 * MS, gold=f"{GOLD}, minSeats: 2, maxSeats: 2")
    for member in range(5):
        fleet.ask(member, "gold", 30)
    fleet.run(SECOND)
    gold = total = 0
    for _ in range(400):
        fleet.run(7 * MS)
        gold += fleet.used["gold"]
        total += fleet.used["gold"] + fleet.used["web"]
    assert gold / 400 >= 1.8
    assert total / 400 >= 15.7


@pytest.mark.parametrize("members", [1, 3, 6])
def test_long_requests_don_t_take_the_min_of_a_parent(members: int) -> None:
    child = "shares: 1, lendablePercent: 100, parent: plans, waitLimit: 1h"
    plans = {"plans": "shares: 1, minSeats: 6", "free": child, "paid": child}
    fleet = full(members, 24, 3600 * SECOND, **plans)
    assert fleet.most["web"] == 18
    for number in range(6):
        fleet.ask(number % members, "paid", 1)
    fleet.run(SECOND)
    assert fleet.used["paid"] == 6


def test_children_with_maxes_use_all_that_their_parent_is_promised() -> None:
    child = "shares: 1, lendablePercent: 100, maxSeats: 2, parent: plans, waitLimit: 1h"
    fleet = full(5, 16, 20 * MS, plans="shares: 1, minSeats: 4, maxSeats: 4", free=child, paid=child)
    for member in range(5):
        fleet.ask(member, "free", 30)
        fleet.ask(member, "paid", 30)
    fleet.run(SECOND)
    used = total = 0
    for _ in range(400):
        fleet.run(7 * MS)
        used += fleet.used["free"] + fleet.used["paid"]
        total += fleet.used.total()
    assert used / 400 >= 3.6
    assert total / 400 >= 15.7
