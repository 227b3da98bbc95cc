"""The world in which adaptive limits are judged, and the limiters of others as they are published."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from apf_middleware.adaptive import RequestOutcome
from apf_middleware.config.scenario import read_scenario_text
from apf_middleware.simulation.run import Simulation
from benchmarks.adaptive.aimd import AIMD
from benchmarks.adaptive.backends import Backend, Pool, ProcessorSharing
from benchmarks.adaptive.case import Case, Outage, Route
from benchmarks.adaptive.cases import CASES
from benchmarks.adaptive.envoy import EnvoyGradient
from benchmarks.adaptive.gradient2 import Gradient2
from benchmarks.adaptive.kratos_bbr import KratosBBR
from benchmarks.adaptive.limiter import Limiter, Static
from benchmarks.adaptive.run import LIMITERS, measure
from benchmarks.adaptive.vegas import Vegas
from benchmarks.adaptive.world import World

ROOT = Path(__file__).parents[2]
EVEN = Case(name="even", about="equal requests", capacity=4, seconds=20.0, routes=(Route("all", 0.1, sigma=0.0),))


def completions(backend: Backend, number: int) -> list[tuple[float, int]]:
    return [(backend.next_completion, backend.complete(backend.next_completion)) for _ in range(number)]


def test_processor_sharing_slows_all_requests_down_equally() -> None:
    backend = ProcessorSharing(2)
    for number, size in enumerate((1.0, 2.0, 2.0, 3.0)):
        backend.start(0.0, number, size)

    # four at half the speed, three at two thirds, one alone
    assert completions(backend, 4) == [(2.0, 0), (3.5, 1), (3.5, 2), (4.5, 3)]


def test_a_pool_serves_in_order_of_arrival() -> None:
    backend = Pool(2)
    for number, size in enumerate((3.0, 1.0, 1.0, 1.0)):
        backend.start(0.0, number, size)
    backend.abort(0.5, 2)

    assert completions(backend, 3) == [(1.0, 1), (2.0, 3), (3.0, 0)]


def test_a_backend_without_capacity_pauses() -> None:
    backend = ProcessorSharing(1)
    backend.start(0.0, 1, 1.0)
    backend.change_capacity(0.5, 0)
    backend.change_capacity(2.5, 1)

    assert completions(backend, 1) == [(3.0, 1)]


def test_an_aborted_request_leaves_its_capacity_to_the_others() -> None:
    backend = ProcessorSharing(1)
    backend.start(0.0, 1, 1.0)
    backend.start(0.0, 2, 2.0)
    backend.abort(1.0, 1)

    assert completions(backend, 1) == [(2.5, 2)]


def test_a_collapsing_backend_does_most_at_44() -> None:
    done = {}
    for running in (22, 44, 88):
        backend = ProcessorSharing(1000, contention=0.02, coherence=0.0005)
        for number in range(running):
            backend.start(0.0, number, 1.0)
        done[running] = running / backend.next_completion

    assert done[44] > 1.1 * done[22]
    assert done[44] > 1.1 * done[88]


@pytest.mark.parametrize(("limit", "part"), [(1, 0.25), (2, 0.5), (4, 1.0), (16, 1.0)])
def test_the_limit_decides_what_a_backend_completes(limit: int, part: float) -> None:
    measured = World(replace(EVEN, loads=((0.0, 3.0),)), Static(limit)).run()

    assert measured.completed == pytest.approx(part * 40 * EVEN.seconds, rel=0.02)
    assert max(measured.durations) == pytest.approx(0.1 * max(1, limit / 4))
    assert measured.rejected > 0


def test_a_request_that_times_out_is_no_goodput_and_frees_its_place() -> None:
    case = replace(EVEN, outages=(Outage(5.0, 10.0, None),), time_limit=1.0)
    measured = World(case, Static(4)).run()

    assert sum(measured.needed[6:10]) == 0
    assert sum(measured.needed[12:18]) == pytest.approx(6 * 4, rel=0.05)
    assert 4 * 5 <= measured.failed <= 4 * 6


def test_who_is_rejected_comes_again() -> None:
    case = replace(EVEN, room=9)
    once, again = World(case, Static(4)).run(), World(replace(case, retry_after=1.0), Static(4)).run()

    assert again.rejected > 2 * once.rejected
    assert again.completed >= once.completed


def test_each_limiter_gets_the_same_arrivals() -> None:
    first, second = (list(EVEN.arrivals()) for _ in range(2))

    assert first == second
    assert len(first) == pytest.approx(1.5 * 40 * 20, rel=0.1)
    assert all(before[0] < after[0] for before, after in pairwise(first))


def test_a_row_compares_with_the_best_static_limit() -> None:
    rows = {row["limiter"]: row for row in measure(replace(EVEN, loads=((0.0, 3.0),)))}

    assert rows["best static"]["limit"] == 4
    assert rows["static 0.5 c"]["goodput"] == pytest.approx(0.5, abs=0.02)
    assert rows["static 4 c"]["p99"] == pytest.approx(4, abs=0.05)
    assert rows["static 4 c"]["adapted_s"] is None
    assert rows["static c"]["adapted_s"] == 0
    assert set(LIMITERS) <= set(rows)


def test_cases_have_names_of_their_own_and_loads_that_begin_at_0() -> None:
    assert len({case.name for case in CASES}) == len(CASES) > 20
    assert all(case.loads[0][0] == 0 for case in CASES)


def feed(
    limiter: Limiter, *durations: float, in_flight: int = 100, outcome: RequestOutcome = RequestOutcome.SUCCESS
) -> int:
    for duration in durations:
        limiter.observe(0.0, "all", in_flight, duration, outcome)
    return limiter.limit


def test_gradient2_grows_by_a_fifth_of_its_queue_while_nothing_is_slower() -> None:
    assert feed(Gradient2(), *[0.1] * 10) == 28  # 20 + 10 * 0.2 * 4
    assert feed(Gradient2(), *[0.1] * 10, in_flight=9) == 20
    assert feed(Gradient2(), *[0.1] * 1000) == 200


def test_gradient2_falls_by_a_tenth_when_all_is_three_times_slower() -> None:
    limiter = Gradient2()
    before = feed(limiter, *[0.1] * 1000)

    # the gradient is 0.5 at first: 0.8 * 200 + 0.2 * (0.5 * 200 + 4)
    assert (before, feed(limiter, 0.3)) == (200, 180)


def test_vegas_grows_by_6_at_no_queue_and_falls_by_1_beyond_6() -> None:
    limiter = Vegas()

    assert feed(limiter, 0.1) == 20  # the shortest so far
    assert feed(limiter, 0.1001) == 26
    assert feed(limiter, 0.11) == 26  # a queue of 3 is as wanted
    assert feed(limiter, 0.2) == 25
    assert feed(limiter, 0.11, outcome=RequestOutcome.TIMED_OUT) == 24


def test_envoy_measures_with_three_and_grows_by_gradient_and_root() -> None:
    limiter = EnvoyGradient()
    for _ in range(51):
        limiter.observe(1.0, "all", 3, 0.1, RequestOutcome.SUCCESS)
    limiter.tick(1.2, 3, 0, 1.0)

    assert limiter.limit == 5  # 3 * 1.25 + the root of it

    limiter.tick(75.0, 3, 0, 1.0)
    assert limiter.limit == 3


def test_aimd_grows_by_1_and_falls_by_a_tenth() -> None:
    limiter = AIMD()

    assert feed(limiter, *[0.1] * 30) == 50
    assert feed(limiter, 0.1, outcome=RequestOutcome.REFUSED) == 45
    assert feed(limiter, 6.0) == 40
    assert feed(limiter, 0.1, in_flight=19) == 40


def test_kratos_limits_only_while_the_processor_is_busy() -> None:
    limiter = KratosBBR()
    limits = []
    for second in range(60):
        busy = 1.0 if second < 40 else 0.0
        for tenth in range(10):
            feed(limiter, *[0.0195] * 10)
            limiter.tick(second + tenth / 10, 5, 5, busy)
        limits.append(limiter.limit)

    assert limits[5] == limits[59] == 10_000
    assert limits[30] == 2  # 10 passes in 0.1 s, each of 20 ms


def test_a_server_without_a_number_serves_customers_as_well_as_one_with_the_best() -> None:
    scenario = (ROOT / "examples/scenarios/adaptive/unknown-capacity.yaml").read_text().replace("60s", "13s")

    def served(seats: str) -> float:
        text = scenario.replace("{adaptive: {min: 5, max: 400}}", seats)
        found = Simulation(*read_scenario_text(text).unwrap()).run(seats).tenant("customers")
        return found.served / found.requests

    assert served("{adaptive: {min: 5, max: 400}}") > 0.98
    assert served("40") > 0.99
    assert served("200") < 0.7
