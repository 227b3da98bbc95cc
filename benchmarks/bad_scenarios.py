"""The proposal's bad scenarios as tables: ``python -m benchmarks.bad_scenarios [--json]``.

Each file in examples/scenarios is simulated with no limit at all (``none``), with the same seats for whoever comes
first (``fifo``), with Kubernetes' discipline, borrowing and known defects (``kubernetes``), and as it stands (``own``).
The tables of docs/scenarios.md are what this prints.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from apf_middleware.config.scenario import Scenario, load_scenario
from apf_middleware.simulation import Result, simulate, variant
from benchmarks.measure import print_json

__all__ = ["FOLDER", "VARIANTS", "compare", "files", "heading", "table"]

FOLDER: Final = Path(__file__).parents[1] / "examples" / "scenarios"
VARIANTS: Final = ("none", "fifo", "kubernetes", "own")


def files() -> list[Path]:
    return sorted(FOLDER.glob("*.yaml"))


def compare(path: Path) -> tuple[Scenario, list[Result]]:
    """Play a scenario in front of each of the configurations."""
    scenario, configuration = load_scenario(path)
    return scenario, [simulate(scenario, variant(name, configuration), name=name) for name in VARIANTS]


def heading(scenario: Scenario) -> str:
    """Return the heading of a scenario in Markdown."""
    return f"## {scenario.name.replace('-', ' ').capitalize()}\n"


def table(scenario: Scenario, results: Sequence[Result]) -> Iterator[str]:
    """Yield the lines of a scenario's table in Markdown, with a row for each of its results."""
    names = [tenant.name for tenant in scenario.tenants]
    yield f"| served, p99 | {' | '.join(names)} | goodput | wasted |"
    yield f"|---|{'---:|' * (len(names) + 2)}"
    for result in results:
        cells = [*(_cell(result, name) for name in names), _percent(result.goodput), _percent(result.wasted)]
        yield f"| {result.configuration} | {' | '.join(cells)} |"


def _cell(result: Result, name: str) -> str:
    tenant = result.tenant(name)
    if tenant.p99_ms is None:
        return "**0 %**"
    p99 = f"{tenant.p99_ms / 1000:.1f} s" if tenant.p99_ms >= 1000 else f"{tenant.p99_ms:.0f} ms"
    return f"{_percent(tenant.served_part or 0.0)}, {p99}"


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bad_scenarios", description="Bad scenarios as tables.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    options = parser.parse_args()
    compared = [compare(path) for path in files()]
    if options.json:
        keys = ("name", "requests", "served", "failed", "p50_ms", "p99_ms", "rate", "fairness")
        print_json(
            [
                {"scenario": result.scenario, "configuration": result.configuration}
                | {key: getattr(tenant, key) for key in keys}
                for _, results in compared
                for result in results
                for tenant in result.tenants
            ]
        )
        return
    for scenario, results in compared:
        print(heading(scenario), f"{scenario.about}\n", *table(scenario, results), "", sep="\n")


if __name__ == "__main__":
    main()
