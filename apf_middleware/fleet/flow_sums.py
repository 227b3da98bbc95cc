"""What flows demand at all members together."""

from collections.abc import Iterable

from apf_middleware.fairqueuing.work import WEIGHT_ONE
from apf_middleware.fleet.messages import FlowTable

__all__ = ["sum_flows"]


def sum_flows(tables: Iterable[FlowTable]) -> dict[int, list[int]]:
    """Return the seats and the weight of each flow; a weight that no table knows is 1."""
    found: dict[int, list[int]] = {}
    for table in tables:
        for flow, seats, weight in table.rows():
            known = found.get(flow)
            if known is None:
                found[flow] = [seats, weight]
            else:
                known[0] += seats
                if weight > known[1]:  # noqa: PLR1730 - max() takes three times as long
                    known[1] = weight
    for one in found.values():
        if not one[1]:
            one[1] = WEIGHT_ONE
    return found
