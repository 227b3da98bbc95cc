"""Virtual time."""

import pytest

from apf_middleware.runtime.event_queue import EventQueue, FifoTimeouts, VirtualTimer


def test_events_run_by_time_and_then_in_the_order_of_scheduling() -> None:
    events = EventQueue()
    seen: list[tuple[int, str]] = []

    def note(name: str) -> None:
        seen.append((events.now, name))

    events.at(20, note, "c")
    events.at(10, note, "a")
    events.at(10, note, "b")
    count = events.run()

    assert seen == [(10, "a"), (10, "b"), (20, "c")]
    assert count == 3


def test_an_event_in_the_past_runs_now() -> None:
    events = EventQueue()
    seen: list[int] = []

    def later(_: None) -> None:
        events.at(5, lambda _: seen.append(events.now), None)

    events.at(10, later, None)
    events.run()

    assert seen == [10]


def test_no_event_runs_after_a_stop() -> None:
    events = EventQueue()
    seen: list[int] = []
    events.at(1, lambda _: events.stop(), None)
    events.at(2, seen.append, 2)
    events.run()

    assert seen == []
    assert "1 events" in repr(events)


def test_timeouts_expire_only_for_subjects_that_are_not_over() -> None:
    events = EventQueue()
    rung: list[tuple[int, str]] = []
    over: set[str] = set()
    deadlines: FifoTimeouts[str] = FifoTimeouts(events, lambda one: rung.append((events.now, one)), over.__contains__)
    for at, name in ((10, "a"), (10, "b"), (20, "c"), (30, "d")):
        deadlines.add(at, name)
    events.at(5, over.add, "b")
    events.at(25, over.add, "d")
    events.run()

    assert rung == [(10, "a"), (20, "c")]
    assert len(deadlines) == 0


def test_timeouts_that_are_over_are_dropped() -> None:
    deadlines: FifoTimeouts[int] = FifoTimeouts(EventQueue(), print, lambda number: number < 9_999)
    for number in range(10_000):
        deadlines.add(1_000_000, number)

    assert len(deadlines) == 1


def test_timeouts_can_be_added_after_all_were_over() -> None:
    events = EventQueue()
    rung: list[int] = []
    deadlines: FifoTimeouts[int] = FifoTimeouts(events, rung.append, lambda _: False)
    deadlines.add(10, 1)
    events.at(50, lambda _: deadlines.add(60, 2), None)
    events.run()

    assert rung == [1, 2]
    assert events.now == 60


@pytest.mark.parametrize(("asked", "expected"), [((30, 10), [10]), ((10, 30), [10]), ((10, 10), [10])])
def test_a_timer_fires_once_at_the_earliest_time(asked: tuple[int, int], expected: list[int]) -> None:
    events = EventQueue()
    rung: list[int] = []
    alarm = VirtualTimer(events, lambda: rung.append(events.now))
    for at in asked:
        alarm.ask(at)
    events.run()

    assert rung == expected


def test_a_timer_can_be_set_again() -> None:
    events = EventQueue()
    rung: list[int] = []
    alarm = VirtualTimer(events, lambda: rung.append(events.now))
    alarm.ask(10)
    events.at(15, alarm.ask, 40)
    events.run()

    assert rung == [10, 40]


def test_events_can_be_run_one_by_one() -> None:
    events = EventQueue()
    seen: list[str] = []
    assert events.next_at() is None

    events.at(20, seen.append, "b")
    events.at(10, seen.append, "a")
    assert events.next_at() == 10
    events.step()

    assert (seen, events.now, events.next_at()) == (["a"], 10, 20)
