"""What a window of time collects."""

from math import exp, log, sqrt

import pytest

from apf_middleware.adaptive import RequestOutcome
from apf_middleware.adaptive.sample_window import SampleWindow

MS = 10**6


def observe(window: SampleWindow, now: int, durations: list[int], route: str = "all") -> None:
    for duration in durations:
        window.observe(now, route, duration, RequestOutcome.SUCCESS)


@pytest.fixture
def learnt() -> SampleWindow:
    """Return a window that begins at 1 s, for which a route takes 10 ms and another 100 ms."""
    window = SampleWindow(0)
    for end in (500, 1000):  # in the first one the routes are learnt, in the second one what is typical
        observe(window, end * MS, [10 * MS] * 200)
        observe(window, end * MS, [100 * MS] * 10, "slow")
        window.restart(end * MS, 0.0, learns=True)
    return window


def test_routes_that_are_not_known_have_no_vote() -> None:
    window = SampleWindow(0)
    observe(window, 500 * MS, [10 * MS] * 20)

    assert (window.samples, window.unknown) == (0, 20)
    assert window.summary(500 * MS).succeeded == 20


def test_routes_that_are_adopted_vote_for_no_change() -> None:
    window = SampleWindow(0)
    observe(window, 500 * MS, [10 * MS, 20 * MS] * 10)
    observe(window, 500 * MS, [100 * MS] * 9, "seldom")
    window.adopt()
    seen = window.summary(500 * MS)

    assert (seen.samples, seen.level) == (20, 0)
    assert seen.spread == pytest.approx(log(2) / 2)


def test_adopted_routes_take_the_level_of_those_that_are_known(learnt: SampleWindow) -> None:
    observe(learnt, 1500 * MS, [16 * MS, 25 * MS] * 5)
    observe(learnt, 1500 * MS, [7 * MS, 28 * MS] * 5, "new")
    observe(learnt, 1500 * MS, [MS] * 20, "short")  # which weigh 0.4
    learnt.adopt()
    seen = learnt.summary(1500 * MS)

    assert seen.level == pytest.approx(log(2))
    assert seen.samples == pytest.approx(28, rel=0.05)
    assert seen.spread == pytest.approx(sqrt((log(1.25) ** 2 + log(2) ** 2) * 10 / seen.samples))
    for _ in range(2):
        assert learnt._routes["new"].seconds == pytest.approx(0.007)
        assert learnt._routes["short"].seconds == pytest.approx(0.0005)
        learnt.restart(2000 * MS, log(2), learns=True)


def test_samples_weigh_as_much_as_they_contribute_to_the_seats_in_use(learnt: SampleWindow) -> None:
    """Half of the time in which seats are in use is that of requests longer than 150 ms."""
    for begin in (1000, 10_000):
        learnt.restart(begin * MS, 0.0, learns=False)
        observe(learnt, (begin + 5000) * MS, [10 * MS] * 100)
        observe(learnt, (begin + 5000) * MS, [200 * MS] * 10, "slow")

    assert learnt.samples == pytest.approx(10 + 100 * 4 * 10 / 150, rel=0.15)
    assert learnt.mean == pytest.approx(log(2) * 10 / learnt.samples)


def test_routes_that_are_not_known_change_no_weight_of_others(learnt: SampleWindow) -> None:
    for begin in (1000, 20_000):
        learnt.restart(begin * MS, 0.0, learns=False)
        observe(learnt, (begin + 9000) * MS, [5000 * MS] * 4, "new")
        observe(learnt, (begin + 9000) * MS, [10 * MS] * 20)

    assert learnt.samples == 20


def test_what_comes_from_a_cache_does_not_move_the_level(learnt: SampleWindow) -> None:
    levels = []
    for window, cached in enumerate([0, 90, 90, 300, 90, 0], 1):
        observe(learnt, 1000 * (window + 1) * MS - 1, [100_000] * cached + [100 * MS] * 10, "slow")
        levels.append(learnt.mean)
        learnt.restart(1000 * (window + 1) * MS, levels[0], learns=True)

    assert levels == pytest.approx([levels[0]] * 6, abs=0.2)
    assert learnt._routes["slow"].seconds == pytest.approx(0.1, rel=0.2)


def test_a_window_is_new_if_a_new_route_takes_most_of_the_time(learnt: SampleWindow) -> None:
    observe(learnt, 9000 * MS, [10 * MS] * 20)
    for name in range(20):
        observe(learnt, 9000 * MS, [500 * MS] * 3, f"GET /reports/{name}")
    assert not learnt.is_new  # names of objects don't come often enough to be learnt
    observe(learnt, 9000 * MS, [40 * MS] * 5, "GET /orders")
    assert not learnt.is_new

    observe(learnt, 9000 * MS, [75 * MS] * 5, "GET /reports")
    assert learnt.is_new


def test_seats_count_once_the_window_has_settled(learnt: SampleWindow) -> None:
    learnt.note(1000 * MS, 1, 0, usable=0.1)
    learnt.note(1050 * MS, 5, 0, usable=0.2)
    learnt.note(1000 * MS + round(learnt.settling_ns) + 1, 9, 1, usable=0.7)
    learnt.note(3000 * MS, 9, 1, usable=0.7)

    assert learnt.summary(4000 * MS).in_use == pytest.approx(9, abs=0.2)
    assert learnt.summary(4000 * MS).usable == pytest.approx(0.7, abs=0.02)
    assert learnt.summary(4000 * MS).pressed == pytest.approx(1, abs=0.05)


def test_the_mix_of_routes_does_not_move_the_level(learnt: SampleWindow) -> None:
    observe(learnt, 1500 * MS, [20 * MS] * 10)
    fast = learnt.summary(1500 * MS).level
    observe(learnt, 1500 * MS, [200 * MS] * 90, "slow")

    assert fast == pytest.approx(log(2))
    assert learnt.summary(1500 * MS).level == pytest.approx(log(2))
    assert learnt.summary(1500 * MS).spread == pytest.approx(0, abs=1e-6)


def test_requests_that_started_before_the_window_do_not_count(learnt: SampleWindow) -> None:
    observe(learnt, 1300 * MS, [301 * MS])
    assert learnt.samples == 0
    observe(learnt, 1300 * MS, [300 * MS])
    assert learnt.samples == 1


def test_nothing_counts_while_only_short_requests_can_have_ended(learnt: SampleWindow) -> None:
    settled = 1000 * MS + round(3 * learnt.duration_ns)
    observe(learnt, settled - 10 * MS, [10 * MS])
    assert learnt.samples == 0
    observe(learnt, settled + 10 * MS, [10 * MS])
    assert learnt.samples == 1


def test_an_outlier_counts_as_e_times_the_usual(learnt: SampleWindow) -> None:
    observe(learnt, 9000 * MS, [10 * MS] * 99 + [5000 * MS])

    assert learnt.summary(9000 * MS).level == pytest.approx(1 / 99)


def test_what_slows_all_requests_down_moves_the_level_by_as_much(learnt: SampleWindow) -> None:
    """Also if many are outliers before and after."""
    durations = [2 * MS] * 15 + [10 * MS] * 70 + [50 * MS] * 15
    levels = []
    for window, tenths in enumerate([10, 10, 11], 1):
        observe(learnt, 9000 * window * MS - 1, [tenths * duration // 10 for duration in durations])
        levels.append(learnt.summary(9000 * window * MS).level)
        learnt.restart(9000 * window * MS, 0.0, learns=False)

    assert levels[2] - levels[1] == pytest.approx(log(1.1), abs=0.03)


def test_many_long_requests_are_no_outliers(learnt: SampleWindow) -> None:
    observe(learnt, 9000 * MS, [10 * MS] * 30 + [1000 * MS] * 70)

    assert learnt.summary(9000 * MS).level == pytest.approx(log(100) - 30 / 70)


def test_errors_and_refusals_have_no_duration(learnt: SampleWindow) -> None:
    for times, outcome in enumerate(RequestOutcome, 1):
        for _ in range(times):
            learnt.observe(1500 * MS, "all", 10 * MS, outcome)
    seen = learnt.summary(1500 * MS)

    assert (seen.samples, seen.succeeded, seen.failed, seen.timed_out, seen.refused) == (4, 1, 2, 3, 4)
    assert learnt.troubles == 9


def test_states_are_weighted_by_time(learnt: SampleWindow) -> None:
    learnt.note(1000 * MS, 4, 0)
    learnt.note(1300 * MS, 8, 3, usable=0.5)
    learnt.note(1400 * MS, 8, 3, usable=0.5, is_late=True)
    seen = learnt.summary(1500 * MS)

    assert seen.in_use == pytest.approx((0.3 * 4 + 0.2 * 8) / 0.5)
    assert seen.usable == 0
    assert seen.pressed == pytest.approx(0.4)
    assert seen.lagged == pytest.approx(0.2)


def test_what_can_be_used_counts_while_somebody_waits(learnt: SampleWindow) -> None:
    learnt.note(1000 * MS, 4, 0, usable=0.1)
    learnt.note(1200 * MS, 8, 3, usable=0.5)
    learnt.note(1300 * MS, 8, 3, usable=0.8)

    assert learnt.summary(1500 * MS).usable == learnt.usable == pytest.approx((0.1 * 0.5 + 0.2 * 0.8) / 0.3)


def test_the_first_requests_count_alike_and_later_the_recent_ones() -> None:
    window = SampleWindow(0)
    observe(window, 500 * MS, [10 * MS, 30 * MS, 50 * MS])
    assert window.duration_ns == pytest.approx(30 * MS)

    observe(window, 500 * MS, [10 * MS] * 1000 + [30 * MS] * 200)
    assert window.duration_ns == pytest.approx(30 * MS, rel=0.02)


def test_what_comes_from_a_cache_hardly_changes_how_long_requests_take(learnt: SampleWindow) -> None:
    before = learnt.duration_ns
    observe(learnt, 1500 * MS, [100_000] * 200)

    assert learnt.duration_ns == pytest.approx(before, rel=0.2)


def test_a_request_may_end_when_it_begins(learnt: SampleWindow) -> None:
    """Clocks may be coarse."""
    observe(learnt, 1500 * MS, [0, 10 * MS])

    assert learnt.succeeded == 2


@pytest.mark.parametrize(("duration", "seconds"), [(5000 * MS, 0.01 * exp(0.2)), (100_000, 0.01 * exp(-0.2))])
def test_outliers_change_what_is_known_of_a_route_no_more_than_others(
    learnt: SampleWindow, duration: int, seconds: float
) -> None:
    observe(learnt, 9000 * MS, [duration] * 20)
    learnt.restart(9000 * MS, 0.0, learns=True)

    assert learnt._routes["all"].seconds == pytest.approx(seconds)


def test_a_route_learns_from_a_window_once(learnt: SampleWindow) -> None:
    observe(learnt, 1500 * MS, [20 * MS] * 10)
    learnt.adopt()
    assert learnt._routes["all"].seconds == pytest.approx(0.01)

    for end in range(2000, 5000, 1000):
        learnt.restart(end * MS, 0.0, learns=True)
        assert learnt._routes["all"].seconds == pytest.approx(0.01 * 2**0.2)

    observe(learnt, 4500 * MS, [20 * MS] * 3)
    learnt.restart(5000 * MS, 0.0, learns=True)
    assert learnt._routes["all"].seconds == pytest.approx(0.01 * 2**0.36)


def test_the_next_window_keeps_what_is_known_of_routes(learnt: SampleWindow) -> None:
    observe(learnt, 1500 * MS, [30 * MS] * 10)
    learnt.observe(1500 * MS, "all", 30 * MS, RequestOutcome.ERROR)
    learnt.restart(2000 * MS, 0.7, learns=False)

    assert (learnt.samples, learnt.mean, learnt.usable, learnt.troubles) == (0, 0.7, 0, 0)
    assert learnt._routes["all"].seconds == pytest.approx(0.01)
    assert learnt.summary(2500 * MS).in_use == 0


def test_a_route_with_few_requests_is_learnt_from_several_windows(learnt: SampleWindow) -> None:
    for window, durations in enumerate([*[[]] * 18, [10 * MS] * 4, [20 * MS] * 4, [40 * MS] * 4], 2):
        observe(learnt, 1000 * window * MS - 1, durations, "seldom")
        learnt.restart(1000 * window * MS, 0.0, learns=True)

    assert learnt._routes["seldom"].seconds == pytest.approx(0.02)


def test_names_of_objects_in_paths_are_measured_together(learnt: SampleWindow) -> None:
    for number in range(3000):
        observe(learnt, 1500 * MS, [10 * MS], f"GET /users/{number}")
    learnt.adopt()
    learnt.restart(2000 * MS, 0.0, learns=True)
    for number in range(3000, 3200):
        observe(learnt, 2500 * MS, [20 * MS], f"GET /users/{number}")

    assert (learnt.samples, learnt.unknown) == (200, 0)
    assert learnt.mean == pytest.approx(log(2))
    assert len(learnt._routes) < 100


def test_a_new_route_is_learnt_once_those_before_it_do_not_come(learnt: SampleWindow) -> None:
    for number in range(100):
        observe(learnt, 1500 * MS, [10 * MS], f"GET /users/{number}")
    for window in range(2, 22):
        learnt.restart(window * 1000 * MS, 0.0, learns=True)
    observe(learnt, 22000 * MS, [30 * MS] * 10, "later")
    learnt.adopt()

    assert learnt._routes["later"].seconds == pytest.approx(0.03)
    assert len(learnt._routes) == 3


def test_there_are_at_most_a_thousand_routes(learnt: SampleWindow) -> None:
    for number in range(1500):
        observe(learnt, (2 + number) * 1000 * MS - 1, [10 * MS] * 10, f"route {number}")
        learnt.restart((2 + number) * 1000 * MS, 0.0, learns=True)

    assert len(learnt._routes) == 1000
    assert "all" not in learnt._routes


def test_a_route_may_make_room_before_it_is_known(learnt: SampleWindow) -> None:
    for window in range(40):
        if window in {0, 12}:
            observe(learnt, (2 + window) * 1000 * MS - 1, [10 * MS], "seldom")
        for number in range(49):
            observe(learnt, (2 + window) * 1000 * MS - 1, [10 * MS] * 10, f"route {window} {number}")
        learnt.restart((2 + window) * 1000 * MS, 0.0, learns=True)

    assert len(learnt._routes) == 1000
    assert "seldom" not in learnt._routes
