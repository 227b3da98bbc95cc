"""The second server: its clock stops where it must, and everything is bounded; `property/test_shadow` has the rest."""

import pytest

from apf_middleware.config import load_text
from apf_middleware.fairqueuing import Reason, TicketState, Work
from apf_middleware.runtime.time_limits import LEAST_NS
from tests.support.shadow_world import MS, SECOND, Client, ShadowWorld, config_text

SPEC = "{shares: 30, waitLimit: 10s, queuing: {queues: 1, handSize: 1, queueLengthLimit: 50}}"
REJECTING = "{shares: 30, response: Reject}"


def world(real: int, shadow: int, levels: tuple[str, str] = (SPEC, SPEC)) -> ShadowWorld:
    """Return a world with so many seats for both servers."""

    def text(seats: int) -> str:
        return config_text(seats=seats, discipline="equal-serial", borrowing="immediate", levels=levels)

    return ShadowWorld(load_text(text(real)), load_text(text(shadow)))


def clients(number: int, every: int = MS, lasts: int = 100 * MS, leaves_after: int | None = None) -> list[Client]:
    return [
        Client(
            one,
            at := one * every + one,
            "flow",
            "a",
            Work(),
            lasts + one,
            None if leaves_after is None else at + leaves_after,
        )
        for one in range(number)
    ]


def test_a_request_that_the_real_server_delays_ends_earlier_with_more_seats() -> None:
    two = world(1, 9)
    two.run(clients(3))

    assert [two.real.runs[number].outcome for number in range(3)] == ["at-once", "waited", "waited"]
    assert two.shadow_runs() == dict.fromkeys(range(3), ("at-once", 0))


def test_the_clock_stops_until_a_duration_is_known() -> None:
    two = world(1, 9)
    for one in clients(3):
        two.real.expect(one)
    two.real.events.run(50 * MS)
    assert two.shadow.settle(100)
    assert two.shadow.lag_ns == 50 * MS - (MS + 1), "the second request has seats only in the shadow"

    two.real.events.run(150 * MS)
    two.shadow.settle(100)
    assert two.shadow.lag_ns == 150 * MS - (2 * MS + 2), "now the second one runs, but the third one waits"

    two.real.events.run(250 * MS)
    two.shadow.settle(100)
    assert two.shadow.lag_ns == 2 * 100 * MS + 1 - (2 * MS + 2), "it runs, and began so much earlier in the shadow"

    two.real.events.run()
    two.shadow.settle(100)
    assert two.shadow.lag_ns == 0


def test_rejected_requests_have_the_usual_duration() -> None:
    two = world(1, 2, (REJECTING, SPEC))
    two.run(clients(4, every=60 * MS))

    assert [two.real.runs[number].outcome for number in range(4)] == ["at-once", "concurrency-limit"] * 2
    assert two.shadow_runs() == dict.fromkeys(range(4), ("at-once", 0))
    assert [two.requests[number].is_assumed for number in range(4)] == [False, True, False, True]
    [tally] = two.shadow.tallies.schemas.values()
    assert tally.assumed == 2


def test_a_hang_up_ends_the_wait_in_the_shadow_too() -> None:
    two = world(1, 1)
    two.run(clients(2, leaves_after=30 * MS))

    assert two.real.runs[1].outcome == "cancelled"
    assert two.shadow_runs()[1] == ("cancelled", 0)


def test_a_client_that_hung_up_has_been_served_in_the_shadow() -> None:
    two = world(1, 2)
    two.run(clients(2, leaves_after=30 * MS))

    assert two.shadow_runs()[1] == ("at-once", 0)
    [tally] = two.shadow.tallies.schemas.values()
    assert tally.assumed == 1


def test_durations_are_assumed_when_too_many_requests_wait_for_one() -> None:
    two = world(1, 30)
    two.shadow.most_delayed = 10
    two.run(clients(40))

    assert set(two.shadow_runs()) == set(range(40))
    [tally] = two.shadow.tallies.schemas.values()
    assert tally.assumed > 0


def test_rejections_count_after_a_duration_was_assumed() -> None:
    two = world(1, 9)
    two.shadow.most_delayed = 2
    two.run(clients(40, leaves_after=30 * MS))

    [tally] = two.shadow.tallies.schemas.values()
    assert sum(tally.numbers) == 40
    assert tally.assumed == 39


def test_a_request_is_delayed_by_few_events_only() -> None:
    two = world(5, 1)
    two.shadow.most_steps = 1
    for one in clients(20, lasts=10 * MS):
        two.real.expect(one)
    two.real.events.run()
    two.real.events.now += SECOND

    assert not two.shadow.settle(1)
    assert two.shadow.settle(1000)
    assert len(two.shadow_runs()) == 20


def test_the_list_of_earlier_requests_is_bounded() -> None:
    two = world(1, 10)
    two.run([Client(0, 0, "flow", "a", Work(), 2 * SECOND), Client(1, 1, "flow", "a", Work(), 3600 * SECOND)])
    two.run(
        [Client(number, number * 20 * MS + 10_000 * SECOND, "flow", "a", Work(), 15 * MS) for number in range(2, 999)]
    )

    assert len(two.shadow._earlier) < 200


def test_an_error_ends_the_shadow_and_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    two = world(1, 1)

    def fail(*_: object) -> None:
        raise LookupError("defect")

    monkeypatch.setattr(two.shadow.durations, "observe", fail)
    for one in clients(3):
        two.real.expect(one)
    two.real.events.run()

    assert [type(error) for error in two.failures] == [LookupError]
    assert two.shadow.is_over
    assert [run.outcome for run in two.real.runs.values()] == ["at-once", "waited", "waited"]


def test_a_fleet_member_has_its_part() -> None:
    two = world(4, 10)
    two.shadow.restrict((1, 5), {})
    two.run(clients(4))

    assert [outcome for outcome, _ in two.shadow_runs().values()] == ["at-once", "at-once", "waited", "waited"]
    assert repr(two.shadow).startswith("<ShadowServer: <ShadowTallies")


@pytest.mark.parametrize(("part", "most"), [((1, 2), 2), ((0, 2), 0), (None, 1)])
def test_a_fleet_member_has_its_part_of_a_max(part: tuple[int, int] | None, most: int) -> None:
    """Of the tried max of three seats: as much as of the max in force, or as of all seats, rounded up."""
    two = world(8, 12, (SPEC.replace("shares", "maxSeats: 3, shares"), SPEC))
    two.shadow.restrict((4, 12), {} if part is None else {"a": part})
    for one in clients(4):
        two.real.expect(one)
    two.real.events.run(50 * MS)
    two.shadow.settle(100)

    assert sum(request.admission.state is TicketState.SEATED for request in two.requests.values()) == most


def test_a_part_of_a_fleet_holds_from_its_time_on() -> None:
    """The clock of the shadow has stopped when the part grows: what happened before is played first."""
    two = world(1, 9)
    two.shadow.restrict((1, 9), {})
    for one in clients(2):
        two.real.expect(one)
    two.real.events.run(50 * MS)
    two.shadow.restrict((2, 9), {})
    two.real.events.run()
    two.shadow.settle(100)

    assert two.shadow_runs() == {0: ("at-once", 0), 1: ("waited", 50 * MS - (MS + 1))}


def test_a_request_that_is_refused_before_it_asks_for_seats_is_refused_in_both() -> None:
    two = world(1, 1)
    two.run(clients(1))
    request = two._observe(clients(1)[0])
    request.refused = Reason.BODY_LIMIT
    two.shadow.note_unserved(request, 2)
    two.shadow.settle(100)

    assert request.admission.reason is Reason.BODY_LIMIT


@pytest.mark.parametrize(("left", "outcome"), [(0, Reason.DEADLINE), (LEAST_NS - 1, Reason.DEADLINE), (LEAST_NS, None)])
def test_a_request_has_to_have_some_time_left_when_it_arrives(left: int, outcome: Reason | None) -> None:
    two = world(1, 1)
    request = two._observe(clients(1)[0])
    request.left_ns = left
    two.shadow.settle(100)

    assert request.admission.reason is outcome


@pytest.mark.parametrize(("left", "outcome"), [(-1, Reason.DEADLINE), (50 * MS, Reason.DEADLINE), (SECOND, None)])
def test_a_wait_ends_at_the_deadline(left: int, outcome: Reason | None) -> None:
    two = world(1, 1)
    two.run(clients(1, lasts=100 * MS))
    first, second = (two._observe(one) for one in clients(2))
    second.left_ns = left
    two.real.events.now += 100 * MS
    two.shadow.note_ended(first, 100 * MS)
    two.real.events.now += SECOND
    two.shadow.settle(100)

    assert second.admission.reason is outcome
