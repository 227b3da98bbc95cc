"""Go's times and durations, and names that mean harm."""

import pytest

from apf_middleware.asgi.admin.formatting import (
    LONGEST_NAME,
    NEVER,
    Formatter,
    format_duration,
    printable,
    short_name,
)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (999_999, "999.999µs"),
        (1_000_000, "1ms"),
        (3_250_000, "3.25ms"),
        (999_999_999, "999.999999ms"),
        (10**9, "1s"),
        (1_500_000_000, "1.5s"),
        (60 * 10**9, "1m0s"),
        (61_000_000_001, "1m1.000000001s"),
        (3600 * 10**9, "1h0m0s"),
        (100 * 3600 * 10**9 + 10**7, "100h0m0.01s"),
    ],
)
def test_durations_are_written_as_go_writes_them(duration: int, text: str) -> None:
    assert format_duration(duration) == text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "2023-07-15T04:51:25.596404345Z"),
        (-596_404_345, "2023-07-15T04:51:25Z"),
        (3_595_655, "2023-07-15T04:51:25.6Z"),
        (403_595_655, "2023-07-15T04:51:26Z"),
        (-596_404_346, "2023-07-15T04:51:24.999999999Z"),
    ],
)
def test_times_have_as_many_digits_as_they_need(at: int, text: str) -> None:
    formatter = Formatter(1_689_396_685_596_404_340)

    assert formatter.time(5 + at) == text


def test_gos_zero_time_is_never() -> None:
    assert NEVER == "0001-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("system:serviceaccount:default:x", "system:serviceaccount:default:x"),
        ("alice@example.com (a, b)", "alice@example.com (a, b)"),
        ("zoë 山", "zoë 山"),
        ("a\nexempt,\texempt", "a\\nexempt,\\texempt"),
        ("\x1b[2J\x7f\x9b", "\\x1b[2J\\x7f\\x9b"),
        ("\u202egnp.exe\u2028", "\\u202egnp.exe\\u2028"),
        ("\ud800", "\\ud800"),
        ("x" * 300, "x" * 256 + "..."),
        ("DOMAIN\\user", "DOMAIN\\user"),
        ("", ""),
    ],
)
def test_names_are_escaped_for_logs_and_terminals(name: str, text: str) -> None:
    assert printable(name) == text
    assert printable(name).isprintable()


def test_a_long_name_becomes_short_and_stays_itself() -> None:
    longest = "n" * LONGEST_NAME

    assert short_name(longest) == longest
    assert len(short_name(f"{longest}1")) == LONGEST_NAME
    assert short_name(f"{longest}1") == short_name(f"{longest}1") != short_name(f"{longest}2")
    assert short_name("\ud800" * 1000).isascii() is False
