"""Who lends seats to whom: sums, bounds, and cases in which the lender is certain."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.asgi.console.loans import Loan, list_loans
from apf_middleware.snapshots import LevelSnapshot

EMPTY = LevelSnapshot(
    *("", False, False, False),
    *(0, 0, 0, 0, 0, 0, 0, 0, 0),
    {},
    *(0, 0, 0, 0),
    "equal-serial",
    {},
)


def level(name: str, nominal: int, used: int, *, exempt: bool = False) -> LevelSnapshot:
    return replace(EMPTY, level=name, nominal=nominal, seats_in_use=used, exempt=exempt)


def test_without_an_excess_nobody_lends() -> None:
    assert list_loans([level("a", 5, 5), level("b", 5, 0)]) == ()


def test_one_lender_lends_the_excess_to_each_borrower() -> None:
    assert list_loans([level("a", 2, 4), level("b", 8, 1), level("c", 1, 2)]) == (Loan("b", "a", 2), Loan("b", "c", 1))


def test_several_lenders_lend_in_proportion_to_what_they_do_not_use() -> None:
    assert list_loans([level("a", 2, 8), level("b", 8, 0), level("c", 4, 0)]) == (Loan("b", "a", 4), Loan("c", "a", 2))


def test_exempt_levels_take_no_part() -> None:
    assert list_loans([level("a", 2, 4), level("x", 9, 0, exempt=True), level("y", 0, 9, exempt=True)]) == ()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8))
def test_loans_are_within_what_is_lent_and_borrowed(amounts: list[tuple[int, int]]) -> None:
    levels = [level(str(number), nominal, used) for number, (nominal, used) in enumerate(amounts)]
    loans = list_loans(levels)
    excess = sum(max(0, used - nominal) for nominal, used in amounts)
    unused = sum(max(0, nominal - used) for nominal, used in amounts)

    assert sum(loan.seats for loan in loans) == min(excess, unused)
    assert all(loan.seats > 0 for loan in loans)
    for one in levels:
        lent = sum(loan.seats for loan in loans if loan.lender == one.level)
        borrowed = sum(loan.seats for loan in loans if loan.borrower == one.level)
        assert lent <= max(0, one.nominal - one.seats_in_use)
        assert borrowed <= max(0, one.seats_in_use - one.nominal)
