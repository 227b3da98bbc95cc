"""The configuration of a shop with a console, and who looks at it: a proxy names its users."""

from collections.abc import Mapping
from typing import Final

__all__ = ["APP", "CONFIG", "CONSOLE", "OPERATOR", "READER"]

APP: Final = "tests.e2e.console_app:app"
CONSOLE: Final = "/debug/api_priority_and_fairness/console/"
OPERATOR: Final[Mapping[str, str]] = {"X-Remote-User": "olga", "X-Remote-Group": "sre"}
READER: Final[Mapping[str, str]] = {"X-Remote-User": "rita", "X-Remote-Group": "support"}

CONFIG: Final = """\
apiVersion: apf/v1
kind: Server
metadata: {name: server}
spec:
  seats: 12
  defaults: none
  authentication:
  - {type: proxy, networks: [127.0.0.1]}
  admin: {app: shop, operators: [sre], groups: [support], console: true}
  gates:
  - {name: payments, capacity: 2}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec:
  shares: 60
  waitLimit: 20s
  queuing: {queues: 64, handSize: 6, queueLengthLimit: 50}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: interactive}
spec: {shares: 40, lendablePercent: 50, queuing: {queues: 16, handSize: 4, queueLengthLimit: 50}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: pages}
spec:
  level: interactive
  precedence: 100
  distinguisher: {source: user}
  rules: [{httpRules: [{paths: ["/web", "/web/*"]}]}]
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: payments}
spec:
  level: interactive
  precedence: 150
  distinguisher: {source: user}
  gates: [payments]
  rules: [{httpRules: [{paths: ["/pay/*"]}]}]
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: customers}
spec:
  level: crowd
  precedence: 200
  distinguisher: {source: user}
  rules: [{subjects: [{group: "system:authenticated"}], httpRules: [{}]}]
"""
