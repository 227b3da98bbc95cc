from math import inf, nan, nextafter

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Work, duration_per_seat, format_seat_seconds, seat_seconds
from apf_middleware.fairqueuing.work import round_half_away
from tests.support.builds import BOOL_FOR_A_NUMBER, raises_for_wrong_type

MINUTE = 60 * 10**9


@pytest.mark.parametrize(
    ("x", "rounded"),
    [(0.5, 1), (1.5, 2), (2.5, 3), (-0.5, -1), (-2.5, -3), (0.4, 0), (-0.4, 0), (2.6, 3), (-2.6, -3), (7, 7), (0.0, 0)],
)
def test_halves_are_rounded_away_from_zero(x: float, rounded: int) -> None:
    assert round_half_away(x) == rounded


def test_the_greatest_double_below_a_half_is_rounded_to_zero() -> None:
    """Adding 0.5 and cutting would make it 1."""
    assert round_half_away(nextafter(0.5, 0)) == 0
    assert round_half_away(-nextafter(0.5, 0)) == 0


def test_doubles_too_large_for_fractions_are_rounded_to_themselves() -> None:
    assert round_half_away(2.0**52 + 1) == 2**52 + 1
    assert round_half_away(-(2.0**60)) == -(2**60)


@pytest.mark.parametrize("x", [nan, inf, -inf])
def test_what_is_not_finite_is_not_rounded(x: float) -> None:
    with pytest.raises(InvalidValueError, match=r"x is .* it must be finite"):
        round_half_away(x)


@pytest.mark.parametrize(
    ("seats", "duration_ns", "work"),
    [
        (1, 10, 1),
        (1, 4, 0),
        (1, 5, 1),
        (1, 15, 2),
        (3, 5, 2),
        (1, -5, -1),
        (1, -4, 0),
        (2, -15, -3),
        (0.5, 10, 1),
        (0.5, 9, 0),
        (10, 0, 0),
    ],
)
def test_work_is_counted_in_ten_nanoseconds_of_a_seat(seats: float, duration_ns: int, work: int) -> None:
    assert seat_seconds(seats, duration_ns) == work


@pytest.mark.parametrize("units", [2**53 - 10, 2**53 - 5, 2**53 - 1, 2**53, 2**53 + 6, 2**60 + 5, 10**18 + 7])
def test_long_work_is_what_doubles_make_of_it(units: int) -> None:
    """Above 2^53 upstream's arithmetic loses digits, and ours loses the same."""
    assert seat_seconds(1, units) == round_half_away(float(units) / 10)
    assert seat_seconds(1, -units) == -seat_seconds(1, units)


def test_endless_work_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="finite"):
        seat_seconds(inf, 10)


def test_work_divides_into_time_on_seats() -> None:
    assert duration_per_seat(seat_seconds(13, 5_000_000), 5) == 13_000_000
    assert duration_per_seat(99, 4.5) == 220
    with pytest.raises(InvalidValueError, match=r"seats is 0(\.0)?, but it must be more than 0"):
        duration_per_seat(1, 0)


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (1, "0.00000001ss"),
        (seat_seconds(123, 100_000_000), "12.30000000ss"),
        (0, "0.00000000ss"),
        (-150_000_000, "-1.50000000ss"),
    ],
)
def test_work_is_written_with_eight_digits(work: int, text: str) -> None:
    assert format_seat_seconds(work) == text


def test_the_width_is_the_larger_number_of_seats() -> None:
    assert Work(3).width == 3
    assert Work(3, final_seats=50, linger_ns=70 * 10**9).width == 50
    assert Work(9, final_seats=2).width == 9


def test_total_work_is_the_guess_and_the_final_work() -> None:
    work = Work(3, final_seats=50, linger_ns=70 * 10**9)

    assert work.total(guess_ns=2 * 10**9) == seat_seconds(1, (3 * 2 + 50 * 70) * 10**9)


def test_final_seats_are_cut_to_fewer_for_longer() -> None:
    work = Work(1, final_seats=10, linger_ns=MINUTE)

    assert work.within(10) is work
    assert work.within(4) == Work(1, 4, MINUTE * 10 // 4)
    assert work.within(4).final_work == work.final_work


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"seats": 0}, "seats"),
        ({"final_seats": -1}, "final_seats"),
        ({"linger_ns": -1}, "linger_ns"),
    ],
)
def test_work_that_cannot_be_is_refused(fields: dict[str, int], name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"^{name} is "):
        Work(**fields)


@pytest.mark.parametrize("seats", [1.5, None, BOOL_FOR_A_NUMBER])
def test_seats_are_an_integer(seats: int) -> None:
    with raises_for_wrong_type("^seats is "):
        Work(seats)


def test_a_linger_is_an_integer() -> None:
    with raises_for_wrong_type("^linger_ns is "):
        Work(linger_ns=0.5)  # type: ignore[arg-type]
