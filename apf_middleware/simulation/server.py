"""A simulated server: the production controller in virtual time, and the backend that does the work.

What the middleware does around the controller (wait limits, disconnects, the release at the end) happens here in the
same order. Which requests get seats and which are rejected is decided by the code that runs in production.
"""

from collections.abc import Callable
from typing import Protocol

from apf_middleware.config import Configuration
from apf_middleware.fairqueuing import Reason, TicketState
from apf_middleware.gates import Gates
from apf_middleware.runtime import Controller
from apf_middleware.runtime.event_queue import EventQueue, VirtualTimer
from apf_middleware.runtime.time_limits import limit_time
from apf_middleware.runtime.virtual_waits import VirtualWaits
from apf_middleware.simulation.backend import SimulatedBackend
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

    def vacated(self, request: SimulatedRequest) -> None: ...

    def broken(self, request: SimulatedRequest) -> None: ...


class SimulatedServer:
    """A server of this configuration in front of ``backend``, which needs ``overhead_ns`` for each request itself.

    ``observer`` receives the events of its requests, and ``open`` is their number. A server that ``may_crash`` knows
    them all.
    """

    def __init__(
        self,
        events: EventQueue,
        configuration: Configuration,
        backend: SimulatedBackend,
        observer: ServerObserver,
        *,
        overhead_ns: int = 0,
        may_crash: bool = False,
    ) -> None:
        def alarm(ring: Callable[[], None], _now: Callable[[], int]) -> VirtualTimer:
            return VirtualTimer(events, ring)

        self._events = events
        self._observer = observer
        self._free_at = 0
        self._phase_ns = overhead_ns // _PHASES
        self._waits = VirtualWaits(events)
        # Given a `Gates`, the controller also accepts the names of gates that the application would add at startup.
        gates = Gates() if configuration.has_gates else None
        self.controller: Controller = Controller(configuration, gates, now=events.read, alarm=alarm)
        self._has_deadlines = configuration.has_deadlines
        self._schema_deadlines = configuration.schema_deadlines
        self._tells_deadlines = configuration.server.deadlines is not None
        self.backend: SimulatedBackend = backend
        self.open: int = 0
        self.has_crashed: bool = False
        # In the order of their arrivals; the values say whether they have begun at the backend.
        self._requests: dict[SimulatedRequest, bool] | None = {} if may_crash else None
        self._lingering: set[SimulatedRequest] = set()  # answered ones that still have their seats
        self.ended_ns: int = 0  # seat-nanoseconds of work, and the part for responses that came too late
        self.wasted_ns: int = 0

    def receive(self, request: SimulatedRequest) -> None:
        """Take a request from a client; the server reads it when its earlier work is done."""
        request.on_wake = self._woken
        if self.has_crashed:  # its controller is still changing its state if this is a retry
            self._events.at(self._events.now, self._observer.broken, request)
            return
        self.open += 1
        if self._requests is not None:
            self._requests[request] = False
        self._work(self._read, request)

    def _work(self, step: Callable[[SimulatedRequest], None], request: SimulatedRequest, phases: int = 1) -> None:
        """Schedule ``step`` after some ``phases`` of the server's own work, which it does one after the other."""
        if self._phase_ns:
            self._free_at = free_at = max(self._free_at, self._events.now) + phases * self._phase_ns
            self._events.at(free_at, step, request)
        else:
            step(request)

    def _read(self, request: SimulatedRequest) -> None:
        if self.has_crashed:
            return
        if request.is_settled:  # the client has left already
            self._forget(request)
            return
        now = self._events.now
        admission = request.admission
        refused = request.refused
        if refused is None and self._has_deadlines and not self._limit_time(request):
            refused = Reason.DEADLINE
        if refused is not None:
            self.controller.refuse(now, admission, refused)
            self._reject(request)
            return
        self.controller.arrive(now, admission)
        state = admission.state
        if state is _SEATED:
            self._work(self._begin, request)
        elif state is _WAITING:
            admission.waiter = request  # as the task of a server would wait, so that the controller can wake it
            self._waits.begin(admission)
        else:
            self._reject(request)

    def _limit_time(self, request: SimulatedRequest) -> bool:
        """Set the deadline of a request if its client, its schema or its level has one; return False if it is over."""
        destination = request.admission.destination
        own = self._schema_deadlines.get(destination.classification.schema, destination.runtime.deadline_ns)
        told = request.told_ns if self._tells_deadlines else None
        left = min((one for one in (own, told) if one is not None), default=None)
        return left is None or limit_time(request.admission, request.asked_at, left, self.controller.costs)

    def _woken(self, request: SimulatedRequest) -> None:
        if self.has_crashed:
            return
        if request.admission.state is _SEATED:
            self._work(self._begin, request)
        elif request.is_settled:
            self._forget(request)
        else:
            # Not at once, because the controller is still changing its state.
            self._events.at(self._events.now, self._reject, request)

    def _reject(self, request: SimulatedRequest) -> None:
        """Send a rejection, which takes the server as long as any response."""
        self._work(self._finish_rejection, request, _PHASES - 1)

    def _finish_rejection(self, request: SimulatedRequest) -> None:
        if not self.has_crashed:
            self._forget(request)
            self._observer.rejected(request)

    def _begin(self, request: SimulatedRequest) -> None:
        """Start the request at the backend."""
        if self.has_crashed:
            return
        if self._requests is not None:
            self._requests[request] = True
        duration = self.backend.begin(request.service_ns, request.weight)
        self._observer.seated(request)
        self._events.at(self._events.now + duration, self._respond, request)

    def _respond(self, request: SimulatedRequest) -> None:
        if not self.has_crashed:
            self._work(self._finish_own_work, request)

    def _finish_own_work(self, request: SimulatedRequest) -> None:
        if not self.has_crashed:
            self.backend.end(request.weight)
            self._observer.served(request)

    def finish(self, request: SimulatedRequest) -> None:
        """Complete the response, whether or not the client still waits for it; seats are free after their linger."""
        work = request.service_ns * request.weight
        self.ended_ns += work
        if request.is_settled or request.has_failed:
            self.wasted_ns += work
        self._forget(request)
        linger_ns = request.admission.work.linger_ns
        if linger_ns:
            self._lingering.add(request)
            # Before the controller's own event at that time, which gives the seats to others.
            self._events.at(self._events.now + linger_ns, self._vacate, request, rank=-1)
        else:
            self._observer.vacated(request)
        self._observer.answered(request)
        self.controller.release(request.admission)

    def _vacate(self, request: SimulatedRequest) -> None:
        if request in self._lingering:
            self._lingering.remove(request)
            self._observer.vacated(request)

    def _forget(self, request: SimulatedRequest) -> None:
        """Note that a request has ended."""
        self.open -= 1
        if self._requests is not None:
            del self._requests[request]

    def crash(self) -> None:
        """End the process, and with it all requests; those that come later fail, too."""
        requests, self._requests = self._requests, {}
        assert requests is not None, "only a server that may crash does"
        self.has_crashed, self.open = True, 0
        for request in list(self._lingering):
            self._vacate(request)
        for request, has_begun in requests.items():
            request.is_cut_off = True
            if has_begun:
                self.backend.end(request.weight)
                self._observer.vacated(request)
            if not request.is_settled:
                self._observer.broken(request)

    def disconnect(self, request: SimulatedRequest) -> None:
        """End the client's connection: a waiting request leaves its queue, a running one continues."""
        self.controller.hang_up(request.admission)

    def __repr__(self) -> str:
        return f"<SimulatedServer: {self.open} requests, {self.backend!r}, {self.controller!r}>"
