"""The dumps: levels, queues, requests and flows, each as a table and as JSON.

The columns of the first three have upstream's names and order (one name is misspelled there). JSON has more fields,
with the names of the snapshots, and null where Kubernetes writes -1 or the year 1.

A dump of ten thousand requests takes a tenth of a second to write, and no request should wait for that. So rows are
written in portions, and other tasks may run after each portion. The snapshot is made before, in one step.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, Protocol, TypeVar, get_args

import anyio
from anyio.lowlevel import checkpoint

from apf_middleware.asgi.admin.documents import to_json
from apf_middleware.asgi.admin.formatting import NEVER, Formatter, format_duration, printable, short_name
from apf_middleware.asgi.admin.observation import (
    ObservedRequest,
    View,
    observe_fleet_levels,
    observe_flows,
    observe_levels,
    observe_queues,
    observe_requests,
)
from apf_middleware.classification import Classification
from apf_middleware.classification.text import abridge
from apf_middleware.fairqueuing import Reason, format_seat_seconds, seat_seconds
from apf_middleware.snapshots import LevelSnapshot, QueueSnapshot
from apf_middleware.snapshots.fleet import FleetMemberSnapshot
from apf_middleware.snapshots.requests import FlowSnapshot, RequestSnapshot

__all__ = [
    "FLOWS_SHOWN",
    "ORDERS",
    "PORTION",
    "Cells",
    "Dump",
    "Order",
    "dump_fleet",
    "dump_flows",
    "dump_levels",
    "dump_queues",
    "dump_requests",
    "write_json",
    "write_text",
]

FLOWS_SHOWN: Final = 20
"""The number of the heaviest flows that are shown, by each measure."""

Order = Literal["work", "rejected", "waiting"]

ORDERS: Final[tuple[Order, ...]] = get_args(Order)
"""The orders in which flows may be listed."""

PORTION: Final = 100
"""The number of rows that are written at a time."""

_MIN_WIDTH: Final = 8
_PADDING: Final = 1

Cells = tuple[str, ...]

RowT = TypeVar("RowT")

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
_CAP: Final = "ElasticCap"
_HELD: Final = ("HeldBy", "HeldSince")
_DETAILS: Final = ("UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")
_FLOWS: Final = (
    *("PriorityLevelName", "FlowSchemaName", "FlowDistinguisher", "Work", "WorkError", "RejectedRequests"),
    *("RejectedError", "WaitingRequests", "ExecutingRequests", "SeatsInUse", "Weight"),
)
_FLEET: Final = ("MemberName", "IsAllocator", "GrantedSeats", "SeatsInUse", "DemandedSeats", "ReportAge", "IsOutdated")
_PATIENCE_S: Final = 1.0  # of the fleet's dump, for the allocator's answer
_NONE: Final = "<none>"
_DETAIL_FIELDS: Final = (
    *("user", "verb", "path", "namespace", "name", "api_group", "api_version", "resource", "subresource"),
)


class Dump(Protocol):
    """Writes a dump as text or as JSON."""

    async def __call__(self, view: View, formatter: Formatter, query: Mapping[str, str], *, as_json: bool) -> bytes: ...


async def dump_levels(view: View, formatter: Formatter, query: Mapping[str, str], *, as_json: bool) -> bytes:  # noqa: ARG001
    """Write all levels."""
    levels = observe_levels(view)
    if as_json:
        return await write_json("levels", levels, to_json, seats=view.controller.sharing.seats)
    more: list[tuple[str, Callable[[LevelSnapshot], str]]] = []
    if view.controller.gate_runner is not None:
        more.append((_PARKED, lambda one: str(one.parked)))
    if view.controller.configuration.elastic_levels:
        more.append((_CAP, lambda one: _NONE if one.cap is None else str(one.cap)))
    columns = (*_LEVELS, *(name for name, _ in more))
    return await write_text(columns, levels, lambda one: (*_level_cells(one), *(cell(one) for _, cell in more)))


def _level_cells(level: LevelSnapshot) -> Cells:
    rejected = level.rejected
    counts = (
        *(level.waiting, level.executing, level.dispatched, sum(rejected.values())),
        *(rejected[Reason.TIME_OUT], rejected[Reason.CANCELLED]),
    )
    states = (str(level.active_queues), str(level.idle).lower(), str(level.quiescing).lower())
    return (level.level, *states, *map(str, counts))


async def dump_queues(view: View, formatter: Formatter, query: Mapping[str, str], *, as_json: bool) -> bytes:  # noqa: ARG001
    """Write all queues of all levels."""
    queues = observe_queues(view)
    if as_json:
        return await write_json("queues", queues, to_json)
    if view.controller.gate_runner is not None:
        return await write_text((*_QUEUES, _PARKED), queues, lambda one: (*_queue_cells(one), str(one.parked)))
    return await write_text(_QUEUES, queues, _queue_cells)


def _queue_cells(queue: QueueSnapshot) -> Cells:
    next_r = _NONE if queue.next_dispatch_r is None else format_seat_seconds(queue.next_dispatch_r)
    counts = (queue.index, queue.waiting, queue.executing, queue.seats_in_use)
    sums = (str(queue.initial_seats_waiting), str(queue.seats_waiting), format_seat_seconds(queue.work_waiting))
    return (queue.level, *map(str, counts), next_r, *sums)


async def dump_requests(view: View, formatter: Formatter, query: Mapping[str, str], *, as_json: bool) -> bytes:
    """Write all requests that wait or run, with their details if the query asks for them.

    The query may name a level, a schema and a flow whose requests are wanted, and the greatest number of them.
    """
    details = bool(query.get("includeRequestDetails"))
    requests = _wanted_requests(observe_requests(view), query)
    without = () if details else _DETAIL_FIELDS

    def records(rows: list[ObservedRequest]) -> list[object]:
        snapshots = [row.snapshot(details=details) for row in rows]
        return to_json(snapshots, without=without, formatter=formatter)  # type: ignore[no-any-return]

    if as_json:
        return await write_json("requests", requests, records)
    gates = view.controller.gate_runner is not None
    columns = (*_REQUESTS, *(_DETAILS if details else ()), *(_HELD if gates else ()))

    def cells(row: ObservedRequest) -> Cells:
        request = row.snapshot(details=details)
        more = _detail_cells(request) if details else ()
        return (*_request_cells(request, formatter), *more, *(_held_cells(request, formatter) if gates else ()))

    return await write_text(columns, requests, cells)


_MOST_DIGITS: Final = 18  # Python refuses to read numbers of thousands of digits


def _wanted_requests(requests: list[ObservedRequest], query: Mapping[str, str]) -> list[ObservedRequest]:
    """Return the requests that the query asks for."""
    wanted = {name: query[name] for name in ("level", "schema", "flow") if name in query}
    if wanted:
        requests = [one for one in requests if _matches(one.admission.destination.classification, wanted)]
    most = query.get("most", "")
    return requests[: int(most)] if most.isascii() and most.isdigit() and len(most) <= _MOST_DIGITS else requests


def _matches(place: Classification, wanted: Mapping[str, str]) -> bool:
    """Return whether a request at ``place`` is ``wanted``; the console shows a long flow by its short name."""
    level, schema, flow = (wanted.get(name) for name in ("level", "schema", "flow"))
    if level not in {None, place.level} or schema not in {None, place.schema}:
        return False
    return flow is None or abridge(flow) == place.flow or flow == short_name(place.flow)


def _held_cells(request: RequestSnapshot, formatter: Formatter) -> Cells:
    held = request.held_by
    if held is None:
        return _NONE, NEVER
    return _NONE if held.gate is None else printable(held.gate), formatter.time(held.since)


def _request_cells(request: RequestSnapshot, formatter: Formatter) -> Cells:
    return (
        request.level,
        request.schema,
        "-1" if request.queue is None else str(request.queue),
        "-1" if request.position is None else str(request.position),
        printable(request.flow),
        formatter.time(request.arrived_at),
        str(request.seats),
        str(request.final_seats),
        format_duration(request.linger),
        NEVER if request.seated_at is None else formatter.time(request.seated_at),
    )


def _detail_cells(request: RequestSnapshot) -> Cells:
    group, version = request.api_group, request.api_version
    written_version = f"{group}/{version}" if group else version  # as Go writes a GroupVersion
    resource = (request.namespace, request.name, written_version, request.resource, request.subresource)
    return tuple(map(printable, (request.user, request.verb, request.path, *resource)))


async def dump_flows(view: View, formatter: Formatter, query: Mapping[str, str], *, as_json: bool) -> bytes:
    """Write the heaviest flows, by work unless the query asks for another order."""
    orders: Mapping[str, Callable[[FlowSnapshot], int]] = {
        "work": lambda flow: flow.work,
        "rejected": lambda flow: flow.rejected,
        "waiting": lambda flow: flow.waiting,
    }
    flows = sorted(observe_flows(view, FLOWS_SHOWN), key=orders[query.get("by", "work")], reverse=True)
    if as_json:
        return await write_json("flows", flows, partial(to_json, formatter=formatter))
    return await write_text(_FLOWS, flows, _flow_cells)


def _flow_cells(flow: FlowSnapshot) -> Cells:
    work, error = (format_seat_seconds(seat_seconds(1, amount)) for amount in (flow.work, flow.work_error))
    counts = (flow.rejected, flow.rejected_error, flow.waiting, flow.executing, flow.seats_in_use)
    weight = _NONE if flow.weight is None else f"{flow.weight:g}"
    return (flow.level, flow.schema, printable(flow.flow), work, error, *map(str, counts), weight)


async def dump_fleet(view: View, formatter: Formatter, query: Mapping[str, str], *, as_json: bool) -> bytes:  # noqa: ARG001
    """Write all members of the server's fleet, as the allocator knows them; none if it doesn't answer in a second."""
    member = None if view.fleet is None else view.fleet.participant.member
    members: Sequence[FleetMemberSnapshot] = ()
    if member is not None:
        member.ask()
        with anyio.move_on_after(_PATIENCE_S):
            while not (members := member.members()):  # noqa: ASYNC110 - the answer comes with a grant
                await anyio.sleep(_PATIENCE_S / 100)
    if as_json:
        levels = observe_fleet_levels(view, observe_requests(view))
        return await write_json("members", members, to_json, seats=view.controller.seats, levels=to_json(levels))
    return await write_text(_FLEET, members, _member_cells)


def _member_cells(member: FleetMemberSnapshot) -> Cells:
    counts = (member.seats, member.seats_in_use, member.demand)
    states = (
        str(member.is_allocator).lower(),
        *map(str, counts),
        f"{member.age:.3f}s",
        str(member.is_outdated).lower(),
    )
    return (member.member, *states)


async def write_text(columns: Cells, rows: Sequence[RowT], cells_of: Callable[[RowT], Cells]) -> bytes:
    """Write a heading, and for each row a line of the cells that ``cells_of`` returns.

    The text is what Go's tab writer makes of cells joined by a comma and a tab, with a minimum width of 8 and a padding
    of 1: each cell but the last of a row is padded with spaces to the width of its column.
    """
    widths = [len(column) for column in columns]
    portions: list[list[Cells]] = []
    for portion in _portions(rows):
        cells = [cells_of(row) for row in portion]
        for place, column in enumerate(zip(*cells, strict=True)):
            widths[place] = max(widths[place], *map(len, column))
        portions.append(cells)
        await checkpoint()
    # The comma belongs to the cell.
    template = "".join(f"%-{max(width + 1 + _PADDING, _MIN_WIDTH)}s" for width in widths[:-1]) + "%s\n"
    text = [_line(template, columns).encode()]
    for cells in portions:
        text.append("".join(_line(template, one) for one in cells).encode())
        await checkpoint()
    return b"".join(text)


def _line(template: str, cells: Cells) -> str:
    return template % (*[f"{cell}," for cell in cells[:-1]], cells[-1])


async def write_json(
    name: str, rows: Sequence[RowT], records_of: Callable[[list[RowT]], list[object]], **more: object
) -> bytes:
    """Write an object with the fields ``more``, and then a list of records called ``name``.

    ``records_of`` returns the records of several rows.
    """
    parts = []
    for portion in _portions(rows):
        parts.append(json.dumps(records_of(list(portion)))[1:-1].encode())
        await checkpoint()
    head = "".join(f"{json.dumps(key)}: {json.dumps(value)}, " for key, value in more.items())
    return b"".join((f"{{{head}{json.dumps(name)}: [".encode(), b", ".join(parts), b"]}\n"))


def _portions(rows: Sequence[RowT]) -> Iterator[Sequence[RowT]]:
    return (rows[start : start + PORTION] for start in range(0, len(rows), PORTION))
