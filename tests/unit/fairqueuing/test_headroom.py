"""Which requests are short, and what long ones may use meanwhile."""

from math import log
from random import Random

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.headroom import Headroom

MS = 10**6
SECOND = 10**9


def learned(*durations_ms: int, percent: int = 20) -> Headroom:
    headroom = Headroom(percent)
    for duration in durations_ms:
        headroom.observe(duration * MS, 1)
    return headroom


def test_the_typical_duration_is_that_of_a_request_that_holds_a_random_seat() -> None:
    rare = learned(*([5] * 99 + [500]) * 10)

    assert rare.typical_ns / MS == pytest.approx((99 * 25 + 250_000) / (99 * 5 + 500), rel=0.05)
    assert rare.is_short(5 * MS)
    assert not rare.is_short(500 * MS)


def test_wide_requests_count_for_their_seats() -> None:
    headroom = Headroom(20)
    for _ in range(50):
        headroom.observe(10 * MS, 9)
        headroom.observe(100 * MS, 1)

    assert headroom.typical_ns / MS == pytest.approx((9 * 100 + 10_000) / (90 + 100), rel=0.05)


def test_where_all_take_as_long_none_is_short() -> None:
    headroom = learned(*[100] * 200)

    assert not headroom.is_short(100 * MS)
    assert not headroom.is_short(26 * MS)
    assert headroom.is_short(25 * MS)


def test_little_knowledge_makes_nothing_short() -> None:
    assert not learned(*[100] * 19).is_short(MS)
    assert learned(*[100] * 20).is_short(MS)
    assert not learned(*[100] * 20).is_short(None)
    assert not Headroom(20).is_short(0)


@pytest.mark.parametrize(("limit", "kept"), [(0, 0), (1, 0), (2, 1), (4, 1), (5, 1), (6, 2), (10, 2), (100, 20)])
def test_a_part_is_kept_as_long_as_a_seat_is_left(limit: int, kept: int) -> None:
    headroom = Headroom(20)
    headroom.note_short(0)

    assert headroom.kept(0, limit) == kept


def test_nothing_is_kept_without_short_requests() -> None:
    headroom = learned(*[100] * 20)
    assert headroom.kept(0, 10) == 0
    headroom.note_short(5 * SECOND)
    assert headroom.kept(6 * SECOND, 10) == 2
    assert headroom.kept(6 * SECOND + 1, 10) == 0


@pytest.mark.parametrize(("typical", "kept_for"), [(100, 1), (5_000, 5), (900_000, 10)])
def test_until_the_gaps_are_known_it_is_kept_for_as_long_as_requests_run(typical: int, kept_for: int) -> None:
    headroom = learned(*[typical] * 20)
    headroom.note_short(0)

    assert headroom.kept((kept_for * SECOND) - MS, 10) == 2
    assert headroom.kept((kept_for * SECOND) + MS, 10) == 0


def after_gaps(headroom: Headroom, gaps_ns: list[int]) -> int:
    """Let short requests come after these gaps, and return how long seats are kept after the last."""
    now = 0
    headroom.note_short(now)
    for gap in gaps_ns:
        now += gap
        headroom.note_short(now)
    kept_for = headroom.kept_for_ns
    assert headroom.kept(now + kept_for, 10) > 0
    assert headroom.kept(now + kept_for + 1, 10) == 0
    return kept_for


def test_seats_are_kept_until_a_gap_is_improbable() -> None:
    chance = Random(7)
    gaps = [int(chance.expovariate(200) * SECOND) for _ in range(1000)]

    assert after_gaps(learned(*[500] * 20), gaps) / MS == pytest.approx(5 * log(10_000 * 500 / 5), rel=0.3)
    assert after_gaps(learned(*[500] * 20), gaps[:19]) == SECOND, "too few to know the gaps"


def found_lent(gap: int, typical: int, seed: int, count: int) -> float:
    """Return the share of short requests that find their seats lent, if each seat that isn't kept is taken at once."""
    chance, headroom = Random(seed), learned(*[typical // MS] * 20)
    now = lent_until = found = 0
    headroom.note_short(0)
    for number in range(count + 200):
        before, kept_for = now, headroom.kept_for_ns
        now += int(chance.expovariate(1 / gap))
        if number >= 200:
            if now - before > kept_for:
                lent_until = max(lent_until, before + kept_for + typical)
            found += now < lent_until
        headroom.note_short(now)
    return found / count


@pytest.mark.parametrize("gap", [MS, 5 * MS, 30 * MS])
@pytest.mark.parametrize("typical", [200 * MS, 3 * SECOND])
def test_few_short_requests_that_come_at_random_find_their_seats_lent(gap: int, typical: int) -> None:
    assert sum(found_lent(gap, typical, seed, 10_000) for seed in range(5)) / 5 < 0.005


@pytest.mark.parametrize("gap", [MS, 20 * MS, 400 * MS])
def test_regular_requests_and_groups_of_them_always_find_their_seats(gap: int) -> None:
    assert after_gaps(learned(*[500] * 20), [gap] * 200) > gap
    assert after_gaps(learned(*[500] * 20), ([0] * 9 + [gap]) * 20) > gap


def test_a_pause_is_soon_forgotten() -> None:
    steady = after_gaps(learned(*[500] * 20), [5 * MS] * 500)
    first, later = (after_gaps(learned(*[500] * 20), [8 * SECOND, *[5 * MS] * count]) for count in (50, 1000))

    assert first == SECOND
    assert later == pytest.approx(steady, rel=0.05)


def test_long_requests_have_the_rest_and_one_at_least() -> None:
    headroom = Headroom(50)
    headroom.note_short(0)
    begun = 0
    while headroom.admits(0, 1, 10):
        headroom.take(1)
        begun += 1
    assert (begun, headroom.used) == (5, 5)
    headroom.give_back(5)
    assert headroom.admits(0, 99, 10)  # a wide one runs when no other long one does
    headroom.take(99)
    assert not headroom.admits(0, 1, 10)


@pytest.mark.parametrize("percent", [0, 91])
def test_a_part_is_from_1_to_90_percent(percent: int) -> None:
    with pytest.raises(InvalidValueError, match="percent"):
        Headroom(percent)


def test_more_than_was_taken_cannot_be_given_back() -> None:
    with pytest.raises(AssertionError, match="given back"):
        Headroom(10).give_back(1)


def test_it_shows_itself() -> None:
    assert repr(learned(100)) == "<Headroom: 20 %, 0 seats in other use, typically 0.0 ms>"
