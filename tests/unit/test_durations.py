"""Durations as text."""

import pytest

from apf_middleware.durations import duration_ns, written_duration

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("15s", 15 * SECOND),
        ("1m30s", 90 * SECOND),
        ("250ms", SECOND // 4),
        ("1.5h", 5400 * SECOND),
        ("0s", 0),
        ("7ns", 7),
    ],
)
def test_durations(text: str, nanoseconds: int) -> None:
    assert duration_ns(text) == nanoseconds
    assert duration_ns(written_duration(nanoseconds)) == nanoseconds
