"""Virtual time."""

import pytest

from apf_middleware.simulation.agenda import Agenda, Deadlines, VirtualAlarm


def test_events_happen_by_time_and_then_as_they_were_planned() -> None:
    agenda = Agenda()
    seen: list[tuple[int, str]] = []

    def note(name: str) -> None:
        seen.append((agenda.now, name))

    agenda.at(20, note, "c")
    agenda.at(10, note, "a")
    agenda.at(10, note, "b")
    events = agenda.run()

    assert seen == [(10, "a"), (10, "b"), (20, "c")]
    assert events == 3


def test_what_is_planned_for_the_past_happens_now() -> None:
    agenda = Agenda()
    seen: list[int] = []

    def later(_: None) -> None:
        agenda.at(5, lambda _: seen.append(agenda.now), None)

    agenda.at(10, later, None)
    agenda.run()

    assert seen == [10]


def test_nothing_happens_after_the_stop() -> None:
    agenda = Agenda()
    seen: list[int] = []
    agenda.at(1, lambda _: agenda.stop(), None)
    agenda.at(2, seen.append, 2)
    agenda.run()

    assert seen == []
    assert "1 events" in repr(agenda)


def test_a_deadline_rings_for_those_only_that_still_need_it() -> None:
    agenda = Agenda()
    rung: list[tuple[int, str]] = []
    over: set[str] = set()
    deadlines: Deadlines[str] = Deadlines(agenda, lambda one: rung.append((agenda.now, one)), over.__contains__)
    for at, name in ((10, "a"), (10, "b"), (20, "c"), (30, "d")):
        deadlines.add(at, name)
    agenda.at(5, over.add, "b")
    agenda.at(25, over.add, "d")
    agenda.run()

    assert rung == [(10, "a"), (20, "c")]
    assert len(deadlines) == 0


def test_deadlines_that_are_over_take_no_room() -> None:
    deadlines: Deadlines[int] = Deadlines(Agenda(), print, lambda number: number < 9_999)
    for number in range(10_000):
        deadlines.add(1_000_000, number)

    assert len(deadlines) == 1


def test_deadlines_can_be_used_again_when_all_were_over() -> None:
    agenda = Agenda()
    rung: list[int] = []
    deadlines: Deadlines[int] = Deadlines(agenda, rung.append, lambda _: False)
    deadlines.add(10, 1)
    agenda.at(50, lambda _: deadlines.add(60, 2), None)
    agenda.run()

    assert rung == [1, 2]
    assert agenda.now == 60


@pytest.mark.parametrize(("asked", "expected"), [((30, 10), [10]), ((10, 30), [10]), ((10, 10), [10])])
def test_an_alarm_rings_once_at_the_earliest(asked: tuple[int, int], expected: list[int]) -> None:
    agenda = Agenda()
    rung: list[int] = []
    alarm = VirtualAlarm(agenda, lambda: rung.append(agenda.now))
    for at in asked:
        alarm.ask(at)
    agenda.run()

    assert rung == expected


def test_an_alarm_can_be_asked_again() -> None:
    agenda = Agenda()
    rung: list[int] = []
    alarm = VirtualAlarm(agenda, lambda: rung.append(agenda.now))
    alarm.ask(10)
    agenda.at(15, alarm.ask, 40)
    agenda.run()

    assert rung == [10, 40]
