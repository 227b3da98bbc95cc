"""Rows as aligned text or as JSON, a few at a time.

A dump of ten thousand requests takes a tenth of a second to write, and nobody else is to wait for that. So rows are
written in portions, and between two of them the event loop may do what else there is to do. What is shown was noted
before, in one step; only how it is written down takes time.

The text is what Go's tab writer makes of cells joined by a comma and a tab, with a least width of 8 and a padding of 1:
every cell but a row's last is filled up with spaces to the width of its column's widest.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from anyio.lowlevel import checkpoint

__all__ = ["PORTION", "Cells", "write_json", "write_text"]

PORTION: Final = 100
"""So many rows are written at a time."""

_LEAST_WIDTH: Final = 8
_PADDING: Final = 1

Cells = tuple[str, ...]

Row = TypeVar("Row")


async def write_text(columns: Cells, rows: Sequence[Row], cells_of: Callable[[Row], Cells]) -> bytes:
    """A head and a line a row, of cells that are made by ``cells_of``."""
    widths = [len(column) for column in columns]
    portions: list[list[Cells]] = []
    for portion in _portions(rows):
        cells = [cells_of(row) for row in portion]
        for place, column in enumerate(zip(*cells, strict=True)):
            widths[place] = max(widths[place], *map(len, column))
        portions.append(cells)
        await checkpoint()
    # The comma belongs to the cell.
    filled = "".join(f"%-{max(width + 1 + _PADDING, _LEAST_WIDTH)}s" for width in widths[:-1]) + "%s\n"
    text = [_line(filled, columns).encode()]
    for cells in portions:
        text.append("".join(_line(filled, one) for one in cells).encode())
        await checkpoint()
    return b"".join(text)


def _line(filled: str, cells: Cells) -> str:
    return filled % (*[f"{cell}," for cell in cells[:-1]], cells[-1])


async def write_json(
    name: str, rows: Sequence[Row], record_of: Callable[[Row], dict[str, object]], **more: object
) -> bytes:
    """An object with a list of records by this ``name``, beside whatever ``more`` there is to say."""
    parts = []
    for portion in _portions(rows):
        parts.append(json.dumps([record_of(row) for row in portion])[1:-1].encode())
        await checkpoint()
    head = "".join(f"{json.dumps(key)}: {json.dumps(value)}, " for key, value in more.items())
    return b"".join((f"{{{head}{json.dumps(name)}: [".encode(), b", ".join(parts), b"]}\n"))


def _portions(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    return (rows[start : start + PORTION] for start in range(0, len(rows), PORTION))
