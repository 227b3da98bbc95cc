"""Typical durations of requests."""

from apf_middleware.runtime.shadow.durations import MeanDuration, TypicalDurations


def test_a_route_has_the_mean_of_its_own_requests() -> None:
    durations = TypicalDurations()
    orders, reports = durations.of("GET /orders"), durations.of("GET /reports")
    for lasted in (10, 30):
        durations.observe(orders, lasted)
    durations.observe(reports, 500)

    assert durations.of("GET /orders") is orders
    assert durations.guess(orders) == 20
    assert durations.guess(reports) == 500
    assert repr(orders) == "<MeanDuration of 2: 20 ns>"
    assert repr(durations) == "<TypicalDurations: 2 routes, all <MeanDuration of 3: 180 ns>>"


def test_an_unknown_route_has_the_mean_of_all() -> None:
    durations = TypicalDurations()
    assert durations.guess(durations.of(None)) == 0
    assert MeanDuration().mean_ns is None

    durations.observe(durations.of("GET /orders"), 40)
    assert durations.guess(durations.of(None)) == 40


def test_the_routes_are_bounded() -> None:
    durations = TypicalDurations()
    for number in range(10_000):
        durations.observe(durations.of(f"GET /{number}"), 1)

    assert int(repr(durations).split()[1]) <= 2048
