"""An app behind the middleware whose database requests pass a gate."""

import anyio

from apf_middleware import Gates
from apf_middleware.config import Configuration, load_text
from apf_middleware.runtime import Controller
from tests.support.protected_app import ProtectedApp

__all__ = ["DB", "GatedApp", "configuration"]


def configuration(
    gates: str = "[db]", *, seats: int = 10, wait: str = "10s", server: str = "", response: str = "Queue"
) -> Configuration:
    queuing = "\n  queuing: {queues: 1, handSize: 1, queueLengthLimit: 100}" if response == "Queue" else ""
    limit = f"\n  waitLimit: {wait}" if response == "Queue" else ""
    return load_text(
        f"""
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none{server}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: crowd}}
spec:
  shares: 1000
  response: {response}{queuing}{limit}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: gated}}
spec:
  level: crowd
  precedence: 10
  gates: {gates}
  distinguisher: {{source: header, name: X-User}}
  rules:
  - httpRules: [{{paths: ["/db/*"]}}]
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: others}}
spec:
  level: crowd
  rules:
  - httpRules: [{{}}]
"""
    )


DB = ", gates: [{name: db, capacity: 1}]"


class GatedApp(ProtectedApp):
    def __init__(self, tasks: anyio.abc.TaskGroup, config: Configuration, gates: Gates | None = None) -> None:
        super().__init__(tasks, config, gates=gates)

    @property
    def controller(self) -> Controller:
        return self.middleware.service.controller

    @property
    def gates(self) -> Gates:
        gates = self.controller.gates
        assert gates is not None
        return gates

    def is_idle(self) -> bool:
        self.gates.scheduler.check()
        return super().is_idle() and not list(self.gates.scheduler) and not self.used("db")

    def used(self, gate: str) -> int:
        return self.gates.scheduler.gates[gate].used("") or 0
