"""Fleets whose requests need several seats, with levels that have a max, perhaps that of a common parent."""

from typing import Final, NamedTuple

from apf_middleware.config import Configuration
from apf_middleware.config.scenario import Scenario, read_scenario_text

__all__ = ["WideWorld"]

# Without a cap of the estimated width, which would make requests narrow at small levels.
_HEAD: Final = """\
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none, requestTimeout: 1h, fleet: {{name: shop}}, estimation: {{cap: false}}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: parent}}
spec: {{shares: 3, maxSeats: 3}}
---
apiVersion: apf/v1
kind: Scenario
metadata: {{name: wide}}
spec:
  duration: 12s
  warmUp: 2s
  backend: {{exponent: 0}}
  members: {members}
  balancing: {balancing}
  tenants:
"""

_TENANT: Final = """\
  - name: {name}
    seats: {width}
    arrivals: {{type: closed, connections: {connections}}}
    service: {{type: uniform, least: 20ms, most: 60ms}}
"""

_LEVEL: Final = """\
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: {name}}}
spec: {{{spec}, waitLimit: 1h, queuing: {{queues: exact, queueLengthLimit: 1000}}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: {name}}}
spec: {{level: {name}, distinguisher: {{source: user}}, rules: [{{subjects: [{subjects}], httpRules: [{{}}]}}]}}
"""


class WideWorld(NamedTuple):
    """Levels by name, and for each tenant its level, the width of its requests, and its number of connections."""

    seats: int
    members: int
    balancing: str
    levels: dict[str, str]
    tenants: dict[str, tuple[str, int, int]]

    def read(self) -> tuple[Scenario, Configuration]:
        """Return the world as a scenario."""
        text = _HEAD.format(seats=self.seats, members=self.members, balancing=self.balancing)
        for name, (_, width, connections) in self.tenants.items():
            text += _TENANT.format(name=name, width=width, connections=connections)
        for name, spec in self.levels.items():
            subjects = ", ".join(f"{{user: {user}}}" for user, (level, *_) in self.tenants.items() if level == name)
            text += _LEVEL.format(name=name, spec=spec, subjects=subjects)
        return read_scenario_text(text).unwrap()
