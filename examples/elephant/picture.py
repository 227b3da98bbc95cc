"""A picture of both backends at one instant: the seats, the queues, and the latencies of the mice so far.

A character is a ticket: grey for the elephant's, the number of the mouse in its colour for others. The picture is
readable without colours.
"""

import math
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from apf_middleware.fairqueuing.ticket import Queue
from examples.elephant.figures import PROMPT_MS, latencies_ms, percentile
from examples.elephant.simulation import MS, Backend, Load

__all__ = ["FAIR", "PLAIN", "WIDTH", "bar_cells", "draw", "tone"]

WIDTH = 80
"""Columns that the picture and the report need."""

PLAIN, FAIR = "without fairness", "with apf_middleware"
"""The names of the two runs."""

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ELEPHANT = "grey58"
_MICE = ("cyan", "magenta", "yellow", "blue", "green")
_GOOD, _BAD = "green", "red"
_CHART = (64, 4)  # columns and lines: a column for each queue, or a line of tickets where there is one queue
_LATENCIES = 48  # columns of the line of latencies, from the first request to the end of the load


def draw(plain: Backend, fair: Backend) -> RenderableType:
    load = plain.load
    return Group(
        _heading(load),
        _panel(PLAIN, "one queue for everybody", plain, _draw_one_queue(plain)),
        _panel(FAIR, _count_queues(fair), fair, _draw_queues(fair)),
        _clock(plain),
    )


def tone(latency_ms: float) -> str:
    """Return the colour for a mouse's latency."""
    return _GOOD if latency_ms <= PROMPT_MS else _BAD


def bar_cells(value: float, full: float, lines: int) -> list[str]:
    """Return a column of so many lines, top line first; any value above zero is visible."""
    eighths = min(max(round(value / full * lines * 8), 1 if value else 0), lines * 8)
    return [_EIGHTHS[min(max(eighths - 8 * below, 0), 8)] for below in reversed(range(lines))]


def _heading(load: Load) -> Text:
    numbers: list[str | tuple[str, str]] = []
    for number in range(1, load.mice + 1):
        numbers += [_mouse_mark(f"mouse {number}"), " "]
    return Text.assemble(
        " A backend with ",
        (f"{load.seats} seats", "bold"),
        f", about {load.service_ns // MS} ms a request, and before it\n ",
        ("▒▒", _ELEPHANT),
        f" an elephant with {load.connections} connections, never pausing\n ",
        *numbers,
        f"mice that ask for something every {load.pause_ns // MS} ms or so",
    )


def _panel(name: str, how: str, backend: Backend, queues: Sequence[Text]) -> Panel:
    rows = Table.grid(padding=(0, 2, 0, 0))
    rows.add_column(justify="right", style="dim", width=7)
    rows.add_column(no_wrap=True, overflow="crop")
    rows.add_row("seats", _draw_seats(backend))
    labels = ["waiting", str(backend.queueset.waiting), "", ""]
    for label, line in zip(labels, queues, strict=True):
        rows.add_row(label, line)
    rows.add_row("latency", _draw_latencies(backend))
    served = sum(len(mouse.served) for mouse in backend.mice)
    return Panel(
        rows,
        title=Text.assemble((name, "bold"), f": {how}"),
        title_align="left",
        subtitle=f"served: mice {served:,}, elephant {len(backend.elephant.served):,}",
        subtitle_align="right",
        border_style="dim",
        width=WIDTH,
    )


def _count_queues(backend: Backend) -> str:
    settings = backend.queueset.settings
    return f"{settings.queues} queues, {settings.hand_size} of them in the elephant's hand"


def _draw_seats(backend: Backend) -> Text:
    line = Text()
    for call in backend.seats:
        if call is None:
            line.append("··", "dim")
        elif call.flow == backend.elephant.name:
            line.append("▒▒", _ELEPHANT)
        else:
            line.append(f" {call.flow[-1]}", f"bold reverse {_mouse_colour(call.flow)}")
        line.append("  ")
    return line


def _draw_one_queue(backend: Backend) -> list[Text]:
    """Return the tickets in the order in which they will be seated."""
    columns, lines = _CHART
    marks = [_mark(ticket.flow, backend) for queue in backend.queueset.deck for ticket in queue]
    return [Text.assemble(*marks[line * columns : (line + 1) * columns]) for line in range(lines)]


def _draw_queues(backend: Backend) -> list[Text]:
    """Return a column for each queue, as high as the queue is long."""
    full = backend.load.connections / backend.queueset.settings.hand_size * 1.15
    columns = [_draw_queue(queue, backend, full) for queue in backend.queueset.deck]
    return [Text.assemble(*line) for line in zip(*columns, strict=True)]


def _draw_queue(queue: Queue, backend: Backend, full: float) -> list[tuple[str, str]]:
    cells = [(cell, _ELEPHANT) for cell in bar_cells(queue.length, full, _CHART[1])]
    mouse = next((ticket.flow for ticket in queue if ticket.flow != backend.elephant.name), None)
    if mouse is not None:
        cells[-1] = _mouse_mark(mouse)
    elif not queue.length:
        cells[-1] = ("·", "dim")
    return cells


def _draw_latencies(backend: Backend) -> Text:
    """Return the longest latency of the mice at each time."""
    load = backend.load
    longest = [0.0] * _LATENCIES
    for mouse in backend.mice:
        for one in mouse.served:
            moment = min(one.answered_at * _LATENCIES // load.lasts_ns, _LATENCIES - 1)
            longest[moment] = max(longest[moment], one.latency_ns / MS)
    full = load.connections * load.service_ns / load.seats / MS * 1.25
    line = Text.assemble(*((bar_cells(latency, full, 1)[0], tone(latency)) for latency in longest))
    p99 = percentile(latencies_ms(one for mouse in backend.mice for one in mouse.served), 0.99)
    return line if math.isnan(p99) else line.append(f"  mice p99 {p99:4.0f} ms", f"bold {tone(p99)}")


def _clock(backend: Backend) -> Table:
    now, end = backend.world.now / MS / 1000, backend.load.lasts_ns / MS / 1000
    bar = ProgressBar(total=end, completed=now, width=52, complete_style="cyan", finished_style="cyan")
    row = Table.grid(padding=(0, 1))
    row.add_row("  time", bar, f"{now:4.1f} of {end:.0f} s")
    return row


def _mark(flow: str, backend: Backend) -> tuple[str, str]:
    return ("▒", _ELEPHANT) if flow == backend.elephant.name else _mouse_mark(flow)


def _mouse_mark(flow: str) -> tuple[str, str]:
    return flow[-1], f"bold reverse {_mouse_colour(flow)}"


def _mouse_colour(flow: str) -> str:
    return _MICE[int(flow[-1]) % len(_MICE)]
