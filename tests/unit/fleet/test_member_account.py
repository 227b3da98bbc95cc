"""The allocator assumes of a member the most seats that it may be using."""

from apf_middleware.fleet.member_account import MemberAccount
from apf_middleware.fleet.messages import Report


def report(number: int, seats: int, in_use: int = 0, sequence: int = 0, epoch: int = 1) -> Report:
    return Report("m", number, epoch, sequence, seats, in_use)


def account(seats: int = 0, floor: int = 0) -> MemberAccount:
    return MemberAccount(report(1, seats), 0, 100, floor)


def test_a_grant_counts_as_soon_as_it_is_sent() -> None:
    one = account(seats=2)
    assert one.debt.owed == 2
    assert one.grant(5) == 1
    assert (one.debt.owed, one.debt.seats) == (5, 5)


def test_a_decrease_counts_only_when_it_is_confirmed() -> None:
    one = account(seats=8)
    one.grant(3)
    assert (one.debt.owed, one.debt.seats) == (8, 3)
    one.receive(report(2, 8), 1, 0, 200, 0)
    assert one.debt.owed == 8, "this report was sent before the grant arrived"
    one.receive(report(3, 3, sequence=1), 1, 0, 200, 0)
    assert one.debt.owed == 3


def test_requests_beyond_a_confirmed_decrease_count_until_they_end() -> None:
    one = account(seats=8)
    one.grant(3)
    one.receive(report(2, 3, in_use=6, sequence=1), 1, 0, 200, 0)
    assert one.debt.owed == 6
    one.receive(report(3, 3, in_use=2, sequence=1), 1, 0, 200, 0)
    assert one.debt.owed == 3


def test_the_largest_of_several_grants_on_their_way_counts() -> None:
    one = account(seats=1)
    for seats in (7, 2, 4):
        one.grant(seats)
    assert one.debt.owed == 7
    one.receive(report(2, 7, sequence=1), 1, 0, 200, 0)
    assert one.debt.owed == 7
    one.receive(report(3, 2, sequence=2), 1, 0, 200, 0)
    assert one.debt.owed == 4, "the last one may still raise the limit"
    one.receive(report(4, 4, sequence=3), 1, 0, 200, 0)
    assert one.debt.owed == 4


def test_a_report_says_whether_others_can_have_seats_or_parts_of_maxes_that_it_gives_back() -> None:
    def receive(number: int, seats: int, part: int) -> bool:
        report = Report("m", number, 1, 0, seats, 0, maxes={"batch": part, "web": 3})
        return one.receive(report, 1, 0, 200, 0)

    one = MemberAccount(Report("m", 1, 1, 0, 8, 0, maxes={"batch": 5, "web": 3}), 0, 100, 0)
    for name in ("batch", "web"):
        one.open_max(name)
    assert not receive(2, 8, 5)
    assert receive(3, 6, 5), "two seats"
    assert receive(4, 6, 2), "three seats of the max of batch"
    assert not receive(5, 7, 2), "it has got more"
    assert not receive(4, 0, 0), "this report is older than the last one"


def test_a_grant_that_was_not_sent_counts_for_no_max() -> None:
    one = MemberAccount(Report("m", 1, 1, 0, 3, 0, maxes={"batch": 2}), 0, 100, 0)
    one.open_max("batch")
    one.grant(8, {"batch": 5})
    assert (one.debt.owed, one.maxes["batch"].owed) == (8, 5), "it counts as soon as it is sent"
    one.retract(7)
    assert (one.debt.owed, one.maxes["batch"].owed) == (3, 2)
    assert (one.granted, one.quiet_until) == ({}, 7), "the member needs another one at once"


def test_a_part_of_a_max_that_a_report_gives_back_is_not_granted_any_more() -> None:
    one = MemberAccount(Report("m", 1, 1, 0, 8, 0, maxes={"batch": 0}), 0, 100, 0)
    assert one.open_max("batch").owed == 0
    one.grant(8, {"batch": 5})
    one.receive(Report("m", 2, 1, 1, 8, 0, maxes={"batch": 2}), 1, 0, 200, 0)
    assert one.granted == {"batch": 2}


def test_a_standing_grant_counts_like_any_other() -> None:
    one = account(seats=2)
    one.open_max("batch")
    one.take(1, 3)
    assert (one.debt.owed, one.debt.seats, one.maxes["batch"].owed) == (3, 3, 3)
    assert (one.grant(3), one.grant(3)) == (2, 3)
    one.take(2, 4)
    assert one.debt.owed == 4
    assert one.grant(4) == 4, "no number is used twice"


def test_a_member_has_had_its_configuration_since_the_first_report_with_it() -> None:
    def with_configuration(number: int, name: str, age_ns: int) -> Report:
        return Report("m", number, 1, 0, 0, 0, name, age_ns=age_ns)

    one = MemberAccount(with_configuration(1, "old", 5), 20, 100, 0)
    assert one.configured_at == 15
    one.receive(with_configuration(2, "old", 26), 1, 40, 200, 0)
    assert one.configured_at == 15, "clocks are compared once"
    one.receive(with_configuration(3, "new", 10), 1, 60, 200, 0)
    assert one.configured_at == 50


def test_earlier_reports_that_arrive_late_are_ignored() -> None:
    one = account(seats=8)
    one.grant(3)
    one.receive(report(3, 3, sequence=1), 1, 0, 300, 0)
    one.receive(report(2, 8), 1, 0, 400, 0)
    assert (one.debt.owed, one.lease_until) == (3, 300)


def test_grants_of_another_epoch_confirm_nothing() -> None:
    one = account(seats=8)
    one.grant(12)
    one.receive(report(2, 8, sequence=9, epoch=0), 1, 0, 200, 0)
    assert one.debt.owed == 12
    assert one.grant(12) == 2


def test_the_same_limit_again_is_one_grant() -> None:
    one = account(seats=0)
    for _ in range(1000):
        one.grant(4)
    assert repr(one) == "<MemberAccount 'm': 4 seats, 4 owed>"
    one.receive(report(2, 4, sequence=999), 1, 0, 200, 0)
    assert one.debt.owed == 4
    one.grant(1)
    one.receive(report(3, 1, sequence=1001), 1, 0, 200, 0)
    assert one.debt.owed == 1


def test_a_debt_is_never_below_the_floor() -> None:
    assert account(floor=2).debt.owed == 2


def test_an_account_that_is_opened_again_goes_on_counting() -> None:
    one = MemberAccount(report(50, 4, sequence=90), 0, 100, 0)
    assert one.grant(2) == 91


def test_a_report_that_comes_late_doesn_t_reset_the_numbers_of_grants() -> None:
    """It opens an account again that had been closed; the member would ignore grants with the numbers it knows."""
    one = MemberAccount(report(4, 3, sequence=2), 0, 100, 0)
    one.receive(report(80, 0, sequence=60), 1, 0, 200, 0)
    assert one.grant(2) == 61


def test_an_outdated_report_doesn_t_extend_the_lease() -> None:
    one = MemberAccount(report(4, 3), 0, 100, 0)
    one.receive(report(4, 3), 1, 0, 900, 0)
    assert one.lease_until == 100
    one.receive(report(5, 3), 1, 0, 900, 0)
    assert one.lease_until == 900


def test_a_report_may_change_the_floor() -> None:
    one = account(floor=5)
    one.receive(report(2, 0), 1, 0, 200, 2)
    assert (one.debt.floor, one.debt.owed) == (2, 2)
