"""A server under virtual time whose queues are operated: requests are admissions, and nobody sleeps."""

from apf_middleware.classification import Classification
from apf_middleware.config import Configuration, load_text
from apf_middleware.fairqueuing import Work, flow_hash
from apf_middleware.runtime import Admission, Controller, NamedQueues
from tests.support.virtual_alarm import NullAlarm

__all__ = ["FAMILY", "MS", "NamedQueueServer", "level", "server"]

MS = 10**6


def server(seats: int = 10, queues: str = "") -> str:
    """One seat is the catch-all's."""
    naming = f"{{header: x-queue, groups: [anybody]{queues}}}"
    return f"---\napiVersion: apf/v1\nkind: Server\nspec: {{seats: {seats}, defaults: none, queues: {naming}}}\n"


def level(name: str, spec: str = "") -> str:
    return f"---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


class NamedQueueServer:
    def __init__(self, text: str) -> None:
        self.now = 0
        self.ticks_ns = 0  # by which time goes on when somebody reads the clock
        self.controller = Controller(load_text(text), now=self._read_clock, alarm=lambda *_: NullAlarm())
        self.queues = NamedQueues(self.controller)

    def _read_clock(self) -> int:
        self.now += self.ticks_ns
        return self.now

    def arrive(
        self, queue: str, number: int = 1, width: int = 1, flow: str = "flow", linger_ns: int = 0
    ) -> list[Admission]:
        placed = Classification("catch-all", queue, flow, flow_hash("catch-all", flow))
        found = []
        for _ in range(number):
            admission = Admission(self.controller.destination(placed, Work(width, width, linger_ns)))
            self.controller.arrive(self.now, admission)
            found.append(admission)
        self.check()
        return found

    def end(self, admission: Admission) -> None:
        self.controller.release(admission)
        self.check()

    def reload(self, text: str) -> None:
        """As a server does when files have changed."""
        files = load_text(text)
        self.controller.reconfigure(self.queues.reload(files))
        self.queues.note_in_force(files)
        self.check()

    def check(self) -> None:
        self.controller.sharing.check()
        for one in self.queues.list():
            assert one.arrived == sum(
                counters.arrived
                for runtime in map(self.controller.levels.__getitem__, one.children or (one.name,))
                for counters in (*runtime.schema_counters.values(), runtime.forgotten)
            )

    def state(self, name: str) -> str:
        return self.queues.status(name).state

    @property
    def configuration(self) -> Configuration:
        return self.controller.configuration


FAMILY = (
    server(10) + level("tenants", "maxSeats: 6") + level("free", "parent: tenants") + level("paid", "parent: tenants")
)
