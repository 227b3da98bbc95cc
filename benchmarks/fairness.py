"""What each fairness scenario reaches: ``python -m benchmarks.fairness [--discipline NAME] [--json]``.

For each scenario the seats that its clients had on average, beside those that they should have had, the largest
relative distance between the two, and the verdict by Kubernetes' own margins. "unfair, as it must be" marks the
controls and the known defect that a scenario is there to show.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from apf_middleware.fairqueuing import DISCIPLINES
from apf_middleware.testing import jain_index, play
from benchmarks.measure import print_json, print_table
from benchmarks.scenarios import SCENARIOS, worst_deviation


def measure(discipline: str, *, strict_upstream: bool) -> Iterator[dict[str, Any]]:
    for case in SCENARIOS:
        outcome = play(case.scenario, discipline=DISCIPLINES[discipline], strict_upstream=strict_upstream)
        for window, expectation in enumerate(case.expectations):
            expected = case.expected(window)
            deviation = worst_deviation(expected, outcome, window)
            got = outcome.averages[window]
            yield {
                "scenario": case.name,
                "window": window + 1,
                "discipline": discipline,
                "seats": [round(seats, 4) for seats in got],
                "expected": [round(seats, 4) for seats in expected],
                "deviation": round(deviation, 4),
                "margin": expectation.margin,
                "must_be_fair": expectation.must_be_fair(discipline),
                "as_it_must_be": (deviation <= expectation.margin) is expectation.must_be_fair(discipline),
                "jain": round(jain_index([seats / fair for seats, fair in zip(got, expected, strict=True)]), 4),
                "rejected": sum(outcome.rejected),
            }


def verdict(line: dict[str, Any]) -> str:
    if not line["as_it_must_be"]:
        return "FAILS"
    return "fair" if line["must_be_fair"] else "unfair, as it must be"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description="What each scenario reaches.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--discipline", choices=DISCIPLINES, default="equal-serial")
    parser.add_argument("--strict", action="store_true", help="reproduce upstream's known defects too")
    options = parser.parse_args()
    lines = list(measure(options.discipline, strict_upstream=options.strict))
    if options.json:
        print_json(lines)
    else:
        header = ("scenario", "window", "seats", "expected", "deviation", "margin", "jain", "verdict")
        rows = ({**line, "verdict": verdict(line)} for line in lines)
        print_table(header, ([_listed(line[column]) for column in header] for line in rows))
    if not all(line["as_it_must_be"] for line in lines):
        sys.exit(1)


def _listed(value: object) -> object:
    return " / ".join(f"{seats:g}" for seats in value) if isinstance(value, list) else value


if __name__ == "__main__":
    main()
