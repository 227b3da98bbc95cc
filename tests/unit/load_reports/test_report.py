"""Load reports are what a parser of ORCA takes, in each of their forms."""

import base64
import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.load_reports.report import LoadReport, ReportFormat, report_header
from tests.support.examples import examples

REPORT = LoadReport(1.25, 12.5, 0.5, 0.75, {"apf.web.utilization": 0.5, "apf.batch.utilization": 2.0})


def parsed(message: bytes) -> dict[str, float | dict[str, float]]:
    """Read a serialised OrcaLoadReport by the field numbers of its definition."""
    names = {1: "cpu", 6: "rps", 7: "eps", 9: "application"}
    found: dict[str, float | dict[str, float]] = {}
    named: dict[str, float] = {}
    for number, value in fields(message):
        if number == 8:
            assert isinstance(value, bytes)
            entry = dict(fields(value))
            key, amount = entry[1], entry[2]
            assert isinstance(key, bytes)
            assert isinstance(amount, float)
            named[key.decode()] = amount
        else:
            assert isinstance(value, float)
            found[names[number]] = value
    return {**found, "named": named}


def fields(message: bytes) -> list[tuple[int, float | bytes]]:
    found: list[tuple[int, float | bytes]] = []
    place = 0
    while place < len(message):
        tag, place = message[place], place + 1
        if tag & 7 == 1:
            found.append((tag >> 3, struct.unpack_from("<d", message, place)[0]))
            place += 8
        else:
            assert tag & 7 == 2
            length = shift = 0
            while True:
                byte, place = message[place], place + 1
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            found.append((tag >> 3, message[place : place + length]))
            place += length
    return found


def test_text() -> None:
    assert report_header(REPORT, "text") == (
        b"endpoint-load-metrics",
        (
            b"TEXT cpu_utilization=0.75,rps_fractional=12.5,eps=0.5,application_utilization=1.25,"
            b"named_metrics.apf.web.utilization=0.5,named_metrics.apf.batch.utilization=2"
        ),
    )


def test_json() -> None:
    name, value = report_header(REPORT, "json")

    assert name == b"endpoint-load-metrics"
    assert value.startswith(b"JSON ")
    assert json.loads(value[5:]) == {
        "cpu_utilization": 0.75,
        "rps_fractional": 12.5,
        "eps": 0.5,
        "application_utilization": 1.25,
        "named_metrics": {"apf.web.utilization": 0.5, "apf.batch.utilization": 2.0},
    }


def test_binary() -> None:
    name, value = report_header(REPORT, "binary")

    assert name == b"endpoint-load-metrics-bin"
    assert parsed(base64.b64decode(value, validate=True)) == {
        "cpu": 0.75,
        "rps": 12.5,
        "eps": 0.5,
        "application": 1.25,
        "named": {"apf.web.utilization": 0.5, "apf.batch.utilization": 2.0},
    }


@pytest.mark.parametrize("length", [115, 116, 117, 127, 128, 129, 300, 20_000])
def test_a_long_name_has_a_long_length(length: int) -> None:
    """From 128 bytes on, the length of a name, or of a name and its value, has two bytes."""
    metrics = {"x" * length: 1.5}

    assert parsed(LoadReport(1, 1, 1, named_metrics=metrics).as_protobuf())["named"] == metrics


@given(
    st.lists(st.floats(), min_size=4, max_size=4),
    st.dictionaries(st.text("abc.-_0", min_size=1), st.floats(), max_size=3),
    st.sampled_from(["text", "json", "binary"]),
)
@examples(200)
def test_no_value_is_one_that_a_parser_refuses(
    values: list[float], named: dict[str, float], written: ReportFormat
) -> None:
    report = LoadReport(values[0], values[1], values[2], values[3], named)
    _, header = report_header(report, written)

    assert header.isascii()
    assert b"\n" not in header
    if written == "text":
        pairs = [pair.split("=") for pair in header.decode().removeprefix("TEXT ").split(",") if pair]
        assert len({name for name, _ in pairs}) == len(pairs)
        read = [float(value) for _, value in pairs]
    elif written == "json":
        found = json.loads(header[5:])
        read = [*found.pop("named_metrics", {}).values(), *found.values()]
    else:
        message = parsed(base64.b64decode(header))
        inner = message.pop("named")
        assert isinstance(inner, dict)
        read = [one for one in (*message.values(), *inner.values()) if isinstance(one, float)]
    assert all(math.isfinite(one) and one >= 0 for one in read)


def test_a_server_without_requests_reports_no_rate() -> None:
    """A rate of 0 would make a balancer ignore the report, and a missing one does so, too."""
    assert LoadReport(0, 0, 0).as_text() == ""
    assert LoadReport(0.5, 0, 0).as_json() == '{"application_utilization":0.5}'


def test_equal_reports_are_equal() -> None:
    assert LoadReport(1, 2, 3) == LoadReport(1, 2, 3, 0.0, {})
    with pytest.raises(AttributeError):
        REPORT.eps = 1  # type: ignore[misc]
