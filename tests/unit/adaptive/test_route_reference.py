"""What is known of one route."""

from math import log

import pytest

from apf_middleware.adaptive.route_reference import RouteReference


def feed(reference: RouteReference, *values: float) -> RouteReference:
    reference.count = len(values)
    reference.weight = 0.5 * reference.count
    reference.total = 0.5 * sum(values)
    return reference


def test_a_route_is_known_after_ten_samples() -> None:
    reference = feed(RouteReference(), *[log(1e9)] * 9)
    reference.learn(0.0)
    assert (reference.is_known, reference.seconds) == (False, 0.0)

    feed(reference, *[log(1e9)] * 10).learn(0.0)
    assert reference.seconds == pytest.approx(1.0)
    assert "1 s" in repr(reference)


def test_a_route_that_is_first_seen_in_slow_times_gets_its_own_part_of_the_duration() -> None:
    reference = feed(RouteReference(), *[log(3e9)] * 10)
    reference.learn(log(3))

    assert reference.seconds == pytest.approx(1.0)


def test_a_known_route_learns_its_difference_from_the_others() -> None:
    reference = feed(RouteReference(), *[log(1e9)] * 10)
    reference.learn(0.0)

    feed(reference, 0.5, 0.5).learn(0.5)  # all are slower by as much
    assert reference.seconds == pytest.approx(1.0)
    feed(reference, 0.5, 0.5).learn(0.0)
    assert reference.value == pytest.approx(log(1e9) + 0.1)
