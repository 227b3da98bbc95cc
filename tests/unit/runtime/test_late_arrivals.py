"""Requests that can't be in time are rejected on arrival or only counted; some are let through nevertheless."""

import pytest

from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime import Admission
from apf_middleware.runtime.wait_errors import WaitErrors
from tests.support.deadline_arrivals import MS, DeadlineArrivals


def test_a_request_behind_too_much_work_is_rejected_at_once() -> None:
    server = DeadlineArrivals()
    server.fill(waiting=10)
    late = server.arrive(left_ms=500)

    assert late.reason is Reason.DEADLINE
    assert late.rejected_at == late.arrived_at == server.now
    assert server.controller.levels["web"].shared.queueset.waiting == 10
    assert (server.outcome("late"), server.outcome("rejected")) == (1, 1)


def test_a_request_with_time_enough_waits() -> None:
    server = DeadlineArrivals()
    server.fill(waiting=10)

    assert server.arrive(left_ms=3000).is_waiting
    assert server.outcome("late") == 0


def test_a_request_without_a_deadline_waits() -> None:
    server = DeadlineArrivals()
    server.fill(waiting=100)

    assert server.arrive().is_waiting


def test_the_backlog_of_another_flow_rejects_none() -> None:
    server = DeadlineArrivals()
    server.fill(waiting=100)

    assert server.arrive(flow=2, left_ms=20).is_waiting


def test_in_the_shadow_a_late_request_is_counted_and_waits() -> None:
    server = DeadlineArrivals("shadow")
    server.fill(waiting=10)

    assert server.arrive(left_ms=500).is_waiting
    assert (server.outcome("late"), server.outcome("rejected")) == (1, 0)


def test_a_late_request_does_not_delay_others_in_the_prediction() -> None:
    server = DeadlineArrivals("shadow")
    server.fill(waiting=10)
    first, second = server.arrive(left_ms=500), server.arrive(left_ms=500)

    assert first.predicted_wait_ns == second.predicted_wait_ns


def test_off_predicts_nothing() -> None:
    server = DeadlineArrivals("off")
    server.fill(waiting=10)

    assert server.arrive(left_ms=500).is_waiting
    assert server.controller.late_arrivals is None


def test_one_in_twenty_waits_nevertheless() -> None:
    server = DeadlineArrivals()
    server.fill(waiting=100)
    waiting = [server.arrive(left_ms=500).is_waiting for _ in range(60)]

    assert [place for place, waits in enumerate(waiting) if waits] == [19, 39, 59]


def test_no_more_than_a_fifth_of_a_queue_waits_nevertheless() -> None:
    server = DeadlineArrivals()
    server.fill(waiting=16)
    waiting = [server.arrive(left_ms=500) for _ in range(200)]

    passed = [one for one in waiting if one.is_waiting]
    assert len(passed) == 5
    for admission in passed:
        server.controller.abandon(admission, Reason.CANCELLED)
    assert any(server.arrive(left_ms=500).is_waiting for _ in range(20))


def test_a_request_must_be_in_time_even_if_the_usual_error_adds_to_its_wait() -> None:
    server = DeadlineArrivals()
    server.fill(waiting=10)  # it would wait for 1100 ms, and 50 ms are kept for its run

    assert server.arrive(left_ms=1300).reason is Reason.DEADLINE
    assert server.arrive(left_ms=1320).is_waiting


def wait_for(server: DeadlineArrivals, waited_ms: int) -> None:
    """Let requests get their seats after ``waited_ms`` that were predicted to wait for 1100 ms."""
    for _ in range(30):
        admission = server.arrive()
        server.late.note_left(server.now + waited_ms * MS, admission, is_seated=True)
        server.controller.abandon(admission, Reason.CANCELLED)


def test_good_predictions_need_no_more_time() -> None:
    server = DeadlineArrivals()
    server.fill(waiting=10)
    wait_for(server, 1100)

    assert server.arrive(left_ms=1210).is_waiting


def test_bad_predictions_reject_none() -> None:
    server = DeadlineArrivals()
    server.fill(waiting=10)
    assert server.arrive(left_ms=500).reason is Reason.DEADLINE

    errors = server.late._errors["web"] = WaitErrors()
    for _ in range(30):
        errors.learn(1100 * MS, 500 * MS)
    hurried = server.arrive(left_ms=500)
    assert hurried.predicted_wait_ns == 1100 * MS
    assert hurried.is_waiting


def test_a_wait_that_the_deadline_ends_is_no_error_if_it_was_predicted_to_be_longer() -> None:
    server = DeadlineArrivals("shadow")
    server.fill(waiting=10)
    late = [server.arrive(left_ms=100) for _ in range(30)]
    server.now = 100 * MS
    for admission in late:
        server.controller.abandon(admission, Reason.DEADLINE)

    assert server.outcome("missed") == 30
    server.controller.reconfigure(server.configure("on"))
    assert server.arrive(left_ms=500).reason is Reason.DEADLINE


def test_unknown_durations_reject_none() -> None:
    server = DeadlineArrivals(duration_ms=None)
    server.fill(waiting=50)
    found = server.arrive(left_ms=10)

    assert found.is_waiting
    assert found.predicted_wait_ns is None


def test_a_level_that_is_held_rejects_none() -> None:
    server = DeadlineArrivals()
    server.fill(waiting=10)
    server.controller.operate(server.controller.levels["web"], held=True, closing=False)

    assert server.arrive(left_ms=100).is_waiting


def with_one_late() -> tuple[DeadlineArrivals, Admission]:
    """Return a server with a request that seemed late when it arrived, and the one that runs; others have left."""
    server = DeadlineArrivals("shadow")
    running, *waiting = server.fill(waiting=10)
    server.arrive(left_ms=500)
    for admission in waiting:
        server.controller.abandon(admission, Reason.CANCELLED)
    return server, running


def test_late_requests_that_get_seats_in_time_are_counted() -> None:
    server, running = with_one_late()
    server.controller.release(running)

    assert server.outcome("in-time") == 1
    assert (server.late.predicted_ns["web"], server.late.waited_ns["web"]) == (0, 0), "others are ahead no longer"
    assert not server.late._passing


def test_a_late_request_that_gets_its_seat_after_its_deadline_is_not_counted_as_in_time() -> None:
    server, running = with_one_late()
    server.now = 500 * MS
    server.controller.release(running)

    assert server.late.outcomes == {("web", "late"): 1}


def test_of_requests_that_were_not_late_only_the_waits_are_counted() -> None:
    server = DeadlineArrivals("shadow")
    [running] = server.fill()
    server.arrive(left_ms=3000)
    server.now = 70 * MS
    server.controller.release(running)

    assert not server.late.outcomes
    assert (server.late.predicted_ns["web"], server.late.waited_ns["web"]) == (100 * MS, 70 * MS)


def test_a_client_that_leaves_before_its_deadline_is_not_counted_as_missed() -> None:
    server = DeadlineArrivals("shadow")
    server.fill(waiting=10)
    late = server.arrive(left_ms=500)
    server.now = 100 * MS
    server.controller.abandon(late, Reason.CANCELLED)

    assert server.late.outcomes == {("web", "late"): 1}


def test_waits_that_end_at_the_deadline_are_counted() -> None:
    server = DeadlineArrivals("shadow")
    server.fill(waiting=10)
    late = server.arrive(left_ms=500)
    server.now = 500 * MS
    server.controller.abandon(late, Reason.DEADLINE)

    assert (server.outcome("missed"), server.outcome("in-time")) == (1, 0)


def test_predicted_and_real_waits_are_summed() -> None:
    server = DeadlineArrivals()
    running = server.fill()[0]
    server.arrive(left_ms=2000)
    server.now = 60 * MS
    server.controller.release(running)

    assert server.late.waited_ns == {"web": 60 * MS}
    assert server.late.predicted_ns["web"] == 100 * MS


@pytest.mark.parametrize("mode", ["on", "shadow"])
def test_a_reload_keeps_the_counts(mode: str) -> None:
    server = DeadlineArrivals("on" if mode == "shadow" else "shadow")
    server.fill(waiting=10)
    server.arrive(left_ms=500)
    server.controller.reconfigure(server.configure(mode))
    after = server.arrive(left_ms=500)

    assert after.is_waiting is (mode == "shadow")
    assert server.outcome("late") == 2


def test_a_reload_may_end_predictions_while_requests_wait() -> None:
    server = DeadlineArrivals()
    running, *_ = server.fill(waiting=3)
    server.controller.reconfigure(server.configure("off"))
    server.controller.release(running)
    server.controller.reconfigure(server.configure("on"))
    before = server.arrive(left_ms=2000)

    assert before.is_waiting
    assert server.controller.levels["web"].shared.queueset.waiting == 3


def test_the_text_tells_the_mode() -> None:
    assert repr(DeadlineArrivals().late) == "<LateArrivals on: {}>"
