"""All limiters with one case."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from benchmarks.adaptive.aimd import AIMD
from benchmarks.adaptive.case import Case
from benchmarks.adaptive.envoy import EnvoyGradient
from benchmarks.adaptive.gradient2 import Gradient2
from benchmarks.adaptive.kratos_bbr import KratosBBR
from benchmarks.adaptive.limiter import Limiter, Static
from benchmarks.adaptive.own import Own
from benchmarks.adaptive.report import Figures, best_of, figures
from benchmarks.adaptive.vegas import Vegas
from benchmarks.adaptive.world import World

__all__ = ["LIMITERS", "measure"]

LIMITERS: Final[Mapping[str, Callable[[int], Limiter]]] = {
    "own": Own,
    "Gradient2": Gradient2,
    "Vegas": Vegas,
    "Envoy": EnvoyGradient,
    "AIMD": AIMD,
    "kratos BBR": KratosBBR,
}
"""By name: what makes a limiter that starts with a limit."""

_NAMED: Final = {"0.5 c": 0.5, "c": 1.0, "2 c": 2.0, "4 c": 4.0}
_FACTORS: Final = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0)


def measure(case: Case) -> list[dict[str, Any]]:
    """Return a row for each limiter, and for the static limits."""
    static = {factor: _play(f"static {factor:g} c", case, Static(round(factor * case.capacity))) for factor in _FACTORS}
    best = best_of(list(static.values()))
    rows = [_row(case, best, best, "best static")]
    rows += [_row(case, static[factor], best, f"static {name}") for name, factor in _NAMED.items()]
    return rows + [_row(case, _play(name, case, make(case.start)), best, name) for name, make in LIMITERS.items()]


def _play(name: str, case: Case, limiter: Limiter) -> Figures:
    return figures(name, case, World(case, limiter).run())


def _row(case: Case, one: Figures, best: Figures, name: str) -> dict[str, Any]:
    return {
        "case": case.name,
        "limiter": name,
        "goodput": round(one.goodput / best.goodput, 3),
        "p99": round(one.p99 / best.p99, 2),
        "adapted_s": one.adapted,
        "oscillation": round(one.oscillation, 2),
        "limit": round(one.last, 1),
        "rps": round(one.rate, 1),
        "p99_ms": round(1000 * one.p99, 1),
    }
