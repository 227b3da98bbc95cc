"""The bounds of the total."""

import pytest

from apf_middleware.adaptive import MOST_TOTAL, AdaptiveSettings
from apf_middleware.exceptions import InvalidValueError


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"floor": 0, "ceiling": 5}, "floor"),
        ({"floor": 1, "ceiling": MOST_TOTAL + 1}, "ceiling"),
        ({"floor": 6, "ceiling": 5}, "ceiling"),
        ({"floor": 2, "ceiling": 5, "start": 1}, "start"),
        ({"floor": 2, "ceiling": 5, "start": 6}, "start"),
        ({"floor": 2, "ceiling": 5, "least_window_ns": 0}, "least_window_ns"),
        ({"floor": 2, "ceiling": 5, "least_window_ns": 10, "most_window_ns": 9}, "most_window_ns"),
        ({"floor": 2, "ceiling": 5, "lag_target_ns": -1}, "lag_target_ns"),
    ],
)
def test_what_breaks_a_rule_is_named(arguments: dict[str, int], name: str) -> None:
    with pytest.raises(InvalidValueError) as raised:
        AdaptiveSettings(**arguments)

    assert raised.value.name == name
    assert repr(raised.value.value) in str(raised.value)


def test_floor_ceiling_and_start_may_be_equal() -> None:
    assert AdaptiveSettings(5, 5, 5).start == 5
