"""While the members of a fleet read another configuration, maxes hold, and levels that drain serve their requests."""

from collections import Counter

import pytest

from tests.support.reloading_fleet import MS, SECOND, ReloadingFleet, configuration

OLD = "shares: 1, lendablePercent: 100, maxSeats: 2, waitLimit: 1h"
WEB = "shares: 3, lendablePercent: 100, waitLimit: 1h"


def busy_fleet(seats: int = 16) -> ReloadingFleet:
    """Return a fleet of four members, the last of which has no requests but those of the level ``old``."""
    fleet = ReloadingFleet(4, configuration(seats, web=WEB, old=OLD))
    for member in range(4):
        fleet.ask(member, "old", 20)
    for member in range(3):
        fleet.ask(member, "web", 20)
    fleet.run(2 * SECOND)
    assert fleet.most["old"] == 2
    return fleet


@pytest.mark.parametrize("after", [{"new": OLD}, {}], ids=["renamed", "removed"])
def test_the_max_of_a_level_that_drains_is_still_divided(after: dict[str, str]) -> None:
    fleet = busy_fleet()
    fleet.reload(configuration(16, web=WEB, **after))
    for member in range(4):
        fleet.ask(member, "new", 20)
    fleet.run(10 * SECOND)
    assert fleet.most["old"] == 2
    assert fleet.most["new"] == (2 if after else 0)
    assert not fleet.waiting("old")


def test_a_member_that_has_only_requests_of_a_level_that_drains_serves_them() -> None:
    fleet = busy_fleet(seats=4)
    fleet.reload(configuration(4, web=WEB))
    fleet.run(10 * SECOND)
    assert not fleet.waiting("old")
    assert fleet.used["web"] == 4


def test_the_max_of_a_level_that_drains_holds_when_the_allocator_crashes() -> None:
    fleet = busy_fleet()
    fleet.reload(configuration(16, web=WEB))
    fleet.run(50 * MS)
    fleet.fleet._crash_allocator(None)
    fleet.run(10 * SECOND)
    assert fleet.fleet.epochs == 2
    assert fleet.most["old"] == 2
    assert not fleet.waiting("old")


def test_a_level_that_only_members_with_an_older_configuration_have_keeps_its_max() -> None:
    fleet = busy_fleet()
    fleet.reload(configuration(16, web=WEB), 0, 1)
    fleet.run(10 * SECOND)
    assert fleet.most["old"] == 2
    found = Counter(fleet.waiting("old"))
    assert found[0] + found[1] < 5, "there the level drains"
    assert min(found[2], found[3]) >= 18, "and there it goes on"


def test_the_max_of_a_new_level_holds_from_the_beginning() -> None:
    fleet = busy_fleet()
    configured = configuration(16, web=WEB, new=OLD.replace("2", "1"))
    fleet.reload(configured, 0)
    fleet.reload(configured)
    for member in range(4):
        fleet.ask(member, "new", 5)
    fleet.run(50 * MS)
    assert fleet.used["new"] == 1, "members learn their parts without waiting for the next interval"
    fleet.run(2 * SECOND)
    assert fleet.most["new"] == 1


def test_requests_beyond_a_new_max_run_on_but_no_others_begin() -> None:
    fleet = ReloadingFleet(4, configuration(16, web=WEB, batch=WEB))
    for member in range(4):
        fleet.ask(member, "batch", 6)
    fleet.run(2 * SECOND)
    assert fleet.used["batch"] == 16
    fleet.reload(configuration(16, web=WEB, batch=OLD))
    fleet.run(2 * fleet.request_ns)
    fleet.most.clear()
    fleet.run(2 * SECOND)
    assert fleet.most["batch"] == 2


def test_a_level_that_drains_leaves_the_others_their_parts() -> None:
    fleet = ReloadingFleet(4, configuration(16, web=WEB, old=WEB.replace("3", "1")))
    for member in range(4):
        fleet.ask(member, "web", 25)
        fleet.ask(member, "old", 100)
    fleet.run(2 * SECOND)
    fleet.reload(configuration(16, web=WEB))
    fleet.run(SECOND)
    for _ in range(10):
        fleet.run(37 * MS)
        assert abs(fleet.used["old"] - 4) <= 2
        assert fleet.used["old"] + fleet.used["web"] == 16


CHILD = "parent: web, shares: 3, waitLimit: 1h"


def test_a_level_that_becomes_a_parent_drains() -> None:
    fleet = ReloadingFleet(2, configuration(10, web=WEB))
    fleet.ask(0, "web", 40)
    fleet.run(2 * SECOND)
    fleet.reload(configuration(10, web="shares: 3", new=CHILD))
    fleet.ask(1, "new", 20)
    fleet.run(5 * SECOND)
    assert not fleet.waiting("web")
    assert fleet.used == {"web": 0, "new": 10}


@pytest.mark.parametrize("most", [6, 10])
def test_a_level_that_is_a_parent_at_other_members_shares_its_max_with_its_children(most: int) -> None:
    fleet = ReloadingFleet(2, configuration(10, web=WEB))
    fleet.ask(0, "web", 40)
    fleet.run(2 * SECOND)
    fleet.reload(configuration(10, web=f"shares: 3, maxSeats: {most}", new=CHILD), 1)
    fleet.ask(1, "new", 20)
    fleet.run(2 * SECOND)
    for _ in range(20):
        fleet.run(37 * MS)
        assert fleet.used["web"] >= 1, "what the min of the new level leaves"
        assert fleet.used["web"] + fleet.used["new"] == most


def test_the_children_of_a_level_that_is_no_parent_at_other_members_are_served() -> None:
    fleet = ReloadingFleet(2, configuration(10, web="shares: 3, maxSeats: 5", new=CHILD))
    fleet.ask(1, "new", 20)
    fleet.run(2 * SECOND)
    fleet.reload(configuration(10, web="shares: 3, maxSeats: 5, waitLimit: 1h"), 0)
    fleet.ask(0, "web", 20)
    fleet.run(2 * SECOND)
    for _ in range(20):
        fleet.run(37 * MS)
        assert min(fleet.used["web"], fleet.used["new"]) >= 1
        assert fleet.used["web"] + fleet.used["new"] == 5
