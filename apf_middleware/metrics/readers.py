"""Readers: for each metric, the series that a reading of the server has, as label values and a number or histogram.

A function here either is a reader, which takes a reading and yields series, or makes a reader of a function that finds
one number. Readers of parts of a whole yield times and a denominator; a ledger makes histograms of them.
"""

from collections.abc import Callable, Iterator, Mapping
from math import isnan
from typing import Final

from apf_middleware.counters import WIDTH_BOUNDS, Histogram, Times
from apf_middleware.fairqueuing import Reason
from apf_middleware.fairqueuing.work import UNITS_PER_SEAT_SECOND, round_half_away
from apf_middleware.metrics.reading import (
    AdjustmentReading,
    Bounds,
    GateReading,
    LevelReading,
    SchemaReading,
    ServerReading,
)
from apf_middleware.snapshots import NamedQueueSnapshot

__all__ = [
    "HistogramReader",
    "Labels",
    "NumberReader",
    "RatioReader",
    "bound_pair",
    "demand",
    "epochs",
    "executions",
    "gate_evaluations",
    "gate_waits",
    "meter",
    "per_adjusted_level",
    "per_gate",
    "per_key",
    "per_level",
    "per_queue",
    "per_schema",
    "queue_finished_requests",
    "queue_lengths",
    "queue_requests",
    "queue_revocations",
    "queue_states",
    "rejections",
    "request_kinds",
    "request_utilization",
    "seat_utilization",
    "waits",
    "watch_counts",
    "widths",
]

Labels = tuple[str, ...]
"""The values of a series' labels."""

NumberReader = Callable[[ServerReading], Iterator[tuple[Labels, float]]]
HistogramReader = Callable[[ServerReading], Iterator[tuple[Labels, Histogram]]]
RatioReader = Callable[[ServerReading], Iterator[tuple[Labels, Times, int]]]

_QUEUE_STATES: Final = ("Open", "Paused", "Closing", "Closed")
_ALWAYS_SHOWN: Final[Mapping[str, tuple[Reason, ...]]] = {
    "queue": (Reason.QUEUE_FULL, Reason.TIME_OUT, Reason.CANCELLED),
    "reject": (Reason.CONCURRENCY_LIMIT,),
    "exempt": (),
}


def per_schema(number: Callable[[SchemaReading], int]) -> NumberReader:
    """Read one number per schema and level."""
    return lambda reading: (((one.level, one.schema), number(one)) for one in reading.schemas)


def per_gate(number: Callable[[GateReading], int]) -> NumberReader:
    """Read one number per gate."""
    return lambda reading: (((gate.name,), number(gate)) for gate in reading.gates)


def per_queue(number: Callable[[NamedQueueSnapshot], float]) -> NumberReader:
    """Read one number per named queue."""
    return lambda reading: (((queue.name,), number(queue)) for queue in reading.queues)


def per_key(mapping: Callable[[ServerReading], Mapping[str, int]]) -> NumberReader:
    """Read one number per key of a mapping."""
    return lambda reading: (((key,), number) for key, number in mapping(reading).items())


def per_level(number: Callable[[LevelReading], float | None]) -> NumberReader:
    """Read one number per level that has it."""

    def read(reading: ServerReading) -> Iterator[tuple[Labels, float]]:
        for level in reading.levels:
            found = number(level)
            if found is not None and not isnan(found):
                yield (level.name,), found

    return read


def per_adjusted_level(number: Callable[[AdjustmentReading], float]) -> NumberReader:
    """Read one number per level whose limit is adjusted periodically."""
    return per_level(lambda level: None if level.adjusted is None else number(level.adjusted))


def meter(name: str) -> NumberReader:
    """Read a meter of the disciplines that have it, in seat-seconds."""
    return per_level(lambda level: level.meters[name] / UNITS_PER_SEAT_SECOND if name in level.meters else None)


def epochs(reading: ServerReading) -> Iterator[tuple[Labels, float]]:
    """Read the epochs of R. Advances never fail: meters are unbounded integers, shown as 64 bits would hold them."""
    for level in reading.levels:
        if "epochs" in level.meters:
            yield (level.name, "true"), level.meters["epochs"]


def bound_pair(pair: Callable[[LevelReading], Bounds | None]) -> NumberReader:
    """Read the least and the most of what is first in the queues of each level, in seat-seconds."""

    def read(reading: ServerReading) -> Iterator[tuple[Labels, float]]:
        for level in reading.levels:
            for bound, work in zip(("min", "max"), pair(level) or (), strict=False):
                yield (level.name, bound), work / UNITS_PER_SEAT_SECOND

    return read


def _can_have(reading: ServerReading) -> dict[str, tuple[Reason, ...]]:
    """Return the reasons for which each level can normally reject."""
    limited = (Reason.STREAM_LIMIT,)
    bodies = (Reason.SLOW_BODY, Reason.BODY_LIMIT) if reading.receives_bodies else ()
    return {
        one.name: _ALWAYS_SHOWN[one.kind]
        + (limited if one.limits_streams else ())
        + (bodies if one.kind != "exempt" else ())
        for one in reading.levels
    }


def gate_evaluations(reading: ServerReading) -> Iterator[tuple[Labels, float]]:
    for gate in reading.gates:
        for result, number in gate.evaluations.items():
            yield (gate.name, result), number


def gate_waits(reading: ServerReading) -> Iterator[tuple[Labels, Histogram]]:
    for gate in reading.gates:
        yield (gate.name,), gate.waits


def queue_requests(reading: ServerReading) -> Iterator[tuple[Labels, float]]:
    for queue in reading.queues:
        yield (queue.name, "inqueue"), queue.inqueue
        yield (queue.name, "pending"), queue.pending
        yield (queue.name, "running"), queue.running


def queue_finished_requests(reading: ServerReading) -> Iterator[tuple[Labels, float]]:
    for queue in reading.queues:
        yield (queue.name, "completed"), queue.completed
        yield (queue.name, "failed"), queue.failed
        yield (queue.name, "aborted"), queue.aborted


def queue_revocations(reading: ServerReading) -> Iterator[tuple[Labels, float]]:
    for queue in reading.queues:
        yield (queue.name,), reading.revocations.get(queue.name, 0)


def queue_states(reading: ServerReading) -> Iterator[tuple[Labels, float]]:
    for queue in reading.queues:
        for state in _QUEUE_STATES:
            yield (queue.name, state), float(queue.state == state)


def _kinds(reading: ServerReading) -> dict[str, str]:
    return {level.name: level.kind for level in reading.levels}


def rejections(reading: ServerReading) -> Iterator[tuple[Labels, float]]:
    """Read rejections; reasons that a level can have are there from the start, or else their first rise is not seen."""
    expected = _can_have(reading)
    for one in reading.schemas:
        always = expected.get(one.level, ())
        for reason, number in one.tally.rejected.items():
            if number or reason in always:
                yield (one.level, one.schema, reason.value), number


def waits(reading: ServerReading) -> Iterator[tuple[Labels, Histogram]]:
    """Read waits in nanoseconds: 0 for a request that was seated at once. An exempt level has none."""
    kinds = _kinds(reading)
    for one in reading.schemas:
        tally = one.tally
        if kinds.get(one.level) != "exempt":
            served = tally.waits.copy()
            served.observe_many(0, tally.at_once)
            yield (one.level, one.schema, "true"), served
            yield (one.level, one.schema, "false"), tally.unserved_waits


def executions(reading: ServerReading) -> Iterator[tuple[Labels, Histogram]]:
    for one in reading.schemas:
        yield (one.level, one.schema, "regular"), one.tally.executions
        yield (one.level, one.schema, "watch"), one.tally.streams


def queue_lengths(reading: ServerReading) -> Iterator[tuple[Labels, Histogram]]:
    """Read the lengths of queues; a request that was seated at once has joined one that was empty."""
    kinds = _kinds(reading)
    for one in reading.schemas:
        if kinds.get(one.level) == "queue":
            lengths = one.tally.lengths.copy()
            lengths.observe_many(1, one.tally.at_once)
            yield (one.level, one.schema), lengths


def watch_counts(reading: ServerReading) -> Iterator[tuple[Labels, Histogram]]:
    for one in reading.schemas:
        yield (one.level, one.schema), one.tally.watches


def widths(reading: ServerReading) -> Iterator[tuple[Labels, Histogram]]:
    for one in reading.schemas:
        found = Histogram(WIDTH_BOUNDS)
        for width, number in one.tally.estimated_widths().items():
            found.observe_many(width, number)
        yield (one.level, one.schema), found


def _denominator(level: LevelReading, reading: ServerReading) -> int:
    """Return what seats in use are a part of; for a level without seats, a tenth of the server's."""
    if level.denominator is not None:
        return level.denominator
    return level.current or max(1, round_half_away(reading.seats / 10))


def seat_utilization(reading: ServerReading) -> Iterator[tuple[Labels, Times, int]]:
    for level in reading.levels:
        yield (level.name, "executing"), level.seats_in_use, _denominator(level, reading)


def request_utilization(reading: ServerReading) -> Iterator[tuple[Labels, Times, int]]:
    for level in reading.levels:
        yield (level.name, "executing"), level.executing, _denominator(level, reading)
        yield (level.name, "waiting"), level.waiting, level.waiting_capacity


def demand(reading: ServerReading) -> Iterator[tuple[Labels, Times, int]]:
    for level in reading.levels:
        yield (level.name,), level.demand, _denominator(level, reading)


def request_kinds(reading: ServerReading) -> Iterator[tuple[Labels, Times, int]]:
    """Read both kinds: executing requests are a part of all nominal seats, waiting requests of all queue lengths."""
    wholes = {
        "executing": sum(level.nominal for level in reading.levels),
        "waiting": sum(level.waiting_capacity for level in reading.levels),
    }
    for (phase, kind), times in reading.request_kinds.items():
        yield (phase, kind), times, wholes[phase]
