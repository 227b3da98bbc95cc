"""Levels that share a server's seats, under virtual time: who has his seats back when, and who gets how many."""

from collections.abc import Mapping
from functools import partial
from statistics import fmean

import pytest

from apf_middleware.fairqueuing import (
    DISCIPLINES,
    Adjusting,
    Lending,
    LevelLimits,
    LevelShares,
    QueueSetSettings,
    Work,
    limits_from_shares,
)
from tests.support.sharing_world import MS, SECOND, SERVICES, SharingWorld


def queued(nominal: int) -> QueueSetSettings:
    return QueueSetSettings(nominal, queues=64, hand_size=6, queue_length_limit=1000)


def lending(seats: int, levels: Mapping[str, LevelShares], discipline: str = "equal-serial") -> Lending:
    limits = limits_from_shares(seats, levels)
    wanted = {
        name: (
            QueueSetSettings.without_limit(limits[name].nominal) if shares.exempt else queued(limits[name].nominal),
            limits[name],
        )
        for name, shares in levels.items()
    }
    return Lending(seats, wanted, discipline=DISCIPLINES[discipline])


# An owner wakes up


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("service", SERVICES)
def test_an_owner_has_its_nominal_seats_back_within_one_service_time(service: str, seed: int) -> None:
    """Each of its requests waits at most until the last of those ends who had its seats when it woke."""
    world = SharingWorld(
        lending(20, {"owner": LevelShares(10, 100), "borrower": LevelShares(10)}), SERVICES[service], seed
    )
    world.saturate("borrower", "crawler", 100)
    world.run(SECOND)
    borrowers = world.running("borrower")
    assert len(borrowers) == 20
    last_end = max(ticket.ends_at for ticket in borrowers)

    owned = [world.call("owner", f"user {number}") for number in range(10)]
    world.run(last_end)

    assert all(ticket.is_seated or ticket.ends_at <= last_end for ticket in owned)
    assert max(ticket.seated_at for ticket in owned) <= last_end
    assert max(ticket.seated_at for ticket in owned) < sorted(ticket.ends_at for ticket in borrowers)[10] + 1


@pytest.mark.parametrize("service", SERVICES)
def test_seats_that_are_not_lendable_are_available_at_once(service: str) -> None:
    world = SharingWorld(lending(20, {"owner": LevelShares(10, 60), "borrower": LevelShares(10)}), SERVICES[service])
    world.saturate("borrower", "crawler", 100)
    world.run(SECOND)
    assert len(world.running("borrower")) == 16

    owned = [world.call("owner", f"user {number}") for number in range(10)]

    assert [ticket.is_seated for ticket in owned] == [True] * 4 + [False] * 6


def test_periodic_borrowing_takes_ten_seconds_where_lending_takes_one_service_time() -> None:
    """The control: what the immediate way is for."""
    shares = {"owner": LevelShares(10, 90), "borrower": LevelShares(10)}
    limits = limits_from_shares(20, shares)
    longest = {}
    for way in (Adjusting, Lending):
        world = SharingWorld(way(20, {name: (queued(10), limits[name]) for name in shares}), lambda _rng: 100 * MS)
        world.saturate("borrower", "crawler", 100)
        world.run(60 * SECOND + 3 * SECOND)
        world.saturate("owner", "user", 10)
        world.run(75 * SECOND)
        owned = [ticket for ticket in world.tickets if ticket.level == "owner" and not ticket.is_waiting]
        longest[way] = max(ticket.waited for ticket in owned if ticket.arrived_at < 70 * SECOND)

    assert longest[Lending] <= 100 * MS
    assert longest[Adjusting] > 5 * longest[Lending]


# Shares


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_saturated_levels_get_seats_in_proportion_to_their_nominal_seats(discipline: str) -> None:
    levels = {"a": LevelShares(10, 100), "b": LevelShares(20, 50), "c": LevelShares(30, 90)}
    world = SharingWorld(lending(60, levels, discipline), SERVICES["exponential"])
    for name in levels:
        world.saturate(name, "flow", 100)
    world.run(SECOND)
    world.average_seats()
    world.run(2 * SECOND)

    assert world.average_seats() == pytest.approx({"a": 10, "b": 20, "c": 30})


def test_lent_seats_are_borrowed_in_proportion() -> None:
    levels = {"a": LevelShares(10, 100), "b": LevelShares(20, 50), "c": LevelShares(30, 100)}
    world = SharingWorld(lending(60, levels), SERVICES["exponential"])
    world.saturate("a", "flow", 100)
    world.saturate("b", "flow", 100)
    world.run(SECOND)
    world.average_seats()
    world.run(5 * SECOND)

    assert world.average_seats() == pytest.approx({"a": 20, "b": 40, "c": 0}, abs=0.5)


def test_two_levels_that_share_one_seat_take_turns() -> None:
    limits = LevelLimits(1, 0, 1)
    world = SharingWorld(Lending(1, {"a": (queued(1), limits), "b": (queued(1), limits)}))
    world.saturate("a", "flow", 5)
    world.saturate("b", "flow", 5)
    world.run(2 * SECOND)

    served = [ticket.level for ticket in world.tickets if not ticket.is_waiting]
    assert abs(served.count("a") - served.count("b")) <= 1


def test_a_wide_request_is_not_starved_by_narrow_ones_of_another_level() -> None:
    levels = {"wide": LevelShares(10, 100), "narrow": LevelShares(10, 100)}
    world = SharingWorld(lending(20, levels), SERVICES["exponential"])
    world.saturate("narrow", "flow", 100)
    world.run(SECOND)
    world.saturate("wide", "flow", 3, Work(8))
    world.run(5 * SECOND)

    served = [ticket for ticket in world.tickets if ticket.level == "wide" and not ticket.is_waiting]
    assert len(served) > 60
    assert max(ticket.waited for ticket in served) < 500 * MS


def test_exempt_load_uses_lent_seats_and_leaves_the_minimums() -> None:
    levels = {"system": LevelShares(0, exempt=True), "a": LevelShares(10, 50), "b": LevelShares(10, 80)}
    world = SharingWorld(lending(20, levels), SERVICES["exponential"])
    world.saturate("a", "flow", 100)
    world.saturate("b", "flow", 100)
    world.run(SECOND)
    assert {name: len(world.running(name)) for name in "ab"} == {"a": 10, "b": 10}

    world.saturate("system", "probe", 40)
    world.run(2 * SECOND)
    world.average_seats()
    world.run(4 * SECOND)

    averages = world.average_seats()
    assert averages["system"] > 39
    assert averages["a"] == pytest.approx(5, abs=0.1)
    assert averages["b"] == pytest.approx(2, abs=0.1)


# Fairness inside levels whose seats come and go


@pytest.mark.parametrize(
    ("discipline", "longest"),
    [("equal-serial", 25 * MS), ("max-min-serial", 35 * MS), ("max-min-concurrent", 130 * MS)],  # fixed seats: 24 32 90
)
def test_mice_stay_ahead_of_elephants_inside_a_borrower_and_inside_an_owner(discipline: str, longest: int) -> None:
    """The owner sleeps and wakes twice a second, so that both levels' seats change all the time."""
    levels = {"owner": LevelShares(10, 80), "borrower": LevelShares(10, 20)}
    world = SharingWorld(lending(20, levels, discipline))
    end = 6 * SECOND
    world.saturate("borrower", "elephant", 200)
    for begin in range(500 * MS, end, SECOND):
        for number in range(120):
            world.at(begin + number, partial(world.call, "owner", "elephant"))
    for level in levels:
        for mouse in range(5):
            world.trickle(level, f"mouse {mouse}", 100 * MS, end)
    world.run(end)

    for level in levels:
        mice = [ticket for ticket in world.tickets if ticket.level == level and ticket.flow != "elephant"]
        elephants = [ticket for ticket in world.tickets if ticket.level == level and ticket.flow == "elephant"]
        late = [ticket for ticket in mice if ticket.arrived_at > 600 * MS and not ticket.is_waiting]
        assert len(late) > 200
        assert max(ticket.waited for ticket in late) <= longest, f"mice in {level}"
        served = [ticket.waited for ticket in elephants if not ticket.is_waiting]
        assert fmean(served) > 4 * fmean(ticket.waited for ticket in late)


def test_a_new_flow_of_a_reclaimed_borrower_does_not_wait_behind_the_backlog() -> None:
    """R at the level's limit instead of the seats in use would have run ahead of the elephant's meter meanwhile."""
    world = SharingWorld(lending(20, {"owner": LevelShares(19, 100), "borrower": LevelShares(1, 0)}))
    world.saturate("borrower", "elephant", 200)
    world.run(SECOND)
    world.saturate("owner", "user", 100)
    world.run(10 * SECOND)
    assert len(world.running("borrower")) == 1

    mouse = world.call("borrower", "mouse")
    world.run(11 * SECOND)

    assert mouse.waited <= 40 * MS


# The whole


def test_the_same_load_gives_the_same_run_to_the_nanosecond() -> None:
    levels = {"a": LevelShares(10, 100), "b": LevelShares(20, 50), "system": LevelShares(0, exempt=True)}
    logs = []
    for _ in range(2):
        world = SharingWorld(lending(30, levels), SERVICES["exponential"])
        for name in levels:
            world.saturate(name, "flow", 25)
            world.trickle(name, "wide", 30 * MS, SECOND)
        world.run(SECOND)
        logs.append([(ticket.level, ticket.seated_at) for ticket in world.tickets if ticket.is_seated])

    assert logs[0] == logs[1]
    assert logs[0]
