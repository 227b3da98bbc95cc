"""Which grants a member obeys, and for how long."""

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.sharing.grant import LevelGrant
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.membership import MemberConfiguration, Membership
from apf_middleware.fleet.messages import Grant, LevelPart

LEASE = 1000


def membership(floor: int = 0) -> Membership:
    one = Membership("m", lease_ns=LEASE, floor=floor)
    one.join(1)
    return one


def grant(sequence: int, report: int, seats: int, epoch: int = 1) -> Grant:
    return Grant(epoch, sequence, report, seats)


def test_without_a_grant_a_member_has_its_floor() -> None:
    one = membership(floor=2)
    assert one.seats(0) == one.seats(10**12) == 2
    report = one.report(5, 1, {})
    assert (report.member, report.number, report.epoch, report.sequence, report.seats) == ("m", 1, 1, 0, 2)


def test_a_lease_begins_when_the_report_is_sent() -> None:
    one = membership(floor=1)
    one.report(100, 0, {})
    one.report(300, 0, {})
    assert one.receive(700, grant(1, 1, 8))
    assert one.waited(700) == 600
    assert (one.seats(1099), one.seats(1100)) == (8, 1)
    assert one.receive(800, grant(2, 2, 6))
    assert (one.seats(1299), one.seats(1300)) == (6, 1)
    assert one.limit.lease_until == 1300
    assert one.report(1299, 0, {}).seats == 6
    late = one.report(1300, 0, {})
    assert (late.seats, late.sequence) == (1, 2)


def test_a_grant_whose_lease_has_ended_is_ignored() -> None:
    one = membership()
    one.report(0, 0, {})
    assert not one.receive(LEASE, grant(1, 1, 8))
    assert one.seats(LEASE) == 0


def test_a_grant_that_answers_an_unknown_report_is_ignored() -> None:
    one = membership()
    one.report(0, 0, {})
    assert not one.receive(1, grant(1, 2, 8))


def test_repeated_and_reordered_grants_are_ignored() -> None:
    one = membership()
    one.report(0, 0, {})
    assert one.receive(1, grant(2, 1, 4))
    assert not one.receive(2, grant(1, 1, 9))
    assert not one.receive(2, grant(2, 1, 9))
    assert one.seats(3) == 4


def test_a_member_obeys_the_epoch_that_it_reports_to() -> None:
    one = membership()
    one.report(0, 0, {})
    assert one.receive(1, grant(7, 1, 4))
    one.join(2)
    one.join(1)
    assert one.epoch == 2
    assert one.seats(2) == 4, "its lease goes on"
    assert not one.receive(2, grant(8, 1, 9)), "of an allocator that has been replaced"
    report = one.report(3, 0, {})
    assert (report.epoch, report.sequence, report.seats) == (2, 0, 4)
    assert not one.receive(4, grant(1, report.number, 9, epoch=3))
    assert one.receive(4, grant(1, report.number, 5, epoch=2))
    assert one.report(5, 0, {}).sequence == 1


def test_a_grant_becomes_the_limit_of_the_levels() -> None:
    one = membership(floor=1)
    one.report(0, 0, {})
    one.receive(1, Grant(1, 1, 1, 4, levels={"web": LevelPart(4096, 2, {5: 9})}))
    assert (one.limit.seats, one.limit.fallback) == (4, 1)
    assert one.limit.levels == {"web": LevelGrant(4096, 2)}
    assert one.answered_at == 1
    assert repr(one) == "<Membership of 'm': 4 seats in epoch 1>"


def test_a_grant_may_answer_any_report_of_the_last_lease() -> None:
    one = membership()
    for number in range(1, 21):
        one.report(number * 100, 0, {})
    assert not one.receive(2000, grant(1, 10, 8)), "it was sent a lease ago"
    assert one.receive(2000, grant(2, 11, 7))
    assert one.limit.lease_until == 1100 + LEASE
    assert one.receive(2000, grant(3, 20, 6))
    assert one.limit.lease_until == 2000 + LEASE
    assert one.receive(2000, grant(4, 15, 5)), "a later grant, although it answers an earlier report"
    assert one.limit.lease_until == 1500 + LEASE
    for unknown in (0, 21, 10**15):
        assert not one.receive(2000, grant(5, unknown, 9))


def test_only_the_reports_of_one_lease_are_remembered() -> None:
    one = membership()
    for number in range(100_000):
        one.report(number, 0, {})
    assert len(one._sent) <= LEASE + 1


@pytest.mark.parametrize(("lease_ns", "floor"), [(0, 0), (1.5, 0), (5, -1)])
def test_wrong_numbers_are_refused(lease_ns: int, floor: int) -> None:
    with pytest.raises((InvalidValueError, TypeError)):
        Membership("m", lease_ns=lease_ns, floor=floor)


def test_a_higher_floor_holds_when_the_allocator_has_set_it_aside() -> None:
    one = membership(floor=1)
    higher, lower = (MemberConfiguration(str(floor), 0, Budget(40, floor=floor)) for floor in (3, 0))
    one.report(0, 0, {}, higher)
    assert one.seats(0) == 1
    one.receive(1, Grant(1, 1, 1, 4, configuration="1"))
    one.report(2, 0, {}, higher)
    assert one.limit.fallback == 1
    one.receive(3, Grant(1, 2, 2, 4, configuration="3"))
    one.report(4, 0, {}, higher)
    assert (one.limit.seats, one.limit.fallback) == (4, 3)
    one.report(5, 0, {}, lower)
    assert (one.limit.seats, one.limit.fallback) == (4, 0), "a lower one holds at once"


def test_a_member_without_a_grant_has_the_floor_of_its_configuration() -> None:
    one = membership(floor=3)
    assert one.report(0, 0, {}, MemberConfiguration("1", 0, Budget(40, floor=1))).seats == 1


def test_a_member_can_give_seats_back_before_it_is_told_to() -> None:
    one = Membership("m", lease_ns=100, floor=1)
    one.report(0, 0, {})
    one.receive(1, Grant(0, 1, 1, 5, levels={"web": LevelPart(4096, 4)}))
    assert not one.lower(1, 5)
    assert one.lower(1, 3)
    assert one.report(2, 3, {}).seats == 3
    assert one.limit.levels["web"].least == 0, "promises must not exceed the seats"
    assert one.limit.lease_until == 100
    assert one.lower(2, 0)
    assert one.seats(2) == 1, "never below its floor"
    assert not one.lower(2, 0)


def test_parts_of_maxes_are_those_of_the_lease() -> None:
    one = membership(floor=1)
    one.report(0, 0, {})
    one.receive(1, Grant(1, 1, 1, 8, maxes={"web": 3, "batch": 1}))
    assert one.limit.maxes == one.maxes(LEASE - 1) == {"web": 3, "batch": 1}
    report = one.report(2, 5, {}, used={"web": 4, "batch": 1, "new": 3})
    assert (report.maxes, report.exceeded) == ({"web": 3, "batch": 1}, {"web": 4})
    one.lower_maxes({"web": 2})
    assert one.report(3, 2, {}, used={"web": 2}).maxes == {"web": 2, "batch": 1}
    assert one.maxes(LEASE) == {}
    report = one.report(LEASE, 1, {}, used={"web": 1})
    assert (report.maxes, report.exceeded) == ({}, {})


def test_maxes_that_are_new_here_are_held_until_a_report_of_later_is_answered() -> None:
    one = membership()
    one.report(0, 0, {})
    one.receive(1, Grant(1, 1, 1, 8, maxes={"web": 3}))
    one.report(2, 0, {})
    one.hold_maxes({"new": 1})
    assert one.maxes(3) == {"web": 3, "new": 1}
    one.hold_maxes({"other": 0})
    one.receive(4, Grant(1, 2, 2, 8, maxes={"web": 2}))
    assert one.maxes(4) == {"web": 2, "new": 1, "other": 0}
    assert one.report(5, 0, {}).maxes == {"web": 2, "new": 1, "other": 0}
    one.receive(6, Grant(1, 3, 2, 8, maxes={"new": 2}))
    assert one.maxes(6) == {"new": 2, "other": 0}, "another allocator may have divided it already"
    one.receive(7, Grant(1, 4, 3, 8))
    assert one.maxes(7) == {}
    one.report(8, 0, {})
    one.receive(9, Grant(1, 5, 4, 8))
    assert one.maxes(9) == {}
