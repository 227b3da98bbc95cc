"""Load reports in the forms of ORCA (Open Request Cost Aggregation), as Envoy's and gRPC's balancers read them."""

import base64
import json
import struct
from collections.abc import Mapping
from dataclasses import field
from math import isfinite
from typing import Final, Literal

from apf_middleware.frozen import frozen

__all__ = ["LoadReport", "ReportFormat", "report_header"]

ReportFormat = Literal["binary", "text", "json"]
"""The formats of a report in a header."""

_DIGITS: Final = 6
_DOUBLES: Final = {"cpu_utilization": 1, "rps_fractional": 6, "eps": 7, "application_utilization": 9}
"""The fields of xds.data.orca.v3.OrcaLoadReport that are reported, by name, with their numbers."""

_NAMED_METRICS: Final = 8
_DOUBLE: Final = 1  # the wire types of protobuf
_BYTES: Final = 2


@frozen
class LoadReport:
    """One report.

    ``application_utilization`` is the part of the seats that is in use or waited for, which exceeds 1 if requests wait.
    ``rps_fractional`` are the requests that got seats in a second, ``eps`` those that failed or were rejected for load.
    ``cpu_utilization`` is the part of one processor that this process uses. Named metrics are by name.
    """

    application_utilization: float
    rps_fractional: float
    eps: float
    cpu_utilization: float = 0.0
    named_metrics: Mapping[str, float] = field(default_factory=dict)

    def values(self) -> dict[str, float]:
        """Return the values that a balancer takes, by name: those that are positive and finite."""
        values = {name: _rounded(getattr(self, name)) for name in _DOUBLES}
        return {name: value for name, value in values.items() if value > 0}

    def named(self) -> dict[str, float]:
        """Return the named metrics."""
        return {name: _rounded(value) for name, value in self.named_metrics.items()}

    def as_text(self) -> str:
        """Return the report as pairs: ``application_utilization=0.5,rps_fractional=12``."""
        named = {f"named_metrics.{name}": value for name, value in self.named().items()}
        return ",".join(f"{name}={_written(value)}" for name, value in (self.values() | named).items())

    def as_json(self) -> str:
        """Return the report as JSON."""
        found: dict[str, object] = dict(self.values())
        if self.named_metrics:
            found["named_metrics"] = self.named()
        return json.dumps(found, separators=(",", ":"))

    def as_protobuf(self) -> bytes:
        """Return the report as a serialised message."""
        values = self.values()
        parts = [_double(number, values[name]) for name, number in _DOUBLES.items() if name in values]
        for name, value in self.named().items():
            key = name.encode()
            entry = _tag(1, _BYTES) + _length(key) + key + _double(2, value)
            parts.append(_tag(_NAMED_METRICS, _BYTES) + _length(entry) + entry)
        return b"".join(parts)


def report_header(report: LoadReport, written: ReportFormat) -> tuple[bytes, bytes]:
    """Return the header with the report in this format."""
    if written == "binary":
        return b"endpoint-load-metrics-bin", base64.b64encode(report.as_protobuf())
    text = f"TEXT {report.as_text()}" if written == "text" else f"JSON {report.as_json()}"
    return b"endpoint-load-metrics", text.encode()


def _rounded(value: float) -> float:
    return round(value, _DIGITS) if isfinite(value) and value > 0 else 0.0


def _written(value: float) -> str:
    return f"{value:.{_DIGITS}f}".rstrip("0").rstrip(".")


def _tag(number: int, wire_type: int) -> bytes:
    return bytes([number << 3 | wire_type])


def _double(number: int, value: float) -> bytes:
    return _tag(number, _DOUBLE) + struct.pack("<d", value)


def _length(data: bytes) -> bytes:
    """Return the length as a varint."""
    left, written = len(data), bytearray()
    while left >= 0x80:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)
