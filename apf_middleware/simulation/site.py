"""One simulated server: the production's controller on virtual time, and the backend that does the work.

What the middleware does around the controller (wait limits, hang-ups, the release in the end) happens here in the same
order, and nothing else: who is seated and who is rejected is decided by the code that runs in production.
"""

from collections.abc import Callable
from typing import Protocol

from apf_middleware.config import Configuration
from apf_middleware.config.scenario import Backend
from apf_middleware.fairqueuing import Reason, TicketState
from apf_middleware.gates import Gates
from apf_middleware.runtime import Controller
from apf_middleware.simulation.agenda import Agenda, Deadlines, VirtualAlarm
from apf_middleware.simulation.call import Call

__all__ = ["Site", "Watcher"]

_PARTS = 3  # of a server's time for a request: to read it, to begin with it, perhaps after a wait, and to answer
_WAITING = TicketState.WAITING
_SEATED = TicketState.SEATED


class Watcher(Protocol):
    """Who is told what becomes of calls."""

    def seated(self, call: Call) -> None: ...

    def answered(self, call: Call) -> None: ...

    def served(self, call: Call) -> None: ...

    def rejected(self, call: Call) -> None: ...


class Site:
    """A server of this configuration; ``watcher`` is told what happens to calls."""

    __slots__ = (
        "_agenda",
        "_backend",
        "_free_at",
        "_limits",
        "_part_ns",
        "_watcher",
        "controller",
        "ended_ns",
        "load",
        "places",
        "wasted_ns",
    )

    ended_ns: int
    wasted_ns: int

    def __init__(self, agenda: Agenda, configuration: Configuration, backend: Backend, watcher: Watcher) -> None:
        def alarm(ring: Callable[[], None], _now: Callable[[], int]) -> VirtualAlarm:
            return VirtualAlarm(agenda, ring)

        self._agenda = agenda
        self._backend = backend
        self._watcher = watcher
        self._free_at = 0
        self._part_ns = backend.overhead_ns // _PARTS
        self._limits: dict[str, Deadlines[Call]] = {}
        gates = Gates() if configuration.has_gates else None  # nobody asks them: those that an app adds aren't missed
        self.controller: Controller = Controller(configuration, gates, now=agenda.read, alarm=alarm)
        self.places: int = configuration.server.seats if backend.places is None else backend.places
        self.load: int = 0
        self.ended_ns = self.wasted_ns = 0

    def ask(self, call: Call) -> None:
        """A client asks; the server hears of it when it comes to that."""
        call.site = self
        self._do(self._hear, call)

    def _do(self, what: Callable[[Call], None], call: Call, parts: int = 1) -> None:
        """The server itself does one thing after the other: this one next, for so many parts of its time."""
        if self._part_ns:
            self._free_at = free_at = max(self._free_at, self._agenda.now) + parts * self._part_ns
            self._agenda.at(free_at, what, call)
        else:
            what(call)

    def _hear(self, call: Call) -> None:
        if call.is_settled:  # its client has left already
            return
        now = self._agenda.now
        self.controller.arrive(now, call)
        state = call.state
        if state is _SEATED:
            self._do(self._begin, call)
        elif state is _WAITING:
            call.waiter = call
            at_work = call.destination.at_work
            limits = self._limits.get(at_work.name)
            if limits is None:
                limits = self._limits[at_work.name] = Deadlines(self._agenda, self._run_out, _waits_no_more)
            limits.add(now + at_work.wait_limit_ns, call)
        else:
            self._refuse(call)

    def _run_out(self, call: Call) -> None:
        self.controller.abandon(call, Reason.TIME_OUT)

    def woken(self, call: Call) -> None:
        """Its wait is over."""
        if call.state is _SEATED:
            self._do(self._begin, call)
        elif not call.is_settled:
            self._agenda.at(self._agenda.now, self._refuse, call)

    def _refuse(self, call: Call) -> None:
        """A rejection takes the server as long as any answer."""
        self._do(self._watcher.rejected, call, _PARTS - 1)

    def _begin(self, call: Call) -> None:
        """The backend begins with it; from how much it has to do then follows how long it will take."""
        self.load = load = self.load + call.weight
        duration = call.service_ns
        if load > self.places:
            duration = int(duration * (load / self.places) ** self._backend.exponent)
        self._watcher.seated(call)
        self._agenda.at(self._agenda.now + duration, self._served, call)

    def _served(self, call: Call) -> None:
        self._do(self._answer, call)

    def _answer(self, call: Call) -> None:
        self.load -= call.weight
        self._watcher.served(call)

    def end(self, call: Call) -> None:
        """The response is out, whoever still waits for it; the seats are free."""
        work = call.service_ns * call.weight
        self.ended_ns += work
        if call.is_settled or call.has_failed:
            self.wasted_ns += work
        self._watcher.answered(call)
        self.controller.release(call)

    def hang_up(self, call: Call) -> None:
        """The client has gone: who waits leaves, who is served isn't disturbed."""
        self.controller.hang_up(call)

    def __repr__(self) -> str:
        return f"<Site: load of {self.load} on {self.places} places, {self.controller!r}>"


def _waits_no_more(call: Call) -> bool:
    return call.state is not _WAITING
