"""The metrics of a configuration that is tried; their names are those of the same numbers of the one in force."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from apf_middleware.metrics.family import DURATIONS, NS, Family, SeriesSource
from apf_middleware.metrics.reading import LevelReading, SchemaReading, ServerReading, ShadowReading
from apf_middleware.metrics.series import read_rejections, read_waits

__all__ = ["SHADOW_FAMILIES"]

T = TypeVar("T")


def _of_shadow(read: Callable[[ShadowReading], Iterable[T]]) -> Callable[[ServerReading], Iterable[T]]:
    """Return the function that reads the same of a server's shadow; nothing without one."""
    return lambda reading: () if reading.shadow is None else read(reading.shadow)


_shadow: Final[SeriesSource[ShadowReading]] = SeriesSource((), _of_shadow(lambda shadow: [((), shadow)]))
_schema: Final[SeriesSource[SchemaReading]] = SeriesSource(
    ("priority_level", "flow_schema"),
    _of_shadow(lambda shadow: (((one.level, one.schema), one) for one in shadow.server.schemas)),
)
_level: Final[SeriesSource[LevelReading]] = SeriesSource(
    ("priority_level",), _of_shadow(lambda shadow: (((one.name,), one) for one in shadow.server.levels))
)

SHADOW_FAMILIES: Final[tuple[Family, ...]] = (
    _shadow("shadow_requests_total", "Requests that the shadow has seen.", lambda one: one.requests),
    _schema(
        "shadow_dispatched_requests_total",
        "Requests that would have been given seats, at once or after waiting.",
        lambda one: one.counters.dispatched,
    ),
    Family(
        "shadow_rejected_requests_total",
        "Requests that would have been rejected, by reason.",
        (*_schema.labels, "reason"),
        _of_shadow(lambda shadow: read_rejections(shadow.server)),
    ),
    _schema(
        "shadow_current_inqueue_requests",
        "Requests that would wait in queues now.",
        lambda one: one.counters.waiting,
    ),
    _schema(
        "shadow_current_executing_seats",
        "Seats that would be in use, also those that linger after a reply.",
        lambda one: one.counters.seats_executing + one.lingering_seats,
    ),
    Family(
        "shadow_request_wait_duration_seconds",
        "How long requests would have waited for seats; execute is true if they would have got seats.",
        (*_schema.labels, "execute"),
        _of_shadow(lambda shadow: read_waits(shadow.server)),
        bounds=DURATIONS,
        unit=NS,
    ),
    _level("shadow_nominal_limit_seats", "Seats that the level would have.", lambda level: level.limits.nominal),
    _level(
        "shadow_current_limit_seats",
        "Seats that the level would have now, with what it would borrow and without what it would lend.",
        lambda level: level.current,
    ),
    Family(
        "shadow_classified_otherwise_total",
        "Requests that the configuration in force places at another level or under another schema.",
        _schema.labels,
        _of_shadow(lambda shadow: shadow.otherwise.items()),
    ),
    Family(
        "shadow_decisions_total",
        "Requests about which both have decided, by the decision of the configuration in force and of the shadow.",
        ("real", "shadow"),
        _of_shadow(lambda shadow: shadow.decisions.items()),
    ),
    _shadow(
        "shadow_assumed_durations_total",
        "Requests that end after the usual time of similar ones, because the configuration in force didn't serve them.",
        lambda one: one.assumed,
    ),
    _shadow(
        "shadow_lag_seconds",
        "By how much the clock of the shadow is behind, because durations aren't known yet.",
        lambda one: one.lag_ns / NS,
        mode="livemax",
    ),
    _shadow("shadow_failed", "1 if an error has ended the shadow.", lambda one: int(one.has_failed), mode="livemax"),
)
"""All metrics of a configuration that is tried; there are none without one."""
