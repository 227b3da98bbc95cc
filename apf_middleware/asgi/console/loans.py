"""Who lends seats to whom.

A level that uses more than its nominal seats borrows the excess, and levels that use less have lent it. No seat has a
lender of its own: seats come from all that are unused. So the excess of each borrower is divided among the lenders in
proportion to their unused nominal seats. With one lender or one borrower this is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apf_middleware.fairqueuing.sharing.balance import fill
from apf_middleware.snapshots import Count, LevelSnapshot

__all__ = ["Loan", "list_loans"]


@dataclass(frozen=True, slots=True)
class Loan:
    """Seats of one level's nominal limit that another level uses now."""

    lender: str
    borrower: str
    seats: Count


def list_loans(levels: Sequence[LevelSnapshot]) -> tuple[Loan, ...]:
    """Return the loans among ``levels``, those of the first borrower first; exempt levels neither lend nor borrow."""
    limited = [level for level in levels if not level.exempt]
    unused = {
        level.level: level.nominal - level.seats_in_use for level in limited if level.seats_in_use < level.nominal
    }
    found = []
    for level in limited:
        excess = level.seats_in_use - level.nominal
        if excess <= 0:
            continue
        parts = _divide(min(excess, sum(unused.values())), list(unused.values()))
        for lender, part in zip(list(unused), parts, strict=True):
            unused[lender] -= part
            if part:
                found.append(Loan(lender, level.level, part))
    return tuple(found)


def _divide(seats: int, unused: Sequence[int]) -> list[int]:
    """Divide ``seats`` in proportion to ``unused``, in whole seats; the rest goes to the first that have any left."""
    parts = fill(seats, [(number, 0, number) for number in unused])
    rest = seats - sum(parts)
    for place, number in enumerate(unused):
        more = min(rest, number - parts[place], 1)
        parts[place] += more
        rest -= more
    return parts
