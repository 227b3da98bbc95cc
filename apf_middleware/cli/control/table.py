"""Queues as a table for people: as many columns as the terminal is wide, and all of them elsewhere."""

import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Final

from apf_middleware.classification.text import printable
from apf_middleware.cli.control.together import Together

__all__ = ["queue_table", "terminal_width", "written_number"]

_Cell = Callable[[Together], str]


def _field(name: str) -> _Cell:
    return lambda queue: written_number(queue.fields[name])


def written_number(value: object) -> str:
    """As a table has it: two digits at most, and yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)


_COLUMNS: Final[dict[str, _Cell]] = {
    "NAME": lambda queue: printable(queue.name, most=60),
    "PARENT": lambda queue: printable(queue.fields["parent"] or "root", most=60),
    "STATE": _field("state"),
    "WEIGHT": _field("weight"),
    "MIN": _field("min"),
    "DESERVED": _field("deserved"),
    "USED": _field("used"),
    "MAX": _field("max"),
    "INQUEUE": _field("inqueue"),
    "PENDING": _field("pending"),
    "RUNNING": _field("running"),
    "COMPLETED": _field("completed"),
    "FAILED": _field("failed"),
    "ABORTED": _field("aborted"),
    "REJECTED": lambda queue: str(queue.rejected),
    "SHARE": lambda queue: f"{queue.fields['share']:.2f}",
}
_WIDE: Final[dict[str, _Cell]] = {
    "CAPACITY": _field("capacity"),
    "PRIORITY": _field("priority"),
    "RECLAIMABLE": _field("reclaimable"),
    "STRATEGY": _field("dequeue_strategy"),
    "SOURCE": _field("source"),
    "WORKERS": lambda queue: str(len(queue.states)),
}
_TEXTS: Final = frozenset({"NAME", "PARENT", "STATE", "STRATEGY", "SOURCE", "RECLAIMABLE"})
_DISPENSABLE: Final = ("ABORTED", "PENDING", "PARENT", "FAILED", "COMPLETED", "RUNNING", "WEIGHT", "SHARE", "MIN")
"""What a narrow terminal doesn't show, the first of these first."""

_GAP: Final = 2
_SHORTEST_NAME: Final = 8


def terminal_width() -> int | None:
    """How many columns there are; None where nobody looks at it."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def queue_table(queues: Sequence[Together], *, width: int | None = None, wide: bool = False) -> list[str]:
    """The lines; no wider than ``width`` if that is given, by leaving out what matters least and shortening names."""
    columns = {**_COLUMNS, **(_WIDE if wide else {})}
    cells = {name: [name, *map(cell, queues)] for name, cell in columns.items()}
    widths = {name: max(map(len, column)) for name, column in cells.items()}
    if width is not None and not wide:
        _narrow(widths, width)
    return [
        (" " * _GAP).join(_aligned(name, cells[name][row], size) for name, size in widths.items()).rstrip()
        for row in range(len(queues) + 1)
    ]


def _narrow(widths: dict[str, int], most: int) -> None:
    """Take columns away until the rest has room."""
    for name in _DISPENSABLE:
        if _total(widths) <= most:
            return
        del widths[name]
    widths["NAME"] = max(_SHORTEST_NAME, widths["NAME"] - max(0, _total(widths) - most))


def _total(widths: dict[str, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _aligned(name: str, cell: str, size: int) -> str:
    if len(cell) > size:
        return f"{cell[: size - 1]}…"
    return cell.ljust(size) if name in _TEXTS else cell.rjust(size)
