"""What queues deserve, with the numbers of Volcano's own tables and the cases in which its loop went wrong."""

from fractions import Fraction

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand, deserved_by_name

GREEDY = 10**6


def whole(total: int, *demands: SeatDemand) -> list[Fraction]:
    return list(deserved_by_name(total, {str(place): one for place, one in enumerate(demands)}).values())


def test_weights_divide_what_all_want() -> None:
    queues = (SeatDemand(1, GREEDY, 5), SeatDemand(1, GREEDY), SeatDemand(1, GREEDY, most=10))

    assert whole(30, *queues) == [10, 10, 10]
    assert whole(30, *queues, SeatDemand(2, GREEDY, 10)) == [6, 6, 6, 12]


def test_a_claim_for_less_leaves_the_rest_to_the_others() -> None:
    assert whole(30, SeatDemand(1, 3), SeatDemand(1, 99), SeatDemand(4, 6)) == [3, 21, 6]


def test_a_guarantee_above_the_weighted_share_is_taken_from_the_others_and_not_added_to_the_total() -> None:
    found = whole(10, SeatDemand(5, GREEDY), SeatDemand(5, GREEDY), SeatDemand(1, GREEDY, 4))

    assert found == [3, 3, 4]
    assert sum(found) == 10


def test_a_guarantee_is_deserved_without_demand() -> None:
    assert whole(10, SeatDemand(1, 0, 4), SeatDemand(1, GREEDY)) == [4, 6]


def test_guarantees_beyond_the_total_are_all_cut_by_the_same_part() -> None:
    assert whole(6, SeatDemand(1, GREEDY, 6), SeatDemand(9, GREEDY, 3), SeatDemand(5, GREEDY)) == [4, 2, 0]
    assert whole(0, SeatDemand(1, 1), SeatDemand(1, 1, 1)) == [0, 0]


def test_weights_that_differ_by_seven_digits_come_to_an_end() -> None:
    assert whole(30, SeatDemand(10**7, GREEDY, most=2), SeatDemand(1, GREEDY, most=3), SeatDemand(1, GREEDY)) == [
        2,
        3,
        25,
    ]


def test_no_weights_at_all_deserve_what_is_guaranteed() -> None:
    assert whole(30, SeatDemand(0, GREEDY), SeatDemand(0, GREEDY, 3)) == [0, 3]


def test_parts_are_exact() -> None:
    assert whole(10, *[SeatDemand(1, GREEDY)] * 3) == [Fraction(10, 3)] * 3


def test_children_divide_what_their_parent_deserves() -> None:
    found = deserved_by_name(
        30,
        {
            "web": SeatDemand(2, GREEDY),
            "tenants": SeatDemand(1, 0, most=8),
            "free": SeatDemand(1, GREEDY, parent="tenants"),
            "paid": SeatDemand(3, GREEDY, parent="tenants"),
        },
    )

    assert found == {"web": 22, "tenants": 8, "free": 2, "paid": 6}


def test_a_parent_deserves_no_more_than_its_children_want_and_no_less_than_they_are_guaranteed() -> None:
    demands = {
        "web": SeatDemand(1, GREEDY),
        "tenants": SeatDemand(9, 0),
        "free": SeatDemand(1, 2, parent="tenants"),
        "paid": SeatDemand(1, 1, 5, parent="tenants"),
    }

    assert deserved_by_name(30, demands) == {"web": 23, "tenants": 7, "free": 2, "paid": 5}


@pytest.mark.parametrize(
    ("arguments", "name"), [((-1, 0), "weight"), ((1, -1), "demand"), ((1, 1, -1), "least"), ((1, 1, 3, 2), "most")]
)
def test_invalid_demands_are_refused(arguments: tuple[int, ...], name: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        SeatDemand(*arguments)  # type: ignore[arg-type]
    assert caught.value.name == name
