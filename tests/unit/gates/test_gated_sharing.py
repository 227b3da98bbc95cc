"""Levels with gates: seats and gates in one step, and what parked requests count for."""

from typing import TYPE_CHECKING, Any

import pytest

from apf_middleware.fairqueuing import (
    DISCIPLINES,
    Adjusting,
    EqualSerial,
    Lending,
    LevelLimits,
    QueueSetSettings,
    Reason,
    Ticket,
    UpstreamEqualSerial,
    Work,
)
from apf_middleware.gates import (
    Capacity,
    Condition,
    GateRequest,
    Reject,
    Terms,
    Tokens,
)
from tests.support.gate_world import MS, SECOND, GateWorld, Switch, level

if TYPE_CHECKING:
    from apf_middleware.fairqueuing import (
        Discipline,
    )
    from apf_middleware.gates import Check

WIDE = Terms(max_parked=100_000)
UNAIDED = Terms(max_parked=1000, most_bypasses=2, flush_ns=60 * SECOND)  # no rescue helps within the time of a test


class Flag:
    def __init__(self) -> None:
        self.is_on = False
        self.answer: object = None

    def __call__(self, _: GateRequest) -> object:
        return self.answer or self.is_on

    def gate(self) -> Condition:
        return Condition("switch", self, WIDE)


@pytest.mark.parametrize("share", [Lending, Adjusting])
def test_a_level_does_not_rest_while_a_request_waits_for_a_gate(share: type[Lending]) -> None:
    world = GateWorld(Flag().gate(), levels={"l": level(2, least=2)}, share=share)
    shared = world.plain.levels["l"]
    world.arrive("parked", "switch", to="l")
    world.arrive("alone", to="l")
    assert shared.alone is None
    world.give_up("parked")
    world.finish("alone")
    world.arrive("alone again", to="l")
    assert shared.alone is world.tickets["alone again"]


@pytest.mark.parametrize("share", [Lending, Adjusting])
@pytest.mark.parametrize("end", ["served", "given up", "refused"])
def test_a_draining_level_is_kept_until_no_request_waits_for_its_gates(share: type[Lending], end: str) -> None:
    switch = Flag()
    world = GateWorld(switch.gate(), levels={"old": level(2), "new": level(2)}, share=share)
    world.arrive("parked", "switch", to="old")
    world.arrive("runs", to="old", flow="x")
    wanted = {"new": (QueueSetSettings(2, 64, 1, 100), LevelLimits(2, 0, 2))}
    world.note(world.sharing.reconfigure(world.now, 2, wanted))
    world.finish("runs")
    assert len(world.plain.draining) == 1
    if end == "served":
        switch.is_on = True
        assert world.emit("switch") == ["parked"]
        world.finish("parked")
    elif end == "given up":
        world.give_up("parked")
    else:
        switch.answer = Reject()
        world.emit("switch")
        assert world.refused == ["parked"]
    assert list(world.plain.draining) == []


def memory(terms: Terms) -> Capacity:
    return Capacity("memory", 4, terms, cost=lambda request: int(str(request.state["size"])))


def test_a_returning_request_precedes_later_arrivals() -> None:
    switch = Flag()
    world = GateWorld(switch.gate(), levels={"l": level(1, queues=1)})
    world.arrive("runs", to="l")
    world.arrive("parked", "switch", to="l")  # there is no seat, so the gate isn't asked yet
    world.finish("runs")
    world.now += MS
    world.arrive("runs too", to="l")
    world.now += MS
    world.arrive("later", to="l")
    switch.is_on = True
    world.emit("switch")
    assert world.finish("runs too") == ["parked"]


@pytest.mark.parametrize("discipline", sorted(DISCIPLINES))
def test_a_parked_flow_accumulates_no_credit(discipline: str) -> None:
    """The flow has been in virtual time before it was parked, and lags by all that was dispatched meanwhile."""
    switch = Flag()
    world = GateWorld(switch.gate(), seats=1, careful=False, limit_ns=600 * SECOND, discipline=DISCIPLINES[discipline])
    world.arrive("runs", flow="up")
    for number in range(60):
        world.arrive(f"down{number}", "switch", flow="down")
    for number in range(200):
        world.arrive(f"up{number}", flow="up")
    for _ in range(100):
        world.now += 100 * MS
        world.finish(world.served[-1])
    assert not any(name.startswith("down") for name in world.served)
    switch.is_on = True
    world.emit("switch")
    for _ in range(40):
        world.now += 100 * MS
        world.finish(world.served[-1])
    assert 18 <= sum(name.startswith("down") for name in world.served[-40:]) <= 22


class _Passed(Ticket):
    """Counts how often a search passes it."""

    __slots__ = ("_newer", "count")
    _newer: Ticket | None

    @property
    def newer(self) -> Ticket | None:
        self.count += 1
        return self._newer

    @newer.setter
    def newer(self, ticket: Ticket | None) -> None:
        self.count = 0
        self._newer = ticket


def test_a_new_arrival_does_not_overtake_waiting_requests() -> None:
    """Each request with gates did, so an arrival in a queue of thousands took thousands of steps."""
    queue = EqualSerial(1).open_queue(0)
    first, second, newcomer = _Passed("flow", 1, Work()), Ticket("flow", 1, Work()), Ticket("flow", 1, Work())
    for number, ticket in enumerate((first, second, newcomer)):
        ticket.arrived_at = number
        ticket.total_work = 1
    queue.append(first)
    queue.append(second)
    first.count = 0
    queue.insert(newcomer)
    assert first.count == 0
    assert list(queue) == [first, second, newcomer]


def test_a_returning_request_costs_the_ones_behind_it_nothing() -> None:
    """A queue that lags in virtual time must not be put behind all others because one of its requests returns."""
    switch = Flag()
    world = GateWorld(switch.gate(), seats=1, levels={"l": level(1, queues=2)}, careful=False)
    world.arrive("runs", flow="a", to="l")
    queueset = world.plain.levels["l"].queueset
    for number in range(4):
        world.arrive(f"parked{number}", "switch", flow="a", to="l")
    for number in range(20):
        world.arrive(f"a{number}", flow="a", to="l")
        world.arrive(f"b{number}", flow="c", to="l")
    served: list[str] = []
    for turn in range(30):
        world.now += 100 * MS
        served += world.finish(world.served[-1])
        switch.is_on = turn % 4 == 3
        world.emit("switch")
    assert queueset.waiting
    assert 10 <= sum(name.startswith("b") for name in served) <= 20


def test_a_queue_that_is_full_of_parked_requests_takes_no_more_of_any_kind() -> None:
    world = GateWorld(Flag().gate(), levels={"l": level(1, queues=1, length=2)})
    world.arrive("one", "switch", to="l")
    world.arrive("two", "switch", to="l")
    assert world.arrive("three", "switch", to="l").reason is Reason.QUEUE_FULL


def test_a_lease_given_early_for_a_seat_that_is_passed_on_is_passed_on_too() -> None:
    db = Capacity("db", 1, WIDE)
    world = GateWorld(db, seats=1)
    world.arrive("a", "db")
    world.arrive("b", "db")
    assert world.finish("a") == ["b"]
    assert world.finish("b") == []
    assert db.used("") == 0


def test_a_queue_full_of_parked_requests_is_full_for_those_without_gates_too() -> None:
    world = GateWorld(Flag().gate(), levels={"l": level(1, queues=1, length=2)})
    world.arrive("one", "switch", to="l")
    assert world.arrive("runs", to="l", flow="x").is_seated
    world.arrive("waits", to="l", flow="x")
    assert world.arrive("too many", to="l", flow="x").reason is Reason.QUEUE_FULL


@pytest.mark.parametrize("share", [Lending, Adjusting])
def test_a_drained_level_is_forgotten_when_its_last_request_is_refused_asynchronously(share: type[Lending]) -> None:
    async def ask(_: GateRequest) -> bool:
        return True

    world = GateWorld(Condition("remote", ask, WIDE), levels={"old": level(2), "new": level(2)}, share=share)
    checks: list[Check] = []
    world.ask = lambda _now, check: checks.append(check)
    world.arrive("asked", "remote", to="old")
    wanted = {"new": (QueueSetSettings(2, 64, 1, 100), LevelLimits(2, 0, 2))}
    world.note(world.sharing.reconfigure(world.now, 2, wanted))
    assert len(world.plain.draining) == 1
    world.conclude(checks[0], Reject())
    assert world.refused == ["asked"]
    assert list(world.plain.draining) == []


@pytest.mark.parametrize("kind", [EqualSerial, UpstreamEqualSerial])
def test_a_returning_request_does_not_delay_its_queue(
    kind: type[EqualSerial | UpstreamEqualSerial],
) -> None:
    discipline: Discipline[Any] = kind(1)
    queue = discipline.open_queue(0)
    later, back = (Ticket("flow", 1, Work()) for _ in range(2))
    back.arrived_at, later.arrived_at = 1, 2
    back.total_work = later.total_work = 10
    discipline.arrive(queue, later)
    queue.append(later)
    before = queue.meters()
    discipline.advance(10_000, 1)
    discipline.arrive(queue, back)
    queue.insert(back)
    discipline.rejoin(queue, back)
    discipline.check()
    assert queue.oldest is back
    assert queue.meters() == before, "it is owed the time since"


@pytest.mark.parametrize("share", [Lending, Adjusting])
def test_the_exact_queue_of_a_parked_flow_is_kept(share: type[Lending]) -> None:
    world = GateWorld(Flag().gate(), levels={"l": level(2, queues=1, exact=1)}, share=share)
    parked = world.arrive("parked", "switch", to="l", flow="x")
    assert parked.queue is not None
    assert parked.queue.owner == parked.entropy
    guest = world.arrive("guest", to="l", flow="y")
    assert guest.queue is not parked.queue
    world.finish("guest")
    again = world.arrive("again", to="l", flow="y")
    assert again.queue is not parked.queue, "its place was taken while it was parked"
    assert parked.queue.owner == parked.entropy
    world.give_up("parked")
    heir = world.arrive("heir", to="l", flow="z")
    assert heir.queue is not None
    assert heir.queue.owner == heir.entropy


@pytest.mark.parametrize("share", [Lending, Adjusting])
@pytest.mark.parametrize("discipline", sorted(DISCIPLINES))
@pytest.mark.parametrize("others", [0, 2])
def test_a_request_that_backfills_does_not_skip_its_gate(share: type[Lending], discipline: str, others: int) -> None:
    """Narrow requests may overtake a wide one for which seats are saved, but not without passing their own gates."""
    switch = Flag()
    world = GateWorld(
        switch.gate(),
        levels={"l": level(2, backfill=3), "other": level(1)},
        share=share,
        discipline=DISCIPLINES[discipline],
    )
    # The flow of the passing requests has had seats already, so it is the wide one's turn.
    world.arrive("runs", to="l", flow="gated")
    world.arrive("goes", to="l", flow="gated")
    for number in range(others):  # if there are any, levels compete for free seats
        world.arrive(f"other {number}", to="other")
    world.served.clear()
    world.wait(SECOND)
    world.arrive("wide", to="l", flow="wide", width=2)
    world.arrive("gated", "switch", to="l", flow="gated")
    assert world.evaluated("switch") == 0
    world.finish("goes")
    assert world.served == []
    assert world.evaluated("switch") == 1
    world.arrive("free", to="l", flow="free")
    assert world.served == ["free"], "a seat is free that is too few for the wide one"
    assert world.sharing.scheduler.is_parked(world.tickets["gated"])

    switch.is_on = True
    world.emit("switch")
    world.finish("free")
    assert world.served[1:] == ["gated"]
    world.finish("gated")
    world.finish("runs")
    assert world.tickets["wide"].is_seated


@pytest.mark.parametrize("end", ["refused", "given up"])
def test_a_closing_level_lends_its_min_when_its_last_parked_request_has_left(end: str) -> None:
    switch = Flag()
    levels = {"closes": level(2, least=2), "borrows": level(2, queues=0)}
    levels["borrows"] = (QueueSetSettings.without_queues(4), LevelLimits(2, 0, 4))
    world = GateWorld(switch.gate(), levels=levels)
    asked: list[Check] = []
    world.ask = lambda _, check: asked.append(check)
    world.gate("switch").is_async = True
    world.arrive("parked", "switch", to="closes")
    [check] = asked
    shared = world.plain.levels["closes"]
    world.note(world.sharing.operate(world.now, shared, closing=True))
    assert shared.least == 2
    if end == "refused":
        world.conclude(check, Reject())
    else:
        world.give_up("parked")

    assert shared.least == 0
    for number in range(4):
        assert world.arrive(f"borrower {number}", to="borrows", flow=str(number)).is_seated


def test_a_request_of_a_level_without_seats_keeps_the_gate_from_others_only_for_a_while() -> None:
    """It has reached its bound of bypasses and the gate has room for it, but its level's only seat is taken."""
    world = GateWorld(memory(UNAIDED), levels={"low": level(1), "high": level(8)})
    for number in range(4):
        world.arrive(f"small {number}", "memory", to="high", size=1)
    world.arrive("big", "memory", to="low", size=4)
    for number in range(4, 12):
        world.arrive(f"small {number}", "memory", to="high", size=1)
    world.finish("small 0")
    world.finish("small 1")
    world.arrive("long", to="low", flow="other")
    for number in range(2, 6):
        assert world.finish(f"small {number}") == [], "as many have passed as may"
    assert world.acquisition("big").candidate_of is not None, "there is room for it, and it waits for a seat"
    assert world.wait(SECOND) == [f"small {number}" for number in range(6, 10)]
    assert world.finish("small 6") == ["small 10"]
    assert world.finish("long") == []  # there is no room for it now, but freed capacity is kept for it again
    for number in range(7, 10):
        assert world.finish(f"small {number}") == []
    assert world.finish("small 10") == ["big"]


def test_a_gate_is_not_reserved_for_a_request_behind_one_that_waits_for_a_seat() -> None:
    """The gate has room for both, but their level's only seat is taken."""
    world = GateWorld(Capacity("db", 3, UNAIDED), levels={"low": level(1), "high": level(1)})
    world.close("db")
    for number in range(8):
        world.arrive(f"small {number}", "db", to="high")
    world.arrive("next", "db", to="low")
    world.arrive("behind", "db", to="low")
    world.arrive("long", to="low", flow="other")
    world.arrive("first", to="high", flow="other")
    world.open("db")
    assert world.finish("first") == ["small 0"]
    for number in range(7):
        assert world.finish(f"small {number}") == [f"small {number + 1}"]
    assert world.finish("long") == ["next"]
    assert world.finish("next") == ["behind"]


def test_a_request_that_was_passed_while_it_waited_for_a_seat_gets_the_gate_in_the_end() -> None:
    """It isn't the first at the gate, but its level's turn is its own."""
    world = GateWorld(Capacity("db", 2, UNAIDED), levels={"low": level(1), "high": level(2)})
    world.close("db")
    for number in range(9):
        world.arrive(f"small {number}", "db", to="high")
    world.arrive("next", "db", to="low")
    world.arrive("behind", "db", to="low")
    world.arrive("long", to="low", flow="other")
    world.arrive("first", to="high", flow="other", width=2)
    world.open("db")
    assert world.finish("first") == ["small 0", "small 1"]
    for number in range(3):
        assert world.finish(f"small {number}") == [f"small {number + 2}"]
    assert world.finish("long") == []  # both places of the gate are taken
    world.arrive("longer", to="low", flow="other")
    assert world.finish("small 3") == [], "this place is kept"
    assert world.finish("longer") == ["next"]


def test_a_gate_is_reserved_only_for_a_while_if_the_holder_s_turn_is_that_of_an_earlier_request() -> None:
    """The earlier one comes from another gate, and waits for a seat."""
    switch = Flag()
    world = GateWorld(memory(UNAIDED), switch.gate(), levels={"low": level(1), "high": level(8)})
    for number in range(4):
        world.arrive(f"small {number}", "memory", to="high", size=1)
    world.arrive("earlier", "switch", "memory", to="low", size=4)
    world.arrive("holder", "memory", to="low", size=4)
    for number in range(4, 9):
        world.arrive(f"small {number}", "memory", to="high", size=1)
    world.finish("small 0")
    world.finish("small 1")
    switch.is_on = True
    world.emit("switch")
    world.arrive("long", to="low", flow="other")
    for number in range(2, 6):
        assert world.finish(f"small {number}") == [], "as many have passed as may"
    assert world.acquisition("earlier").candidate_of is not None
    assert world.wait(SECOND) == [f"small {number}" for number in range(6, 9)]


@pytest.mark.parametrize("gates", [("memory",), ("db", "memory"), ("memory", "db")])
def test_a_large_request_is_bypassed_a_bounded_number_of_times(gates: tuple[str, ...]) -> None:
    """Each gate used to restart its count of bypasses whenever the other gate had stopped the request."""
    terms = Terms(max_parked=1000, most_bypasses=2)
    world = GateWorld(memory(terms), Capacity("db", 2, terms), seats=50, careful=False)
    for number in range(3):
        world.arrive(f"small {number}", *gates, size=1)
    world.arrive("large", *gates, size=4)
    for number in range(3, 100):
        world.arrive(f"small {number}", *gates, size=1)
    while "large" not in world.served and len(world.served) < 50:
        world.finish(next(name for name in world.served if name in world.tickets))
    assert world.served.index("large") <= 3 + 2 * (2 + 1)


@pytest.mark.parametrize("discipline", sorted(DISCIPLINES))
@pytest.mark.parametrize("share", [Lending, Adjusting])
def test_freed_seats_go_by_level_as_they_would_without_gates(discipline: str, share: type[Lending]) -> None:
    """With gates that let all requests pass, the order is the same as with none (12: neutrality)."""

    def order(*gates: str) -> list[str]:
        well = Switch(answer=True)
        levels = {"a": level(4), "b": level(2), "c": level(1)}
        world = GateWorld(well.gate(), levels=levels, share=share, discipline=DISCIPLINES[discipline])
        for number in range(10):
            for to in "abc":
                world.arrive(f"{to}{number}", *gates, to=to, flow=f"{number % 3}")
        while world.tickets:
            world.now += MS
            world.finish(next(name for name in world.served if name in world.tickets))
        return world.served

    assert order("switch") == order()


def test_an_arrival_that_may_pass_is_seated_in_its_own_step() -> None:
    world = GateWorld(Capacity("db", 1, WIDE))
    assert world.arrive("a", "db").is_seated
    assert world.sharing.next_event_at() is None


def test_a_flow_gets_no_more_than_its_share_after_an_outage() -> None:
    """Without the clamp of virtual time the flow would get all of the next hundred dispatches."""
    switch = Switch()
    world = GateWorld(switch.gate(), seats=1, careful=False, limit_ns=600 * SECOND)
    for number in range(100):
        world.arrive(f"down{number}", "switch", flow="down")
    for number in range(300):
        world.arrive(f"up{number}", flow="up")
    for _ in range(100):
        world.now += 100 * MS
        world.finish(world.served[-1])
    switch.answer = True
    world.emit("well")
    for _ in range(100):
        world.now += 100 * MS
        world.finish(world.served[-1])
    assert 45 <= sum(name.startswith("down") for name in world.served[-100:]) <= 55


def test_parked_requests_are_no_demand() -> None:
    world = GateWorld(Switch().gate(), levels={"a": level(2), "b": level(2)}, share=Adjusting)
    for number in range(50):
        world.arrive(f"{number}", "switch", to="a")
    assert world.plain.levels["a"].queueset.seats_waiting == 0
    world.wait(30 * SECOND)
    record = world.plain.levels["a"].record
    assert record is None or record.demand.maximum <= 1


def test_the_tenant_whose_quota_is_used_up_does_not_block_another_in_the_same_queue() -> None:
    world = GateWorld(
        Tokens("quota", 1, 1, terms=WIDE, key=lambda request: request.flow), levels={"l": level(1, queues=1)}
    )
    world.arrive("a0", "quota", flow="a", to="l")
    world.arrive("a1", "quota", flow="a", to="l")
    world.arrive("b0", "quota", flow="b", to="l")
    assert world.finish("a0") == ["b0"]


def test_parked_requests_count_for_the_length_of_their_queue() -> None:
    world = GateWorld(Switch().gate(), levels={"l": level(1, queues=1, length=3)})
    world.arrive("runs", to="l")
    for number in range(3):
        world.arrive(f"{number}", "switch", to="l")
    assert world.arrive("other", to="l").reason is Reason.QUEUE_FULL
    assert world.arrive("another", "switch", to="l").reason is Reason.QUEUE_FULL


def test_an_exempt_level_has_no_gates() -> None:
    from apf_middleware.fairqueuing import LevelLimits, QueueSetSettings  # noqa: PLC0415

    switch = Switch()
    exempt = (QueueSetSettings.without_limit(), LevelLimits(1, 0, 1))
    world = GateWorld(switch.gate(), levels={"e": exempt, "l": level(1)})
    assert world.arrive("a", "switch", to="e").is_seated
    assert switch.asked == []


def test_a_parked_request_holds_no_seat_and_a_queued_one_no_lease() -> None:
    db = Capacity("db", 1, WIDE)
    world = GateWorld(db, seats=3)
    world.arrive("narrow", flow="x")
    world.arrive("wide", "db", width=3, flow="y")
    assert db.used("") == 0
    assert world.finish("narrow") == ["wide"]
    assert world.plain.levels["level"].queueset.seats_in_use == 3


def test_no_seats_are_saved_up_for_a_request_that_its_gate_stops() -> None:
    world = GateWorld(Capacity("db", 1, WIDE), seats=3)
    world.arrive("narrow", flow="x")
    world.arrive("wide", "db", width=3, flow="y")
    world.close("db")
    assert world.arrive("behind", flow="z").is_seated


def test_an_event_from_within_a_gate_is_dealt_with_at_the_end_of_the_step() -> None:
    first, second = Switch(), Switch(answer=True)
    world = GateWorld(first.gate("first"), seats=5)

    def emits(_: GateRequest) -> bool:
        first.answer = True
        world.emit("well")
        return True

    world.scheduler.add(Condition("second", emits, WIDE))
    world.arrive("a", "first")
    world.arrive("b", "second", flow="x")
    assert sorted(world.served) == ["a", "b"]
    assert second.answer


@pytest.mark.parametrize("share", [Lending, Adjusting])
def test_adjustments_that_are_due_come_before_what_a_gate_does_when_it_opens(share: type[Lending]) -> None:
    world = GateWorld(Flag().gate(), Capacity("cache", 1, WIDE), seats=2, share=share, limit_ns=60 * SECOND)
    world.close("cache")
    world.arrive("a", "cache", "switch")
    world.arrive("b", "cache", flow="other")
    world.close("switch", until=100 * SECOND)
    world.now = 15 * SECOND  # without a tick: no timer is set for a gate that an operator has closed

    assert world.open("cache") == ["b"]
    assert world.refused == ["a"]
    world.finish("b")


@pytest.mark.parametrize("share", [Lending, Adjusting])
def test_a_request_that_leaves_when_its_gate_rejects_it_leaves_once(share: type[Lending]) -> None:
    flag = Flag()
    world = GateWorld(flag.gate(), seats=1, share=share)
    runs = world.arrive("runs", flow="x")
    runs.work = Work(1, 1, 10 * MS)
    waits = world.arrive("waits", "switch")
    flag.answer = Reject()
    world.finish("runs")
    world.now += 10 * MS  # the linger ends in the call that gives up

    assert world.give_up("waits") == []
    assert world.refused == ["waits"]
    assert waits.reason is Reason.GATE
    assert waits.level.queueset.waiting == 0
    assert not list(world.scheduler)


def test_a_level_gets_its_min_when_a_gate_rejects_the_last_request_of_a_draining_level() -> None:
    levels = {name: (QueueSetSettings(2), LevelLimits(1, 0, 2)) for name in ("gone", "grows", "other")}
    world = GateWorld(Capacity("db", 0, WIDE), levels=levels, limit_ns=60 * SECOND)
    world.arrive("parked", "db", to="gone")
    grown = {"grows": (QueueSetSettings(2), LevelLimits(1, 1, 2)), "other": levels["other"]}
    world.note(world.sharing.reconfigure(world.now, 2, grown))
    world.arrive("first", to="other")
    world.arrive("second", to="other")
    waits = world.arrive("waits", to="grows")
    assert waits.is_waiting, "the new min isn't in force yet"

    world.close("db", until=100 * SECOND)
    assert world.kick("parked") == ["waits"]
    assert world.refused == ["parked"]


def test_a_level_gets_its_min_when_nobody_waits_in_a_draining_level_without_a_min() -> None:
    """Although requests still run there."""
    levels = {name: (QueueSetSettings(3), LevelLimits(1, 0, 3)) for name in ("gone", "grows", "other")}
    world = GateWorld(Capacity("db", 0, WIDE), levels=levels)
    world.arrive("runs", to="gone")
    world.arrive("parked", "db", to="gone")
    grown = {"grows": (QueueSetSettings(3), LevelLimits(1, 1, 3)), "other": levels["other"]}
    world.note(world.sharing.reconfigure(world.now, 3, grown))
    world.give_up("parked")
    world.arrive("first", to="other")
    world.arrive("second", to="other")

    assert world.tickets["second"].is_waiting, "the last seat is that of the min"
    assert world.arrive("third", to="grows").is_seated


def test_a_request_that_can_not_wait_keeps_no_place_in_a_gate() -> None:
    db, switch = Capacity("db", 1, WIDE), Switch(answer=True)
    without = QueueSetSettings.without_queues(2), LevelLimits(2, 0, 2)
    world = GateWorld(db, switch.gate(), levels={"level": without})
    world.arrive("runs", width=2)
    assert world.arrive("without a seat", "db").reason is Reason.CONCURRENCY_LIMIT
    assert db.used("") == 0
    world.finish("runs")
    assert world.arrive("first", "db").is_seated
    assert world.arrive("second", "db").reason is Reason.GATE
    assert world.arrive("both", "switch", "db").reason is Reason.GATE
    world.close("switch")
    asked = len(switch.asked)
    assert world.arrive("third", "switch").reason is Reason.GATE
    assert len(switch.asked) == asked, "an operator has closed the gate, so it isn't asked"
    assert [one and one.gate for one in world.refusals.values()] == ["db", "db", "switch"]
    world.finish("first")
    assert world.arrive("fourth", "db").is_seated
