"""The series that take more than one number of a reading, or that aren't numbers."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from apf_middleware.counters import WIDTH_BOUNDS, Histogram, Times
from apf_middleware.fairqueuing.work import UNITS_PER_SEAT_SECOND
from apf_middleware.metrics.reading import Bounds, LevelReading, SchemaReading, ServerReading

__all__ = [
    "Labels",
    "Portion",
    "Series",
    "Value",
    "meter_reader",
    "read_bounds",
    "read_epochs",
    "read_queue_lengths",
    "read_rejections",
    "read_request_kinds",
    "read_request_utilization",
    "read_waits",
    "read_widths",
]

Labels = tuple[str, ...]
"""The names of the labels of a metric, or the values of these labels in one series."""


class Portion(NamedTuple):
    """A number over time, relative to ``whole``; ``times`` maps each value to the nanoseconds for which it lasted."""

    times: Times
    whole: float


Value = float | Histogram | Portion
"""The value of a series."""

Series = tuple[Labels, Value]
"""One series."""


def read_rejections(reading: ServerReading) -> Iterator[Series]:
    """Read rejections by reason.

    The series of expected reasons exist from the start, because Prometheus doesn't see the first rise of a new series.
    """
    expected = {one.name: one.expected for one in reading.levels}
    for one in reading.schemas:
        always = expected.get(one.level, ())
        for reason, number in one.counters.rejected.items():
            if number or reason in always:
                yield (one.level, one.schema, reason.value), number


def read_waits(reading: ServerReading) -> Iterator[Series]:
    """Read waits in nanoseconds: 0 for a request that was seated at once. An exempt level has none."""
    exempt = {level.name for level in reading.levels if level.kind == "exempt"}
    for one in reading.schemas:
        if one.level not in exempt:
            yield (one.level, one.schema, "true"), _with(one.counters.waits, 0, one.counters.at_once)
            yield (one.level, one.schema, "false"), one.counters.unserved_waits


def read_queue_lengths(reading: ServerReading) -> Iterator[Series]:
    """Read the lengths of queues; a request that was seated at once joined an empty queue."""
    queued = {level.name for level in reading.levels if level.kind == "queue"}
    for one in reading.schemas:
        if one.level in queued:
            yield (one.level, one.schema), _with(one.counters.lengths, 1, one.counters.at_once)


def _with(histogram: Histogram, value: float, number: int) -> Histogram:
    """Return a copy of ``histogram`` with ``number`` further observations."""
    copy = histogram.copy()
    copy.observe_many(value, number)
    return copy


def read_widths(one: SchemaReading) -> Histogram:
    found = Histogram(WIDTH_BOUNDS)
    for width, number in one.counters.estimated_widths().items():
        found.observe_many(width, number)
    return found


def read_request_kinds(reading: ServerReading) -> Iterator[Series]:
    """Read the requests of the server by phase and by kind (reading or writing).

    Executing requests are a portion of all nominal seats, waiting ones a portion of the capacity of all queues. Of the
    nominal seats of a fleet, each member has an equal part.
    """
    wholes = {
        "executing": sum(level.limits.nominal for level in reading.levels) / reading.members,
        "waiting": sum(level.waiting_capacity for level in reading.levels),
    }
    for (phase, kind), times in reading.request_kinds.items():
        yield (phase, kind), Portion(times, wholes[phase])


def read_request_utilization(level_and_limit: tuple[LevelReading, float]) -> Mapping[str, Portion]:
    level, limit = level_and_limit
    return {"executing": Portion(level.executing, limit), "waiting": Portion(level.waiting, level.waiting_capacity)}


def read_epochs(level: LevelReading) -> Mapping[str, int] | None:
    """Return how often Kubernetes would have reduced R, the level's virtual time, to keep it within 64 bits.

    The further label is Kubernetes' ``success``. It is always true, because Python's integers don't overflow.
    """
    return {"true": level.meters["epochs"]} if "epochs" in level.meters else None


def meter_reader(name: str) -> Callable[[LevelReading], float | None]:
    """Return a function that reads the meter ``name`` in seat-seconds, or None if the discipline doesn't have it."""
    return lambda level: level.meters[name] / UNITS_PER_SEAT_SECOND if name in level.meters else None


def read_bounds(pair: Bounds | None) -> Mapping[str, float]:
    return {bound: work / UNITS_PER_SEAT_SECOND for bound, work in zip(("min", "max"), pair or (), strict=False)}
