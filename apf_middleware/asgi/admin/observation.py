"""Snapshots of a controller for the admin, each taken in one step, so that a dump shows one moment."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import nlargest
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from apf_middleware.asgi.admin.documents import AdaptiveSeatsDocument
from apf_middleware.asgi.fleet_notices import FleetNotices
from apf_middleware.asgi.identity import Chain
from apf_middleware.asgi.request_observers import RequestObservers
from apf_middleware.asgi.resolver import NO_DETAILS
from apf_middleware.asgi.shadow_control import ShadowControl
from apf_middleware.classification.matching import NO_RESOURCE
from apf_middleware.config import Configuration, Problem
from apf_middleware.fairqueuing import SharedLevel, TicketState, UpstreamEqualSerial, Work
from apf_middleware.fairqueuing.sharing.balance import fill
from apf_middleware.fairqueuing.ticket import Queue
from apf_middleware.mode import Mode
from apf_middleware.runtime import Admission, Controller, NamedQueues
from apf_middleware.runtime.running_requests import RunningRequests
from apf_middleware.runtime.top_flows import FlowKey, HeavyFlow
from apf_middleware.snapshots import LevelSnapshot, QueueSnapshot
from apf_middleware.snapshots.fleet import FleetLevelSnapshot
from apf_middleware.snapshots.requests import FlowSnapshot, HeldSnapshot, RequestSnapshot

if TYPE_CHECKING:
    from apf_middleware.asgi.fleet import Fleet

__all__ = [
    "ObservedRequest",
    "PresentFlows",
    "PresentRequests",
    "View",
    "count_present",
    "observe_adaptive",
    "observe_fleet_levels",
    "observe_flows",
    "observe_levels",
    "observe_queues",
    "observe_requests",
]

_SEATED: Final = TicketState.SEATED
_FINE: Final = 1000  # fair shares are computed in thousandths of seats


class View(Protocol):
    """The objects that the admin shows and changes.

    ``problems`` are the warnings of the configuration in force, and the errors of a later one that was refused.
    """

    @property
    def configuration(self) -> Configuration: ...
    @property
    def controller(self) -> Controller: ...
    @property
    def queues(self) -> NamedQueues: ...
    @property
    def problems(self) -> Sequence[Problem]: ...
    @property
    def running(self) -> RunningRequests: ...
    @property
    def fleet(self) -> "Fleet | None": ...
    @property
    def notices(self) -> FleetNotices: ...
    @property
    def observers(self) -> RequestObservers: ...
    @property
    def chain(self) -> Chain: ...
    @property
    def shadow(self) -> ShadowControl: ...
    @property
    def mode(self) -> Mode: ...
    @property
    def passed(self) -> Mapping[str, int]: ...

    def switch(self, mode: Mode) -> None:
        """Limit requests, observe only, or be off, from now on."""
        ...

    async def reload(self) -> bool:
        """Read the configuration again; return False if something is wrong with it.

        Raise InvalidValueError if it didn't come from files.
        """
        ...


class ObservedRequest(NamedTuple):
    """A request at one moment: copies of the facts that may change, and the admission, which has the others.

    There may be 100,000 requests, and none is served while their facts are copied, so copying takes few steps. The
    snapshots are made afterwards, a portion at a time.
    """

    admission: Admission
    queue: int | None
    position: int | None
    work: Work
    width: int
    seated_at: int | None
    held_by: HeldSnapshot | None = None

    def snapshot(self, *, details: bool = False) -> RequestSnapshot:
        """Return a frozen snapshot, with its details or without."""
        admission, queue, position, work, width, seated_at, held_by = self
        place = admission.destination.classification
        facts = (work.seats, work.final_seats, work.linger_ns, width, place.weight, held_by)
        where = (place.level, place.schema, place.flow, queue, position, admission.arrived_at, seated_at)
        if not details:
            return RequestSnapshot(*where, *facts)
        verb, path, resource = getattr(admission.destination, "details", NO_DETAILS)
        about = resource or NO_RESOURCE
        return RequestSnapshot(
            *where,
            *facts,
            user=admission.identity.name,
            verb=verb,
            path=path,
            namespace=about.namespace,
            name=about.name,
            api_group=about.api_group,
            api_version=about.version,
            resource=about.resource,
            subresource=about.subresource,
        )


def _levels(controller: Controller) -> list[SharedLevel]:
    """Update all queue sets, and return all levels by name; a draining one comes after another of its name."""
    controller.look(controller.now())
    sharing = controller.sharing
    return sorted((*sharing.levels.values(), *sharing.draining), key=lambda level: (level.name, level.is_draining))


def observe_levels(view: View) -> list[LevelSnapshot]:
    """Return all levels."""
    receiving = view.controller.bodies.counts(())
    return [
        level.snapshot(0 if level.is_draining else receiving.get(level.name, 0)) for level in _levels(view.controller)
    ]


def observe_queues(view: View) -> list[QueueSnapshot]:
    """Return all queues, level by level."""
    queues: list[QueueSnapshot] = []
    for level in _levels(view.controller):
        discipline = level.queueset.discipline
        for queue in level.queueset.deck:
            found = queue.snapshot(level.name)
            if isinstance(discipline, UpstreamEqualSerial) and found.next_dispatch_r is not None:
                found = replace(found, next_dispatch_r=discipline.as_upstream(found.next_dispatch_r))
            queues.append(found)
    return queues


def observe_requests(view: View) -> list[ObservedRequest]:
    """Return all requests by level and queue: waiting ones in their order, then held ones, then running ones."""
    levels = _levels(view.controller)
    running: dict[object, list[Admission]] = {}
    for admission in view.running.admissions:
        if admission.state is _SEATED:
            place = admission.queueset if admission.queue is None else admission.queue
            running.setdefault(place, []).append(admission)
    held = _held_requests(view.controller)
    found: list[ObservedRequest] = []
    for level in levels:
        for queue in level.queueset.deck:
            if queue.length:
                found += [
                    ObservedRequest(ticket, queue.index, position, ticket.work, ticket.width, None)
                    for position, ticket in enumerate(queue)
                    if isinstance(ticket, Admission)
                ]
            found += held.get(queue, ())
            found += _running_requests(running.get(queue), queue.index)
        found += _running_requests(running.get(level.queueset), None)
    return found


def _held_requests(controller: Controller) -> dict[Queue | None, list[ObservedRequest]]:
    """Return the requests that gates hold, by queue, the earliest first."""
    found: dict[Queue | None, list[ObservedRequest]] = {}
    runner = controller.gate_runner
    for admission, gate, since, number, stage in runner.list_held() if runner is not None else ():
        queue = admission.queue
        held_by = HeldSnapshot(gate, since, number, stage)
        request = ObservedRequest(
            admission, None if queue is None else queue.index, None, admission.work, admission.width, None, held_by
        )
        found.setdefault(queue, []).append(request)
    return found


def _running_requests(running: list[Admission] | None, queue: int | None) -> list[ObservedRequest]:
    if running is None:
        return []
    running.sort(key=lambda admission: admission.seated_at)
    return [ObservedRequest(one, queue, None, one.work, one.width, one.seated_at) for one in running]


class PresentRequests:
    """The requests of one flow that wait and run, the seats that they use and ask for, and their highest weight.

    ``oldest`` is the arrival of the request that has waited longest. ``fair`` is the flow's share of its level's seats.
    """

    __slots__ = ("executing", "fair", "oldest", "seats", "seats_waiting", "waiting", "weight")

    def __init__(self) -> None:
        self.waiting: int = 0
        self.executing: int = 0
        self.seats: int = 0
        self.seats_waiting: int = 0
        self.oldest: int | None = None
        self.weight: float = 0
        self.fair: float | None = None

    @property
    def number(self) -> int:
        return self.waiting + self.executing

    def count(self, request: ObservedRequest, weight: float) -> None:
        self.weight = max(self.weight, weight)
        if request.seated_at is not None:
            self.executing += 1
            self.seats += request.width
            return
        self.waiting += 1
        if request.held_by is None:  # a request that a gate holds is no demand
            self.seats_waiting += request.width
        arrived = request.admission.arrived_at
        if self.oldest is None or arrived < self.oldest:
            self.oldest = arrived


PresentFlows = Mapping[str, Mapping[FlowKey, PresentRequests]]
"""The flows that have requests now, by level."""


def count_present(view: View, requests: Iterable[ObservedRequest]) -> PresentFlows:
    """Return the flows of these ``requests``, with their fair shares."""
    found: dict[str, dict[FlowKey, PresentRequests]] = {}
    for request in requests:
        place = request.admission.destination.classification
        own = found.setdefault(place.level, {})
        key = (place.level, place.schema, place.flow)
        flow = own.get(key)
        if flow is None:
            flow = own[key] = PresentRequests()
        flow.count(request, place.weight)
    for level, own in found.items():
        shared = view.controller.sharing.levels.get(level)
        if shared is not None and not shared.exempt:
            _divide(max(shared.current, shared.queueset.seats_in_use), list(own.values()))
    return found


def _divide(seats: int, flows: Sequence[PresentRequests]) -> None:
    """Set the fair share of each flow: none gets more than it wants, and the others share the rest by weight."""
    claims = [(max(1, round(flow.weight * _FINE)), 0, (flow.seats + flow.seats_waiting) * _FINE) for flow in flows]
    for flow, part in zip(flows, fill(seats * _FINE, claims), strict=True):
        flow.fair = part / _FINE


def observe_flows(
    view: View, most: int, present: PresentFlows | None = None, *, of_each_level: bool = False
) -> list[FlowSnapshot]:
    """Return the flows with the most work, rejections and present requests: at most ``most`` by each measure.

    With ``of_each_level``, these are at most ``most`` of each level by their present requests. If ``present`` is None,
    the requests are counted.
    """
    now = view.controller.now()
    view.running.age(now)
    if present is None:
        present = count_present(view, observe_requests(view))
    everything = {key: flow for own in present.values() for key, flow in own.items()}
    groups = present.values() if of_each_level else (everything,)
    work, rejections = view.running.work, view.running.rejections
    wanted = [*(one.flow for one in work.top(most)), *(one.flow for one in rejections.top(most))]
    for group in groups:
        wanted += nlargest(most, group, key=lambda key: everything[key].number)
    return [
        _flow(now, flow, (work.of(flow), rejections.of(flow)), everything.get(flow, _NOTHING))
        for flow in dict.fromkeys(wanted)
    ]


_NOTHING: Final = PresentRequests()


def _flow(
    now: int,
    flow: FlowKey,
    heavy: tuple[HeavyFlow[FlowKey] | None, HeavyFlow[FlowKey] | None],
    present: PresentRequests,
) -> FlowSnapshot:
    work, rejected = heavy
    return FlowSnapshot(
        *flow,
        work=work.total if work else 0,
        work_error=work.error if work else 0,
        rejected=rejected.total if rejected else 0,
        rejected_error=rejected.error if rejected else 0,
        waiting=present.waiting,
        executing=present.executing,
        seats_in_use=present.seats,
        weight=present.weight if present.number else None,
        seats_waiting=present.seats_waiting,
        oldest=0 if present.oldest is None else now - present.oldest,
        fair=present.fair,
    )


def observe_fleet_levels(view: View, requests: Iterable[ObservedRequest]) -> tuple[FleetLevelSnapshot, ...]:
    """Return the levels of the whole fleet, with the names of those flows that have ``requests`` here."""
    member = None if view.fleet is None else view.fleet.participant.member
    if member is None:
        return ()
    places = (request.admission.destination.classification for request in requests)
    return member.levels({place.entropy: place.flow for place in places})


def observe_adaptive(view: View) -> AdaptiveSeatsDocument | None:
    """Return the number of seats if it adapts."""
    controller = view.controller
    if controller.adaptive is None:
        return None
    bounds, reason = controller.adaptive.bounds, controller.adaptive.reason
    return AdaptiveSeatsDocument(
        controller.seats, bounds.min, bounds.max, reason, shared=controller.sampler is not None
    )
