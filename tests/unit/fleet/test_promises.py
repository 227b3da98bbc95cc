"""What the members of a fleet keep free for mins."""

from collections.abc import Mapping

import pytest

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fleet.messages import FlowTable, LevelUsage
from apf_middleware.fleet.promises import KeptSeats, moved_promises
from apf_middleware.fleet.shares import MemberShare


def usage(in_use: int, waiting: int = 0, widest: int = 1) -> LevelUsage:
    return LevelUsage(in_use, 0, widest if waiting else 0, FlowTable.of({1: in_use + waiting}))


NONE = usage(0)


def kept(seats: int, web: LevelUsage, gold: LevelUsage = NONE, *, promised: int = 1, most: int = 99) -> KeptSeats:
    """Return what a member keeps for the level ``gold``, of which it is ``promised`` some seats."""
    share = MemberShare()
    share.at("web").amount = 4 * SEAT
    share.at("gold").amount = promised * SEAT
    share.at("gold").promised = promised
    return KeptSeats(share, seats, {"web": web, "gold": gold}, {"gold": most}, {})


def test_a_member_keeps_what_it_is_promised() -> None:
    one = kept(5, usage(4, 9))
    assert one.least == {"web": 0, "gold": 1}
    assert (one.rest(), one.spare()) == ({}, 0)
    assert moved_promises({"a": one, "b": kept(6, usage(4, 9))}) == {}


def test_another_member_keeps_what_one_can_not() -> None:
    """A seat has moved from the first member to the second one."""
    members = {"a": kept(4, usage(4, 9)), "b": kept(6, usage(4, 9)), "c": kept(5, usage(4, 9))}
    assert members["a"].rest() == {"gold": 1}
    assert members["b"].spare() == 1
    assert moved_promises(members) == {"a": {"gold": -1}, "b": {"gold": 1}}


def test_members_keep_no_more_than_they_can_spare() -> None:
    members = {"a": kept(4, usage(4), promised=3), "b": kept(6, usage(4)), "c": kept(9, usage(7))}
    assert moved_promises(members) == {"a": {"gold": -2}, "b": {"gold": 1}, "c": {"gold": 1}}


def test_seats_for_a_level_that_waits_and_has_none_are_not_spare() -> None:
    assert kept(1, usage(0, 1)).least == {"web": 0, "gold": 0}
    assert kept(1, usage(0, 1)).rest() == {"gold": 1}
    assert kept(3, usage(0, 1)).spare() == 1
    assert kept(3, usage(0, 1, 2)).spare() == 0
    assert kept(5, usage(2, 1, 4)).spare() == 0, "the next request needs four seats"
    assert moved_promises({"a": kept(1, usage(1, 1)), "b": kept(1, usage(0, 1))}) == {}


def test_what_requests_want_of_a_min_does_not_move() -> None:
    assert kept(4, usage(4), usage(0, 1)).rest() == {}
    assert kept(4, usage(3), usage(1)).rest() == {}


def test_a_member_keeps_no_more_than_its_part_of_the_max() -> None:
    assert moved_promises({"a": kept(4, usage(4)), "b": kept(6, usage(4), most=1)}) == {}
    assert kept(6, usage(4), most=2).room("gold") == 1
    assert kept(6, usage(4)).room("unknown") == 0


def test_the_seats_of_a_parent_are_for_all_its_children() -> None:
    """One child is promised a seat and uses three, so it uses two of the parent's three seats."""
    share = MemberShare()
    for name, promised in (("one", 1), ("two", 0), ("parent", 3)):
        share.at(name).promised = promised
    families = {"parent": ["one", "two"]}
    member = KeptSeats(share, 8, {"one": usage(3), "web": usage(4)}, {}, families)
    assert member.least == {"one": 1, "two": 0, "parent": 3}
    assert (member.rest(), member.spare()) == ({}, 0)
    assert KeptSeats(share, 7, {"one": usage(3), "web": usage(4)}, {}, families).rest() == {"parent": 1}
    assert KeptSeats(share, 7, {"one": usage(3), "two": usage(0, 1), "web": usage(4)}, {}, families).rest() == {}


def member(seats: int, usages: Mapping[str, LevelUsage], promised: Mapping[str, int], **families: str) -> KeptSeats:
    """Return what a member keeps for several levels; the ``families`` are the names of children of each parent."""
    share = MemberShare()
    for name, one in promised.items():
        share.at(name).promised = one
    return KeptSeats(share, seats, usages, {}, {name: children.split() for name, children in families.items()})


@pytest.mark.parametrize(
    ("seats", "web", "gold", "promised", "least"),
    [
        (5, NONE, NONE, 5, 5),
        (4, NONE, NONE, 6, 4),
        (5, usage(4), NONE, 5, 4),
        (5, NONE, usage(0, 9, 3), 3, 3),
        (3, usage(0, 1, 5), NONE, 2, 0),
        (0, NONE, NONE, 0, 0),
    ],
    ids=["all", "no more", "one for a level that may go on", "its own request fits", "wider than all", "no seats"],
)
def test_promises_leave_a_seat_to_each_level_with_requests(
    seats: int, web: LevelUsage, gold: LevelUsage, promised: int, least: int
) -> None:
    assert kept(seats, web, gold, promised=promised).least == {"web": 0, "gold": least}


def test_promises_leave_the_seats_for_the_widest_request() -> None:
    usages = {"one": usage(0, 1, 1), "two": usage(0, 1, 3), "gold": NONE}
    assert member(8, usages, {"one": 0, "two": 0, "gold": 8}).least["gold"] == 5


def test_free_seats_are_kept_for_one_level_only() -> None:
    found = member(5, {"web": usage(4)}, {"web": 0, "gold": 1, "silver": 1})
    assert found.rest() == {"silver": 1}
    assert member(4, {"web": usage(4)}, {"gold": 1, "silver": 1}).rest() == {"gold": 1, "silver": 1}


def test_seats_that_a_min_uses_already_need_not_be_free() -> None:
    assert kept(6, usage(3), usage(1)).spare() == 2


def test_the_widest_request_of_a_level_without_seats_keeps_them_from_others() -> None:
    usages = {"web": usage(3), "one": usage(0, 1, 1), "two": usage(0, 1, 2)}
    assert member(7, usages, dict.fromkeys(usages, 0)).spare() == 2


def test_a_member_has_no_room_beyond_its_part_of_the_max() -> None:
    assert kept(6, usage(4), promised=3, most=1).room("gold") == 0
    assert kept(6, usage(1), usage(3), most=4).room("gold") == 1


def test_the_unused_promise_of_a_child_is_none_of_the_parent_s_seats_in_use() -> None:
    promised = {"one": 1, "two": 0, "parent": 2}
    assert member(4, {"two": usage(2), "web": usage(2)}, promised, parent="one two").rest() == {"one": 1}


def test_a_spare_seat_is_kept_for_one_level_of_one_member() -> None:
    promised = {"gold": 1, "silver": 1}
    full, other = (member(4, {"web": usage(4)}, promised) for _ in range(2))
    wide = member(7, {"web": usage(4)}, promised)
    assert moved_promises({"a": full, "b": wide}) == {"a": {"gold": -1}, "b": {"gold": 1}}
    spare = member(7, {"web": usage(4)}, {"gold": 1, "silver": 0})
    changes = moved_promises({"a": member(4, {"web": usage(4)}, {"gold": 1}), "b": spare, "c": spare})
    assert changes == {"a": {"gold": -1}, "b": {"gold": 1}}
    assert moved_promises({"a": full, "b": other}) == {}


def test_members_that_miss_different_levels_are_helped_alike() -> None:
    web = {"web": usage(4)}
    members = {"a": member(4, web, {"gold": 1}), "b": member(4, web, {"silver": 1})}
    assert moved_promises({**members, "c": member(8, web, {"gold": 1, "silver": 1})}) == {
        "a": {"gold": -1},
        "b": {"silver": -1},
        "c": {"gold": 1, "silver": 1},
    }


def test_those_that_miss_most_give_up_what_they_were_to_keep() -> None:
    """But no more than they were to keep, and nothing that they can."""
    wide, busy = kept(9, usage(5)), usage(4)
    members = {"a": kept(2, usage(2), promised=3), "b": kept(4, busy, promised=2), "c": wide}
    assert members["a"].least["gold"] == 1
    assert moved_promises(members) == {"a": {"gold": -1}, "b": {"gold": -2}, "c": {"gold": 3}}
    members = {"a": kept(6, busy, promised=3), "b": kept(4, busy, promised=2), "c": kept(7, busy)}
    assert members["a"].rest() == {"gold": 1}
    assert moved_promises(members) == {"b": {"gold": -2}, "c": {"gold": 2}}
