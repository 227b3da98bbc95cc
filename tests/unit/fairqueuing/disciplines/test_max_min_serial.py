"""Max-min shares with one expected end for each queue."""

from time import thread_time

import pytest

from apf_middleware.fairqueuing.disciplines.max_min_serial import MaxMinSerial, SerialMeter
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from tests.support.discipline_level import Level

SECOND = 10**9
GUESS = 3_000_000


def test_a_granted_queue_that_asks_for_more_is_expected_to_finish_sooner() -> None:
    def seated_when_a_seat_comes_free(arrivals: tuple[int, ...]) -> list[str]:
        level = Level(MaxMinSerial, seats=10, flows=3)
        level.release(SECOND, level.arrive(0, 0))  # so the others wait too briefly to be served out of turn
        elephants = [level.arrive(SECOND, 0) for _ in range(10)]
        for place, flow in enumerate(arrivals, 1):
            level.arrive(SECOND + 10 * place, flow)
        return level.release(SECOND + 100, elephants[0])

    assert seated_when_a_seat_comes_free((1, 2, 2, 2)) == ["flow 2"]
    assert seated_when_a_seat_comes_free((1, 2)) == ["flow 1"]


def test_equals_of_both_categories_take_turns() -> None:
    """With two seats, one queue asks for one and gets it, the other asks for two and gets one: both end together."""
    for first_flow, second_flow in ((0, 1), (1, 0)):
        level = Level(MaxMinSerial, seats=2, flows=3)
        blocker = level.arrive(0, 2, seats=2)
        level.arrive(0, first_flow)
        level.arrive(0, second_flow)
        level.arrive(0, second_flow)
        assert level.release(0, blocker) == ["flow 0", "flow 1"]  # the next ones round after queue 2


def test_a_long_request_is_charged_while_it_runs() -> None:
    level = Level(MaxMinSerial, seats=2, flows=3)
    level.arrive(0, 0)
    short = level.arrive(0, 1)
    for flow in (0, 1):
        level.arrive(1, flow)
    queue = level.queueset.deck.queues[0]
    level.release(20 * GUESS, short)
    charged = queue.meters()["next_dispatch_w"]
    # One request has run for 20 guesses, charged to within what the level's requests take; the other has a first guess.
    level_guess = GUESS + 19 * GUESS // 16
    assert 20 * GUESS <= charged / (1 << 10) <= 21 * GUESS + level_guess


def test_a_request_is_charged_for_what_those_before_it_took_as_soon_as_it_begins() -> None:
    level = Level(MaxMinSerial, seats=1, flows=1)
    for number in range(30):
        level.release((number + 1) * SECOND, level.arrive(number * SECOND, 0))
    ticket = level.arrive(30 * SECOND, 0)
    level.arrive(30 * SECOND, 0)  # nothing is computed for a request that is alone
    assert ticket.charged == pytest.approx(100_000_000, rel=0.01)


def test_what_a_queue_used_beyond_its_share_stays_as_demand_until_it_is_paid_back() -> None:
    level = Level(MaxMinSerial, seats=1, flows=2)
    first = level.arrive(0, 0)
    second = level.arrive(1, 1)
    assert level.release(SECOND, first) == ["flow 1"]
    assert level.queueset.deck.queues[0].meters() == {"next_dispatch_w": SECOND << 10, "rho": 1, "virtual_ends": 1}
    level.release(2 * SECOND, second)
    assert level.queueset.deck.queues[0].meters()["virtual_ends"] == 0


def meter_with_ends(number: int) -> SerialMeter:
    meter = SerialMeter(0, GUESS)
    meter.share.weight, meter.is_weighted = WEIGHT_ONE, True
    for place in range(number):
        meter.end_virtually(meter.kept(1001 + 7 * place), 1)
    return meter


def reweigh(meter: SerialMeter, position: int, weight: int) -> None:
    former, meter.share.weight = meter.share.weight, weight
    meter.rescale(position, former, weight)


def test_ends_are_ahead_by_the_same_work_after_any_number_of_changes_of_the_weight() -> None:
    meter = meter_with_ends(2)
    for _ in range(1000):
        for weight in (3 * WEIGHT_ONE, WEIGHT_ONE // 7, WEIGHT_ONE):
            reweigh(meter, 1, weight)
            assert meter.next_end() == 1 + 1000 * WEIGHT_ONE // weight
    meter.end_virtually(meter.kept(500), 1)
    assert meter.next_end() == 500
    reweigh(meter, 100, 2 * WEIGHT_ONE)
    assert meter.next_end() == 300


def test_a_change_of_the_weight_takes_the_same_time_for_any_number_of_ends() -> None:
    def taken(number: int) -> float:
        meter = meter_with_ends(number)
        reweigh(meter, 0, 2 * WEIGHT_ONE)  # the first time, each end is converted
        began = thread_time()
        for place in range(1000):
            reweigh(meter, place, (1 + place % 3) * WEIGHT_ONE)
        return thread_time() - began

    few, many = (min(taken(number) for _ in range(3)) for number in (10, 20_000))
    assert many < 20 * few
