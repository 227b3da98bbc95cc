"""Curves for terminals in Braille characters, each of two by four dots."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Final

__all__ = ["curve", "resampled"]

_FIRST: Final = 0x2800
_BITS: Final = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))  # by column, from the bottom up


def resampled(values: Sequence[float | None], number: int) -> list[float | None]:
    """Return at most ``number`` values, each the largest of the values that it replaces; None where none is known."""
    if len(values) <= number:
        return list(values)
    parts = groupby(range(len(values)), key=lambda place: place * number // len(values))
    taken = [[values[place] for place in places] for _, places in parts]
    return [max((value for value in part if value is not None), default=None) for part in taken]


def curve(values: Sequence[float | None], most: float, *, width: int, height: int = 2) -> list[str]:
    """Return lines of characters, top line first: dots from zero up to each value; ``most`` fills the height."""
    dots = resampled(values, 2 * width)
    if len(dots) < 2 * width:
        dots = [dots[place * len(dots) // (2 * width)] for place in range(2 * width)] if dots else []
    levels = [_level(value, most, 4 * height) for value in dots]
    cells = [[0] * (len(levels) // 2) for _ in range(height)]
    for place, level in enumerate(levels):
        for dot in range(level):
            cells[height - 1 - dot // 4][place // 2] |= _BITS[place % 2][dot % 4]
    return ["".join(chr(_FIRST + bits) for bits in row) for row in cells]


def _level(value: float | None, most: float, dots: int) -> int:
    if value is None or most <= 0:
        return 0
    return min(dots, max(1 if value > 0 else 0, math.floor(value / most * dots + 0.5)))
