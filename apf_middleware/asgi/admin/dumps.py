"""The dumps: levels, queues, requests and flows, each as a table and as JSON.

The columns of the first three are upstream's, to the letter and in its order (one is misspelled there). JSON tells what
the tables have no columns for, by our own words, and says None where Kubernetes writes -1 or the year 1.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Protocol

from apf_middleware.asgi.admin.notes import (
    NO_DETAILS,
    Details,
    FlowNote,
    LevelNote,
    QueueNote,
    RequestNote,
    View,
    note_flows,
    note_levels,
    note_queues,
    note_requests,
)
from apf_middleware.asgi.admin.table import Cells, write_json, write_text
from apf_middleware.asgi.admin.words import NEVER, Clock, printable, written_duration
from apf_middleware.classification import Resource
from apf_middleware.fairqueuing import Reason, format_seat_seconds, seat_seconds

__all__ = ["FLOWS_SHOWN", "ORDERS", "Dump", "Order", "dump_flows", "dump_levels", "dump_queues", "dump_requests"]

FLOWS_SHOWN: Final = 20
"""So many of the heaviest flows are shown, by each measure."""

Order = Literal["work", "rejected", "waiting"]

ORDERS: Final[tuple[Order, ...]] = ("work", "rejected", "waiting")
"""By what flows may be sorted."""

_LEVELS: Final = (
    *("PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests"),
    *("DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests"),
)
_QUEUES: Final = (
    *("PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR"),
    *("InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum"),
)
_REQUESTS: Final = (
    *("PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArriveTime"),
    *("InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime"),
)
_PARKED: Final = "ParkedRequests"
_HELD: Final = ("HeldBy", "HeldSince")
_DETAILS: Final = ("UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")
_FLOWS: Final = (
    *("PriorityLevelName", "FlowSchemaName", "FlowDistinguisher", "Work", "WorkError", "RejectedRequests"),
    *("RejectedError", "WaitingRequests", "ExecutingRequests", "SeatsInUse"),
)
_NONE: Final = "<none>"
_SECOND: Final = 10**9
_NO_RESOURCE: Final = Resource("")

Record = dict[str, object]


class Dump(Protocol):
    """Writes what it shows as text, or as JSON."""

    async def __call__(self, view: View, clock: Clock, query: Mapping[str, str], *, as_json: bool) -> bytes: ...


async def dump_levels(view: View, clock: Clock, query: Mapping[str, str], *, as_json: bool) -> bytes:  # noqa: ARG001
    """Each level: what it has and what it has done."""
    notes = note_levels(view)
    if as_json:
        return await write_json("levels", notes, _level_record, seats=view.controller.sharing.seats)
    if view.controller.may_have_gates:
        return await write_text((*_LEVELS, _PARKED), notes, lambda one: (*_level_cells(one), str(one.parked)))
    return await write_text(_LEVELS, notes, _level_cells)


def _level_cells(level: LevelNote) -> Cells:
    rejected = level.rejected
    counts = (
        *(level.waiting, level.executing, level.dispatched, sum(rejected.values())),
        *(rejected[Reason.TIME_OUT], rejected[Reason.CANCELLED]),
    )
    told = (str(level.active_queues), _yes(level.is_idle), _yes(level.is_quiescing))
    return (level.name, *told, *map(str, counts))


def _yes(fact: bool) -> str:  # noqa: FBT001 - it is the whole question
    return "true" if fact else "false"


def _level_record(level: LevelNote) -> Record:
    limits = level.limits
    return {
        "level": level.name,
        "exempt": level.exempt,
        "idle": level.is_idle,
        "quiescing": level.is_quiescing,
        "active_queues": level.active_queues,
        "waiting": level.waiting,
        "parked": level.parked,
        "receiving": level.receiving,
        "seats_waiting": level.seats_waiting,
        "executing": level.executing,
        "lingering": level.lingering,
        "seats_in_use": level.seats_in_use,
        "dispatched": level.dispatched,
        "rejected": {reason.value: count for reason, count in level.rejected.items()},
        "nominal": limits.nominal,
        "min": limits.min,
        "max": None if level.exempt else limits.max,
        "current": None if level.exempt else level.current,
        "discipline": level.discipline,
        "meters": dict(level.meters),
    }


async def dump_queues(view: View, clock: Clock, query: Mapping[str, str], *, as_json: bool) -> bytes:  # noqa: ARG001
    """Each queue of each level."""
    notes = note_queues(view)
    if as_json:
        return await write_json("queues", notes, _queue_record)
    if view.controller.may_have_gates:
        return await write_text((*_QUEUES, _PARKED), notes, lambda one: (*_queue_cells(one), str(one.parked)))
    return await write_text(_QUEUES, notes, _queue_cells)


def _queue_cells(queue: QueueNote) -> Cells:
    next_r = _NONE if queue.next_dispatch_r is None else format_seat_seconds(queue.next_dispatch_r)
    before = (queue.card, queue.waiting, queue.executing, queue.seats_in_use)
    sums = (str(queue.initial_seats), str(queue.max_seats), format_seat_seconds(queue.work))
    return (queue.level, *map(str, before), next_r, *sums)


def _queue_record(queue: QueueNote) -> Record:
    next_r = queue.next_dispatch_r
    return {
        "level": queue.level,
        "index": queue.card,
        "waiting": queue.waiting,
        "parked": queue.parked,
        "executing": queue.executing,
        "seats_in_use": queue.seats_in_use,
        "next_dispatch_r": None if next_r is None else format_seat_seconds(next_r),
        "initial_seats_waiting": queue.initial_seats,
        "seats_waiting": queue.max_seats,
        "work_waiting": format_seat_seconds(queue.work),
    }


async def dump_requests(view: View, clock: Clock, query: Mapping[str, str], *, as_json: bool) -> bytes:
    """Each request that waits or runs; with details whose it is and what it is about."""
    notes = note_requests(view)
    details = bool(query.get("includeRequestDetails"))
    if as_json:
        return await write_json("requests", notes, _recorder(clock, details=details))
    gates = view.controller.may_have_gates
    columns = (*_REQUESTS, *(_DETAILS if details else ()), *(_HELD if gates else ()))

    def cells(one: RequestNote) -> Cells:
        told = _told(one) if details else ()
        return (*_request_cells(one, clock), *told, *(_held_cells(one, clock) if gates else ()))

    return await write_text(columns, notes, cells)


def _held_cells(request: RequestNote, clock: Clock) -> Cells:
    held = request.held
    if held is None:
        return _NONE, NEVER
    return _NONE if held.gate is None else printable(held.gate), clock.written(held.since)


def _request_cells(request: RequestNote, clock: Clock) -> Cells:
    admission, queue, position, work, _, seated_at, _ = request
    place = admission.destination.classification
    return (
        place.level,
        place.schema,
        "-1" if queue is None else str(queue),
        "-1" if position is None else str(position),
        printable(place.flow),
        clock.written(admission.arrived_at),
        str(work.seats),
        str(work.final_seats),
        written_duration(work.linger_ns),
        NEVER if seated_at is None else clock.written(seated_at),
    )


def _details_of(request: RequestNote) -> Details:
    details: Details = getattr(request.admission.destination, "details", NO_DETAILS)
    return details


def _told(request: RequestNote) -> Cells:
    verb, path, about = _details_of(request)
    about = about or _NO_RESOURCE
    version = f"{about.api_group}/{about.version}" if about.api_group else about.version  # as Go writes a GroupVersion
    resource = (about.namespace, about.name, version, about.resource, about.subresource)
    return tuple(map(printable, (request.admission.identity.name, verb, path, *resource)))


def _recorder(clock: Clock, *, details: bool) -> Callable[[RequestNote], Record]:
    def record(request: RequestNote) -> Record:
        admission, queue, position, work, width, seated_at, held = request
        place = admission.destination.classification
        told: Record = {
            "level": place.level,
            "schema": place.schema,
            "flow": place.flow,
            "queue": queue,
            "position": position,
            "arrived_at": clock.written(admission.arrived_at),
            "seated_at": None if seated_at is None else clock.written(seated_at),
            "seats": work.seats,
            "final_seats": work.final_seats,
            "linger": work.linger_ns / _SECOND,
            "width": width,
            "held_by": None if held is None else held._asdict() | {"since": clock.written(held.since)},
        }
        return told | _detailed(request) if details else told

    return record


def _detailed(request: RequestNote) -> Record:
    verb, path, resource = _details_of(request)
    about = resource or _NO_RESOURCE
    return {
        "user": request.admission.identity.name,
        "verb": verb,
        "path": path,
        "namespace": about.namespace,
        "name": about.name,
        "api_group": about.api_group,
        "api_version": about.version,
        "resource": about.resource,
        "subresource": about.subresource,
    }


async def dump_flows(view: View, clock: Clock, query: Mapping[str, str], *, as_json: bool) -> bytes:  # noqa: ARG001
    """The heaviest flows, by work unless another order is asked for."""
    notes = _sorted(note_flows(view, FLOWS_SHOWN), query.get("by", "work"))
    return await (write_json("flows", notes, _flow_record) if as_json else write_text(_FLOWS, notes, _flow_cells))


def _sorted(flows: Sequence[FlowNote], order: str) -> list[FlowNote]:
    keys: Mapping[str, Callable[[FlowNote], int]] = {
        "work": lambda flow: flow.work,
        "rejected": lambda flow: flow.rejected,
        "waiting": lambda flow: flow.waiting,
    }
    return sorted(flows, key=keys[order], reverse=True)


def _flow_cells(flow: FlowNote) -> Cells:
    work, error = (format_seat_seconds(seat_seconds(1, amount)) for amount in (flow.work, flow.work_error))
    counts = (flow.rejected, flow.rejected_error, flow.waiting, flow.executing, flow.seats_in_use)
    return (flow.level, flow.schema, printable(flow.flow), work, error, *map(str, counts))


def _flow_record(flow: FlowNote) -> Record:
    return {
        "level": flow.level,
        "schema": flow.schema,
        "flow": flow.flow,
        "work": flow.work / _SECOND,
        "work_error": flow.work_error / _SECOND,
        "rejected": flow.rejected,
        "rejected_error": flow.rejected_error,
        "waiting": flow.waiting,
        "executing": flow.executing,
        "seats_in_use": flow.seats_in_use,
    }
