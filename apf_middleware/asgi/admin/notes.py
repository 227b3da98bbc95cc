"""What is to be shown, noted in one step: between two notes nothing happens, so a dump shows one moment.

Writing it down takes longer and is done afterwards, in portions (see `table`). So a note holds no more than what may
change in the meantime, and beside that the admission itself, whose names and arrival stay as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from apf_middleware.classification import Resource
from apf_middleware.config import Configuration, Problem
from apf_middleware.fairqueuing import LevelLimits, Reason, SharedLevel, TicketState, UpstreamEqualSerial, Work
from apf_middleware.fairqueuing.queue import Queue
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.running_requests import RunningRequests
from apf_middleware.runtime.top_flows import FlowKey, HeavyFlow

__all__ = [
    "NO_DETAILS",
    "Details",
    "FlowNote",
    "HeldNote",
    "LevelNote",
    "QueueNote",
    "RequestNote",
    "View",
    "note_flows",
    "note_levels",
    "note_queues",
    "note_requests",
]

_SEATED: Final = TicketState.SEATED


class View(Protocol):
    """What the admin looks at, and what it can have done.

    ``problems`` are the warnings of the configuration in force, and the errors of one that was refused since.
    """

    @property
    def configuration(self) -> Configuration: ...
    @property
    def controller(self) -> Controller: ...
    @property
    def problems(self) -> Sequence[Problem]: ...
    @property
    def running(self) -> RunningRequests: ...

    async def reload(self) -> bool:
        """Read the configuration again; False if something is wrong, InvalidValueError if it didn't come from files."""
        ...


class Details(NamedTuple):
    """What a request is about; a destination has it as ``details`` if anybody may ask."""

    verb: str
    path: str
    resource: Resource | None


NO_DETAILS: Final = Details("", "", None)
"""Of a request whose destination doesn't know."""


class LevelNote(NamedTuple):
    """A level; ``rejected`` by reason.

    Requests that are ``parked`` wait for a gate, and those that are ``receiving`` for their bodies: neither are among
    the ``waiting``.
    """

    name: str
    exempt: bool
    is_idle: bool
    is_quiescing: bool
    active_queues: int
    waiting: int
    parked: int
    receiving: int
    seats_waiting: int
    executing: int
    lingering: int
    seats_in_use: int
    dispatched: int
    rejected: Mapping[Reason, int]
    limits: LevelLimits
    current: int
    discipline: str
    meters: Mapping[str, int]


class QueueNote(NamedTuple):
    """A queue and its index; ``next_dispatch_r`` None where the discipline has no such meter."""

    level: str
    card: int
    waiting: int
    parked: int
    executing: int
    seats_in_use: int
    next_dispatch_r: int | None
    initial_seats: int
    max_seats: int
    work: int


class HeldNote(NamedTuple):
    """Which gate keeps a request waiting, and since when; None behind another of its flow, where none may overtake."""

    gate: str | None
    since: int
    number: int
    stage: str


class RequestNote(NamedTuple):
    """A request that waits or runs.

    ``queue`` None where there are no queues; ``position`` None unless it waits for its turn, ``seated_at`` None until
    it has had it. Who is ``held`` by a gate has no position: later ones pass.
    """

    admission: Admission
    queue: int | None
    position: int | None
    work: Work
    width: int
    seated_at: int | None
    held: HeldNote | None = None


class FlowNote(NamedTuple):
    """A flow's work in seat-nanoseconds and its rejections, both aged; and what it has now."""

    level: str
    schema: str
    flow: str
    work: int
    work_error: int
    rejected: int
    rejected_error: int
    waiting: int
    executing: int
    seats_in_use: int


def _levels(controller: Controller) -> list[SharedLevel]:
    """All of them by name, also those that are to go, with everything told to the queue sets that they missed."""
    controller.look(controller.now())
    sharing = controller.sharing
    return sorted((*sharing.levels.values(), *sharing.draining), key=lambda level: (level.name, level.is_draining))


def note_levels(view: View) -> list[LevelNote]:
    """All levels."""
    receiving = view.controller.bodies.counts(())
    return [
        _note_level(level, 0 if level.is_draining else receiving.get(level.name, 0))
        for level in _levels(view.controller)
    ]


def _note_level(level: SharedLevel, receiving: int) -> LevelNote:
    queueset = level.queueset
    return LevelNote(
        name=level.name,
        exempt=level.exempt,
        is_idle=level.is_idle,
        is_quiescing=level.is_draining,
        active_queues=sum(queue.length > 0 for queue in queueset.deck),
        waiting=queueset.waiting,
        parked=queueset.parked,
        receiving=receiving,
        seats_waiting=queueset.seats_waiting,
        executing=queueset.executing,
        lingering=sum(1 for _ in queueset.lingering_tickets()),
        seats_in_use=queueset.seats_in_use,
        dispatched=queueset.dispatched,
        rejected=dict(queueset.rejected),
        limits=level.limits,
        current=level.current,
        discipline=queueset.discipline.name,
        meters=dict(queueset.discipline.meters()),
    )


def note_queues(view: View) -> list[QueueNote]:
    """All queues, level by level."""
    notes = []
    for level in _levels(view.controller):
        discipline = level.queueset.discipline
        equal = discipline if isinstance(discipline, UpstreamEqualSerial) else None
        notes += [_note_queue(level.name, queue, equal) for queue in level.queueset.deck]
    return notes


def _note_queue(level: str, queue: Queue, discipline: UpstreamEqualSerial | None) -> QueueNote:
    next_r = queue.meters().get("next_dispatch_r")
    if next_r is not None and discipline is not None:
        next_r = discipline.as_upstream(next_r)
    initial = most = 0
    if queue.length:
        for ticket in queue:
            initial += ticket.work.seats
            most += ticket.width
    waits, work = (queue.length, queue.parked), queue.waiting_work
    return QueueNote(level, queue.index, *waits, queue.executing, queue.seats_in_use, next_r, initial, most, work)


def note_requests(view: View) -> list[RequestNote]:
    """All requests, by level and queue: those that wait as they stand, then whom gates hold, then those that run."""
    levels = _levels(view.controller)
    running: dict[object, list[Admission]] = {}
    for admission in view.running.admissions:
        if admission.state is _SEATED:
            place = admission.queueset if admission.queue is None else admission.queue
            running.setdefault(place, []).append(admission)
    held = _note_held(view.controller)
    notes: list[RequestNote] = []
    for level in levels:
        for queue in level.queueset.deck:
            if queue.length:
                notes += [
                    RequestNote(ticket, queue.index, position, ticket.work, ticket.width, None)
                    for position, ticket in enumerate(queue)
                    if isinstance(ticket, Admission)
                ]
            notes += held.get(queue, ())
            notes += _note_running(running.get(queue), queue.index)
        notes += _note_running(running.get(level.queueset), None)
    return notes


def _note_held(controller: Controller) -> dict[Queue | None, list[RequestNote]]:
    """Whom gates hold, by queue, the earliest first."""
    notes: dict[Queue | None, list[RequestNote]] = {}
    for admission, gate, since, number, stage in controller.list_held():
        queue = admission.queue
        index = None if queue is None else queue.index
        note = RequestNote(
            admission, index, None, admission.work, admission.width, None, HeldNote(gate, since, number, stage)
        )
        notes.setdefault(queue, []).append(note)
    return notes


def _note_running(running: list[Admission] | None, queue: int | None) -> list[RequestNote]:
    if running is None:
        return []
    running.sort(key=lambda admission: admission.seated_at)
    return [RequestNote(one, queue, None, one.work, one.width, one.seated_at) for one in running]


def note_flows(view: View, most: int) -> list[FlowNote]:
    """The flows that have had the most work, were rejected most often, or have the most seats or places now."""
    view.running.age(view.controller.now())
    here: dict[FlowKey, list[int]] = {}
    for admission, _, _, _, width, seated_at, _ in note_requests(view):
        place = admission.destination.classification
        counts = here.setdefault((place.level, place.schema, place.flow), [0, 0, 0])
        if seated_at is not None:
            counts[1] += 1
            counts[2] += width
        else:
            counts[0] += 1
    work, rejections = view.running.work, view.running.rejections
    by_presence = sorted(here, key=lambda flow: sum(here[flow][:2]), reverse=True)[:most]
    wanted = [*(one.flow for one in work.top(most)), *(one.flow for one in rejections.top(most)), *by_presence]
    return [_note_flow(flow, work.of(flow), rejections.of(flow), here.get(flow)) for flow in dict.fromkeys(wanted)]


def _note_flow(
    flow: FlowKey,
    work: HeavyFlow[FlowKey] | None,
    rejected: HeavyFlow[FlowKey] | None,
    here: Sequence[int] | None,
) -> FlowNote:
    waiting, executing, seats = here or (0, 0, 0)
    return FlowNote(
        *flow,
        work=work.total if work else 0,
        work_error=work.error if work else 0,
        rejected=rejected.total if rejected else 0,
        rejected_error=rejected.error if rejected else 0,
        waiting=waiting,
        executing=executing,
        seats_in_use=seats,
    )
