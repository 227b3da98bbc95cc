"""Snapshots of single requests and of flows, which only the admin makes."""

from dataclasses import dataclass

from apf_middleware.snapshots import Count, Duration, Number, Time

__all__ = [
    "FlowSnapshot",
    "HeldSnapshot",
    "RequestSnapshot",
]


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """The gate that holds a request, when that began, and the request's number and stage at the gates.

    ``gate`` is None for a request that waits only because an earlier one of its flow is held, in a ``fifo`` level.
    """

    gate: str | None
    since: Time
    number: Count
    stage: str


@dataclass(frozen=True, slots=True)
class RequestSnapshot:
    """A request that waits or runs.

    ``weight`` is that of its flow. ``queue`` is None if the level has no queues, ``position`` unless the request waits
    for its turn, and ``seated_at`` until it has seats. A request that is ``held_by`` a gate has no position, because
    later requests may pass it. The fields from ``user`` on are details, which a document may leave out.
    """

    level: str
    schema: str
    flow: str
    queue: Count | None
    position: Count | None
    arrived_at: Time
    seated_at: Time | None
    seats: Count
    final_seats: Count
    linger: Duration
    width: Count
    weight: Number
    held_by: HeldSnapshot | None
    user: str = ""
    verb: str = ""
    path: str = ""
    namespace: str = ""
    name: str = ""
    api_group: str = ""
    api_version: str = ""
    resource: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class FlowSnapshot:
    """A flow: its aged totals of work and rejections, with their greatest errors, and its requests at the moment.

    ``weight`` is the highest weight of these requests, and None if there are none. ``seats_waiting`` are the seats that
    waiting requests ask for; those that a gate holds ask for none. ``oldest`` is the longest wait. ``fair`` is the
    flow's max-min share of the seats that its level may use now, by the demand and the weight of all its flows; None
    in an exempt level.
    """

    level: str
    schema: str
    flow: str
    work: Duration
    work_error: Duration
    rejected: Count
    rejected_error: Count
    waiting: Count
    executing: Count
    seats_in_use: Count
    weight: Number | None
    seats_waiting: Count
    oldest: Duration
    fair: Number | None
