"""A controller in virtual time at which requests with deadlines arrive."""

from apf_middleware.classification import Classification
from apf_middleware.config import Configuration, load_text
from apf_middleware.estimation import LearnedCosts
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.late_arrivals import LateArrivals
from apf_middleware.runtime.time_limits import limit_time

__all__ = ["MS", "DeadlineArrivals"]

MS = 10**6
_TEXT = """
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none, deadlines: {{prediction: "{mode}"}}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: "{level}"}}
spec: {{shares: 1000, waitLimit: 15s, queuing: {{queues: exact, queueLengthLimit: 10000}}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: "{level}", distinguisher: {{source: user}}, rules: [{{httpRules: [{{}}]}}]}}
"""


class DeadlineArrivals:
    """Requests of one route that takes ``duration_ms``, which the server knows already; None means that it doesn't."""

    def __init__(self, mode: str = "on", *, seats: int = 1, duration_ms: int | None = 100) -> None:
        self.now = 0
        self.costs = LearnedCosts()
        if duration_ms is not None:
            for _ in range(20):
                self.costs.observe("GET /", duration_ms * MS, 1)
        self.seats = seats
        self.controller = Controller(self.configure(mode), costs=self.costs, now=lambda: self.now)

    def configure(self, mode: str, level: str = "web") -> Configuration:
        """Return the configuration with this mode of predictions, and with this name of the level."""
        return load_text(_TEXT.format(seats=self.seats, mode=mode, level=level))

    @property
    def late(self) -> LateArrivals:
        found = self.controller.late_arrivals
        assert found is not None, "predictions are off"
        return found

    def arrive(self, flow: int = 1, left_ms: int | None = None, width: int = 1, route: str = "GET /") -> Admission:
        """Let a request of this flow arrive, which has so much time left."""
        place = Classification("all", "web", f"flow {flow}", flow)
        destination = self.controller.destination(place, Work(width))
        destination.route = route
        admission = Admission(destination)
        if left_ms is not None:
            limit_time(admission, self.now, left_ms * MS, self.costs)
        self.controller.arrive(self.now, admission)
        return admission

    def fill(self, seats: int = 1, waiting: int = 0, flow: int = 1) -> list[Admission]:
        """Let requests without a deadline take the seats, and others wait."""
        return [self.arrive(flow) for _ in range(seats + waiting)]

    def outcome(self, name: str) -> int:
        return self.late.outcomes["web", name]
