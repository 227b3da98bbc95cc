"""A fleet compared with one big server and with a static split of the seats: one row for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from apf_middleware.copying import Value
from apf_middleware.simulation.results import Result

__all__ = ["LayoutRow", "compare_layouts", "largest_deviation"]

_LEAST_SEATS: Final = 0.05


@dataclass(frozen=True, slots=True)
class LayoutRow(Value):
    """One layout of the same scenario.

    ``goodput`` is as in `Result`, ``most_in_use`` as in `FleetResult`. The waits are those of the level where they are
    longest. ``deviation`` is the largest difference of a tenant's seats from those at the first layout, as a part of
    the latter; ``deviating`` is that tenant.
    """

    layout: str
    goodput: float
    served: float
    wait_p50_ms: float | None
    wait_p99_ms: float | None
    most_in_use: int
    deviation: float
    deviating: str


def compare_layouts(results: Sequence[Result]) -> list[LayoutRow]:
    """Return a row for each result; deviations are those from the first one."""
    return [_row(result, results[0]) for result in results]


def _row(result: Result, first: Result) -> LayoutRow:
    levels = [level for level in result.levels if level.dispatched and not level.exempt]
    slowest = max(levels, key=lambda level: level.wait_p99_ms or 0.0, default=None)
    tenant, deviation = largest_deviation(result, first)
    return LayoutRow(
        layout=result.configuration,
        goodput=result.goodput,
        served=round(sum(tenant.served for tenant in result.tenants) / max(1, result.requests), 4),
        wait_p50_ms=None if slowest is None else slowest.wait_p50_ms,
        wait_p99_ms=None if slowest is None else slowest.wait_p99_ms,
        most_in_use=0 if result.fleet is None else result.fleet.most_in_use,
        deviation=deviation,
        deviating=tenant,
    )


def largest_deviation(result: Result, first: Result) -> tuple[str, float]:
    """Return the tenant whose seats differ most from those in ``first``, and the difference as a part of the latter.

    Tenants that have hardly any seats in ``first`` are left out.
    """
    found = [
        (abs(result.tenant(one.name).seats - one.seats) / one.seats, one.name)
        for one in first.tenants
        if one.seats >= _LEAST_SEATS
    ]
    deviation, name = max(found, default=(0.0, ""))
    return name, round(deviation, 4)
