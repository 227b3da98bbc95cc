"""A controller with one level under a clock that the test sets."""

from apf_middleware.classification import Classification
from apf_middleware.config import Configuration, load_text
from apf_middleware.fairqueuing import Work
from apf_middleware.metrics import ServerReading
from apf_middleware.runtime import Admission, Controller, LevelRuntime, NamedQueues, read_server

__all__ = ["PLACE", "LevelWorld", "configuration"]

PLACE = Classification("all", "crowd", "alice", 7)


def configuration(level: str = "", server: str = "") -> Configuration:
    return load_text(
        f"""
apiVersion: apf/v1
kind: Server
metadata: {{name: server}}
spec: {{seats: 4, defaults: none{server}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: crowd}}
spec: {{shares: 1000{level}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: crowd, rules: [{{httpRules: [{{}}]}}]}}
"""
    )


class LevelWorld:
    """A controller with the level ``crowd``, and a clock that the test sets."""

    def __init__(self, config: Configuration | None = None) -> None:
        self.time = 0
        self.controller = Controller(config or configuration(), now=lambda: self.time)

    @property
    def crowd(self) -> LevelRuntime:
        return self.controller.levels["crowd"]

    def arrive(self, work: Work | None = None) -> Admission:
        admission = Admission(self.controller.destination(PLACE, work or Work()))
        self.controller.arrive(self.time, admission)
        return admission

    def release(self, admission: Admission) -> None:
        self.controller.release(admission)

    def times(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the nanoseconds by seats in use, and those by requests that waited."""
        self.controller.look(self.time)
        seats, _, waiting, _ = self.crowd.occupancy.times(self.time)
        return {n: t for n, t in seats.items() if t}, {n: t for n, t in waiting.items() if t}

    def read(self) -> ServerReading:
        """Read all numbers of the server, as for metrics."""
        return read_server(self.controller, NamedQueues(self.controller))
