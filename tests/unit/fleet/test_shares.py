"""The shares of members: levels first, then flows, then members, and then what no flow wants."""

import random
from collections.abc import Mapping
from fractions import Fraction

import pytest

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.messages import FlowTable, LevelUsage
from apf_middleware.fleet.shares import divide_budget

Usages = dict[str, dict[str, LevelUsage]]


def usage(
    flows: Mapping[int, int], *, arrivals: int = 0, rest: tuple[int, int] = (0, 0), weight: int = 1
) -> LevelUsage:
    listed = FlowTable.of(flows, dict.fromkeys(flows, weight * WEIGHT_ONE))
    return LevelUsage(0, arrivals, 0, listed, *rest)


def budget(seats: int, **claims: SeatDemand) -> Budget:
    return Budget(seats, claims or {"web": SeatDemand(1, 0)})


def amounts(seats: int, usages: Usages, level: str = "web", **claims: SeatDemand) -> dict[str, float]:
    shares = divide_budget(budget(seats, **claims), usages)
    return {
        name: share.levels[level].amount / SEAT if level in share.levels else 0
        for name, share in shares.members.items()
    }


# Flows


def test_a_flow_that_is_everywhere_gets_no_more_than_one_that_is_not() -> None:
    """The example of totals that don't suffice: A is at both members, B at one; each gets ten seats."""
    usages = {"one": {"web": usage({1: 100, 2: 100})}, "two": {"web": usage({1: 100})}}
    shares = divide_budget(budget(20), usages)

    assert shares.is_contended
    assert amounts(20, usages) == {"one": 15, "two": 5}
    assert shares.members["one"].levels["web"].factors == {1: WEIGHT_ONE // 2}
    assert shares.members["two"].levels["web"].factors == {1: WEIGHT_ONE // 2}


def test_light_flows_get_all_they_want() -> None:
    usages = {"one": {"web": usage({1: 100, 2: 1})}, "two": {"web": usage({3: 2, 4: 1})}}

    assert amounts(10, usages) == {"one": 7, "two": 3}


def test_flows_that_are_not_listed_count_as_flows_of_average_demand() -> None:
    usages = {"one": {"web": usage({1: 100})}, "two": {"web": usage({}, rest=(4, 4))}}
    assert amounts(10, usages) == {"one": 6, "two": 4}
    usages = {"one": {"web": usage({1: 100})}, "two": {"web": usage({}, rest=(4, 400))}}
    assert amounts(10, usages) == {"one": 2, "two": 8}


def test_flows_get_seats_in_proportion_to_their_weights() -> None:
    usages = {"one": {"web": usage({1: 100}, weight=4)}, "two": {"web": usage({2: 100})}}

    assert amounts(10, usages) == {"one": 8, "two": 2}


def test_a_demand_counts_for_at_most_the_budget() -> None:
    usages = {"one": {"web": usage({1: 10**9}), "batch": usage({2: 10})}}
    claims = {"web": SeatDemand(1, 0), "batch": SeatDemand(1, 0)}
    assert amounts(10, usages, "batch", **claims) == {"one": 5}


# Levels


def test_levels_get_seats_in_proportion_to_their_shares_within_their_bounds() -> None:
    usages = {name: {level: usage({1: 50}) for level in ("web", "batch")} for name in ("one", "two")}

    assert amounts(20, usages, "web", web=SeatDemand(3, 0), batch=SeatDemand(1, 0)) == {"one": 7.5, "two": 7.5}
    assert amounts(20, usages, "batch", web=SeatDemand(3, 0), batch=SeatDemand(1, 0, 8)) == {"one": 4, "two": 4}
    assert amounts(20, usages, "web", web=SeatDemand(3, 0, 0, 6), batch=SeatDemand(1, 0)) == {"one": 3, "two": 3}


def test_children_divide_the_seats_of_their_parent() -> None:
    usages = {"one": {"free": usage({1: 50}), "web": usage({2: 50})}, "two": {"paid": usage({3: 50})}}
    claims = {
        "web": SeatDemand(1, 0),
        "plans": SeatDemand(1, 0),
        "free": SeatDemand(1, 0, parent="plans"),
        "paid": SeatDemand(4, 0, parent="plans"),
    }
    assert amounts(20, usages, "free", **claims) == {"one": 2, "two": 0}
    assert amounts(20, usages, "paid", **claims) == {"one": 0, "two": 8}


def test_a_parent_keeps_what_its_children_don_t_want_of_its_min() -> None:
    """Seats beyond the mins of the children are for all of these, where their requests arrive."""
    usages = {"one": {"free": usage({1: 2}, arrivals=3), "web": usage({2: 50})}, "two": {"paid": usage({}, arrivals=1)}}
    claims = {
        "web": SeatDemand(1, 0),
        "plans": SeatDemand(1, 0, 10),
        "free": SeatDemand(1, 0, parent="plans"),
        "paid": SeatDemand(1, 0, 2, parent="plans"),
    }
    shares = divide_budget(Budget(20, claims), usages)

    assert amounts(20, usages, "plans", **claims) == {"one": 4.5, "two": 1.5}
    assert amounts(20, usages, "web", **claims)["one"] == 10
    assert [one.levels["plans"].promised for one in shares.members.values()] == [5, 3]
    assert [one.spare for one in shares.members.values()] == [0, 0]
    without = {**claims, "plans": SeatDemand(1, 0, 2)}
    assert "plans" not in divide_budget(Budget(20, without), usages).members["one"].levels


def test_children_without_shares_have_the_seats_of_their_parent() -> None:
    usages = {"one": {"trial": usage({1: 50}, arrivals=1), "web": usage({2: 50})}}
    claims = {"web": SeatDemand(1, 0), "plans": SeatDemand(1, 0), "trial": SeatDemand(0, 0, parent="plans")}
    [share] = divide_budget(Budget(20, claims), usages).members.values()

    assert share.amount == 20 * SEAT


def test_the_highest_priority_gets_what_the_others_leave() -> None:
    usages = {"one": {"low": usage({1: 50}), "high": usage({2: 50}), "idle": usage({3: 1})}}
    claims = {name: SeatDemand(1, 0) for name in ("low", "high", "idle")}
    shares = divide_budget(Budget(30, claims, {"low": 0, "high": 2, "idle": 1}), usages)

    assert {name: amount // SEAT for name, amount in shares.levels.items()} == {"low": 10, "high": 19, "idle": 1}


def test_the_lowest_priority_has_its_part_though_that_is_less_than_a_seat() -> None:
    usages = {"one": {"low": usage({1: 50}), "high": usage({2: 50})}}
    shares = divide_budget(Budget(2, {"low": SeatDemand(1, 0), "high": SeatDemand(3, 0)}, {"high": 2}), usages)

    assert shares.levels == {"low": SEAT // 2, "high": 3 * SEAT // 2}


def test_a_min_that_no_request_wants_stays_where_its_requests_arrive() -> None:
    usages: Usages = {
        "one": {"web": usage({1: 50}), "rare": usage({}, arrivals=3)},
        "two": {"web": usage({1: 50}), "rare": usage({}, arrivals=1)},
    }
    shares = divide_budget(budget(20, web=SeatDemand(9, 0), rare=SeatDemand(1, 0, 8)), usages)

    assert shares.members["one"].levels["rare"].amount == 6 * SEAT
    assert shares.members["two"].levels["rare"].promised == 2
    assert shares.members["one"].levels["web"].amount == 6 * SEAT


def test_a_min_is_promised_in_whole_seats() -> None:
    """Four members with 0.75 of a seat each: three of them promise one."""
    usages: Usages = {f"{index}": {"web": usage({1: 50}), "rare": usage({}, arrivals=1)} for index in range(4)}
    shares = divide_budget(budget(12, web=SeatDemand(9, 0), rare=SeatDemand(3, 0, 3)), usages)

    assert [one.levels["rare"].amount * 4 // SEAT for one in shares.members.values()] == [3] * 4
    assert sum(one.levels["rare"].promised for one in shares.members.values()) == 3
    assert max(one.levels["rare"].promised for one in shares.members.values()) == 1


# What no flow wants


def test_a_lone_member_has_all_seats() -> None:
    for levels in ({}, {"web": usage({1: 3})}):
        assert divide_budget(budget(40), {"one": levels}).members["one"].amount == 40 * SEAT


def test_spare_seats_follow_the_arrivals_and_a_quarter_stays() -> None:
    usages: Usages = {"one": {"web": usage({}, arrivals=29)}, "two": {"web": usage({}, arrivals=9)}, "new": {}}
    shares = divide_budget(budget(40), usages)

    assert not shares.is_contended
    found = {name: share.amount / SEAT for name, share in shares.members.items()}
    assert sum(found.values()) == pytest.approx(30, abs=0.001)
    assert found["new"] >= 1, "each member has a seat"
    assert found["one"] > 2 * found["two"] > 4 * found["new"]


def test_without_members_there_are_no_shares() -> None:
    assert divide_budget(budget(10), {}).members == {}


# Against a plain computation


def filled(seats: int, demands: Mapping[int, tuple[int, int]]) -> dict[int, Fraction]:
    """Return the seats of each flow by progressive filling, for demands and weights."""
    left, rest, got = Fraction(seats), dict(demands), dict.fromkeys(demands, Fraction(0))
    while rest and left:
        knots = [(Fraction(demand) - got[flow]) / weight for flow, (demand, weight) in rest.items()]
        height = min(*knots, left / sum(weight for _, weight in rest.values()))
        for flow, (_, weight) in rest.items():
            got[flow] += height * weight
            left -= height * weight
        rest = {flow: one for flow, one in rest.items() if got[flow] < one[0]}
    return got


@pytest.mark.parametrize("seed", range(200))
def test_members_get_the_parts_of_their_flows(seed: int) -> None:
    dice = random.Random(seed)
    seats = dice.randint(1, 40)
    weights = {flow: dice.choice((1, 1, 1, 2, 5)) for flow in range(8)}
    demands = {
        f"m{number}": {flow: dice.choice((1, 2, 30)) for flow in dice.sample(range(8), dice.randint(0, 5))}
        for number in range(dice.randint(1, 5))
    }
    usages = {}
    for name, own in demands.items():
        flows = FlowTable.of(own, {flow: weights[flow] * WEIGHT_ONE for flow in own})
        usages[name] = {"web": LevelUsage(flows=flows)}
    totals = {flow: sum(own.get(flow, 0) for own in demands.values()) for flow in weights}
    shares = divide_budget(budget(seats), usages)
    asked = {flow: (demand, weights[flow]) for flow, demand in totals.items() if demand}
    fair = filled(seats, asked)

    for name, own in demands.items():
        expected = sum(fair[flow] * demand / totals[flow] for flow, demand in own.items())
        level = shares.members[name].levels.get("web")
        held_back = {flow for flow, demand in own.items() if fair[flow] < totals[flow] and demand < totals[flow]}
        if shares.is_contended:
            assert (0 if level is None else level.amount) == pytest.approx(float(expected * SEAT), abs=20)
            assert (set() if level is None else level.factors.keys()) == held_back
            for flow in held_back:
                assert level is not None
                assert level.factors[flow] == pytest.approx(WEIGHT_ONE * own[flow] / totals[flow], abs=1)
    assert sum(share.amount for share in shares.members.values()) <= seats * SEAT
