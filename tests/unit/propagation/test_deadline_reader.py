"""The time that a request leaves: the shortest of its limits, less what has passed in front ends."""

from collections.abc import Sequence

import pytest

from apf_middleware.propagation.deadline_reader import DeadlineReader

MS = 10**6
SECOND = 10**9
NOW = 1_800_000_000 * SECOND
LIMITS = {"grpc-timeout": "grpc", "x-limit": "milliseconds", "x-until": "timestamp"}


def reader(query: str = "") -> DeadlineReader:
    return DeadlineReader(LIMITS, ["x-request-start", "x-queue-start"], query, lambda: NOW)  # type: ignore[arg-type]


def left(*headers: tuple[bytes, bytes], query: bytes = b"", from_proxy: bool = True) -> int | None:
    limit, elapsed = reader("timeout").read(headers, query, from_proxy=from_proxy)
    return None if limit is None else limit - elapsed


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], None),
        ([(b"accept", b"1S")], None),
        ([(b"grpc-timeout", b"1S")], SECOND),
        ([(b"grpc-timeout", b"1S"), (b"x-limit", b"200")], 200 * MS),
        ([(b"x-limit", b"200"), (b"grpc-timeout", b"1S"), (b"x-limit", b"300")], 200 * MS),
        ([(b"x-limit", b"0")], None),
        ([(b"x-limit", b"0"), (b"grpc-timeout", b"1S")], SECOND),
        ([(b"x-request-start", b"1799999999")], None),
        ([(b"x-request-start", b"1799999999"), (b"grpc-timeout", b"3S")], 2 * SECOND),
        (
            [(b"x-request-start", b"1799999999"), (b"grpc-timeout", b"3S"), (b"x-queue-start", b"1799999995")],
            -2 * SECOND,
        ),
        ([(b"grpc-timeout", b"277H")], 277 * 3600 * SECOND),
        ([(b"grpc-timeout", b"278H")], 10**6 * SECOND),
        ([(b"grpc-timeout", b"2562047H")], 10**6 * SECOND),
        ([(b"grpc-timeout", b"99999999H"), (b"x-limit", b"200")], 200 * MS),
        ([(b"x-limit", b"9" * 15)], 10**6 * SECOND),
        ([(b"x-request-start", b"t=1799999999 "), (b"grpc-timeout", b"3S\t")], 2 * SECOND),  # as httptools leaves them
        ([(b"x-until", b"1800000003")], 3 * SECOND),
        ([(b"x-until", b"1800000003"), (b"x-request-start", b"1799999998")], 3 * SECOND),
        ([(b"grpc-timeout", b"4S"), (b"x-until", b"1800000003"), (b"x-request-start", b"1799999998")], 2 * SECOND),
        ([(b"grpc-timeout", b"8S"), (b"x-until", b"1800000003"), (b"x-request-start", b"1799999998")], 3 * SECOND),
    ],
)
def test_what_is_left(headers: Sequence[tuple[bytes, bytes]], expected: int | None) -> None:
    assert left(*headers) == expected


def test_time_stamps_count_from_the_arrival_of_a_request_that_has_waited_for_its_body() -> None:
    headers = [(b"x-until", b"1800000003"), (b"x-request-start", b"1799999997")]

    assert reader().read(headers, b"", from_proxy=True, age_ns=2 * SECOND) == (6 * SECOND, SECOND)
    assert reader().read(headers, b"", from_proxy=False, age_ns=2 * SECOND) == (5 * SECOND, 0)


def test_only_proxies_are_believed_when_they_have_received_a_request() -> None:
    headers = (b"x-request-start", b"1799999999"), (b"grpc-timeout", b"3S")

    assert left(*headers, from_proxy=False) == 3 * SECOND


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"timeout=1m30s", 90 * SECOND),
        (b"a=b&timeout=2s&timeout=1s", 2 * SECOND),
        (b"timeout=0s", None),
        (b"timeout=", None),
        (b"timeout=&timeout=1s", None),  # as in Kubernetes, whose first value is empty
        (b"timeouts=1s", None),
        (b"x=timeout", None),
        (b"&" * 200 + b"timeout=1s", None),
        (b"timeout=5", None),
        (b"timeout=%FF", None),
    ],
)
def test_a_limit_in_the_query(query: bytes, expected: int | None) -> None:
    assert left(query=query) == expected


def test_of_many_headers_the_last_count() -> None:
    one = reader()
    headers = [(b"grpc-timeout", b"soon"), (b"x-other", b"")] * 2000

    assert one.read([*headers, (b"x-limit", b"100")], b"", from_proxy=True) == (100 * MS, 0)
    assert one.invalid == {"grpc-timeout": 31}


def test_a_long_value_in_the_query_is_decoded_in_part() -> None:
    one = reader("timeout")

    assert one.read([], b"timeout=" + b"%31" * 20_000 + b"s", from_proxy=False) == (None, 0)
    assert one.read([], b"timeout=1%6D30%73", from_proxy=False) == (90 * SECOND, 0)
    assert one.invalid == {"timeout": 1}


def test_the_query_is_only_read_if_a_parameter_has_been_named() -> None:
    assert reader().read([], b"timeout=1s&=2s", from_proxy=False) == (None, 0)


def test_values_that_can_t_be_read_are_ignored_and_counted() -> None:
    one = reader("timeout")
    headers = [(b"grpc-timeout", b"soon"), (b"x-limit", b"100"), (b"x-request-start", b"noon")]

    assert one.read(headers, b"timeout=late", from_proxy=True) == (100 * MS, 0)
    assert one.read(headers, b"", from_proxy=True) == (100 * MS, 0)
    assert one.invalid == {"grpc-timeout": 2, "x-request-start": 2, "timeout": 1}
