"""The report of both runs, side by side: latencies of the mice, a table of figures, and a summary."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from examples.elephant.figures import PROMPT_MS, Figures, latencies_ms, summarise
from examples.elephant.picture import FAIR, PLAIN, WIDTH, bar_cells, tone
from examples.elephant.simulation import MS, Backend, Load

__all__ = ["report", "sentences"]

_HISTOGRAM = (34, 4)  # columns and lines

_PACE = """\
 * Pace: the latency that a flow would have with its fair share of the seats to
   itself, divided by the one that it has. Jain's index: 1 if all fare alike."""

_Row = tuple[str, str, Callable[[Figures], str]]
_ROWS: tuple[_Row, ...] = (
    ("mice", "latency, p50", lambda run: _ms(run.mice.p50)),
    ("", "latency, p99", lambda run: _ms(run.mice.p99)),
    ("", f"served within {PROMPT_MS} ms", lambda run: f"{run.prompt:.1%}"),
    ("", "requests served", lambda run: f"{run.mice.served:,}"),
    ("elephant", "latency, p50", lambda run: _ms(run.elephant.p50)),
    ("", "latency, p99", lambda run: _ms(run.elephant.p99)),
    ("", "requests served", lambda run: f"{run.elephant.served:,}"),
    ("all", "goodput", lambda run: f"{run.goodput:.1f}/s"),
    ("", "rejected", lambda run: f"{run.rejected:,}"),
    ("", "Jain's index of goodput", lambda run: f"{run.jain_goodput:.3f}"),
    ("", "Jain's index of pace *", lambda run: f"{run.jain_pace:.3f}"),
)


def report(plain: Backend, fair: Backend) -> RenderableType:
    runs = summarise(plain), summarise(fair)
    return Group(
        Text("\n How long the mice's requests took", "bold"),
        _histograms(plain, fair),
        _table(*runs),
        Text(_PACE, "dim"),
        *(Padding(Text(sentence), (1, 1, 0, 1)) for sentence in sentences(plain.load, *runs)),
        Text.assemble("\n What next: read ", ("README.md", "bold"), ", or try ", ("apf --help", "bold"), "."),
    )


def sentences(load: Load, plain: Figures, fair: Figures) -> list[str]:
    """Describe the result, from the figures alone."""
    mice = (
        f"A request takes about {load.service_ns // MS} ms. Of the mice's, 99 in 100 took at most "
        f"{plain.mice.p99:.0f} ms {PLAIN}, and {fair.mice.p99:.0f} ms {FAIR}: "
        f"a factor of {plain.mice.p99 / fair.mice.p99:.1f}."
    )
    seats = (
        f"The seats served {plain.goodput:.1f} requests a second without and {fair.goodput:.1f} with it, a difference "
        f"of {abs(fair.goodput / plain.goodput - 1):.1%}. Of the elephant's requests, half took at most "
        f"{plain.elephant.p50:.0f} ms without and {fair.elephant.p50:.0f} ms with it, 99 in 100 at most "
        f"{plain.elephant.p99:.0f} and {fair.elephant.p99:.0f} ms."
    )
    return [mice, seats]


def _table(plain: Figures, fair: Figures) -> Table:
    table = Table(box=box.SIMPLE_HEAD, width=WIDTH, pad_edge=True)
    table.add_column("")
    table.add_column("")
    table.add_column(PLAIN, justify="right")
    table.add_column(FAIR, justify="right")
    for (who, what, show), (whose, *_) in pairwise((*_ROWS, _ROWS[0])):
        table.add_row(Text(who, "bold"), what, show(plain), show(fair), end_section=bool(whose))
    return table


def _histograms(plain: Backend, fair: Backend) -> Table:
    """Draw both histograms on one scale of latency; heights are relative to the most frequent latency of a run."""
    latencies = [latencies_ms(one for mouse in run.mice for one in mouse.served) for run in (plain, fair)]
    full = max(math.ceil(one[-1] / 100) * 100 for one in latencies)
    pair = Table.grid(padding=(0, 2, 0, 0))
    pair.add_row(
        *(
            Panel(_histogram(one, full), title=name, title_align="left", border_style="dim", width=WIDTH // 2 - 1)
            for name, one in zip((PLAIN, FAIR), latencies, strict=True)
        )
    )
    return pair


def _histogram(latencies: Sequence[float], full: int) -> Group:
    columns, lines = _HISTOGRAM
    counts = [0] * columns
    for latency in latencies:
        counts[min(int(latency * columns / full), columns - 1)] += 1
    tones = [tone((column + 0.5) * full / columns) for column in range(columns)]
    bars = [bar_cells(count, max(counts), lines) for count in counts]
    chart = [
        Text.assemble(*((cell, tone) for cell, tone in zip(line, tones, strict=True)))
        for line in zip(*bars, strict=True)
    ]
    axis, end = "0", f"{full} ms"
    return Group(*chart, Text("▔" * columns, "dim"), Text(axis + end.rjust(columns - len(axis)), "dim"))


def _ms(latency: float) -> str:
    return f"{latency:.0f} ms"
