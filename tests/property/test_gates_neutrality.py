"""Unused gates and events without a cause change nothing: pairs of worlds are compared.

Both worlds of a pair get the same arrivals, ends and cancellations. After each step they are compared: which requests
have been seated, refused or queued, in which queue, and the meters of all queues.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import (
    DISCIPLINES,
    Adjusting,
    EqualSerial,
    Lending,
    Reason,
    Sharing,
    Ticket,
)
from apf_middleware.gates import Capacity, Condition, Gate, Terms, Tokens
from apf_middleware.snapshots import LevelSnapshot, QueueSetSnapshot, QueueSnapshot, TicketSnapshot
from tests.support.examples import examples
from tests.support.gate_world import MS, SECOND, GateWorld, level

if TYPE_CHECKING:
    from tests.support.gate_world import GatedTicket

pytestmark = pytest.mark.timeout(600)

_WIDE = Terms(max_parked=100_000)
_Level = tuple[LevelSnapshot, QueueSetSnapshot, list[TicketSnapshot]]

_shares = st.sampled_from((Lending, Adjusting))
_disciplines = st.sampled_from(sorted(DISCIPLINES)).map(DISCIPLINES.__getitem__)
_exact = st.integers(0, 2)
_any = st.integers(0, 50)
_seeds = st.integers(0, 2**32)


@dataclass(frozen=True, slots=True)
class _Arrive:
    to: str
    flow: str
    width: int
    size: int
    gates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Finish:
    which: int


@dataclass(frozen=True, slots=True)
class _GiveUp:
    which: int


@dataclass(frozen=True, slots=True)
class _Wait:
    ns: int


@dataclass(frozen=True, slots=True)
class _Operate:
    to: str
    state: str


@dataclass(frozen=True, slots=True)
class _Turn:
    """A change of the dependency's state, with an event."""

    is_well: bool


@dataclass(frozen=True, slots=True)
class _Emit:
    """An event without a cause."""

    event: str
    key: Hashable


def _arrivals(gates: st.SearchStrategy[tuple[str, ...]], widths: tuple[int, ...]) -> st.SearchStrategy[_Arrive]:
    return st.builds(
        _Arrive, st.sampled_from("ab"), st.sampled_from("xyz"), st.sampled_from(widths), st.integers(1, 4), gates
    )


_ENDS = (st.builds(_Finish, _any), st.builds(_GiveUp, _any))
_waits = st.builds(_Wait, st.sampled_from((1, MS, 7 * MS, 100 * MS, 2 * SECOND)))
_operations = st.builds(_Operate, st.sampled_from("ab"), st.sampled_from(("open", "paused", "closed")))


class _World(GateWorld):
    """A world that executes steps and can be compared after each."""

    def __init__(self, *gates: Gate, **more: Any) -> None:  # noqa: ANN401 - see GateWorld
        super().__init__(*gates, careful=False, **more)
        self.everybody: dict[str, GatedTicket] = {}
        self.is_well = True

    def _of(self, which: int, is_meant: Callable[[Ticket], bool]) -> str | None:
        names = [name for name, ticket in self.tickets.items() if is_meant(ticket)]
        return names[which % len(names)] if names else None

    def live(self, step: object) -> None:
        match step:
            case _Arrive(to, flow, width, size, gates):
                name = str(len(self.everybody))
                self.everybody[name] = self.arrive(name, *gates, to=to, flow=flow, width=width, size=size)
            case _Finish(which):
                if seated := self._of(which, lambda ticket: ticket.is_seated):
                    self.finish(seated)
            case _GiveUp(which):
                if waiting := self._of(which, lambda ticket: ticket.is_waiting):
                    self.give_up(waiting, Reason.CANCELLED)
            case _Wait(ns):
                self.wait(ns)
            case _Operate(to, state):
                self.operate(to, held=state == "paused", closing=state == "closed")
            case _Turn(is_well):
                self.is_well = is_well
                self.emit("breaker")
            case _Emit(event, key):
                self.emit(event, key)
        self.note(self.sharing.tick(self.now))

    def row(self) -> object:
        """Return the state and queue of each request, and the order in which they have been served so far."""
        where = [
            (name, ticket.state, ticket.reason, None if ticket.queue is None else ticket.queue.index)
            for name, ticket in self.everybody.items()
        ]
        return self.now, tuple(self.served), where

    def meters(self) -> list[_Level]:
        """Return the snapshots of all levels and queues, up to now."""
        return _meters(self.sharing.sharing, self.now)

    def held(self) -> object:
        """Return which request waits at which slot, and how much of each gate is used."""
        used = [(gate.name, key, gate.used(key)) for gate in self.scheduler.gates.values() for key in ("", *"xyz")]
        acquisitions = [(name, self.scheduler.acquisition(ticket)) for name, ticket in self.tickets.items()]
        return used, [
            (
                name,
                acquisition.stage,
                None if acquisition.slot is None else (acquisition.slot.gate.name, acquisition.slot.key),
            )
            for name, acquisition in acquisitions
            if acquisition is not None
        ]


def _meters(sharing: Sharing, now: int) -> list[_Level]:
    for one in sharing.levels.values():
        one.settle_alone()
        if one.queueset.is_steered:
            one.queueset.concurrency = 0  # so that advancing its meters dispatches nothing
        one.queueset.tick(now)
    shown = sharing.snapshot().levels
    return [
        (level, one.queueset.snapshot(), [ticket.snapshot() for queue in one.queueset.deck for ticket in queue])
        for level, one in zip(shown, (*sharing.levels.values(), *sharing.draining), strict=True)
    ]


class _Plain(_World):
    """The same without a gatekeeper."""

    def __init__(self, **more: Any) -> None:  # noqa: ANN401 - see GateWorld
        super().__init__(**more)
        for one in self.plain.levels.values():
            one.queueset.gatekeeper = None
        self.sharing = self.plain  # type: ignore[assignment]

    def meters(self) -> list[_Level]:
        return _meters(self.plain, self.now)


def _levels(exact: int, length: int, seats: int = 2, backfill: int = 0) -> dict[str, Any]:
    return {
        "a": level(seats, queues=4, least=1, exact=exact, length=length, backfill=backfill),
        "b": level(seats + 1, queues=2, length=length),
    }


_TWO_WIDE = (_Arrive("b", "x", 2, 1, ()), _Arrive("b", "y", 2, 1, ()))
_ungated = st.lists(
    st.one_of(_arrivals(st.just(()), (1, 1, 2)), _arrivals(st.just(()), (1, 1, 2)), *_ENDS, _waits, _operations),
    max_size=60,
)


@given(_shares, _disciplines, _exact, st.sampled_from((2, 100)), st.sampled_from((0, 2)), _ungated)
@examples(40)
def test_unused_gates_change_nothing(  # noqa: PLR0917 - hypothesis passes them
    share: Any,  # noqa: ANN401 - a class
    discipline: Any,  # noqa: ANN401 - a class
    exact: int,
    length: int,
    backfill: int,
    steps: list[object],
) -> None:
    shape = {"levels": _levels(exact, length, backfill=backfill), "share": share, "discipline": discipline}
    plain, gated = _Plain(**shape), _World(Capacity("db", 1, _WIDE), Condition("no", lambda _: False, _WIDE), **shape)
    for step in steps:
        plain.live(step)
        gated.live(step)
        assert gated.row() == plain.row()
        assert gated.meters() == plain.meters()


@given(_shares, _disciplines, _exact, st.sampled_from((2, 100)), st.sampled_from((0, 2)), _ungated)
@example(Lending, EqualSerial, 0, 2, 0, [*_TWO_WIDE, _Wait(MS), _Finish(0), _Arrive("b", "x", 1, 1, ())])
@examples(40)
def test_open_gates_change_neither_order_nor_meters(  # noqa: PLR0917 - hypothesis passes them
    share: Any,  # noqa: ANN401 - a class
    discipline: Any,  # noqa: ANN401 - a class
    exact: int,
    length: int,
    backfill: int,
    steps: list[object],
) -> None:
    """Levels with gated requests don't rest, which only takes longer; so in this test no level rests."""
    shape = {
        "levels": _levels(exact, length, backfill=backfill),
        "share": partial(share, may_rest=False),
        "discipline": discipline,
    }
    gates = (Capacity("db", 1000, _WIDE), Condition("yes", lambda _: True, _WIDE), Tokens("many", 1, 1000, terms=_WIDE))
    plain, gated = _Plain(**shape), _World(*gates, **shape)
    for step in steps:
        plain.live(step)
        gated.live(replace(step, gates=("db", "yes", "many")) if isinstance(step, _Arrive) else step)
        assert gated.row() == plain.row()
        assert _but_for_steering(gated.meters()) == _but_for_steering(plain.meters())


def _but_for_steering(levels: list[_Level]) -> list[object]:
    """Leave out the limit that was set for the last call, and the count of requests that found no accommodation.

    Meters of queues where nothing waits are left out, too: in some disciplines they are outdated until something does.
    """
    return [
        (one, replace(queueset, concurrency=0, no_accommodation=0, queues=_but_for_outdated(queueset)), waiting)
        for one, queueset, waiting in levels
    ]


def _but_for_outdated(queueset: QueueSetSnapshot) -> tuple[QueueSnapshot, ...]:
    return tuple(queue if queue.waiting else replace(queue, next_dispatch_r=0) for queue in queueset.queues)


_gated_ways = st.sampled_from(
    ((), ("db",), ("memory",), ("memory", "db"), ("breaker",), ("breaker", "memory"), ("quota", "db"))
)
_one_gate = st.sampled_from(((), ("db",), ("memory",), ("breaker",), ("quota",)))
_answered = st.builds(
    _Emit, st.sampled_from(("db", "memory", "breaker", "quota")), st.sampled_from((None, "", "x", "nowhere"))
)
_unheard = st.sampled_from((_Emit("nobody", None), _Emit("db", "nowhere"), _Emit("quota", "nowhere")))


def _steps_and(
    events: st.SearchStrategy[_Emit], ways: st.SearchStrategy[tuple[str, ...]] = _gated_ways
) -> st.SearchStrategy[list[object]]:
    arrivals = _arrivals(ways, (1, 1, 2, 8))
    turns = st.builds(_Turn, st.booleans())
    return st.lists(st.one_of(*[arrivals] * 4, *_ENDS, _waits, turns, events), max_size=60)


def _gated(*, most_bypasses: int = 3, **shape: Any) -> _World:  # noqa: ANN401 - see GateWorld
    terms = Terms(max_parked=100_000, most_bypasses=most_bypasses)
    breaker = Condition("breaker", lambda _: world.is_well, terms)
    memory = Capacity("memory", 4, terms, cost=lambda request: int(request.state["size"]))
    quota = Tokens("quota", 10, 2, terms=terms, key=lambda request: request.flow)
    world = _World(Capacity("db", 2, terms), memory, breaker, quota, limit_ns=100 * SECOND, **shape)
    return world


def _compare_with_and_without_events(steps: list[object], **shape: Any) -> Iterator[tuple[_World, _World]]:  # noqa: ANN401
    calm, notified = _gated(**shape), _gated(**shape)
    for step in steps:
        notified.live(step)
        calm.live(None if isinstance(step, _Emit) else step)
        assert notified.row() == calm.row()
        yield calm, notified


def _crowded(seed: int) -> list[object]:
    """Return steps in which a gate that gets many events parks requests of different widths and sizes."""
    chance = Random(seed)
    gate = chance.choice(("db", "db", "memory"))

    def step() -> object:
        match chance.randrange(5):
            case 0 | 1:
                size = chance.randint(1, 4) if gate == "memory" else 1
                return _Arrive("a", chance.choice("xyz"), chance.choice((1, 3, 8)), size, (gate,))
            case 2 | 3:
                return _Finish(chance.randrange(50))
        return _Emit(gate, chance.choice((None, "")))

    return [step() for _ in range(80)]


@given(_shares, _disciplines, _exact, st.one_of(_steps_and(_answered, _one_gate), st.builds(_crowded, _seeds)))
@examples(60)
def test_events_without_listeners_change_counters_only(
    share: Any,  # noqa: ANN401 - a class
    discipline: Any,  # noqa: ANN401 - a class
    exact: int,
    steps: list[object],
) -> None:
    """Here gates are the bottleneck, not seats: otherwise a request that may try would first wait for a seat.

    The number of bypasses is not bounded: it is counted from the time when a request is parked, and a vain attempt
    parks it again. A request has at most one gate: with several it could be parked at another one afterwards. Meters
    are not compared: some differ, for a request that may try has arrived in its queue.
    """
    shape = {"levels": _levels(exact, 100, seats=200), "share": share, "discipline": discipline}
    for calm, notified in _compare_with_and_without_events(steps, most_bypasses=100_000, **shape):
        assert notified.held() == calm.held()


@given(_shares, _disciplines, _exact, _steps_and(_unheard))
@examples(25)
def test_events_without_listeners_change_nothing_when_seats_are_short(
    share: Any,  # noqa: ANN401 - a class
    discipline: Any,  # noqa: ANN401 - a class
    exact: int,
    steps: list[object],
) -> None:
    shape = {"levels": _levels(exact, 100), "share": share, "discipline": discipline}
    for calm, notified in _compare_with_and_without_events(steps, **shape):
        assert notified.held() == calm.held()
        assert _but_for_steering(notified.meters()) == _but_for_steering(calm.meters())
