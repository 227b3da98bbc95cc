"""The sketch of heavy flows against exact sums."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime.top_flows import HALF_LIFE_NS, HeavyFlow, TopFlows


def promises(sketch: TopFlows[int], true: Counter[int], amount: int, kept: int) -> None:
    """All that is promised, held against what every flow really had."""
    sketch.check()
    for flow, had in true.items():
        known = sketch.of(flow)
        if known is None:
            assert had <= sketch.floor
        else:
            assert known.total - known.error <= had <= known.total
    assert sketch.floor * kept <= amount
    for flow, had in true.items():
        if had * kept > amount:
            assert sketch.of(flow) is not None, "who had more than its part is surely among them"


@given(
    st.integers(1, 5), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=400), st.integers(0, 2**32)
)
def test_bounds_hold_for_any_arrivals(kept: int, steps: list[tuple[int, int]], seed: int) -> None:
    sketch: TopFlows[int] = TopFlows(0, kept=kept)
    true: Counter[int] = Counter()
    random.Random(seed).shuffle(steps)
    for flow, amount in steps:
        sketch.add(flow, amount)
        true[flow] += amount

    promises(sketch, true, sum(true.values()), kept)


@given(
    st.lists(
        st.one_of(st.tuples(st.integers(0, 30), st.integers(0, 99)), st.tuples(st.just(-1), st.integers(1, 3))),
        max_size=300,
    )
)
def test_the_bounds_hold_for_what_has_aged(steps: list[tuple[int, int]]) -> None:
    sketch: TopFlows[int] = TopFlows(0, kept=2, half_life_ns=10)
    true: Counter[int] = Counter()
    now = 0
    for flow, amount in steps:
        if flow < 0:
            now += 10 * amount
            sketch.age(now)
            true = Counter({one: had >> amount for one, had in true.items()})
        else:
            sketch.add(flow, amount)
            true[flow] += amount
        for one, had in true.items():
            known = sketch.of(one)
            if known is None:
                assert had <= sketch.floor
            else:
                assert known.total - known.error <= had <= known.total
    sketch.check()


def test_a_heavy_flow_is_found_among_many_light_ones() -> None:
    sketch: TopFlows[str] = TopFlows(0, kept=8)
    for number in range(5000):
        sketch.add(f"mouse {number}", 1)
        if number % 4 == 0:
            sketch.add("elephant", 1)

    assert len(sketch) <= 32
    [first] = sketch.top(1)
    assert first.flow == "elephant"
    assert first.total - first.error <= 1250 <= first.total


def test_few_flows_are_counted_exactly_and_listed_by_weight() -> None:
    sketch: TopFlows[str] = TopFlows(0)
    for flow, amount in (("a", 3), ("b", 5), ("c", 5), ("a", 1)):
        sketch.add(flow, amount)

    assert sketch.top(9) == [HeavyFlow("b", 5, 0), HeavyFlow("c", 5, 0), HeavyFlow("a", 4, 0)]
    assert sketch.top(1) == [HeavyFlow("b", 5, 0)]
    assert sketch.top(0) == []
    assert sketch.of("nobody") is None
    assert repr(sketch) == "<TopFlows: 3 of at most 1024 flows, none other above 0>"


def test_what_was_long_ago_counts_less_and_then_nothing() -> None:
    sketch: TopFlows[str] = TopFlows(1000)
    sketch.add("a", 100)
    sketch.age(999 + HALF_LIFE_NS)
    assert sketch.top(1) == [HeavyFlow("a", 100, 0)]

    sketch.age(1000 + HALF_LIFE_NS)
    sketch.age(1000 + HALF_LIFE_NS)
    assert sketch.top(1) == [HeavyFlow("a", 50, 0)]

    sketch.age(1000 + HALF_LIFE_NS * 3)
    assert sketch.top(1) == [HeavyFlow("a", 12, 0)]

    sketch.age(1000 + HALF_LIFE_NS * 10**6)
    assert sketch.top(1) == []


def test_half_lives_that_are_not_looked_at_in_time_are_not_lost() -> None:
    sketch: TopFlows[str] = TopFlows(0)
    sketch.add("a", 100)
    sketch.age(HALF_LIFE_NS * 3 // 2)
    sketch.age(HALF_LIFE_NS * 2)

    assert sketch.top(1) == [HeavyFlow("a", 25, 0)]


def forgetful(amount: int) -> TopFlows[str]:
    """One that has just forgotten four flows with this amount, because a fifth came with 10."""
    sketch: TopFlows[str] = TopFlows(0, kept=1)
    for flow in ("a", "b", "c", "d"):
        sketch.add(flow, amount)
    sketch.add("e", 10)
    return sketch


def test_the_uncertain_part_of_a_flow_is_shown_and_ages() -> None:
    sketch = forgetful(8)
    assert (sketch.floor, sketch.top(9)) == (8, [HeavyFlow("e", 18, 8)])

    sketch.age(HALF_LIFE_NS)
    assert (sketch.floor, sketch.top(9)) == (4, [HeavyFlow("e", 9, 4)])


def test_a_flow_of_which_little_is_certain_is_kept_while_it_may_be_above_the_floor() -> None:
    sketch = forgetful(1)
    sketch.add("a", 1)  # which has had 2

    sketch.age(HALF_LIFE_NS)
    assert (sketch.floor, sketch.of("a")) == (0, HeavyFlow("a", 1, 1))


def test_as_many_flows_are_kept_as_configured() -> None:
    sketch: TopFlows[int] = TopFlows(0, kept=3)
    for flow in range(12):
        sketch.add(flow, flow + 1)
    assert len(sketch) == 12

    sketch.add(99, 1)
    assert [one.flow for one in sketch.top(9)] == [11, 10, 9, 99]
    assert sketch.floor == 9


@pytest.mark.parametrize(("kept", "half_life"), [(0, 1), (1, 0), (1.5, 1)])
def test_nonsense_is_refused(kept: int, half_life: int) -> None:
    with pytest.raises(InvalidValueError):
        TopFlows(0, kept=kept, half_life_ns=half_life)
    with pytest.raises(InvalidValueError):
        TopFlows(0).top(-1)
