"""What `MaxMinShares` knows of one queue."""

from apf_middleware.fairqueuing.queue_share import Share


def test_a_queue_begins_without_demand_and_is_listed_nowhere() -> None:
    share = Share(3)

    assert (share.index, share.rho, share.weight) == (3, 0, 1)
    assert (share.is_limited, share.is_closed) == (False, False)
    assert (share.at_least, share.at_most) == (0, 0)


def test_the_representation_says_how_much_is_demanded() -> None:
    assert repr(Share(3)) == "<Share 3: 0 seats demanded>"
