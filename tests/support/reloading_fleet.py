"""A fleet in virtual time whose members read other configurations while their requests wait and run."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, cast

from apf_middleware.classification import Classification
from apf_middleware.config import Configuration, load_text
from apf_middleware.config.scenario import Backend, ScenarioMembers
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Admission
from apf_middleware.runtime.event_queue import EventQueue
from apf_middleware.simulation.backend import SimulatedBackend
from apf_middleware.simulation.fleet import SimulatedFleet
from apf_middleware.simulation.server import SimulatedServer

__all__ = ["MS", "SECOND", "ReloadingFleet", "configuration"]

MS: Final = 10**6
SECOND: Final = 10**9

_SERVER: Final = """\
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none, requestTimeout: 1h, fleet: {{name: shop}}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: catch-all}}
spec: {{shares: 0, lendablePercent: 100}}
"""
_LEVEL: Final = """\
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: {name}}}
spec: {{{spec}}}
"""


def configuration(seats: int, **levels: str) -> Configuration:
    """Return a configuration of a fleet with these ``levels``, by name."""
    return load_text(
        _SERVER.format(seats=seats) + "".join(_LEVEL.format(name=name, spec=spec) for name, spec in levels.items())
    )


@dataclass(eq=False)
class _Request:
    """A request, which is followed by another one of the same flow if there is a level for it then."""

    fleet: "ReloadingFleet"
    member: int
    level: str
    admission: Admission

    def wake(self) -> None:
        if self.admission.is_seated:
            self.fleet.begin(self)


class ReloadingFleet:
    """``count`` members. ``used`` are the seats in use of each level, and ``most`` the most since it was cleared."""

    request_ns = 100 * MS

    def __init__(self, count: int, configured: Configuration) -> None:
        self.events = EventQueue()
        self.used: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.requests: set[_Request] = set()
        backend, observer = SimulatedBackend(Backend(), 1), cast("Any", None)  # they take no part
        servers = [SimulatedServer(self.events, configured, backend, observer) for _ in range(count)]
        self.controllers = [server.controller for server in servers]
        settings = configured.server.fleet
        assert settings is not None
        self.fleet = SimulatedFleet(
            self.events, servers, configured, settings, ScenarioMembers(count), start=cast("Any", None), seed=1
        )

    def ask(self, member: int, level: str, times: int) -> None:
        """Let requests arrive, each of which is followed by another one while the level is in force."""
        controller = self.controllers[member]
        for _ in range(times if level in controller.levels else 0):
            place = Classification("all", level, "flow", 7)
            request = _Request(self, member, level, Admission(controller.destination(place, Work())))
            self.requests.add(request)
            controller.arrive(self.events.now, request.admission)
            request.admission.waiter = request
            if request.admission.is_seated:
                self.begin(request)

    def begin(self, request: _Request) -> None:
        self.used[request.level] += 1
        self.most[request.level] = max(self.most[request.level], self.used[request.level])
        self.events.at(self.events.now + self.request_ns, self._end, request)

    def _end(self, request: _Request) -> None:
        self.requests.remove(request)
        self.used[request.level] -= 1
        self.controllers[request.member].release(request.admission)
        self.ask(request.member, request.level, 1)

    def waiting(self, level: str) -> list[int]:
        """Return the members at which requests of this level wait, once for each of them."""
        return [one.member for one in self.requests if one.level == level and one.admission.is_waiting]

    def reload(self, configured: Configuration, *members: int) -> None:
        """Let these members have another configuration; all, if none are named."""
        for member in members or range(len(self.controllers)):
            self.controllers[member].reconfigure(configured)

    def run(self, duration: int) -> None:
        self.events.run(self.events.now + duration)
