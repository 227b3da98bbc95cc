"""The service gap: measured over any interval in which both wait, and only then."""

from apf_middleware.testing import ServiceGap

SECOND = 10**9


def test_the_gap_is_the_drift_of_two_waiting_flows() -> None:
    gap = ServiceGap([0, 1])
    gap.wait(0, 0, 1)
    gap.wait(0, 1, 1)
    gap.occupy(0, 0, 2)
    gap.occupy(3 * SECOND, 0, -2)

    assert gap.seat_seconds == 6


def test_service_while_the_other_flow_is_idle_is_no_gap() -> None:
    gap = ServiceGap([0, 1])
    gap.wait(0, 0, 1)
    gap.occupy(0, 0, 2)
    gap.occupy(3 * SECOND, 0, -2)
    gap.wait(4 * SECOND, 1, 1)

    assert gap.seat_seconds == 0


def test_every_interval_counts_not_only_the_whole() -> None:
    gap = ServiceGap([0, 1])
    for flow in (0, 1):
        gap.wait(0, flow, 1)
    for begin, flow in ((0, 0), (1, 1), (2, 1), (3, 0)):
        gap.occupy(begin * SECOND, flow, 1)
        gap.occupy((begin + 1) * SECOND, flow, -1)

    assert gap.seat_seconds == 2  # though in the end both have had the same


def test_an_interval_ends_when_one_of_them_has_nothing_waiting() -> None:
    gap = ServiceGap([0, 1])
    for flow in (0, 1):
        gap.wait(0, flow, 1)
    for begin in (0, 2):
        gap.occupy(begin * SECOND, 0, 1)
        gap.occupy((begin + 1) * SECOND, 0, -1)
        gap.wait((begin + 1) * SECOND, 1, -1)
        gap.wait((begin + 1) * SECOND, 1, 1)

    assert gap.seat_seconds == 1


def test_other_flows_are_ignored() -> None:
    gap = ServiceGap([5])
    gap.wait(0, 1, 1)
    gap.occupy(0, 1, 1)

    assert gap.seat_seconds == 0
