"""The controller of the total of seats, before servers that are formulas."""

from collections import Counter
from itertools import groupby, pairwise
from statistics import fmean

import pytest

from apf_middleware.adaptive import AdaptiveSettings, AdaptiveTotal, LimitReason, RequestOutcome
from tests.support.modelled_server import STEP_NS, ModelledServer, sharing

SEEDS = range(1, 6)
UP, DOWN = LimitReason.TRY_UP, LimitReason.TRY_DOWN


def server(capacity: float = 40, start: int = 20, ceiling: int = 400, seed: int = 1, **settings: int) -> ModelledServer:
    total = AdaptiveTotal(AdaptiveSettings(1, ceiling, start, **settings))
    return ModelledServer(total, sharing(capacity), seed=seed)


def test_it_begins_with_the_start_or_with_the_floor() -> None:
    assert AdaptiveTotal(AdaptiveSettings(5, 9, 7)).limit == 7
    assert AdaptiveTotal(AdaptiveSettings(5, 9)).limit == 5


@pytest.mark.parametrize("start", [1, 20, 200])
def test_it_finds_the_capacity(start: int) -> None:
    found = server(start=start)
    found.run(30)

    assert 36 <= fmean(found.run(30)) <= 50


@pytest.mark.parametrize(("before", "after", "seconds"), [(40, 10, 10), (40, 80, 10), (10, 40, 10)])
def test_it_follows_the_capacity(before: int, after: int, seconds: int) -> None:
    totals = []
    for seed in SEEDS:
        found = server(before, seed=seed)
        found.run(30)
        found.slowdown = sharing(after)
        found.run(seconds)
        totals += found.run(20)

    assert 0.85 * after <= fmean(totals) <= 1.25 * after


def test_capacity_that_comes_back_is_found_at_25_requests_a_second() -> None:
    """A try of a seat more needs some 250 of them, one of two seats a fourth, and fewer if the result is clear."""
    times, few = [], []
    for seed in SEEDS:
        found = server(20, seed=seed)
        found.demand, found.routes = 40, [("all", 0.2)]
        found.run(40)
        found.slowdown = sharing(5)
        found.run(20)
        few += found.run(30)
        found.slowdown = sharing(20)
        limits = found.run(30)
        times.append(next(at / 20 for at in range(len(limits)) if min(limits[at : at + 20]) >= 13))

    assert fmean(few) <= 7
    assert fmean(times) <= 5
    assert max(times) <= 12


def test_a_start_that_is_far_too_large_is_left_within_seconds() -> None:
    found = server(start=200)
    found.demand = 200  # all of them run, nobody waits

    assert found.run(4)[-1] <= 60


def test_the_way_up_from_one_seat_takes_seconds() -> None:
    assert server(start=1).run(5)[-1] >= 30


def test_of_a_larger_total_only_what_is_used_is_taken() -> None:
    found = server(capacity=1000, start=50)
    found.demand = 60
    found.run(20)

    assert found.total.limit == 60


@pytest.mark.parametrize("start", [39, 42, 45, 49])
def test_seats_that_nobody_waits_for_may_be_too_many(start: int) -> None:
    """Each of 40 connections sends one request after the other, and the server serves 20 of them well."""
    found = server(20, start)
    found.demand = 40
    found.run(20)

    assert 17 <= fmean(found.run(60)) <= 27


def test_seats_that_nobody_waits_for_stay_if_all_are_of_use() -> None:
    found = server(1000, 45)
    found.demand = 40
    found.run(10)

    assert set(found.run(60)) == {45}


@pytest.mark.parametrize("floor", [10, 11, 12])
def test_no_total_is_tried_that_is_not_less_than_what_is_used(floor: int) -> None:
    found = ModelledServer(AdaptiveTotal(AdaptiveSettings(floor, 400, 12)), sharing(1000), demand=10)

    assert set(found.run(60)) == {12}
    assert found.total.reason is LimitReason.BOUND
    assert found.total.elasticity is None


def test_the_ceiling_is_a_bound() -> None:
    found = server(1000, start=50, ceiling=50)
    found.run(10)

    assert LimitReason.BOUND in found.reasons
    assert max(found.limits) == 50


def test_durations_that_vary_widely_hide_no_congestion() -> None:
    """Of these, four in ten take e times as long as usual, or an e-th of it."""
    totals = []
    for seed in SEEDS:
        found = server(40, start=90, seed=seed)
        found.sigma = 1.2
        found.run(40)
        totals += found.run(30)

    assert fmean(totals) <= 1.35 * 40


def test_three_requests_a_second_are_enough_to_leave_a_total_that_is_too_large() -> None:
    """Within ten seconds there would be too few."""
    totals = []
    for seed in SEEDS:
        found = server(2, start=8, seed=seed)
        found.routes = [("all", 0.65)]
        found.run(300)
        totals += found.run(300)

    assert fmean(totals) <= 4


def test_longer_requests_are_no_congestion() -> None:
    found = server()
    found.run(30)
    found.routes = [("all", 0.2)]
    found.run(5)

    assert fmean(found.run(30)) >= 36


def test_another_mix_of_routes_is_no_congestion() -> None:
    found = server()
    found.routes = [("fast", 0.005)] * 9 + [("slow", 0.5)]
    found.run(30)
    found.routes = [("fast", 0.005), ("slow", 0.5)]
    found.run(2)

    assert min(found.run(20)) >= 30


@pytest.mark.parametrize("cached", [1, 9])
@pytest.mark.parametrize("route", ["cached", "query"])
def test_requests_that_need_no_backend_hide_no_congestion(cached: int, route: str) -> None:
    found = server(start=5)
    found.routes = [(route, 0.002)] * cached + [("query", 0.2)]
    found.steady = {0.002}
    found.run(60)

    assert 32 <= fmean(found.run(60)) <= 60


@pytest.mark.parametrize("route", ["cached", "query"])
def test_requests_that_need_no_backend_hide_no_congestion_of_the_start(route: str) -> None:
    """The requests of the start take a second, and each try as long as ten of them."""
    found = server(start=200)
    found.routes = [(route, 0.002), ("query", 0.2)]
    found.steady = {0.002}
    found.run(180)

    assert 32 <= fmean(found.run(60)) <= 60


@pytest.mark.parametrize("names", [900, 20_000])
def test_names_in_paths_hide_no_free_capacity(names: int) -> None:
    found = server(start=5)
    found.routes = [(f"GET /users/{number}", 0.05) for number in range(names)]
    found.run(30)

    assert 36 <= fmean(found.run(30)) <= 55


@pytest.mark.parametrize("seconds", [10, 30])
def test_long_requests_hide_no_free_capacity(seconds: int) -> None:
    found = server(start=5)
    found.routes = [("all", seconds)]
    found.run(20 * seconds)

    assert 32 <= fmean(found.run(20 * seconds)) <= 60


def test_seats_that_are_promised_to_idle_levels_hide_no_congestion() -> None:
    """A tenth more seats in total are a twentieth more for those who wait, and make requests a twentieth slower."""
    for seed in SEEDS:
        found = server(20, seed=seed)
        found.usable = lambda total: min(total, 10 + total // 2)
        found.demand, found.routes, found.sigma = 40, [("all", 0.2)], 0.1
        found.run(20)

        assert 18 <= fmean(found.usable(total) for total in found.run(40)) <= 24


def test_a_try_that_moves_no_seat_is_repeated_with_a_larger_step() -> None:
    found = server(20, start=45)
    found.usable = lambda total: 10 + total // 40 * 10
    assert found.usable(found.run(40)[-1]) == 20

    found.slowdown = sharing(100)
    assert found.usable(found.run(40)[-1]) >= 60
    assert LimitReason.UNUSED in found.reasons


def test_it_does_not_grow_while_nobody_waits() -> None:
    found = server()
    found.demand = 15
    limits = found.run(120)

    assert set(limits) == {20}
    assert found.total.reason is LimitReason.UNUSED


def test_it_does_not_grow_without_requests() -> None:
    found = server()
    found.demand = 0

    assert set(found.run(60)) == {20}
    assert found.total.reason is LimitReason.SAMPLES


def test_fast_errors_never_make_it_grow() -> None:
    found = server()
    found.run(30)
    found.failing, found.outcome = 0.9, RequestOutcome.ERROR
    begin = len(found.reasons)
    found.run(20)

    assert LimitReason.GREW not in found.reasons[begin:]
    assert found.total.reason is LimitReason.FAILURES


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [(RequestOutcome.REFUSED, LimitReason.REFUSED), (RequestOutcome.TIMED_OUT, LimitReason.TIMED_OUT)],
)
def test_refusals_and_time_outs_cut_it(outcome: RequestOutcome, reason: LimitReason) -> None:
    found = server()
    found.run(30)
    before = found.total.limit
    found.failing, found.outcome = 0.2, outcome
    limits = found.run(5)

    assert limits[-1] <= 0.6 * before
    assert reason in found.reasons
    assert min(limits) >= 1


def test_a_late_event_loop_cuts_it_and_it_comes_back() -> None:
    found = server(lag_target_ns=2_000_000)
    found.run(30)
    before = found.total.limit
    found.lag = 1_000_000
    found.run(2)
    assert LimitReason.LAG not in found.reasons

    found.lag = 3_000_000
    assert found.run(5)[-1] <= 0.6 * before
    assert LimitReason.LAG in found.reasons

    found.lag = 0
    found.run(15)
    assert fmean(found.run(10)) >= 36


def test_it_stays_within_its_bounds() -> None:
    found = ModelledServer(AdaptiveTotal(AdaptiveSettings(10, 15, 12)), sharing(40))
    assert max(found.run(20)) == 15

    found.slowdown = sharing(1)
    found.run(20)
    assert min(found.run(30)) == 10


def test_from_the_floor_it_goes_up_by_a_small_step() -> None:
    found = ModelledServer(AdaptiveTotal(AdaptiveSettings(10, 15, 12)), sharing(40))
    found.run(20)
    found.slowdown = sharing(1)
    limits = found.run(20)
    lowest = limits.index(10)

    assert max(limits[lowest:]) < 15, "a cut after a jump goes on to the floor with a step that would double it"


def test_each_decision_has_a_reason() -> None:
    found = server()
    found.run(60)

    assert {LimitReason.GREW, LimitReason.TRY_UP, LimitReason.NO_GAIN, LimitReason.NEEDED} <= set(found.reasons)
    assert repr(found.total) == f"<AdaptiveTotal: {found.total.limit} seats, {found.total.reason}>"


def test_the_same_input_has_the_same_result() -> None:
    assert server().run(30) == server().run(30)


def test_a_step_of_one_seat_is_taken_as_a_whole_or_not_at_all() -> None:
    """Of a larger step, that part is taken that made requests faster."""
    found = ModelledServer(AdaptiveTotal(AdaptiveSettings(2, 9, 5)), lambda running: running**0.7)
    found.sigma, found.routes = 0.2, [("all", 0.01)]
    elasticities: dict[bool, list[float]] = {True: [], False: []}
    center = 5
    for _ in range(4_000):
        before, reason = found.total.limit, found.total.reason
        found.run(0.05)
        if found.total.reason is LimitReason.TRY_DOWN:
            center = before if reason is not LimitReason.TRY_DOWN else center
        elif reason is LimitReason.TRY_DOWN and center == before + 1:
            elasticities[found.total.reason is LimitReason.SHRANK].append(found.total.elasticity or 0.0)

    assert max(elasticities[False]) > 0.5, "one that isn't sure was tried"
    assert min(elasticities[True], default=1) > 0.75


# Requests that take equally long, so that each decision is certain


class EvenServer(ModelledServer):
    """A server by formula that tells its decisions apart."""

    def __init__(self, capacity: float, start: int, floor: int = 1, ceiling: int = 400, **settings: int) -> None:
        super().__init__(AdaptiveTotal(AdaptiveSettings(floor, ceiling, start, **settings)), sharing(capacity))
        self.sigma = 0.0

    def decide(self, seconds: float) -> list[tuple[int, str]]:
        """Go on for so long; return the totals and reasons of this time, each one once in succession."""
        begin = len(self.limits)
        self.run(seconds)
        return [one for one, _ in groupby(zip(self.limits[begin:], self.reasons[begin:], strict=True))]


def test_where_there_is_room_each_step_doubles_the_total_and_follows_at_once() -> None:
    totals, reasons = zip(*EvenServer(1000, 20).decide(2.4), strict=True)

    assert reasons == (LimitReason.START, UP, LimitReason.GREW, LimitReason.GREW, LimitReason.GREW)
    assert all(1.9 < later / earlier < 2.1 for earlier, later in pairwise(totals))


def test_from_a_few_seats_on_the_first_steps_are_larger() -> None:
    totals = [total for total, _ in EvenServer(1000, 2).decide(2)]

    assert totals[:3] == [2, 8, 32]
    assert totals[3] < 2.1 * 32


def test_the_first_steps_are_as_large_after_a_time_in_which_the_only_seat_was_seldom_in_use() -> None:
    found = EvenServer(1000, 1)
    for number in range(200):
        found.demand = int(number % 4 == 0)
        found.run(0.1)
    assert set(found.limits) == {1}
    assert found.total.reason is LimitReason.UNUSED
    found.demand = 1000
    totals = [total for total, _ in found.decide(4)]

    assert totals[:3] == [1, 4, 16]


def test_of_a_step_beyond_the_capacity_that_part_is_taken_that_was_of_use() -> None:
    decisions = EvenServer(30, 20).decide(3)

    assert decisions[:3] == [(20, LimitReason.START), (40, UP), (30, LimitReason.GREW)]
    assert decisions[3] == (33, UP), "a small step follows"


def test_the_total_grows_on_while_further_seats_are_of_some_use() -> None:
    found = EvenServer(40, 10)
    found.slowdown = lambda running: running**0.3
    decisions = found.decide(9)

    assert [reason for _, reason in decisions[:3]] == [LimitReason.START, UP, LimitReason.GREW]
    assert decisions[3][0] < 1.2 * decisions[2][0], "a small step follows one that made requests slower"
    assert {reason for _, reason in decisions[4:]} == {LimitReason.GREW}
    assert decisions[-1][0] > 100


def test_tries_at_the_capacity() -> None:
    """A failed try is followed by a smaller one, downwards at first, and windows between tries."""
    found = EvenServer(40, 40)
    decisions = found.decide(6.4)
    gain, needed, measured = LimitReason.NO_GAIN, LimitReason.NEEDED, LimitReason.MEASURED

    assert [reason for _, reason in decisions[1:]] == [
        UP,
        gain,
        DOWN,
        needed,
        UP,
        gain,
        measured,
        DOWN,
        needed,
        UP,
        gain,
        measured,
    ]
    assert {total for total, reason in decisions if reason in {gain, needed, measured}} == {40}
    tried = [total for total, reason in decisions if reason in {UP, DOWN}]
    assert tried == sorted(tried, key=lambda total: -abs(total - 40))

    many = Counter(reason for _, reason in found.decide(120))
    assert 8 <= many[UP] / many[DOWN] <= 10, "all seats are needed"
    assert many[measured] == pytest.approx(many[UP], abs=3)


def test_much_less_capacity_is_found_at_once_and_so_is_the_way_back() -> None:
    found = EvenServer(40, 40)
    found.run(10)
    found.slowdown = sharing(10)
    cut = found.decide(3)[1:]

    assert cut[:2] == [(20, LimitReason.SLOWER), (10, LimitReason.SHRANK)]
    assert {total for total, _ in cut[2:]} <= {9, 10, 11}
    found.slowdown = sharing(100)
    decisions = found.decide(4)
    assert DOWN not in {reason for _, reason in decisions[2:]}
    assert decisions[-1][0] >= 80


def test_longer_requests_cost_one_try() -> None:
    found = EvenServer(40, 40)
    found.run(10)
    found.routes = [("all", 0.2)]
    decisions = found.decide(30)
    cut = [number for number, (_, reason) in enumerate(decisions) if reason is LimitReason.SLOWER]

    assert len(cut) == 1
    assert decisions[cut[0] + 1] == (40, LimitReason.NEEDED)
    assert min(total for total, _ in decisions[cut[0] + 1 :]) >= 36


def test_short_requests_that_end_first_hide_no_room() -> None:
    """The first window shows only these, and the durations of all others seem to be an effect of the first try."""
    found = EvenServer(40, 20)
    found.routes = [("query", 0.002)]
    found.run(0.5)
    found.routes = [("query", 0.2)]
    decisions = found.decide(6)

    assert decisions[:3] == [(40, UP), (20, LimitReason.NO_GAIN), (40, UP)]
    assert decisions[4] == (40, LimitReason.NO_GAIN), "what was found first is the capacity"


def test_short_requests_that_end_first_hide_no_congestion() -> None:
    found = EvenServer(40, 160)
    found.routes = [("query", 0.002)]
    found.run(0.5)
    found.routes = [("query", 0.2)]
    reasons = [reason for _, reason in found.decide(20)]

    assert reasons[1:4] == [LimitReason.NO_GAIN, LimitReason.SLOWER, LimitReason.SHRANK]
    assert found.total.limit <= 48


def test_requests_that_become_longer_during_a_later_try_are_no_wrong_start() -> None:
    found = EvenServer(30, 20)
    while found.total.limit != 33:
        found.run(0.05)
    found.routes, found.slowdown = [("all", 0.1)], sharing(60)

    reasons = [reason for _, reason in found.decide(5)]
    assert reasons[:4] == [UP, LimitReason.NO_GAIN, LimitReason.SLOWER, LimitReason.NEEDED]


@pytest.mark.parametrize("direction", [UP, DOWN])
def test_requests_that_become_faster_during_a_try_say_nothing_about_it(direction: LimitReason) -> None:
    found = EvenServer(40, 40)
    found.run(5)
    while found.total.reason is not direction:
        found.run(0.05)
    found.routes = [("all", 0.01)]
    decisions = found.decide(2)

    assert decisions[1] == (40, LimitReason.MEASURED)
    assert {reason for _, reason in decisions[2:]}.isdisjoint({LimitReason.GREW, LimitReason.SHRANK})


@pytest.mark.parametrize("start", [40, 60, 80])
def test_the_effect_of_tries_on_a_server_that_collapses_is_not_taken_for_another(start: int) -> None:
    found = EvenServer(40, start)
    found.slowdown = lambda running: max(1.0, (running / 40) ** 3)
    found.run(30)
    assert set(found.run(30)) <= set(range(32, 51))

    found.slowdown = lambda running: max(1.0, (running / 15) ** 3)
    found.run(30)
    assert set(found.run(30)) <= set(range(12, 20))


def test_fewer_seats_are_tried_if_requests_become_longer_while_some_fewer_are() -> None:
    found = EvenServer(40, 40)
    found.run(60)
    while found.total.reason is not DOWN:
        found.run(0.05)
    found.slowdown = lambda running: 1.6 * max(1.0, running / 40)

    assert found.decide(3)[:4] == [(36, DOWN), (36, LimitReason.SLOWER), (24, DOWN), (36, LimitReason.NEEDED)]


def test_a_try_downwards_that_changes_no_seats_of_use_is_not_repeated_for_ever() -> None:
    """The floor is near, and all seats below are promised."""
    found = EvenServer(20, 60, floor=58)
    found.usable = lambda total: max(20, total - 42)
    found.routes = [("all", 0.01)]
    found.run(30)
    found.slowdown = sharing(40)

    assert found.usable(found.run(20)[-1]) >= 36


def test_a_jump_cuts_no_seats_that_are_unused_and_none_below_the_floor() -> None:
    unused, least = EvenServer(40, 20), EvenServer(10, 10, floor=10, ceiling=10)
    unused.demand = 12
    for found in (unused, least):
        found.run(5)
        found.slowdown = lambda running: 4 * max(1.0, running / 10)
        found.run(5)

        assert LimitReason.SLOWER not in found.reasons
        assert len(set(found.limits)) == 1


def test_seats_for_which_nobody_waits_are_halved_at_first() -> None:
    found = EvenServer(40, 80)
    found.demand = 80

    assert found.decide(2)[:4] == [
        (80, LimitReason.START),
        (40, DOWN),
        (20, LimitReason.SHRANK),
        (40, LimitReason.NEEDED),
    ]


def test_refusals_cut_a_fifth_twice_a_second_until_they_end() -> None:
    found = EvenServer(40, 40)
    found.run(10)
    found.failing, found.outcome = 1.0, RequestOutcome.REFUSED
    totals = [total for total, _ in found.decide(5)][1:]

    assert len(totals) >= 8
    assert all(later == earlier * 4 // 5 for earlier, later in pairwise(totals))
    found.failing = 0.0
    assert next(total for total, reason in found.decide(2) if reason is UP) >= 3 * totals[-1], "a large step"


def test_refusals_of_a_few_requests_cut_no_seats_that_are_unused() -> None:
    found = EvenServer(40, 20)
    found.demand, found.failing, found.outcome = 5, 0.5, RequestOutcome.REFUSED

    assert set(found.run(5)) == {20}
    assert found.total.reason is LimitReason.REFUSED


@pytest.mark.parametrize(("target", "lag", "is_late"), [(0, 10**9, False), (5, 5, False), (5, 6, True)])
def test_an_event_loop_is_late_beyond_its_target(target: int, lag: int, *, is_late: bool) -> None:
    found = EvenServer(40, 40, lag_target_ns=target)
    found.lag = lag
    found.run(5)

    assert (LimitReason.LAG in found.reasons) is is_late


def test_a_window_lasts_longer_if_too_few_end_of_those_that_wait() -> None:
    total, begins = AdaptiveTotal(AdaptiveSettings(1, 9, 2)), [0]
    for number in range(415 * 10**9 // STEP_NS):
        total.note(number * STEP_NS, 2, waiting=number * STEP_NS < 300 * 10**9)
        total.decide(number * STEP_NS)
        if total.window.begin != begins[-1]:
            begins.append(total.window.begin)

    assert [(later - earlier) // 10**9 for earlier, later in pairwise(begins)] == [10, 20, 40, 80, 80, 80, 80, 10, 10]
