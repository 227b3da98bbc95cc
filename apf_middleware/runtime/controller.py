"""The controller of a server: requests arrive, leave their queues and release their seats by its methods.

The controller has the clock and the levels. Its `Sharing` decides which requests are seated; the controller counts and
wakes them. All methods are synchronous, so no other task runs between a decision and its effects.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from apf_middleware.classification import Classification
from apf_middleware.config import Configuration
from apf_middleware.config.build import derive_hierarchy, derive_limits
from apf_middleware.config.deadlines import DEFAULT_MODE
from apf_middleware.counters import DURATION_BOUNDS_NS
from apf_middleware.estimation import LearnedCosts, WatchTracker
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import DISCIPLINES, Reason, Ticket, TicketState
from apf_middleware.fairqueuing.sharing.grant import SeatGrant
from apf_middleware.fairqueuing.work import WEIGHT_BITS, WEIGHT_ONE, Work, seat_seconds
from apf_middleware.runtime.adaptive_runner import AdaptiveRunner
from apf_middleware.runtime.admission import Admission, Destination
from apf_middleware.runtime.alarm import Alarm, AnyAlarm
from apf_middleware.runtime.backlog import Backlog
from apf_middleware.runtime.duration_sampler import DurationSampler
from apf_middleware.runtime.event_loop import HomeLoop
from apf_middleware.runtime.incoming_bodies import IncomingBodies
from apf_middleware.runtime.late_arrivals import LateArrivals
from apf_middleware.runtime.level import LevelRuntime
from apf_middleware.runtime.queues.reclaim import Reclaimer
from apf_middleware.runtime.queues.states import requested_state_of
from apf_middleware.runtime.registry import LevelRegistry, wanted_levels
from apf_middleware.runtime.wait_monitor import WaitMonitors

if TYPE_CHECKING:
    from apf_middleware.config.gates import GateSettings
    from apf_middleware.config.server import ServerSettings
    from apf_middleware.fairqueuing.sharing import Sharing
    from apf_middleware.gates import GatedSharing, Gates, ParkedRequest
    from apf_middleware.runtime.gate_runner import GateRunner
    from apf_middleware.runtime.running_requests import RunningRequests
    from apf_middleware.runtime.seat_finder import SeatFinder
    from apf_middleware.runtime.seats_holder import SeatsHolder

__all__ = ["SETTLED_AT_START", "Controller"]

SETTLED_AT_START: Final = ("borrowing", "discipline", "strict_upstream", "fleet")
"""The server's settings that can't change without a restart, because the levels are created with them."""

_SEATED: Final = TicketState.SEATED
_WAITING: Final = TicketState.WAITING
_LINGERING: Final = TicketState.LINGERING
_NONE: Final[Sequence[Ticket]] = ()
_NO_FACTORS: Final[Mapping[int, int]] = {}
_SHORT: Final = DURATION_BOUNDS_NS[1]  # most requests take no longer
# While requests wait, a discipline that `is_restless` is asked at least this often which queue is next.
_RESTLESS_NS: Final = 10_000_000


class Controller:
    """Operate the levels of ``configuration``; ``now`` is the clock, in integer nanoseconds.

    ``alarm`` creates the timer; simulations pass a function that creates one for virtual time. ``gates`` are defined by
    the app; the gates of the configuration are added to them. ``gate_runner`` is None as long as there are no gates.

    ``member`` is set while this process takes part in a fleet. Without one, a fleet's process has its fallback seats.

    ``costs`` learn the durations and seats of requests by route. ``running``, if given, records the running requests.
    """

    def __init__(
        self,
        configuration: Configuration,
        gates: "Gates | None" = None,
        *,
        costs: LearnedCosts | None = None,
        running: "RunningRequests | None" = None,
        now: Callable[[], int] = time.monotonic_ns,
        alarm: Callable[[Callable[[], None], Callable[[], int]], AnyAlarm] = Alarm,
    ) -> None:
        self.now: Callable[[], int] = now
        self.home: HomeLoop = HomeLoop()
        self.backlog: Backlog = Backlog(configuration.server)
        self.registry: LevelRegistry = LevelRegistry(configuration, now, self.backlog)
        self.sharing: Sharing = self.registry.sharing
        self.is_closing: bool = False
        self.is_passing: bool = False  # while requests run at once, without seats
        self.wait_monitors: WaitMonitors = WaitMonitors(now)
        self.watches: WatchTracker = WatchTracker()
        self.hang_ups: int = 0
        self.costs: LearnedCosts = LearnedCosts() if costs is None else costs
        self.running: RunningRequests | None = running
        self._is_restless = DISCIPLINES[configuration.server.discipline].is_restless
        self._new_alarm = alarm
        self._alarm = alarm(self.tick, now)
        self.bodies: IncomingBodies = IncomingBodies(now, alarm)
        self.late_arrivals: LateArrivals | None = None  # without deadlines there are none
        self.adaptive: SeatFinder | None = None
        self.sampler: DurationSampler | None = None  # the same, in a fleet
        self._adopt_settings()
        self.reclaimer: Reclaimer | None = None  # created for the first request that is `revocable`
        self.gates: Gates | None = None
        self.gate_runner: GateRunner | None = None
        self.member: SeatsHolder | None = None
        self._gated: Sharing | GatedSharing = self.sharing  # replaced when there are gates
        if configuration.server.fleet is not None:
            floor = configuration.server.fleet.fallback.floor(configuration.server.least_total)
            self.sharing.restrict(now(), SeatGrant(floor, fallback=floor))
        self._apply_states()
        self._begin_gates(configuration, gates)

    def _begin_gates(self, configuration: Configuration, gates: "Gates | None") -> None:
        """Run the gates of the app and of the configuration, if there are any."""
        if gates is None:
            gates = self._require_gates(configuration)
        if gates is not None:
            self._configure_gates(gates, ())
            self._run_gates(gates)

    def _require_gates(self, configuration: Configuration) -> "Gates | None":
        """Return the gates; None if there are none. Raise InvalidValueError if they don't fit the configuration."""
        if self.gates is None and not configuration.has_gates:
            return None
        from apf_middleware.runtime.configured_gates import find_gates  # noqa: PLC0415 - most servers have no gates

        return find_gates(configuration, self.gates, self.configuration.server.gates)

    def _configure_gates(self, gates: "Gates", before: "Sequence[GateSettings]") -> None:
        """Create, change and remove gates, which were those of ``before``, as the configuration says."""
        from apf_middleware.runtime.configured_gates import adopt_gates  # noqa: PLC0415 - as above
        from apf_middleware.runtime.headroom_gates import adopt_headroom  # noqa: PLC0415

        adopt_gates(gates, before, self.configuration.server.gates)
        adopt_headroom(gates, self.registry, self.costs)

    def _run_gates(self, gates: "Gates") -> None:
        """Put ``gates`` in front of the sharing."""
        from apf_middleware.runtime.gate_runner import GateRunner  # noqa: PLC0415

        self.gates = gates
        self.gate_runner = GateRunner(
            gates,
            self.sharing,
            home=self.home,
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
    def seats(self) -> int:
        """The total of seats now."""
        return self.sharing.seats

    @property
    def levels(self) -> Mapping[str, LevelRuntime]:
        """The levels of the configuration by name."""
        return self.registry.levels

    @property
    def is_in_step(self) -> bool:
        """Whether the caller is code of a gate, which is asked in the middle of a step."""
        return self.gate_runner is not None and self.gate_runner.sharing.is_in_step

    def destination(self, classification: Classification, work: Work) -> Destination:
        """Return the destination of requests of this classification."""
        return Destination(self, classification, work)

    def count_watches(self, classification: Classification, watches: int) -> None:
        """Record the number of Kubernetes ``watches`` (see `WatchTracker`) that a writing request notifies."""
        runtime = self.levels.get(classification.level)
        if runtime is not None:
            runtime.counters_of(classification.schema, writes=True).watches.observe(watches)

    # The life of a request

    def arrive(self, now: int, admission: Admission) -> None:
        """Seat, queue or reject a new request."""
        destination = admission.destination
        shared = destination.runtime.shared
        if self.is_closing and not shared.exempt:
            self.refuse(now, admission, Reason.QUEUE_CLOSED)
            return
        width = admission.width
        # A request that is alone in its level (see `sharing.level`) is seated here, without a call of the sharing.
        # There are three exceptions. From the time `alone_until` on, the sharing must first free seats that *linger*
        # (they stay in use for a time after the reply). If the request's own seats will linger, the sharing must know.
        # At exempt levels, the sharing must count the seats.
        if (
            width <= shared.alone_width
            and now < self._gated.alone_until
            and not shared.exempt
            and shared.seat_alone(now, admission)
        ):
            is_alone, seated = True, _NONE
        else:
            if destination.runtime.factors:
                factor = destination.runtime.factors.get(admission.entropy, WEIGHT_ONE)
                admission.weight = max(1, destination.weight * factor >> WEIGHT_BITS)
            if shared.alone is not None:
                destination.runtime.note_alone()  # about the earlier request: from now on it isn't alone
            seated = self._gated.arrive(now, shared, admission)
            is_alone = shared.alone is admission and len(seated) == 1
        if is_alone:  # `LevelRuntime.look` computes the occupancy of such requests later
            destination.counters.at_once += 1
            if self.running is not None:
                self.running.note_seated(admission)
            return
        destination.runtime.observe(now)
        self._count_arrived(now, admission, width)
        if seated:  # `arrive` first frees lingering seats that are due; requests of any level may have got them
            self._wake(now, seated, admission)
        if self.late_arrivals is not None and admission.state is _WAITING and self.late_arrivals.reject(now, admission):
            self._abandon(now, admission, Reason.DEADLINE)

    def abandon(self, admission: Admission, reason: Reason) -> None:
        """Take a waiting request out of its queue, reject it and wake its task; do nothing unless it waits."""
        # A time-out, a hang-up and the release of another request may be due in the same iteration of the event loop.
        # The first one to run changes the state, before the waiting task resumes. The others then do nothing.
        if admission.state is _WAITING:
            self._abandon(self.now(), admission, reason)

    def _abandon(self, now: int, admission: Admission, reason: Reason) -> None:
        """Take a waiting request out of its queue, reject it and wake its task."""
        runtime = admission.destination.runtime
        seated = self._gated.abandon(now, runtime.shared, admission, reason)
        runtime.observe(now)
        # `abandon` first frees lingering seats that are due. The request may have got them, or been rejected by a gate.
        if admission.reason is reason:
            self._count_left(now, admission)
            self._note_rejected(admission, now)
            if admission.waiter is not None:
                admission.waiter.wake()
        self._wake(now, seated)

    def hang_up(self, admission: Admission) -> None:
        """Reject a waiting request, because its client has hung up; do nothing unless it waits."""
        if admission.state is _WAITING:
            self.hang_ups += 1
            self.abandon(admission, Reason.CANCELLED)

    def release(self, admission: Admission, *, long_lived: bool = False, has_run: bool = True) -> None:
        """Free the seats of a request that has ended or has given them back, at once or after their linger.

        ``has_run`` is False if the app was never called, only received a part of the body, or waits for its client.
        """
        now = self.now()
        destination = admission.destination
        counters = destination.counters
        lasted = now - admission.seated_at
        histogram = counters.streams if long_lived else counters.executions
        if 0 < lasted <= _SHORT:  # a call would take 5 % of the time of a request that is alone in the pure build
            histogram.usual += 1
            histogram.observed += lasted
        else:
            histogram.observe(lasted)
        shared = destination.runtime.shared
        if self.running is not None or destination.route is not None:
            self._learn(now, admission, lasted, long_lived=long_lived, has_run=has_run)
        # A request that was alone when it arrived is alone only until the next arrival in its level.
        if shared.alone is admission:  # then it has one seat, and `extra_seats` doesn't change
            if now < self._gated.alone_until and not shared.exempt:
                seated = shared.release_alone(now, admission)
            else:
                seated = self._gated.release(now, shared, admission)
        else:
            if admission.width != 1:
                counters.extra_seats -= admission.width - 1
            seated = self._gated.release(now, shared, admission)
            destination.runtime.observe(now)
            if admission.state is _LINGERING:
                self._set_alarm()
        if seated:
            self._wake(now, seated, changed=destination.runtime)
        if self.member is not None:
            self.member.note_released()

    def _learn(self, now: int, admission: Admission, lasted: int, *, long_lived: bool, has_run: bool) -> None:
        """Record the end of a request, and learn from it if it has run."""
        destination, running = admission.destination, self.running
        is_billed = destination.route is not None or (running is not None and running.shown)
        billed = destination.runtime.shared.queueset.charges.billed_ns(admission, lasted) if is_billed else lasted
        if running is not None:
            admission.released_at = now
            running.note_released(admission, billed)
        if destination.route is not None and has_run:
            self.costs.observe(destination.route, lasted, seat_seconds(admission.width, billed))
            # The durations of requests that run at once depend on no number of seats, so they teach nothing about it.
            finds_seats = not (self.is_passing or long_lived or destination.runtime.shared.exempt)
            if self.adaptive is not None and finds_seats:
                self.adaptive.observe(now, destination.route, lasted, admission)

    def record(self, running: "RunningRequests | None") -> None:
        """Record running requests in ``running`` from now on; None stops recording."""
        if running is None and self.running is not None:
            self.running.admissions.clear()  # their ends won't be recorded, even if recording begins again
        self.running = running

    def charge(self, admission: Admission, seats: float) -> None:
        """Bill a running request for ``seats`` instead of its own seats, when its seats are released."""
        runtime = admission.destination.runtime
        if runtime.shared.alone is admission:
            runtime.note_alone()
        runtime.shared.charge(admission, seats)

    def let_revoke(self, admission: Admission) -> None:
        """Register a running request as one that may be asked to give its seats back (see `reclaim`)."""
        if self.reclaimer is None:
            self.reclaimer = Reclaimer(self.registry)
        self.reclaimer.enter(admission)

    def leave(self, admission: Admission) -> None:
        """Withdraw the request of a cancelled task, or release its seats if it has just been seated."""
        if admission.state is not _SEATED:
            self.abandon(admission, Reason.CANCELLED)
            return
        if not admission.is_renewed:  # an app may end the wait of its upload by a time limit of its own, and go on
            admission.fail(aborted=True)
        self.release(admission, has_run=False)

    def release_leases(self, admission: Admission, *, early: bool = False) -> None:
        """Give the leases of a request back; if ``early``, only those that end when its response begins."""
        if self.gate_runner is not None:
            self.gate_runner.release_leases(admission, early=early)

    def held_by(self, admission: Admission) -> "ParkedRequest | None":
        """Return the state of a request that waits for a gate; None if it waits for none."""
        return None if self.gates is None else self.gates.holding(admission)

    def _note_refused(self, now: int, admission: Admission, is_newcomer: bool) -> None:  # noqa: FBT001 - a callback
        """Count and wake a request that a gate has refused; a newcomer is counted by `arrive`."""
        if not is_newcomer:
            admission.destination.runtime.observe(now)
            self._count_left(now, admission)
            self._note_rejected(admission, now)
            if admission.waiter is not None:
                admission.waiter.wake()

    def _note_waiting(self, ticket: Ticket) -> None:
        """Ask revocable requests for their seats, because a request that waited for a gate is back in its queue."""
        if self.reclaimer is not None and isinstance(ticket, Admission):
            self.reclaimer.claim(ticket.destination.runtime)

    def _count_arrived(self, now: int, admission: Admission, width: int) -> None:
        """Count a request that asked for ``width`` seats and isn't alone."""
        counters = admission.destination.counters
        if width != 1:
            counters.count_width(width)
        if admission.state is _SEATED:
            counters.at_once += 1
            counters.extra_seats += admission.width - 1
            if self.running is not None:
                self.running.note_seated(admission)
        elif admission.state is _WAITING:
            admission.waiter = None  # the request's task sets it right after this call, without an await
            admission.queued_width = width
            counters.waiting += 1
            self.backlog.waiting += 1
            counters.extra_seats_waiting += width - 1
            if self.reclaimer is not None:
                self.reclaimer.claim(admission.destination.runtime)
            if admission.queue is not None:
                counters.lengths.observe(admission.queue.length)
                if self.member is not None:
                    self.member.note_waiting(admission.queue.length)
            self._set_alarm()
        else:
            self._note_rejected(admission, now)

    def _wake(
        self,
        now: int,
        seated: Iterable[Ticket],
        newcomer: Admission | None = None,
        changed: LevelRuntime | None = None,
    ) -> None:
        """Count and wake the ``seated`` requests, except ``newcomer``; the counters of ``changed`` are up to date."""
        for ticket in seated:
            if ticket is newcomer or not isinstance(ticket, Admission):
                continue
            destination = ticket.destination
            if destination.runtime is not changed:
                destination.runtime.observe(now)
            counters = destination.counters
            counters.waiting -= 1
            self.backlog.waiting -= 1
            counters.after_wait += 1
            if self.running is not None:
                self.running.note_seated(ticket)
            if ticket.queued_width != 1:
                counters.extra_seats_waiting -= ticket.queued_width - 1
                counters.extra_seats += ticket.width - 1
            counters.waits.observe(now - ticket.arrived_at)
            if self.late_arrivals is not None:
                self.late_arrivals.note_left(now, ticket, is_seated=True)
            if ticket.waiter is not None:
                ticket.waiter.wake()

    def refuse(self, now: int, admission: Admission, reason: Reason) -> None:
        """Reject a request that never reaches its level."""
        if reason is Reason.CANCELLED:
            self.hang_ups += 1
        if admission.width != 1:
            admission.destination.counters.count_width(admission.width)
        admission.arrived_at = now
        admission.state = TicketState.REJECTED
        admission.reason = reason
        admission.destination.runtime.shared.queueset.rejected[reason] += 1  # dumps have the counts of the queue set
        self._count_rejected(admission, now)

    def _count_left(self, now: int, admission: Admission) -> None:
        if self.late_arrivals is not None:
            self.late_arrivals.note_left(now, admission, is_seated=False)
        counters = admission.destination.counters
        counters.waiting -= 1
        self.backlog.waiting -= 1
        counters.extra_seats_waiting -= admission.queued_width - 1

    def _note_rejected(self, admission: Admission, now: int) -> None:
        """Count a request that its level has rejected, perhaps for lack of seats."""
        shared = admission.destination.runtime.shared  # while it is stopped, it seats none of any total
        if self.adaptive is not None and admission.reason is not None and not (self.is_passing or shared.is_stopped):
            self.adaptive.note_rejected(now, admission.reason)
        self._count_rejected(admission, now)

    def _count_rejected(self, admission: Admission, now: int) -> None:
        assert admission.reason is not None
        admission.rejected_at = now
        counters = admission.destination.counters
        counters.rejected[admission.reason] += 1
        if self.running is not None:
            self.running.note_rejected(admission)
        counters.unserved_waits.observe(now - admission.arrived_at)

    # Time

    def tick(self) -> None:
        """End the lingers that are due, handle events of gates, and update the counters."""
        if self.gates is not None:
            self.gates.read_inbox()
        self.look(self.now())
        self._set_alarm()

    def look(self, now: int) -> None:
        """Free the seats of lingers that have ended, and bring all counters up to ``now``.

        Do nothing in the middle of a step, so that a gate that looks at queues doesn't change what is being decided.
        """
        if self.is_in_step:
            return
        self._wake(now, self._gated.tick(now))
        self.registry.look(now)

    def _set_alarm(self) -> None:
        """Set the alarm for the next event.

        While requests wait and the discipline is restless, the alarm comes after `_RESTLESS_NS` at the latest.
        """
        at = self._gated.next_event_at()
        if at is None and not self._is_restless:
            return
        if self._is_restless and any(runtime.shared.queueset.waiting for runtime in self.registry):
            soon = self.now() + _RESTLESS_NS
            at = soon if at is None else min(at, soon)
        if at is not None:
            self._alarm.ask(at)

    # Other seats

    def restrict(self, grant: SeatGrant, factors: Mapping[str, Mapping[int, int]]) -> None:
        """Use at most the seats of ``grant`` from now on; set the ``factors`` of the weights of flows, by level."""
        for name, runtime in self.levels.items():
            runtime.factors = found = factors.get(name, _NO_FACTORS)
            if found:
                runtime.shared.queueset.has_changing_weights = True
        now = self.now()
        self.look(now)
        self._wake(now, self._gated.restrict(now, grant))
        self._set_alarm()
        if self.reclaimer is not None:
            self.reclaimer.claim_all()

    def cap(self, caps: Mapping[str, int], pause_ns: int) -> None:
        """Let each level in ``caps`` use at most that many seats from now on (see `Sharing.cap`)."""
        now = self.now()
        self.look(now)
        self._wake(now, self._gated.cap(now, caps, pause_ns))
        self._set_alarm()

    # Another configuration

    def reconfigure(self, configuration: Configuration) -> None:
        """Apply ``configuration`` in one step; waiting and running requests keep their places.

        Levels that exist before and after keep their queues and counters. A level that is removed drains: its requests
        are served, and none may arrive, so the caller must not use old destinations any more. Raise InvalidValueError,
        and change nothing, if the configuration needs a restart (see `SETTLED_AT_START`) or is invalid.
        """
        for name in SETTLED_AT_START:
            value = getattr(configuration.server, name)
            if value != getattr(self.configuration.server, name):
                raise InvalidValueError(name, value, "it can't change while the server runs", "Restart the server")
        gates, old_gates = self._require_gates(configuration), self.configuration.server.gates
        now = self.now()
        self.look(now)  # before the levels change, so that everything up to now counts for the old levels
        with self._claims_later():
            self._share(now, configuration, self._next_total(configuration.server))
            self.backlog.adopt(configuration.server)
            self._apply_states()
        self.look(self.now())  # lingers may have ended during this call
        self._set_alarm()
        if gates is not None:
            self._adopt_gates(gates, old_gates)
        if self.member is not None:
            self.member.note_reconfigured()

    def _share(self, now: int, configuration: Configuration, seats: int) -> None:
        """Share ``seats`` among the levels of ``configuration``, and wake the requests that get some."""
        limits = derive_limits(configuration, seats)  # may raise, so it must come before any change
        hierarchy = derive_hierarchy(configuration, seats)
        seated = self._gated.reconfigure(now, seats, wanted_levels(configuration, limits), hierarchy)
        self.registry.adopt(now, configuration, limits)
        self._adopt_settings()
        self._wake(now, seated)

    @contextmanager
    def _claims_later(self) -> Iterator[None]:
        """Let no queue claim seats until this change is complete, because a claim looks at all queues."""
        reclaimer, self.reclaimer = self.reclaimer, None
        try:
            yield
        finally:
            self.reclaimer = reclaimer
        if reclaimer is not None:
            reclaimer.claim_all()

    def resize(self, seats: int) -> None:
        """Share another total of seats; the levels keep their parts of it."""
        now = self.now()
        self.look(now)
        with self._claims_later():
            self._share(now, self.configuration, seats)
        self.look(self.now())
        self._set_alarm()

    def adopt_total(self, seats: int) -> None:
        """Share the total that the allocator of the fleet has found, within the bounds of this configuration."""
        bounds = self.configuration.server.seat_bounds
        if bounds is not None and bounds.clamp(seats) != self.seats:
            self.resize(bounds.clamp(seats))

    def _next_total(self, server: "ServerSettings") -> int:
        """Return the total of seats with which other settings begin: the present one, if they allow that."""
        bounds = server.seat_bounds
        if bounds is None or (self.adaptive is None and bounds.start is not None):
            return server.total
        return bounds.clamp(self.seats)

    def _adopt_bounds(self) -> None:
        """Let the total of seats adapt within the bounds of the configuration, if it has any."""
        bounds, runner = self.configuration.server.seat_bounds, self.adaptive
        if bounds is not None and runner is not None and runner.bounds == bounds:
            return
        if isinstance(runner, AdaptiveRunner):
            runner.end()
        if bounds is None:
            self.adaptive = self.sampler = None
        elif self.configuration.server.fleet is not None:
            self.adaptive = self.sampler = DurationSampler(bounds)
        else:
            self.adaptive = AdaptiveRunner(
                bounds,
                self.seats,
                levels=self.registry,
                resize=self.resize,
                now=self.now,
                alarm=self._new_alarm,
                decisions=runner.decisions if isinstance(runner, AdaptiveRunner) else None,
            )

    def _adopt_gates(self, gates: "Gates", before: "Sequence[GateSettings]") -> None:
        """Create, change and remove gates as the configuration says; create the runner if there is none."""
        if self.gate_runner is None:
            self._run_gates(gates)
        self._configure_gates(gates, before)
        gates.settle()

    def _adopt_settings(self) -> None:
        """Put the configuration in force for bodies, for the total of seats, and for predictions of waits."""
        self._adopt_bounds()
        seats = {name: runtime.shared.limits.nominal for name, runtime in self.levels.items()}
        self.bodies.adopt(self.configuration.server.bodies, seats)
        settings = self.configuration.server.deadlines
        mode = DEFAULT_MODE if settings is None else settings.prediction  # levels may have deadlines of their own
        if not self.configuration.has_deadlines or mode == "off":
            self.late_arrivals = None
        elif self.late_arrivals is None:
            self.late_arrivals = LateArrivals(mode, self.costs)
        else:
            self.late_arrivals.adopt(mode)

    def _apply_states(self) -> None:
        """Open, pause and close the levels as the configuration says."""
        levels = self.configuration.levels
        for name, runtime in self.levels.items():
            if not runtime.shared.exempt:
                requested = requested_state_of(levels[name], levels.get(levels[name].parent or ""))
                self.operate(runtime, held=requested == "paused", closing=requested == "closed")

    def operate(self, runtime: LevelRuntime, *, held: bool, closing: bool) -> None:
        """Set whether the level is ``held`` (it seats no request) and ``closing`` (it rejects new requests)."""
        shared = runtime.shared
        if (shared.is_held, shared.is_closing) == (held, closing):
            return
        now = self.now()
        self.look(now)
        self._wake(now, self._gated.operate(now, shared, held=held, closing=closing))
        self._set_alarm()

    def shed(self, runtime: LevelRuntime, reason: Reason) -> None:
        """Reject all requests that wait at this level."""
        shared = runtime.shared
        held, closing = shared.is_held and not shared.is_draining, shared.is_closing
        # If the level weren't held, the rejection of a wide request could seat requests behind it.
        self.operate(runtime, held=True, closing=closing)
        self._send_away(runtime, reason)
        self.operate(runtime, held=held, closing=closing)

    def let_pass(self) -> int:
        """End all waits without a rejection, so that the requests run without seats; return how many did."""
        passed = 0
        for runtime in self.registry:
            held, closing = runtime.shared.is_held, runtime.shared.is_closing
            self.operate(runtime, held=True, closing=closing)  # so that the places of some don't seat others
            for admission in self._waiting_at(runtime):
                passed += self._let_pass(admission)
            self.operate(runtime, held=held, closing=closing)
        return passed

    def _let_pass(self, admission: Admission) -> bool:
        if admission.state is not _WAITING:
            return False
        now, runtime = self.now(), admission.destination.runtime
        seated = self._gated.abandon(now, runtime.shared, admission, Reason.CANCELLED)
        runtime.observe(now)
        has_passed = admission.reason is Reason.CANCELLED  # see `_abandon`
        if has_passed:
            self._count_left(now, admission)
            runtime.shared.queueset.rejected[Reason.CANCELLED] -= 1  # the request isn't rejected
            admission.destination.counters.passed += 1
            admission.renew()
            if admission.stream is None:  # closed at its end, after which a task left behind must begin no watch
                admission.long_term()
            admission.seated_at = now  # the end of its wait
            for one in getattr(admission, "observations", ()):
                one.note_passed(admission)
            if admission.waiter is not None:
                admission.waiter.wake()
        self._wake(now, seated)
        return has_passed

    def _send_away(self, runtime: LevelRuntime, reason: Reason) -> None:
        for admission in self._waiting_at(runtime):
            self.abandon(admission, reason)

    def _waiting_at(self, runtime: LevelRuntime) -> list[Admission]:
        waiting = [ticket for queue in runtime.shared.queueset.deck for ticket in queue]
        parked = [] if self.gate_runner is None else self.gate_runner.list_parked(runtime)
        return [*(ticket for ticket in waiting if isinstance(ticket, Admission)), *parked]

    # Beginning and end

    def close(self) -> None:
        """Reject the waiting requests and, except at exempt levels, all later requests. Running requests finish.

        When a wide request is rejected, waiting requests behind it may fit into the free seats; these are still served.
        """
        self.is_closing = True
        self.bodies.close()
        for runtime in self.registry:
            self._send_away(runtime, Reason.QUEUE_CLOSED)

    def open(self) -> None:
        """Accept requests again."""
        self.is_closing = False
        self.bodies.open()

    def __repr__(self) -> str:
        return f"<Controller: {self._gated!r}>"
