"""The shares of a fleet are those of a plain twin, and reproduce fair seats for each flow at each member."""

from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.flow_sums import sum_flows
from apf_middleware.fleet.messages import FlowTable, LevelUsage
from apf_middleware.fleet.shares import FleetShares, divide_budget
from tests.support.examples import examples
from tests.support.fleet_twin import TwinShares, fill, twin_shares

Usages = dict[str, dict[str, LevelUsage]]
Fleet = tuple[Budget, Usages]

ROUNDING = 64
"""Amounts are rounded down once for each flow, each level and each kind of spare seats."""

WEIGHTS = {flow: (1, 1, 1, 2, 5, 1, 3, 1)[flow] * WEIGHT_ONE for flow in range(8)}

_bounds = st.tuples(st.sampled_from((0, 1, 1, 2, 5)), st.integers(0, 6), st.none() | st.integers(0, 30))


@st.composite
def _claims(draw: st.DrawFn) -> dict[str, SeatDemand]:
    claims = {}
    has_parent = draw(st.booleans())
    for name in draw(st.lists(st.sampled_from("abcd"), min_size=1, unique=True)):
        weight, least, more = draw(_bounds)
        parent = draw(st.sampled_from((None, "p"))) if has_parent else None
        claims[name] = SeatDemand(weight, 0, least, None if more is None else least + more, parent)
    if has_parent:
        weight, least, more = draw(_bounds)
        claims["p"] = SeatDemand(weight, 0, least, None if more is None else least + more)
    return claims


@st.composite
def _usage(draw: st.DrawFn) -> LevelUsage:
    flows = draw(st.dictionaries(st.sampled_from(sorted(WEIGHTS)), st.sampled_from((1, 1, 2, 7, 60)), max_size=5))
    rest_flows = draw(st.sampled_from((0, 0, 1, 4)))
    rest_seats = rest_flows * draw(st.integers(1, 5))
    unknown = draw(st.sets(st.sampled_from(sorted(WEIGHTS)), max_size=2))
    listed = FlowTable.of(flows, {flow: 0 if flow in unknown else weight for flow, weight in WEIGHTS.items()})
    return LevelUsage(0, draw(st.integers(0, 9)), 0, listed, rest_flows, rest_seats)


@st.composite
def fleets(draw: st.DrawFn, most_members: int = 5) -> Fleet:
    claims = draw(_claims())
    parents = {claim.parent for claim in claims.values()}
    leaves = [name for name in claims if name not in parents]
    if not leaves:
        claims, leaves = {"a": SeatDemand(1, 0)}, ["a"]
    usages = {}
    for number in range(draw(st.integers(1, most_members))):
        levels = draw(st.lists(st.sampled_from(leaves), unique=True))
        usages[f"m{number}"] = {name: draw(_usage()) for name in levels}
    return Budget(draw(st.integers(0, 60)), claims), usages


def both(fleet: Fleet) -> tuple[FleetShares, TwinShares]:
    budget, usages = fleet
    return divide_budget(budget, usages), twin_shares(budget.seats, budget.claims, usages)


def assert_close(found: int, expected: Fraction) -> None:
    difference = float(found - expected * SEAT)
    assert -ROUNDING <= difference <= 1, f"{found / SEAT} instead of {float(expected)}"


@given(fleets())
@examples(160)
def test_shares_are_those_of_the_twin(fleet: Fleet) -> None:
    check_shares(fleet)


def check_shares(fleet: Fleet) -> None:
    shares, twin = both(fleet)
    assert shares.levels.keys() == twin.levels.keys()
    for name, amount in twin.levels.items():
        assert_close(shares.levels[name], amount)
    for member, share in shares.members.items():
        for name, part in share.levels.items():
            expected = twin.members[member].get(name, Fraction(0))
            assert float(part.amount) == pytest.approx(float(expected * SEAT), abs=ROUNDING)
        assert twin.members[member].keys() - share.levels.keys() <= {
            name for name, part in twin.members[member].items() if not part
        }
        assert float(share.spare) == pytest.approx(float(twin.spare[member] * SEAT), abs=ROUNDING)


@given(fleets(most_members=12))
@examples(120)
def test_all_parts_together_are_no_more_than_the_budget(fleet: Fleet) -> None:
    budget, usages = fleet
    shares = divide_budget(budget, usages)

    assert sum(shares.levels.values()) <= budget.seats * SEAT
    assert sum(share.amount for share in shares.members.values()) <= budget.seats * SEAT
    for name, amount in shares.levels.items():
        parts = [share.levels[name] for share in shares.members.values() if name in share.levels]
        assert sum(part.amount for part in parts) <= amount
        assert sum(part.promised for part in parts) <= min(budget.claims[name].least, -(-amount // SEAT))
        assert all(0 <= part.promised * SEAT < part.amount + SEAT for part in parts)
    for parent, family in budget.families.items():
        parts = [share.levels[parent] for share in shares.members.values() if parent in share.levels]
        common = budget.claims[parent].least - sum(budget.claims[name].least for name in family)
        assert sum(part.promised for part in parts) <= max(0, common)


@given(fleets())
@examples(120)
def test_local_queues_with_the_factors_give_each_flow_its_part(fleet: Fleet) -> None:
    check_factors(fleet)


def check_factors(fleet: Fleet) -> None:
    """Weighted max-min among a member's own flows, of its own seats, is the part of each flow in the whole fleet."""
    _, usages = fleet
    shares, twin = both(fleet)
    for member, levels in usages.items():
        for name, usage in levels.items():
            part = shares.members[member].levels.get(name)
            if part is None or not usage.flows:
                continue
            amount = min(Fraction(part.amount, SEAT), Fraction(usage.demand))
            claims: dict[int, tuple[Fraction | int, Fraction | int, Fraction | int]] = _rest_claim(usage)
            # a member knows the weight of a flow when a request of it arrives, also if it wasn't known for the report
            known = sum_flows(one[name].flows for one in usages.values() if name in one)
            claims |= {
                flow: (Fraction(known[flow][1] * part.factors.get(flow, WEIGHT_ONE), WEIGHT_ONE**2), 0, seats)
                for flow, seats, _ in usage.flows.rows()
            }
            local = fill(amount, claims)
            for flow in usage.flows.flows:
                expected = twin.flows[member, name, flow]
                assert float(local[flow]) == pytest.approx(float(expected), abs=0.01)


def _rest_claim(usage: LevelUsage) -> dict[int, tuple[Fraction | int, Fraction | int, Fraction | int]]:
    return {-1: (usage.rest_flows, 0, usage.rest_seats)} if usage.rest_flows else {}


@given(fleets())
@examples(60)
def test_flows_with_a_factor_are_those_that_are_held_back_at_several_members(fleet: Fleet) -> None:
    _, usages = fleet
    shares, twin = both(fleet)
    for member, share in shares.members.items():
        for name, part in share.levels.items():
            own = _seats(usages[member].get(name))
            totals = _totals(name, usages)
            for flow, seats in own.items():
                missing = totals[flow] - sum(one for key, one in twin.flows.items() if key[1:] == (name, flow))
                factor = part.factors.get(flow)
                if seats == totals[flow]:
                    assert factor is None
                elif missing * 1000 > 1:  # otherwise a flow at the water level may be held back by rounding
                    assert factor is not None
                if factor is not None:
                    assert factor / WEIGHT_ONE == pytest.approx(seats / totals[flow], abs=1e-4)


def _totals(level: str, usages: Usages) -> dict[int, int]:
    totals: dict[int, int] = {}
    for levels in usages.values():
        for flow, seats in _seats(levels.get(level)).items():
            totals[flow] = totals.get(flow, 0) + seats
    return totals


def _seats(usage: LevelUsage | None) -> dict[int, int]:
    return {} if usage is None else dict(zip(usage.flows.flows, usage.flows.seats, strict=True))


@given(st.integers(1, 40), st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 8), st.integers(1, 9))
@examples(60)
def test_a_flow_gets_the_same_on_one_member_as_on_all(
    seats: int, demands: list[int], members: int, elephant: int
) -> None:
    """One flow sends its requests to one member, or a part of them to each; the others get the same seats."""

    def amount_of_others(parts: Mapping[str, int]) -> Fraction:
        usages: Usages = {"other": {"a": LevelUsage(flows=FlowTable.of(dict(enumerate(demands))))}}
        usages |= {name: {"a": LevelUsage(flows=FlowTable.of({99: one}))} for name, one in parts.items()}
        shares = divide_budget(Budget(seats, {"a": SeatDemand(1, 0)}), usages)
        return Fraction(shares.members["other"].levels["a"].amount, SEAT)

    alone = amount_of_others({"m0": elephant * members})
    spread = amount_of_others({f"m{number}": elephant for number in range(members)})
    assert float(alone) == pytest.approx(float(spread), abs=1e-4)


@given(fleets(), st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3), max_size=4))
@examples(120)
def test_with_priorities_no_level_loses_its_part_and_no_seat_is_lost(fleet: Fleet, priorities: dict[str, int]) -> None:
    budget, usages = fleet
    ranked = divide_budget(Budget(budget.seats, budget.claims, priorities), usages)
    plain = divide_budget(budget, usages)

    tolerance = 4 * len(budget.claims)  # each step rounds down
    assert sum(ranked.levels.values()) <= budget.seats * SEAT
    assert sum(ranked.levels.values()) >= sum(plain.levels.values()) - tolerance
    if len({priorities.get(name, 0) for name in ranked.levels}) == 1:
        assert ranked.levels == plain.levels


def test_a_priority_takes_no_seats_that_a_max_keeps_from_it() -> None:
    """The highest priority can use 12 seats, so the lower one gets all others; the third one is idle."""
    claims = {"high": SeatDemand(1, 0, 0, 12), "low": SeatDemand(1, 0), "idle": SeatDemand(1, 0)}
    usages = {"m": {name: LevelUsage(flows=FlowTable.of({1: 50})) for name in ("high", "low")}}
    shares = divide_budget(Budget(30, claims, {"high": 2, "low": 1, "idle": 0}), usages)

    assert {name: one // SEAT for name, one in shares.levels.items()} == {"high": 12, "low": 18, "idle": 0}


@given(fleets())
@examples(80)
def test_the_highest_priority_gets_all_it_can_use_of_what_is_left(fleet: Fleet) -> None:
    """Without mins, maxes and parents: a level above its part means that each higher one has all that it asks for."""
    seats, usages = fleet[0].seats, fleet[1]
    names = sorted({name for levels in usages.values() for name in levels})
    if not names:
        return
    claims = {name: SeatDemand(1, 0) for name in names}
    priorities = {name: place for place, name in enumerate(names)}
    found = divide_budget(Budget(seats, claims, priorities), usages)
    demands = {name: twin_shares(10**6, {name: claims[name]}, usages).members for name in names}
    wanted = {name: sum(float(one.get(name, 0)) for one in demands[name].values()) for name in names}
    part, tolerance = seats / len(names), 4 * len(names)  # each step rounds down
    for name in names:
        if found.levels[name] > part * SEAT + tolerance:
            for higher in names[names.index(name) + 1 :]:
                assert found.levels[higher] >= min(wanted[higher], seats) * SEAT - tolerance
