"""Readings of a controller for metrics, made at each scrape from the numbers that the runtime keeps."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from apf_middleware.fairqueuing import Adjusting, QueueSet, Reason, SharedLevel
from apf_middleware.fairqueuing.work import seat_seconds
from apf_middleware.metrics.reading import (
    AdjustmentReading,
    Bounds,
    LevelKind,
    LevelReading,
    PredictionReading,
    SchemaReading,
    ServerReading,
)
from apf_middleware.runtime.admission import Admission
from apf_middleware.runtime.controller import Controller
from apf_middleware.runtime.late_arrivals import OUTCOMES
from apf_middleware.runtime.level import LevelRuntime
from apf_middleware.runtime.named_queues import NamedQueues

if TYPE_CHECKING:
    from apf_middleware.metrics.reading import AdaptiveReading, FleetReading

__all__ = ["read_limits", "read_server"]

_NEXT_R: Final = "next_dispatch_r"
_REASONS_OF_KIND: Final[Mapping[LevelKind, tuple[Reason, ...]]] = {
    "queue": (Reason.QUEUE_FULL, Reason.TIME_OUT, Reason.CANCELLED),
    "reject": (Reason.CONCURRENCY_LIMIT,),
    "exempt": (),
}


def read_server(controller: Controller, queues: NamedQueues, fleet: "FleetReading | None" = None) -> ServerReading:
    """Read all numbers that the controller, the named queues and the fleet keep."""
    found, sharing, runner = read_limits(controller), controller.sharing, controller.gate_runner
    return found._replace(
        seats=sharing.seats if fleet is None else fleet.granted,
        fair_fraction=sharing.fair_fraction if isinstance(sharing, Adjusting) else None,
        hang_ups={"waiting": controller.hang_ups},
        open_streams=controller.registry.streams.counts(controller.levels),
        receiving=controller.bodies.counts(controller.levels),
        body_bytes=controller.bodies.kept,
        gates=() if runner is None else runner.reading(),
        queues=queues.list(),
        revocations={} if controller.reclaimer is None else controller.reclaimer.asked,
        live_changes=len(queues.changes.entries),
        adaptive=_read_adaptive(controller, fleet),
        fleet=fleet,
        predictions=_read_predictions(controller),
        has_legacy_names=controller.configuration.server.metrics.legacy_names,
    )


def read_limits(controller: Controller) -> ServerReading:
    """Read the seats, the levels and the schemas of a server."""
    now = controller.now()
    controller.look(now)
    shown = controller.registry.shown
    return ServerReading(
        levels=tuple(_read_level(controller, runtime, now) for runtime in shown),
        schemas=tuple(one for runtime in shown for one in _read_schemas(runtime)),
        seats=controller.sharing.seats,
    )


def _read_adaptive(controller: Controller, fleet: "FleetReading | None") -> "AdaptiveReading | None":
    if fleet is not None and fleet.adaptive is not None:
        return fleet.adaptive
    return None if controller.adaptive is None else controller.adaptive.reading()


def _read_level(controller: Controller, runtime: LevelRuntime, now: int) -> LevelReading:
    shared = runtime.shared
    queueset, limits = shared.queueset, shared.limits
    settings = queueset.settings
    kind: LevelKind = "exempt" if shared.exempt else "queue" if settings.queues else "reject"
    next_s, discounted = _next_starts(queueset)
    seats_in_use, executing, waiting, demand = runtime.occupancy.times(now)
    return LevelReading(
        name=runtime.name,
        kind=kind,
        limits=limits,
        current=shared.current,
        seats_in_use=seats_in_use,
        executing=executing,
        waiting=waiting,
        demand=demand,
        waiting_capacity=settings.queue_length_limit * (settings.queues + settings.exact),
        denominator=None if isinstance(controller.sharing, Adjusting) else limits.nominal or None,
        adjusted=_demand_of(shared),
        meters=queueset.discipline.meters(),
        next_s=next_s,
        next_discounted_s=discounted,
        expected=tuple(_expected_reasons(controller, runtime, kind)),
    )


def _expected_reasons(controller: Controller, runtime: LevelRuntime, kind: LevelKind) -> Iterator[Reason]:
    """Yield the reasons for which a level may reject requests in this configuration."""
    configuration = controller.configuration
    yield from _REASONS_OF_KIND[kind]
    if runtime.streams.settings.is_limited:
        yield Reason.STREAM_LIMIT
    if runtime.name in configuration.gated_levels:
        yield Reason.GATE
    if kind != "exempt":
        if not controller.bodies.settings.hold_seats:
            yield from (Reason.SLOW_BODY, Reason.BODY_LIMIT)
        if configuration.has_deadlines:
            yield Reason.DEADLINE


def _read_predictions(controller: Controller) -> dict[str, PredictionReading]:
    """Return what was predicted, for all levels where requests may wait; nothing without deadlines."""
    late = controller.late_arrivals
    if late is None:
        return {}
    return {
        level: PredictionReading(
            {outcome: late.outcomes[level, outcome] for outcome in OUTCOMES},
            late.predicted_ns[level],
            late.waited_ns[level],
        )
        for level, runtime in controller.levels.items()
        if not runtime.shared.exempt
    }


def _demand_of(shared: SharedLevel) -> AdjustmentReading | None:
    """Return the result of the last adjustment for a level; None if limits aren't adjusted."""
    record = shared.record
    if record is None:
        return None
    demand, adjusted = record.demand, record.adjustment
    return AdjustmentReading(demand.maximum, demand.average, demand.deviation, adjusted.smoothed, adjusted.target)


def _next_starts(queueset: QueueSet) -> tuple[Bounds | None, Bounds | None]:
    """Return the smallest and the largest virtual start of the requests that are first in their queues.

    For the second pair, the expected work of the executing requests of each queue is subtracted.
    """
    starts = [
        (meters[_NEXT_R], seat_seconds(queue.seats_in_use, queueset.guess_ns))
        for queue in queueset.deck
        if queue.length and _NEXT_R in (meters := queue.meters())
    ]
    return _bounds(start for start, _ in starts), _bounds(start - running for start, running in starts)


def _bounds(values: Iterable[int]) -> Bounds | None:
    found = list(values)
    return (min(found), max(found)) if found else None


def _read_schemas(runtime: LevelRuntime) -> Iterator[SchemaReading]:
    lingering: dict[str, int] = {}
    for ticket in runtime.shared.queueset.lingering:
        if isinstance(ticket, Admission):
            lingering[ticket.schema] = lingering.get(ticket.schema, 0) + ticket.width
    for schema, counters in runtime.schema_counters.items():
        yield SchemaReading(runtime.name, schema, counters, lingering.get(schema, 0))
