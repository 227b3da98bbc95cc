"""Readings made by hand, and the metrics made of them."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from apf_middleware.counters import DURATION_BOUNDS_NS, Histogram
from apf_middleware.fairqueuing import Reason
from apf_middleware.fairqueuing.sharing.limits import LevelLimits
from apf_middleware.metrics import (
    AdaptiveReading,
    AdjustmentReading,
    APFCollector,
    ElasticReading,
    EventLoopReading,
    FleetReading,
    GateReading,
    LevelReading,
    PredictionReading,
    SchemaCounters,
    SchemaReading,
    ServerReading,
    ShadowReading,
)
from apf_middleware.snapshots import NamedQueueSnapshot

MS = 10**6
SECOND = 10**9

QUEUE = LevelReading(
    "work",
    "queue",
    LevelLimits(nominal=10, min=6, max=20),
    current=12,
    waiting_capacity=100,
    expected=(Reason.QUEUE_FULL, Reason.TIME_OUT, Reason.CANCELLED),
)
REJECT = LevelReading(
    "jail", "reject", LevelLimits(nominal=5, min=5, max=5), current=5, expected=(Reason.CONCURRENCY_LIMIT,)
)
EXEMPT = LevelReading("exempt", "exempt", LevelLimits(nominal=0, min=0, max=100), current=3)


def busy_counters(level: str = "work", schema: str = "users") -> SchemaCounters:
    """7 at once (two of them 3 and 5 seats wide), 2 after waiting, 3 waiting, 4 rejected; 5 have ended."""
    counters = SchemaCounters(level, schema)
    counters.at_once, counters.after_wait, counters.waiting = 7, 2, 3
    counters.widths = {3: 1, 5: 1}
    counters.extra_seats, counters.extra_seats_waiting, counters.no_accommodation, counters.late = 2, 1, 6, 1
    for wait in (4 * MS, 150 * MS):
        counters.waits.observe(wait)
    counters.rejected[Reason.QUEUE_FULL], counters.rejected[Reason.TIME_OUT], counters.rejected[Reason.CANCELLED] = (
        1,
        2,
        1,
    )
    for wait in (0, 15 * SECOND, 15 * SECOND, 40 * SECOND):
        counters.unserved_waits.observe(wait)
    for duration in (20 * MS, 20 * MS, 300 * MS, 31 * SECOND):
        counters.executions.observe(duration)
    counters.streams.observe(MS)
    for length in (1, 11, 12, 2, 3):
        counters.lengths.observe(length)
    for watches in (0, 1, 11):
        counters.watches.observe(watches)
    return counters


def reading(*levels: LevelReading, schema_counters: tuple[SchemaCounters, ...] = (), **others: object) -> ServerReading:
    schemas = tuple(SchemaReading(counters.level, counters.schema, counters) for counters in schema_counters)
    return ServerReading(levels or (QUEUE,), schemas, seats=50)._replace(**others)  # type: ignore[arg-type]


ADJUSTED = AdjustmentReading(high_watermark=9, average=4.5, deviation=1.5, smoothed=6.0, target=9.0)

NAMED_QUEUE = NamedQueueSnapshot(
    name="work",
    parent=None,
    state="Paused",
    weight=3,
    min=6,
    deserved=12.5,
    used=10,
    max=20,
    capacity=20,
    inqueue=4,
    pending=1,
    running=9,
    completed=100,
    failed=7,
    aborted=2,
    rejected={},
    share=0.8,
    source="file",
    generation=1,
    priority=0,
    reclaimable=True,
    dequeue_strategy="traverse",
    exempt=False,
    closed_by_parent=False,
    children=(),
)
GATE_WAITS = Histogram(DURATION_BOUNDS_NS)
GATE_WAITS.observe(SECOND)

SHADOW = ShadowReading(
    server=reading(QUEUE, schema_counters=(busy_counters(),)),
    requests=20,
    otherwise={("work", "users"): 3},
    decisions={("at-once", "waited"): 2},
    assumed=1,
    lag_ns=SECOND // 4,
    has_failed=False,
)

FULL = reading(
    QUEUE._replace(
        seats_in_use={1: SECOND},
        adjusted=ADJUSTED,
        meters={"current_r": 1, "dispatch_r": 1, "latest_s": 1, "epochs": 2},
        next_s=(1, 2),
        next_discounted_s=(1, 2),
    ),
    REJECT,
    EXEMPT,
    schema_counters=(busy_counters(), busy_counters("jail"), busy_counters("exempt", "admins")),
    fair_fraction=1.0,
    authentication_failures={"expired": 1},
    failing_sources={"token-file": 0},
    hang_ups={"waiting": 1},
    open_streams={"work": 4},
    receiving={"work": 2},
    body_bytes=4096,
    configuration_loads={"success": 1},
    version="1",
    queues=(NAMED_QUEUE,),
    revocations={"work": 5},
    live_changes=1,
    unknown_queues={"queue-not-found": 1},
    mode="observe",
    passed={"observe": 9, "off": 0},
    event_loop=EventLoopReading(
        {"50": 0, "99": 4 * MS}, (ElasticReading("work", 3, "cut-lag", {"cut-lag": 2, "grew": 1}),)
    ),
    predictions={
        "work": PredictionReading({"late": 3, "rejected": 2, "missed": 1, "in-time": 0}, 3 * SECOND, 2 * SECOND)
    },
    invalid_headers={"grpc-timeout": 2},
    invalid_criticality={"x-criticality": 3},
    lowered_criticality={"criticalPlus": 4},
    request_kinds={("executing", "readOnly"): {3: SECOND}, ("waiting", "mutating"): {50: SECOND}},
    has_legacy_names=True,
    shadow=SHADOW,
    gates=(GateReading("db", 1, {"passed": 2, "parked": 1}, 3, 1, 1, GATE_WAITS, is_held=False),),
    adaptive=AdaptiveReading(5, 400, "grew", {"grew": 3, "held-no-gain": 7}, 0.125, 20.0 * MS),
    fleet=FleetReading(
        seats=40,
        granted=12,
        in_use=7,
        members=4,
        exchanges=GATE_WAITS,
        age_ns=SECOND // 2,
        fallback_ns=3 * SECOND,
        is_allocator=True,
        is_outdated=True,
        epochs=2,
        overshoot=5 * SECOND,
    ),
)
"""With something for every metric."""


class Metrics:
    """The metrics of a reading, by name and labels."""

    def __init__(self, shown: ServerReading, prefix: str = "apf") -> None:
        self.shown = shown
        self.registry = CollectorRegistry()
        self.collector = APFCollector(lambda: self.shown, prefix)
        self.collector.register(self.registry)

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def series(self, name: str) -> Mapping[tuple[str, ...], float]:
        """All samples of this name, by the values of their labels in the order of the labels' names."""
        return {
            tuple(value for _, value in sorted(sample.labels.items())): sample.value
            for metric in self.collector.collect()
            for sample in metric.samples
            if sample.name == name
        }
