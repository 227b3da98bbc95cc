"""What the members of a fleet keep free for mins."""

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
