"""Who passes its gates: they are asked here, and the leases of each request are kept and given back here.

Pure and synchronous: time is an argument, and nothing here wakes anybody. Queue sets ask it (see `Gatekeeper` in
`fairqueuing`) when they would seat a request: seats first, gates second, in one step. Who doesn't get all leases gets
none, and waits in the `WaitingRoom`.

*Asynchronous gates* can't be asked in a step. The request waits while they are; what it is told counts only if nothing
has happened at the slot since. Its lease is then kept until its turn comes, and given back if another gate stops it.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates.gate import Gate, Hold
from apf_middleware.gates.hints import asks_for
from apf_middleware.gates.inspection import check_gates
from apf_middleware.gates.outcomes import NO_LEASE, Reject
from apf_middleware.gates.passage import Check, GateRequest, Need, Passage, Refusal, Stage
from apf_middleware.gates.slot import Due, GateReservation
from apf_middleware.gates.waitingroom import WaitingRoom, refusal_of

if TYPE_CHECKING:
    from apf_middleware.fairqueuing import SharedLevel, Ticket

__all__ = ["GateKeeper"]

_NO_GATES: Final[tuple[str, ...]] = ()


def _cannot_ask(now: int, check: Check) -> None:  # noqa: ARG001
    raise InvalidValueError("gate", check.need.gate.name, "an asynchronous gate needs an event loop")


def _ignore(*_: object) -> None:
    pass


class GateKeeper(WaitingRoom):
    """The ``gates`` of a server, by name, and all requests that have some to pass.

    ``ask`` begins an asynchronous question; ``chance`` spreads pauses; ``note_error`` is told of what gates raise.
    """

    def __init__(
        self,
        gates: Iterable[Gate] = (),
        *,
        chance: Callable[[], float] = lambda: 0.5,
        note_error: Callable[[Gate, Exception], None] = _ignore,
    ) -> None:
        super().__init__(chance, note_error)
        self.gates: dict[str, Gate] = {}
        self.ask: Callable[[int, Check], None] = _cannot_ask
        self._passages: dict[Ticket, Passage] = {}
        self._numbers = 0
        for gate in gates:
            self.add(gate)

    def add(self, gate: Gate) -> None:
        """One more gate."""
        if gate.name in self.gates:
            raise InvalidValueError("name", gate.name, "there is a gate of this name already", "Rename one of them")
        self.gates[gate.name] = gate

    # What a queue set asks

    def admits(self, now: int, ticket: "Ticket") -> bool:
        passage = self._passages.get(ticket)
        return passage is None or self._try(now, passage)

    def bars(self, now: int, ticket: "Ticket") -> bool:
        passage = self._passages.get(ticket)
        return passage is not None and not self._is_free(now, passage)

    def is_parked(self, ticket: "Ticket") -> bool:
        passage = self._passages.get(ticket)
        return passage is not None and passage.is_parked

    # A request comes and goes

    def announce(
        self,
        now: int,
        ticket: "Ticket",
        level: "SharedLevel",
        request: GateRequest,
        gates: Iterable[str] = _NO_GATES,
        *,
        limit_ns: int,
    ) -> Passage:
        """``ticket`` is about to arrive, parked, and has to pass ``gates``."""
        self._numbers += 1
        passage = Passage(ticket, level, request, number=self._numbers, now=now, limit_ns=limit_ns)
        for name in gates:
            gate = self.gates[name]
            try:
                key = gate.key(request)
                if key is not None:
                    passage.needs.append(Need(gate, key, gate.cost(request)))
            except Exception as error:  # noqa: BLE001 - whatever an app's function raises
                self._fail(gate, error)
                if gate.terms.on_error != "admit":
                    passage.refusal = refusal_of(gate, None, now)
        self._passages[ticket] = passage
        return passage

    def enter(self, now: int, passage: Passage) -> None:
        """It has arrived, and may try in the next `pump`."""
        if passage.refusal is None:
            self._ready.append(passage)
        else:
            self._refuse(now, passage, passage.refusal)

    def pass_at_once(self, now: int, passage: Passage) -> bool:
        """Where nobody can wait: whether it passes all its gates now; if not, its refusal says why."""
        if passage.refusal is not None:
            return False
        barred = next((need for need in passage.needs if self._is_barred(passage, need)), None)
        stopped = (barred, None) if barred is not None else self._acquire(now, passage)
        if stopped is None:
            self._commit(now, passage)
            return True
        passage.refusal = refusal_of(stopped[0].gate, stopped[1], now)
        return False

    def leave(self, now: int, ticket: "Ticket") -> Passage | None:
        """``ticket`` doesn't wait any more, and was not served; if a gate kept it waiting, its refusal tells which."""
        passage = self._passages.pop(ticket, None)
        if passage is None:
            return None
        slot = passage.slot
        if slot is not None and passage.refusal is None and passage.is_parked:
            told = Hold(retry_at=slot.due_at) if slot.due is Due.TOLD else None
            passage.refusal = refusal_of(slot.gate, told, now)
        self._withdraw(now, passage, Stage.ENDED)
        self._turnstiles.leave(passage, self._ready)
        self._give_back(now, passage)
        return passage

    def release(self, now: int, ticket: "Ticket", *, early: bool = False) -> None:
        """``ticket`` has ended; or ``early``, only its answer has begun."""
        passage = self._passages.get(ticket)
        if passage is None:
            return
        for need in passage.needs:
            if need.lease is not None and not (early and need.gate.terms.release == "response"):
                self._release(now, need, need.gate.release)
        if not early:
            del self._passages[ticket]
            passage.stage = Stage.ENDED

    def passage(self, ticket: "Ticket") -> Passage | None:
        """That of a request that has gates to pass and hasn't ended."""
        return self._passages.get(ticket)

    # Passing

    def _try(self, now: int, passage: Passage) -> bool:
        """It could be seated now: ask its gates. When this returns False, whatever stops it has been done."""
        if not self._is_free(now, passage):
            return False
        passage.attempts += 1
        stopped = self._acquire(now, passage)
        passage.is_forced = False
        if stopped is None:
            self._commit(now, passage)
            return True
        need, answer = stopped
        if isinstance(answer, Reject):
            self._refuse(now, passage, refusal_of(need.gate, answer, now))
        elif isinstance(answer, Hold):
            self._line_up(now, passage, need, answer)
        else:
            self._begin_check(now, passage, need)
        return False

    def _acquire(self, now: int, passage: Passage) -> tuple[Need, object] | None:
        """All leases or none; then which gate stops it and what it says, None where that must be awaited."""
        taken: list[Need] = []
        for need in passage.needs:
            if need.lease is not None:
                continue
            answer = None if need.gate.is_async else self._evaluate(now, passage, need)
            if answer is None or isinstance(answer, Hold | Reject):
                for one in reversed(taken):  # nobody has seen them taken, so there is nothing to tell
                    lease, one.lease = one.lease, None
                    if lease is not NO_LEASE:
                        one.gate.undo(one.key, lease)
                return need, answer
            need.lease = answer
            taken.append(need)
        return None

    def _evaluate(self, now: int, passage: Passage, need: Need) -> object:
        try:
            answer = need.gate.acquire(now, passage.request, need.key, need.cost)
        except Exception as error:  # noqa: BLE001 - whatever an app's gate raises
            return self._failed(now, need, error)
        self._count(need, answer)
        return answer

    @staticmethod
    def _count(need: Need, answer: object) -> None:
        result = "parked" if isinstance(answer, Hold) else "rejected" if isinstance(answer, Reject) else "passed"
        need.gate.tally.note(need.key, result)

    def _failed(self, now: int, need: Need, error: Exception) -> object:
        """The gate broke: what its terms say instead of an answer."""
        gate = need.gate
        self._fail(gate, error)
        gate.tally.last = need.key, "passed" if gate.terms.on_error == "admit" else "error"
        if gate.terms.on_error == "admit":
            return NO_LEASE
        if gate.terms.on_error == "reject":
            return gate.refusal()
        slot = self._slot(gate, need.key)
        slot.errors += 1
        self.calendar.after_error(now, slot)
        return Hold()

    def _commit(self, now: int, passage: Passage) -> None:
        """It passes, and is seated in this very step."""
        line, passage.line = passage.line, None
        passage.stage = Stage.PASSED
        if line is not None:
            line.candidate = None
            line.charge(passage)
            line.slot.pass_turn(line)
            if line.slot.cause == Due.RESCUE.value:
                line.slot.cause = ""  # what else comes in by this opening is no rescue of its own
                line.slot.gate.tally.rescues += 1
        for need in passage.needs:
            slot = need.gate.slots.get(need.key)
            if slot is not None:
                slot.note_passed(passage)
                if need.gate.is_full(need.key):
                    slot.shut(1)  # so the next one needn't try in vain
                if slot.due in {Due.POLL, Due.ERROR}:
                    slot.due_at = slot.due = None
                self._dirty[slot] = None
        self._move_to(now, passage, None)
        self._drop_reservations(passage)
        self._turnstiles.leave(passage, self._ready)

    # Asynchronous gates

    def _begin_check(self, now: int, passage: Passage, need: Need) -> None:
        slot = self._slot(need.gate, need.key)
        self._park(now, passage, Stage.CHECKING)
        self._move_to(now, passage, slot)
        slot.checking += 1
        slot.tried_at = now
        passage.check = check = Check(passage, need, slot.opening)
        self.ask(now, check)

    def _stop_check(self, passage: Passage) -> None:
        check, passage.check = passage.check, None
        if check is not None:
            self._end_check(check)  # it goes on, and whatever it gets is given back

    def _end_check(self, check: Check) -> None:
        slot = self._slot(check.need.gate, check.need.key)
        slot.checking -= 1
        self._dirty[slot] = None

    def conclude(self, now: int, check: Check, answer: object) -> None:
        """The answer to an asynchronous question: a lease, a `Hold`, a `Reject`, or the exception that was raised."""
        passage, need = check.passage, check.need
        gate = need.gate
        if isinstance(answer, Exception):
            answer = self._failed(now, need, answer)
        else:
            self._count(need, answer)
        if passage.check is not check:  # it has left meanwhile
            if not isinstance(answer, Hold | Reject):
                gone = Need(gate, need.key, need.cost)
                gone.lease = answer
                self._release(now, gone, gate.undo)
            return
        passage.check = None
        self._end_check(check)
        slot = self._slot(gate, need.key)
        if self.gates.get(gate.name) is not gate and isinstance(answer, Hold | Reject):
            passage.needs.remove(need)  # the gate was removed while it was asked, so its answer counts no more
            self._move_to(now, passage, None)
            passage.stage = Stage.PARKED
            self._ready.append(passage)
            return
        if isinstance(answer, Reject):
            self._refuse(now, passage, refusal_of(gate, answer, now))
            return
        if isinstance(answer, Hold):
            missed = slot.opening != check.opening and asks_for(slot, passage, check.opening)
            if not (missed or passage.is_forced):
                self._line_up(now, passage, need, answer)
                return
        else:
            need.lease = answer
        self._move_to(now, passage, None)  # it has got its lease, or something has happened since it was asked
        passage.stage = Stage.PARKED
        self._ready.append(passage)

    # Events and operators

    def emit(self, now: int, event: str, key: Hashable = None, payload: object = None) -> bool:
        """Something has happened: open what it may help, None as key meaning all keys. Whether any gate listens."""
        heard = False
        for gate in self.gates.values():
            if event == gate.name or event in gate.events:
                heard = True
                gate.tally.events += 1
                gate.tally.last = None
                told: tuple[str, Any] | None = (event, payload) if event in gate.hints else None
                for slot in [*gate.slots.values()] if key is None else [gate.slots.get(key)]:
                    if slot is not None:
                        self._open_slot(now, slot, "event", told)
        return heard

    def open_gate(self, now: int, gate: Gate) -> None:
        """An operator opens it."""
        gate.is_closed = False
        gate.tally.last = None
        gate.closed_until = None
        self.open_slots(now, gate, "open")

    def open_slots(self, now: int, gate: Gate, cause: str) -> None:
        """Forget whatever is known of its slots, also how often it has refused or failed."""
        for slot in list(gate.slots.values()):
            slot.refusals = slot.errors = 0
            slot.due_at = slot.due = None
            self._open_slot(now, slot, cause)

    def close_gate(self, gate: Gate, until: int | None = None) -> None:
        """An operator closes it: nobody passes, whatever happens, until it is opened or the time has come."""
        gate.is_closed = True
        gate.closed_until = until
        if until is not None:
            self.calendar.remember(until, gate)

    def retire(self, now: int, name: str) -> None:
        """There is no such gate any more: who waits for it may pass, who holds a lease gives it back."""
        gate = self.gates.pop(name)
        for passage in self._passages.values():
            slot = passage.slot
            if slot is not None and slot.gate is gate:
                self.kick(now, passage)
                if passage.stage is Stage.QUEUED:  # it waits for a seat, and for nothing else now
                    line, passage.line = passage.line, None
                    if line is not None:
                        line.candidate = None
                    self._move_to(now, passage, None)
            if passage.stage is not Stage.PASSED and passage.check is None:
                passage.needs = [need for need in passage.needs if need.gate is not gate]

    def kick(self, now: int, passage: Passage) -> None:
        """Let this one try, whatever is known of its slot; a gate that an operator has closed stays closed."""
        slot = passage.slot
        if passage.stage is Stage.CHECKING:
            passage.is_forced = True
        elif passage.stage is Stage.PARKED and slot is not None and passage.line is None:
            self._move_to(now, passage, None)  # so that it isn't found there any more
            slot.take(passage, passage.cost_at(slot))
            passage.is_forced = True
            self._ready.append(passage)

    # Time

    def ring(self, now: int) -> None:
        """Open what was due by ``now``."""
        for thing in self.calendar.pop_due(now):
            if isinstance(thing, Gate):
                self.open_gate(now, thing)
            elif isinstance(thing, GateReservation):
                thing.passage.lapses += 1
                thing.end()
                self._dirty[thing.slot] = None
            elif thing.due is not None:
                cause = thing.due.value
                thing.due_at = thing.due = None
                thing.open(cause)
                self._dirty[thing] = None

    def hasten(self, now: int) -> None:
        """Seats are free and nobody wants them: try a gate that is polled before its time."""
        slot = self.calendar.hasten(now)
        if slot is not None:
            slot.due_at = slot.due = None
            slot.open("idle")
            self._dirty[slot] = None

    # Looking

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._passages.values())

    def _gate_of(self, passage: Passage, refusal: Refusal) -> Gate:
        return next((need.gate for need in passage.needs if need.gate.name == refusal.gate), self.gates[refusal.gate])

    def check(self) -> None:
        """Raise AssertionError where what is kept doesn't add up, or where one who may try is left standing."""
        assert not self._ready, f"somebody is ready and left standing in {self!r}"
        assert not self._dirty, f"something is left to do in {self!r}"
        check_gates(self.gates.values(), self._passages.values())

    def __repr__(self) -> str:
        return f"<GateKeeper of {len(self.gates)} gates and {len(self._passages)} requests>"
