"""A budget has a number of seats."""

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fleet.budget import Budget


def test_a_budget_has_no_negative_number_of_seats() -> None:
    assert Budget(0).claims == {}
    with pytest.raises(InvalidValueError, match="seats"):
        Budget(-1)
