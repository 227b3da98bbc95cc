"""A small server under virtual time for tests of gates: levels that lend seats, gates, and requests with names."""

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from apf_middleware.fairqueuing import (
    Adjusting,
    Discipline,
    EqualSerial,
    Lending,
    LevelLimits,
    QueueSetSettings,
    Reason,
    SharedLevel,
    Ticket,
    TicketState,
    Work,
    flow_hash,
)
from apf_middleware.gates import (
    Acquisition,
    Check,
    Condition,
    CustomGate,
    Gate,
    GateRequest,
    GateScheduler,
    Hint,
    Park,
    Terms,
)
from apf_middleware.gates.gated_sharing import GatedSharing, GateHooks, GateRequirements
from apf_middleware.gates.slot import Slot

if TYPE_CHECKING:
    from collections.abc import Callable

    from apf_middleware.gates import Refusal

MS = 1_000_000
SECOND = 1_000 * MS


class GatedTicket(Ticket):
    """A ticket with the gates that its request passes."""

    __slots__ = ("gates", "level", "limit_ns", "name", "state_of_request")

    level: SharedLevel
    gates: tuple[str, ...]
    limit_ns: int
    name: str
    state_of_request: dict[str, Any]


def level(
    seats: int = 1,
    *,
    queues: int = 64,
    hand: int = 1,
    length: int = 100_000,
    least: int = 0,
    fifo: bool = False,
    exact: int = 0,
    backfill: int = 0,
) -> tuple[QueueSetSettings, LevelLimits]:
    hand, length = (hand, length) if queues else (0, 0)
    settings = QueueSetSettings(seats, queues, hand, length, fifo=fifo, exact=exact, backfill=backfill)
    return settings, LevelLimits(max(seats, 1), least, seats)


def _cannot_ask(_now: int, check: Check) -> None:
    raise AssertionError(f"{check!r} has no answer set by the test")


class GateWorld:
    """Levels by name; ``served`` are the names of requests in the order in which they got their seats."""

    def __init__(
        self,
        *gates: Gate,
        seats: int = 1,
        levels: dict[str, tuple[QueueSetSettings, LevelLimits]] | None = None,
        share: type[Lending | Adjusting] = Lending,
        discipline: type[Discipline[Any]] = EqualSerial,
        chance: float = 0.5,
        limit_ns: int = 10 * SECOND,
        careful: bool = True,
        scheduler: GateScheduler | None = None,
    ) -> None:
        self.now = 0
        self.limit_ns = limit_ns
        self.scheduler = scheduler or GateScheduler(gates, chance=lambda: chance)
        wanted = levels or {"level": level(seats)}
        total = max(1, sum(limits.nominal for _, limits in wanted.values()))
        self.plain = share(total if levels else seats, wanted, discipline=discipline)
        self.sharing = GatedSharing(
            self.plain,
            self.scheduler,
            self._describe,
            GateHooks(refused=self._refused, ask=self._ask, failed=lambda _, error: self.errors.append(error)),
        )
        self.ask: Callable[[int, Check], None] = _cannot_ask
        self.errors: list[BaseException] = []
        self.served: list[str] = []
        self.refused: list[str] = []
        self.refusals: dict[str, Refusal | None] = {}
        self.tickets: dict[str, GatedTicket] = {}
        self.careful = careful

    def _ask(self, now: int, check: Check) -> None:
        self.ask(now, check)

    @staticmethod
    def _describe(ticket: Ticket) -> GateRequirements | None:
        assert isinstance(ticket, GatedTicket)
        if not ticket.gates and not ticket.level.queueset.settings.fifo:
            return None
        request = GateRequest(
            ticket.level.name, "schema", ticket.flow, ticket.width, scope={"state": ticket.state_of_request}
        )
        return GateRequirements(request, ticket.gates, ticket.limit_ns)

    def _refused(self, now: int, acquisition: Acquisition, is_newcomer: bool) -> None:  # noqa: FBT001
        assert now == self.now
        ticket = acquisition.ticket
        assert isinstance(ticket, GatedTicket)
        self.refusals[ticket.name] = acquisition.refusal
        if not is_newcomer:
            self.refused.append(ticket.name)

    def note(self, seated: Iterable[Ticket]) -> list[str]:
        names = [ticket.name for ticket in seated if isinstance(ticket, GatedTicket)]
        self.served += names
        if self.careful:
            self.sharing.check()
        return names

    # Steps

    def arrive(
        self,
        name: str,
        *gates: str,
        flow: str = "flow",
        to: str = "level",
        width: int = 1,
        limit_ns: int | None = None,
        **state: object,
    ) -> GatedTicket:
        ticket = GatedTicket(flow, flow_hash("schema", flow), Work(width))
        ticket.name, ticket.gates, ticket.state_of_request = name, gates, state
        ticket.level = self.plain.levels[to]
        ticket.limit_ns = self.limit_ns if limit_ns is None else limit_ns
        self.tickets[name] = ticket
        self.note(self.sharing.arrive(self.now, ticket.level, ticket))
        return ticket

    def finish(self, name: str) -> list[str]:
        ticket = self.tickets.pop(name)
        return self.note(self.sharing.release(self.now, ticket.level, ticket))

    def give_up(self, name: str, reason: Reason = Reason.TIME_OUT) -> list[str]:
        ticket = self.tickets[name]
        seated = self.sharing.abandon(self.now, ticket.level, ticket, reason)
        if ticket.is_rejected:  # or its turn had come meanwhile
            del self.tickets[name]
        return self.note(seated)

    def emit(self, event: str, key: Hashable = None, payload: object = None) -> list[str]:
        self.scheduler.emit(self.now, event, key, payload)
        return self.note(self.sharing.settle(self.now))

    def conclude(self, check: Check, answer: object) -> list[str]:
        return self.note(self.sharing.conclude(self.now, check, answer))

    def open(self, gate: str) -> list[str]:
        self.scheduler.open_gate(self.now, self.scheduler.gates[gate])
        return self.note(self.sharing.settle(self.now))

    def close(self, gate: str, until: int | None = None) -> None:
        self.scheduler.close_gate(self.scheduler.gates[gate], until)

    def operate(self, level: str, *, held: bool = False, closing: bool = False) -> list[str]:
        shared = self.plain.levels[level]
        return self.note(self.sharing.operate(self.now, shared, held=held, closing=closing))

    def kick(self, name: str) -> list[str]:
        self.scheduler.kick(self.now, self.acquisition(name))
        return self.note(self.sharing.settle(self.now))

    def wait(self, ns: int) -> list[str]:
        """Let time pass, and what is due on the way happen at its own time."""
        until, seated = self.now + ns, []
        while (due := self.sharing.next_event_at()) is not None and due <= until:
            self.now = max(self.now, due)
            seated += self.note(self.sharing.tick(self.now))
        self.now = until
        return seated

    # Looking

    def acquisition(self, name: str) -> Acquisition:
        acquisition = self.scheduler.acquisition(self.tickets[name])
        assert acquisition is not None
        return acquisition

    def slot(self, name: str, key: Hashable = "") -> Slot:
        slot = self.scheduler.slots.find(self.gate(name), key)
        assert slot is not None
        return slot

    def gate(self, name: str) -> Gate:
        return self.scheduler.gates[name]

    def names(self, state: TicketState) -> list[str]:
        """Return the names of the requests in this state."""
        return [name for name, ticket in self.tickets.items() if ticket.state is state]

    def evaluated(self, name: str) -> int:
        return self.scheduler.gates[name].counters.evaluated


BYPASSES = 3


class Remote(Gate):
    """An asynchronous gate whose answers a test gives."""

    is_async = True

    def __init__(self, **terms: Any) -> None:  # noqa: ANN401
        super().__init__("remote", Terms(max_parked=1000, most_bypasses=BYPASSES, **terms))

    def key(self, request: GateRequest) -> str:  # noqa: ARG002
        return ""

    def cost(self, request: GateRequest) -> int:  # noqa: ARG002
        return 1

    def acquire(self, *_: object) -> object:
        raise AssertionError("a test answers in its place")


class RemoteWorld(GateWorld):
    """A world with one asynchronous gate; ``checks`` are its open questions by the request's name."""

    def __init__(self, *gates: Gate, seats: int = 100, **terms: Any) -> None:  # noqa: ANN401
        super().__init__(Remote(**terms), *gates, seats=seats)
        self.checks: dict[str, Check] = {}
        self.ask = self._ask_remote

    def _ask_remote(self, _now: int, check: Check) -> None:
        self.checks[check.acquisition.request.state["me"]] = check

    def come(self, name: str, *gates: str) -> None:
        self.arrive(name, *(gates or ("remote",)), me=name)

    def answer(self, name: str, given: object) -> list[str]:
        return self.conclude(self.checks.pop(name), given)

    def serve_all(self) -> None:
        """Answer every question with a lease, and end each request that is served, until nothing is left to happen."""
        for _ in range(2000):
            running = [name for name, ticket in self.tickets.items() if ticket.is_seated]
            if self.checks:
                self.answer(next(iter(self.checks)), "lease")
            elif running:
                self.finish(running[0])
            elif self.sharing.next_event_at() is not None:
                self.wait(SECOND)
            else:
                return
        raise AssertionError(f"{self.scheduler!r} doesn't come to rest")


# Gates whose answers a test sets

WIDE = Terms(max_parked=100_000)


class Switch:
    """A dependency that is well or not, and how often somebody has looked."""

    def __init__(self, answer: object = False) -> None:  # noqa: FBT002
        self.answer = answer
        self.asked: list[GateRequest] = []

    def __call__(self, request: GateRequest) -> object:
        self.asked.append(request)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def gate(self, name: str = "switch", **terms: Any) -> Condition:  # noqa: ANN401
        return Condition(name, self, Terms(**{"max_parked": 100_000, "events": ("well",), **terms}), key=_key)


def _key(request: GateRequest) -> object:
    return request.state.get("key", "")


class OwnSwitch:
    """A gate of an app's own."""

    name = "own"
    poll = 0.01

    def __init__(self, answer: object = None) -> None:
        self.answer = Park() if answer is None else answer
        self.asked_at: list[int] = []
        self.world: GateWorld | None = None
        self.out = 0

    def try_acquire(self, _request: GateRequest, _key: object, _cost: int) -> object:
        assert self.world is not None
        self.asked_at.append(self.world.now)
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer == "lease":
            self.out += 1
        return self.answer

    def release(self, lease: object) -> None:
        assert lease == "lease"
        self.out -= 1


def polled(own: OwnSwitch, *more: Gate, limit_ns: int = 60 * SECOND, **terms: Any) -> GateWorld:  # noqa: ANN401
    gate = CustomGate(own, Terms(**{"max_parked": 100_000, "poll_ns": 10 * MS, **terms}))
    own.world = GateWorld(gate, *more, seats=10, limit_ns=limit_ns)
    return own.world


def asked(world: GateWorld) -> list[Any]:
    """Collect the questions of asynchronous gates."""
    checks: list[Any] = []
    world.ask = lambda _now, check: checks.append(check)
    return checks


async def remote(_: GateRequest) -> bool:
    return False


def asynchronous(hint: Hint | None = None) -> tuple[GateWorld, list[Any]]:
    gate = Condition("remote", remote, Terms(max_parked=1000, events=("well",)))
    if hint is not None:
        gate.hints["well"] = lambda _event, _request: hint
    world = GateWorld(gate)
    return world, asked(world)
