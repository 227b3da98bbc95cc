"""A server's levels with gates: what a `Sharing` does, and in the same step what gates have to do with it.

It is driven as a plain sharing is. Each step ends with the gates' own: requests that may try are let try until none
may, and what the scheduler has left for the outside is handed over. An event that comes in the middle of a step, as
when a gate's own code emits one, is dealt with at the end of that step.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from apf_middleware.fairqueuing import Reason, SharedLevel, Sharing, Ticket
from apf_middleware.fairqueuing.sharing.hierarchy import NO_HIERARCHY, Hierarchy
from apf_middleware.gates.gate import Gate, GateRequest
from apf_middleware.gates.scheduler import GateScheduler
from apf_middleware.gates.slot import Acquisition, Check

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.sharing.base import Wanted

__all__ = ["GateHooks", "GateRequirements", "GatedSharing"]

_NO_TICKETS: Final[tuple[Ticket, ...]] = ()


class GateRequirements(NamedTuple):
    """What gates have to know about a ticket: the request, its gates by name, and its wait limit."""

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

    ``refused`` is called for each request that a gate has refused, with whether it has only just arrived; ``waiting``
    for each that was let try and found no seats; ``timed_out`` for each whose time is up; ``failed`` for each error of
    a gate; ``ask`` for each question to an asynchronous gate; and ``end_step`` last of all.
    """

    refused: Callable[[int, Acquisition, bool], None] = _ignore
    waiting: Callable[[Ticket], None] = _ignore
    timed_out: Callable[[Acquisition], None] = _ignore
    failed: Callable[[Gate, Exception], None] = _ignore
    ask: Callable[[int, Check], None] = _cannot_ask
    end_step: Callable[[], None] = _ignore


class GatedSharing:
    """``sharing`` with the gates of ``scheduler``.

    ``describe`` returns the requirements of a ticket, None if it has none; ``is_early`` whether its response goes on
    when its seats come back.
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
        self.quick_until = 0  # gates must hear of each request (see `Sharing`)
        self._describe = describe
        self._hooks = hooks
        self._is_early = is_early
        self._unseated: list[Ticket] = []  # in this step, of those that were let try
        self._depth = 0
        self._gate_levels()

    def _gate_levels(self) -> None:
        for level in [*self.sharing.levels.values(), *self.sharing.draining]:
            level.queueset.gatekeeper = None if level.exempt else self.scheduler

    # Tickets

    def arrive(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Let ``ticket`` in, parked until its gates have been asked; return the tickets that were seated."""
        required = None if level.exempt else self._describe(ticket)
        self._depth += 1
        try:
            if required is None or level.queueset.is_quiescing:
                seated = self.sharing.arrive(now, level, ticket)
            elif level.queueset.settings.queues:
                seated = self._queue(now, level, ticket, required)
            else:
                seated = self._pass_at_once(now, level, ticket, required)
        finally:
            self._depth -= 1
        return self._settle(now, seated, ticket)

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
        """Let ``ticket`` in where there are no queues, or reject it if a gate doesn't let it pass now."""
        scheduler = self.scheduler
        acquisition = scheduler.announce(now, ticket, level, required.request, required.gates, limit_ns=0)
        if scheduler.pass_at_once(now, acquisition):
            seated = self.sharing.arrive(now, level, ticket)
            if not ticket.is_seated:
                scheduler.leave(now, ticket)
            return seated
        level.queueset.turn_away(now, ticket, Reason.GATE)
        scheduler.leave(now, ticket)
        scheduler.refused.append(acquisition)
        return _NO_TICKETS

    def abandon(
        self, now: int, level: SharedLevel, ticket: Ticket, reason: Reason = Reason.TIME_OUT
    ) -> Sequence[Ticket]:
        """Take ``ticket`` out, parked or not; return the tickets that were seated."""
        self._depth += 1
        try:
            seated = self.sharing.abandon(now, level, ticket, reason)
            if ticket.is_rejected:
                acquisition = self.scheduler.leave(now, ticket)
                if acquisition is not None and reason is Reason.TIME_OUT:
                    self._hooks.timed_out(acquisition)
        finally:
            self._depth -= 1
        return self._settle(now, seated)

    def release(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Take back the seats of ``ticket``, and its leases unless its response goes on."""
        self._depth += 1
        try:
            self.scheduler.release(now, ticket, early=self._is_early(ticket))
            seated = self.sharing.release(now, level, ticket)
        finally:
            self._depth -= 1
        seated = self._settle(now, seated)
        if not seated and not level.waits:
            self.scheduler.hasten(now)
            seated = self._settle(now, seated)
        return seated

    def release_leases(self, now: int, ticket: Ticket, *, early: bool = False) -> Sequence[Ticket]:
        """Take back the leases of ``ticket``, but not its seats, if it has any."""
        self.scheduler.release(now, ticket, early=early)
        return self.settle(now)

    def conclude(self, now: int, check: Check, answer: object) -> Sequence[Ticket]:
        """Take the answer of an asynchronous gate; return the tickets that were seated."""
        self.scheduler.conclude(now, check, answer)
        return self.settle(now)

    def emit(self, now: int, event: str, key: Hashable = None, payload: object = None) -> Sequence[Ticket]:
        """Tell gates of an event; return the tickets that were seated."""
        return self.settle(now) if self.scheduler.emit(now, event, key, payload) else _NO_TICKETS

    # The end of each step

    def settle(self, now: int) -> Sequence[Ticket]:
        """Do what is left to do for gates, unless a step is going on, at whose end it will be done."""
        return _NO_TICKETS if self._depth else self._settle(now, _NO_TICKETS)

    def _settle(self, now: int, seated: Sequence[Ticket], newcomer: Ticket | None = None) -> Sequence[Ticket]:
        if self._depth:
            return seated
        scheduler = self.scheduler
        self._depth += 1
        try:
            more = scheduler.pump(now, self._unpark)
        finally:
            self._depth -= 1
        if self._unseated:
            unseated, self._unseated = self._unseated, []
            for ticket in unseated:
                self._hooks.waiting(ticket)
        if scheduler.refused:
            refused, scheduler.refused = scheduler.refused, []
            self.sharing.forget_drained(now)
            for acquisition in refused:
                self._hooks.refused(now, acquisition, acquisition.ticket is newcomer)
        while scheduler.errors:
            self._hooks.failed(*scheduler.errors.pop())
        if scheduler.questions:
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
        """Do what was due by ``now``; return the tickets that were seated."""
        self._depth += 1
        try:
            seated = self.sharing.tick(now)
            self.scheduler.tick(now)
        finally:
            self._depth -= 1
        return self._settle(now, seated)

    def next_event_at(self) -> int | None:
        """Return when `tick` is to be called next."""
        ends, due = self.sharing.next_event_at(), self.scheduler.timers.next_at()
        return due if ends is None else ends if due is None else min(ends, due)

    # Levels

    @property
    def levels(self) -> Mapping[str, SharedLevel]:
        """Return the levels by name."""
        return self.sharing.levels

    @property
    def draining(self) -> Sequence[SharedLevel]:
        """Return removed levels that still have requests."""
        return self.sharing.draining

    def operate(self, now: int, level: SharedLevel, *, held: bool = False, closing: bool = False) -> Sequence[Ticket]:
        """Pause, close or open ``level``; return the tickets that were seated."""
        self._depth += 1
        try:
            seated = self.sharing.operate(now, level, held=held, closing=closing)
        finally:
            self._depth -= 1
        return self._settle(now, seated)

    def reconfigure(
        self, now: int, seats: int, wanted: "Wanted", hierarchy: Hierarchy = NO_HIERARCHY
    ) -> Sequence[Ticket]:
        """Set other seats and levels; return the tickets that were seated."""
        self._depth += 1
        try:
            seated = self.sharing.reconfigure(now, seats, wanted, hierarchy)
            self._gate_levels()
        finally:
            self._depth -= 1
        return self._settle(now, seated)

    # Looking

    def check(self) -> None:
        """Raise AssertionError where what is kept doesn't add up."""
        self.sharing.check()
        self.scheduler.check()

    def __repr__(self) -> str:
        return f"<GatedSharing: {self.sharing!r}, {self.scheduler!r}>"
