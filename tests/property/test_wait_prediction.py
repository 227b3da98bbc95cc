"""Random arrivals: an empty server and an idle level reject none, and more work ahead never means a shorter wait.

That holds whatever errors the predictions had before.
"""

from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import Reason
from tests.support.deadline_arrivals import MS, DeadlineArrivals
from tests.support.examples import examples

LEFT = st.integers(1, 2000)


@given(st.integers(1, 8), st.lists(st.tuples(st.integers(1, 4), LEFT), max_size=20), st.integers(1, 500))
@examples(100)
def test_a_server_with_free_seats_rejects_none(seats: int, requests: list[tuple[int, int]], duration_ms: int) -> None:
    server = DeadlineArrivals(seats=seats, duration_ms=duration_ms)
    for flow, left_ms in requests:
        server.now += MS
        admission = server.arrive(flow, left_ms)
        assert admission.is_seated
        assert admission.predicted_wait_ns is None, "it needn't wait"
        if server.controller.levels["web"].shared.queueset.seats_in_use >= seats:
            server.now += duration_ms * MS
        server.controller.release(admission)


@given(st.integers(1, 8), st.integers(2, 30), st.lists(st.tuples(LEFT, st.integers(0, 200)), max_size=40))
@examples(100)
def test_a_server_that_is_empty_again_rejects_none(seats: int, waiting: int, requests: list[tuple[int, int]]) -> None:
    server = DeadlineArrivals(seats=seats)
    open_requests = server.fill(seats, waiting)
    for left_ms, step_ms in requests:  # some are rejected, and all waits differ from the predicted ones
        open_requests.append(server.arrive(left_ms=left_ms))
        server.now += step_ms * MS
    for admission in open_requests:
        if admission.is_seated:
            server.controller.release(admission)
        elif admission.is_waiting:
            server.controller.abandon(admission, Reason.CANCELLED)
    for admission in open_requests:
        if admission.is_seated:  # it got the seats of one that was released before
            server.controller.release(admission)

    assert all(server.arrive(left_ms=1).is_seated for _ in range(seats))
    assert server.arrive(flow=2, left_ms=1).is_waiting


@given(st.integers(1, 8), st.integers(0, 40), LEFT)
@examples(100)
def test_a_flow_with_nothing_ahead_is_never_rejected(seats: int, waiting: int, left_ms: int) -> None:
    server = DeadlineArrivals(seats=seats)
    server.fill(seats, waiting)

    assert server.arrive(flow=2, left_ms=left_ms).is_waiting


@given(st.integers(1, 8), st.integers(1, 30), st.lists(st.integers(0, 3), max_size=60))
@examples(100)
def test_predictions_grow_with_the_work_ahead(seats: int, waiting: int, steps: list[int]) -> None:
    server = DeadlineArrivals(seats=seats)
    running = server.fill(seats, waiting)
    for step in steps:  # some are served meanwhile, so that the rate is observed
        server.now += 7 * MS
        if step == 0 and server.controller.levels["web"].shared.queueset.waiting > 1:
            server.controller.release(running.pop(0))
        else:
            running.append(server.arrive())
    running.append(server.arrive())
    predictions = [server.arrive().predicted_wait_ns or 0 for _ in range(5)]

    assert predictions == sorted(predictions)
    assert len(set(predictions)) == 5
