"""The metrics of named queues, as rows for `families`: what `apf queue list` shows, over time.

A queue is a level, so what became of requests by schema and reason is told by the other metrics; here is what an
operator steers by. Each queue's series come and go with it. Several workers add up, a state to how many are in it.
"""

from collections.abc import Callable, Iterator
from typing import Final, Literal

from apf_middleware.metrics.picture import QueuePicture, ServerPicture
from apf_middleware.metrics.points import Labels, NumberReader, per_key

__all__ = ["QUEUE_NUMBERS", "Row"]

Row = tuple[str, str, Labels, NumberReader, Literal["livesum", "livemax"]]
"""What a family of numbers is made of."""

_QUEUE: Final = ("queue",)
_STATES: Final = ("Open", "Paused", "Closing", "Closed")


def _one(number: Callable[[QueuePicture], float]) -> NumberReader:
    return lambda picture: (((queue.name,), number(queue)) for queue in picture.queues)


def _requests(picture: ServerPicture) -> Iterator[tuple[Labels, float]]:
    for queue in picture.queues:
        yield (queue.name, "inqueue"), queue.inqueue
        yield (queue.name, "pending"), queue.pending
        yield (queue.name, "running"), queue.running


def _finished(picture: ServerPicture) -> Iterator[tuple[Labels, float]]:
    for queue in picture.queues:
        yield (queue.name, "completed"), queue.completed
        yield (queue.name, "failed"), queue.failed
        yield (queue.name, "aborted"), queue.aborted


def _states(picture: ServerPicture) -> Iterator[tuple[Labels, float]]:
    for queue in picture.queues:
        for state in _STATES:
            yield (queue.name, state), float(queue.state == state)


QUEUE_NUMBERS: Final[tuple[Row, ...]] = (
    (
        "queue_requests",
        "Requests of the queue that wait for seats (inqueue), wait for a gate (pending) or run.",
        (*_QUEUE, "state"),
        _requests,
        "livesum",
    ),
    (
        "queue_finished_requests_total",
        "Requests of the queue that ended: well, with an error, or because their client left.",
        (*_QUEUE, "outcome"),
        _finished,
        "livesum",
    ),
    ("queue_state", "1 for the state that the queue is in, 0 for others.", (*_QUEUE, "state"), _states, "livesum"),
    ("queue_weight", "The queue's shares.", _QUEUE, _one(lambda queue: queue.weight), "livemax"),
    ("queue_min_seats", "Seats that are guaranteed to the queue.", _QUEUE, _one(lambda queue: queue.min), "livesum"),
    ("queue_max_seats", "Seats that the queue can have at most.", _QUEUE, _one(lambda queue: queue.max), "livesum"),
    (
        "queue_deserved_seats",
        "Seats that the queue could claim now, given what all want.",
        _QUEUE,
        _one(lambda queue: queue.deserved),
        "livesum",
    ),
    ("queue_used_seats", "Seats that the queue uses.", _QUEUE, _one(lambda queue: queue.used), "livesum"),
    (
        "queue_share",
        "Seats that the queue uses as part of those that it deserves.",
        _QUEUE,
        _one(lambda queue: queue.share),
        "livemax",
    ),
    (
        "queue_revocations_total",
        "Requests of the queue that were asked to give way.",
        _QUEUE,
        _one(lambda queue: queue.revocations),
        "livesum",
    ),
    (
        "queue_live_changes",
        "Queues that differ from what the configuration's files say.",
        (),
        lambda picture: iter([((), picture.live_changes)] if picture.queues else ()),
        "livemax",
    ),
    (
        "unknown_queue_requests_total",
        "Requests that were rejected because they named a queue to which they can't go, by reason.",
        ("reason",),
        per_key(lambda picture: picture.unknown_queues),
        "livesum",
    ),
)
"""All of them, in the order in which they are told."""
