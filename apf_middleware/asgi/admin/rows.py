"""Rows as aligned text or as JSON, written a few at a time.

A dump of ten thousand requests takes a tenth of a second to write, and no request is to wait for that. So rows are
written in portions, and the event loop has a turn after each. The snapshot was made before, in one step.

The text is what Go's tab writer makes of cells joined by a comma and a tab, with a minimum width of 8 and a padding of
1: each cell but the last of a row is padded with spaces to the width of its column.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from anyio.lowlevel import checkpoint

__all__ = ["PORTION", "Cells", "write_json", "write_text"]

PORTION: Final = 100
"""How many rows are written at a time."""

_MIN_WIDTH: Final = 8
_PADDING: Final = 1

Cells = tuple[str, ...]

RowT = TypeVar("RowT")


async def write_text(columns: Cells, rows: Sequence[RowT], cells_of: Callable[[RowT], Cells]) -> bytes:
    """Write a heading, and a line a row of the cells that ``cells_of`` returns."""
    widths = [len(column) for column in columns]
    portions: list[list[Cells]] = []
    for portion in _portions(rows):
        cells = [cells_of(row) for row in portion]
        for place, column in enumerate(zip(*cells, strict=True)):
            widths[place] = max(widths[place], *map(len, column))
        portions.append(cells)
        await checkpoint()
    # The comma belongs to the cell.
    template = "".join(f"%-{max(width + 1 + _PADDING, _MIN_WIDTH)}s" for width in widths[:-1]) + "%s\n"
    text = [_line(template, columns).encode()]
    for cells in portions:
        text.append("".join(_line(template, one) for one in cells).encode())
        await checkpoint()
    return b"".join(text)


def _line(template: str, cells: Cells) -> str:
    return template % (*[f"{cell}," for cell in cells[:-1]], cells[-1])


async def write_json(
    name: str, rows: Sequence[RowT], records_of: Callable[[list[RowT]], list[object]], **more: object
) -> bytes:
    """Write an object with a list of records called ``name``, after ``more`` fields.

    ``records_of`` returns the records of several rows.
    """
    parts = []
    for portion in _portions(rows):
        parts.append(json.dumps(records_of(list(portion)))[1:-1].encode())
        await checkpoint()
    head = "".join(f"{json.dumps(key)}: {json.dumps(value)}, " for key, value in more.items())
    return b"".join((f"{{{head}{json.dumps(name)}: [".encode(), b", ".join(parts), b"]}\n"))


def _portions(rows: Sequence[RowT]) -> Iterator[Sequence[RowT]]:
    return (rows[start : start + PORTION] for start in range(0, len(rows), PORTION))
