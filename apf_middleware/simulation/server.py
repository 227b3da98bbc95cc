"""A simulated server: the production controller in virtual time, and the backend that does the work.

What the middleware does around the controller (wait limits, disconnects, the release at the end) happens here in the
same order. Which requests get seats and which are rejected is decided by the code that runs in production.
"""

from collections.abc import Callable
from typing import Protocol

from apf_middleware.config import Configuration
from apf_middleware.config.scenario import Backend
from apf_middleware.fairqueuing import Reason, TicketState
from apf_middleware.gates import Gates
from apf_middleware.runtime import Controller
from apf_middleware.simulation.events import EventQueue, FifoTimeouts, VirtualTimer
from apf_middleware.simulation.requests import SimulatedRequest

__all__ = ["ServerObserver", "SimulatedServer"]

_PHASES = 3  # of a server's own work for a request: to read it, to start it (perhaps after a wait), and to respond
_WAITING = TicketState.WAITING
_SEATED = TicketState.SEATED


class ServerObserver(Protocol):
    """Receives the events of a server's requests."""

    def seated(self, request: SimulatedRequest) -> None: ...

    def served(self, request: SimulatedRequest) -> None: ...

    def answered(self, request: SimulatedRequest) -> None: ...

    def rejected(self, request: SimulatedRequest) -> None: ...


class SimulatedServer:
    """A server of this configuration; ``observer`` receives the events of its requests."""

    def __init__(
        self, events: EventQueue, configuration: Configuration, backend: Backend, observer: ServerObserver
    ) -> None:
        def alarm(ring: Callable[[], None], _now: Callable[[], int]) -> VirtualTimer:
            return VirtualTimer(events, ring)

        self._events = events
        self._backend = backend
        self._observer = observer
        self._free_at = 0
        self._phase_ns = backend.overhead_ns // _PHASES
        self._wait_limits: dict[str, FifoTimeouts[SimulatedRequest]] = {}
        # Given a `Gates`, the controller also accepts the names of gates that the application would add at startup.
        gates = Gates() if configuration.has_gates else None
        self.controller: Controller = Controller(configuration, gates, now=events.read, alarm=alarm)
        self.places: int = configuration.server.seats if backend.places is None else backend.places
        self.load: int = 0
        self.ended_ns: int = 0  # seat-nanoseconds of work, and the part for responses that came too late
        self.wasted_ns: int = 0

    def receive(self, request: SimulatedRequest) -> None:
        """Take a request from a client; the server reads it when its earlier work is done."""
        request.on_wake = self._woken
        self._work(self._read, request)

    def _work(self, step: Callable[[SimulatedRequest], None], request: SimulatedRequest, phases: int = 1) -> None:
        """Schedule ``step`` after so many phases of the server's own work, which it does one after the other."""
        if self._phase_ns:
            self._free_at = free_at = max(self._free_at, self._events.now) + phases * self._phase_ns
            self._events.at(free_at, step, request)
        else:
            step(request)

    def _read(self, request: SimulatedRequest) -> None:
        if request.is_settled:  # the client has left already
            return
        now = self._events.now
        admission = request.admission
        self.controller.arrive(now, admission)
        state = admission.state
        if state is _SEATED:
            self._work(self._begin, request)
        elif state is _WAITING:
            admission.waiter = request  # as the task of a server would wait, so that the controller can wake it
            runtime = admission.destination.runtime
            limits = self._wait_limits.get(runtime.name)
            if limits is None:
                limits = self._wait_limits[runtime.name] = FifoTimeouts(self._events, self._time_out, _is_not_waiting)
            limits.add(now + runtime.wait_limit_ns, request)
        else:
            self._reject(request)

    def _time_out(self, request: SimulatedRequest) -> None:
        self.controller.abandon(request.admission, Reason.TIME_OUT)

    def _woken(self, request: SimulatedRequest) -> None:
        if request.admission.state is _SEATED:
            self._work(self._begin, request)
        elif not request.is_settled:
            # Not at once, because the controller is still changing its state.
            self._events.at(self._events.now, self._reject, request)

    def _reject(self, request: SimulatedRequest) -> None:
        """Send a rejection, which takes the server as long as any response."""
        self._work(self._observer.rejected, request, _PHASES - 1)

    def _begin(self, request: SimulatedRequest) -> None:
        """Start the request at the backend; it takes longer if the backend has more to do at this moment."""
        # The slowdown is fixed at the start: later arrivals slow down only themselves.
        self.load = load = self.load + request.weight
        duration = request.service_ns
        if load > self.places:
            duration = int(duration * (load / self.places) ** self._backend.exponent)
        self._observer.seated(request)
        self._events.at(self._events.now + duration, self._respond, request)

    def _respond(self, request: SimulatedRequest) -> None:
        self._work(self._finish_own_work, request)

    def _finish_own_work(self, request: SimulatedRequest) -> None:
        self.load -= request.weight
        self._observer.served(request)

    def finish(self, request: SimulatedRequest) -> None:
        """Complete the response, whether or not the client still waits for it, and free the seats."""
        work = request.service_ns * request.weight
        self.ended_ns += work
        if request.is_settled or request.has_failed:
            self.wasted_ns += work
        self._observer.answered(request)
        self.controller.release(request.admission)

    def disconnect(self, request: SimulatedRequest) -> None:
        """End the client's connection: a waiting request leaves its queue, a running one continues."""
        self.controller.hang_up(request.admission)

    def __repr__(self) -> str:
        return f"<SimulatedServer: load of {self.load} on {self.places} places, {self.controller!r}>"


def _is_not_waiting(request: SimulatedRequest) -> bool:
    return request.admission.state is not _WAITING
