"""The report of both runs, side by side: latency of the mice over time, parts that were served, and a table.

It needs 80 columns and is readable without colours: blocks are served requests, crosses are others.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from examples.demo.figures import Figures, summarise
from examples.demo.load import Asked, Load, Run

__all__ = ["PROTECTED", "UNPROTECTED", "WIDTH", "report"]

WIDTH = 80
"""The width of the report in columns."""

UNPROTECTED, PROTECTED = "without protection", "with apf_middleware"
"""The names of the two runs."""

_CHART = (30, 6)  # columns and lines
_BAR = 21  # columns of a bar that says 100 %
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_CROSS = "x"
_GOOD, _BAD = "green", "red"

_Row = tuple[str, str, Callable[[Figures], str]]


def report(without: Run, protected: Run) -> RenderableType:
    load = without.load
    figures = summarise(without), summarise(protected)
    return Group(
        Text.assemble("\n ", ("The mice's latency over time", "bold"), f"; {_CROSS} is who got no answer"),
        _side_by_side(_chart_panel(UNPROTECTED, without), _chart_panel(PROTECTED, protected)),
        Text.assemble(" ", ("Who was served", "bold"), " while the elephant was there"),
        _side_by_side(*map(_served_panel, figures)),
        _table(load, *figures),
    )


def _side_by_side(*panels: Panel) -> Table:
    pair = Table.grid(padding=(0, 2, 0, 0))
    pair.add_row(*panels)
    return pair


def _panel(content: RenderableType, name: str | None = None) -> Panel:
    return Panel(content, title=name, title_align="left", border_style="dim", width=WIDTH // 2 - 1)


def _chart_panel(name: str, run: Run) -> Panel:
    columns, lines = _CHART
    load = run.load
    chart = [_column(one, load, lines) for one in _moments(run.mice, load, columns)]
    rows = [Text.assemble(*line) for line in zip(*chart, strict=True)]
    labels = [f"{load.deadline * 1000:.0f}" if not line else "ms" if line == 1 else "" for line in range(lines)]
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(justify="right", style="dim", width=4)
    grid.add_column(no_wrap=True)
    for label, row in zip(labels, rows, strict=True):
        grid.add_row(label, row)
    calm = round(load.calm / load.seconds * columns)
    grid.add_row("0", Text("▔" * columns, "dim"))
    grid.add_row("", Text(" " * calm + "▲ the elephant comes", "dim"))
    return _panel(grid, name)


def _moments(mice: Sequence[Asked], load: Load, columns: int) -> list[list[Asked]]:
    """Return the requests by the time when they were due."""
    moments: list[list[Asked]] = [[] for _ in range(columns)]
    for one in mice:
        moments[min(int(one.due / load.seconds * columns), columns - 1)].append(one)
    return moments


def _column(moment: Sequence[Asked], load: Load, lines: int) -> list[tuple[str, str]]:
    """Return one moment from the top down: crosses for the part not served, then the longest latency of the rest."""
    served = [one.took for one in moment if one.is_served]
    failed = 1 - len(served) / len(moment) if moment else 0.0
    crosses = max(round(failed * lines), 1) if failed else 0
    bar = bar_cells(max(served, default=0.0), load.deadline, lines)
    tone = _GOOD if not failed else _BAD
    return [(_CROSS, _BAD)] * crosses + [(cell, tone) for cell in bar[crosses:]]


def bar_cells(value: float, full: float, lines: int) -> list[str]:
    """Return a column of so many lines, top line first; any value above zero is visible."""
    eighths = min(max(round(value / full * lines * 8), 1 if value else 0), lines * 8)
    return [_EIGHTHS[min(max(eighths - 8 * below, 0), 8)] for below in reversed(range(lines))]


def _served_panel(figures: Figures) -> Panel:
    grid = Table.grid(padding=(0, 1, 0, 0))
    for who, party in (("mice", figures.mice), ("elephant", figures.elephant)):
        tone = _GOOD if party.success > 0.9 else _BAD
        bar = Text("█" * round(party.success * _BAR), tone).append("░" * (_BAR - round(party.success * _BAR)), "dim")
        grid.add_row(f"{who:8}", bar, Text(f"{party.success:4.0%}", f"bold {tone}"))
    return _panel(grid)


def _table(load: Load, without: Figures, protected: Figures) -> Table:
    table = Table(box=box.SIMPLE_HEAD, width=WIDTH, pad_edge=True)
    table.add_column("")
    table.add_column("")
    table.add_column(UNPROTECTED, justify="right")
    table.add_column(PROTECTED, justify="right")
    rows = _rows(load)
    for (who, what, show), (whose, *_) in pairwise((*rows, rows[0])):
        table.add_row(Text(who, "bold"), what, show(without), show(protected), end_section=bool(whose))
    return table


def _rows(load: Load) -> tuple[_Row, ...]:
    def latency(ms: float) -> str:
        return f"{ms:.0f} ms" if ms < 1000 * load.deadline else f"none in {load.deadline:g} s"

    return (
        ("mice", "requests", lambda run: f"{run.mice.asked:,}"),
        ("", "served", lambda run: f"{run.mice.success:.1%}"),
        ("", "latency, p50", lambda run: latency(run.mice.p50_ms)),
        ("", "latency, p99", lambda run: latency(run.mice.p99_ms)),
        ("elephant", "requests", lambda run: f"{run.elephant.asked:,}"),
        ("", "served", lambda run: f"{run.elephant.success:.1%}"),
        ("", "refused (429)", lambda run: f"{run.elephant.refused:,}"),
        ("", "latency, p50", lambda run: latency(run.elephant.p50_ms)),
        ("", "latency, p99", lambda run: latency(run.elephant.p99_ms)),
        ("all", "goodput", lambda run: f"{run.goodput:.0f}/s"),
    )
