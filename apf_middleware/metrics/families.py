"""Every metric: its name, help, labels and buckets, and the function that reads its series.

Metrics that Kubernetes also has use its suffixes, labels and buckets, so that dashboards made for Kubernetes work when
the prefix is ``apiserver_flowcontrol``. The value of a series is a number (a counter or gauge), a histogram of single
observations, or a `Portion` (a number over time, relative to a whole), which a `RatioLedger` turns into a histogram.

If a host has several workers, each has its own seats, queues and clocks. ``mode`` says how the gauges of the workers
are combined, in prometheus_client's terms: seats and requests are added up, and each virtual time is shown separately.
"""

from collections.abc import Iterator
from typing import Final

from apf_middleware.counters import LENGTH_BOUNDS, WATCH_BOUNDS, WIDTH_BOUNDS, Histogram
from apf_middleware.fairqueuing.work import round_half_away
from apf_middleware.metrics.family import DURATIONS, NS, Family, Point, SeriesSource
from apf_middleware.metrics.ratios import RatioLedger
from apf_middleware.metrics.reading import (
    AdaptiveReading,
    AdjustmentReading,
    ElasticReading,
    FleetReading,
    GateReading,
    LevelReading,
    PredictionReading,
    SchemaReading,
    ServerReading,
)
from apf_middleware.metrics.series import (
    Labels,
    Portion,
    meter_reader,
    read_bounds,
    read_epochs,
    read_queue_lengths,
    read_rejections,
    read_request_kinds,
    read_request_utilization,
    read_waits,
    read_widths,
)
from apf_middleware.metrics.shadow_families import SHADOW_FAMILIES
from apf_middleware.mode import MODES
from apf_middleware.snapshots import NamedQueueSnapshot, QueueState

__all__ = ["FAMILIES", "read_families"]


def read_families(reading: ServerReading, ledger: RatioLedger) -> Iterator[tuple[Family, list[Point]]]:
    """Yield all metrics with their series; then remove from the ledger levels that no longer exist."""
    kept: list[Labels] = []
    for family in FAMILIES:
        if family.is_legacy and not reading.has_legacy_names:
            continue
        points: list[Point] = []
        for labels, value in family.read(reading):
            if isinstance(value, Portion):
                key = (family.suffix, *labels)
                points.append((labels, ledger.read(key, value.times, value.whole, family.bounds)))
                kept.append(key)
            # Other histograms are shown only after their first observation, so schemas without requests cost little.
            elif not isinstance(value, Histogram) or any(value.counts):
                points.append((labels, value))
        yield family, points
    ledger.keep(kept)


# Sources of series


def _levels_with_limits(reading: ServerReading) -> Iterator[tuple[Labels, tuple[LevelReading, float]]]:
    """Yield each level with the limit that is the denominator of its ratios.

    It is the nominal limit with immediate borrowing, and the current one with periodic borrowing. A nominal limit of 0
    is replaced by the current one, and a current limit of 0 by a tenth of the server's seats. In a fleet, a nominal
    limit is that of all members, so each has an equal part of it: the average of all is then a part of the whole.
    """
    for level in reading.levels:
        if level.denominator is None:
            limit: float = level.current or max(1, round_half_away(reading.seats / 10))
        else:
            limit = level.denominator / reading.members
        yield (level.name,), (level, limit)


def _adjusted_levels(reading: ServerReading) -> Iterator[tuple[Labels, AdjustmentReading]]:
    return (((one.name,), one.adjusted) for one in reading.levels if one.adjusted is not None)


_server: Final[SeriesSource[ServerReading]] = SeriesSource((), lambda reading: [((), reading)])
_schema: Final[SeriesSource[SchemaReading]] = SeriesSource(
    ("priority_level", "flow_schema"), lambda reading: (((one.level, one.schema), one) for one in reading.schemas)
)
_level: Final[SeriesSource[LevelReading]] = SeriesSource(
    ("priority_level",), lambda reading: (((one.name,), one) for one in reading.levels)
)
_adjusted: Final = SeriesSource(_level.labels, _adjusted_levels)
_portion: Final = SeriesSource(_level.labels, _levels_with_limits)
_queue: Final[SeriesSource[NamedQueueSnapshot]] = SeriesSource(
    ("queue",), lambda reading: (((one.name,), one) for one in reading.queues)
)
_gate: Final[SeriesSource[GateReading]] = SeriesSource(
    ("gate",), lambda reading: (((one.name,), one) for one in reading.gates)
)
_elastic: Final[SeriesSource[ElasticReading]] = SeriesSource(
    _level.labels,
    lambda reading: () if reading.event_loop is None else (((one.name,), one) for one in reading.event_loop.levels),
)
_prediction: Final[SeriesSource[PredictionReading]] = SeriesSource(
    _level.labels, lambda reading: (((level,), one) for level, one in reading.predictions.items())
)
_fleet: Final[SeriesSource[FleetReading]] = SeriesSource(
    (), lambda reading: [] if reading.fleet is None else [((), reading.fleet)]
)
_adaptive: Final[SeriesSource[AdaptiveReading]] = SeriesSource(
    (), lambda reading: [] if reading.adaptive is None else [((), reading.adaptive)]
)


# The metrics

_SEAT_RATIOS: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
_REQUEST_RATIOS: Final = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0)
_KIND_RATIOS: Final = (0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
_DEMAND_RATIOS: Final = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0)
FAMILIES: Final[tuple[Family, ...]] = (
    _schema(
        "dispatched_requests_total",
        "Requests that were given seats and began to execute, at once or after waiting.",
        lambda one: one.counters.dispatched,
    ),
    Family(
        "rejected_requests_total",
        "Requests that were rejected, by reason; cancelled: the client left while the request waited.",
        (*_schema.labels, "reason"),
        read_rejections,
    ),
    _schema(
        "request_dispatch_no_accommodation_total",
        "How often the request whose turn it was didn't fit into the free seats.",
        lambda one: one.counters.no_accommodation,
    ),
    _schema("current_inqueue_requests", "Requests that wait in queues now.", lambda one: one.counters.waiting),
    _schema(
        "current_inqueue_seats", "Seats that the waiting requests ask for.", lambda one: one.counters.seats_waiting
    ),
    _schema(
        "current_executing_requests",
        "Requests that execute now; a long-lived one counts until its response begins.",
        lambda one: one.counters.executing,
    ),
    _schema(
        "current_executing_seats",
        "Seats in use, also those that linger after a reply.",
        lambda one: one.counters.seats_executing + one.lingering_seats,
    ),
    Family(
        "request_wait_duration_seconds",
        "How long requests waited for seats; execute is true if they got seats, and false if they were rejected.",
        (*_schema.labels, "execute"),
        read_waits,
        bounds=DURATIONS,
        unit=NS,
    ),
    _schema(
        "request_execution_seconds",
        "How long requests executed; for type watch, until the long-lived response began.",
        lambda one: {"regular": one.counters.executions, "watch": one.counters.streams},
        "type",
        bounds=DURATIONS,
        unit=NS,
    ),
    Family(
        "request_queue_length_after_enqueue",
        "Length of the queue just after a request joined it, including that request.",
        _schema.labels,
        read_queue_lengths,
        bounds=LENGTH_BOUNDS,
    ),
    _schema(
        "watch_count_samples",
        "Number of watches that a write affects; only if writes are estimated as in Kubernetes.",
        lambda one: one.counters.watches,
        bounds=WATCH_BOUNDS,
    ),
    _schema(
        "work_estimated_seats",
        "Estimated seats of requests: the larger of initial and final seats.",
        read_widths,
        bounds=WIDTH_BOUNDS,
    ),
    _schema(
        "cut_requests_total",
        "Requests whose estimate exceeded the seats that their level allows for one request, and was cut to these.",
        lambda one: one.counters.cut,
    ),
    _server(
        "open_streams",
        "Open streams: requests that continue without seats, or have a place reserved to become a stream.",
        lambda reading: reading.open_streams,
        "priority_level",
    ),
    _server(
        "receiving_requests",
        "Requests that have no seats because their bodies are still on their way.",
        lambda reading: reading.receiving,
        "priority_level",
    ),
    _server(
        "body_buffer_bytes",
        "Bytes of bodies that are kept for requests until they have seats.",
        lambda reading: reading.body_bytes,
    ),
    _portion(
        "priority_level_seat_utilization",
        "Seats in use / limit (nominal, or current if borrowing is periodic); one observation per nanosecond.",
        lambda one: {"executing": Portion(one[0].seats_in_use, one[1])},
        "phase",
        bounds=_SEAT_RATIOS,
    ),
    _portion(
        "priority_level_request_utilization",
        "Executing requests / limit, waiting requests / room in the queues; one observation per nanosecond.",
        read_request_utilization,
        "phase",
        bounds=_REQUEST_RATIOS,
    ),
    Family(
        "read_vs_write_current_requests",
        "Requests that read or write: executing / nominal seats, waiting / room; one observation per nanosecond.",
        ("phase", "request_kind"),
        read_request_kinds,
        bounds=_KIND_RATIOS,
    ),
    _portion(
        "demand_seats",
        "(Seats in use + seats asked for) / limit; one observation per nanosecond.",
        lambda one: Portion(one[0].demand, one[1]),
        bounds=_DEMAND_RATIOS,
    ),
    _level("nominal_limit_seats", "Seats that the level has by its shares.", lambda level: level.limits.nominal),
    _level("lower_limit_seats", "Seats that the level never lends.", lambda level: level.limits.min),
    _level(
        "upper_limit_seats",
        "The most seats that the level can have, including all that it may borrow.",
        lambda level: level.limits.max,
    ),
    _level(
        "current_limit_seats",
        "Seats that the level has now, with what it borrows and without what it lends.",
        lambda level: level.current,
    ),
    _adjusted(
        "demand_seats_high_watermark",
        "The most seats that were in use and asked for in the last adjustment period.",
        lambda last: last.high_watermark,
    ),
    _adjusted(
        "demand_seats_average",
        "Average over time of the seats that were in use and asked for in the last adjustment period.",
        lambda last: last.average,
    ),
    _adjusted(
        "demand_seats_stdev",
        "Standard deviation of the seats that were in use and asked for in the last adjustment period.",
        lambda last: last.deviation,
    ),
    _adjusted(
        "demand_seats_smoothed",
        "Smoothed demand in seats: it rises at once and falls slowly.",
        lambda last: last.smoothed,
    ),
    _adjusted("target_seats", "Seats that the last adjustment aimed at for the level.", lambda last: last.target),
    _server(
        "seat_fair_frac",
        "Fraction of their targets that levels got in the last adjustment, unless their min or max applied.",
        lambda reading: reading.fair_fraction,
        mode="livemin",
    ),
    _level(
        "epoch_advance_total",
        "How often Kubernetes would have reduced R to keep it within 64 bits.",
        read_epochs,
        "success",
    ),
    _level("current_r", "R, the level's virtual time, in seat-seconds.", meter_reader("current_r"), mode="liveall"),
    _level(
        "dispatch_r",
        "R when the level last dispatched a request, in seat-seconds.",
        meter_reader("dispatch_r"),
        mode="liveall",
    ),
    _level(
        "latest_s",
        "The virtual start of the request dispatched last, in seat-seconds.",
        meter_reader("latest_s"),
        mode="liveall",
    ),
    _level(
        "next_s_bounds",
        "Smallest and largest virtual start of the requests at the heads of queues, in seat-seconds.",
        lambda level: read_bounds(level.next_s),
        "bound",
        mode="liveall",
    ),
    _level(
        "next_discounted_s_bounds",
        "As next_s_bounds, minus the work that the queue's executing requests are expected to take.",
        lambda level: read_bounds(level.next_discounted_s),
        "bound",
        mode="liveall",
    ),
    _queue(
        "queue_requests",
        "Requests of the queue that wait for seats (inqueue), wait for a gate (pending) or run.",
        lambda queue: {"inqueue": queue.inqueue, "pending": queue.pending, "running": queue.running},
        "state",
    ),
    _queue(
        "queue_finished_requests_total",
        "Finished requests of the queue: completed, failed, or aborted because the client left.",
        lambda queue: {"completed": queue.completed, "failed": queue.failed, "aborted": queue.aborted},
        "outcome",
    ),
    _queue(
        "queue_state",
        "1 for the state that the queue is in, 0 for the other states.",
        lambda queue: {state.value: float(queue.state == state) for state in QueueState},
        "state",
    ),
    _queue("queue_weight", "The queue's shares.", lambda queue: queue.weight, mode="livemax"),
    _queue("queue_min_seats", "Seats that are guaranteed to the queue.", lambda queue: queue.min),
    _queue("queue_max_seats", "Seats that the queue can have at most.", lambda queue: queue.max),
    _queue(
        "queue_deserved_seats",
        "Seats that the queue could claim now, given the demand of all queues.",
        lambda queue: queue.deserved,
    ),
    _queue("queue_used_seats", "Seats that the queue uses.", lambda queue: queue.used),
    _queue(
        "queue_share",
        "Seats in use divided by the seats that the queue deserves.",
        lambda queue: queue.share,
        mode="livemax",
    ),
    _server(
        "queue_revocations_total",
        "Requests of the queue that were asked to give way.",
        lambda reading: {one.name: reading.revocations.get(one.name, 0) for one in reading.queues},
        "queue",
    ),
    _server(
        "queue_live_changes",
        "Queues that differ from the files of the configuration.",
        lambda reading: reading.live_changes if reading.queues else None,
        mode="livemax",
    ),
    _server(
        "unknown_queue_requests_total",
        "Requests that were rejected because they named a queue that can't take them, by reason.",
        lambda reading: reading.unknown_queues,
        "reason",
    ),
    _server(
        "mode",
        "1 for the mode of the server: on, observe or off.",
        lambda reading: {one: int(one == reading.mode) for one in MODES},
        "mode",
        mode="livemax",
    ),
    _server(
        "passed_requests_total",
        "Requests that ran at once without seats because of the server's mode, by mode.",
        lambda reading: reading.passed,
        "mode",
    ),
    _schema(
        "late_seats_total",
        "Requests that were not run, because they got their seats after their deadlines.",
        lambda one: one.counters.late,
    ),
    _server(
        "invalid_deadline_headers_total",
        "Time limits of requests that were ignored because they can't be read, by header.",
        lambda reading: reading.invalid_headers,
        "header",
    ),
    _server(
        "invalid_criticality_headers_total",
        "Claims of criticality that were ignored because they can't be read, by header; equal requests count once.",
        lambda reading: reading.invalid_criticality,
        "header",
    ),
    _server(
        "lowered_criticality_total",
        "Claims of criticality by callers that may not claim so much, by what they claimed; equal requests count once.",
        lambda reading: reading.lowered_criticality,
        "criticality",
    ),
    _server(
        "event_loop_lag_seconds",
        "How late the event loop ran what was ready, in the last seconds, by percentile of time.",
        lambda reading: (
            None
            if reading.event_loop is None
            else {quantile: lag / NS for quantile, lag in reading.event_loop.lag.items()}
        ),
        "percentile",
        mode="livemax",
    ),
    _elastic(
        "elastic_cap_seats",
        "Seats that the elastic level may use at most, because the event loop is late; otherwise its max.",
        lambda level: level.cap,
    ),
    _elastic(
        "elastic_cap_changes_total",
        "Changes of the elastic level's cap, by reason.",
        lambda level: level.changes,
        "reason",
    ),
    _prediction(
        "late_arrivals_total",
        "Requests that were expected to be late (late, rejected), and ends of waits with deadlines (missed, in-time).",
        lambda one: one.outcomes,
        "outcome",
    ),
    _prediction(
        "predicted_wait_seconds_total",
        "Waits of requests that got seats: the sum of those that were predicted on arrival, and of the real ones.",
        lambda one: {"predicted": one.predicted_ns / NS, "real": one.waited_ns / NS},
        "kind",
    ),
    _server("server_seats", "Seats of the whole server.", lambda reading: reading.seats),
    _adaptive("adaptive_least_seats", "Least number of seats that the server may set.", lambda one: one.least),
    _adaptive("adaptive_largest_seats", "Largest number of seats that the server may set.", lambda one: one.largest),
    _adaptive(
        "adaptive_elasticity",
        "Growth of durations by growth of seats in use, as measured last: 0 with room, 1 without.",
        lambda one: one.elasticity,
        mode="livemax",
    ),
    _adaptive(
        "adaptive_duration_seconds",
        "Mean duration of the recent requests, each by its part of the seats in use.",
        lambda one: one.duration_ns / NS,
        mode="livemax",
    ),
    _adaptive(
        "adaptive_decisions_total",
        "Decisions about the number of seats, by reason.",
        lambda one: one.decisions,
        "reason",
    ),
    _server(
        "authentication_failures_total",
        "Requests that were refused for their credentials, by reason.",
        lambda reading: reading.authentication_failures,
        "reason",
    ),
    _server(
        "authentication_failing_sources",
        "Files and URLs of tokens or keys that could not be read the last time; what was read before stays in force.",
        lambda reading: reading.failing_sources,
        "source",
        mode="livemax",
    ),
    _server(
        "hang_ups_total",
        "Clients that left while their requests waited for their bodies, gates or seats.",
        lambda reading: reading.hang_ups,
        "phase",
    ),
    _server(
        "configuration_loads_total",
        "Configurations that were read, by outcome; after a failure the previous one stays in force.",
        lambda reading: reading.configuration_loads,
        "outcome",
    ),
    _server(
        "configuration_last_load_successful",
        "1 if the last configuration that was read is in force, 0 if it failed and the previous one stays in force.",
        lambda reading: int(not reading.has_broken_configuration),
        mode="livemin",
    ),
    _gate("gate_held", "1 while an operator keeps the gate closed.", lambda gate: int(gate.is_held), mode="livemax"),
    _gate("parked_requests", "Requests that a gate keeps waiting now.", lambda gate: gate.parked),
    _gate(
        "gate_wait_seconds",
        "How long a gate kept requests waiting.",
        lambda gate: gate.waits,
        bounds=DURATIONS,
        unit=NS,
    ),
    _gate(
        "gate_evaluations_total", "How often a gate was asked, by its answer.", lambda gate: gate.evaluations, "result"
    ),
    _gate("gate_events_total", "Events that were emitted to a gate.", lambda gate: gate.events),
    _gate(
        "gate_rescues_total",
        "Openings by a timer, because no event came for a long time, that let at least one request pass.",
        lambda gate: gate.rescues,
    ),
    _gate("gate_rejected_requests_total", "Requests that were rejected because of a gate.", lambda gate: gate.rejected),
    _fleet("fleet_seats", "Seats of the fleet, which all of its members share.", lambda one: one.seats, mode="livemax"),
    _fleet("fleet_members", "Members of the fleet.", lambda one: one.members, mode="livemax"),
    _fleet("fleet_granted_seats", "Seats that this member may use.", lambda one: one.granted),
    _fleet("fleet_used_seats", "Seats that this member uses at levels with limits.", lambda one: one.in_use),
    _fleet("fleet_is_allocator", "1 if this member divides the seats of the fleet.", lambda one: int(one.is_allocator)),
    _fleet(
        "fleet_configuration_differs",
        "1 if the seats are divided by a newer configuration than this member's.",
        lambda one: int(one.is_outdated),
    ),
    _fleet("fleet_epochs_total", "How often this member became the allocator.", lambda one: one.epochs),
    _fleet(
        "fleet_exchange_duration_seconds",
        "Time from a report of this member to the allocator's answer.",
        lambda one: one.exchanges,
        bounds=DURATIONS,
        unit=NS,
    ),
    _fleet(
        "fleet_exchange_age_seconds",
        "Time since the allocator's last answer to this member.",
        lambda one: None if one.age_ns is None else one.age_ns / NS,
        mode="livemax",
    ),
    _fleet(
        "fleet_fallback_seconds_total",
        "Time for which this member had no lease, and so only its fallback seats.",
        lambda one: one.fallback_ns / NS,
    ),
    _fleet(
        "fleet_overshoot_seat_seconds_total",
        "Seats in use beyond those of the fleet, over time, as this member has seen as the allocator.",
        lambda one: one.overshoot / NS,
    ),
    _level(
        "request_concurrency_limit",
        "Same as nominal_limit_seats, under the name that Kubernetes used until 1.30.",
        lambda level: level.limits.nominal,
        is_legacy=True,
    ),
    _schema(
        "request_concurrency_in_use",
        "Same as current_executing_seats, under the name that Kubernetes used until 1.30.",
        lambda one: one.counters.seats_executing + one.lingering_seats,
        is_legacy=True,
    ),
    _server(
        "info",
        "Always 1; the label has the version.",
        lambda reading: {reading.version: 1} if reading.version else None,
        "version",
        mode="livemax",
    ),
    *SHADOW_FAMILIES,
)
"""All metrics, in the order in which they are exposed."""
