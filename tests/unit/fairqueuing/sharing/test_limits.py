import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.sharing.limits import LevelLimits, LevelShares, limits_from_shares
from tests.support.builds import raises_for_wrong_type

KUBERNETES = {
    "exempt": LevelShares(0, exempt=True),
    "leader-election": LevelShares(10, 0),
    "node-high": LevelShares(40, 25),
    "system": LevelShares(30, 33),
    "workload-high": LevelShares(40, 50),
    "workload-low": LevelShares(100, 90),
    "global-default": LevelShares(20, 50),
    "catch-all": LevelShares(5, 0),
}


def test_kubernetes_default_levels_get_kubernetes_seats() -> None:
    limits = limits_from_shares(600, KUBERNETES)

    assert [level.nominal for level in limits.values()] == [0, 25, 98, 74, 98, 245, 49, 13]
    assert [level.min for level in limits.values()] == [0, 25, 73, 50, 49, 24, 24, 13]
    assert [level.max for level in limits.values()] == [600, 625, 698, 674, 698, 845, 649, 613]
    assert list(limits) == list(KUBERNETES)


def test_nominal_seats_are_rounded_up_so_that_any_share_is_worth_a_seat() -> None:
    limits = limits_from_shares(2, {"elephant": LevelShares(1_000_000), "mouse": LevelShares(1)})

    assert (limits["elephant"].nominal, limits["mouse"].nominal) == (2, 1)


def test_lent_and_borrowed_seats_are_rounded_half_up() -> None:
    limits = limits_from_shares(5, {"only": LevelShares(1, lendable_percent=50, borrowing_percent=50)})["only"]

    assert (limits.nominal, limits.min, limits.max) == (5, 2, 8)


def test_a_level_may_borrow_more_than_it_owns() -> None:
    limits = limits_from_shares(10, {"a": LevelShares(1, borrowing_percent=250), "b": LevelShares(1)})["a"]

    assert limits == LevelLimits(nominal=5, min=5, max=18)  # 5 + 12.5 rounded


def test_a_level_that_must_not_borrow_has_its_nominal_seats_at_most() -> None:
    limits = limits_from_shares(10, {"only": LevelShares(1, borrowing_percent=0)})["only"]

    assert limits.max == limits.nominal == 10
    assert limits.max == limits.nominal


def test_zero_shares_are_zero_seats_and_borrow_none() -> None:
    """A level without seats stays one, though it leaves its borrowing unlimited."""
    limits = limits_from_shares(100, {"jail": LevelShares(0), "other": LevelShares(1)})

    assert limits["jail"] == LevelLimits(0, 0, 0)
    assert limits["other"] == LevelLimits(100, 100, 200)


def test_an_exempt_level_has_seats_by_its_shares_and_may_lend_them() -> None:
    limits = limits_from_shares(100, {"exempt": LevelShares(1, 50, exempt=True), "other": LevelShares(3)})

    assert limits["exempt"] == LevelLimits(nominal=25, min=12, max=125)


def test_an_exempt_level_without_shares_is_not_kept_from_borrowing() -> None:
    assert limits_from_shares(100, {"exempt": LevelShares(0, exempt=True)})["exempt"] == LevelLimits(0, 0, 100)


def test_without_any_shares_no_level_has_a_seat() -> None:
    assert limits_from_shares(100, {"jail": LevelShares(0)}) == {"jail": LevelLimits(0, 0, 0)}
    assert limits_from_shares(100, {}) == {}


def test_without_seats_no_level_has_one() -> None:
    assert limits_from_shares(0, {"some": LevelShares(3, 50)}) == {"some": LevelLimits(0, 0, 0)}


@pytest.mark.parametrize(
    ("shares", "name"),
    [
        ({"shares": -1}, "shares"),
        ({"shares": 1, "lendable_percent": -1}, "lendable_percent"),
        ({"shares": 1, "lendable_percent": 101}, "lendable_percent"),
        ({"shares": 1, "borrowing_percent": -1}, "borrowing_percent"),
        ({"shares": 1, "borrowing_percent": 50, "exempt": True}, "borrowing_percent"),
    ],
)
def test_shares_that_break_a_rule_are_refused(shares: dict[str, int], name: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        LevelShares(**shares)  # type: ignore[arg-type]
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("shares", "name"),
    [
        ({"shares": 1.5}, "shares"),
        ({"shares": 1, "borrowing_percent": "50"}, "borrowing_percent"),
        ({"shares": 1, "exempt": 1}, "exempt"),
    ],
)
def test_shares_of_wrong_types_are_refused(shares: dict[str, int], name: str) -> None:
    with raises_for_wrong_type(f"^{name} is "):
        LevelShares(**shares)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limits", "name"),
    [((-1, 0, 0), "nominal"), ((5, 6, 7), "min"), ((5, -1, 7), "min"), ((5, 5, 4), "max"), ((5, 5, 2**53 + 1), "max")],
)
def test_min_nominal_and_max_come_in_this_order(limits: tuple[int, int, int], name: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        LevelLimits(*limits)
    assert caught.value.name == name


def test_a_server_has_no_negative_number_of_seats() -> None:
    with pytest.raises(InvalidValueError, match="seats is -1"):
        limits_from_shares(-1, {})


@pytest.mark.parametrize("seats", [1.0, None])
def test_a_server_has_a_whole_number_of_seats(seats: int) -> None:
    with raises_for_wrong_type("seats is "):
        limits_from_shares(seats, {})
