"""A server's levels with gates: what a `Sharing` does, and in the same step what gates have to do with it.

Whoever drives a sharing drives this one in the same way. Each step ends with the gates' own: who may try is let try,
until nobody may; who was refused is told. An event that comes in the middle of a step, as when a gate's own code emits
one, is dealt with at its end.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from apf_middleware.fairqueuing import Reason, Sharing, Ticket
from apf_middleware.fairqueuing.sharing.hierarchy import NO_HIERARCHY, Hierarchy

if TYPE_CHECKING:
    from apf_middleware.fairqueuing import SharedLevel
    from apf_middleware.fairqueuing.sharing.base import Wanted
    from apf_middleware.gates.gatekeeper import GateKeeper
    from apf_middleware.gates.passage import Check, GateRequest, Passage

__all__ = ["Asked", "GatedSharing"]

_NOBODY: Final[tuple[Ticket, ...]] = ()


def _ignore(_: object) -> None:
    pass


def _never(_: object) -> bool:
    return False


def _do_nothing() -> None:
    pass


class Asked(NamedTuple):
    """What gates are told of a ticket: the request, its gates by name, and for how long it may wait."""

    request: "GateRequest"
    gates: Iterable[str]
    limit_ns: int


class GatedSharing:
    """``sharing`` with the gates of ``keeper``.

    ``describe`` tells of a ticket what its gates are, None if it has none; ``tell_refused`` is called in the end of a
    step for each that a gate has refused, and told whether it has only just arrived. ``tell_waiting`` is called for
    each that was let try and found no seats, ``tell_timed_out`` for each whose time is up, ``end_step`` after each.
    ``is_early`` tells of a ticket that gives its seats back whether its response goes on.
    """

    def __init__(
        self,
        sharing: Sharing,
        keeper: "GateKeeper",
        describe: Callable[[Ticket], Asked | None],
        tell_refused: "Callable[[int, Passage, bool], None]",
    ) -> None:
        self.sharing = sharing
        self.keeper = keeper
        self.is_early: Callable[[Ticket], bool] = _never
        self.quick_until = 0  # gates are to hear of everybody (see `Sharing`)
        self.tell_waiting: Callable[[Ticket], None] = _ignore
        self.tell_timed_out: Callable[[Passage], None] = _ignore
        self.end_step: Callable[[], None] = _do_nothing
        self._back: list[Ticket] = []
        self._describe = describe
        self._tell_refused = tell_refused
        self._depth = 0
        self._seat_gatekeepers()

    def _seat_gatekeepers(self) -> None:
        for level in [*self.sharing.levels.values(), *self.sharing.draining]:
            level.queueset.gatekeeper = None if level.exempt else self.keeper

    # What happens to tickets

    def arrive(self, now: int, level: "SharedLevel", ticket: Ticket) -> Sequence[Ticket]:
        asked = None if level.exempt else self._describe(ticket)
        self._depth += 1
        try:
            if asked is None or level.queueset.is_quiescing:
                seated = self.sharing.arrive(now, level, ticket)
            elif level.queueset.settings.queues:
                seated = self._queue(now, level, ticket, asked)
            else:
                seated = self._pass_at_once(now, level, ticket, asked)
        finally:
            self._depth -= 1
        return self._settle(now, seated, ticket)

    def _queue(self, now: int, level: "SharedLevel", ticket: Ticket, asked: Asked) -> Sequence[Ticket]:
        seated = self.sharing.arrive_parked(now, level, ticket)
        if not ticket.is_rejected:
            keeper = self.keeper
            passage = keeper.announce(now, ticket, level, asked.request, asked.gates, limit_ns=asked.limit_ns)
            keeper.enter(now, passage)
        return seated

    def _pass_at_once(self, now: int, level: "SharedLevel", ticket: Ticket, asked: Asked) -> Sequence[Ticket]:
        """Where nobody waits, a gate that doesn't let pass rejects."""
        keeper = self.keeper
        passage = keeper.announce(now, ticket, level, asked.request, asked.gates, limit_ns=0)
        if keeper.pass_at_once(now, passage):
            seated = self.sharing.arrive(now, level, ticket)
            if not ticket.is_seated:
                keeper.leave(now, ticket)
            return seated
        level.queueset.turn_away(now, ticket, Reason.GATE)
        keeper.leave(now, ticket)
        keeper.refused.append(passage)
        return _NOBODY

    def abandon(
        self, now: int, level: "SharedLevel", ticket: Ticket, reason: Reason = Reason.TIME_OUT
    ) -> Sequence[Ticket]:
        self._depth += 1
        try:
            seated = self.sharing.abandon(now, level, ticket, reason)
            if ticket.is_rejected:
                passage = self.keeper.passage(ticket)
                self.keeper.leave(now, ticket)
                if passage is not None and reason is Reason.TIME_OUT:
                    self.tell_timed_out(passage)
        finally:
            self._depth -= 1
        return self._settle(now, seated)

    def release(self, now: int, level: "SharedLevel", ticket: Ticket) -> Sequence[Ticket]:
        self._depth += 1
        try:
            self.keeper.release(now, ticket, early=self.is_early(ticket))
            seated = self.sharing.release(now, level, ticket)
        finally:
            self._depth -= 1
        seated = self._settle(now, seated)
        if not seated and not level.waits:
            self.keeper.hasten(now)
            seated = self._settle(now, seated)
        return seated

    def release_leases(self, now: int, ticket: Ticket, *, early: bool = False) -> Sequence[Ticket]:
        """What ``ticket`` has from its gates is free; its seats, if it has any, it keeps."""
        self.keeper.release(now, ticket, early=early)
        return self.settle(now)

    def conclude(self, now: int, check: "Check", answer: object) -> Sequence[Ticket]:
        """An asynchronous gate has answered."""
        self.keeper.conclude(now, check, answer)
        return self.settle(now)

    def emit(self, now: int, event: str, key: Hashable = None, payload: object = None) -> Sequence[Ticket]:
        """Something has happened that gates listen to."""
        return self.settle(now) if self.keeper.emit(now, event, key, payload) else _NOBODY

    # After each step

    def settle(self, now: int) -> Sequence[Ticket]:
        """Do what is left to do for gates, unless a step is going on, at whose end that is done; who was seated."""
        return _NOBODY if self._depth else self._settle(now, _NOBODY)

    def _settle(self, now: int, seated: Sequence[Ticket], newcomer: Ticket | None = None) -> Sequence[Ticket]:
        if self._depth:
            return seated
        self._depth += 1
        try:
            more = self.keeper.pump(now, self._unpark)
        finally:
            self._depth -= 1
        if self._back:
            back, self._back = self._back, []
            for ticket in back:
                self.tell_waiting(ticket)
        refused = self.keeper.refused
        if refused:
            self.keeper.refused = []
            self.sharing.forget_drained(now)
            for passage in refused:
                self._tell_refused(now, passage, passage.ticket is newcomer)
        self.end_step()
        return [*seated, *more] if more else seated

    def _unpark(self, now: int, level: "SharedLevel", ticket: Ticket) -> Sequence[Ticket]:
        seated = self.sharing.unpark(now, level, ticket)
        if ticket.is_waiting:
            self._back.append(ticket)
        return seated

    # Time

    def tick(self, now: int) -> Sequence[Ticket]:
        self._depth += 1
        try:
            seated = self.sharing.tick(now)
            self.keeper.ring(now)
        finally:
            self._depth -= 1
        return self._settle(now, seated)

    def next_event_at(self) -> int | None:
        ends, due = self.sharing.next_event_at(), self.keeper.calendar.next_at()
        return due if ends is None else ends if due is None else min(ends, due)

    # Levels

    @property
    def levels(self) -> Mapping[str, "SharedLevel"]:
        return self.sharing.levels

    @property
    def draining(self) -> Sequence["SharedLevel"]:
        return self.sharing.draining

    def operate(self, now: int, level: "SharedLevel", *, held: bool = False, closing: bool = False) -> Sequence[Ticket]:
        self._depth += 1
        try:
            seated = self.sharing.operate(now, level, held=held, closing=closing)
        finally:
            self._depth -= 1
        return self._settle(now, seated)

    def reconfigure(
        self, now: int, seats: int, wanted: "Wanted", hierarchy: Hierarchy = NO_HIERARCHY
    ) -> Sequence[Ticket]:
        self._depth += 1
        try:
            seated = self.sharing.reconfigure(now, seats, wanted, hierarchy)
            self._seat_gatekeepers()
        finally:
            self._depth -= 1
        return self._settle(now, seated)

    # Looking

    def check(self) -> None:
        """Raise AssertionError where what is kept doesn't add up."""
        self.sharing.check()
        self.keeper.check()

    def __repr__(self) -> str:
        return f"<GatedSharing: {self.sharing!r}, {self.keeper!r}>"
