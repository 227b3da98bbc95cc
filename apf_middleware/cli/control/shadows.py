"""The reports of several workers about the configuration that is tried, summed up."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from apf_middleware.counters import DURATION_BOUNDS_NS, Histogram
from apf_middleware.runtime.shadow.report import summarize_waits
from apf_middleware.snapshots.shadow import (
    ShadowDecisions,
    ShadowDifference,
    ShadowFlowSnapshot,
    ShadowLevelSnapshot,
    ShadowSchemaSnapshot,
    ShadowSnapshot,
    ShadowWaits,
)

__all__ = ["merge_shadows"]

_SECOND: Final = 10**9
_MOST_EXAMPLES: Final = 5
_MOST_FLOWS: Final = 50

RowT = TypeVar("RowT")


def merge_shadows(reports: Sequence[ShadowSnapshot]) -> ShadowSnapshot | None:
    """Return the sum of all reports; None if there are none.

    Seats and counts are those of all workers together. The sum of peaks is at least the peak of the sum.
    """
    if not reports:
        return None
    first = reports[0]
    failed = [one for one in reports if one.error is not None]
    flows = sorted(_merged(reports, _flows_of, _flow_key, _merge_flows), key=lambda one: -one.requests)
    return replace(
        first,
        state="failed" if failed else first.state,
        error=failed[0].error if failed else None,
        since=min(one.since for one in reports),
        seconds=max(one.seconds for one in reports),
        lag=max(one.lag for one in reports),
        requests=sum(one.requests for one in reports),
        otherwise=sum(one.otherwise for one in reports),
        unplaced=sum(one.unplaced for one in reports),
        unestimated=sum(one.unestimated for one in reports),
        decided=sum(one.decided for one in reports),
        agreeing=sum(one.agreeing for one in reports),
        assumed=sum(one.assumed for one in reports),
        seats=sum(one.seats for one in reports),
        decisions=tuple(
            _merged(reports, lambda one: one.decisions, lambda row: (row.real, row.shadow), _merge_decisions)
        ),
        differences=tuple(_merge_all_differences(reports)),
        levels=tuple(_merged(reports, lambda one: one.levels, lambda row: row.level, _merge_levels)),
        schemas=tuple(_merged(reports, lambda one: one.schemas, lambda row: (row.level, row.schema), _merge_schemas)),
        flows=tuple(flows[:_MOST_FLOWS]),
        forgotten_flows=sum(one.forgotten_flows for one in reports),
        caveats=tuple(dict.fromkeys(caveat for one in reports for caveat in one.caveats)),
    )


def _merged(
    reports: Sequence[ShadowSnapshot],
    rows: Callable[[ShadowSnapshot], Iterable[RowT]],
    key: Callable[[RowT], Hashable],
    merge: Callable[[Sequence[RowT]], RowT],
) -> list[RowT]:
    """Return one row for each key, in the order in which the keys occur first."""
    found: dict[Hashable, list[RowT]] = {}
    for one in reports:
        for row in rows(one):
            found.setdefault(key(row), []).append(row)
    return [merge(group) for group in found.values()]


def _merge_decisions(rows: Sequence[ShadowDecisions]) -> ShadowDecisions:
    return replace(rows[0], requests=sum(one.requests for one in rows))


def _merge_all_differences(reports: Sequence[ShadowSnapshot]) -> list[ShadowDifference]:
    merged = _merged(
        reports,
        lambda one: one.differences,
        lambda row: (row.real_schema, row.real_level, row.schema, row.level),
        _merge_differences,
    )
    return sorted(merged, key=lambda one: -one.requests)


def _merge_differences(rows: Sequence[ShadowDifference]) -> ShadowDifference:
    examples = dict.fromkeys(example for one in rows for example in one.examples)
    return replace(rows[0], requests=sum(one.requests for one in rows), examples=tuple(examples)[:_MOST_EXAMPLES])


def _merge_levels(rows: Sequence[ShadowLevelSnapshot]) -> ShadowLevelSnapshot:
    first = rows[0]
    return replace(
        first,
        nominal=sum(one.nominal for one in rows),
        min=sum(one.min for one in rows),
        max=None if first.max is None else sum(one.max or 0 for one in rows),
        seats_in_use=sum(one.seats_in_use for one in rows),
        average=sum(one.average for one in rows),
        peak=sum(one.peak for one in rows),
        waiting=sum(one.waiting for one in rows),
        at_once=sum(one.at_once for one in rows),
        waits=_merge_waits([one.waits for one in rows]),
        rejected=_sum_reasons([one.rejected for one in rows]),
    )


def _merge_schemas(rows: Sequence[ShadowSchemaSnapshot]) -> ShadowSchemaSnapshot:
    return replace(
        rows[0],
        requests=sum(one.requests for one in rows),
        otherwise=sum(one.otherwise for one in rows),
        at_once=sum(one.at_once for one in rows),
        waits=_merge_waits([one.waits for one in rows]),
        rejected=_sum_reasons([one.rejected for one in rows]),
        decided=sum(one.decided for one in rows),
        agreeing=sum(one.agreeing for one in rows),
        assumed=sum(one.assumed for one in rows),
    )


def _flows_of(one: ShadowSnapshot) -> Iterable[ShadowFlowSnapshot]:
    return one.flows


def _flow_key(row: ShadowFlowSnapshot) -> Hashable:
    return row.level, row.schema, row.flow


def _merge_flows(rows: Sequence[ShadowFlowSnapshot]) -> ShadowFlowSnapshot:
    return replace(
        rows[0],
        requests=sum(one.requests for one in rows),
        otherwise=sum(one.otherwise for one in rows),
        waits=_merge_waits([one.waits for one in rows]),
        rejected=_sum_reasons([one.rejected for one in rows]),
    )


def _merge_waits(rows: Sequence[ShadowWaits]) -> ShadowWaits:
    total = Histogram(DURATION_BOUNDS_NS)
    for one in rows:
        total.counts = [total + count for total, count in zip(total.counts, one.buckets, strict=True)]
        total.total += (one.mean or 0) * one.requests * _SECOND
    return summarize_waits(total)


def _sum_reasons(rows: Sequence[Mapping[str, int]]) -> dict[str, int]:
    found = Counter[str]()
    for one in rows:
        found.update(one)
    return dict(found)
