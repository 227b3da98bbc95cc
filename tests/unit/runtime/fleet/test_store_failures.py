"""What is logged of a store that fails, and how long a member waits before it tries again."""

import logging
from typing import Any

import pytest

from apf_middleware.fleet.budget import Budget
from apf_middleware.runtime.fleet.participant import Participant
from apf_middleware.runtime.fleet.store_failures import StoreFailures
from apf_middleware.runtime.fleet.timing import FleetTiming

MS = 10**6
SECOND = 10**9


class World:
    """The failures of a store, and a clock."""

    def __init__(self) -> None:
        self.time = 0
        timing = FleetTiming(250 * MS, 5 * SECOND)
        participant = Participant(
            "shop", timing, join=_unused, leave=_unused, budget=lambda: Budget(1), now=lambda: self.time
        )
        self.failures = StoreFailures(participant, "redis://there")


def _unused(*_: object) -> Any:  # noqa: ANN401
    raise AssertionError("it is no member")


@pytest.fixture
def world(caplog: pytest.LogCaptureFixture) -> World:
    caplog.set_level(logging.INFO)
    return World()


def test_each_cause_of_an_outage_is_logged_once_with_the_place(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        world.failures.note(ConnectionError("closed"))
        world.failures.note(OSError("wrong password"))
    assert caplog.messages == [
        "apf.fleet-store-failed fleet=shop store=redis://there error=closed",
        "apf.fleet-store-failed fleet=shop store=redis://there error=wrong password",
    ]


@pytest.mark.parametrize(
    ("error", "cause"),
    [(TimeoutError(), "no answer within 0.5 s"), (TimeoutError("late"), "late"), (OSError(), "OSError")],
)
def test_an_error_without_a_text_has_a_cause(
    world: World, caplog: pytest.LogCaptureFixture, error: Exception, cause: str
) -> None:
    world.failures.note(error)
    assert caplog.messages[0].endswith(f"error={cause}")


def test_errors_that_differ_each_time_don_t_flood_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(100):
        world.failures.note(OSError(str(number)))
    assert len(caplog.messages) == 8


def test_an_outage_ends_when_nothing_has_failed_for_a_lease(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.failures.note_answer()
    for _ in range(20):  # one command is refused, and others are answered
        world.failures.note(OSError("refused"))
        world.time += 400 * MS
        world.failures.note_answer()
    assert len(caplog.messages) == 1
    world.time += 5 * SECOND - 401 * MS
    world.failures.note_answer()
    assert len(caplog.messages) == 1
    world.time += 1 * MS
    world.failures.note_answer()
    world.failures.note_answer()
    assert caplog.messages[1:] == ["apf.fleet-store-answers fleet=shop store=redis://there failures=20"]
    world.failures.note(OSError("refused"))
    assert len(caplog.messages) == 3, "another outage"


def test_pauses_become_longer_until_a_limit(world: World) -> None:
    pauses = []
    for _ in range(30):
        pauses.append(world.failures.pause_s)
        world.failures.note(OSError())
    assert 0.025 <= pauses[0] <= 0.05
    assert all(0.2 <= pause <= 0.4 for pause in pauses[3:])
