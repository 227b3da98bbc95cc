"""Print goodput and p99 beside the best static limit's: ``python -m benchmarks.adaptive [--json] [--only REGEX]``.

``adapted_s`` is the longest time after a change until, for 5 s, 90 % of what is possible completes and requests take at
most 1.25 times as long as alone. ``oscillation`` is the coefficient of variation of the limit in the last third of the
time after the last change, and ``limit`` its mean then. The best static limit is the fastest of those, from a quarter
of the capacity to four times as much, with which at most 1 % less completes than with any.
"""

import argparse
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from benchmarks.adaptive.cases import CASES
from benchmarks.adaptive.run import measure
from benchmarks.measure import print_json, print_table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adaptive", description="Limits that adapt, judged.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--only", default="", help="a regular expression that names of cases match")
    parser.add_argument("--seconds", type=float, default=0.0, help="simulate only so much of each case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="cases that are simulated at once")
    options = parser.parse_args()
    found = [replace(case, seed=options.seed) for case in CASES if re.search(options.only, case.name)]
    if options.seconds:
        found = [case.shortened(options.seconds) for case in found]
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = [row for rows in pool.map(measure, found) for row in rows]
    if options.json:
        print_json(rows)
    elif rows:
        print_table(tuple(rows[0]), (tuple(row.values()) for row in rows))


if __name__ == "__main__":
    main()
