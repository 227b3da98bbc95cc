"""What the page shows: one document about one moment, made of the snapshots that the admin has.

Counts are cumulative, so the page computes rates from two documents, and a lost document loses nothing. The size of a
document is bounded: what comes from clients (flows, queues, keys of gates, parked requests) is cut, with the number of
what is left out. What comes from the configuration (levels, named queues, gates) is complete.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from heapq import nlargest
from typing import Any, Final

from apf_middleware.asgi.admin.configuration import describe_problem
from apf_middleware.asgi.admin.documents import AdaptiveSeatsDocument, ConfigurationProblem, to_json
from apf_middleware.asgi.admin.formatting import Formatter, short_name
from apf_middleware.asgi.admin.observation import (
    ObservedRequest,
    View,
    count_present,
    observe_adaptive,
    observe_fleet_levels,
    observe_flows,
    observe_levels,
    observe_requests,
)
from apf_middleware.asgi.console.loans import Loan, list_loans
from apf_middleware.counters import DURATION_BOUNDS_NS, Histogram
from apf_middleware.gates import Gates
from apf_middleware.mode import Mode
from apf_middleware.runtime.level import LevelRuntime
from apf_middleware.snapshots import (
    Count,
    Duration,
    GateSnapshot,
    LevelSnapshot,
    NamedQueueSnapshot,
    Number,
    ParkedRequest,
    Time,
)
from apf_middleware.snapshots.fleet import FleetLevelSnapshot, FleetMemberSnapshot
from apf_middleware.snapshots.requests import FlowSnapshot

__all__ = [
    "MOST_FLOWS",
    "MOST_KEYS",
    "MOST_PARKED",
    "MOST_PROBLEMS",
    "MOST_QUEUES",
    "ConsoleDocument",
    "FlowPart",
    "LevelTraffic",
    "WaitingQueue",
    "observe_console",
]

MOST_FLOWS: Final = 12
"""The number of flows that are shown by each measure, and of each level by its present requests."""

MOST_KEYS: Final = 12
"""The number of keys of a gate that are shown, those for which the most requests wait."""

MOST_QUEUES: Final = 12
"""The number of queues of a level that are shown, the longest ones."""

MOST_PARKED: Final = 20
"""The number of parked requests that are shown, the oldest ones."""

MOST_PROBLEMS: Final = 20
"""The number of problems of the configuration that are shown."""

_QUEUE_FLOWS: Final = 4


@dataclass(frozen=True, slots=True)
class LevelTraffic:
    """The requests of a level since the start of the server.

    ``waits`` counts those that were seated after waiting, by the buckets of `DURATION_BOUNDS_NS`; they have waited for
    ``waited``. ``ended`` requests have run for ``ran``.
    """

    level: str
    arrived: Count
    at_once: Count
    after_wait: Count
    waits: tuple[Count, ...]
    waited: Duration
    ended: Count
    ran: Duration


@dataclass(frozen=True, slots=True)
class FlowPart:
    """The requests of one flow that wait in a queue, and its weight."""

    flow: str
    waiting: Count
    weight: Number


@dataclass(frozen=True, slots=True)
class WaitingQueue:
    """A queue in which requests wait: its flows with the most requests, and the number of ``other_flows``."""

    level: str
    index: Count
    waiting: Count
    seats_waiting: Count
    parts: tuple[FlowPart, ...]
    other_flows: Count


@dataclass(frozen=True, slots=True)
class ConsoleDocument:
    """The server at the time ``at``.

    ``present_flows``, ``waiting_queues`` and ``parked_requests`` count all, also those that ``flows``, ``queues``,
    ``gates`` and ``parked`` leave out. ``other_keys`` is the number of keys that ``gates`` leaves out, and ``drift``
    that of the named queues that differ from the files.
    """

    at: Time
    mode: Mode
    passed: Mapping[str, Count]
    seats: Count
    adaptive: AdaptiveSeatsDocument | None
    levels: tuple[LevelSnapshot, ...]
    traffic: tuple[LevelTraffic, ...]
    loans: tuple[Loan, ...]
    flows: tuple[FlowSnapshot, ...]
    present_flows: Count
    queues: tuple[WaitingQueue, ...]
    waiting_queues: Count
    named_queues: tuple[NamedQueueSnapshot, ...]
    drift: Count
    gates: tuple[GateSnapshot, ...]
    other_keys: Count
    parked: tuple[ParkedRequest, ...]
    parked_requests: Count
    members: tuple[FleetMemberSnapshot, ...]
    fleet_levels: tuple[FleetLevelSnapshot, ...]
    problems: tuple[ConfigurationProblem, ...]
    other_problems: Count
    schemas: Count

    def as_json(self, formatter: Formatter) -> dict[str, Any]:
        """Return the document in the form of JSON."""
        found: dict[str, Any] = to_json(self, formatter=formatter)
        return found | {"wait_bounds": [bound / 10**9 for bound in DURATION_BOUNDS_NS]}


def observe_console(view: View) -> ConsoleDocument:
    """Return the document about this moment."""
    controller, requests = view.controller, observe_requests(view)
    levels = observe_levels(view)
    present = count_present(view, requests)
    flows = observe_flows(view, MOST_FLOWS, present, of_each_level=True)
    queues, waiting_queues = _waiting_queues(requests)
    fleet_levels = observe_fleet_levels(view, requests)  # before the next question, which forgets the last answer
    gates = controller.gates
    keys = [] if gates is None else gates.list()
    busiest = _busiest_keys(keys)
    problems = view.problems
    return ConsoleDocument(
        at=controller.now(),
        mode=view.mode,
        passed=dict(view.passed),
        seats=controller.seats,
        adaptive=observe_adaptive(view),
        levels=tuple(levels),
        traffic=tuple(_traffic(runtime) for runtime in controller.registry.shown),
        loans=list_loans(levels),
        flows=tuple(replace(one, flow=short_name(one.flow)) for one in flows),
        present_flows=sum(map(len, present.values())),
        queues=queues,
        waiting_queues=waiting_queues,
        named_queues=view.queues.list(),
        drift=len({one.queue for one in view.queues.drift()}),
        gates=busiest,
        other_keys=len(keys) - len(busiest),
        parked=_oldest_parked(gates),
        parked_requests=sum(one.parked for one in keys),
        members=_members(view),
        fleet_levels=tuple(map(_with_short_names, fleet_levels)),
        problems=tuple(map(describe_problem, problems[:MOST_PROBLEMS])),
        other_problems=max(0, len(problems) - MOST_PROBLEMS),
        schemas=len(view.configuration.schemas),
    )


def _with_short_names(level: FleetLevelSnapshot) -> FleetLevelSnapshot:
    flows = (one if one.flow is None else replace(one, flow=short_name(one.flow)) for one in level.flows)
    return replace(level, flows=tuple(flows))


def _traffic(runtime: LevelRuntime) -> LevelTraffic:
    counted = runtime.schema_counters.values()
    waits, executions = (
        reduce(Histogram.plus, found, Histogram(DURATION_BOUNDS_NS))
        for found in ([one.waits for one in counted], [one.executions for one in counted])
    )
    return LevelTraffic(
        runtime.name,
        arrived=sum(one.arrived for one in counted),
        at_once=sum(one.at_once for one in counted),
        after_wait=sum(one.after_wait for one in counted),
        waits=tuple(waits.counts),
        waited=int(waits.total),
        ended=executions.count,
        ran=int(executions.total),
    )


def _waiting_queues(requests: Iterable[ObservedRequest]) -> tuple[tuple[WaitingQueue, ...], int]:
    """Return the longest queues of each level, and the number of all queues in which requests wait."""
    found: dict[str, dict[int, _QueueCount]] = {}
    number = 0
    for request in requests:
        if request.position is None or request.queue is None:
            continue
        place = request.admission.destination.classification
        own = found.setdefault(place.level, {})
        queue = own.get(request.queue)
        if queue is None:
            queue = own[request.queue] = _QueueCount()
            number += 1
        queue.count(request, place.flow, place.weight)
    rows = [
        queue.row(level, index)
        for level, own in found.items()
        for index, queue in nlargest(MOST_QUEUES, own.items(), key=lambda item: item[1].waiting)
    ]
    return tuple(rows), number


class _QueueCount:
    """The requests that wait in one queue, by flow."""

    __slots__ = ("flows", "seats", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self.seats = 0
        self.flows: dict[str, list[float]] = {}  # the requests and the highest weight

    def count(self, request: ObservedRequest, flow: str, weight: float) -> None:
        self.waiting += 1
        self.seats += request.width
        own = self.flows.setdefault(flow, [0, 0])
        own[0] += 1
        own[1] = max(own[1], weight)

    def row(self, level: str, index: int) -> WaitingQueue:
        most = nlargest(_QUEUE_FLOWS, self.flows.items(), key=lambda item: item[1][0])
        parts = tuple(FlowPart(short_name(flow), int(number), weight) for flow, (number, weight) in most)
        return WaitingQueue(level, index, self.waiting, self.seats, parts, len(self.flows) - len(parts))


def _busiest_keys(keys: Iterable[GateSnapshot]) -> tuple[GateSnapshot, ...]:
    """Return the rows of each gate, of one with many keys those for which the most requests wait."""
    of_gates: dict[str, list[GateSnapshot]] = {}
    for one in keys:
        of_gates.setdefault(one.gate, []).append(one)
    chosen = (nlargest(MOST_KEYS, own, key=lambda one: one.parked) for own in of_gates.values())
    return tuple(replace(one, key=_short_key(one.key)) for own in chosen for one in own)


def _short_key(key: Hashable) -> Hashable:
    """Return a key that can't make the document long, because clients may choose keys."""
    return None if key is None else short_name(str(key))


def _oldest_parked(gates: Gates | None) -> tuple[ParkedRequest, ...]:
    parked: Iterable[ParkedRequest] = () if gates is None else gates.parked()
    oldest = nlargest(MOST_PARKED, parked, key=lambda one: one.parked_for)
    return tuple(replace(one, flow=short_name(one.flow), key=_short_key(one.key)) for one in oldest)


def _members(view: View) -> tuple[FleetMemberSnapshot, ...]:
    """Return the members of the fleet as the last answer had them, and ask for the next one."""
    member = None if view.fleet is None else view.fleet.participant.member
    if member is None:
        return ()
    found = member.members()
    member.ask()
    return found
