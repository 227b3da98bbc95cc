"""What the reports of all members say about each level together, for people who look at the fleet."""

from collections.abc import Iterable
from heapq import nlargest
from typing import Final

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


def _sum(usages: Iterable[LevelUsage]) -> LevelSum:
    in_use = demand = arrivals = 0
    seats: dict[int, int] = {}
    weights: dict[int, int] = {}
    for usage in usages:
        in_use += usage.in_use
        demand += usage.demand
        arrivals += usage.arrivals
        for flow, wanted, weight in usage.flows.rows():
            seats[flow] = seats.get(flow, 0) + wanted
            weights[flow] = max(weights.get(flow, 0), weight)
    heaviest = nlargest(MOST_HEAVY, seats.items(), key=lambda item: item[1])
    return LevelSum(in_use, demand, arrivals, FlowTable.of(dict(heaviest), weights))
