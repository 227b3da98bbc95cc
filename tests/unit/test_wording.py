"""Numbers in sentences."""

import pytest

from apf_middleware.wording import figure, plural


@pytest.mark.parametrize(
    ("number", "text"), [(0.0, "0"), (1.234, "1.23"), (999.4, "999"), (999.6, "1,000"), (1e6, "1,000,000")]
)
def test_figures_have_three_digits_or_more(number: float, text: str) -> None:
    assert figure(number) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 seats"), (1, "1 seat"), (2, "2 seats"), (12_345, "12,345 seats"), (1.2345, "1.23 seats"), (1.0, "1 seat")],
)
def test_a_number_has_its_noun(count: float, text: str) -> None:
    assert plural(count, "seat") == text
