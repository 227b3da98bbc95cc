"""Predicted waits follow from the work ahead in the own queue, and are forgotten when it is empty."""

import pytest

from apf_middleware.classification import Classification
from apf_middleware.config import load_text
from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.wait_prediction import WaitPrediction
from tests.support.deadline_arrivals import MS, DeadlineArrivals


def test_a_request_with_nothing_ahead_waits_for_the_next_seat() -> None:
    server = DeadlineArrivals(seats=4)
    server.fill(4)

    assert server.arrive().predicted_wait_ns == 25 * MS


def test_the_work_ahead_takes_its_time() -> None:
    server = DeadlineArrivals(seats=4)
    server.fill(4, waiting=8)

    assert server.arrive().predicted_wait_ns == (8 * 25 + 25) * MS


def test_wide_requests_ahead_count_with_their_width() -> None:
    server = DeadlineArrivals(seats=4)
    server.fill(4)
    server.arrive(width=4)

    assert server.arrive().predicted_wait_ns == (100 + 25) * MS


def test_flows_with_nothing_ahead_come_first_and_backlogs_do_not() -> None:
    server = DeadlineArrivals(seats=4)
    server.fill(4)
    server.fill(0, waiting=4, flow=2)
    short = server.arrive(flow=3).predicted_wait_ns
    server.fill(0, waiting=400, flow=2)

    assert server.arrive(flow=4).predicted_wait_ns == 25 * MS + 25 * MS
    assert short == 25 * MS + 25 * MS


def test_requests_that_came_before_any_duration_was_known_do_not_look_like_slow_service() -> None:
    server = DeadlineArrivals(duration_ms=None)
    running = server.fill(1, waiting=24)
    for admission in running[:20]:
        server.now += 100 * MS
        server.controller.release(admission)
    predicted = [server.arrive(left_ms=4000).predicted_wait_ns for _ in range(15)]

    assert None not in predicted
    for ahead, wait_ns in enumerate(predicted, 4):
        assert wait_ns == pytest.approx((ahead + 1) * 100 * MS, rel=0.05)


def test_requests_that_take_longer_than_expected_do_not_look_like_slow_service() -> None:
    server = DeadlineArrivals()
    requests = server.fill(1, waiting=12)
    for served in range(30):
        server.now += 1000 * MS
        server.controller.release(requests[served])
        if served >= 8:  # three wait, and one has just begun
            requests.append(server.arrive(left_ms=60_000))
            predicted = requests[-1].predicted_wait_ns
            assert predicted is not None
            assert predicted < 5000 * MS


def test_requests_of_unknown_routes_count_like_usual_ones() -> None:
    server = DeadlineArrivals()
    server.fill(1)
    for _ in range(40):
        server.arrive(route="GET /new")

    assert server.arrive().predicted_wait_ns == (40 * 100 + 100) * MS
    assert server.arrive(route="GET /new").predicted_wait_ns == (41 * 100 + 100) * MS


def test_a_duration_that_is_learned_elsewhere_is_used_at_once() -> None:
    server = DeadlineArrivals(duration_ms=None)
    server.fill(1, waiting=3)
    for _ in range(20):
        server.costs.observe("GET /", 100 * MS, 1)

    assert server.arrive().predicted_wait_ns == 100 * MS, "nothing is known of those ahead"
    assert server.arrive().predicted_wait_ns == (4 * 100 + 100) * MS


def test_requests_that_give_up_do_not_look_like_quick_service() -> None:
    server = DeadlineArrivals()
    waiting = server.fill(1, waiting=8)[1:]
    for admission in waiting[:4]:
        server.controller.abandon(admission, Reason.CANCELLED)

    assert server.arrive().predicted_wait_ns == (4 * 100 + 100) * MS


def test_late_requests_are_not_ahead_of_others() -> None:
    server = DeadlineArrivals("shadow")
    running, _ = server.fill(1), server.arrive(flow=2)
    late = server.arrive(flow=2, left_ms=1)
    assert (late.is_waiting, server.outcome("late")) == (True, 1)
    server.controller.release(running[0])

    assert server.arrive(flow=2).predicted_wait_ns == 100 * MS


def test_a_pause_does_not_count_as_slow_service() -> None:
    server = DeadlineArrivals(seats=4)
    running = server.fill(4, waiting=8)
    level = server.controller.levels["web"]
    server.controller.operate(level, held=True, closing=False)
    server.now += 60_000 * MS
    server.arrive()
    for admission in running[:4]:
        server.controller.release(admission)
    server.controller.operate(level, held=False, closing=False)

    predicted = server.arrive().predicted_wait_ns
    assert predicted is not None
    assert predicted <= (5 * 25 + 25) * MS


def test_nothing_is_predicted_while_a_level_has_no_seats() -> None:
    """Others may keep the seats that they have borrowed for any time."""
    text = """
apiVersion: apf/v1
kind: Server
spec: {seats: 4, defaults: none, deadlines: {prediction: "on"}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: web}
spec: {shares: 1, lendablePercent: 100, queuing: {queues: exact}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: batch}
spec: {shares: 1}
"""
    costs = DeadlineArrivals().costs
    controller = Controller(load_text(text), costs=costs, now=lambda: 0)

    def arrive(level: str) -> Admission:
        admission = Admission(controller.destination(Classification("all", level, "flow", 1), Work()))
        admission.destination.route = "GET /"
        controller.arrive(0, admission)
        return admission

    assert [arrive("batch").is_seated for _ in range(3)] == [True, True, False], "two are promised to catch-all"
    waiting = arrive("web")

    assert waiting.is_waiting
    assert waiting.predicted_wait_ns is None


def test_queues_without_waiting_requests_are_forgotten() -> None:
    server = DeadlineArrivals()
    running, first, second = server.fill(waiting=2)
    assert repr(server.late.prediction) == "<WaitPrediction: 2 requests wait, 1 levels>"

    server.controller.abandon(first, Reason.CANCELLED)
    server.controller.release(running)
    assert second.is_seated
    assert repr(server.late.prediction) == "<WaitPrediction: 0 requests wait, 1 levels>"
    assert server.arrive().predicted_wait_ns == 100 * MS


def test_requests_that_never_joined_are_ignored() -> None:
    server = DeadlineArrivals()
    prediction = WaitPrediction(server.costs)
    place = Classification("all", "web", "flow", 1)
    prediction.leave(0, Admission(server.controller.destination(place, Work())), is_seated=True)

    assert repr(prediction) == "<WaitPrediction: 0 requests wait, 0 levels>"


def test_levels_that_a_reload_has_removed_are_forgotten() -> None:
    for is_busy in (False, True):
        server = DeadlineArrivals()
        requests = server.fill(waiting=2)
        if not is_busy:
            for admission in requests:
                server.controller.release(admission)
        server.controller.reconfigure(server.configure("shadow"))
        assert repr(server.late.prediction).endswith(" 1 levels>"), "a level that stays isn't forgotten"
        server.controller.reconfigure(server.configure("on", level="people"))
        if is_busy:
            assert repr(server.late.prediction) == "<WaitPrediction: 2 requests wait, 1 levels>"
            for admission in requests:
                server.controller.release(admission)
        assert repr(server.late.prediction) == "<WaitPrediction: 0 requests wait, 0 levels>"
