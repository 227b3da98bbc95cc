"""Headers that list what is accepted."""

import pytest

from apf_middleware.accept import LONGEST, parse_accept


def test_entries_keep_their_order_and_parameters() -> None:
    assert parse_accept("Text/Plain; Version=0.0.4 ;q=0.5, */*") == [
        ("text/plain", 0.5, {"version": "0.0.4", "q": "0.5"}),
        ("*/*", 1.0, {}),
    ]


@pytest.mark.parametrize(
    ("text", "quality"), [("0", 0), ("1", 1), ("0.125", 0.125), ("2", 1), ("-1", 1), ("nan", 1), ("x", 1), ("", 1)]
)
def test_a_quality_that_makes_no_sense_counts_as_one(text: str, quality: float) -> None:
    assert parse_accept(f"a/b;q={text}")[0].quality == quality


@pytest.mark.parametrize("part", [",", ";", "a/b;q=0.1,"])
def test_no_more_than_the_beginning_of_a_long_header_is_read(part: str) -> None:
    beginning = f"text/plain,{part * LONGEST}"[:LONGEST]

    assert parse_accept(beginning + part * 10_000) == parse_accept(beginning)
    assert parse_accept(beginning)[0].name == "text/plain"
