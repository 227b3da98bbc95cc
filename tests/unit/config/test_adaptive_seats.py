"""Seats are a number, or the bounds of one that the server finds by itself."""

import pytest

from apf_middleware.adaptive import AdaptiveSettings
from apf_middleware.config import ConfigurationError, load_text
from apf_middleware.config.adaptive_seats import AdaptiveSeats, SeatBounds
from apf_middleware.config.build import derive_limits
from apf_middleware.config.emit import emit
from apf_middleware.config.server import ServerSettings
from apf_middleware.exceptions import InvalidValueError

SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {{seats: {}}}\n"


def server(seats: str) -> ServerSettings:
    return load_text(SERVER.format(seats)).server


def test_a_number_is_fixed() -> None:
    found = server("40")

    assert (found.seats, found.total, found.least_total, found.largest_total) == (40, 40, 40, 40)
    assert found.seat_bounds is None


def test_bounds_begin_with_the_least_number_or_a_given_one() -> None:
    found = server("{adaptive: {min: 5, max: 400}}")

    assert found.seats == AdaptiveSeats(SeatBounds(5, 400))
    assert (found.total, found.least_total, found.largest_total) == (5, 5, 400)
    assert server("{adaptive: {min: 5, max: 400, start: 20}}").total == 20


def test_a_number_is_brought_within_the_bounds() -> None:
    bounds = SeatBounds(5, 400, 20)

    assert [bounds.clamp(seats) for seats in (1, 5, 77, 400, 1000)] == [5, 5, 77, 400, 400]
    assert bounds.settings(77) == AdaptiveSettings(5, 400, 77)


@pytest.mark.parametrize("seats", ["7", "{adaptive: {min: 5, max: 400}}", "{adaptive: {min: 5, max: 9, start: 6}}"])
def test_what_is_written_is_read_again(seats: str) -> None:
    configuration = load_text(SERVER.format(seats))

    assert load_text(emit(configuration)) == configuration


@pytest.mark.parametrize(
    ("seats", "said"),
    [
        ("many", "spec.seats is 'many', but it must be a whole number"),
        ("true", "spec.seats is true, but it must be a whole number"),
        ("0", "spec.seats is 0, but it must be at least 1"),
        ("adaptive", "spec.seats is 'adaptive', but it must be a mapping. Known keys: adaptive"),
        ("{}", "spec.seats.adaptive is absent, but it is required"),
        ("{adaptive: 5}", "spec.seats.adaptive is 5, but it must be a mapping"),
        ("{min: 5}", "there is no such key here. It belongs below adaptive, as in {adaptive: {"),
        ("{adaptif: {min: 5, max: 40}}", "Did you mean adaptive?"),
        ("{adaptive: {max: 40}}", "spec.seats.adaptive.min is absent, but it is required"),
        ("{adaptive: {min: 0, max: 40}}", "spec.seats.adaptive.min is 0, but it must be at least 1"),
        ("{adaptive: {min: 1, max: 2000000}}", "spec.seats.adaptive.max is 2000000, but it must be at most 1000000"),
        ("{adaptive: {min: 5, max: 4}}", "spec.seats.adaptive.max is 4, but it must be at least min, 5"),
        ("{adaptive: {min: 5, max: 9, start: 10}}", "spec.seats.adaptive.start is 10, but it must be from min, 5, to"),
    ],
)
def test_wrong_seats_are_reported(seats: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        server(seats)
    assert said in str(caught.value)


def test_the_seats_of_a_fleet_may_adapt() -> None:
    server = load_text(SERVER.format("{adaptive: {min: 5, max: 40}}, fleet: {name: shop}")).server
    assert (server.least_total, server.largest_total) == (5, 40)


def test_python_objects_obey_the_same_rules() -> None:
    with pytest.raises(InvalidValueError, match="at least min"):
        SeatBounds(5, 4)
    with pytest.raises(InvalidValueError, match="at least 1"):
        ServerSettings(seats=0)


def test_levels_divide_any_number_of_seats() -> None:
    levels = "\n".join(
        f"---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: {name}}}\nspec: {{shares: {shares}}}"
        for name, shares in (("gold", 30), ("silver", 10))
    )
    configuration = load_text(SERVER.format("{adaptive: {min: 4, max: 400}}, defaults: none") + levels)
    for seats in (None, 4, 5, 40, 399):
        limits = derive_limits(configuration, seats)
        assert limits == derive_limits(load_text(SERVER.format(f"{seats or 4}, defaults: none") + levels)), seats
        assert sum(one.min for one in limits.values()) <= (seats or 4)


def test_promises_are_checked_against_the_least_number() -> None:
    level = "---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: gold}\nspec: {shares: 30, minSeats: 6}"
    found = load_text(SERVER.format("{adaptive: {min: 4, max: 400}}") + level)
    assert found.levels["gold"].min_seats == 6
