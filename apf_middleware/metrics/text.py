"""Metrics as text, written without prometheus_client's samples.

The general encoder of prometheus_client takes 6 to 20 µs for each line, and the event loop serves no request meanwhile.
Here the labels of a series are written once for all of its buckets, and only label values are escaped. Apart from the
format of numbers, the text is the same byte for byte.

Numbers are written as Go's clients write them, because tools made for Kubernetes expect that. In the text format every
number is a float in its shortest form, without a fraction if there is none (``7``, ``1e+06``). OpenMetrics marks floats
(``7.0``, ``1e+06``) and writes the counts of histograms as integers (``1000000``).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from math import inf, isinf, isnan
from typing import Final

from apf_middleware.counters import Histogram
from apf_middleware.metrics.family import Family, Point

__all__ = ["go_number", "open_metrics_number", "rewrite_numbers", "write_text"]

_EXPONENT_FROM: Final = 1e6
_COMMENT: Final = "# "
_TYPE: Final = re.compile(r"# TYPE (\S+) (?:gauge)?histogram$")
_SAMPLE: Final = re.compile(r'([^ {]*)(\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})? (\S+)(.*)$')
_BOUND: Final = re.compile(r'(?<=[{,])le="([^"]*)"')

_Number = Callable[[float], str]


def go_number(value: float) -> str:
    """Return a float as Go's ``strconv`` writes it, in the format ``g`` and no longer than needed."""
    if -_EXPONENT_FROM < value < _EXPONENT_FROM:
        whole = int(value)
        return str(whole) if whole == value else repr(float(value))
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(float(value))
    if "e" in text:
        return text
    sign, digits = ("-", text[1:]) if value < 0 else ("", text)
    whole_part, _, fraction = digits.partition(".")
    shortest = (whole_part + fraction).rstrip("0")
    point = "." if len(shortest) > 1 else ""
    return f"{sign}{shortest[0]}{point}{shortest[1:]}e+{len(whole_part) - 1:02d}"


def open_metrics_number(value: float) -> str:
    """Return the result of `go_number`, with ``.0`` added to a number that looks like an integer."""
    text = go_number(value)
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def rewrite_numbers(body: bytes, *, open_metrics: bool) -> bytes:
    """Return prometheus_client's text, with values and bounds as Go writes them."""
    number = open_metrics_number if open_metrics else go_number
    counts: tuple[str, ...] = ()
    lines = body.decode().split("\n")
    for place, line in enumerate(lines):
        if line.startswith(_COMMENT):
            found = _TYPE.match(line)
            if found is not None:
                counts = (f"{found[1]}_bucket", f"{found[1]}_count")
        elif line:
            lines[place] = _rewritten(line, number, counts if open_metrics else ())
    return "\n".join(lines).encode()


def _rewritten(line: str, number: _Number, counts: tuple[str, ...]) -> str:
    found = _SAMPLE.match(line)
    if found is None:
        return line
    name, labels, value, rest = found.groups(default="")
    if 'le="' in labels:
        labels = _BOUND.sub(lambda bound: f'le="{number(float(bound[1]))}"', labels)
    written = str(int(float(value))) if name in counts else number(float(value))
    return f"{name}{labels} {written}{rest}"


def write_text(prefix: str, families: Iterable[tuple[Family, list[Point]]], *, open_metrics: bool) -> bytes:
    """Return all series in one of the two text formats."""
    number = open_metrics_number if open_metrics else go_number
    count = str if open_metrics else go_number
    parts: list[str] = []
    for family, points in families:
        name = f"{prefix}_{family.suffix}"
        shown = name.removesuffix("_total") if open_metrics else name
        parts.append(f"# HELP {shown} {family.help}\n# TYPE {shown} {family.kind}\n")
        if family.kind == "histogram":
            parts += _histograms(name, family, points, number, count)
        else:
            parts += _numbers(name, family, points, number)
    if open_metrics:
        parts.append("# EOF\n")
    return "".join(parts).encode()


def _numbers(name: str, family: Family, points: list[Point], number: _Number) -> Iterator[str]:
    for labels, value in points:
        if not isinstance(value, Histogram):
            written = ",".join(_written(family, labels))
            yield f"{name}{{{written}}} {number(value)}\n" if written else f"{name} {number(value)}\n"


def _histograms(
    name: str, family: Family, points: list[Point], number: _Number, count: Callable[[int], str]
) -> Iterator[str]:
    before = sum(label < "le" for label in family.labels)
    buckets = [number(bound) for bound in (*family.bounds, inf)]
    for labels, histogram in points:
        if isinstance(histogram, Histogram):
            written = _written(family, labels)
            head = f"{name}_bucket{{" + "".join(f"{one}," for one in written[:before]) + 'le="'
            tail = '"' + "".join(f",{one}" for one in written[before:]) + "} "
            reached = "0"
            for le, below in zip(buckets, accumulate(histogram.counts), strict=True):
                reached = count(below)
                yield f"{head}{le}{tail}{reached}\n"
            every = f"{{{','.join(written)}}}" if written else ""
            yield f"{name}_count{every} {reached}\n{name}_sum{every} {number(histogram.total / family.unit)}\n"


def _written(family: Family, labels: tuple[str, ...]) -> list[str]:
    """Return the labels in the order of their names."""
    pairs = sorted(zip(family.labels, labels, strict=True))
    return [f'{label}="{_escaped(value)}"' for label, value in pairs]


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
