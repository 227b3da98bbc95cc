"""What was learned about routes."""

import random

import pytest

from apf_middleware.classification import Resource
from apf_middleware.estimation import Learned, LearnedCosts, route_key
from apf_middleware.estimation.learned import LONGEST_ROUTE
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Work, seat_seconds
from tests.support.digests import SOMEWHERE, asking, writing

MS = 1_000_000
ROUTE = "GET /"


def learned(*durations_ms: int, seats: int = 1, span: int = 50, enough: int = 3) -> LearnedCosts:
    costs = LearnedCosts(span=span, enough=enough)
    for duration in durations_ms:
        costs.observe(ROUTE, duration * MS, seat_seconds(seats, duration * MS))
    costs.check()
    return costs


# Routes


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/", "/"),
        ("/orders", "/orders"),
        ("/orders/17/items", "/orders/*/items"),
        ("/api/v1/users", "/api/v1/users"),
        ("/api/v123/users", "/api/*/users"),
        ("/files/0b9c6d8e-4a7e-4d0c-9a55-0f5c8f1b2a33", "/files/*"),
        ("/users/someone@example.com", "/users/*"),
        ("/search/" + "a" * 25, "/search/*"),
        ("/a/b/c/d/e/f/g/h/i/j/k", "/a/b/c/d/e/f/g/h"),
        ("*", "*"),
    ],
)
def test_requests_of_a_route_have_the_shape_of_their_path_in_common(path: str, shape: str) -> None:
    assert route_key(asking(path)) == f"GET {shape}"


@pytest.mark.parametrize(
    ("resource", "key"),
    [
        (Resource("orders", namespace="acme", name="17"), "update orders"),
        (Resource("orders", subresource="items"), "update orders/items"),
        (Resource("jobs", "batch", "v1"), "update jobs.batch"),
    ],
)
def test_requests_about_a_resource_have_verb_and_resource_in_common(resource: Resource, key: str) -> None:
    assert route_key(writing("update", resource)) == key


def test_routes_that_are_too_long_are_not_learned() -> None:
    costs = LearnedCosts(enough=1)
    key = route_key(writing("get", Resource("x" * LONGEST_ROUTE)))
    assert key is None

    costs.observe(key, MS, 100)
    assert len(costs) == 0
    assert costs.guess(key) is None


@pytest.mark.parametrize("path", ["/x" * 5000, "/" + "a" * 5000, "/".join("a" * 24 for _ in range(50))])
def test_the_longest_path_has_a_short_shape(path: str) -> None:
    key = route_key(asking(path))

    assert key is None or len(key) <= LONGEST_ROUTE


# Averages


def test_costs_are_not_used_before_enough_observations() -> None:
    assert learned(7, 7).guess(ROUTE) is None
    assert learned(7, 7, 7).guess(ROUTE) is not None
    assert learned(7, 7, 7).guess("GET /other") is None


def test_of_a_route_that_is_not_known_what_those_before_it_took_is_expected() -> None:
    costs = LearnedCosts()
    for number in range(40):
        costs.observe(f"GET /users/{number}", (10 + number % 2 * 20) * MS, 1)
    for _ in range(10):
        costs.observe(ROUTE, 500 * MS, 1)
    known, expected = costs.expect(ROUTE), costs.expect("GET /users/alice")

    assert known is not None
    assert expected is not None
    assert known is costs.guess(ROUTE)
    assert expected.duration_ns < 100 * MS, "only the first observations of a route are those of a new one"
    assert costs.guess("GET /users/alice") is None
    assert costs.expect(None) is None


def test_nothing_is_expected_before_enough_observations() -> None:
    costs = LearnedCosts()
    for route in "ab":
        costs.observe(route, MS, 1)
        assert costs.expect("new") is None
    costs.observe("c", MS, 1)

    assert costs.expect("new") is not None


def test_the_first_observations_count_the_same() -> None:
    guess = learned(10, 20, 60).guess(ROUTE)

    assert guess is not None
    assert guess.duration_ns == pytest.approx(30 * MS)


def test_later_observations_let_the_earlier_fade() -> None:
    guess = learned(*[10] * 20, *[50] * 3, span=3).guess(ROUTE)

    assert guess is not None
    assert guess.duration_ns == pytest.approx((10 / 8 + 50 * 7 / 8) * MS)


def test_the_seats_are_those_of_the_whole_time() -> None:
    costs = LearnedCosts()
    for duration, seats in ((10 * MS, 1), (10 * MS, 1), (40 * MS, 4)):
        costs.observe(ROUTE, duration, seat_seconds(seats, duration))
    guess = costs.guess(ROUTE)

    assert guess is not None
    assert guess.seats == pytest.approx((10 + 10 + 160) / 60)
    assert "of 3: 20.000 ms on 3.00 seats" in repr(guess)


def test_a_route_without_duration_has_one_seat() -> None:
    guess = learned(0, 0, 0).guess(ROUTE)

    assert guess is not None
    assert guess.seats == 1


def test_the_least_recently_seen_route_is_removed_first() -> None:
    costs = LearnedCosts(2, enough=1)
    for route in "abac":
        costs.observe(route, MS, 1)
        costs.check()

    assert [costs.guess(route) is not None for route in "abc"] == [True, False, True]
    assert costs.snapshot().forgotten == 1
    assert repr(costs) == "<LearnedCosts: 2 routes of at most 2>"


def test_other_settings_keep_what_has_been_learned() -> None:
    costs = learned(1, 3)
    costs.observe("GET /newer", 2 * MS, seat_seconds(1, 2 * MS))

    costs.adopt(1, span=1, enough=1)

    assert costs.guess(ROUTE) is None, "the least recently seen one is removed"
    assert (len(costs), costs.forgotten) == (1, 1)
    assert costs.guess("GET /newer") is not None, "one observation is enough now"
    costs.observe("GET /newer", 8 * MS, seat_seconds(1, 8 * MS))
    newest = costs.guess("GET /newer")
    assert newest is not None
    assert newest.duration_ns == 8 * MS, "only the last one counts"
    costs.check()


def test_the_snapshot_shows_the_most_expensive_routes() -> None:
    costs = LearnedCosts()
    for route, duration, seats in (("cheap", 1, 1), ("dear", 9, 5), ("long", 10, 1)):
        costs.observe(route, duration * MS, seat_seconds(seats, duration * MS))

    assert costs.snapshot().routes == (("dear", 1, 9 * MS, 5.0), ("long", 1, 10 * MS, 1.0), ("cheap", 1, MS, 1.0))
    assert [route for route, *_ in costs.snapshot(1).routes] == ["dear"]


@pytest.mark.parametrize(("duration", "work"), [(-1, 0), (0, -1)])
def test_negative_observations_are_refused(duration: int, work: int) -> None:
    costs = LearnedCosts()

    with pytest.raises(InvalidValueError, match="at least 0"):
        costs.observe(ROUTE, duration, work)
    assert len(costs) == 0


@pytest.mark.parametrize("settings", [{"most_routes": 0}, {"span": 0}, {"enough": 0}])
def test_invalid_settings_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(InvalidValueError, match=f"{next(iter(settings))} is 0"):
        LearnedCosts(**settings)


def test_check_detects_invalid_averages() -> None:
    costs = learned(1)
    costs._costs[ROUTE].work = -1.0

    with pytest.raises(InvalidValueError, match="observations and be positive"):
        costs.check()

    costs = learned(1)
    costs._most_routes = 0
    with pytest.raises(InvalidValueError, match="at most 0"):
        costs.check()


# Seats


@pytest.mark.parametrize(("duration", "seats"), [(1, 1), (99, 1), (100, 1), (101, 2), (1000, 10), (9000, 10), (0, 1)])
def test_a_route_that_takes_long_gets_more_seats(duration: int, seats: int) -> None:
    estimate = Learned(learned(*[duration] * 3), duration_per_seat_ns=100 * MS)

    assert estimate(asking(), SOMEWHERE) == Work(seats)


@pytest.mark.parametrize(("charged", "seats"), [(1, 1), (4, 4), (30, 10)])
def test_a_route_with_higher_charges_gets_more_seats(charged: int, seats: int) -> None:
    assert Learned(learned(5, 5, 5, seats=charged))(asking(), SOMEWHERE) == Work(seats)


def test_wide_requests_do_not_drive_their_own_seats_up() -> None:
    """Estimating and observing in turn comes to rest at what the duration alone says."""
    costs = learned(250, 250, 250)
    estimate = Learned(costs, duration_per_seat_ns=100 * MS)
    for _ in range(100):
        costs.observe(ROUTE, 250 * MS, seat_seconds(estimate(asking(), SOMEWHERE).seats, 250 * MS))

    assert estimate(asking(), SOMEWHERE) == Work(3)


def test_an_unknown_route_takes_the_default_seats() -> None:
    assert Learned(learned(1), otherwise=Work(2))(asking(), SOMEWHERE) == Work(2)


def test_learned_estimates_are_changing() -> None:
    estimate = Learned(LearnedCosts())

    assert estimate.dependence.changing
    assert not estimate.dependence.anything
    assert "up to 10 seats" in repr(estimate)


@pytest.mark.parametrize("settings", [{"duration_per_seat_ns": 0}, {"most_seats": 0}])
def test_invalid_learning_settings_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(InvalidValueError, match=f"{next(iter(settings))} is 0"):
        Learned(LearnedCosts(), **settings)  # type: ignore[arg-type]


def test_few_requests_are_longer_than_a_long_one() -> None:
    dice, costs = random.Random(1), LearnedCosts(span=200)
    durations = [round(dice.expovariate(1e-8)) for _ in range(2000)]
    for duration in durations:
        costs.observe("r", duration, 1)
    known = costs.guess("r")
    assert known is not None

    assert 4e8 < known.long_ns < 7e8, "the mean is 1e8"
    assert sum(duration > known.long_ns for duration in durations) < 0.02 * len(durations)


def test_a_steady_duration_is_a_long_one_too() -> None:
    costs = LearnedCosts()
    for _ in range(10):
        costs.observe("r", 5_000_000, 1)
    known = costs.guess("r")

    assert known is not None
    assert known.long_ns == 5_000_000
