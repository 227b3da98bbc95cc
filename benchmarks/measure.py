"""How the benchmarks time things: medians of repetitions, and a unit of the same run to compare machines by."""

import heapq
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

__all__ = ["best_cpu_us", "median_us", "print_json", "print_rows", "print_table", "quartiles", "unit_us"]


def median_us(run: Callable[[], int], repetitions: int) -> float:
    """Microseconds for one of the things that ``run`` does many of; it returns how many."""
    return statistics.median(_times_us(run, repetitions, time.perf_counter_ns))


def best_cpu_us(run: Callable[[], int], repetitions: int) -> float:
    """As `median_us`, but processor time, and of the repetition that was least disturbed."""
    return min(_times_us(run, repetitions, time.process_time_ns))


def _times_us(run: Callable[[], int], repetitions: int, clock: Callable[[], int]) -> list[float]:
    run()  # warm up
    times = []
    for _ in range(repetitions):
        begin = clock()
        number = run()
        times.append((clock() - begin) / number / 1000)
    return times


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile; a single value is all three."""
    low, middle, high = statistics.quantiles(values, method="inclusive") if len(values) > 1 else [*values] * 3
    return low, middle, high


def unit_us() -> float:
    """Microseconds to push 1,000 entries onto a heap and to pop them again."""
    entries = [n * 7919 % 1000 for n in range(1000)]

    def run() -> int:
        heap: list[int] = []
        for entry in entries:
            heapq.heappush(heap, entry)
        while heap:
            heapq.heappop(heap)
        return 1

    return median_us(run, 101)


def print_json(rows: Sequence[Mapping[str, Any]]) -> None:
    """Format rows as a JSON list, one row on a line."""
    sys.stdout.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print rows of the same keys, as a JSON list or as a table."""
    if as_json:
        print_json(rows)
    else:
        print_table(tuple(rows[0]), (tuple(row.values()) for row in rows))


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as they must be, numbers to the right."""
    cells = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        print("  ".join(_align(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _cell(value: object) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _align(cell: str, width: int) -> str:
    is_number = cell.replace(".", "").replace("-", "").replace(",", "").replace("e", "").isdigit()
    return cell.rjust(width) if is_number else cell.ljust(width)
