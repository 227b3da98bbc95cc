"""What members may be using, and what can be granted to them meanwhile."""

from apf_middleware.fleet.debt import Debt, grantable


def test_what_is_owed_is_the_most_of_what_is_confirmed_in_use_or_on_its_way() -> None:
    debt = Debt(5, 2)
    debt.grant(1, 3)
    debt.grant(2, 8)
    assert (debt.seats, debt.owed) == (8, 8)
    debt.confirm(1, 3, 4)
    assert debt.owed == 8, "the second grant is on its way"
    debt.confirm(2, 8, 4)
    debt.grant(3, 1)
    debt.confirm(3, 1, 4)
    assert (debt.seats, debt.owed) == (1, 4)
    assert repr(debt) == "<Debt of 4 seats, 1 granted>"


def test_seats_that_a_member_gives_back_are_its_limit_only_if_no_grant_is_on_its_way() -> None:
    debt = Debt(5, 0)
    debt.confirm(0, 2, 1)
    assert (debt.seats, debt.owed) == (2, 2)
    debt.grant(1, 4)
    debt.confirm(0, 1, 1)
    assert (debt.seats, debt.owed) == (4, 4)


def test_decreases_are_granted_at_once_and_increases_as_far_as_seats_are_free() -> None:
    debts = {"a": Debt(6, 0), "b": Debt(1, 0), "c": Debt(2, 0)}
    assert grantable({"a": 2, "b": 4, "c": 4}, debts, 3) == {"a": 2, "b": 4, "c": 2}, "b has the smallest part"
    assert grantable({"a": 2, "b": 4, "c": 4}, debts, -1) == {"a": 2, "b": 1, "c": 2}


def test_seats_within_a_debt_are_granted_again_although_none_are_free() -> None:
    debt = Debt(6, 0)
    debt.grant(1, 2)  # not confirmed yet
    assert grantable({"a": 5}, {"a": debt}, 0) == {"a": 5}
    assert grantable({"a": 8}, {"a": debt}, 1) == {"a": 7}


def test_a_grant_that_was_not_sent_counts_for_nothing() -> None:
    debt = Debt(2, 1)
    debt.grant(1, 5)
    debt.grant(2, 9)
    debt.retract(2)
    assert (debt.seats, debt.owed) == (5, 5)
    debt.retract(2)
    assert (debt.seats, debt.owed) == (5, 5), "this one has been sent"
    debt.grant(3, 0)
    debt.retract(3)
    assert (debt.seats, debt.owed) == (5, 5)
    debt.confirm(1, 4, 1)
    debt.grant(4, 7)
    debt.retract(4)
    assert (debt.seats, debt.owed) == (4, 4)


def test_a_grant_that_was_not_sent_leaves_an_earlier_one_of_the_same_seats() -> None:
    debt = Debt(2, 1)
    debt.grant(1, 5)
    debt.grant(2, 5)
    debt.retract(2)
    assert (debt.seats, debt.owed) == (5, 5)
    debt.grant(3, 3)
    debt.confirm(3, 3, 1)
    assert debt.owed == 3
