"""Pieces of queries in PromQL, for whatever the dashboard has chosen: job, instances, levels.

Metrics are written with the prefix ``apf``; `build` puts another in its place. Sums go over all instances that are
chosen, unless they are asked for one by one.
"""

from typing import Final

__all__ = [
    "BY_LEVEL",
    "LEVEL",
    "NOT_LEFT",
    "PREDICTED",
    "REAL",
    "SERVED",
    "SERVER",
    "SPAN",
    "UNSERVED",
    "UTILIZATION",
    "WAITS",
    "average",
    "buckets",
    "gauge",
    "limit",
    "part_of_time_above",
    "quantile",
    "rate",
    "rejected_part",
    "server_rate",
]

SERVER: Final = 'job=~"$job", instance=~"$instance"'
LEVEL: Final = f'{SERVER}, priority_level=~"$level"'
SPAN: Final = "$__rate_interval"
BY_LEVEL: Final = "{{priority_level}}"
"""A legend."""

SERVED: Final = ', execute="true"'
UNSERVED: Final = ', execute="false"'
PREDICTED: Final = ', kind="predicted"'
REAL: Final = ', kind="real"'
NOT_LEFT: Final = ', reason!="cancelled"'
WAITS: Final = "request_wait_duration_seconds"
UTILIZATION: Final = "priority_level_seat_utilization"


def _sum(by: str) -> str:
    return f"sum by ({by})" if by else "sum"


def gauge(name: str, by: str = "priority_level", where: str = "") -> str:
    return f"{_sum(by)} (apf_{name}{{{LEVEL}{where}}})"


def limit(name: str, by: str = "priority_level", where: str = LEVEL) -> str:
    """Of all instances; of a limit of their whole fleet, the members of a fleet have equal parts."""
    found = f"apf_{name}{{{where}}}"
    part = f"{found} / on (job, instance) group_left () (apf_fleet_members{{{SERVER}}} > 0)"
    return f"sum by ({by}) ({part} or {found})"


def rate(name: str, by: str = "priority_level", where: str = "") -> str:
    return f"{_sum(by)} (rate(apf_{name}{{{LEVEL}{where}}}[{SPAN}]))"


def server_rate(name: str, by: str, where: str = "") -> str:
    return f"sum by ({by}) (rate(apf_{name}{{{SERVER}{where}}}[{SPAN}]))"


def buckets(name: str, where: str = "") -> str:
    """For heat maps: how many in each bucket, of each step."""
    return f"sum by (le) (increase(apf_{name}_bucket{{{LEVEL}{where}}}[{SPAN}]))"


def quantile(part: float, name: str, by: str = "priority_level", where: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({part}, {rate(f'{name}_bucket', labels, where)})"


def average(name: str, by: str = "priority_level", where: str = "") -> str:
    return f"{rate(f'{name}_sum', by, where)} / {rate(f'{name}_count', by, where)}"


def rejected_part(by: str = "priority_level") -> str:
    """Of all requests that came, but for clients that left while they waited."""
    rejected = rate("rejected_requests_total", by, NOT_LEFT)
    return f"{rejected} / ({rate('dispatched_requests_total', by)} + {rejected})"


def part_of_time_above(part: str) -> str:
    """How much of the time more than that part of the limit was in use; ``part`` is the bound of a bucket."""
    within = rate(f"{UTILIZATION}_bucket", where=f', le="{part}"')
    return f"1 - {within} / {rate(f'{UTILIZATION}_count')}"
