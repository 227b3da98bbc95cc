"""Scenarios with a fleet: heavy flows that want more than there is, and one that doesn't."""

from apf_middleware.config import Configuration
from apf_middleware.config.scenario import Scenario, read_scenario_text

__all__ = ["FLEET_TENANTS", "fleet_scenario"]

FLEET_TENANTS = """\
  - {name: elephant, arrivals: {type: closed, connections: 100}, service: {type: uniform, least: 20ms, most: 60ms}}
  - {name: second, arrivals: {type: closed, connections: 40}, service: {type: uniform, least: 20ms, most: 60ms}}
  - {name: mouse, arrivals: {type: poisson, rate: 20}, service: 40ms}
"""

_LEVEL = """\
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: all}
spec: {shares: 100, waitLimit: 1h, queuing: {queues: exact, queueLengthLimit: 100000}, maxSeats: MAX}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: all}
spec: {level: all, distinguisher: {source: user}, rules: [{httpRules: [{}]}]}
"""


def fleet_scenario(
    spec: str = "",
    *,
    seats: int = 20,
    max_seats: int | None = None,
    fleet: str = "name: shop",
    tenants: str = FLEET_TENANTS,
) -> tuple[Scenario, Configuration]:
    """Return a scenario of ten seconds in front of a fleet with one level; without a max, that is all seats."""
    head = "apiVersion: apf/v1\nkind: Scenario\nmetadata: {name: shared}\nspec:\n"
    if "\n  duration:" not in f"\n{spec}":  # events have a duration, too
        head += "  duration: 10s\n  warmUp: 2s\n"
    server = f"---\napiVersion: apf/v1\nkind: Server\nspec:\n  seats: {seats}\n  defaults: none\n"
    server += "  requestTimeout: 1h\n" + (f"  fleet: {{{fleet}}}\n" if fleet else "")
    level = _LEVEL.replace("MAX", f"{max_seats or seats}")
    return read_scenario_text(f"{head}  backend: {{exponent: 0}}\n{spec}  tenants:\n{tenants}{server}{level}").unwrap()
