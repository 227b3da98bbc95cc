"""The report about a configuration that is tried, made from the counters of its server and from its tallies."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from apf_middleware.counters import DURATION_BOUNDS_NS, Histogram
from apf_middleware.fairqueuing import Reason
from apf_middleware.metrics.reading import ServerReading, ShadowReading
from apf_middleware.metrics.schema_counters import SchemaCounters
from apf_middleware.runtime.level import LevelRuntime
from apf_middleware.runtime.reading import read_limits
from apf_middleware.runtime.shadow.server import ShadowServer
from apf_middleware.runtime.shadow.tallies import SchemaTally, ShadowTallies
from apf_middleware.snapshots.shadow import (
    ShadowDecisions,
    ShadowDifference,
    ShadowFlowSnapshot,
    ShadowLevelSnapshot,
    ShadowSchemaSnapshot,
    ShadowSnapshot,
    ShadowWaits,
)

__all__ = ["MOST_FLOWS", "TrialFacts", "read_shadow", "report", "summarize_waits"]

MOST_FLOWS = 50
"""The number of flows in a report."""

_SECOND = 10**9
_NO_COUNTERS = SchemaCounters("", "")


class TrialFacts(NamedTuple):
    """What the report says about a trial besides what happened on its server."""

    source: str
    classify_only: bool
    since: float = 0
    lasted_ns: int = 0
    unplaced: int = 0
    unestimated: int = 0
    caveats: tuple[str, ...] = ()
    error: str | None = None


def report(server: ShadowServer, facts: TrialFacts) -> ShadowSnapshot:
    """Return the report; the server's counters must be up to date."""
    tallies = server.tallies
    schemas = tuple(tallies.schemas.values())
    decisions = _decisions(schemas)
    return ShadowSnapshot(
        state="running" if facts.error is None else "failed",
        source=facts.source,
        classify_only=facts.classify_only,
        since=facts.since,
        seconds=facts.lasted_ns / _SECOND,
        lag=server.lag_ns / _SECOND,
        requests=tallies.requests,
        otherwise=sum(one.otherwise for one in schemas),
        unplaced=facts.unplaced,
        unestimated=facts.unestimated,
        decided=sum(decisions.values()),
        agreeing=sum(number for (real, own), number in decisions.items() if real == own),
        assumed=sum(one.assumed for one in schemas),
        seats=server.controller.seats,
        decisions=tuple(ShadowDecisions(real, own, number) for (real, own), number in sorted(decisions.items())),
        differences=tuple(_differences(tallies)),
        levels=() if facts.classify_only else tuple(_levels(server)),
        schemas=tuple(_schema(one, server.controller.levels) for one in schemas),
        flows=tuple(_flows(tallies)),
        forgotten_flows=tallies.forgotten,
        caveats=facts.caveats,
        error=facts.error,
    )


def read_shadow(server: ShadowServer, *, classify_only: bool, has_failed: bool) -> ShadowReading:
    """Return the numbers of the metrics; the server's counters must be up to date."""
    schemas = tuple(server.tallies.schemas.values())
    return ShadowReading(
        server=ServerReading((), (), server.controller.seats) if classify_only else read_limits(server.controller),
        requests=server.tallies.requests,
        otherwise={(one.level, one.schema): one.otherwise for one in schemas},
        decisions=_decisions(schemas),
        assumed=sum(one.assumed for one in schemas),
        lag_ns=server.lag_ns,
        has_failed=has_failed,
    )


def _decisions(schemas: Iterable[SchemaTally]) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], int] = {}
    for schema in schemas:
        for real, own, number in schema.decisions():
            found[real, own] = found.get((real, own), 0) + number
    return found


def _differences(tallies: ShadowTallies) -> Iterator[ShadowDifference]:
    for one in tallies.differences:
        real, shadow = one.real, one.shadow
        yield ShadowDifference(real.schema, real.level, shadow.schema, shadow.level, one.requests, tuple(one.examples))


def _levels(server: ShadowServer) -> Iterator[ShadowLevelSnapshot]:
    now = server.controller.now()
    for name, runtime in server.controller.levels.items():
        shared, counters = runtime.shared, runtime.schema_counters.values()
        times = runtime.occupancy.times(now)[0]
        passed = sum(times.values())
        yield ShadowLevelSnapshot(
            level=name,
            exempt=shared.exempt,
            nominal=shared.limits.nominal,
            min=shared.limits.min,
            max=None if shared.exempt else shared.limits.max,
            seats_in_use=shared.queueset.seats_in_use,
            average=sum(seats * lasted for seats, lasted in times.items()) / passed if passed else 0.0,
            peak=max((seats for seats, lasted in times.items() if lasted), default=0),
            waiting=shared.queueset.waiting,
            at_once=sum(one.at_once for one in counters),
            waits=summarize_waits(_sum(one.waits for one in counters)),
            rejected=_reasons(one.rejected for one in counters),
        )


def _schema(tally: SchemaTally, levels: Mapping[str, LevelRuntime]) -> ShadowSchemaSnapshot:
    runtime = levels.get(tally.level)
    counters = (None if runtime is None else runtime.schema_counters.get(tally.schema)) or _NO_COUNTERS
    decisions = list(tally.decisions())
    return ShadowSchemaSnapshot(
        level=tally.level,
        schema=tally.schema,
        requests=tally.requests,
        otherwise=tally.otherwise,
        at_once=counters.at_once,
        waits=summarize_waits(counters.waits),
        rejected=_reasons([counters.rejected]),
        decided=sum(number for _, _, number in decisions),
        agreeing=sum(number for real, own, number in decisions if real == own),
        assumed=tally.assumed,
    )


def _flows(tallies: ShadowTallies) -> Iterator[ShadowFlowSnapshot]:
    """Yield the flows with the most requests."""
    largest = sorted(tallies.flows.items(), key=lambda item: -item[1].requests)[:MOST_FLOWS]
    for (level, schema, flow), tally in largest:
        yield ShadowFlowSnapshot(
            level=level,
            schema=schema,
            flow=flow,
            requests=tally.requests,
            otherwise=tally.otherwise,
            waits=summarize_waits(tally.waits),
            rejected=_reasons([tally.rejected]),
        )


def _reasons(counts: Iterable[Mapping[Reason, int]]) -> dict[str, int]:
    """Return the sums by reason, without those that are 0."""
    found: dict[str, int] = {}
    for one in counts:
        for reason, number in one.items():
            if number:
                found[reason.value] = found.get(reason.value, 0) + number
    return found


def _sum(histograms: Iterable[Histogram]) -> Histogram:
    found = Histogram(DURATION_BOUNDS_NS)
    for one in histograms:
        found = found.plus(one)
    return found


def summarize_waits(waits: Histogram) -> ShadowWaits:
    """Return the summary of waits in nanoseconds."""
    number = waits.count
    mean = waits.total / number / _SECOND if number else None
    p50, p90, p99 = (_seconds(waits.quantile(part)) for part in (0.5, 0.9, 0.99))
    return ShadowWaits(number, mean, p50, p90, p99, tuple(waits.counts))


def _seconds(duration_ns: float | None) -> float | None:
    return None if duration_ns is None else duration_ns / _SECOND
