"""Callers: closed and open loops, phases, durations that change, and what is observed of them."""

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import QueueSetSettings, Work
from apf_middleware.testing import Caller, observe

SECOND = 10**9
ALWAYS = ((0, 10 * SECOND),)


def level(seats: int) -> QueueSetSettings:
    return QueueSetSettings(seats, 1, 1, 100, exact=8)


def test_each_connection_calls_again_when_it_has_been_served_and_has_paused() -> None:
    caller = Caller(2, (SECOND,), ALWAYS, think_ns=SECOND)

    seen = observe(level(2), [caller], windows=range(0, 11 * SECOND, 2 * SECOND))

    assert seen.calls == 2 * 5
    assert [row[0] for row in seen.served] == [2] * 5
    assert [row[0] for row in seen.seats] == [1.0] * 5


def test_an_open_flow_does_not_wait_for_its_calls() -> None:
    caller = Caller(2, (100 * SECOND,), ALWAYS, think_ns=SECOND, is_open=True)

    assert observe(level(1), [caller]).calls == 2 * 10


def test_a_flow_calls_in_its_phases_only_and_goes_on_in_the_next_one() -> None:
    caller = Caller(1, (SECOND,), ((2 * SECOND, 4 * SECOND), (7 * SECOND, 8 * SECOND)))

    seen = observe(level(1), [caller], windows=range(0, 10 * SECOND, SECOND))

    assert [row[0] for row in seen.served] == [0, 0, 1, 1, 0, 0, 0, 1, 0]


def test_durations_and_works_are_taken_in_turn_and_durations_change_in_time() -> None:
    works = (Work(1), Work(2))
    caller = Caller(1, (SECOND, 3 * SECOND), ALWAYS, works, later_ns=(2 * SECOND,), later_from_ns=5 * SECOND)

    seen = observe(level(2), [caller], windows=range(0, 11 * SECOND, SECOND))

    assert [row[0] for row in seen.seats] == [1, 2, 2, 2, 1, 2, 2, 1, 1, 2]


def test_lingering_seats_count_as_service() -> None:
    caller = Caller(1, (SECOND,), ((0, 1),), (Work(2, 2, SECOND),))

    seen = observe(level(2), [caller], windows=range(0, 4 * SECOND, SECOND))

    assert [row[0] for row in seen.seats] == [2, 2, 0]
    assert seen.shortfall.bound == 3 * 4 * SECOND


def test_seats_can_change_and_calls_can_be_limited() -> None:
    caller = Caller(4, (SECOND,), ALWAYS)

    seen = observe(
        level(1), [caller], resizes=[(2 * SECOND, level(3))], most_calls=8, windows=range(0, 4 * SECOND, SECOND)
    )

    assert [row[0] for row in seen.seats] == [1, 1, 3]
    assert seen.calls == 8
    assert seen.queueset.is_idle


def test_a_flow_that_waits_while_another_one_has_the_seats_falls_behind() -> None:
    first, second = Caller(2, (4 * SECOND,), ((0, 1),)), Caller(1, (SECOND,), ((2 * SECOND, 2 * SECOND + 1),))

    seen = observe(level(2), [first, second])

    assert seen.shortfall.worst is not None
    assert (seen.shortfall.worst.flow, seen.shortfall.worst.seconds) == (1, 2)


def test_invalid_callers_and_rejected_calls_are_errors() -> None:
    with pytest.raises(InvalidValueError):
        Caller(0, (SECOND,), ALWAYS)
    with pytest.raises(InvalidValueError):
        Caller(1, (), ALWAYS)
    with pytest.raises(InvalidValueError):
        Caller(1, (SECOND,), ALWAYS, is_open=True)
    with pytest.raises(InvalidValueError, match="let more requests wait"):
        observe(QueueSetSettings(1, 1, 1, 1), [Caller(3, (SECOND,), ALWAYS)])


@pytest.mark.parametrize("fields", [{"durations_ns": (0, 0)}, {"later_ns": (0,)}])
def test_calls_that_take_no_time_are_refused_because_they_would_never_end(fields: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(InvalidValueError, match=f"^{next(iter(fields))} is .* must be more than 0.* set think_ns"):
        Caller(**{"connections": 1, "durations_ns": (SECOND,), "phases": ALWAYS, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize("windows", [(0, 0), (SECOND, 0)])
def test_windows_that_take_no_time_are_refused(windows: tuple[int, int]) -> None:
    with pytest.raises(InvalidValueError, match=r"^windows is .* later than the one before"):
        observe(level(1), [Caller(1, (SECOND,), ALWAYS)], windows=windows)
