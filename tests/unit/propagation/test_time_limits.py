"""Time limits in headers: each format, what breaks it, and what is written is read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.propagation.time_limits import (
    LIMIT_FORMATS,
    NO_LIMIT,
    LimitFormat,
    elapsed_ns,
    read_limit,
    write_limit,
)
from tests.support.examples import examples

MS = 10**6
SECOND = 10**9
NOW = 1_800_000_000 * SECOND


@pytest.mark.parametrize(
    ("written", "value", "limit"),
    [
        ("grpc", b"250m", 250 * MS),
        ("grpc", b"1M", 60 * SECOND),
        ("grpc", b"99999999H", 99_999_999 * 3600 * SECOND),
        ("grpc", b"5S", 5 * SECOND),
        ("grpc", b"7u", 7000),
        ("grpc", b"0n", 0),
        ("milliseconds", b"15000", 15 * SECOND),
        ("milliseconds", b"0", NO_LIMIT),
        ("seconds", b"2.5", 2500 * MS),
        ("seconds", b"3", 3 * SECOND),
        ("duration", b"1m30s", 90 * SECOND),
        ("duration", b"0s", 0),
        ("timestamp", b"1800000003.25", 3250 * MS),
        ("timestamp", b"1799999999", -SECOND),
        ("baggage", b"user=7, apf.deadline=1800000003.25;p,z=1", 3250 * MS),
        ("baggage", b"apf.deadline=1800000004,apf.deadline=1800000002,user=7", 2000 * MS),
        ("baggage", b"apf.deadline=soon,apf.deadline=1800000002", 2000 * MS),
        ("baggage", b"user=7", NO_LIMIT),
    ],
)
def test_limits(written: LimitFormat, value: bytes, limit: int) -> None:
    assert read_limit(written, value, NOW) == limit


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *(("grpc", one) for one in (b"", b"m", b"1", b"1s", b"123456789m", b"-1m", b" 1m", b"1m ", b"1.5S", b"1mm")),
        *(("milliseconds", one) for one in (b"", b"-1", b"1.5", b"1e3", b"9" * 16, "\u0661".encode())),
        *(("seconds", one) for one in (b"", b"-1", b".5", b"1.", b"1e3", b"inf", b"nan", b"9" * 30)),
        *(("duration", one) for one in (b"", b"1", b"1 s", b"-1s", b"\xff", b"1h" * 100)),
        *(("timestamp", one) for one in (b"", b"t=1", b"yesterday")),
        ("baggage", b"apf.deadline=soon,apf.deadline="),
    ],
)
def test_other_values_are_refused(written: LimitFormat, value: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the caller counts it
        read_limit(written, value, NOW)


@pytest.mark.parametrize(
    ("value", "elapsed"),
    [
        (b"t=1799999999.750", SECOND // 4),  # nginx: seconds
        (b"1799999999750", SECOND // 4),  # Heroku: milliseconds
        (b"t=1799999999750000", SECOND // 4),  # Apache: microseconds
        (b"1799999999750000000", SECOND // 4),
        (b"1800000001", 0),  # in the future
        (b"1799999940", 60 * SECOND),
        (b"1799999939", 0),  # a clock that is wrong
        (b"0", 0),
    ],
)
def test_the_time_in_a_front_end(value: bytes, elapsed: int) -> None:
    assert elapsed_ns(value, NOW) == elapsed


@pytest.mark.parametrize("value", [b"", b"t=", b"now", b"t=-5", b"1e9", b"9" * 40])
def test_a_start_that_is_no_time(value: bytes) -> None:
    with pytest.raises(ValueError, match="not a number"):
        elapsed_ns(value, NOW)


@pytest.mark.parametrize(
    ("written", "limit", "value"),
    [
        ("grpc", 250 * MS, "250000u"),
        ("grpc", 99_999_999, "99999999n"),
        ("grpc", 100_000_000, "100000u"),
        ("grpc", 3 * 3600 * SECOND, "10800000m"),
        ("grpc", -5, "0n"),
        ("milliseconds", 1_999_999, "1"),
        ("milliseconds", 999, "1"),
        ("seconds", 1_234_567_890, "1.234"),
        ("duration", 1_234_567_890, "1234ms"),
        ("timestamp", 1_234_567_890, "1800000001.234"),
    ],
)
def test_what_is_written(written: LimitFormat, limit: int, value: str) -> None:
    assert write_limit(written, limit, NOW) == value


@given(st.sampled_from(LIMIT_FORMATS), st.integers(2 * MS, 10**6 * SECOND))
@examples(200)
def test_what_is_written_is_read_again_and_never_longer(written: LimitFormat, limit: int) -> None:
    found = read_limit(written, write_limit(written, limit, NOW).encode(), NOW)

    assert limit - max(MS, limit // 50_000) <= found <= limit
