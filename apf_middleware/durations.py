"""Durations as text, like ``1m30s``, as in Go and Kubernetes."""

import re
from typing import Final

__all__ = ["DURATION_PATTERN", "duration_ns", "written_duration"]

DURATION_PATTERN: Final = r"([0-9]{1,9}(\.[0-9]{1,9})?(h|ms|m|s|us|ns))+"
"""The regular expression of a duration."""

_PART: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))?(h|ms|m|s|us|ns)")
_UNITS: Final = {"h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def duration_ns(text: str) -> int:
    """Convert a duration such as ``1m30s`` or ``250ms`` to nanoseconds; any other text is a ValueError."""
    if not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(text)
    total = 0
    for whole, part, unit in _PART.findall(text):
        total += (int(whole) * 10**9 + int(part.ljust(9, "0") or 0)) * _UNITS[unit] // 10**9
    return total


def written_duration(duration: int) -> str:
    """Write a duration in nanoseconds with one unit, the largest that gives a whole number."""
    for unit, size in _UNITS.items():
        if duration % size == 0:
            return f"{duration // size}{unit}" if duration else "0s"
    raise AssertionError  # every duration is a multiple of a nanosecond
