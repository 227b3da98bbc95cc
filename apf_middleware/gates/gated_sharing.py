"""A `Sharing` together with gates: each call applies both in one step.

Callers use it like a plain sharing. At the end of each step, all requests that may try their gates do so, and then the
hooks are called with the results. If an event is emitted during a step, for example by the code of a gate, it takes
effect at the end of that step.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from apf_middleware.fairqueuing import Reason, SharedLevel, Sharing, Ticket
from apf_middleware.fairqueuing.sharing.hierarchy import NO_HIERARCHY, Hierarchy
from apf_middleware.gates.gate import Gate, GateRequest
from apf_middleware.gates.scheduler import GateScheduler
from apf_middleware.gates.slot import Acquisition, Check

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.sharing.base import Wanted
    from apf_middleware.fairqueuing.sharing.grant import SeatGrant

__all__ = ["GateHooks", "GateRequirements", "GatedSharing"]

_NO_TICKETS: Final[tuple[Ticket, ...]] = ()


class GateRequirements(NamedTuple):
    """The facts about a ticket that gates need: the request, its gates by name, and its wait limit."""

    request: GateRequest
    gates: Iterable[str]
    limit_ns: int


def _ignore(*_: object) -> None:
    pass


def _never(_: Ticket) -> bool:
    return False


def _cannot_ask(now: int, check: Check) -> None:  # noqa: ARG001
    raise AssertionError(f"{check!r} needs an event loop")


@dataclass(frozen=True, slots=True)
class GateHooks:
    """Functions that are called at the end of a step.

    ``refused`` is called for each request that a gate has refused; its last argument is True if the request arrived in
    this step. ``waiting`` is called for each request that was put back into its queue and found no seats, ``timed_out``
    for each that has reached its wait limit, ``failed`` for each error of a gate, and ``ask`` for each question to an
    asynchronous gate. ``end_step`` is called last.
    """

    refused: Callable[[int, Acquisition, bool], None] = _ignore
    waiting: Callable[[Ticket], None] = _ignore
    timed_out: Callable[[Acquisition], None] = _ignore
    failed: Callable[[Gate, BaseException], None] = _ignore
    ask: Callable[[int, Check], None] = _cannot_ask
    end_step: Callable[[], None] = _ignore


class GatedSharing:
    """``sharing`` with the gates of ``scheduler``.

    ``describe`` returns the requirements of a ticket, or None if it has no gates. ``is_early`` returns whether the
    response of a ticket continues after its seats are released, as a stream's does.
    """

    def __init__(
        self,
        sharing: Sharing,
        scheduler: GateScheduler,
        describe: Callable[[Ticket], GateRequirements | None],
        hooks: GateHooks,
        *,
        is_early: Callable[[Ticket], bool] = _never,
    ) -> None:
        self.sharing = sharing
        self.scheduler = scheduler
        self.alone_until = 0  # this sharing must see every request (see `Sharing`)
        self._describe = describe
        self._hooks = hooks
        self._is_early = is_early
        self._unseated: list[Ticket] = []  # put back into their queues in this step, and found no seats
        self._depth = 0  # above 0 during a step: an event that is emitted then must not begin another step
        self._gate_levels()

    def _gate_levels(self) -> None:
        for level in [*self.sharing.levels.values(), *self.sharing.draining]:
            level.queueset.gatekeeper = None if level.exempt else self.scheduler

    # Tickets

    def arrive(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Let ``ticket`` arrive, parked until its gates have answered; return the tickets that were seated."""

        def step() -> Sequence[Ticket]:
            required = None if level.exempt else self._describe(ticket)
            if required is None or level.queueset.is_quiescing:
                return self.sharing.arrive(now, level, ticket)
            if level.queueset.settings.queues:
                return self._queue(now, level, ticket, required)
            return self._pass_at_once(now, level, ticket, required)

        return self._run(now, step, ticket)

    def _queue(self, now: int, level: SharedLevel, ticket: Ticket, required: GateRequirements) -> Sequence[Ticket]:
        seated = self.sharing.arrive_parked(now, level, ticket)
        if not ticket.is_rejected:
            scheduler = self.scheduler
            request, gates, limit_ns = required
            scheduler.enter(now, scheduler.announce(now, ticket, level, request, gates, limit_ns=limit_ns))
        return seated

    def _pass_at_once(
        self, now: int, level: SharedLevel, ticket: Ticket, required: GateRequirements
    ) -> Sequence[Ticket]:
        """Let ``ticket`` arrive at a level without queues, or reject it if a gate doesn't let it pass now."""
        scheduler = self.scheduler
        acquisition = scheduler.announce(now, ticket, level, required.request, required.gates, limit_ns=0)
        if scheduler.pass_at_once(now, acquisition):
            seated = self.sharing.arrive(now, level, ticket)
            # Without a seat the request can't use its leases, and the next request may need them.
            if not ticket.is_seated:
                scheduler.leave(now, ticket)
            return seated
        level.queueset.turn_away(now, ticket)
        scheduler.leave(now, ticket)
        scheduler.refused.append(acquisition)
        return _NO_TICKETS

    def abandon(
        self, now: int, level: SharedLevel, ticket: Ticket, reason: Reason = Reason.TIME_OUT
    ) -> Sequence[Ticket]:
        """Reject ``ticket``, which waits or is parked; return the tickets that were seated."""

        def step() -> Sequence[Ticket]:
            seated = self.sharing.abandon(now, level, ticket, reason)
            if ticket.is_rejected:
                acquisition = self.scheduler.leave(now, ticket)
                if acquisition is not None and reason is Reason.TIME_OUT:
                    self._hooks.timed_out(acquisition)
            return seated

        return self._run(now, step)

    def release(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Release the seats and leases of ``ticket``.

        If its response continues, the leases with ``release: response`` aren't released.
        """

        def step() -> Sequence[Ticket]:
            # leases first, because the request that gets the seats may need them
            self.scheduler.release(now, ticket, "seats" if self._is_early(ticket) else "response")
            return self.sharing.release(now, level, ticket)

        seated = self._run(now, step)
        if not seated and not level.waits:
            # No request wants the seats, so ask a polled gate before its pause is over.
            self.scheduler.hasten(now)
            seated = self._settle(now, seated)
        return seated

    def release_leases(self, now: int, ticket: Ticket, *, early: bool = False) -> Sequence[Ticket]:
        """Release the leases of ``ticket``, but not its seats."""
        had_leases = self.scheduler.release(now, ticket, "headers" if early else "response")
        return self.settle(now) if had_leases else _NO_TICKETS

    def conclude(self, now: int, check: Check, answer: object) -> Sequence[Ticket]:
        """Apply the answer of an asynchronous gate; return the tickets that were seated."""

        def step() -> Sequence[Ticket]:
            seated = self.sharing.tick(now)
            self.scheduler.conclude(now, check, answer)
            return seated

        return self._run(now, step)

    # Steps

    @property
    def is_in_step(self) -> bool:
        """Whether a step is under way, so that the caller is code of a gate."""
        return self._depth > 0

    def settle(self, now: int) -> Sequence[Ticket]:
        """Let requests try their gates, and call the hooks; during a step, do nothing, because its end does this."""
        # Gates may refuse requests before any joins its queue again, and what was due by then must have happened.
        return _NO_TICKETS if self._depth else self._run(now, lambda: self.sharing.tick(now))

    def _run(self, now: int, step: Callable[[], Sequence[Ticket]], newcomer: Ticket | None = None) -> Sequence[Ticket]:
        """Run ``step``, during which events are only recorded, and then settle."""
        self._depth += 1
        try:
            seated = step()
        finally:
            self._depth -= 1
        return self._settle(now, seated, newcomer)

    def _settle(self, now: int, seated: Sequence[Ticket], newcomer: Ticket | None = None) -> Sequence[Ticket]:
        if self._depth:
            return seated
        scheduler = self.scheduler
        refused: list[Acquisition] = []
        self._depth += 1
        try:
            more = [*scheduler.pump(now, self._unpark)]
            while scheduler.refused:
                refused += scheduler.refused
                scheduler.refused = []
                more += self.sharing.forget_drained(now)  # the last request of a level that drains may be among them
                more += scheduler.pump(now, self._unpark)
        finally:
            self._depth -= 1
        if self._unseated:
            unseated, self._unseated = self._unseated, []
            for ticket in unseated:
                self._hooks.waiting(ticket)
        for acquisition in refused:
            self._hooks.refused(now, acquisition, acquisition.ticket is newcomer)
        while scheduler.errors:
            self._hooks.failed(*scheduler.errors.pop())
        if scheduler.questions:  # replaced before the loop, because a hook may run app code that adds to them
            questions, scheduler.questions = scheduler.questions, []
            for check in questions:
                self._hooks.ask(now, check)
        self._hooks.end_step()
        return [*seated, *more] if more else seated

    def _unpark(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        seated = self.sharing.unpark(now, level, ticket)
        if ticket.is_waiting:
            self._unseated.append(ticket)
        return seated

    # Time

    def tick(self, now: int) -> Sequence[Ticket]:
        """End lingers and open gates that are due by ``now``; return the tickets that were seated."""

        def step() -> Sequence[Ticket]:
            seated = self.sharing.tick(now)
            self.scheduler.tick(now)
            return seated

        return self._run(now, step)

    def next_event_at(self) -> int | None:
        """Return the time at which `tick` must be called next."""
        ends, due = self.sharing.next_event_at(), self.scheduler.timers.next_at()
        return due if ends is None else ends if due is None else min(ends, due)

    # Levels

    def operate(self, now: int, level: SharedLevel, *, held: bool = False, closing: bool = False) -> Sequence[Ticket]:
        """Pause, close or open ``level``; return the tickets that were seated."""
        return self._run(now, lambda: self.sharing.operate(now, level, held=held, closing=closing))

    def cap(self, now: int, caps: Mapping[str, int], pause_ns: int = 0) -> Sequence[Ticket]:
        """Cap levels; return the tickets that were seated."""
        return self._run(now, lambda: self.sharing.cap(now, caps, pause_ns))

    def restrict(self, now: int, grant: "SeatGrant | None") -> Sequence[Ticket]:
        """Use at most the seats of ``grant``; return the tickets that were seated."""
        return self._run(now, lambda: self.sharing.restrict(now, grant))

    def reconfigure(
        self, now: int, seats: int, wanted: "Wanted", hierarchy: Hierarchy = NO_HIERARCHY
    ) -> Sequence[Ticket]:
        """Set other seats and levels; return the tickets that were seated."""

        def step() -> Sequence[Ticket]:
            seated = self.sharing.reconfigure(now, seats, wanted, hierarchy)
            self._gate_levels()
            return seated

        return self._run(now, step)

    # Looking

    def check(self) -> None:
        """Raise AssertionError if the sharing or the scheduler is inconsistent."""
        self.sharing.check()
        self.scheduler.check()

    def __repr__(self) -> str:
        return f"<GatedSharing: {self.sharing!r}, {self.scheduler!r}>"
