"""What follows from the interval and the lease."""

import pytest

from apf_middleware.runtime.fleet.timing import FleetTiming

MS = 10**6


@pytest.mark.parametrize(
    ("interval", "lease", "margin", "patience"), [(250, 5000, 100, 1000), (10, 100, 50, 20), (1000, 4000, 80, 2000)]
)
def test_times_follow_from_interval_and_lease(interval: int, lease: int, margin: int, patience: int) -> None:
    timing = FleetTiming(interval * MS, lease * MS)

    assert (timing.margin_ns, timing.patience_ns) == (margin * MS, patience * MS)
    assert (timing.timeout_ns, timing.opening_ns) == (patience * MS // 2, lease * MS // 2)
    assert (timing.interval_ns, timing.lease_ns) == (interval * MS, lease * MS)
