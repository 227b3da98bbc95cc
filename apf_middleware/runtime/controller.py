"""The controller: every arrival, departure and end of a request goes through here, and is counted where it happens.

The controller has the clock and the levels; the sharing below it decides which request is served next, and the
controller wakes the requests that were seated. Its methods are synchronous: between a decision and its consequences
nothing else can happen.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from apf_middleware.classification import Classification
from apf_middleware.config import Configuration
from apf_middleware.config.build import derive_hierarchy, derive_limits
from apf_middleware.counters import DURATION_BOUNDS_NS
from apf_middleware.estimation import LearnedCosts, WatchTracker
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import DISCIPLINES, Reason, Ticket, TicketState
from apf_middleware.fairqueuing.work import Work, seat_seconds
from apf_middleware.gates import Gates
from apf_middleware.runtime.admission import Admission, Destination
from apf_middleware.runtime.alarm import Alarm, AnyAlarm
from apf_middleware.runtime.backlog import Backlog
from apf_middleware.runtime.configured_gates import adopt_gates, require_gates
from apf_middleware.runtime.gate_runner import GateRunner
from apf_middleware.runtime.incoming_bodies import IncomingBodies
from apf_middleware.runtime.level import LevelRuntime
from apf_middleware.runtime.queues.reclaim import Reclaimer
from apf_middleware.runtime.queues.states import wish_of
from apf_middleware.runtime.registry import LevelRegistry, wanted_levels
from apf_middleware.runtime.wait_monitor import WaitMonitors

if TYPE_CHECKING:
    from apf_middleware.config.gates import GateSettings
    from apf_middleware.fairqueuing.sharing import Sharing
    from apf_middleware.gates import GatedSharing, ParkedRequest
    from apf_middleware.runtime.running_requests import RunningRequests

__all__ = ["SETTLED_AT_START", "Controller"]

SETTLED_AT_START: Final = ("borrowing", "discipline", "strict_upstream")
"""The server's settings that the levels are made with: others need other levels, and so a restart."""

_SEATED: Final = TicketState.SEATED
_WAITING: Final = TicketState.WAITING
_LINGERING: Final = TicketState.LINGERING
_NONE: Final[Sequence[Ticket]] = ()
_BOUNDS: Final = DURATION_BOUNDS_NS
_SHORT: Final = DURATION_BOUNDS_NS[1]  # most requests take no longer
_RESTLESS_NS: Final = 10_000_000


class Controller:
    """Drive the levels of ``configuration``; ``now`` is the clock, in integer nanoseconds.

    ``alarm`` makes the timer for later calls, which is another one under virtual time. ``gates`` are the app's; those
    of the configuration are added to them. ``gate_runner`` is None until there are gates.

    ``costs`` learn what requests of a route take; a destination without a route teaches nothing. ``running`` records
    running requests; without it they aren't recorded.
    """

    def __init__(
        self,
        configuration: Configuration,
        gates: Gates | None = None,
        *,
        costs: LearnedCosts | None = None,
        running: "RunningRequests | None" = None,
        now: Callable[[], int] = time.monotonic_ns,
        alarm: Callable[[Callable[[], None], Callable[[], int]], AnyAlarm] = Alarm,
    ) -> None:
        self.now: Callable[[], int] = now
        self.backlog: Backlog = Backlog(configuration.server)
        self.registry: LevelRegistry = LevelRegistry(configuration, now, self.backlog)
        self.sharing: Sharing = self.registry.sharing
        self.is_closing: bool = False
        self.wait_monitors: WaitMonitors = WaitMonitors(now)
        self.watches: WatchTracker = WatchTracker()
        self.hang_ups: int = 0
        self.costs: LearnedCosts = LearnedCosts() if costs is None else costs
        self.running: RunningRequests | None = running
        self._is_restless = DISCIPLINES[configuration.server.discipline].is_restless
        self._alarm = alarm(self.tick, now)
        self._thread = threading.get_ident()  # the only one in which requests may be woken
        self.bodies: IncomingBodies = IncomingBodies(now, alarm)
        self._adopt_bodies()
        self.reclaimer: Reclaimer | None = None  # made when a handler lets its request be asked to give way
        self.gates: Gates | None = None
        self.gate_runner: GateRunner | None = None
        self._gated: Sharing | GatedSharing = self.sharing  # with gates, the two together, driven in the same way
        self._apply_states()
        if gates is None and configuration.has_gates:
            gates = Gates()
            require_gates(configuration, gates, (gate.name for gate in configuration.server.gates))
        if gates is not None:
            adopt_gates(gates, (), configuration.server.gates)
            self._run_gates(gates)

    def _run_gates(self, gates: Gates) -> None:
        """Ask ``gates`` from now on."""
        self.gates = gates
        self.gate_runner = GateRunner(
            gates,
            self.sharing,
            now=self.now,
            alarm=self._alarm,
            tick=self.tick,
            wake=self._wake,
            refuse=self._note_refused,
            note_waiting=self._note_waiting,
        )
        self._gated = self.gate_runner.sharing

    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""
        return self.registry.configuration

    @property
    def levels(self) -> Mapping[str, LevelRuntime]:
        """The levels of the configuration by name."""
        return self.registry.levels

    def destination(self, classification: Classification, work: Work) -> Destination:
        """Return the destination of requests of this classification."""
        return Destination(self, classification, work)

    def count_watches(self, classification: Classification, watches: int) -> None:
        """Count that a request that writes concerns so many watches."""
        runtime = self.levels.get(classification.level)
        if runtime is not None:
            runtime.tally(classification.schema, writes=True).watches.observe(watches)

    # What happens to requests

    def arrive(self, now: int, admission: Admission) -> None:
        """Let a request in: afterwards it is seated, queued, or rejected for a reason."""
        destination = admission.destination
        shared = destination.runtime.shared
        if self.is_closing and not shared.exempt:
            self.refuse(now, admission, Reason.QUEUE_CLOSED)
            return
        width = admission.width
        # A lone request of a resting level is seated here, without a call of the sharing. Not so before a linger ends
        # (`quick_until`), which the sharing must see, nor at an exempt level, whose seats it must count.
        if (
            width <= shared.quick_width
            and now < self._gated.quick_until
            and not shared.exempt
            and shared.seat_alone(now, admission)
        ):
            is_alone, seated = True, _NONE
        else:
            if shared.alone is not None:
                destination.runtime.note_alone()  # before the queue set takes the lone request over
            seated = self._gated.arrive(now, shared, admission)
            is_alone = shared.alone is admission and len(seated) == 1
        if is_alone:  # occupancy is added up from the level's sums later
            destination.tally.at_once += 1
            if self.running is not None:
                self.running.note_seated(admission)
            return
        destination.runtime.observe(now)
        self._count_arrived(now, admission, width)
        if seated:  # lingers that have ended by now may have seated requests of any level
            self._wake(now, seated, admission)

    def abandon(self, admission: Admission, reason: Reason) -> None:
        """Take a waiting request out of its queue, reject it and wake its task; do nothing unless it waits."""
        # A time-out, a hang-up and a release elsewhere may all be due in one turn of the event loop. Whichever runs
        # first settles the outcome, since it changes the state before the task runs again; the others find it changed.
        if admission.state is not _WAITING:
            return
        now = self.now()
        runtime = admission.destination.runtime
        seated = self._gated.abandon(now, runtime.shared, admission, reason)
        runtime.observe(now)
        if not admission.is_seated:  # the end of a linger may have seated it first
            self._count_left(admission)
            self._count_rejected(admission, now)
            if admission.waiter is not None:
                admission.waiter.wake()
        self._wake(now, seated)

    def hang_up(self, admission: Admission) -> None:
        """Reject a waiting request, because its client has hung up; do nothing unless it waits."""
        if admission.state is _WAITING:
            self.hang_ups += 1
            self.abandon(admission, Reason.CANCELLED)

    def release(self, admission: Admission, *, long_lived: bool = False) -> None:
        """Free the seats of a request that has ended or has given them back, at once or after their linger."""
        now = self.now()
        destination = admission.destination
        tally = destination.tally
        lasted = now - admission.seated_at
        histogram = tally.streams if long_lived else tally.executions
        # `Histogram.observe`, written out for speed
        histogram.counts[1 if 0 < lasted <= _SHORT else bisect_left(_BOUNDS, lasted)] += 1
        histogram.total += lasted
        shared = destination.runtime.shared
        if self.running is not None or destination.route is not None:
            billed = shared.queueset.charges.billed_ns(admission, lasted)
            if self.running is not None:
                self.running.note_released(admission, billed)
            if destination.route is not None:
                self.costs.observe(destination.route, lasted, seat_seconds(admission.width, billed))
        # Whether the request is alone may have changed since it arrived: another one's arrival ends that.
        if shared.alone is admission:
            if now < self._gated.quick_until and not shared.exempt:
                seated = shared.release_alone(now, admission)
            else:
                seated = self._gated.release(now, shared, admission)
        else:
            if admission.width != 1:
                tally.extra_seats -= admission.width - 1
            seated = self._gated.release(now, shared, admission)
            destination.runtime.observe(now)
            if admission.state is _LINGERING:
                self._set_alarm()
        if seated:
            self._wake(now, seated, changed=destination.runtime)

    def record(self, running: "RunningRequests | None") -> None:
        """Record running requests in ``running`` from now on; None records none, which is faster."""
        self.running = running

    def charge(self, admission: Admission, seats: float) -> None:
        """Bill a running request for ``seats`` when it gives its seats back."""
        runtime = admission.destination.runtime
        if runtime.shared.alone is admission:
            runtime.note_alone()
        runtime.shared.charge(admission, seats)

    def let_revoke(self, admission: Admission) -> None:
        """Allow a running request to be asked to give way."""
        if self.reclaimer is None:
            self.reclaimer = Reclaimer(self.registry)
        self.reclaimer.enter(admission)

    def leave(self, admission: Admission) -> None:
        """Give up the place of a request whose task is cancelled, or its seats if it was seated in the same instant."""
        if admission.state is _SEATED:
            self.release(admission)
        else:
            self.abandon(admission, Reason.CANCELLED)

    def release_leases(self, admission: Admission, *, early: bool = False) -> None:
        """Take back what gates have given to a request; ``early``, only what ends when its response begins."""
        if self.gate_runner is not None:
            self.gate_runner.release_leases(admission, early=early)

    def held_by(self, admission: Admission) -> "ParkedRequest | None":
        """Return the gate that keeps a request waiting, if one does."""
        return None if self.gates is None else self.gates.holding(admission)

    def _note_refused(self, now: int, admission: Admission, is_newcomer: bool) -> None:  # noqa: FBT001 - a callback
        """Count and wake a request that a gate has refused, unless it is a newcomer, which `arrive` counts."""
        if not is_newcomer:
            admission.destination.runtime.observe(now)
            self._count_left(admission)
            self._count_rejected(admission, now)
            if admission.waiter is not None:
                admission.waiter.wake()

    def _note_waiting(self, ticket: Ticket) -> None:
        """Note that a request has passed its gates and found no seats."""
        if self.reclaimer is not None and isinstance(ticket, Admission):
            self.reclaimer.claim(ticket.destination.runtime)

    def _count_arrived(self, now: int, admission: Admission, width: int) -> None:
        """Count a request that asked for ``width`` seats and isn't alone."""
        tally = admission.destination.tally
        if width != 1:
            tally.count_width(width)
        if admission.state is _SEATED:
            tally.at_once += 1
            tally.extra_seats += admission.width - 1
            if self.running is not None:
                self.running.note_seated(admission)
        elif admission.state is _WAITING:
            admission.waiter = None  # its task sets it before anything else can happen
            admission.queued_width = width
            tally.waiting += 1
            self.backlog.waiting += 1
            tally.extra_seats_waiting += width - 1
            if self.reclaimer is not None:
                self.reclaimer.claim(admission.destination.runtime)
            if admission.queue is not None:
                tally.lengths.observe(admission.queue.length)
            self._set_alarm()
        else:
            self._count_rejected(admission, now)

    def _wake(
        self,
        now: int,
        seated: Iterable[Ticket],
        newcomer: Admission | None = None,
        changed: LevelRuntime | None = None,
    ) -> None:
        """Count and wake the requests that waited and have been ``seated``; ``changed`` has been observed already."""
        for ticket in seated:
            if ticket is newcomer or not isinstance(ticket, Admission):
                continue
            destination = ticket.destination
            if destination.runtime is not changed:
                destination.runtime.observe(now)
            tally = destination.tally
            tally.waiting -= 1
            self.backlog.waiting -= 1
            tally.after_wait += 1
            if self.running is not None:
                self.running.note_seated(ticket)
            if ticket.queued_width != 1:
                tally.extra_seats_waiting -= ticket.queued_width - 1
                tally.extra_seats += ticket.width - 1
            tally.waits.observe(now - ticket.arrived_at)
            if ticket.waiter is not None:
                ticket.waiter.wake()

    def refuse(self, now: int, admission: Admission, reason: Reason) -> None:
        """Reject a request that never reaches its level."""
        if reason is Reason.CANCELLED:
            self.hang_ups += 1
        if admission.width != 1:
            admission.destination.tally.count_width(admission.width)
        admission.arrived_at = now
        admission.state = TicketState.REJECTED
        admission.reason = reason
        self._count_rejected(admission, now)

    def _count_left(self, admission: Admission) -> None:
        tally = admission.destination.tally
        tally.waiting -= 1
        self.backlog.waiting -= 1
        tally.extra_seats_waiting -= admission.queued_width - 1

    def _count_rejected(self, admission: Admission, now: int) -> None:
        assert admission.reason is not None
        tally = admission.destination.tally
        tally.rejected[admission.reason] += 1
        if self.running is not None:
            self.running.note_rejected(admission)
        tally.unserved_waits.observe(now - admission.arrived_at)

    # Time

    def tick(self) -> None:
        """Do what is due by now: lingers that end, events of gates, counters."""
        # The alarm rings on the loop that serves requests, which may run in another thread than the one before.
        self._thread = threading.get_ident()
        if self.gates is not None:
            self.gates.read_inbox()
        self.look(self.now())
        self._set_alarm()

    def look(self, now: int) -> None:
        """Free the seats whose linger has ended, and bring what is counted up to ``now``.

        A metrics registry may be read in any thread. Outside the thread of the event loop no seats change hands; there
        the alarm has freed them already.
        """
        if threading.get_ident() == self._thread:
            self._wake(now, self._gated.tick(now))
        self.registry.look(now)

    def _set_alarm(self) -> None:
        """Set the alarm for the next event; with a restless discipline, which time alone may change, soon."""
        at = self._gated.next_event_at()
        if at is None and not self._is_restless:
            return
        if self._is_restless and any(runtime.shared.queueset.waiting for runtime in self.registry):
            soon = self.now() + _RESTLESS_NS
            at = soon if at is None else min(at, soon)
        if at is not None:
            self._alarm.ask(at)

    # Another configuration

    def reconfigure(self, configuration: Configuration) -> None:
        """Put ``configuration`` in force, in one step in which no waiting or running request loses its place.

        Levels that stay keep their queues and counters. Those that go drain: requests that are there are served, and
        none may arrive any more, so destinations must be found anew. Raise InvalidValueError, and change nothing, if
        the configuration needs a restart (see `SETTLED_AT_START`) or is impossible.
        """
        for name in SETTLED_AT_START:
            value = getattr(configuration.server, name)
            if value != getattr(self.configuration.server, name):
                raise InvalidValueError(name, value, "it can't change while the server runs", "Restart the server")
        gates, old_gates = self.gates, self.configuration.server.gates
        if gates is not None or configuration.has_gates:
            gates = gates or Gates()
            require_gates(configuration, gates, (gate.name for gate in configuration.server.gates))
        now = self.now()
        self.look(now)  # so that what has happened is counted under the levels where it happened
        limits = derive_limits(configuration)  # may raise, and so comes before anything changes
        seats, hierarchy = configuration.server.seats, derive_hierarchy(configuration)
        seated = self._gated.reconfigure(now, seats, wanted_levels(configuration, limits), hierarchy)
        self.registry.adopt(now, configuration, limits)
        self.backlog.adopt(configuration.server)
        self._adopt_bodies()
        self._wake(now, seated)
        self._apply_states()
        self.look(self.now())  # time has gone on
        self._set_alarm()
        if gates is not None:
            self._adopt_gates(gates, old_gates)

    def _adopt_gates(self, gates: Gates, before: "Sequence[GateSettings]") -> None:
        """Make and change the gates of the configuration, and begin to ask them if there were none."""
        if self.gate_runner is None:
            self._run_gates(gates)
        adopt_gates(gates, before, self.configuration.server.gates)
        gates.settle()

    def _adopt_bodies(self) -> None:
        seats = {name: runtime.shared.limits.nominal for name, runtime in self.levels.items()}
        self.bodies.adopt(self.configuration.server.bodies, seats)

    def _apply_states(self) -> None:
        """Open, pause and close the levels as the configuration says."""
        levels = self.configuration.levels
        for name, runtime in self.levels.items():
            if not runtime.shared.exempt:
                wish = wish_of(levels[name], levels.get(levels[name].parent or ""))
                self.operate(runtime, held=wish == "paused", closing=wish == "closed")

    def operate(self, runtime: LevelRuntime, *, held: bool, closing: bool) -> None:
        """Seat no request of this level while ``held``, and let none arrive while ``closing``."""
        shared = runtime.shared
        if (shared.is_held, shared.is_closing) == (held, closing):
            return
        now = self.now()
        self.look(now)
        self._wake(now, self._gated.operate(now, shared, held=held, closing=closing))
        self._set_alarm()

    def shed(self, name: str, reason: Reason) -> None:
        """Reject all requests that wait at this level; none is seated meanwhile."""
        runtime = self.levels[name]
        held, closing = runtime.shared.is_held, runtime.shared.is_closing
        # Without the hold, the rejection of a wide request could seat those behind it.
        self.operate(runtime, held=True, closing=closing)
        self._send_away(runtime, reason)
        self.operate(runtime, held=held, closing=closing)

    def _send_away(self, runtime: LevelRuntime, reason: Reason) -> None:
        for admission in self._waiting_at(runtime):
            self.abandon(admission, reason)

    def _waiting_at(self, runtime: LevelRuntime) -> list[Admission]:
        waiting = [ticket for queue in runtime.shared.queueset.deck for ticket in queue]
        parked = [] if self.gate_runner is None else self.gate_runner.list_parked(runtime)
        return [*(ticket for ticket in waiting if isinstance(ticket, Admission)), *parked]

    # Beginning and end

    def close(self) -> None:
        """Reject waiting requests, and those that arrive unless they are exempt; running ones finish."""
        self.is_closing = True
        self.bodies.close()
        for runtime in self.registry:
            self._send_away(runtime, Reason.QUEUE_CLOSED)

    def open(self) -> None:
        """Let requests arrive again, on the event loop of this thread."""
        self._thread = threading.get_ident()
        self.is_closing = False
        self.bodies.open()

    def __repr__(self) -> str:
        return f"<Controller: {self._gated!r}>"
