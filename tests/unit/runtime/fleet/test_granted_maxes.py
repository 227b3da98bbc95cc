"""A member tells at once what it doesn't need of a part that others want."""

import pytest

from apf_middleware.fairqueuing import Lending, LevelLimits, QueueSetSettings, Ticket, Work
from apf_middleware.fairqueuing.sharing.grant import SeatGrant
from apf_middleware.fairqueuing.sharing.hierarchy import Hierarchy
from apf_middleware.runtime.fleet.granted_maxes import GrantedMaxes


class Member:
    """Two levels with one parent, with parts of their maxes."""

    def __init__(self) -> None:
        wanted = {name: (QueueSetSettings(8, 4, 1, 100), LevelLimits(8, 0, 8)) for name in ("a", "b")}
        hierarchy = Hierarchy({"p": LevelLimits(8, 0, 8)}, {"a": "p", "b": "p"})
        self.lending = Lending(8, wanted, hierarchy=hierarchy)
        self.maxes = GrantedMaxes(self.lending)

    def grant(self, *scarce: str, **parts: int) -> bool:
        self.lending.restrict(0, SeatGrant(8, maxes=parts))
        return self.maxes.adopt(parts, scarce)

    def arrive(self, level: str) -> Ticket:
        ticket = Ticket("flow", 1, Work())
        self.lending.arrive(0, self.lending.levels[level], ticket)
        return ticket

    def release(self, level: str, ticket: Ticket) -> None:
        self.lending.release(0, self.lending.levels[level], ticket)


def test_a_part_that_has_become_smaller_is_confirmed_at_once() -> None:
    member = Member()
    assert member.grant(a=3), "before, nothing was divided"
    assert not member.grant(a=3)
    assert not member.grant(a=4)
    assert member.grant(a=2)


def test_requests_beyond_a_smaller_part_are_told_as_they_end() -> None:
    member = Member()
    member.grant(a=3)
    tickets = [member.arrive("a") for _ in range(3)]
    assert not member.grant(a=1), "nothing is free for others"
    assert member.maxes.report() == {"a": 3}
    assert not member.maxes.has_news()
    member.release("a", tickets[0])
    assert member.maxes.has_news()
    assert member.maxes.report() == {"a": 2}
    member.release("a", tickets[1])
    member.maxes.report()
    member.release("a", tickets[2])
    assert not member.maxes.has_news(), "only what ran beyond the part"


@pytest.mark.parametrize("scarce", [True, False])
def test_what_isn_t_used_is_given_back_if_others_want_it(*, scarce: bool) -> None:
    member = Member()
    member.grant(*(["a"] if scarce else []), a=3)
    ticket = member.arrive("a")
    assert member.maxes.has_news() is scarce
    assert member.maxes.give_back() == ({"a": 1} if scarce else {})
    assert not member.maxes.has_news()
    member.release("a", ticket)
    assert member.maxes.has_news() is scarce


def test_a_part_is_kept_while_requests_wait_for_it() -> None:
    member = Member()
    member.grant("a", a=1)
    first, second = member.arrive("a"), member.arrive("a")
    assert second.is_waiting
    member.release("a", first)
    assert not member.maxes.has_news()


def test_the_part_of_a_parent_counts_all_its_levels() -> None:
    member = Member()
    member.grant("p", p=2)
    first = member.arrive("a")
    member.arrive("b")
    assert member.arrive("b").is_waiting
    assert member.maxes.report() == {"p": 2}
    assert repr(member.maxes) == "<GrantedMaxes {'p': 2}>"
    member.release("a", first)
    assert not member.maxes.has_news(), "the third request has the seat"


def test_requests_of_a_level_that_a_reload_moves_below_a_parent_count_from_the_next_report() -> None:
    member = Member()
    wanted = {name: (QueueSetSettings(8, 4, 1, 100), LevelLimits(8, 0, 8)) for name in ("a", "b")}
    parents = {"p": LevelLimits(8, 0, 8)}
    member.lending.reconfigure(0, 8, wanted, Hierarchy(parents, {"a": "p"}))
    member.grant(p=1)
    for name in "abb":
        member.arrive(name)
    assert member.maxes.report() == {"p": 1}
    member.lending.reconfigure(0, 8, wanted, Hierarchy(parents, {"a": "p", "b": "p"}))
    assert member.maxes.report() == {"p": 3}


def test_without_divided_maxes_there_is_nothing_to_tell() -> None:
    member = Member()
    assert not member.grant()
    assert (member.maxes.has_news(), member.maxes.give_back(), member.maxes.report()) == (False, {}, {})
