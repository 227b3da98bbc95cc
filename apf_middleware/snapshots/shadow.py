"""Snapshots of a configuration that is tried beside the one in force."""

from collections.abc import Mapping
from typing import Annotated

from apf_middleware.frozen import frozen
from apf_middleware.snapshots import Count, JSONForm, Number

__all__ = [
    "ShadowDecisions",
    "ShadowDifference",
    "ShadowExample",
    "ShadowFlowSnapshot",
    "ShadowLevelSnapshot",
    "ShadowSchemaSnapshot",
    "ShadowSnapshot",
    "ShadowWaits",
]


@frozen
class ShadowWaits:
    """The waits of requests that got seats after a wait; durations are in seconds, and None if there were no waits.

    A quantile is estimated from ``buckets``, as in Prometheus; these are the numbers of waits up to each bound of the
    metric ``request_wait_duration_seconds`` and beyond, not cumulated.
    """

    requests: Count
    mean: Number | None
    p50: Number | None
    p90: Number | None
    p99: Number | None
    buckets: tuple[Count, ...]


@frozen
class ShadowLevelSnapshot:
    """A level of the configuration that is tried: its limits and seats, and what became of its requests.

    ``average`` and ``peak`` are those of ``seats_in_use`` since the beginning.
    """

    level: str
    exempt: bool
    nominal: Count
    min: Count
    max: Count | None
    seats_in_use: Count
    average: Number
    peak: Count
    waiting: Count
    at_once: Count
    waits: ShadowWaits
    rejected: Mapping[str, Count]


@frozen
class ShadowSchemaSnapshot:
    """A schema at a level of the configuration that is tried.

    ``otherwise`` are the requests that the configuration in force has at another level or under another schema. Of
    those about which both have ``decided``, ``agreeing`` were admitted at once, waited or were rejected in both.
    """

    level: str
    schema: str
    requests: Count
    otherwise: Count
    at_once: Count
    waits: ShadowWaits
    rejected: Mapping[str, Count]
    decided: Count
    agreeing: Count
    assumed: Count


@frozen
class ShadowFlowSnapshot:
    """A flow of the configuration that is tried."""

    level: str
    schema: str
    flow: str
    requests: Count
    otherwise: Count
    waits: ShadowWaits
    rejected: Mapping[str, Count]


@frozen
class ShadowExample:
    """A request that is classified otherwise."""

    method: str
    path: str
    user: str


@frozen
class ShadowDifference:
    """The requests that the configuration in force has under one schema, and the one that is tried under another."""

    real_schema: str
    real_level: str
    schema: str
    level: str
    requests: Count
    examples: tuple[ShadowExample, ...]


@frozen
class ShadowDecisions:
    """The requests with a decision of the configuration in force (``real``) and of the one that is tried."""

    real: Annotated[str, JSONForm(enum=["at-once", "waited", "rejected", "passed"])]
    shadow: Annotated[str, JSONForm(enum=["at-once", "waited", "rejected"])]
    requests: Count


@frozen
class ShadowSnapshot:
    """A configuration that is tried, and what it would have done ``since`` that Unix time, in ``seconds``.

    Of all ``requests``, ``otherwise`` are classified otherwise, and ``unplaced`` have no place in it. Of those about
    which both configurations have ``decided``, ``agreeing`` were admitted at once, waited or were rejected in both.
    The durations of ``assumed`` requests are those of similar ones, because the real server didn't serve them, and the
    seats of ``unestimated`` ones are as the configuration in force estimates them. The report is ``lag`` seconds
    behind. ``caveats`` are what it can't say. ``error`` is that of a shadow that has failed.
    """

    state: Annotated[str, JSONForm(enum=["running", "failed"])]
    source: str
    classify_only: bool
    since: Number
    seconds: Number
    lag: Number
    requests: Count
    otherwise: Count
    unplaced: Count
    unestimated: Count
    decided: Count
    agreeing: Count
    assumed: Count
    seats: Count
    decisions: tuple[ShadowDecisions, ...]
    differences: tuple[ShadowDifference, ...]
    levels: tuple[ShadowLevelSnapshot, ...]
    schemas: tuple[ShadowSchemaSnapshot, ...]
    flows: tuple[ShadowFlowSnapshot, ...]
    forgotten_flows: Count
    caveats: tuple[str, ...]
    error: str | None = None
