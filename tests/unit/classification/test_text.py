"""Checks of names and regexes, and text made safe for display."""

import pytest

from apf_middleware.classification.text import compile_regex, printable, require_text
from apf_middleware.exceptions import InvalidValueError


@pytest.mark.parametrize(
    ("text", "shown"), [("Zoë", "Zoë"), ("a\nb\x1b[2J", r"a\nb\x1b[2J"), ("x" * 300, "x" * 256 + "...")]
)
def test_displayed_text_has_no_control_characters_and_a_bounded_length(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize("pattern", [7, "[", "[[a]", "a{99999999999}"])
def test_an_invalid_regex_is_refused(pattern: object) -> None:
    with pytest.raises(InvalidValueError, match="it must be a regular expression"):
        compile_regex("pattern", pattern)


@pytest.mark.parametrize("value", ["", None, 7])
def test_a_required_text_is_a_string_that_is_not_empty(value: object) -> None:
    with pytest.raises(InvalidValueError):
        require_text("name", value)
