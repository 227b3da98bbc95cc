"""The reports of several workers about the configuration that is tried, summed up."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from apf_middleware.cli.control.merging import grouped
from apf_middleware.counters import DURATION_BOUNDS_NS, Histogram
from apf_middleware.runtime.shadow.report import MOST_FLOWS, summarize_waits
from apf_middleware.runtime.shadow.tallies import MOST_EXAMPLES
from apf_middleware.snapshots.shadow import (
    ShadowDecisions,
    ShadowDifference,
    ShadowFlowSnapshot,
    ShadowLevelSnapshot,
    ShadowSchemaSnapshot,
    ShadowSnapshot,
)

__all__ = ["merge_shadows"]

_SECOND: Final = 10**9
_COUNTS: Final = ("requests", "otherwise", "decided", "agreeing", "assumed")

RowT = TypeVar("RowT")


def merge_shadows(reports: Sequence[ShadowSnapshot]) -> ShadowSnapshot | None:
    """Return the sum of all reports; None if there are none.

    Seats and counts are those of all workers together. The sum of peaks is at least the peak of the sum.
    """
    if not reports:
        return None
    first = reports[0]
    failed = [one for one in reports if one.error is not None]
    flows = _merged(reports, lambda one: one.flows, lambda row: (row.level, row.schema, row.flow), _merge_flows)
    return replace(
        first,
        state="failed" if failed else first.state,
        error=failed[0].error if failed else None,
        since=min(one.since for one in reports),
        seconds=max(one.seconds for one in reports),
        lag=max(one.lag for one in reports),
        **_sums(reports, *_COUNTS, "unplaced", "unestimated", "seats", "forgotten_flows"),
        decisions=tuple(
            _merged(reports, lambda one: one.decisions, lambda row: (row.real, row.shadow), _merge_decisions)
        ),
        differences=tuple(_merge_all_differences(reports)),
        levels=tuple(_merged(reports, lambda one: one.levels, lambda row: row.level, _merge_levels)),
        schemas=tuple(_merged(reports, lambda one: one.schemas, lambda row: (row.level, row.schema), _merge_schemas)),
        flows=tuple(sorted(flows, key=lambda one: -one.requests)[:MOST_FLOWS]),
        caveats=tuple(dict.fromkeys(caveat for one in reports for caveat in one.caveats)),
    )


def _sums(rows: Sequence[object], *names: str) -> dict[str, Any]:
    """Return the sum of each of these fields."""
    return {name: sum(getattr(one, name) for one in rows) for name in names}


def _merged(
    reports: Sequence[ShadowSnapshot],
    rows: Callable[[ShadowSnapshot], Iterable[RowT]],
    key: Callable[[RowT], Hashable],
    merge: Callable[[Sequence[RowT]], RowT],
) -> list[RowT]:
    """Return one row for each key, in the order in which the keys occur first."""
    return [merge(group) for _, group in grouped((row for one in reports for row in rows(one)), key)]


def _merge_decisions(rows: Sequence[ShadowDecisions]) -> ShadowDecisions:
    return replace(rows[0], **_sums(rows, "requests"))


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
    return replace(rows[0], **_sums(rows, "requests"), examples=tuple(examples)[:MOST_EXAMPLES])


def _merge_levels(rows: Sequence[ShadowLevelSnapshot]) -> ShadowLevelSnapshot:
    first = rows[0]
    return replace(
        first,
        max=None if first.max is None else sum(one.max or 0 for one in rows),
        **_sums(rows, "nominal", "min", "seats_in_use", "average", "peak", "waiting", "at_once"),
        **_merge_outcomes(rows),
    )


def _merge_schemas(rows: Sequence[ShadowSchemaSnapshot]) -> ShadowSchemaSnapshot:
    return replace(rows[0], **_sums(rows, *_COUNTS, "at_once"), **_merge_outcomes(rows))


def _merge_flows(rows: Sequence[ShadowFlowSnapshot]) -> ShadowFlowSnapshot:
    return replace(rows[0], **_sums(rows, "requests", "otherwise"), **_merge_outcomes(rows))


def _merge_outcomes(
    rows: Sequence[ShadowLevelSnapshot] | Sequence[ShadowSchemaSnapshot] | Sequence[ShadowFlowSnapshot],
) -> dict[str, Any]:
    """Return the waits and the rejections of all rows together."""
    total, rejected = Histogram(DURATION_BOUNDS_NS), Counter[str]()
    for one in rows:
        total.counts = [found + more for found, more in zip(total.counts, one.waits.buckets, strict=True)]
        total.total += (one.waits.mean or 0) * one.waits.requests * _SECOND
        rejected.update(one.rejected)
    return {"waits": summarize_waits(total), "rejected": dict(rejected)}
