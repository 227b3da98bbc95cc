"""Results of simulations over time, as curves in a terminal."""

from collections.abc import Iterator, Sequence

from apf_middleware.cli.output import tell, terminal_width
from apf_middleware.simulation import Result
from apf_middleware.simulation.braille import curve
from apf_middleware.wording import figure

__all__ = ["print_curves"]

_NAME = 22
_WIDTH = 60
_LEAST_WIDTH = 10

_Curve = tuple[str, Sequence[float | None]]


def print_curves(result: Result) -> None:
    """Print p99 by tenant, seats by level, rejections and fairness, each with its largest value.

    Curves are as wide as the terminal allows, because one that is wrapped can't be read.
    """
    width = max(_LEAST_WIDTH, min(_WIDTH, (terminal_width() or _NAME + 1 + _WIDTH) - _NAME - 1))
    for title, curves, unit, most in _groups(result):
        highest = most or max((value for _, values in curves for value in values if value is not None), default=0)
        if not highest:
            continue
        tell(f"{title}, up to {figure(highest)}{unit}", "dim")
        for name, values in curves:
            *above, last = curve(values, highest, width=width)
            for line in above:
                tell(f"{'':{_NAME}} {line}")
            tell(f"{name[:_NAME]:{_NAME}} {last}")


def _groups(result: Result) -> Iterator[tuple[str, list[_Curve], str, float]]:
    windows = result.windows
    tenants = [tenant.name for tenant in result.tenants]
    yield "p99", [(name, [one.p99_ms[n] for one in windows]) for n, name in enumerate(tenants)], " ms", 0.0
    levels = [(n, level) for n, level in enumerate(result.levels) if level.dispatched]
    yield "seats in use", [(level.name, [one.seats[n] for one in windows]) for n, level in levels], "", 0.0
    yield "seats of the server", [("adaptive", [one.total for one in windows])], "", 0.0
    rates: list[_Curve] = [
        (name, [one.turned_away[n] / result.window_s for one in windows]) for n, name in enumerate(tenants)
    ]
    yield "turned away a second", [one for one in rates if any(one[1])], "", 0.0
    yield "fairness so far", [("Jain's index", [one.fairness for one in windows])], "", 1.0
