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


def terminal_width() -> int | None:
    """How many columns there are; None where nobody looks at it."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def queue_table(queues: Sequence[Together], *, width: int | None = None, wide: bool = False) -> list[str]:
    """The lines; with ``width`` no wider than that, as long as there are columns that can be left out."""
    columns = {**_COLUMNS, **(_WIDE if wide else {})}
    cells = {name: [name, *map(cell, queues)] for name, cell in columns.items()}
    widths = {name: max(map(len, column)) for name, column in cells.items()}
    for name in _DISPENSABLE:
        if wide or width is None or sum(widths.values()) + _GAP * (len(widths) - 1) <= width:
            break
        del widths[name]
    return [
        (" " * _GAP)
        .join(
            cells[name][row].ljust(size) if name in _TEXTS else cells[name][row].rjust(size)
            for name, size in widths.items()
        )
        .rstrip()
        for row in range(len(queues) + 1)
    ]
