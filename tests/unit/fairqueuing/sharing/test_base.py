"""Calls and configurations that any sharing refuses."""

import pytest

from apf_middleware.exceptions import ClockError
from apf_middleware.fairqueuing import Lending, Work
from tests.support.builds import raises_for_wrong_type
from tests.support.sharing_steps import QUEUED, arrive, limits


def test_a_clock_that_runs_backwards_is_refused_across_levels() -> None:
    lending = Lending(4, {"a": (QUEUED, limits(2, 2)), "b": (QUEUED, limits(2, 2))})
    arrive(lending, "a", 2, now=10)

    with pytest.raises(ClockError, match="now is 9"):
        arrive(lending, "b", 2, Work(2), now=9)
    with raises_for_wrong_type("integer"):
        lending.tick(11.0)  # type: ignore[arg-type]


def test_the_repr_of_a_sharing() -> None:
    lending = Lending(4, {"a": (QUEUED, limits(2, 2))})

    assert repr(lending) == "<Lending of 4 seats among 1 levels>"
    assert "'a': 2 to 4 seats" in repr(lending.levels["a"])
