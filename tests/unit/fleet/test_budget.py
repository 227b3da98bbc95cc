"""A budget has a number of seats."""

from dataclasses import replace

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.budget import Budget, key_of, level_of


def test_a_budget_has_no_negative_number_of_seats() -> None:
    assert Budget(0).claims == {}
    with pytest.raises(InvalidValueError, match="seats"):
        Budget(-1)


def test_families_are_the_children_of_parents() -> None:
    claims = {
        name: SeatDemand(1, 0, parent=parent) for name, parent in {"p": None, "a": "p", "b": None, "c": "p"}.items()
    }
    budget = Budget(9, claims)
    assert (budget.families, budget.leaves) == ({"p": ["a", "c"]}, ["a", "b", "c"])


def test_levels_of_a_former_configuration_keep_their_claims_and_the_parents_that_there_are() -> None:
    budget = Budget(9, {"a": SeatDemand(1, 0, 1, None, "p"), "p": SeatDemand(1, 0, 0, 4)})
    former = {"a": SeatDemand(7, 0), "b": SeatDemand(2, 0, 1, 3, "p"), "c": SeatDemand(2, 0, 1, 3, "a")}
    found = budget.including(former)
    assert found.claims == {**budget.claims, "b": former["b"], "c": SeatDemand(2, 0, 1, 3)}
    assert budget.including({"a": former["a"]}) is budget


def test_a_level_that_is_a_parent_at_some_members_counts_as_a_child_of_itself() -> None:
    child, alone = SeatDemand(1, 0, 1, None, "p"), SeatDemand(2, 0, 2, 4)
    budget = Budget(9, {"a": child, "p": alone}, {"a": 1, "p": 2})
    found = budget.including({"p": SeatDemand(5, 0, 1, 3)})
    assert found.claims == {**budget.claims, "p/former": SeatDemand(5, 0, 1, None, "p")}
    assert found.priorities["p/former"] == 2
    budget = Budget(9, {"p": alone})
    assert budget.including({"a": child}).claims == {
        "p": alone,
        "p/former": replace(alone, parent="p", most=None),
        "a": child,
    }
    assert [key_of(name, {"p"}) for name in ("a", "p")] == ["a", "p/former"]
    assert [level_of(key) for key in ("a", "p/former")] == ["a", "p"]


def test_a_small_min_next_to_a_large_one_stays_a_seat() -> None:
    budget = Budget(10, {"a": SeatDemand(1, 0, 10, None, "p"), "p": SeatDemand(1, 0)})
    found = budget.including({"b": SeatDemand(1, 0, 1, None, "p")})
    assert (found.claims["a"].least, found.claims["b"].least) == (9, 1)


def test_former_children_raise_no_max() -> None:
    budget = Budget(9, {"a": SeatDemand(1, 0, 3, None, "p"), "p": SeatDemand(1, 0, 0, 3), "d": SeatDemand(1, 0, 6)})
    found = budget.including({"b": SeatDemand(2, 0, 3, 3, "p")})
    assert found.maxes["p"] == 3
    assert (found.claims["a"].least, found.claims["b"].least, found.claims["d"].least) == (1, 1, 6)


@pytest.mark.parametrize("parent", ["nowhere", "b", "a"])
def test_a_parent_is_a_claim_without_a_parent(parent: str) -> None:
    claims = {"a": SeatDemand(1, 0, 0, None, parent), "b": SeatDemand(1, 0, 0, None, "c"), "c": SeatDemand(1, 0, 0)}
    with pytest.raises(InvalidValueError, match="the parent of 'a'"):
        Budget(6, claims)
