"""Settings of a queue set: their rules."""

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import (
    QueueSet,
    QueueSetSettings,
)
from tests.support.builds import raises_for_wrong_type

ONE_QUEUE = QueueSetSettings(1, queues=1, hand_size=1, queue_length_limit=5)


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"concurrency": -1}, "concurrency is -1, but it must be at least 0"),
        ({"concurrency": 1, "queues": -1}, "queues is -1"),
        ({"concurrency": 1, "queues": 10_000_001}, "queues is 10000001, but it must be at most 10000000"),
        ({"concurrency": 1, "hand_size": 65}, "a hand can't exceed the deck of 64"),
        ({"concurrency": 1, "hand_size": 11}, "bits of entropy"),
        ({"concurrency": 1, "queue_length_limit": 0}, "queue_length_limit is 0, but it must be at least 1"),
        ({"concurrency": 1, "exempt": True}, "an exempt level has none"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, int], rule: str) -> None:
    with pytest.raises(InvalidValueError, match=rule):
        QueueSetSettings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"concurrency": 1.5}, "concurrency is 1.5, but it must be an integer"),
        ({"concurrency": 1, "exempt": 1}, "exempt is 1, but it must be True or False"),
    ],
)
def test_settings_of_wrong_types_are_refused(settings: dict[str, int], rule: str) -> None:
    with raises_for_wrong_type(rule):
        QueueSetSettings(**settings)  # type: ignore[arg-type]


def test_what_is_not_settings_is_refused() -> None:
    with raises_for_wrong_type(r"settings is \{\}, but it must be a QueueSetSettings"):
        QueueSet({})  # type: ignore[arg-type]
    with raises_for_wrong_type("it must be a QueueSetSettings"):
        QueueSet(ONE_QUEUE).reconfigure(1, None)  # type: ignore[arg-type]
