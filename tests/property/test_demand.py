"""The demand's running sums against a twin that keeps every sample and adds them up at the end."""

from fractions import Fraction
from math import isnan, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing.demand import Demand, DemandStatistics


class Samples:
    """The plain twin: (when, value) for every change of the period, and the arithmetic of the definition."""

    def __init__(self, now: int, value: int) -> None:
        self.samples = [(now, value)]

    def set(self, now: int, value: int) -> None:
        self.samples.append((now, value))

    def reset(self, now: int) -> None:
        self.samples = [(now, self.samples[-1][1])]

    def expect(self, now: int, statistics: DemandStatistics) -> None:
        """Check that ``statistics`` are those of the period up to ``now``."""
        ends = [when for when, _ in self.samples[1:]] + [now]
        held = [(value, end - when) for (when, value), end in zip(self.samples, ends, strict=True)]
        duration = now - self.samples[0][0]
        assert statistics.duration_ns == duration
        assert statistics.minimum == min(value for value, _ in held)
        assert statistics.maximum == max(value for value, _ in held)
        if not duration:
            assert isnan(statistics.average)
            assert isnan(statistics.deviation)
            return
        average = Fraction(sum(value * time for value, time in held), duration)
        variance = sum((value - average) ** 2 * time for value, time in held) / duration
        assert statistics.average == float(average)
        assert statistics.deviation == pytest.approx(sqrt(variance), rel=1e-15)


times = st.sampled_from((0, 1)) | st.integers(0, 10**6) | st.integers(0, 10**18)
values = st.integers(0, 3) | st.integers(0, 10**7)
steps = st.lists(st.tuples(st.sampled_from(("set", "set", "set", "results", "reset")), times, values), max_size=40)


@given(st.integers(-(10**18), 10**18), values, steps)
def test_running_sums_agree_with_kept_samples(start: int, first: int, plan: list[tuple[str, int, int]]) -> None:
    demand, twin = Demand(start, first), Samples(start, first)
    now = start
    for what, elapsed, value in plan:
        now += elapsed
        if what == "set":
            demand.set(now, value)
            twin.set(now, value)
        elif what == "results":
            twin.expect(now, demand.results(now))
        else:
            twin.expect(now, demand.reset(now))
            twin.reset(now)
        demand.check()
    twin.expect(now, demand.results(now))
