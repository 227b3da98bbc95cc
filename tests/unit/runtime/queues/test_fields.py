"""Fields of a named queue: their rules."""

import pytest

from apf_middleware.exceptions import QueueConflictError, QueueInvalidError, QueueNotFoundError
from tests.support.named_queues import FAMILY, NamedQueueServer, level, server

ONE = server(10) + level("web", "minSeats: 0, maxSeats: 1")


@pytest.mark.parametrize(
    ("fields", "name", "words"),
    [
        ({"weight": 0}, "weight", "from 1"),
        ({"weight": -1}, "weight", "from 1"),
        ({"weight": "2"}, "weight", "whole number"),
        ({"weight": True}, "weight", "whole number"),
        ({"min": 5, "max": 4}, "min", "must not exceed the max, which is 4"),
        ({"parent": "nobody"}, "parent", "no such queue"),
        ({"parent": "new"}, "parent", "its own parent"),
        ({"parent": "free"}, "parent", "be nested"),
        ({"parent": "catch-all"}, "parent", "takes no requests itself"),
        ({"parent": "tenants", "min": 7}, "min", "the max of their parent"),
        ({"parent": "tenants", "max": 7}, "max", "the max of its parent"),
        ({"parent": 3}, "parent", "the name of a queue"),
        ({"reclaimable": 1}, "reclaimable", "true or false"),
        ({"dequeue_strategy": "lifo"}, "dequeue_strategy", "traverse or fifo"),
        ({"colour": 1}, "colour", "no such field"),
    ],
)
def test_an_invalid_field_is_reported_and_changes_nothing(fields: dict[str, object], name: str, words: str) -> None:
    house = NamedQueueServer(FAMILY)

    with pytest.raises(QueueInvalidError, match=words) as caught:
        house.queues.create("new", **fields)  # type: ignore[arg-type]

    assert caught.value.fields == (name,)
    assert caught.value.kind == "invalid"
    assert "new" not in house.configuration.levels
    assert house.queues.drift() == ()


def test_all_invalid_fields_are_reported_together() -> None:
    with pytest.raises(QueueInvalidError) as caught:
        NamedQueueServer(FAMILY).queues.update("free", weight=0, min=-1)
    assert caught.value.fields == ("weight", "min")


def test_names_are_checked_and_taken_names_refused() -> None:
    house = NamedQueueServer(ONE)
    with pytest.raises(QueueInvalidError, match="DNS name"):
        house.queues.create("Not A Name")
    with pytest.raises(QueueConflictError, match="already"):
        house.queues.create("web")
    for call in (house.queues.status, house.queues.update, house.queues.delete, house.queues.document):
        with pytest.raises(QueueNotFoundError):
            call("nobody")
