"""`Gates`: the interface with which an app defines, operates and observes its gates, and emits events.

A `Gates` object belongs to one middleware. Before the middleware has been created, no request waits, and events have no
effect.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Protocol, TypeVar, Unpack

from apf_middleware.exceptions import InvalidValueError, require_amount
from apf_middleware.fairqueuing import Ticket
from apf_middleware.gates.functions import require_plain
from apf_middleware.gates.gate import (
    CostOf,
    Gate,
    GateRequest,
    Hint,
    KeyOf,
    Probe,
    Terms,
    TermsGiven,
    shared_key,
    terms_of,
    unit_cost,
)
from apf_middleware.gates.kinds import Capacity, Condition, CustomGate, OwnGate, Tokens
from apf_middleware.gates.scheduler import GateScheduler
from apf_middleware.gates.slot import OPEN, Acquisition, Slot
from apf_middleware.snapshots import GateSnapshot, ParkedRequest

__all__ = ["GateRuntime", "Gates"]

_SECOND: Final = 10**9
_GateT = TypeVar("_GateT", bound=Gate)
_Ask = TypeVar("_Ask", bound=Callable[[GateRequest], object])
_Hint = TypeVar("_Hint", bound=Callable[[Any, GateRequest], Hint])
_Result = TypeVar("_Result")


class GateRuntime(Protocol):
    """The runtime of gates: the clock, random numbers, and the step in which requests try after an event."""

    def now(self) -> int:
        """Return the time."""
        ...

    def chance(self) -> float:
        """Return a random number from 0 to 1, for the jitter of pauses."""
        ...

    def settle(self) -> None:
        """Let those requests try for which something may have changed."""
        ...

    def post(self) -> None:
        """Arrange that `settle` is called soon in the event loop's thread; any thread may call this."""
        ...

    def is_elsewhere(self) -> bool:
        """Return whether the caller's thread is not that of the event loop."""
        ...

    def call(self, function: Callable[[], _Result]) -> _Result:
        """Return the result of ``function``, which is called in the event loop's thread."""
        ...


class Gates:
    """The gates of an app. Gates of all kinds accept the keywords of `TermsGiven`."""

    def __init__(self, *, flush: float | None = None) -> None:
        self._default = terms_of({} if flush is None else {"flush": flush})
        self.scheduler: GateScheduler = GateScheduler(chance=self._chance)
        self._runtime: GateRuntime | None = None
        # other threads append and the event loop pops; a deque does each in one step
        self._inbox: deque[tuple[str, Hashable, object]] = deque()

    # Definitions

    def capacity(
        self, name: str, limit: int, *, key: KeyOf = shared_key, cost: CostOf = unit_cost, **terms: Unpack[TermsGiven]
    ) -> Capacity:
        """Add a gate with ``limit`` places for each key; a request takes ``cost`` of them."""
        return self._added(Capacity(name, limit, self.terms(terms), key, cost))

    def tokens(
        self,
        name: str,
        *,
        rate: float,
        burst: int,
        key: KeyOf = shared_key,
        cost: CostOf = unit_cost,
        **terms: Unpack[TermsGiven],
    ) -> Tokens:
        """Add a token bucket for each key: ``rate`` tokens a second, at most ``burst``. Rejections have status 429."""
        given: TermsGiven = {"status": 429, **terms}
        return self._added(Tokens(name, rate, burst, terms=self.terms(given), key=key, cost=cost))

    def condition(
        self,
        name: str,
        *,
        on: str | Iterable[str] = (),
        key: KeyOf = shared_key,
        cost: CostOf = unit_cost,
        blocks: Callable[[], bool] | None = None,
        **terms: Unpack[TermsGiven],
    ) -> Callable[[_Ask], _Ask]:
        """Decorate a predicate, plain or asynchronous; after an event named ``on``, waiting requests try again.

        ``blocks`` returns whether the gate stops all requests now. Operators see this even while no request asks.
        """
        if callable(name):
            raise InvalidValueError("name", name, "it must be a string", 'Write @gates.condition("name")')
        events = _names(on)

        def add(ask: _Ask) -> _Ask:
            self._added(Condition(name, ask, self.terms({**terms, "events": events}), key, cost, blocks=blocks))
            return ask

        return add

    def add(self, gate: OwnGate | Gate) -> None:
        """Add a gate that the app defines: an `OwnGate`, or an object of a subclass of `Gate`."""
        if isinstance(gate, Gate):
            self._added(gate)
            return
        if isinstance(gate, type) or not isinstance(gate, OwnGate):
            raise InvalidValueError("gate", gate, "it must be an object with name, try_acquire and release")
        found = {name: getattr(gate, name, None) for name in ("status", "on_error", "poll", "flush", "max_parked")}
        found["release"] = getattr(gate, "release_at", None)
        given: Any = {name: value for name, value in found.items() if value is not None}
        given["events"] = _names(getattr(gate, "events", ()))
        self._added(CustomGate(gate, self.terms(given)))

    def remove(self, name: str) -> None:
        """Remove a gate: requests that wait for it may pass."""
        self._operate(lambda: self.scheduler.retire(self.now(), self._gate(name).name))

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all gates."""
        return frozenset(self.scheduler.gates)

    def hint(self, gate: str, *, on: str) -> Callable[[_Hint], _Hint]:
        """Decorate a function that decides whether the event ``on`` may help a waiting request.

        It gets the payload of the event and the request, and returns `QUEUE` or `SKIP`.
        """

        def add(useful: _Hint) -> _Hint:
            require_plain(f"hint of the gate {gate!r}", useful)
            self._gate(gate).hints[on] = useful
            return useful

        return add

    @staticmethod
    def probe(name: str, most: int = 1) -> Probe:  # noqa: ARG004 - the name makes calls easier to read
        """Return the answer of a condition that lets ``most`` requests pass at a time, as a test of the dependency."""
        return Probe(most)

    def terms(self, given: TermsGiven) -> Terms:
        """Return the terms that are ``given``, completed by the defaults of these gates."""
        return terms_of(given, self._default)

    def _added(self, gate: _GateT) -> _GateT:
        self.scheduler.add(gate)
        return gate

    # Events

    def emit(self, event: str, key: Hashable = None, payload: object = None) -> None:
        """Let those requests try that ``event`` may help; call this in the event loop's thread.

        Change the state first, then emit. Functions of FastAPI that aren't ``async`` run in threads; to emit there
        without `emit_threadsafe` is a mistake, but must not break the dispatcher.
        """
        if self._runtime is not None and self._runtime.is_elsewhere():
            self.emit_threadsafe(event, key, payload)
            return
        self.scheduler.emit(self.now(), event, key, payload)
        self.settle()

    def emit_threadsafe(self, event: str, key: Hashable = None, payload: object = None) -> None:
        """Emit an event from any thread."""
        # append the event first, because the loop may read the inbox before `post` returns
        self._inbox.append((event, key, payload))
        if self._runtime is not None:
            self._runtime.post()

    def read_inbox(self) -> None:
        """Take the events that other threads have emitted."""
        while self._inbox:
            event, key, payload = self._inbox.popleft()
            self.scheduler.emit(self.now(), event, key, payload)

    # Operators; what they do in other threads is done in that of the event loop

    def open(self, name: str) -> None:
        """Open a gate, and let all requests that wait for it try."""
        self._operate(lambda: self.scheduler.open_gate(self.now(), self._gate(name)))

    def close(self, name: str, for_: float | None = None) -> None:
        """Close a gate: requests wait until it is opened, or until ``for_`` seconds have passed."""
        gate = self._gate(name)
        if for_ is not None and not require_amount("for_", for_) > 0:
            raise InvalidValueError(
                "for_", for_, "it must be more than 0 seconds", "Leave it out to close the gate until it is opened"
            )
        ns = None if for_ is None else int(for_ * _SECOND)
        self._operate(lambda: self.scheduler.close_gate(gate, None if ns is None else self.now() + ns))

    def kick(self, name: str, request_id: int | None = None) -> int:
        """Let all requests that wait for a gate try once more, or only one of them; return their number."""
        return self._operate(lambda: self._kick(self._gate(name), request_id))

    def _kick(self, gate: Gate, request_id: int | None) -> int:
        # listed before anything opens, because requests that pass leave the scheduler
        chosen = [one for one in self.scheduler if one.slot is not None and one.slot.gate is gate]
        if request_id is None:
            self.scheduler.open_slots(self.now(), gate)
        else:
            chosen = [one for one in chosen if one.number == request_id]
            for acquisition in chosen:
                self.scheduler.kick(self.now(), acquisition)
        return len(chosen)

    def resize(self, name: str, limit: int) -> None:
        """Set another limit of a gate that has one. Leases that are held stay valid."""
        self._operate(lambda: self._resize(self._gate(name), limit))

    def _resize(self, gate: Gate, limit: int) -> None:
        gate.resize(limit)
        self.scheduler.open_slots(self.now(), gate)

    def _operate(self, change: Callable[[], _Result]) -> _Result:
        """Make a change in the event loop's thread, and let those requests try that it may help."""

        def step() -> _Result:
            result = change()
            self.settle()
            return result

        return self._call(step)

    def list(self) -> list[GateSnapshot]:
        """Return the status of all gates, with a row for each key for which requests wait."""
        return self._call(
            lambda: [
                status
                for gate in self.scheduler.gates.values()
                for status in _statuses(self.scheduler, gate, self.now())
            ]
        )

    def parked(self, name: str | None = None) -> tuple[ParkedRequest, ...]:
        """Return the requests that wait for the gate ``name``, or for any gate if it is None."""
        return self._call(
            lambda: tuple(
                _parked_request(acquisition, self.now())
                for acquisition in self.scheduler
                if acquisition.slot is not None and name in {None, acquisition.slot.gate.name}
            )
        )

    def _call(self, function: Callable[[], _Result]) -> _Result:
        """Return the result of ``function``, which is called in the event loop's thread."""
        return function() if self._runtime is None else self._runtime.call(function)

    def holding(self, ticket: Ticket) -> ParkedRequest | None:
        """Return the gate that keeps this request waiting, and for how long; None if no gate does."""
        acquisition = self.scheduler.acquisition(ticket)
        return None if acquisition is None or acquisition.slot is None else _parked_request(acquisition, self.now())

    def _gate(self, name: str) -> Gate:
        gate = self.scheduler.gates.get(name)
        if gate is None:
            names = ", ".join(sorted(self.scheduler.gates)) or "none"
            raise InvalidValueError("gate", name, "there is no gate of this name", f"There are: {names}")
        return gate

    # The runtime

    def bind(self, runtime: GateRuntime) -> None:
        """Run the gates in ``runtime`` from now on."""
        if self._runtime is not None and self._runtime is not runtime:
            raise InvalidValueError("gates", self, "they belong to another middleware", "Make a Gates object for each")
        self._runtime = runtime

    def now(self) -> int:
        """Return the time of the runtime."""
        # without a runtime no request waits, so no time is compared
        return 0 if self._runtime is None else self._runtime.now()

    def _chance(self) -> float:
        return 0.5 if self._runtime is None else self._runtime.chance()

    def settle(self) -> None:
        """Let those requests try for which something may have changed."""
        if self._runtime is not None:
            self._runtime.settle()

    def __contains__(self, name: object) -> bool:
        return name in self.scheduler.gates

    def __repr__(self) -> str:
        return f"<Gates: {', '.join(sorted(self.scheduler.gates))}>"


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of events; a single one needs no list."""
    return (given,) if isinstance(given, str) else tuple(given)


def _statuses(scheduler: GateScheduler, gate: Gate, now: int) -> Iterable[GateSnapshot]:
    slots = [slot for slot in scheduler.slots.of(gate) if slot.is_needed]
    if not slots:
        yield _status(gate, None, scheduler.slots.find(gate, ""), now)
    for slot in slots:
        yield _status(gate, slot.key, slot, now)


def _told(tell: Callable[[Hashable], _Result], key: Hashable) -> _Result | None:
    """Return what a gate tells of itself; None if what it reads for that fails, so that others can still be seen."""
    try:
        return tell(key)
    except Exception:  # noqa: BLE001 - an app's pool may raise anything
        return None


def _status(gate: Gate, key: Hashable, slot: Slot | None, now: int) -> GateSnapshot:
    """Return the status of one key; if ``key`` is None, no request waits, and the state of the key "" is shown."""
    queues = [] if slot is None else list(slot.queues.values())
    waiting = [one for queue in queues for one in (*queue, *([queue.candidate] if queue.candidate else []))]
    checking = 0 if slot is None else slot.checking
    oldest = min((acquisition.parked_at for acquisition in waiting), default=None)
    one_key = "" if key is None else key
    told = True if slot is not None and slot.closed_at < OPEN else _told(gate.is_blocking, one_key)
    is_blocking = gate.counters.has_stopped(one_key) if told is None else told
    return GateSnapshot(
        gate=gate.name,
        key=key,
        kind=gate.kind,
        state="held" if gate.is_closed else "blocking" if is_blocking else "passing",
        parked=len(waiting) + checking,
        oldest=None if oldest is None else (now - oldest) / _SECOND,
        acquired=_told(gate.used, one_key),
        limit=gate.limit if key is None else gate.limit_of(key),
        events=gate.counters.events,
        rescues=gate.counters.rescues,
    )


def _parked_request(acquisition: Acquisition, now: int) -> ParkedRequest:
    slot = acquisition.slot
    assert slot is not None, "a parked request waits at a slot"
    return ParkedRequest(
        id=acquisition.number,
        level=acquisition.request.level,
        schema=acquisition.request.schema,
        flow=acquisition.flow,
        gate=slot.gate.name,
        key=slot.key,
        cost=acquisition.cost_at(slot),
        stage=acquisition.stage.value,
        parked_for=(now - acquisition.parked_at) / _SECOND,
        waited=(now - acquisition.deadline + acquisition.limit_ns) / _SECOND,
        attempts=acquisition.attempts,
    )
