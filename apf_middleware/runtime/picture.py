"""A picture of the controller for whoever asks what happens: made when asked, from the numbers that are kept anyway."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from apf_middleware.counters import Times
from apf_middleware.fairqueuing import Adjusting, QueueSet, SharedLevel
from apf_middleware.fairqueuing.work import seat_seconds
from apf_middleware.metrics.picture import (
    Bounds,
    DemandPicture,
    LevelPicture,
    QueuePicture,
    SchemaPicture,
    ServerPicture,
)
from apf_middleware.runtime.admission import Admission
from apf_middleware.runtime.controller import Controller
from apf_middleware.runtime.level import LevelRuntime

if TYPE_CHECKING:
    from apf_middleware.metrics.picture import Kind

__all__ = ["picture_server"]

_NEXT_R: Final = "next_dispatch_r"


def picture_server(
    controller: Controller,
    *,
    authentication_failures: Mapping[str, int],
    version: str,
    configuration_loads: Mapping[str, int] = MappingProxyType({}),
    unknown_queues: Mapping[str, int] = MappingProxyType({}),
    request_kinds: Mapping[tuple[str, str], Times] = MappingProxyType({}),
) -> ServerPicture:
    """Everything, as it is now."""
    now = controller.now()
    controller.look(now)
    sharing, shown = controller.sharing, controller.shown
    return ServerPicture(
        levels=tuple(_picture_level(runtime, sharing, now) for runtime in shown),
        schemas=tuple(one for runtime in shown for one in _picture_schemas(runtime)),
        seats=controller.configuration.server.seats,
        fair_fraction=sharing.fair_fraction if isinstance(sharing, Adjusting) else None,
        authentication_failures=authentication_failures,
        hang_ups={"waiting": controller.hang_ups},
        open_streams=controller.streams.counts(controller.levels),
        receiving=controller.bodies.counts(controller.levels),
        body_bytes=controller.bodies.kept,
        receives_bodies=not controller.bodies.settings.hold_seats,
        configuration_loads=dict(configuration_loads),
        version=version,
        gates=controller.picture_gates(),
        queues=_picture_queues(controller),
        live_changes=len(controller.queues.changes.entries),
        unknown_queues=dict(unknown_queues),
        request_kinds=request_kinds,
        has_legacy_names=controller.configuration.server.metrics.legacy_names,
    )


def _picture_queues(controller: Controller) -> tuple[QueuePicture, ...]:
    asked = controller.reclaimer.asked if controller.reclaimer is not None else {}
    return tuple(
        QueuePicture(
            one.name,
            one.state.value,
            one.weight,
            one.min,
            one.max,
            one.deserved,
            one.used,
            one.share,
            one.inqueue,
            one.pending,
            one.running,
            one.completed,
            one.failed,
            one.aborted,
            asked.get(one.name, 0),
        )
        for one in controller.queues.list()
    )


def _picture_level(runtime: LevelRuntime, sharing: object, now: int) -> LevelPicture:
    shared = runtime.shared
    queueset, limits = shared.queueset, shared.limits
    settings = queueset.settings
    kind: Kind = "exempt" if shared.exempt else "queue" if settings.queues else "reject"
    next_s, discounted = _next_starts(queueset)
    seats_in_use, executing, waiting, demand = runtime.occupancy.times(now)
    return LevelPicture(
        name=runtime.name,
        kind=kind,
        nominal=limits.nominal,
        min=limits.min,
        max=limits.max,
        current=shared.current,
        seats_in_use=seats_in_use,
        executing=executing,
        waiting=waiting,
        demand=demand,
        waiting_capacity=settings.queue_length_limit * (settings.queues + settings.exact),
        denominator=None if isinstance(sharing, Adjusting) else limits.nominal or None,
        adjusted=_demand_of(shared),
        meters=queueset.discipline.meters(),
        next_s=next_s,
        next_discounted_s=discounted,
        limits_streams=runtime.streams.settings.is_limited,
    )


def _demand_of(shared: SharedLevel) -> DemandPicture | None:
    """The last adjustment's view of a level, where limits are adjusted at all."""
    record = shared.record
    if record is None:
        return None
    demand, adjusted = record.demand, record.adjustment
    return DemandPicture(demand.maximum, demand.average, demand.deviation, adjusted.smoothed, adjusted.target)


def _next_starts(queueset: QueueSet) -> tuple[Bounds | None, Bounds | None]:
    """The least and the most virtual start of those who wait first in their queues; the second pair less what runs."""
    starts = [
        (queue.meters[_NEXT_R], seat_seconds(queue.seats_in_use, queueset.guess_ns))
        for queue in queueset.snapshot().queues
        if queue.waiting and _NEXT_R in queue.meters
    ]
    return _bounds(start for start, _ in starts), _bounds(start - running for start, running in starts)


def _bounds(values: Iterable[int]) -> Bounds | None:
    found = list(values)
    return (min(found), max(found)) if found else None


def _picture_schemas(runtime: LevelRuntime) -> Iterator[SchemaPicture]:
    lingering: dict[str, int] = {}
    for ticket in runtime.shared.queueset.lingering_tickets():
        if isinstance(ticket, Admission):
            lingering[ticket.schema] = lingering.get(ticket.schema, 0) + ticket.width
    for schema, tally in runtime.tallies.items():
        yield SchemaPicture(runtime.name, schema, tally, lingering.get(schema, 0))
