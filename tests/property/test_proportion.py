"""What queues deserve, whatever they ask for: as a plain twin finds it, and with the promises kept."""

from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing.sharing.proportion import SeatDemand, deserved_by_name
from tests.support.examples import examples

_weights = st.sampled_from((0, 1, 1, 2, 3, 10**7))
_parents = st.sampled_from((None, None, "p", "q"))


@st.composite
def _desire(draw: st.DrawFn, parent: str | None = None) -> SeatDemand:
    least = draw(st.integers(0, 6))
    most = draw(st.none() | st.integers(least, 30))
    return SeatDemand(draw(_weights), draw(st.integers(0, 40)), least, most, parent)


def plain(total: int, demands: list[SeatDemand]) -> list[Fraction]:
    """Pour on until the first is full or the water is gone, again and again."""
    amounts = [Fraction(one.least) for one in demands]
    if sum(amounts) >= total:
        return [amount * total / sum(amounts) if sum(amounts) else Fraction(0) for amount in amounts]
    stops = {Fraction(bound, one.weight) for one in demands if one.weight for bound in (one.least, one.upper)}
    for low, high in pairwise(sorted({Fraction(0), *stops})):
        growing = [i for i, one in enumerate(demands) if one.weight and one.least <= low * one.weight < one.upper]
        weight = sum(demands[i].weight for i in growing)
        left = total - sum(amounts, Fraction(0))
        step = min(high - low, left / weight) if weight else Fraction(0)
        for i in growing:
            amounts[i] += step * demands[i].weight
    return amounts


@given(st.integers(0, 60), st.lists(_desire(), max_size=6))
@examples(100)
def test_the_twin_agrees_and_guarantees_are_kept(total: int, demands: list[SeatDemand]) -> None:
    found = list(deserved_by_name(total, {str(place): one for place, one in enumerate(demands)}).values())

    assert found == plain(total, demands)
    assert sum(found) <= total
    if sum(one.least for one in demands) <= total:
        assert all(one.least <= amount <= one.upper for one, amount in zip(demands, found, strict=True))
        if all(one.weight for one in demands):
            assert sum(found) == min(total, sum(one.upper for one in demands))


@given(st.integers(0, 60), st.data())
@examples(60)
def test_children_never_deserve_more_than_their_parent(total: int, data: st.DataObject) -> None:
    demands = {
        "p": data.draw(_desire()),
        "q": data.draw(_desire()),
        **{name: data.draw(_desire(data.draw(_parents))) for name in "abcd"},
    }
    found = deserved_by_name(total, demands)

    assert found.keys() == demands.keys()
    for parent in "pq":
        children = [name for name, one in demands.items() if one.parent == parent]
        if children:
            assert sum(found[name] for name in children) <= found[parent]
    assert sum(found[name] for name, one in demands.items() if one.parent is None) <= total
