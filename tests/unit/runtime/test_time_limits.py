"""A wait ends early enough for the answer, and may always take half of the time."""

import pytest

from apf_middleware.classification import Classification
from apf_middleware.config import load
from apf_middleware.estimation import LearnedCosts
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.time_limits import limit_time

MS = 10**6
PLACE = Classification("anonymous-clients", "anonymous", "10.0.0.0/24", 7)


def limited(left: int, durations: list[int], route: str | None = "GET /") -> Admission:
    """Return a request that arrives at 1000 ms and has so much time left, after others of such durations."""
    costs = LearnedCosts()
    for duration in durations:
        costs.observe("GET /", duration, 1)
    destination = Controller(load()).destination(PLACE, Work())
    destination.route = route
    admission = Admission(destination)
    limit_time(admission, 1000 * MS, left, costs)
    return admission


@pytest.mark.parametrize(
    ("left", "durations", "latest"),
    [
        (400, [50] * 20, 1350),
        (400, [50] * 2, 1400),  # too few are known
        (400, [], 1400),
        (60, [50] * 20, 1030),
        (400, [900] * 20, 1200),
        (0, [50] * 20, 1000),
        (-300, [50] * 20, 700),
    ],
)
def test_when_a_wait_ends(left: int, durations: list[int], latest: int) -> None:
    admission = limited(left * MS, [one * MS for one in durations])

    assert admission.latest_start_ns == latest * MS
    assert admission.deadline_ns == (1000 + left) * MS


def test_a_route_that_is_too_long_to_be_learned_has_the_whole_time() -> None:
    assert limited(400 * MS, [50 * MS] * 20, None).latest_start_ns == 1400 * MS


def test_a_new_route_leaves_the_time_that_others_took_when_they_were_new() -> None:
    assert limited(400 * MS, [50 * MS] * 20, "GET /users/alice").latest_start_ns == 1350 * MS


def test_durations_that_vary_leave_more_time() -> None:
    steady, varying = limited(4000 * MS, [50 * MS] * 40), limited(4000 * MS, [20 * MS, 80 * MS] * 20)
    assert steady.latest_start_ns is not None
    assert varying.latest_start_ns is not None

    assert varying.latest_start_ns < steady.latest_start_ns - 100 * MS


def test_an_admission_without_a_limit_has_none() -> None:
    admission = Admission(Controller(load()).destination(PLACE, Work()))

    assert (admission.deadline, admission.remaining, admission.latest_start_ns) == (None, None, None)
