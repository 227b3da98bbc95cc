"""Named queues while the server works: their states, changes and deletion."""

import logging
from collections.abc import Callable

import pytest

from apf_middleware.classification import Classification
from apf_middleware.config import Configuration, load_text
from apf_middleware.exceptions import (
    InvalidValueError,
    QueueConflictError,
    QueueError,
    QueueInvalidError,
    QueueNotFoundError,
)
from apf_middleware.fairqueuing import DISCIPLINES, Reason, TicketState, Work
from apf_middleware.gates import GateRequest, Gates
from apf_middleware.runtime import Admission, Controller, NamedQueues
from tests.support.named_queues import FAMILY, MS, NamedQueueServer, level, server
from tests.support.virtual_alarm import NullAlarm

WEB = level("web", "minSeats: 0, maxSeats: 4")
ONE = server(10) + level("web", "minSeats: 0, maxSeats: 1")


def test_a_paused_queue_keeps_arrivals_until_it_opens_or_their_wait_limit_ends() -> None:
    house = NamedQueueServer(
        server(10) + level("web", "minSeats: 0, queuing: {queues: 1, handSize: 1, queueLengthLimit: 2}")
    )
    [running] = house.arrive("web")
    house.queues.operate("web", "pause")
    first, second, third = house.arrive("web", 3)
    assert [one.is_waiting for one in (first, second)] == [True, True]
    assert third.reason is Reason.QUEUE_FULL

    house.end(running)
    assert house.queues.status("web").running == 0
    house.controller.abandon(first, Reason.TIME_OUT)
    house.queues.operate("web", "open")
    assert second.is_seated


def test_a_closing_queue_is_closed_when_the_last_one_ends() -> None:
    house = NamedQueueServer(ONE)
    running, waits = house.arrive("web", 2)
    house.queues.operate("web", "close")
    assert house.arrive("web")[0].reason is Reason.QUEUE_CLOSING
    house.end(running)
    assert house.state("web") == "Closing"
    house.end(waits)
    assert house.state("web") == "Closed"
    assert house.arrive("web")[0].reason is Reason.QUEUE_CLOSED


@pytest.mark.parametrize("borrowing", ["immediate", "periodic"])
def test_a_closing_queue_is_closed_and_can_be_deleted_when_the_last_linger_ends(borrowing: str) -> None:
    text = server(10) + level("web", "shares: 100")
    house = NamedQueueServer(text.replace("seats: 10", f"seats: 10, borrowing: {borrowing}"))
    [lingers] = house.arrive("web", linger_ns=800 * MS)
    house.end(lingers)
    house.queues.operate("web", "close")
    house.now += 800 * MS - 1
    assert (house.queues.status("web").used, house.state("web")) == (1, "Closing")

    house.now += 1

    house.queues.delete("web")
    assert "web" not in house.controller.levels


def test_time_may_go_on_during_each_action() -> None:
    house = NamedQueueServer(ONE)
    house.ticks_ns = 1
    [running] = house.arrive("web")
    house.queues.operate("web", "close")
    house.queues.update("web", weight=2)
    house.reload(ONE + level("other"))
    house.end(running)
    house.queues.delete("web")


def test_the_end_of_a_linger_is_in_time_for_the_next_action() -> None:
    house = NamedQueueServer(server(1) + level("web", "minSeats: 0") + level("other", "minSeats: 0"))
    [lingers] = house.arrive("web", linger_ns=5)
    house.end(lingers)
    house.queues.operate("other", "pause")
    [waits] = house.arrive("other")
    house.now += 5

    house.queues.operate("other", "open")

    assert waits.is_seated
    assert house.queues.status("web").used == 0


def test_waiting_requests_of_a_paused_queue_are_served_when_it_closes() -> None:
    house = NamedQueueServer(ONE)
    house.queues.operate("web", "pause")
    [waits] = house.arrive("web")
    house.queues.operate("web", "close")
    assert waits.is_seated
    house.end(waits)
    assert house.state("web") == "Closed"


@pytest.mark.parametrize("reason", [Reason.TIME_OUT, Reason.CANCELLED])
def test_a_closing_queue_is_closed_when_the_last_one_that_waits_leaves(reason: Reason) -> None:
    house = NamedQueueServer(server(2) + level("web", "minSeats: 0") + level("other", "minSeats: 0"))
    [other] = house.arrive("other")
    [waits] = house.arrive("web")
    house.queues.operate("web", "close")
    assert house.state("web") == "Closing"

    house.controller.abandon(waits, reason)

    assert house.state("web") == "Closed"
    house.end(other)


def test_closing_a_queue_drains_or_sheds_waiting_requests() -> None:
    house = NamedQueueServer(ONE)
    running, waits = house.arrive("web", 2)
    house.queues.operate("web", "close")
    assert waits.is_waiting
    house.queues.operate("web", "close", mode="shed")
    assert waits.reason is Reason.QUEUE_CLOSING
    assert running.is_seated
    house.end(running)
    assert house.state("web") == "Closed"
    assert house.queues.status("web").rejected == {"queue-closing": 1}


def test_no_request_is_seated_while_waiting_ones_are_shed() -> None:
    one_queue = "queuing: {queues: 1, handSize: 1, queueLengthLimit: 9}"
    house = NamedQueueServer(server(10) + level("web", f"minSeats: 0, maxSeats: 4, {one_queue}"))
    house.arrive("web", 2)
    [wide] = house.arrive("web", 1, width=3)
    narrow = house.arrive("web", 2)
    assert [one.is_waiting for one in (wide, *narrow)] == [True] * 3

    house.queues.operate("web", "close", mode="shed")

    assert [one.reason for one in (wide, *narrow)] == [Reason.QUEUE_CLOSING] * 3


def test_a_closed_queue_deserves_nothing() -> None:
    house = NamedQueueServer(server(10) + level("web", "minSeats: 3") + level("other", "minSeats: 0"))
    house.arrive("other", 30)
    assert house.queues.status("web").deserved == 3
    house.queues.operate("web", "close")

    assert house.queues.status("web").deserved == 0
    assert house.queues.status("other").deserved == 9


def test_a_request_that_is_alone_keeps_its_queue_from_being_closed() -> None:
    house = NamedQueueServer(server(10) + level("web", "minSeats: 2"))
    [alone] = house.arrive("web")
    assert house.queues.operate("web", "close").state == "Closing"
    house.end(alone)
    assert house.state("web") == "Closed"


def test_a_closed_queue_s_min_is_lent_until_it_opens() -> None:
    house = NamedQueueServer(server(4) + level("web", "minSeats: 3") + level("other", "minSeats: 0"))
    house.queues.operate("web", "close")

    assert sum(one.is_seated for one in house.arrive("other", 9)) == 4
    house.queues.operate("web", "open")
    assert house.queues.status("web").min == 3


def test_a_file_can_say_that_a_queue_begins_paused_or_closed() -> None:
    house = NamedQueueServer(server(10) + level("a", "state: Paused") + level("b", "state: Closed"))

    assert (house.state("a"), house.state("b")) == ("Paused", "Closed")
    assert house.arrive("a")[0].is_waiting
    assert house.arrive("b")[0].reason is Reason.QUEUE_CLOSED


def test_closing_a_parent_closes_its_children_and_opening_it_opens_those_that_it_had_closed() -> None:
    house = NamedQueueServer(FAMILY)
    house.queues.operate("free", "close")
    house.queues.operate("tenants", "close")
    assert [house.state(name) for name in ("tenants", "free", "paid")] == ["Closed"] * 3
    assert [house.queues.status(name).closed_by_parent for name in ("free", "paid")] == [False, True]
    assert house.arrive("paid")[0].reason is Reason.QUEUE_CLOSED

    with pytest.raises(QueueConflictError, match="Open the parent"):
        house.queues.operate("paid", "open")

    house.queues.operate("tenants", "open")
    assert [house.state(name) for name in ("tenants", "free", "paid")] == ["Open", "Closed", "Open"]


def test_a_parent_is_closing_as_long_as_one_of_its_children_is() -> None:
    house = NamedQueueServer(FAMILY)
    [running] = house.arrive("free")
    house.queues.operate("tenants", "close", mode="shed")
    assert (house.state("tenants"), house.state("paid")) == ("Closing", "Closed")
    house.end(running)
    assert house.state("tenants") == "Closed"


def test_a_queue_that_gets_a_closed_parent_is_closed() -> None:
    house = NamedQueueServer(FAMILY + level("web"))
    house.queues.operate("tenants", "close")
    house.queues.update("web", parent="tenants")

    assert house.state("web") == "Closed"


def test_a_queue_is_created_changed_and_shown_while_the_server_works() -> None:
    house = NamedQueueServer(server(10) + WEB)
    made = house.queues.create("batch", weight=2, max=3, by="alice")
    assert (made.state, made.weight, made.min, made.max, made.source) == ("Open", 2, 0, 3, "live")
    queuing = house.controller.configuration.levels["batch"].queuing
    assert queuing is not None
    assert queuing.backfill == 2, "as in a file that says nothing of it"

    assert sum(one.is_seated for one in house.arrive("batch", 5)) == 3
    changed = house.queues.update("batch", max=None, weight=7, priority=4)
    assert (changed.weight, changed.max, changed.priority, changed.generation) == (7, 10, 4, made.generation)
    assert changed.running == 5


def test_a_closing_queue_can_be_changed() -> None:
    house = NamedQueueServer(ONE)
    house.arrive("web", 2)
    house.queues.operate("web", "close")

    assert house.queues.update("web", max=2).running == 2


def test_a_parent_s_max_cannot_go_below_its_children_s() -> None:
    house = NamedQueueServer(FAMILY)
    house.queues.update("free", max=5)

    with pytest.raises(QueueInvalidError, match="in 'free' it must not exceed"):
        house.queues.update("tenants", max=4)


def test_a_queue_is_deleted_when_it_is_closed() -> None:
    house = NamedQueueServer(ONE)
    [running] = house.arrive("web")
    with pytest.raises(QueueConflictError, match="it is Open"):
        house.queues.delete("web")
    house.queues.operate("web", "close")
    with pytest.raises(QueueConflictError, match="it is Closing"):
        house.queues.delete("web")
    house.end(running)

    house.queues.delete("web")

    assert "web" not in {one.name for one in house.queues.list()}
    assert "web" not in house.controller.levels


def test_a_cascade_rejects_waiting_requests_and_running_ones_finish() -> None:
    house = NamedQueueServer(ONE)
    running, waits = house.arrive("web", 2)

    house.queues.delete("web", cascade=True)

    assert waits.reason is Reason.QUEUE_CLOSED
    assert running.is_seated
    house.end(running)
    assert house.controller.sharing.draining == []


@pytest.mark.parametrize("borrowing", ["immediate", "periodic"])
def test_a_paused_queue_is_deleted_and_serves_none_that_waits(borrowing: str) -> None:
    text = server(2).replace("seats: 2", f"seats: 2, borrowing: {borrowing}")
    house = NamedQueueServer(text + level("web", "shares: 100"))
    [running] = house.arrive("web")
    house.queues.operate("web", "pause")
    waits = house.arrive("web", 3)
    assert all(one.is_waiting for one in waits)

    house.queues.delete("web", cascade=True)

    assert [one.reason for one in waits] == [Reason.QUEUE_CLOSED] * 3
    house.end(running)
    assert house.controller.sharing.draining == []


def test_a_deleted_queue_is_promised_no_seat_when_its_waiting_requests_are_rejected() -> None:
    house = NamedQueueServer(server(3) + level("web", "minSeats: 0") + level("other", "minSeats: 0"))
    house.arrive("web", 5)
    house.queues.update("other", min=3)

    house.queues.delete("web", cascade=True)

    [web] = house.controller.sharing.draining
    assert (web.queueset.executing, web.queueset.waiting, web.least) == (2, 0, 0)


def test_a_deletion_that_fails_changes_nothing() -> None:
    house = NamedQueueServer(FAMILY)
    house.arrive("free", 5)
    waits = [one for one in house.arrive("paid", 9) if one.is_waiting]
    levels = [house.controller.levels[name] for name in ("free", "paid")]

    def refuse(_: Configuration) -> None:
        raise InvalidValueError("gate of a schema", "db", "there is no gate of this name")

    queues = NamedQueues(house.controller, refuse)
    with pytest.raises(InvalidValueError):
        queues.delete("tenants", cascade=True)
    assert queues.changes.entries == {}
    house.reload(FAMILY)

    assert waits
    assert all(one.is_waiting for one in waits)
    assert [house.controller.levels[name] for name in ("free", "paid")] == levels


def test_a_parent_is_deleted_with_its_children_or_not_at_all() -> None:
    house = NamedQueueServer(FAMILY)
    house.queues.operate("tenants", "close")
    with pytest.raises(QueueConflictError, match="free, paid"):
        house.queues.delete("tenants")

    house.queues.delete("tenants", cascade=True)

    assert not {"tenants", "free", "paid"} & house.configuration.levels.keys()


@pytest.mark.parametrize("name", ["exempt", "catch-all", "usual"])
def test_what_everything_else_falls_to_is_not_deleted(name: str) -> None:
    house = NamedQueueServer(server(10, ", default: usual") + level("usual"))
    if name != "exempt":
        house.queues.operate(name, "close")

    with pytest.raises(QueueConflictError):
        house.queues.delete(name, cascade=True)


def test_an_exempt_level_is_neither_closed_nor_changed() -> None:
    queues = NamedQueueServer(ONE).queues
    with pytest.raises(QueueConflictError, match="always open"):
        queues.operate("exempt", "close")
    with pytest.raises(QueueConflictError, match="nothing to change") as caught:
        queues.update("exempt", weight=2)
    assert isinstance(caught.value, QueueError)


def test_hundreds_of_queues_are_created_and_deleted_under_load_without_leftovers() -> None:
    house = NamedQueueServer(server(10) + WEB)
    house.arrive("web", 3)
    for number in range(30):
        names = [f"q{number}-{one}" for one in range(10)]
        for name in names:
            house.queues.create(name, max=2)
        running = [one for name in names[:2] for one in house.arrive(name, 3) if one.is_seated]
        for name in names:
            house.queues.delete(name, cascade=True)
        assert len(running) == 4
        for one in running:
            house.end(one)
    house.controller.look(house.now)

    assert house.controller.sharing.draining == []
    assert [one.name for one in house.controller.registry.shown] == sorted(house.controller.levels)
    assert house.queues.drift() == ()


def test_every_change_is_logged_with_actor_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apf_middleware")
    house = NamedQueueServer(ONE)
    house.queues.create("batch", max=3, by="alice")
    house.queues.operate("batch", "close", by="bob")
    house.queues.update("batch", weight=2)
    house.queues.delete("batch", by="carol")

    assert [record.getMessage() for record in caplog.records] == [
        "apf.queue-created queue=batch by=alice min=0 weight=1 max=3",
        "apf.queue-operated queue=batch by=bob action=close mode=drain",
        "apf.queue-updated queue=batch by=- weight=2",
        "apf.queue-deleted queue=batch by=carol cascade=False",
    ]


def gated(discipline: str, condition: Callable[[NamedQueues], None]) -> tuple[Controller, list[Admission]]:
    """Return a server with requests of three flows, each of which passes a gate that calls ``condition``."""
    gates = Gates()
    text = server(3).replace("spec: {", f"spec: {{discipline: {discipline}, ", 1) + level("web") + level("batch")
    controller = Controller(load_text(text), gates, now=lambda: 0, alarm=lambda *_: NullAlarm())
    queues = NamedQueues(controller)

    @gates.condition("quiet")
    def quiet(_: GateRequest) -> None:
        condition(queues)

    admissions = []
    for number in range(9):
        destination = controller.destination(Classification("all", "web", f"flow {number % 3}", number % 3), Work())
        destination.gates = ("quiet",)
        admissions.append(Admission(destination))
        controller.arrive(0, admissions[-1])
    return controller, admissions


@pytest.mark.parametrize("discipline", sorted(DISCIPLINES))
def test_a_gate_may_look_at_queues(discipline: str) -> None:
    seen: list[int] = []
    controller, admissions = gated(discipline, lambda queues: seen.append(queues.status("web").running))

    while running := [one for one in admissions if one.is_seated]:
        controller.release(running[0])
        controller.sharing.check()

    assert len(seen) == len(admissions)
    assert {one.state for one in admissions} == {TicketState.RELEASED}


def test_a_gate_can_not_change_queues_while_it_is_asked() -> None:
    refused: list[QueueConflictError] = []

    def change(queues: NamedQueues) -> None:
        with pytest.raises(QueueConflictError, match=r"loop\.call_soon") as raised:
            queues.operate("batch", "pause")
        refused.append(raised.value)

    controller, admissions = gated("equal-serial", change)

    assert admissions[0].is_seated
    assert [one.queue for one in refused] == ["batch"] * len(refused)
    assert controller.configuration.levels["batch"].state == "open"
    NamedQueues(controller).operate("batch", "pause")


def test_an_action_that_cannot_be_put_in_force_changes_nothing() -> None:
    def fail(_: Configuration) -> None:
        raise OSError("no memory")

    house = NamedQueueServer(ONE)
    queues = NamedQueues(house.controller, fail)
    with pytest.raises(OSError, match="no memory"):
        queues.operate("web", "pause")

    assert queues.changes.entries == {}
    assert queues.status("web").state == "Open"


def test_a_queue_that_another_member_has_deleted_may_be_unknown_here() -> None:
    house = NamedQueueServer(server() + level("web"))
    house.queues.follow("gone", None, sheds=False)
    house.queues.delete("gone")
    with pytest.raises(QueueNotFoundError):
        house.queues.delete("never")
    house.queues.follow("web", None, sheds=False)
    assert "web" not in {one.name for one in house.queues.list()}
