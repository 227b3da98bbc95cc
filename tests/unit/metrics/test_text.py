"""Numbers in both formats, by what Go's ``strconv`` and its Prometheus client write."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.metrics.text import go_number, open_metrics_number, rewrite_numbers


@pytest.mark.parametrize(
    ("value", "text", "open_metrics"),
    [
        (0, "0", "0.0"),
        (1, "1", "1.0"),
        (-1, "-1", "-1.0"),
        (7.0, "7", "7.0"),
        (0.005, "0.005", "0.005"),
        (0.0001, "0.0001", "0.0001"),
        (0.00001, "1e-05", "1e-05"),
        (999_999, "999999", "999999.0"),
        (999_999.5, "999999.5", "999999.5"),
        (1_000_000, "1e+06", "1e+06"),
        (-1_000_000, "-1e+06", "-1e+06"),
        (1_234_567.25, "1.23456725e+06", "1.23456725e+06"),
        (123_456_789, "1.23456789e+08", "1.23456789e+08"),
        (10**15, "1e+15", "1e+15"),
        (10**16, "1e+16", "1e+16"),
        (1.5e300, "1.5e+300", "1.5e+300"),
        (2.2e-313, "2.2e-313", "2.2e-313"),
        (inf, "+Inf", "+Inf"),
        (-inf, "-Inf", "-Inf"),
        (nan, "NaN", "NaN"),
    ],
)
def test_numbers_are_written_as_go_writes_them(value: float, text: str, open_metrics: str) -> None:
    assert (go_number(value), open_metrics_number(value)) == (text, open_metrics)


@given(st.floats(allow_nan=False))
def test_nothing_is_lost(value: float) -> None:
    assert float(go_number(value)) == float(open_metrics_number(value)) == value


BODY = b"""# HELP a_seconds le="1.0" 7.0
# TYPE a_seconds histogram
a_seconds_bucket{le="1.0",x="le=\\"1.0\\", }"} 2e+06
a_seconds_bucket{x="1.0",le="+Inf"} 2000000.0
a_seconds_count 2000000.0
a_seconds_sum 7.0
# TYPE b_count gauge
b_count{y="2.0 3.0"} 7.0
"""


def test_what_is_written_already_is_rewritten_and_labels_stay_as_they_are() -> None:
    assert rewrite_numbers(BODY, open_metrics=False).decode().splitlines() == [
        '# HELP a_seconds le="1.0" 7.0',
        "# TYPE a_seconds histogram",
        r'a_seconds_bucket{le="1",x="le=\"1.0\", }"} 2e+06',
        'a_seconds_bucket{x="1.0",le="+Inf"} 2e+06',
        "a_seconds_count 2e+06",
        "a_seconds_sum 7",
        "# TYPE b_count gauge",
        'b_count{y="2.0 3.0"} 7',
    ]
    assert rewrite_numbers(BODY, open_metrics=True).decode().splitlines()[2:] == [
        r'a_seconds_bucket{le="1.0",x="le=\"1.0\", }"} 2000000',
        'a_seconds_bucket{x="1.0",le="+Inf"} 2000000',
        "a_seconds_count 2000000",
        "a_seconds_sum 7.0",
        "# TYPE b_count gauge",
        'b_count{y="2.0 3.0"} 7.0',
    ]
