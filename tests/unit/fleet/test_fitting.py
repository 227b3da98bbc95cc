"""What a member can't use of a level's max goes to members that can."""

from collections.abc import Mapping

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fleet.fitting import fit_shares
from apf_middleware.fleet.messages import FlowTable, LevelUsage
from apf_middleware.fleet.shares import MemberShare


def fitted(
    amounts: Mapping[str, Mapping[str, float]], demands: Mapping[str, Mapping[str, int]], **parts: int
) -> dict[str, dict[str, float]]:
    """Return the amounts of members at levels, after they have been fitted into these parts."""
    shares = {}
    for member, levels in amounts.items():
        share = shares[member] = MemberShare()
        for name, amount in levels.items():
            share.at(name).amount = round(amount * SEAT)
    usages = {
        member: {name: LevelUsage(flows=FlowTable.of({1: seats})) for name, seats in levels.items()}
        for member, levels in demands.items()
    }
    names = sorted({name for one in amounts.values() for name in one})
    fit_shares(shares, names, {member: part * SEAT for member, part in parts.items()}, usages)
    return {
        member: {name: round(share.amount_of(name) / SEAT, 3) for name in names} for member, share in shares.items()
    }


def test_the_share_of_a_member_without_a_part_goes_to_those_with_one() -> None:
    third = {"web": 2 / 3}
    hungry = {"web": 9}
    assert fitted(dict.fromkeys("abc", third), dict.fromkeys("abc", hungry), a=1, b=1, c=0) == {
        "a": {"web": 1},
        "b": {"web": 1},
        "c": {"web": 0},
    }


def test_nothing_moves_where_all_shares_fit() -> None:
    amounts, hungry = {"a": {"web": 1.5}, "b": {"web": 0.5}}, {"web": 9}
    assert fitted(amounts, {"a": hungry, "b": hungry}, a=2, b=1) == amounts


def test_nobody_gets_more_than_it_demands_and_nothing_is_lost() -> None:
    found = fitted({"a": {"web": 3}, "b": {"web": 1}}, {"a": {"web": 9}, "b": {"web": 2}}, a=1, b=5)
    assert found == {"a": {"web": 2}, "b": {"web": 2}}


def test_the_children_of_a_parent_share_one_part() -> None:
    found = fitted(
        {"a": {"x": 1, "y": 3}, "b": {"x": 0.5, "y": 0}}, {"a": {"x": 9, "y": 9}, "b": {"x": 9, "y": 9}}, a=2, b=9
    )
    assert found == {"a": {"x": 0.5, "y": 1.5}, "b": {"x": 2.5, "y": 0}}


def test_a_level_that_only_one_member_has_uses_all_of_its_part() -> None:
    """Its share is a quarter of a seat, so it has a whole one for a quarter of the time."""
    hungry = {"a": {"x": 9}, "b": {"y": 9}}
    amounts = {"a": {"x": 0.25}, "b": {"y": 0.75}}
    assert fitted(amounts, hungry, a=1, b=0) == {"a": {"x": 1, "y": 0}, "b": {"x": 0, "y": 0}}
    assert fitted(amounts, hungry, a=0, b=1) == {"a": {"x": 0, "y": 0}, "b": {"x": 0, "y": 1}}


def test_levels_of_one_member_get_more_in_proportion_to_their_shares() -> None:
    found = fitted(
        {"a": {"x": 1, "y": 3}, "b": {"x": 4, "y": 0}}, {"a": {"x": 9, "y": 9}, "b": {"x": 9, "y": 9}}, a=8, b=0
    )
    assert found == {"a": {"x": 2, "y": 6}, "b": {"x": 0, "y": 0}}


def test_members_that_have_requests_of_other_levels_only_get_nothing() -> None:
    found = fitted({"a": {"web": 2}, "b": {}}, {"a": {"web": 9}, "b": {"other": 9}}, a=1, b=5)
    assert found == {"a": {"web": 2}, "b": {"web": 0}}, "nobody else can use it"
