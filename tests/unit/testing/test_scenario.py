"""Fairness scenarios check themselves, and their clients give up when they are rejected."""

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import QueueSetSettings
from apf_middleware.testing import Client, FairnessScenario, play


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"threads": 0}, "threads"),
        ({"calls": 0}, "calls"),
        ({"serve_ns": 0}, "serve_ns"),
        ({"think_ns": -10}, "think_ns"),
    ],
)
def test_invalid_clients_are_refused(fields: dict[str, int], name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"^{name} is"):
        Client(**{"entropy": 0, "threads": 1, "calls": 1, "serve_ns": 10, **fields})  # type: ignore[arg-type]


def test_invalid_scenarios_are_refused() -> None:
    settings, client = QueueSetSettings(1), Client(0, 1, 1, 10)
    with pytest.raises(InvalidValueError, match="there must be at least one"):
        FairnessScenario(settings, (), 10)
    with pytest.raises(InvalidValueError, match="duration_ns is 0"):
        FairnessScenario(settings, (client,), 0)
    with pytest.raises(InvalidValueError, match="windows is 0"):
        FairnessScenario(settings, (client,), 1, windows=0)
    with pytest.raises(InvalidValueError, match="windows is 2, but it must be at most 1"):
        FairnessScenario(settings, (client,), 1, windows=2)


def test_a_thread_gives_up_when_it_is_rejected() -> None:
    clients = (Client(0, 1, 3, 1000), Client(1, 1, 3, 1000))

    outcome = play(FairnessScenario(QueueSetSettings.without_queues(1), clients, 5000))

    assert outcome.executed == [3, 0]
    assert outcome.rejected == [0, 1]


def test_a_thread_that_has_half_of_one_call_makes_none() -> None:
    client = Client(0, 2, 1, 1000, late_half=True)

    outcome = play(FairnessScenario(QueueSetSettings(1), (client,), 5000))

    assert outcome.executed == [1]
