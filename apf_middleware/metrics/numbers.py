"""Numbers as Go's clients of Prometheus write them, which what others have made for Kubernetes expects.

In the text format every number is a float in its shortest form, without a fraction if there is none (``7``, ``1e+06``).
OpenMetrics marks floats (``7.0``, ``1e+06``) and writes the counts of histograms as integers (``1000000``).
"""

import re
from collections.abc import Callable
from math import isinf, isnan
from typing import Final

__all__ = ["go_number", "open_metrics_number", "rewrite_numbers"]

_EXPONENT_FROM: Final = 1e6
_COMMENT: Final = "# "
_TYPE: Final = re.compile(r"# TYPE (\S+) (?:gauge)?histogram$")
_SAMPLE: Final = re.compile(r'([^ {]*)(\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})? (\S+)(.*)$')
_BOUND: Final = re.compile(r'(?<=[{,])le="([^"]*)"')


def go_number(value: float) -> str:
    """The text that Go's ``strconv`` makes of a float, in the format ``g`` and no longer than needed."""
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
    """The same with ``.0`` after what looks like an integer."""
    text = go_number(value)
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def rewrite_numbers(body: bytes, *, open_metrics: bool) -> bytes:
    """What prometheus_client has written, with values and bounds as Go writes them."""
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


def _rewritten(line: str, number: Callable[[float], str], counts: tuple[str, ...]) -> str:
    found = _SAMPLE.match(line)
    if found is None:
        return line
    name, labels, value, rest = found.groups(default="")
    if 'le="' in labels:
        labels = _BOUND.sub(lambda bound: f'le="{number(float(bound[1]))}"', labels)
    written = str(int(float(value))) if name in counts else number(float(value))
    return f"{name}{labels} {written}{rest}"
