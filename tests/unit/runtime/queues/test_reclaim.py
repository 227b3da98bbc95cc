"""Who is asked to give way, and who never is; nobody is cancelled."""

import pytest

from apf_middleware.classification import Classification
from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.fairqueuing.sharing.grant import LevelGrant, SeatGrant
from apf_middleware.gates import Gates
from apf_middleware.runtime import Admission, Controller, Revocation
from apf_middleware.runtime.alarm import Alarm
from apf_middleware.runtime.named_queues import NamedQueues
from tests.support.named_queues import NamedQueueServer, level, server
from tests.support.virtual_alarm import NullAlarm


def market(seats: int = 11, **specs: str) -> NamedQueueServer:
    """Queues that are promised nothing, of equal weight; one seat of all is the catch-all's."""
    text = "".join(level(name, f"shares: 100, minSeats: 0{', ' if spec else ''}{spec}") for name, spec in specs.items())
    return NamedQueueServer(server(seats) + text)


def fill(house: NamedQueueServer, queue: str, number: int = 10, *, opted_in: bool = True) -> list[Admission]:
    running = house.arrive(queue, number)
    assert all(one.is_seated for one in running)
    if opted_in:
        for one in running:
            one.revocable()
    return running


def asked(admissions: list[Admission]) -> list[int]:
    return [place for place, one in enumerate(admissions) if one.revoked.is_set()]


def test_an_owner_below_what_it_deserves_asks_the_youngest_of_a_borrower() -> None:
    house = market(owner="", borrower="")
    running = []
    for house.now in range(10):
        running += fill(house, "borrower", 1)

    [waits] = house.arrive("owner")

    assert asked(running) == [9]
    assert house.controller.reclaimer is not None
    assert house.controller.reclaimer.asked == {"borrower": 1}
    house.end(running[9])
    assert waits.is_seated


def test_each_that_waits_asks_for_its_own_seats_until_all_have_what_they_deserve() -> None:
    house = market(owner="", borrower="")
    running = fill(house, "borrower")

    house.arrive("owner", 9)

    assert len(asked(running)) == 5
    assert all(one.is_seated for one in running)


def test_requests_that_have_not_opted_in_are_not_revoked() -> None:
    house = market(owner="", borrower="")
    running = fill(house, "borrower", opted_in=False)
    house.arrive("owner")

    assert asked(running) == []
    assert house.controller.reclaimer is None


def test_a_request_that_opts_in_while_an_owner_waits_is_revoked_immediately() -> None:
    house = market(owner="", borrower="")
    running = fill(house, "borrower", opted_in=False)
    house.arrive("owner")

    assert running[3].revocable().is_set()
    assert not running[4].revocable().is_set()


@pytest.mark.parametrize("how", ["not reclaimable", "owner paused", "owner has what it deserves"])
def test_no_seat_is_asked_back(how: str) -> None:
    house = market(owner="", borrower="reclaimable: false" if how == "not reclaimable" else "")
    running = fill(house, "borrower", 5 if how == "owner has what it deserves" else 10)
    if how == "owner paused":
        house.queues.operate("owner", "pause")
    house.arrive("owner", 6 if how == "owner has what it deserves" else 1)

    assert asked(running) == []


def test_no_seat_is_asked_back_where_limits_are_adjusted_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Alarm, "ask", lambda *_: None)
    text = server(10).replace("defaults", "borrowing: periodic, defaults")
    house = NamedQueueServer(text + level("owner", "lendablePercent: 100") + level("borrower", "lendablePercent: 100"))
    running = [one for one in house.arrive("borrower", 20) if one.is_seated]
    for one in running:
        one.revocable()
    house.arrive("owner", 9)

    assert asked(running) == []


def test_a_borrower_is_never_asked_below_what_it_deserves() -> None:
    house = market(owner="", borrower="")
    running = fill(house, "borrower", 6)
    house.arrive("owner", 4)

    [_] = house.arrive("owner", 1, width=3)

    assert asked(running) == []


def test_free_seats_count_first_and_no_more_are_asked_than_are_needed() -> None:
    house = market(owner="", borrower="")
    running = fill(house, "borrower", 8)

    [wide] = house.arrive("owner", 1, width=3)

    assert wide.is_waiting
    assert len(asked(running)) == 1


def test_no_request_is_revoked_if_that_would_not_suffice() -> None:
    house = market(owner="", borrower="")
    running = fill(house, "borrower", 10, opted_in=False)
    for one in running[:2]:
        one.revocable()

    house.arrive("owner", 1, width=5)

    assert asked(running) == []


def test_a_seat_that_comes_free_for_another_owner_is_not_counted() -> None:
    house = market(one="", other="", borrower="")
    running = fill(house, "borrower")

    [first] = house.arrive("one")
    [second] = house.arrive("other")

    assert len(asked(running)) == 2
    for place in asked(running):
        house.end(running[place])
    assert first.is_seated
    assert second.is_seated


def test_a_seat_for_an_owner_that_has_ceased_to_wait_serves_another_one() -> None:
    house = market(one="", other="", borrower="")
    running = fill(house, "borrower")
    [gone] = house.arrive("one")
    house.controller.abandon(gone, Reason.CANCELLED)

    [waits] = house.arrive("other")

    assert len(asked(running)) == 1
    house.end(running[asked(running)[0]])
    assert waits.is_seated


def test_a_request_that_opts_in_again_still_gives_way_to_the_same_owner() -> None:
    house = market(one="", other="", borrower="")
    running = fill(house, "borrower")
    house.arrive("one")
    for one in running:
        one.revocable()

    house.arrive("other")

    assert len(asked(running)) == 2


def test_after_a_reduction_enough_seats_are_asked_back_for_a_request_to_begin() -> None:
    house = market(owner="", borrower="")
    running = fill(house, "borrower")
    house.controller.resize(7)

    [waits] = house.arrive("owner")

    assert len(asked(running)) == 5, "ten are in use, one is promised to the catch-all, so five are left"
    for place in asked(running):
        assert waits.is_waiting
        house.end(running[place])
    assert waits.is_seated


def test_no_request_is_revoked_after_a_reduction_if_that_would_not_suffice() -> None:
    house = market(owner="", borrower="")
    running = fill(house, "borrower", opted_in=False)
    for one in running[:4]:
        one.revocable()
    house.controller.resize(7)

    house.arrive("owner")

    assert asked(running) == []


def member(house: NamedQueueServer, seats: int) -> None:
    """Let the server be a member of a fleet that has this part of its seats."""
    house.controller.restrict(SeatGrant(seats, levels={"owner": LevelGrant(1), "borrower": LevelGrant(1)}), {})


def test_a_queue_asks_for_what_it_deserves_of_the_seats_of_its_member() -> None:
    house = market(41, owner="", borrower="")
    member(house, 10)
    running = fill(house, "borrower")

    waiting = house.arrive("owner", 6)

    assert len(asked(running)) == 5
    for place in asked(running):
        house.end(running[place])
    assert [one.is_seated for one in waiting] == [True] * 5 + [False]


def test_an_owner_asks_for_seats_when_its_member_has_fewer() -> None:
    house = market(41, owner="", borrower="")
    member(house, 12)
    fill(house, "owner", 4)
    running = fill(house, "borrower", 8, opted_in=False)
    house.arrive("owner", 2)
    for one in running[:3]:
        one.revocable()
    before = asked(running)

    member(house, 10)

    assert before == [0, 1]
    assert asked(running) == [0, 1, 2]


def test_a_request_that_opts_in_twice_counts_once() -> None:
    house = market(owner="", borrower="")
    running = fill(house, "borrower", 10, opted_in=False)
    for _ in range(2):
        running[0].revocable()

    house.arrive("owner", 1, width=2)

    assert asked(running) == []


def test_victims_are_of_the_lowest_priority_then_of_the_highest_share() -> None:
    house = market(16, owner="", low="priority: -1", much="", some="")
    low, much, some = fill(house, "low", 6), fill(house, "much", 6), fill(house, "some", 3)

    house.arrive("owner", 1)
    assert (len(asked(low)), len(asked(much)), len(asked(some))) == (1, 0, 0)
    house.arrive("owner", 2)
    assert (len(asked(low)), len(asked(much)), len(asked(some))) == (2, 1, 0)


def test_a_queue_that_has_lost_all_its_seats_asks_for_none() -> None:
    house = market(owner="", borrower="")
    running = fill(house, "borrower", opted_in=False)
    [waits] = house.arrive("owner")
    house.queues.update("owner", max=0)

    assert not running[0].revocable().is_set()
    assert waits.is_waiting


def test_those_that_ended_are_forgotten() -> None:
    house = market(owner="", borrower="")
    for _ in range(300):
        [one] = fill(house, "borrower", 1)
        house.end(one)
    reclaimer = house.controller.reclaimer
    assert reclaimer is not None
    assert len(reclaimer._known) <= 200

    house.arrive("owner", 20)
    assert reclaimer.asked == {}


def test_a_claim_looks_at_each_running_request_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    house = market(310, owner="", borrower="")
    fill(house, "borrower", 300)
    looks = 0
    revoked = Admission.revoked

    def look(admission: Admission) -> Revocation:
        nonlocal looks
        looks += 1
        found: Revocation = revoked.__get__(admission)
        return found

    monkeypatch.setattr(Admission, "revoked", property(look))
    house.arrive("owner", 40)
    assert 0 < looks <= 40 * 4 * 300


def test_a_queue_that_has_what_it_deserves_looks_at_no_running_request() -> None:
    house = market(owner="", borrower="")
    fill(house, "borrower", 5)
    fill(house, "owner", 5)
    reclaimer = house.controller.reclaimer
    assert reclaimer is not None
    known = reclaimer._known

    house.arrive("owner", 3)

    assert reclaimer._known is known


def gated(house: NamedQueueServer) -> Gates:
    """Let a controller with the gate ``db`` take the place of the one of ``house``."""
    gates = Gates()
    gates.capacity("db", limit=1)
    house.controller = Controller(house.configuration, gates, now=lambda: house.now, alarm=lambda *_: NullAlarm())
    house.queues = NamedQueues(house.controller)
    return gates


def arrive_at_gate(house: NamedQueueServer, gates: Gates) -> Admission:
    """Let a request of the owner wait for its gate, which is closed."""
    gates.close("db")
    destination = house.controller.destination(Classification("catch-all", "owner", "flow", 7), Work())
    destination.gates = ("db",)
    admission = Admission(destination)
    house.controller.arrive(house.now, admission)
    return admission


def test_a_removed_level_whose_request_a_gate_admits_asks_nobody() -> None:
    house = market(owner="", borrower="")
    gates = gated(house)
    running = fill(house, "borrower")
    waits = arrive_at_gate(house, gates)
    house.controller.reconfigure(market(borrower="").configuration)

    gates.open("db")

    assert asked(running) == []
    house.end(running[0])
    assert waits.is_seated


def test_a_reload_that_lets_a_request_pass_its_gate_claims_for_the_new_levels() -> None:
    family = server(11) + "".join(
        level(name, f"shares: 100, minSeats: 0{parent}")
        for name, parent in (("tenants", ""), ("owner", ", parent: tenants"), ("borrower", ""))
    )
    house = NamedQueueServer(family)
    gates = gated(house)
    running = fill(house, "borrower")
    first, second = arrive_at_gate(house, gates), arrive_at_gate(house, gates)
    gates.resize("db", 2)
    gates.open("db")
    assert len(asked(running)) == 1
    assert house.controller.levels["owner"].shared.queueset.parked == 1, "the second one tries after the first"
    house.controller.reconfigure(market(12, owner="", borrower="").configuration)

    assert first.is_seated
    assert second.is_waiting
    assert len(asked(running)) == 1, "that seat comes free for the second one"


def test_an_owner_that_deserves_more_after_a_reload_asks_for_it() -> None:
    house = market(owner="maxSeats: 1", borrower="")
    [runs] = fill(house, "owner", 1, opted_in=False)
    running = fill(house, "borrower", 9)
    house.arrive("owner")
    assert runs.is_seated
    assert asked(running) == []
    house.controller.reconfigure(market(owner="", borrower="").configuration)
    assert len(asked(running)) == 1


def test_an_owner_that_is_opened_asks_for_what_its_waiting_requests_deserve() -> None:
    house = market(owner="", borrower="")
    running = fill(house, "borrower")
    house.queues.operate("owner", "pause")
    house.arrive("owner", 2)
    assert asked(running) == []
    house.queues.operate("owner", "open")
    assert len(asked(running)) == 2


def test_an_owner_that_deserves_more_after_a_reload_that_pauses_it_asks_for_nothing() -> None:
    house = market(owner="maxSeats: 1", borrower="")
    fill(house, "owner", 1, opted_in=False)
    running = fill(house, "borrower", 9)
    house.arrive("owner")
    house.controller.reconfigure(market(owner="state: Paused", borrower="").configuration)
    assert asked(running) == []


def test_an_owner_that_its_gate_admits_reclaims_as_a_new_arrival() -> None:
    house = market(owner="", borrower="")
    gates = gated(house)
    running = fill(house, "borrower")
    waits = arrive_at_gate(house, gates)
    assert house.controller.levels["owner"].shared.queueset.parked == 1
    assert asked(running) == []

    gates.open("db")

    assert house.controller.levels["owner"].shared.queueset.parked == 0
    assert len(asked(running)) == 1
    house.end(running[asked(running)[0]])
    assert waits.is_seated
