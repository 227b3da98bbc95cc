"""How a picture is read: for each metric the series that it has, as label values and what stands beside them.

A function here either is a reader (it takes a picture and yields series) or makes one of a function that finds one
number. Readers of parts of a whole yield times and a denominator; what they come to is a ledger's to say.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from math import isnan
from typing import Final

from apf_middleware.fairqueuing import Reason
from apf_middleware.fairqueuing.work import UNITS_PER_SEAT_SECOND, round_half_away
from apf_middleware.metrics.picture import (
    Bounds,
    DemandPicture,
    GatePicture,
    LevelPicture,
    SchemaPicture,
    ServerPicture,
    Times,
)
from apf_middleware.metrics.ratios import Spread
from apf_middleware.metrics.tally import LENGTH_BOUNDS, Histogram

__all__ = [
    "WIDTH_BOUNDS",
    "Labels",
    "NumberReader",
    "RatioReader",
    "SpreadReader",
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
    "per_schema",
    "queue_lengths",
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

NumberReader = Callable[[ServerPicture], Iterator[tuple[Labels, float]]]
SpreadReader = Callable[[ServerPicture], Iterator[tuple[Labels, Spread]]]
RatioReader = Callable[[ServerPicture], Iterator[tuple[Labels, Times, int]]]

WIDTH_BOUNDS: Final = (1, 2, 4, 8, 16, 32, 64, 100)
"""Upstream's buckets for the seats of a request."""

_NS: Final = 10**9
_ALWAYS_SHOWN: Final[Mapping[str, tuple[Reason, ...]]] = {
    "queue": (Reason.QUEUE_FULL, Reason.TIME_OUT, Reason.CANCELLED),
    "reject": (Reason.CONCURRENCY_LIMIT,),
    "exempt": (),
}


def per_schema(number: Callable[[SchemaPicture], int]) -> NumberReader:
    """One number per schema and level."""
    return lambda picture: (((one.level, one.schema), number(one)) for one in picture.schemas)


def per_level(number: Callable[[LevelPicture], float | None]) -> NumberReader:
    """One number per level, where there is one."""

    def read(picture: ServerPicture) -> Iterator[tuple[Labels, float]]:
        for level in picture.levels:
            found = number(level)
            if found is not None and not isnan(found):
                yield (level.name,), found

    return read


def per_adjusted_level(number: Callable[[DemandPicture], float]) -> NumberReader:
    return per_level(lambda level: None if level.adjusted is None else number(level.adjusted))


def meter(name: str) -> NumberReader:
    return per_level(lambda level: level.meters[name] / UNITS_PER_SEAT_SECOND if name in level.meters else None)


def epochs(picture: ServerPicture) -> Iterator[tuple[Labels, float]]:
    """Ours never fail: meters are integers without end, which only are shown as 64 bits hold them."""
    for level in picture.levels:
        if "epochs" in level.meters:
            yield (level.name, "true"), level.meters["epochs"]


def bound_pair(pair: Callable[[LevelPicture], Bounds | None]) -> NumberReader:
    def read(picture: ServerPicture) -> Iterator[tuple[Labels, float]]:
        for level in picture.levels:
            for bound, work in zip(("min", "max"), pair(level) or (), strict=False):
                yield (level.name, bound), work / UNITS_PER_SEAT_SECOND

    return read


def per_key(mapping: Callable[[ServerPicture], Mapping[str, int]]) -> NumberReader:
    return lambda picture: (((key,), number) for key, number in mapping(picture).items())


def _can_have(picture: ServerPicture) -> dict[str, tuple[Reason, ...]]:
    """The reasons for which a level can normally reject."""
    limited = (Reason.STREAM_LIMIT,)
    bodies = (Reason.SLOW_BODY, Reason.BODY_LIMIT) if picture.receives_bodies else ()
    return {
        one.name: _ALWAYS_SHOWN[one.kind]
        + (limited if one.limits_streams else ())
        + (bodies if one.kind != "exempt" else ())
        for one in picture.levels
    }


def per_gate(number: Callable[[GatePicture], int]) -> NumberReader:
    """One number per gate."""
    return lambda picture: (((gate.name,), number(gate)) for gate in picture.gates)


def gate_evaluations(picture: ServerPicture) -> Iterator[tuple[Labels, float]]:
    for gate in picture.gates:
        for result, number in gate.evaluations.items():
            yield (gate.name, result), number


def gate_waits(picture: ServerPicture) -> Iterator[tuple[Labels, Spread]]:
    for gate in picture.gates:
        counts, total = gate.waits
        yield (gate.name,), Spread(tuple(counts), total / _NS)


def _kinds(picture: ServerPicture) -> dict[str, str]:
    return {level.name: level.kind for level in picture.levels}


def rejections(picture: ServerPicture) -> Iterator[tuple[Labels, float]]:
    """What can happen at a level of its kind is shown from the start, for a first rise from nothing can't be seen."""
    expected = _can_have(picture)
    for one in picture.schemas:
        always = expected.get(one.level, ())
        for reason, number in one.tally.rejected.items():
            if number or reason in always:
                yield (one.level, one.schema, reason.value), number


def _seconds(histogram: Histogram, more_at_0: int = 0) -> Spread:
    first, *rest = histogram.counts
    return Spread((first + more_at_0, *rest), histogram.total / _NS)


def waits(picture: ServerPicture) -> Iterator[tuple[Labels, Spread]]:
    """Who is seated at once has waited for no time. At an exempt level there is nothing to wait for."""
    kinds = _kinds(picture)
    for one in picture.schemas:
        tally = one.tally
        if kinds.get(one.level) != "exempt":
            yield (one.level, one.schema, "true"), _seconds(tally.waits, tally.at_once)
            yield (one.level, one.schema, "false"), _seconds(tally.unserved_waits)


def executions(picture: ServerPicture) -> Iterator[tuple[Labels, Spread]]:
    for one in picture.schemas:
        yield (one.level, one.schema, "regular"), _seconds(one.tally.executions)
        yield (one.level, one.schema, "watch"), _seconds(one.tally.streams)


def queue_lengths(picture: ServerPicture) -> Iterator[tuple[Labels, Spread]]:
    """Who is seated at once has joined a queue, too: one that was empty."""
    kinds = _kinds(picture)
    for one in picture.schemas:
        if kinds.get(one.level) == "queue":
            counts = list(one.tally.lengths.counts)
            counts[LENGTH_BOUNDS.index(10)] += one.tally.at_once
            yield (one.level, one.schema), Spread(counts, one.tally.lengths.total + one.tally.at_once)


def watch_counts(picture: ServerPicture) -> Iterator[tuple[Labels, Spread]]:
    for one in picture.schemas:
        yield (one.level, one.schema), Spread(tuple(one.tally.watches.counts), one.tally.watches.total)


def widths(picture: ServerPicture) -> Iterator[tuple[Labels, Spread]]:
    for one in picture.schemas:
        counts = [0] * (len(WIDTH_BOUNDS) + 1)
        total = 0
        for width, number in one.tally.estimated_widths().items():
            counts[bisect_left(WIDTH_BOUNDS, width)] += number
            total += width * number
        yield (one.level, one.schema), Spread(counts, total)


def _denominator(level: LevelPicture, picture: ServerPicture) -> int:
    """What seats in use are a part of; for a level without any, a tenth of the server's."""
    if level.denominator is not None:
        return level.denominator
    return level.current or max(1, round_half_away(picture.seats / 10))


def seat_utilization(picture: ServerPicture) -> Iterator[tuple[Labels, Times, int]]:
    for level in picture.levels:
        yield (level.name, "executing"), level.seats_in_use, _denominator(level, picture)


def request_utilization(picture: ServerPicture) -> Iterator[tuple[Labels, Times, int]]:
    for level in picture.levels:
        yield (level.name, "executing"), level.executing, _denominator(level, picture)
        yield (level.name, "waiting"), level.waiting, level.waiting_capacity


def demand(picture: ServerPicture) -> Iterator[tuple[Labels, Times, int]]:
    for level in picture.levels:
        yield (level.name,), level.demand, _denominator(level, picture)


def request_kinds(picture: ServerPicture) -> Iterator[tuple[Labels, Times, int]]:
    """Of the whole server: executing requests are a part of all nominal seats, and waiting ones of all room."""
    wholes = {
        "executing": sum(level.nominal for level in picture.levels),
        "waiting": sum(level.waiting_capacity for level in picture.levels),
    }
    for (phase, kind), times in picture.request_kinds.items():
        yield (phase, kind), times, wholes[phase]
