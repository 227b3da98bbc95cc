"""`Gates`: what an app defines its gates with, tells events to, and looks at and operates them by.

One `Gates` belongs to one middleware. Its gates are asked from the moment that the middleware has been made; before,
events help nobody, for nobody waits.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, Unpack

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates.gate import Gate, Terms
from apf_middleware.gates.gatekeeper import GateKeeper
from apf_middleware.gates.kinds import Capacity, Condition, CostOf, KeyOf, Own, OwnGate, Tokens, everybody, one
from apf_middleware.gates.outcomes import Hint, Probe
from apf_middleware.gates.passage import GateRequest, Passage
from apf_middleware.gates.slot import OPEN
from apf_middleware.gates.terms import TermsGiven, terms_of
from apf_middleware.snapshots import GateSnapshot, ParkedRequest

if TYPE_CHECKING:
    from apf_middleware.fairqueuing import Ticket

__all__ = ["GateStage", "Gates"]

_SECOND: Final = 10**9
_Ask = TypeVar("_Ask", bound=Callable[[GateRequest], object])
_Hint = TypeVar("_Hint", bound=Callable[[Any, GateRequest], Hint])


class GateStage(Protocol):
    """Where gates are at work: it has the clock, and does what an event has made possible."""

    def now(self) -> int: ...

    def settle(self) -> None: ...

    def post(self) -> None:
        """See that `settle` is called soon, from the thread of the event loop; from any thread."""
        ...


class Gates:
    """The gates of an app. The keywords of all kinds are those of `TermsGiven`."""

    def __init__(self, *, flush: float | None = None) -> None:
        self._default = terms_of({} if flush is None else {"flush": flush})
        self.keeper: GateKeeper = GateKeeper()
        self._stage: GateStage | None = None
        self._inbox: deque[tuple[str, Hashable, object]] = deque()

    # Definitions

    def capacity(
        self, name: str, limit: int, *, key: KeyOf = everybody, cost: CostOf = one, **terms: Unpack[TermsGiven]
    ) -> Capacity:
        """At most ``limit`` at a time, of each key."""
        return self._added(Capacity(name, limit, self.terms(terms), key, cost))

    def tokens(
        self,
        name: str,
        *,
        rate: float,
        burst: int,
        key: KeyOf = everybody,
        cost: CostOf = one,
        **terms: Unpack[TermsGiven],
    ) -> Tokens:
        """``rate`` a second and ``burst`` at once, of each key; who would have to wait too long gets 429."""
        given: TermsGiven = {"status": 429, **terms}
        return self._added(Tokens(name, rate, burst, terms=self.terms(given), key=key, cost=cost))

    def condition(
        self,
        name: str,
        *,
        on: str | Iterable[str] = (),
        key: KeyOf = everybody,
        cost: CostOf = one,
        blocks: Callable[[], bool] | None = None,
        **terms: Unpack[TermsGiven],
    ) -> Callable[[_Ask], _Ask]:
        """Decorate a predicate, plain or asynchronous; the events named ``on`` let the waiting try again.

        ``blocks`` tells operators whether the gate lets nothing pass now, also while no request asks.
        """
        events = (on,) if isinstance(on, str) else tuple(on)

        def add(ask: _Ask) -> _Ask:
            self._added(Condition(name, ask, self.terms({**terms, "events": events}), key, cost, blocks=blocks))
            return ask

        return add

    def add(self, gate: OwnGate | Gate) -> None:
        """A gate of the app's own (see `OwnGate`), or of a kind of its own."""
        if isinstance(gate, Gate):
            self._added(gate)
            return
        if not isinstance(gate, OwnGate):
            raise InvalidValueError("gate", gate, "it must have name, try_acquire and release")
        told = {name: getattr(gate, name, None) for name in ("status", "on_error", "poll", "flush", "max_parked")}
        told["release"] = getattr(gate, "release_at", None)
        given: Any = {name: value for name, value in told.items() if value is not None}
        given["events"] = tuple(getattr(gate, "events", ()))
        self._added(Own(gate, self.terms(given)))

    def remove(self, name: str) -> None:
        """Remove a gate: requests that wait for it may pass, and its leases need not come back."""
        self.keeper.retire(self.now(), self._gate(name).name)
        self.settle()

    @property
    def names(self) -> frozenset[str]:
        """The names of all gates."""
        return frozenset(self.keeper.gates)

    def hint(self, gate: str, *, on: str) -> Callable[[_Hint], _Hint]:
        """Decorate a function from the event ``on`` and a waiting request to `QUEUE` or `SKIP`."""

        def add(useful: _Hint) -> _Hint:
            self._gate(gate).hints[on] = useful
            return useful

        return add

    @staticmethod
    def probe(name: str, most: int = 1) -> Probe:  # noqa: ARG004 - it reads well where the gate is named
        """For a condition: let ``most`` pass at a time, to see whether the dependency is well again."""
        return Probe(most)

    def terms(self, given: TermsGiven) -> Terms:
        """Those that are ``given``, and for the rest what all gates have here."""
        return terms_of(given, self._default)

    def _added(self, gate: "_GateT") -> "_GateT":
        self.keeper.add(gate)
        return gate

    # Events

    def emit(self, event: str, key: Hashable = None, payload: object = None) -> None:
        """Something has happened, and the state is already as it is now; from the event loop's thread."""
        self.keeper.emit(self.now(), event, key, payload)
        self.settle()

    def emit_threadsafe(self, event: str, key: Hashable = None, payload: object = None) -> None:
        """The same from any thread."""
        self._inbox.append((event, key, payload))
        if self._stage is not None:
            self._stage.post()

    def read_inbox(self) -> None:
        """Take in what other threads have told."""
        while self._inbox:
            event, key, payload = self._inbox.popleft()
            self.keeper.emit(self.now(), event, key, payload)

    # Operators

    def open(self, name: str) -> None:
        """Open it again, and let those who wait try, whatever is known."""
        self.keeper.open_gate(self.now(), self._gate(name))
        self.settle()

    def close(self, name: str, for_: float | None = None) -> None:
        """Keep everybody waiting, whatever happens, until it is opened or so many seconds have passed."""
        gate = self._gate(name)
        if for_ is not None and not for_ > 0:
            raise InvalidValueError(
                "for_", for_, "it must be more than 0 seconds", "Leave it out to close until opened"
            )
        self.keeper.close_gate(gate, None if for_ is None else self.now() + int(for_ * _SECOND))
        self.settle()

    def kick(self, name: str, request_id: int | None = None) -> int:
        """Let those who wait try once more, or only one of them; how many that were."""
        gate = self._gate(name)
        chosen = [one for one in self.keeper if one.slot is not None and one.slot.gate is gate]
        if request_id is None:
            self.keeper.open_slots(self.now(), gate, "kick")
        else:
            chosen = [one for one in chosen if one.number == request_id]
            for passage in chosen:
                self.keeper.kick(self.now(), passage)
        self.settle()
        return len(chosen)

    def resize(self, name: str, limit: int) -> None:
        """Another limit for a capacity; who holds a lease keeps it."""
        gate = self._gate(name)
        if not isinstance(gate, Capacity):
            raise InvalidValueError("name", name, "only a capacity has a limit that can be changed")
        gate.resize(limit)
        self.keeper.open_slots(self.now(), gate, "resize")
        self.settle()

    def list(self) -> list[GateSnapshot]:
        """All gates, each key where anybody waits apart."""
        now = self.now()
        return [status for gate in self.keeper.gates.values() for status in _look(gate, now)]

    def parked(self, name: str | None = None) -> tuple[ParkedRequest, ...]:
        """Who waits, for this gate or any."""
        now = self.now()
        return tuple(
            _picture(passage, now)
            for passage in self.keeper
            if passage.slot is not None and name in {None, passage.slot.gate.name}
        )

    def holding(self, ticket: "Ticket") -> "ParkedRequest | None":
        """What keeps this request waiting, if it is a gate."""
        passage = self.keeper.passage(ticket)
        return None if passage is None or passage.slot is None else _picture(passage, self.now())

    def _gate(self, name: str) -> Gate:
        gate = self.keeper.gates.get(name)
        if gate is None:
            known = ", ".join(sorted(self.keeper.gates)) or "none"
            raise InvalidValueError("gate", name, "there is no gate of this name", f"There are: {known}")
        return gate

    # At work

    def bind(self, stage: GateStage) -> None:
        """They are at work there from now on."""
        if self._stage is not None and self._stage is not stage:
            raise InvalidValueError("gates", self, "they belong to another middleware", "Make Gates for each")
        self._stage = stage

    def now(self) -> int:
        """The time where they are at work."""
        return 0 if self._stage is None else self._stage.now()

    def settle(self) -> None:
        """Do what has become possible."""
        if self._stage is not None:
            self._stage.settle()

    def __contains__(self, name: object) -> bool:
        return name in self.keeper.gates

    def __repr__(self) -> str:
        return f"<Gates: {', '.join(sorted(self.keeper.gates))}>"


_GateT = TypeVar("_GateT", bound=Gate)


def _look(gate: Gate, now: int) -> Iterable[GateSnapshot]:
    slots = [slot for slot in gate.slots.values() if slot.parked or slot.checking]
    for key in [slot.key for slot in slots] or [None]:
        slot = gate.slots.get(key) if slots else None
        waiting = [] if slot is None else [*slot, *(line.candidate for line in slot.lines.values() if line.candidate)]
        oldest = min((passage.parked_at for passage in waiting), default=None)
        known = gate.slots.get("") if key is None else slot
        is_blocking = (known is not None and known.closed_at < OPEN) or gate.is_blocking("" if key is None else key)
        yield GateSnapshot(
            gate=gate.name,
            key=key,
            kind=gate.kind,
            state="held" if gate.is_closed else "blocking" if is_blocking else "passing",
            parked=len(waiting) + (0 if slot is None else slot.checking),
            oldest=None if oldest is None else (now - oldest) / _SECOND,
            acquired=gate.used("" if key is None else key),
            limit=gate.limit,
            events=gate.tally.events,
            rescues=gate.tally.rescues,
        )


def _picture(passage: Passage, now: int) -> ParkedRequest:
    slot = passage.slot
    assert slot is not None, "who is parked waits at a slot"
    return ParkedRequest(
        id=passage.number,
        level=passage.request.level,
        schema=passage.request.schema,
        flow=passage.flow,
        gate=slot.gate.name,
        key=slot.key,
        cost=passage.cost_at(slot),
        stage=passage.stage.value,
        parked_for=(now - passage.parked_at) / _SECOND,
        waited=(now - passage.deadline + passage.limit_ns) / _SECOND,
        attempts=passage.attempts,
    )
