"""The seat ledger alone: promises, counts and limits of levels and of a parent."""

from apf_middleware.fairqueuing import LevelLimits, QueueSet, QueueSetSettings, SharedLevel
from apf_middleware.fairqueuing.sharing.grant import LevelGrant, SeatGrant
from apf_middleware.fairqueuing.sharing.hierarchy import Parent
from apf_middleware.fairqueuing.sharing.ledger import SeatLedger


def level(name: str, least: int, most: int = 100, *, parent: Parent | None = None) -> SharedLevel:
    settings, limits = QueueSetSettings(least, 4, 1, 10), LevelLimits(least, least, max(least, most))
    made = SharedLevel(name, settings, limits, QueueSet(settings, ceiling=limits.max))
    made.parent = parent
    return made


def promised(seats: int, *levels: SharedLevel, parents: tuple[Parent, ...] = ()) -> SeatLedger:
    ledger = SeatLedger()
    ledger.promise(seats, levels, parents)
    for one in levels:
        one.counted = 0
        ledger.count(one, one.least)
    ledger.check(seats, levels, parents)
    return ledger


def test_a_limit_is_what_the_others_leave_between_min_and_max() -> None:
    a, b, c = level("a", 4), level("b", 3), level("c", 0, 2)
    ledger = promised(10, a, b, c)

    assert (ledger.total, ledger.free) == (10, 3)
    assert [ledger.limit_of(one) for one in (a, b, c)] == [7, 6, 2]
    ledger.count(a, 7)
    assert [ledger.limit_of(one) for one in (a, b, c)] == [7, 3, 0]


def test_promises_beyond_the_server_s_seats_are_kept() -> None:
    a, b = level("a", 4), level("b", 8)
    ledger = promised(10, a, b)

    assert (ledger.total, ledger.free) == (12, 0)
    assert [ledger.limit_of(one) for one in (a, b)] == [4, 8]


def test_children_have_what_their_siblings_leave_of_the_parent_s_limit() -> None:
    parent = Parent("family", LevelLimits(6, 6, 8), weight=1, kept=0)
    a, b, other = level("a", 2, parent=parent), level("b", 0, parent=parent), level("other", 2)
    ledger = promised(12, a, b, other, parents=(parent,))

    assert (parent.least, parent.counted, ledger.free) == (6, 6, 4)
    assert [ledger.limit_of(one) for one in (a, b)] == [8, 6]
    ledger.count(b, 6)
    assert (parent.total, parent.counted, ledger.free) == (8, 8, 2)
    assert [ledger.limit_of(one) for one in (a, b, other)] == [2, 6, 4]


def test_a_draining_level_keeps_what_it_had_and_new_mins_wait() -> None:
    old, new = level("old", 5), level("new", 5)
    old.is_draining, old.kept, new.kept = True, 5, 0
    old.queueset.waiting = 1
    ledger = promised(10, old, new)

    assert (old.least, new.least) == (5, 0)
    assert ledger.free == 5


def test_a_draining_level_whose_requests_wait_for_gates_has_no_claim_to_seats_and_new_mins_wait() -> None:
    old, new = level("old", 5), level("new", 5)
    old.is_draining, old.kept, new.kept = True, 5, 0
    old.queueset.parked = 1
    ledger = promised(10, old, new)

    assert (old.least, new.least) == (0, 0)
    assert ledger.free == 10
    old.queueset.waiting = 1
    assert promised(10, old, new).free == 10, "it doesn't get back what others may use already"


def test_children_that_drain_keep_their_seats_within_the_min_of_their_parent_and_one_beyond_it() -> None:
    for least, expected in ((5, 5), (2, 1)):
        parent = Parent("family", LevelLimits(least, least, 8), weight=1, kept=least)
        old, other = level("old", 5, parent=parent), level("other", 3)
        old.is_draining, old.kept, other.kept = True, 5, 3
        old.queueset.waiting = 1
        ledger = promised(5, old, other, parents=(parent,))

        assert (old.least, parent.least, other.least) == (expected, least, 3)
        assert ledger.total == max(5, least + 3), "the mins in force, and not more"


def test_a_child_that_drains_keeps_one_seat_if_the_min_of_its_parent_has_none_for_it() -> None:
    """Otherwise its requests would wait on an idle server."""
    for kept, sibling_least, expected in ((0, 0, 1), (2, 2, 1), (2, 1, 0)):
        parent = Parent("family", LevelLimits(kept, kept, 8), weight=1, kept=kept)
        old, sibling = level("old", 0, parent=parent), level("sibling", sibling_least, parent=parent)
        other = level("other", 5)
        old.is_draining, sibling.kept, other.kept = True, sibling_least, 5
        old.queueset.waiting = 1
        ledger = promised(5, old, sibling, other, parents=(parent,))

        assert old.least == expected
        assert ledger.limit_of(old) == 1


def test_a_level_that_is_held_has_no_seats() -> None:
    a = level("a", 4)
    ledger = promised(10, a)
    a.is_held = True

    assert ledger.limit_of(a) == 0


def test_a_grant_promises_seats_to_the_children_of_a_parent_together() -> None:
    parent = Parent("family", LevelLimits(6, 6, 8), weight=1, kept=0)
    a, b, other = level("a", 2, parent=parent), level("b", 0, parent=parent), level("other", 0)
    levels, ledger = (a, b, other), promised(12, level("other", 0))

    def restrict(seats: int, least: int = 2) -> tuple[int, int, int]:
        parts = {"a": LevelGrant(1, 1), "b": LevelGrant(1), "family": LevelGrant(1, least)}
        ledger.promise(12, levels, (parent,))
        ledger.restrict(SeatGrant(seats, levels=parts), levels, (parent,))
        for one in levels:
            one.counted = 0
            ledger.count(one, max(one.queueset.seats_in_use, one.least))
        ledger.check(seats, levels, (parent,))
        return parent.least, ledger.limit_of(b), ledger.limit_of(other)

    assert restrict(5) == (3, 4, 2)
    assert restrict(12, least=20) == (8, 7, 4), "no more than the max"
    other.queueset.seats_in_use = 3
    assert restrict(5) == (0, 0, 2), "two seats aren't enough for three, so they are withheld"
    assert ledger.withheld == 3
    other.queueset.seats_in_use, b.queueset.seats_in_use = 2, 2
    assert restrict(5) == (3, 2, 2), "one child uses what the parent is promised"
    a.is_closing = b.is_closing = True
    b.queueset.seats_in_use = 0
    assert restrict(5)[0] == 0


def granted(grant: SeatGrant, *levels: SharedLevel, parents: tuple[Parent, ...] = ()) -> SeatLedger:
    """Return a ledger that is restricted by ``grant``; the server has twelve seats of its own."""
    ledger = SeatLedger()
    ledger.promise(12, levels, parents)
    ledger.restrict(grant, levels, parents)
    for one in levels:
        one.counted = 0
        ledger.count(one, max(one.queueset.seats_in_use, one.least))
    ledger.check(grant.seats, levels, parents)
    return ledger


def test_the_parts_of_maxes_in_a_grant_bound_levels_and_parents() -> None:
    for part, of_level, of_child in ((2, 2, 2), (99, 6, 8)):
        parent = Parent("family", LevelLimits(0, 0, 8), weight=1, kept=0)
        a, b, child = level("a", 0, 6), level("b", 0), level("child", 0, parent=parent)
        grant = SeatGrant(10, maxes={"a": part, "family": part})
        ledger = granted(grant, a, b, child, parents=(parent,))

        assert [ledger.limit_of(one) for one in (a, b, child)] == [of_level, 10, of_child]


def test_the_max_of_a_parent_in_a_fleet_is_neither_the_server_s_nor_a_larger_part() -> None:
    for most, expected in ((8, 3), (20, 10)):
        parent = Parent("family", LevelLimits(0, 0, most), weight=1, kept=0)
        a, b = level("a", 0, parent=parent), level("b", 0, parent=parent)
        a.queueset.seats_in_use = 5

        assert granted(SeatGrant(15, maxes={"family": 99}), a, b, parents=(parent,)).limit_of(b) == expected


def test_a_grant_promises_a_level_no_more_than_its_max_and_nothing_that_it_does_not_name() -> None:
    a, unnamed, leaving, without = level("a", 4, 6), level("unnamed", 2), level("leaving", 2), level("without", 0)
    a.kept, unnamed.kept, leaving.kept = 4, 2, 2
    leaving.is_draining, leaving.queueset.waiting = True, 1
    parts = {"a": LevelGrant(1, 9), "leaving": LevelGrant(1, 2), "without": LevelGrant(1, 2)}
    granted(SeatGrant(10, levels=parts), a, unnamed, leaving, without)

    assert [one.least for one in (a, unnamed, leaving, without)] == [6, 0, 0, 0]


def test_a_grant_promises_children_no_more_than_the_part_of_their_parent() -> None:
    parent = Parent("family", LevelLimits(4, 4, 8), weight=1, kept=0)
    a, b, other = level("a", 2, parent=parent), level("b", 2, parent=parent), level("other", 3)
    parts = {name: LevelGrant(1, 2) for name in ("a", "b", "other")}
    b.queueset.seats_in_use = 2
    granted(SeatGrant(10, levels=parts, maxes={"family": 3}), a, b, other, parents=(parent,))

    assert [one.least for one in (a, b, other)] == [1, 2, 2]


def test_what_a_min_uses_already_is_not_missing() -> None:
    a, other = level("a", 3), level("other", 0)
    a.queueset.seats_in_use, other.queueset.seats_in_use = 2, 2
    ledger = granted(SeatGrant(5, levels={"a": LevelGrant(1, 3)}), a, other)

    assert (a.least, ledger.withheld, ledger.limit_of(other)) == (3, 0, 2)


def test_seats_are_withheld_until_there_are_enough_for_a_min() -> None:
    for seats, own, others, least, withheld, limit in ((5, 0, 5, 0, 3, 2), (5, 1, 3, 1, 2, 2), (5, 1, 6, 0, 0, 4)):
        a, other = level("a", 3), level("other", 0)
        a.queueset.seats_in_use, other.queueset.seats_in_use = own, others
        ledger = granted(SeatGrant(seats, levels={"a": LevelGrant(1, 3)}), a, other)

        assert (a.least, ledger.withheld, ledger.limit_of(other)) == (least, withheld, limit)


def test_seats_are_withheld_until_there_are_enough_for_the_min_of_a_parent() -> None:
    for own, others, used, least, withheld in (
        (0, 4, 1, 0, 3),
        (1, 3, 1, 1, 2),
        (1, 6, 1, 0, 0),
        (3, 1, 1, 3, 0),
        (4, 1, 1, 3, 0),
        (4, 2, 0, 3, 1),
    ):
        parent = Parent("family", LevelLimits(3, 3, 8), weight=1, kept=0)
        child, other, a = level("child", 0, parent=parent), level("other", 0), level("a", 1)
        child.queueset.seats_in_use, other.queueset.seats_in_use, a.queueset.seats_in_use = own, others, used
        parts = {"family": LevelGrant(1, 3), "child": LevelGrant(1), "a": LevelGrant(1, 1)}
        ledger = granted(SeatGrant(6, levels=parts), child, other, a, parents=(parent,))

        assert (parent.least, ledger.withheld) == (least, withheld)
