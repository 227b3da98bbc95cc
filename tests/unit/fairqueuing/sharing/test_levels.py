"""Shared levels through reconfigurations: opened, kept, drained, revived and forgotten."""

from functools import partial

from apf_middleware.fairqueuing import LevelLimits, QueueSet, QueueSetSettings, Ticket, Work
from apf_middleware.fairqueuing.sharing.hierarchy import NO_HIERARCHY
from apf_middleware.fairqueuing.sharing.levels import SharedLevels

QUEUED = QueueSetSettings(2, 1, 1, 10)
EXEMPT = QueueSetSettings.without_limit()


def limits(least: int) -> LevelLimits:
    return LevelLimits(2, least, 10)


def opened(**wanted: int) -> SharedLevels:
    levels = SharedLevels(partial(QueueSet, guess_ns=1), may_rest=True)
    adopt(levels, **wanted)
    return levels


def adopt(levels: SharedLevels, **wanted: int) -> None:
    levels.adopt(0, {name: (QUEUED, limits(least)) for name, least in wanted.items()}, NO_HIERARCHY)
    levels.check()


def busy(levels: SharedLevels, name: str) -> None:
    levels.by_name[name].queueset.arrive(0, Ticket("flow", 1, Work()))


def test_levels_stay_the_same_objects_when_they_are_still_wanted() -> None:
    levels = opened(a=1, b=1)
    a = levels.by_name["a"]
    adopt(levels, a=2)

    assert list(levels) == [a]
    assert (a.limits.min, a.kept) == (2, 1), "while another one drains, the min that it had before is sure"


def test_a_level_with_requests_drains_and_is_revived_under_its_name() -> None:
    levels = opened(a=1, b=1)
    busy(levels, "b")
    b = levels.by_name["b"]
    adopt(levels, a=1)
    assert (levels.draining, b.is_draining, b.queueset.is_quiescing) == ([b], True, True)
    adopt(levels, a=1, b=1)

    assert levels.by_name["b"] is b
    assert not levels.draining
    assert not b.queueset.is_quiescing


def test_a_level_that_is_over_or_of_another_kind_is_not_revived() -> None:
    levels = opened(a=1, b=1)
    busy(levels, "a")
    busy(levels, "b")
    a, b = levels
    a.is_over = True
    levels.adopt(0, {"a": (QUEUED, limits(1)), "b": (EXEMPT, LevelLimits(0, 0, 0))}, NO_HIERARCHY)

    assert levels.draining == [a, b]
    assert levels.by_name["a"] is not a
    assert levels.forget(a)
    assert not levels.forget(a)


def test_only_a_level_that_is_over_is_held_when_it_begins_to_drain() -> None:
    levels = opened(a=1, b=1)
    for level in levels:
        busy(levels, level.name)
    a, b = levels
    a.is_held, b.is_over = True, True
    adopt(levels)

    assert (levels.draining, a.is_held, b.is_held) == ([a, b], False, True)


def test_levels_that_drain_or_close_are_those_that_leave() -> None:
    levels = opened(a=1, b=1, c=1)
    busy(levels, "b")
    adopt(levels, a=1, c=1)
    levels.operate(levels.by_name["c"], held=False, closing=True)

    assert [level.name for level in levels.leaving()] == ["c", "b"]
