"""Levels that are always busy get seats in proportion to their weights, however wide and long their requests are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import DISCIPLINES, Lending, LevelLimits, QueueSetSettings, Ticket, Work
from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fairqueuing.sharing.hierarchy import Hierarchy
from benchmarks.level_shares import BusyLevels, LevelMix
from tests.support.examples import examples

MILLISECOND = 10**6


def least_part(seed: int, discipline: str, rounds: int, mix: LevelMix | None = None, *, seconds: int) -> float:
    """Return what the level that got least had of its part, after so many ``seconds``."""
    levels = BusyLevels(seed, discipline, rounds, mix=mix)
    levels.play(seconds=seconds)
    return levels.least_part()


@pytest.mark.parametrize("rounds", [0, 2])
@pytest.mark.parametrize("discipline", DISCIPLINES)
@examples(2)
@given(seed=st.integers(0, 10**9))
def test_busy_levels_get_their_parts_of_the_seats_that_are_used(discipline: str, rounds: int, seed: int) -> None:
    assert least_part(seed, discipline, rounds, seconds=5) > 0.6


@pytest.mark.parametrize(("seed", "rounds"), [(21, 0), (21, 2), (102, 0), (106, 8)])
def test_short_requests_are_not_outdone_by_long_and_wide_ones(seed: int, rounds: int) -> None:
    """By the seats in use alone, a level with short requests had an eighth to a third of its part here."""
    assert least_part(seed, "equal-serial", rounds, seconds=10) > 0.75


@pytest.mark.parametrize("rounds", [0, 2])
@pytest.mark.parametrize("wide", [1, 2])
def test_a_level_that_is_ahead_gets_a_turn_again_although_nobody_else_waits_long(wide: int, rounds: int) -> None:
    """Requests of 8 of 10 seats, beside four short ones that hardly ever wait, and would come first if they do."""
    names = [*(f"wide-{place}" for place in range(wide)), "few"]
    mix = LevelMix(
        seats=10,
        limits=dict.fromkeys(names, LevelLimits(10 // len(names), 0, 10)),
        widths={name: [1 if name == "few" else 8] for name in names},
        longest_ms=dict.fromkeys(names, 50),
        requests={name: 4 if name == "few" else 40 for name in names},
    )
    assert least_part(wide, "equal-serial", rounds, mix=mix, seconds=5) > 0.6


@pytest.mark.parametrize("rounds", [0, 2])
@pytest.mark.parametrize("names", [["few", "many"], ["few", "many", "more"]])
@pytest.mark.parametrize(("seats", "width"), [(1, 1), (2, 1), (10, 8)])
def test_a_level_pays_for_the_seats_that_it_uses_while_only_others_wait(
    seats: int, width: int, names: list[str], rounds: int
) -> None:
    """One client with long requests, who never waits while one of them runs, had up to 98 % of the seats."""
    mix = LevelMix(
        seats=seats,
        limits=dict.fromkeys(names, LevelLimits(max(1, seats // len(names)), 0, seats)),
        widths={name: [width if name == "few" else 1] for name in names},
        longest_ms={name: {"few": 300, "many": 5, "more": 100}[name] for name in names},
        requests={name: 1 if name == "few" else 20 for name in names},
    )
    assert least_part(1, "equal-serial", rounds, mix=mix, seconds=8) > 0.7


@pytest.mark.parametrize("rounds", [0, 2])
def test_requests_wider_than_the_max_of_their_level_starve_no_other(rounds: int) -> None:
    """Requests of three seats in a level with a min and max of one, beside two levels that share the rest."""
    mix = LevelMix(
        seats=6,
        limits={"fixed": LevelLimits(1, 1, 1), "wide": LevelLimits(2, 0, 6), "narrow": LevelLimits(2, 0, 6)},
        widths={"fixed": [3], "wide": [4], "narrow": [2]},
        longest_ms={"fixed": 20, "wide": 20, "narrow": 300},
        requests={"fixed": 40, "wide": 40, "narrow": 40},
    )
    assert least_part(1, "equal-serial", rounds, mix=mix, seconds=5) > 0.7


@pytest.mark.parametrize("rounds", [0, 2])
def test_a_level_that_needs_its_whole_max_at_times_has_its_part(rounds: int) -> None:
    """While its own narrow requests ended, it lost the other seats to long requests, and had an eighth of its part."""
    mix = LevelMix(
        seats=4,
        limits=dict.fromkeys(("mixed", "long"), LevelLimits(2, 0, 4)),
        widths={"mixed": [4, 1, 1], "long": [1]},
        longest_ms={"mixed": 5, "long": 300},
        requests={"mixed": 40, "long": 40},
    )
    assert least_part(1, "equal-serial", rounds, mix=mix, seconds=10) > 0.8


@pytest.mark.parametrize("rounds", [0, 2])
def test_children_that_need_the_whole_max_of_their_parent_at_times_have_their_parts(rounds: int) -> None:
    """While their siblings' requests ended, other levels took the seats, and both had an eighth of their parts."""
    assert least_part(1, "equal-serial", rounds, mix=_family(wide=6, narrow=3, longest_ms=20), seconds=10) > 0.8


@pytest.mark.parametrize("rounds", [0, 2])
def test_narrow_requests_are_not_outdone_by_wide_ones_of_a_sibling(rounds: int) -> None:
    """A level with wide requests uses no seats while it waits. By that alone, its sibling had a tenth of its part."""
    assert least_part(1, "equal-serial", rounds, mix=_family(wide=8, narrow=1, longest_ms=5), seconds=10) > 0.8


@pytest.mark.parametrize("rounds", [0, 2])
def test_levels_below_their_mins_do_not_come_first_while_they_are_ahead(rounds: int) -> None:
    """Their requests need more than the mins, so by these alone the other level had less than half of its part."""
    nominal = {"promised": 3, "too": 4, "none": 1}
    mix = LevelMix(
        seats=8,
        limits={name: LevelLimits(seats, 0 if name == "none" else 1, 8) for name, seats in nominal.items()},
        widths={name: [4 if name == "none" else 5] for name in nominal},
        longest_ms={name: 5 if name == "none" else 300 for name in nominal},
        requests=dict.fromkeys(nominal, 40),
    )
    assert least_part(1, "equal-serial", rounds, mix=mix, seconds=10) > 0.65


def _family(wide: int, narrow: int, longest_ms: int) -> LevelMix:
    """Return a level with long requests, beside two with requests of these widths whose parent may have all seats."""
    nominal = {"wide": 2, "narrow": 2, "long": 4}
    return LevelMix(
        seats=8,
        limits={name: LevelLimits(seats, 0, 8) for name, seats in nominal.items()},
        widths={"wide": [wide], "narrow": [narrow], "long": [1]},
        longest_ms={"wide": 5, "narrow": longest_ms, "long": 300},
        requests=dict.fromkeys(nominal, 40),
        hierarchy=Hierarchy({"parent": LevelLimits(4, 0, 8)}, {"wide": "parent", "narrow": "parent"}),
    )


def test_requests_of_one_seat_never_scale_what_levels_deserve() -> None:
    """Two draining levels deserve more seats than there are, so some of these are empty without being saved up."""
    kind = QueueSetSettings(2, 1, 1, 10)
    wanted = {name: (kind, LevelLimits(2, 0, 2)) for name in ("busy", "first", "second")}
    sharing = Lending(2, wanted)
    busy, first, second = sharing.levels.values()
    running = [Ticket("flow", 0, Work()) for _ in range(4)]
    for level in (busy, first, second):
        for ticket in running if level is busy else [Ticket("flow", 0, Work()) for _ in range(2)]:
            sharing.arrive(0, level, ticket)
    sharing.reconfigure(0, 2, {"busy": wanted["busy"]})
    sharing.release(4 * MILLISECOND, busy, running[0])
    lag, deserved, used = second.lag, second.deserved, second.queueset.seats_in_use
    sharing.release(5 * MILLISECOND, busy, running[1])

    assert (deserved, used) == (2 * SEAT, 0)
    assert second.lag - lag == deserved * MILLISECOND


def test_a_single_empty_seat_counts_for_nobody() -> None:
    """It is saved up for a wide request. If the other level lagged behind meanwhile, it would stay empty for ever."""
    kind = QueueSetSettings(10, 1, 1, 10**5)
    sharing = Lending(10, {"wide": (kind, LevelLimits(1, 0, 12)), "narrow": (kind, LevelLimits(12, 0, 12))})
    wide, narrow = sharing.levels.values()
    running = [Ticket("flow", 0, Work()) for _ in range(1000)]
    for ticket in running:
        sharing.arrive(0, narrow, ticket)
    waiting = Ticket("flow", 0, Work(8))
    sharing.arrive(0, wide, waiting)
    for place, ticket in enumerate(running[:900]):
        if waiting.is_waiting and not ticket.is_waiting:
            sharing.release((1 + place) * MILLISECOND, narrow, ticket)

    assert not waiting.is_waiting


def _long_request_before_another_level() -> tuple[Lending, Ticket, Ticket]:
    """Return one seat, shared by two levels; since 1 ms the first one's request has it, and the other's waits."""
    kind = QueueSetSettings(1, 1, 1, 9)
    sharing = Lending(1, {name: (kind, LevelLimits(1, 0, 1)) for name in ("few", "many")})
    few, many = sharing.levels.values()
    first, long, second = (Ticket("flow", 0, Work()) for _ in range(3))
    for level, ticket in ((many, first), (few, long), (many, second)):
        sharing.arrive(0, level, ticket)
    sharing.release(MILLISECOND, many, first)
    assert (long.is_waiting, second.is_waiting) == (False, True)
    return sharing, long, second


def test_no_level_pays_for_the_time_when_no_other_waits() -> None:
    sharing, long, second = _long_request_before_another_level()
    few, many = sharing.levels.values()
    sharing.abandon(4 * MILLISECOND, many, second)
    lag = few.lag
    sharing.arrive(500 * MILLISECOND, many, Ticket("flow", 0, Work()))
    sharing.release(501 * MILLISECOND, few, long)

    assert few.lag == lag == -SEAT * MILLISECOND


def test_a_level_that_waits_again_still_owes_what_it_used_meanwhile() -> None:
    sharing, *_ = _long_request_before_another_level()
    few, many = sharing.levels.values()
    sharing.arrive(4 * MILLISECOND, few, Ticket("flow", 0, Work()))

    assert few.lag == -SEAT * MILLISECOND
    assert many.lag == SEAT * MILLISECOND
