"""Every metric: its name, help, labels and buckets, and the reader that finds its numbers.

Suffixes, labels and buckets are Kubernetes' own, so that with its prefix ``apiserver_flowcontrol`` dashboards made for
it work. There are three kinds: numbers, which are counters and gauges; histograms of what was observed one by one; and
histograms of a part of a whole over time, which need a ledger.

Where a host has several workers, each has its own seats, queues and clocks. ``mode`` says how gauges of several workers
become one, in prometheus_client's words: seats and requests add up; virtual times stay apart, because each worker has
its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from prometheus_client.utils import floatToGoString

from apf_middleware.counters import DURATION_BOUNDS_NS, LENGTH_BOUNDS, WATCH_BOUNDS, WIDTH_BOUNDS, Histogram
from apf_middleware.metrics.ratios import RatioLedger
from apf_middleware.metrics.readers import (
    HistogramReader,
    Labels,
    NumberReader,
    RatioReader,
    bound_pair,
    demand,
    epochs,
    executions,
    gate_evaluations,
    gate_waits,
    meter,
    per_adjusted_level,
    per_gate,
    per_key,
    per_level,
    per_queue,
    per_schema,
    queue_finished_requests,
    queue_lengths,
    queue_requests,
    queue_revocations,
    queue_states,
    rejections,
    request_kinds,
    request_utilization,
    seat_utilization,
    waits,
    watch_counts,
    widths,
)
from apf_middleware.metrics.reading import ServerReading

__all__ = ["FAMILIES", "Family", "HistogramFamily", "NumberFamily", "Point", "RatioFamily", "read_families"]

Point = tuple[Labels, float | Histogram]
"""One series."""

_NS: Final = 10**9
_LEVEL: Final = ("priority_level",)
_QUEUE: Final = ("queue",)
_SCHEMA: Final = ("priority_level", "flow_schema")
_SEAT_RATIOS: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
_REQUEST_RATIOS: Final = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0)
_KIND_RATIOS: Final = (0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
_DEMAND_RATIOS: Final = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0)


@dataclass(frozen=True, slots=True)
class Family(ABC):
    """One metric: its name without the prefix, its help, the names of its labels, and the bounds of a histogram.

    Observations are in units of 1/``unit``. A legacy family has a name that Kubernetes had until 1.30.
    """

    suffix: str
    help: str
    labels: Labels
    bounds: tuple[float, ...] = field(default=(), kw_only=True)
    unit: int = field(default=1, kw_only=True)
    is_legacy: bool = field(default=False, kw_only=True)

    @property
    def kind(self) -> Literal["counter", "gauge", "histogram"]:
        """Return the type as Prometheus knows it."""
        return "histogram"

    @property
    def buckets(self) -> tuple[str, ...]:
        """Return the bounds as the label ``le`` has them, infinity included."""
        return tuple(map(floatToGoString, (*self.bounds, float("inf"))))

    @abstractmethod
    def points(self, reading: ServerReading, ledger: RatioLedger) -> Iterator[Point]:
        """Yield all series of this metric, each with other labels."""


@dataclass(frozen=True, slots=True)
class NumberFamily(Family):
    """A counter if its name ends with total, a gauge otherwise."""

    read: NumberReader
    mode: Literal["livesum", "livemin", "livemax", "liveall"] = "livesum"

    @property
    def kind(self) -> Literal["counter", "gauge"]:
        return "counter" if self.suffix.endswith("_total") else "gauge"

    def points(self, reading: ServerReading, ledger: RatioLedger) -> Iterator[Point]:  # noqa: ARG002
        yield from self.read(reading)


@dataclass(frozen=True, slots=True)
class HistogramFamily(Family):
    """Observations. A series begins with its first one, so that schemas without requests cost little."""

    read: HistogramReader

    def points(self, reading: ServerReading, ledger: RatioLedger) -> Iterator[Point]:  # noqa: ARG002
        for labels, histogram in self.read(reading):
            if any(histogram.counts):
                yield labels, histogram


@dataclass(frozen=True, slots=True)
class RatioFamily(Family):
    """For how many nanoseconds a part of a whole was how large."""

    read: RatioReader

    def points(self, reading: ServerReading, ledger: RatioLedger) -> Iterator[Point]:
        for labels, times, denominator in self.read(reading):
            yield labels, ledger.read((self.suffix, *labels), times, denominator, self.bounds)


def read_families(reading: ServerReading, ledger: RatioLedger) -> Iterator[tuple[Family, list[Point]]]:
    """Yield all metrics with their series, and let the ledger forget levels that are gone."""
    kept: list[Labels] = []
    for family in FAMILIES:
        if family.is_legacy and not reading.has_legacy_names:
            continue
        points = list(family.points(reading, ledger))
        if isinstance(family, RatioFamily):
            kept += [(family.suffix, *labels) for labels, _ in points]
        yield family, points
    ledger.keep(kept)


# The metrics

_DURATIONS: Final = tuple(bound / _NS for bound in DURATION_BOUNDS_NS)

FAMILIES: Final[tuple[Family, ...]] = (
    NumberFamily(
        "dispatched_requests_total",
        "Requests that were given seats and began to execute, at once or after waiting.",
        _SCHEMA,
        per_schema(lambda one: one.tally.dispatched),
    ),
    NumberFamily(
        "rejected_requests_total",
        "Requests that were rejected, by reason; cancelled are those whose client left while they waited.",
        (*_SCHEMA, "reason"),
        rejections,
    ),
    NumberFamily(
        "request_dispatch_no_accommodation_total",
        "How often the request whose turn it was didn't fit into the free seats.",
        _SCHEMA,
        per_schema(lambda one: one.tally.no_accommodation),
    ),
    NumberFamily(
        "current_inqueue_requests",
        "Requests that wait in queues now.",
        _SCHEMA,
        per_schema(lambda one: one.tally.waiting),
    ),
    NumberFamily(
        "current_inqueue_seats",
        "Seats that the waiting requests ask for.",
        _SCHEMA,
        per_schema(lambda one: one.tally.seats_waiting),
    ),
    NumberFamily(
        "current_executing_requests",
        "Requests that execute now; a long-lived one counts until its response begins.",
        _SCHEMA,
        per_schema(lambda one: one.tally.executing),
    ),
    NumberFamily(
        "current_executing_seats",
        "Seats in use, also those that linger after a reply.",
        _SCHEMA,
        per_schema(lambda one: one.tally.seats_executing + one.lingering_seats),
    ),
    HistogramFamily(
        "request_wait_duration_seconds",
        "How long requests waited for seats. Execute is false for all that were rejected, also after waiting.",
        (*_SCHEMA, "execute"),
        waits,
        bounds=_DURATIONS,
        unit=_NS,
    ),
    HistogramFamily(
        "request_execution_seconds",
        "How long requests executed; those of type watch until their long-lived response began.",
        (*_SCHEMA, "type"),
        executions,
        bounds=_DURATIONS,
        unit=_NS,
    ),
    HistogramFamily(
        "request_queue_length_after_enqueue",
        "How many requests were in a request's queue when it had joined it, itself included.",
        _SCHEMA,
        queue_lengths,
        bounds=LENGTH_BOUNDS,
    ),
    HistogramFamily(
        "watch_count_samples",
        "How many watches a write concerned, where writes are estimated as Kubernetes estimates them.",
        _SCHEMA,
        watch_counts,
        bounds=WATCH_BOUNDS,
    ),
    HistogramFamily(
        "work_estimated_seats",
        "How many seats requests were estimated to take: at first or at the end, whatever is more.",
        _SCHEMA,
        widths,
        bounds=WIDTH_BOUNDS,
    ),
    NumberFamily(
        "cut_requests_total",
        "Requests that were estimated to take more seats than their level allows one of them, and asked for fewer.",
        _SCHEMA,
        per_schema(lambda one: one.tally.cut),
    ),
    NumberFamily(
        "open_streams",
        "Requests that have given their seats back and go on, or hold a place for that.",
        _LEVEL,
        per_key(lambda reading: reading.open_streams),
    ),
    NumberFamily(
        "receiving_requests",
        "Requests that have no seats because their bodies are still on their way.",
        _LEVEL,
        per_key(lambda reading: reading.receiving),
    ),
    NumberFamily(
        "body_buffer_bytes",
        "Bytes of bodies that are kept for requests until they have seats.",
        (),
        lambda reading: iter([((), reading.body_bytes)]),
    ),
    RatioFamily(
        "priority_level_seat_utilization",
        "For how many nanoseconds which part of the current limit was in use, in seats.",
        (*_LEVEL, "phase"),
        seat_utilization,
        bounds=_SEAT_RATIOS,
    ),
    RatioFamily(
        "priority_level_request_utilization",
        "For how many nanoseconds requests were which part of the current limit, or of the room in the queues.",
        (*_LEVEL, "phase"),
        request_utilization,
        bounds=_REQUEST_RATIOS,
    ),
    RatioFamily(
        "read_vs_write_current_requests",
        "For how many nanoseconds requests that read or write were which part of all nominal seats, or of all room.",
        ("phase", "request_kind"),
        request_kinds,
        bounds=_KIND_RATIOS,
    ),
    RatioFamily(
        "demand_seats",
        "For how many nanoseconds the seats in use and asked for were how many times the current limit.",
        _LEVEL,
        demand,
        bounds=_DEMAND_RATIOS,
    ),
    NumberFamily(
        "nominal_limit_seats",
        "Seats that are the level's by its shares.",
        _LEVEL,
        per_level(lambda level: level.nominal),
    ),
    NumberFamily("lower_limit_seats", "Seats that the level never lends.", _LEVEL, per_level(lambda level: level.min)),
    NumberFamily(
        "upper_limit_seats",
        "Seats that the level has with all it may borrow.",
        _LEVEL,
        per_level(lambda level: level.max),
    ),
    NumberFamily(
        "current_limit_seats",
        "Seats that the level has now, with what it borrows and without what it lends.",
        _LEVEL,
        per_level(lambda level: level.current),
    ),
    NumberFamily(
        "demand_seats_high_watermark",
        "The most seats that were in use and asked for in the last adjustment period.",
        _LEVEL,
        per_adjusted_level(lambda last: last.high_watermark),
    ),
    NumberFamily(
        "demand_seats_average",
        "Average over time of the seats that were in use and asked for in the last adjustment period.",
        _LEVEL,
        per_adjusted_level(lambda last: last.average),
    ),
    NumberFamily(
        "demand_seats_stdev",
        "Standard deviation of the seats that were in use and asked for in the last adjustment period.",
        _LEVEL,
        per_adjusted_level(lambda last: last.deviation),
    ),
    NumberFamily(
        "demand_seats_smoothed",
        "Demand in seats, followed up at once and down slowly.",
        _LEVEL,
        per_adjusted_level(lambda last: last.smoothed),
    ),
    NumberFamily(
        "target_seats",
        "Seats that the last adjustment aimed at for the level.",
        _LEVEL,
        per_adjusted_level(lambda last: last.target),
    ),
    NumberFamily(
        "seat_fair_frac",
        "The part of their targets that levels got in the last adjustment where no bound held them.",
        (),
        lambda reading: iter(() if reading.fair_fraction is None else [((), reading.fair_fraction)]),
        mode="livemin",
    ),
    NumberFamily(
        "epoch_advance_total",
        "How often R reached the end of what Kubernetes' 64 bits hold, and began anew.",
        (*_LEVEL, "success"),
        epochs,
    ),
    NumberFamily(
        "current_r", "R, the level's virtual time, in seat-seconds.", _LEVEL, meter("current_r"), mode="liveall"
    ),
    NumberFamily(
        "dispatch_r",
        "R when the level last dispatched a request, in seat-seconds.",
        _LEVEL,
        meter("dispatch_r"),
        mode="liveall",
    ),
    NumberFamily(
        "latest_s",
        "The virtual start of the request dispatched last, in seat-seconds.",
        _LEVEL,
        meter("latest_s"),
        mode="liveall",
    ),
    NumberFamily(
        "next_s_bounds",
        "The least and the most virtual start of the requests that are first in their queues, in seat-seconds.",
        (*_LEVEL, "bound"),
        bound_pair(lambda level: level.next_s),
        mode="liveall",
    ),
    NumberFamily(
        "next_discounted_s_bounds",
        "As next_s_bounds, less what the queue's executing requests are expected to take.",
        (*_LEVEL, "bound"),
        bound_pair(lambda level: level.next_discounted_s),
        mode="liveall",
    ),
    NumberFamily(
        "queue_requests",
        "Requests of the queue that wait for seats (inqueue), wait for a gate (pending) or run.",
        ("queue", "state"),
        queue_requests,
    ),
    NumberFamily(
        "queue_finished_requests_total",
        "Requests of the queue that ended: well, with an error, or because their client left.",
        ("queue", "outcome"),
        queue_finished_requests,
    ),
    NumberFamily(
        "queue_state", "1 for the state that the queue is in, 0 for others.", ("queue", "state"), queue_states
    ),
    NumberFamily("queue_weight", "The queue's shares.", _QUEUE, per_queue(lambda queue: queue.weight), mode="livemax"),
    NumberFamily(
        "queue_min_seats", "Seats that are guaranteed to the queue.", _QUEUE, per_queue(lambda queue: queue.min)
    ),
    NumberFamily(
        "queue_max_seats", "Seats that the queue can have at most.", _QUEUE, per_queue(lambda queue: queue.max)
    ),
    NumberFamily(
        "queue_deserved_seats",
        "Seats that the queue could claim now, given what all want.",
        _QUEUE,
        per_queue(lambda queue: queue.deserved),
    ),
    NumberFamily("queue_used_seats", "Seats that the queue uses.", _QUEUE, per_queue(lambda queue: queue.used)),
    NumberFamily(
        "queue_share",
        "Seats that the queue uses as part of those that it deserves.",
        _QUEUE,
        per_queue(lambda queue: queue.share),
        mode="livemax",
    ),
    NumberFamily(
        "queue_revocations_total",
        "Requests of the queue that were asked to give way.",
        _QUEUE,
        queue_revocations,
    ),
    NumberFamily(
        "queue_live_changes",
        "Queues that differ from what the configuration's files say.",
        (),
        lambda reading: iter([((), reading.live_changes)] if reading.queues else ()),
        mode="livemax",
    ),
    NumberFamily(
        "unknown_queue_requests_total",
        "Requests that were rejected because they named a queue to which they can't go, by reason.",
        ("reason",),
        per_key(lambda reading: reading.unknown_queues),
    ),
    NumberFamily("server_seats", "Seats of the whole server.", (), lambda reading: iter([((), reading.seats)])),
    NumberFamily(
        "authentication_failures_total",
        "Requests that were refused for their credentials, by reason.",
        ("reason",),
        per_key(lambda reading: reading.authentication_failures),
    ),
    NumberFamily(
        "hang_ups_total",
        "Clients that left before they had their response, by what their request was doing.",
        ("phase",),
        per_key(lambda reading: reading.hang_ups),
    ),
    NumberFamily(
        "configuration_loads_total",
        "Configurations that were read, by outcome; after a failure the one before stays in force.",
        ("outcome",),
        per_key(lambda reading: reading.configuration_loads),
    ),
    NumberFamily("parked_requests", "Kept waiting by a gate now.", ("gate",), per_gate(lambda gate: gate.parked)),
    HistogramFamily(
        "gate_wait_seconds",
        "How long a gate kept requests waiting.",
        ("gate",),
        gate_waits,
        bounds=_DURATIONS,
        unit=_NS,
    ),
    NumberFamily(
        "gate_evaluations_total", "How often a gate was asked, by its answer.", ("gate", "result"), gate_evaluations
    ),
    NumberFamily(
        "gate_events_total", "Events that were emitted to a gate.", ("gate",), per_gate(lambda gate: gate.events)
    ),
    NumberFamily(
        "gate_rescues_total",
        "Openings of a gate without an event.",
        ("gate",),
        per_gate(lambda gate: gate.rescues),
    ),
    NumberFamily(
        "gate_rejected_requests_total", "Rejected because of a gate.", ("gate",), per_gate(lambda gate: gate.rejected)
    ),
    NumberFamily(
        "request_concurrency_limit",
        "What nominal_limit_seats says, by the name that Kubernetes had until 1.30.",
        _LEVEL,
        per_level(lambda level: level.nominal),
        is_legacy=True,
    ),
    NumberFamily(
        "request_concurrency_in_use",
        "What current_executing_seats says, by the name that Kubernetes had until 1.30.",
        _SCHEMA,
        per_schema(lambda one: one.tally.seats_executing + one.lingering_seats),
        is_legacy=True,
    ),
    NumberFamily(
        "info",
        "Always 1; the label tells the version.",
        ("version",),
        lambda reading: iter([((reading.version,), 1)] if reading.version else ()),
        mode="livemax",
    ),
)
"""All metrics, in the order in which they are exposed."""
