"""The cap of one elastic level."""

import pytest

from apf_middleware.adaptive import ElasticCap, ElasticReason


def used(cap: ElasticCap, seats: int) -> ElasticCap:
    cap.note(seats, 0, 0)
    return cap


def test_a_cut_begins_with_what_is_used() -> None:
    cap = used(ElasticCap(0, 40, 100), 20)

    assert (cap.cap, cap.reason) == (None, ElasticReason.OPEN)
    assert cap.cut()
    assert (cap.cap, cap.reason) == (14, ElasticReason.CUT)


def test_each_cut_takes_a_part_and_at_least_a_seat() -> None:
    cap, caps = ElasticCap(0, 40, 100), []
    for _ in range(8):
        used(cap, cap.cap or 10).cut()
        caps.append(cap.cap)

    assert caps == [7, 4, 2, 1, 1, 1, 1, 1]
    assert cap.reason is ElasticReason.FLOOR


@pytest.mark.parametrize(("least", "floor"), [(0, 1), (1, 1), (6, 6)])
def test_the_min_and_one_seat_stay(least: int, floor: int) -> None:
    cap = ElasticCap(least, 40, 100)
    for _ in range(20):
        used(cap, 30).cut()

    assert cap.cap == floor
    used(cap, 30)
    assert not cap.cut()


def test_the_most_seats_since_the_last_decision_count() -> None:
    cap = ElasticCap(0, 40, 100)
    for seats in (3, 10, 0):
        cap.note(seats, 0, 0)
    cap.cut()
    assert cap.cap == 7
    used(cap, 2).cut()

    assert cap.cap == 1


def test_an_idle_level_is_not_the_cause() -> None:
    cap = used(ElasticCap(0, 40, 100), 0)

    assert not cap.cut()
    assert (cap.cap, cap.reason) == (None, ElasticReason.OPEN)


def test_a_level_is_not_the_cause_of_what_is_late_after_its_last_request() -> None:
    """It has had requests before, some of which no look has found in their seats."""
    for is_cut in (True, False):
        cap = ElasticCap(0, 40, 100)
        cap.note(20, 3, 50)
        assert cap.cut() if is_cut else not cap.grow(1)
        before = cap.cap
        cap.note(0, 0, 50)
        assert not cap.cut()
        assert cap.cap == before


@pytest.mark.parametrize(("waiting", "dispatched"), [(1, 0), (0, 1)])
def test_requests_that_no_look_finds_in_their_seats_count_for_one(waiting: int, dispatched: int) -> None:
    cap = ElasticCap(0, 40, 100)
    cap.note(0, waiting, dispatched)

    assert cap.cut()
    assert cap.cap == 1


def test_it_grows_by_a_tenth_of_the_nominal_seats_until_it_is_open() -> None:
    cap, caps = used(ElasticCap(0, 40, 20), 10), []
    cap.cut()
    while cap.cap is not None:
        assert cap.grow(1)
        caps.append(cap.cap)

    assert caps == [11, 15, 19, None]
    assert cap.reason is ElasticReason.OPEN
    assert not cap.grow(1)
    assert cap.changes == {ElasticReason.CUT: 1, ElasticReason.GREW: 4}


def test_it_grows_by_a_seat_at_least_and_by_several_steps_at_once() -> None:
    cap = used(ElasticCap(0, 3, 100), 10)
    cap.cut()
    cap.grow(5)

    assert (cap.cap, cap.reason) == (12, ElasticReason.GREW)


def test_other_limits_keep_the_cap_within_them() -> None:
    cap = used(ElasticCap(0, 40, 100), 10)
    cap.cut()
    cap.resize(9, 40, 100)
    assert cap.cap == 9
    cap.resize(0, 5, 8)

    assert repr(cap) == "<ElasticCap: none, open>"


def test_two_levels_end_with_seats_in_proportion_to_their_nominal_seats() -> None:
    small, large = used(ElasticCap(0, 10, 1000), 90), used(ElasticCap(0, 30, 1000), 30)
    for turn in range(400):
        is_late = turn == 0 or (small.cap or 0) + (large.cap or 0) > 80
        for cap in (small, large):
            used(cap, 1000 if cap.cap is None else cap.cap)
            if is_late:
                cap.cut()
            else:
                cap.grow(1)

    assert small.cap is not None
    assert large.cap is not None
    assert large.cap / small.cap == pytest.approx(3, rel=0.3)


def test_it_shows_itself() -> None:
    assert repr(ElasticCap(0, 1, 2)) == "<ElasticCap: none, open>"
