"""What probes of an event loop say about the delays of everything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.adaptive import LagWindow
from apf_middleware.exceptions import InvalidValueError

MS = 10**6
SECOND = 10**9


def window_of(*probes: tuple[int, int]) -> LagWindow:
    """Return a window with probes of these gaps and lags, in milliseconds."""
    window = LagWindow(3600 * SECOND)
    now = 0
    for gap, lag in probes:
        now += (gap + lag) * MS
        window.observe(now, gap * MS, lag * MS)
    return window


def test_without_probes_there_is_no_lag() -> None:
    window = LagWindow()

    assert (len(window), window.share_above(0), window.count_above(0), window.quantile(0.99)) == (0, 0.0, 0, 0)


def test_a_loop_in_time_has_no_lag() -> None:
    assert window_of(*[(20, 0)] * 100).quantile(1.0) == 0


def test_one_long_block_counts_for_all_that_would_have_waited() -> None:
    window = window_of(*[(20, 0)] * 50, (20, 1000))  # of 2.02 s, one was blocked

    assert window.share_above(500 * MS) == pytest.approx((20 + 500) / 2020)
    assert window.quantile(0.5) == pytest.approx(10 * MS, rel=0.01)
    assert window.quantile(0.99) == pytest.approx((1020 - 20.2) * MS, rel=0.001)
    assert window.count_above(2 * MS) == 1


def test_probes_count_for_the_gaps_before_them() -> None:
    sparse_and_dense = window_of(*[(200, 0)] * 10, *[(20, 5), (20, 0)] * 5)

    assert sparse_and_dense.share_above(2 * MS) == pytest.approx(5 * (20 + 3) / (2000 + 200 + 25))


def test_a_loop_that_is_blocked_all_the_time_is_late_all_the_time() -> None:
    """Each callback takes 20 ms, and the next one follows at once: the delay is uniform from 0 to 20 ms."""
    window = window_of(*[(20, lag) for lag in range(20)] * 5)

    assert window.quantile(0.5) == pytest.approx(10 * MS, rel=0.5)
    assert window.share_above(2 * MS) > 0.8


def test_old_probes_are_forgotten() -> None:
    window = LagWindow(1 * SECOND)
    window.observe(0, 20 * MS, 50 * MS)
    window.observe(SECOND, 20 * MS, 0)
    assert len(window) == 2
    window.forget(SECOND + 1)
    assert (len(window), window.quantile(1.0)) == (1, 0)
    window.forget(3 * SECOND)
    assert len(window) == 0
    window.observe(4 * SECOND, 20 * MS, 0)
    window.observe(6 * SECOND, 20 * MS, 0)
    assert len(window) == 1
    window.restart()
    assert len(window) == 0


@pytest.mark.parametrize("fraction", [-0.1, 1.1])
def test_a_fraction_is_part_of_one(fraction: float) -> None:
    with pytest.raises(InvalidValueError, match="it must be from 0 to 1"):
        window_of((20, 1)).quantile(fraction)


@pytest.mark.parametrize(("gap", "lag"), [(0, 0), (1, -1)])
def test_a_probe_has_a_gap_and_no_negative_lag(gap: int, lag: int) -> None:
    with pytest.raises(InvalidValueError):
        LagWindow().observe(0, gap, lag)


@given(
    st.lists(st.tuples(st.integers(1, 100), st.sampled_from([0, 0, 0, 1, 2, 5, 30, 400])), min_size=1, max_size=40),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99, 1.0]),
)
def test_a_quantile_is_the_smallest_delay_that_is_exceeded_no_longer_than_allowed(
    probes: list[tuple[int, int]], fraction: float
) -> None:
    window = window_of(*probes)
    found = window.quantile(fraction)

    assert window.share_above(found + 1) <= 1 - fraction + 1e-9
    if found > 1:
        assert window.share_above(found - 2) >= 1 - fraction - 1e-9


def test_it_shows_itself() -> None:
    assert repr(window_of((20, 3))) == "<LagWindow: 1 probes, 99 % within 3.0 ms>"
