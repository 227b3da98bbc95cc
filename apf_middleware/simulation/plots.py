"""Plots of results as PNG, SVG or PDF, one column for each result. They need the extra ``plots``."""

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apf_middleware.exceptions import InvalidValueError, MissingExtraError
from apf_middleware.simulation.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FORMATS", "plot", "require_plots"]

FORMATS: Final = (".png", ".svg", ".pdf")

_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#7f7f7f")
_LEVELS: Final = ("#a6cee3", "#fdbf6f", "#b2df8a", "#cab2d6", "#fb9a99", "#ffff99", "#d9d9d9", "#b15928")
_ROWS: Final = 4
_MOST_LINES: Final = 8
_LONGEST_LABEL: Final = 40
_ALIKE: Final = 3  # axes whose maxima differ by a smaller factor share one scale


def require_plots(path: Path) -> None:
    """Raise an error for a file name without a known format, or for a missing extra, before anything is simulated."""
    if path.suffix not in FORMATS:
        raise InvalidValueError("plot", str(path), f"its name must end with {', '.join(FORMATS)}")
    try:
        import matplotlib as mpl  # noqa: F401, PLC0415 - whether it is there
    except ImportError:
        raise MissingExtraError("matplotlib", "plots") from None


def plot(results: Sequence[Result], path: Path) -> None:
    """Draw latency by tenant, seats by level, tries that were turned away, and fairness, over time."""
    require_plots(path)
    import matplotlib as mpl  # noqa: PLC0415 - the extra may be missing
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "apf"}):
        figure = Figure(figsize=(1.5 + 5.5 * len(results), 10), layout="constrained")
        axes = figure.subplots(_ROWS, len(results), sharex="col", squeeze=False)
        for column, result in enumerate(results):
            for row, draw in enumerate((_latency, _seats, _turned_away, _fairness)):
                draw(axes[row][column], result, first=column == 0)
            axes[0][column].set_title(
                f"{_label(result.scenario)}: {_label(result.configuration)}", fontweight="bold", pad=12
            )
            axes[-1][column].set_xlabel("seconds")
        for number, row in enumerate(axes[:-1]):
            lows, highs = zip(*(one.get_ylim() for one in row), strict=True)
            if number == 1 and max(highs) > _ALIKE * min(highs):
                continue  # without protection there may be orders of magnitude more seats in use
            for one in row:
                one.set_ylim(min(lows), max(highs))
        metadata: dict[str, Any] = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, dpi=110, metadata=metadata or None)


def _times(result: Result) -> list[float]:
    return [window.begin_s + result.window_s / 2 for window in result.windows]


def _latency(axes: "Axes", result: Result, *, first: bool) -> None:
    times = _times(result)
    for place, tenant in enumerate(result.tenants[:_MOST_LINES]):
        colour = _COLOURS[place]
        p99 = [_gap(window.p99_ms[place]) for window in result.windows]
        p50 = [_gap(window.p50_ms[place]) for window in result.windows]
        axes.plot(times, p99, color=colour, label=_label(tenant.name), linewidth=1.6, marker=".", markersize=3)
        axes.plot(times, p50, color=colour, linewidth=0.8, alpha=0.6)
    axes.set_yscale("log")
    axes.grid(visible=True, axis="y", alpha=0.25)
    _name(axes, "latency (ms): p99, thin p50", "tenant", first=first)


def _label(name: str) -> str:
    """Escape a name: Matplotlib reads dollars as formulas, and omits names with a leading underscore."""
    short = name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 3]}..."
    return (f" {short}" if short.startswith("_") else short).replace("$", r"\$")


def _gap(value: float | None) -> float:
    return float("nan") if value is None else value


def _seats(axes: "Axes", result: Result, *, first: bool) -> None:
    used = [place for place, level in enumerate(result.levels) if level.seats > 0][:_MOST_LINES]
    if used:
        axes.stackplot(
            _times(result),
            [[window.seats[place] for window in result.windows] for place in used],
            labels=[_label(result.levels[place].name) for place in used],
            colors=_LEVELS[: len(used)],
        )
    totals = [_gap(window.total) for window in result.windows]
    if not all(map(isnan, totals)):
        axes.step(_times(result), totals, color="#333333", linewidth=1.2, where="mid", label="the server's total")
    axes.set_ylim(bottom=0)
    _name(axes, "seats in use", "level", first=first, always=True)


def _turned_away(axes: "Axes", result: Result, *, first: bool) -> None:
    for place, tenant in enumerate(result.tenants[:_MOST_LINES]):
        rates = [window.turned_away[place] / result.window_s for window in result.windows]
        axes.plot(_times(result), rates, color=_COLOURS[place], label=_label(tenant.name), linewidth=1.2)
    axes.set_ylim(bottom=0)
    _name(axes, "turned away a second", "tenant", first=first)


def _fairness(axes: "Axes", result: Result, *, first: bool) -> None:
    times = _times(result)
    axes.plot(times, [_gap(window.fairness) for window in result.windows], color="#333333", linewidth=1.4)
    axes.set_ylim(0, 1.05)
    axes.axhline(1.0, color="#999999", linewidth=0.6, linestyle=":")
    if first:
        axes.set_ylabel("fairness so far (Jain)")


def _name(axes: "Axes", label: str, of: str, *, first: bool, always: bool = False) -> None:
    if first:
        axes.set_ylabel(label)
    if (first or always) and axes.get_legend_handles_labels()[1]:
        axes.legend(title=of, fontsize=8, title_fontsize=8, loc="best", framealpha=0.8)
