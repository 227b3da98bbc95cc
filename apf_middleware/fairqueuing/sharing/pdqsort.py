"""Pattern-defeating quicksort with the choices that Go's ``sort.Sort`` makes, so that equal keys get Go's order.

The sort is unstable. That matters where the order of equal keys shows in a result: upstream adds up floating-point
numbers in the order of a sorted list, and each order has its own rounding error.
"""

from collections.abc import MutableSequence
from typing import Any, Final

__all__ = ["pdqsort"]

_INSERTION: Final = 12  # up to this length, sort by insertion
_NINTHER: Final = 50  # from this length on, the pivot is a median of medians
_MOST_SWAPS: Final = 12  # this number of swaps in the choice of a pivot means a descending list
_MOST_STEPS: Final = 5
_WORD: Final = 2**64 - 1

Keyed = tuple[float, *tuple[Any, ...]]
"""Sorted by its first item alone."""


def pdqsort(items: MutableSequence[Keyed]) -> None:
    """Sort ``items`` in place by their first items."""
    _sort(items, 0, len(items), len(items).bit_length())


def _sort(items: MutableSequence[Keyed], start: int, end: int, limit: int) -> None:
    balanced = partitioned = True
    while end - start > _INSERTION:
        length = end - start
        if limit == 0:  # too many bad pivots: any sort that is O(n log n) will do
            items[start:end] = sorted(items[start:end], key=lambda item: item[0])
            return
        if not balanced:
            _shuffle(items, start, end)
            limit -= 1
        pivot, swaps = _choose_pivot(items, start, end)
        if swaps == _MOST_SWAPS:
            items[start:end] = items[start:end][::-1]
            pivot = start + end - 1 - pivot
        ascending = swaps in (0, _MOST_SWAPS)
        if balanced and partitioned and ascending and _finish_by_insertion(items, start, end):
            return
        if start > 0 and items[start - 1][0] >= items[pivot][0]:
            start = _partition_equal(items, start, end, pivot)
            continue
        middle, partitioned = _partition(items, start, end, pivot)
        left, right = middle - start, end - middle
        balanced = min(left, right) >= length // 8
        if left < right:
            _sort(items, start, middle, limit)
            start = middle + 1
        else:
            _sort(items, middle + 1, end, limit)
            end = middle
    items[start:end] = sorted(items[start:end], key=lambda item: item[0])  # stable, as insertion is


def _swap(items: MutableSequence[Keyed], one: int, other: int) -> None:
    items[one], items[other] = items[other], items[one]


def _choose_pivot(items: MutableSequence[Keyed], start: int, end: int) -> tuple[int, int]:
    """Return the place of the pivot, and how many pairs among the candidates were in descending order."""
    swaps = 0

    def ordered(one: int, other: int) -> tuple[int, int]:
        nonlocal swaps
        if items[other][0] < items[one][0]:
            swaps += 1
            return other, one
        return one, other

    def median(low: int, middle: int, high: int) -> int:
        low, middle = ordered(low, middle)
        middle, high = ordered(middle, high)
        return ordered(low, middle)[1]

    quarter = (end - start) // 4
    places = [start + quarter, start + 2 * quarter, start + 3 * quarter]
    if end - start >= _NINTHER:
        places = [median(place - 1, place, place + 1) for place in places]
    return median(*places), swaps


def _partition(items: MutableSequence[Keyed], start: int, end: int, pivot: int) -> tuple[int, bool]:
    """Return where the pivot ends up, and whether the list was partitioned already."""
    _swap(items, start, pivot)
    key, low, high, untouched = items[start][0], start + 1, end - 1, True
    while True:
        while low <= high and items[low][0] < key:
            low += 1
        while low <= high and items[high][0] >= key:
            high -= 1
        if low > high:
            break
        _swap(items, low, high)
        low, high, untouched = low + 1, high - 1, False
    _swap(items, high, start)
    return high, untouched


def _partition_equal(items: MutableSequence[Keyed], start: int, end: int, pivot: int) -> int:
    """Move what equals the pivot to the front, and return where the greater items begin."""
    _swap(items, start, pivot)
    key, low, high = items[start][0], start + 1, end - 1
    while True:
        while low <= high and items[low][0] <= key:
            low += 1
        while low <= high and items[high][0] > key:
            high -= 1
        if low > high:
            return low
        _swap(items, low, high)
        low, high = low + 1, high - 1


def _finish_by_insertion(items: MutableSequence[Keyed], start: int, end: int) -> bool:
    """Return whether a few shifts were enough to sort the list."""
    place = start + 1
    for _ in range(_MOST_STEPS):
        while place < end and items[place][0] >= items[place - 1][0]:
            place += 1
        if place == end:
            return True
        if end - start < _NINTHER:
            return False
        _swap(items, place, place - 1)
        if place - start >= 2:
            _shift(items, range(place - 1, 0, -1))
        if end - place >= 2:
            _shift(items, range(place + 1, end))
    return False


def _shift(items: MutableSequence[Keyed], places: range) -> None:
    for place in places:
        if items[place][0] >= items[place - 1][0]:
            return
        _swap(items, place, place - 1)


def _shuffle(items: MutableSequence[Keyed], start: int, end: int) -> None:
    """Break a pattern that leads to bad pivots; the pseudo-random numbers are a xorshift seeded with the length."""
    length = number = end - start
    mask = (1 << length.bit_length()) - 1
    middle = start + length // 4 * 2
    for step in (-1, 0, 1):
        number ^= number << 13 & _WORD
        number ^= number >> 7
        number ^= number << 17 & _WORD
        other = number & mask
        _swap(items, middle + step, start + (other - length if other >= length else other))
