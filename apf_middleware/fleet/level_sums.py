"""What the reports of all members say about each level together, for people who look at the fleet."""

from collections.abc import Collection, Iterable
from heapq import nlargest
from typing import Final

from apf_middleware.fleet.flow_sums import sum_flows
from apf_middleware.fleet.messages import FlowTable, LevelSum, LevelUsage, Report

__all__ = ["MOST_HEAVY", "sum_levels"]

MOST_HEAVY: Final = 12
"""The number of flows of each level that are listed."""


def sum_levels(reports: Iterable[Report]) -> dict[str, LevelSum]:
    """Return the sums of all levels in these ``reports``, by name."""
    usages: dict[str, list[LevelUsage]] = {}
    for report in reports:
        for name, usage in report.levels.items():
            usages.setdefault(name, []).append(usage)
    return {name: _sum(usages[name]) for name in sorted(usages)}


def _sum(usages: Collection[LevelUsage]) -> LevelSum:
    flows = sum_flows(usage.flows for usage in usages)
    heaviest = nlargest(MOST_HEAVY, flows, key=lambda flow: flows[flow][0])
    return LevelSum(
        sum(usage.in_use for usage in usages),
        sum(usage.demand for usage in usages),
        sum(usage.arrivals for usage in usages),
        FlowTable.of({flow: flows[flow][0] for flow in heaviest}, {flow: flows[flow][1] for flow in heaviest}),
    )
