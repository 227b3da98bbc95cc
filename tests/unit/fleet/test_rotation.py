"""Fractions of seats in turn: long-run shares, turns that don't flutter, and turns for wide requests."""

import random
from itertools import pairwise

import pytest

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fleet.rotation import Rotation

MS = 10**6
TURN = 100 * MS


def average(shares: dict[str, float], total: int, rounds: int = 4000, step: int = 20 * MS) -> dict[str, float]:
    """Return the seats that each member had on average."""
    rotation, units = Rotation(TURN), {name: round(one * SEAT) for name, one in shares.items()}
    sums = dict.fromkeys(shares, 0)
    for number in range(rounds):
        seats = rotation.divide(number * step, units, total)
        assert sum(seats.values()) <= total
        for name, one in seats.items():
            sums[name] += one
    return {name: one / rounds for name, one in sums.items()}


@pytest.mark.parametrize(
    ("shares", "total"),
    [
        ({"a": 2.5, "b": 2.5}, 5),
        ({"a": 0.25, "b": 0.25, "c": 0.5}, 1),
        ({"a": 3.7, "b": 1.1, "c": 0.2}, 5),
        ({f"m{number}": 0.25 for number in range(40)}, 10),
    ],
)
def test_each_member_has_its_share_on_average(shares: dict[str, float], total: int) -> None:
    assert average(shares, total) == pytest.approx(shares, rel=0.01)


def test_whole_shares_stay() -> None:
    assert average({"a": 3, "b": 2}, 5) == {"a": 3, "b": 2}


def test_seats_stay_with_a_member_for_a_turn() -> None:
    rotation = Rotation(TURN)
    before, moves = "", []
    for now in range(0, 10_000 * MS, MS):
        seats = rotation.divide(now, {"a": SEAT // 2, "b": SEAT // 2}, 1)
        [holder] = [name for name, one in seats.items() if one]
        if holder != before:
            moves.append(now)
        before = holder
    assert len(moves) > 20
    assert min(later - earlier for earlier, later in pairwise(moves[1:])) >= TURN


def test_no_more_seats_are_given_than_the_shares_come_to() -> None:
    assert Rotation(TURN).divide(0, {"a": SEAT, "b": SEAT + SEAT // 2}, 10) == {"a": 1, "b": 2}
    assert Rotation(TURN).divide(0, {"a": SEAT // 4, "b": SEAT // 4}, 10) == {"a": 1, "b": 0}


def test_a_wide_request_gets_its_seats_at_once_after_a_turn() -> None:
    rotation = Rotation(TURN)
    shares = dict.fromkeys("abcd", 2 * SEAT)
    assert rotation.divide(0, shares, 8, {"c": 5})["c"] == 2
    seats = rotation.divide(TURN, shares, 8, {"c": 5})
    assert seats["c"] == 5
    assert sum(seats.values()) == 8
    assert rotation.divide(2 * TURN, shares, 8, {})["c"] == 2


def test_wide_requests_of_several_members_take_turns() -> None:
    rotation, shares = Rotation(TURN), dict.fromkeys("ab", 2 * SEAT)
    widest, served = {"a": 4, "b": 4}, []
    rotation.divide(0, shares, 4, {"a": 4})
    for number in range(1, 12):
        seats = rotation.divide(number * TURN, shares, 4, widest)
        for name, one in seats.items():
            if one == 4:
                served.append(name)
                rotation.divide(number * TURN + 1, shares, 4, {other: 4 for other in "ab" if other != name})
    assert served[:2] == ["a", "b"]
    assert {"a", "b"} == set(served[2:])


def test_a_request_wider_than_all_seats_gets_all() -> None:
    rotation = Rotation(TURN)
    rotation.divide(0, {"a": SEAT, "b": 3 * SEAT}, 4, {"a": 99})
    assert rotation.divide(TURN, {"a": SEAT, "b": 3 * SEAT}, 4, {"a": 99}) == {"a": 4, "b": 0}


@pytest.mark.parametrize("seed", range(50))
def test_the_total_is_never_exceeded(seed: int) -> None:
    dice, rotation, now = random.Random(seed), Rotation(TURN), 0
    for _ in range(100):
        now += dice.randint(0, 200) * MS
        names = dice.sample("abcdefgh", dice.randint(1, 8))
        shares = {name: dice.randint(0, 4 * SEAT) for name in names}
        total = max(sum(one // SEAT for one in shares.values()), -(-sum(shares.values()) // SEAT) + dice.randint(-2, 3))
        widest = {name: dice.randint(0, 9) for name in dice.sample(names, dice.randint(0, len(names)))}
        seats = rotation.divide(now, shares, total, widest)
        assert seats.keys() == shares.keys()
        assert all(one >= 0 for one in seats.values())
        assert sum(seats.values()) <= total


def test_a_long_wait_is_not_made_up_for_without_end() -> None:
    """While one member's wide request has all seats for a hundred turns, the lag of the other is bounded."""
    rotation, shares = Rotation(TURN), dict.fromkeys("ab", SEAT + SEAT // 2)
    for number in range(100):
        rotation.divide(number * TURN, shares, 3, {"a": 3})
    seats = [rotation.divide(number * TURN, shares, 3)["a"] for number in range(100, 200)]
    assert seats[:3] == [1, 1, 1], "the other one is first"
    assert 2 in seats[:20]


def test_a_member_with_its_whole_share_has_no_lag() -> None:
    rotation, halves = Rotation(TURN), dict.fromkeys("ab", SEAT // 2)
    assert rotation.divide(0, halves, 1) == {"a": 1, "b": 0}
    assert rotation.divide(TURN * 4 // 10, halves, 1) == {"a": 1, "b": 0}
    assert rotation.divide(TURN * 5 // 10, dict.fromkeys("ab", SEAT), 2) == {"a": 1, "b": 1}
    assert rotation.divide(TURN, dict.fromkeys("ab", SEAT), 2) == {"a": 1, "b": 1}
    assert rotation.divide(2 * TURN, halves, 1) == {"a": 1, "b": 0}, "what was before doesn't count"


def test_a_wide_request_whose_turn_has_come_keeps_its_seats() -> None:
    """Also if its member would have as many seats in turn, because it would lose them in turn, too."""
    rotation, shares = Rotation(TURN), dict.fromkeys("ab", SEAT + SEAT // 2)
    seats = [rotation.divide(number * TURN // 4, shares, 3, {"b": 2})["b"] for number in range(60)]
    first = seats.index(2)
    assert first <= 8
    assert set(seats[first:]) == {2}
