"""What the adaptive total costs for each request and decision: ``python -m benchmarks.adaptive_cost [--json]``.

``observe`` is called for each request that ends, ``note`` and ``decide`` some 20 times a second. ``window`` is a
decision at the end of a window with so many routes.
"""

import argparse
import statistics
import time
from typing import Any

from apf_middleware.adaptive import AdaptiveSettings, AdaptiveTotal, RequestOutcome
from benchmarks.measure import best_cpu_us, print_rows, unit_us

__all__ = ["measure"]

_MS = 10**6
_REQUESTS = 10_000


def measure(routes: int, repetitions: int) -> list[dict[str, Any]]:
    """Return the microseconds for each of the calls."""
    total = AdaptiveTotal(AdaptiveSettings(1, 400, 40))
    names = [f"route {number}" for number in range(routes)]
    observed = [names[number % routes] for number in range(_REQUESTS)]
    now = [0]

    def observe() -> int:
        instant, success = now[0], RequestOutcome.SUCCESS
        for name in observed:
            instant += _MS // 10
            total.observe(instant, name, 10 * _MS, success)
        now[0] = instant
        return _REQUESTS

    def tick() -> int:
        for _ in range(1000):
            total.note(now[0], 40, 5)
            total.decide(now[0])
        return 1000

    def window_us() -> float:
        observe()
        total.note(now[0], 40, 5)
        begin = time.process_time_ns()
        total.decide(now[0])
        return (time.process_time_ns() - begin) / 1000

    rows: list[tuple[str, float]] = [
        ("observe", best_cpu_us(observe, repetitions)),
        ("note and decide", best_cpu_us(tick, repetitions)),
        ("window", statistics.median(window_us() for _ in range(repetitions))),
    ]
    return [{"call": name, "routes": routes, "us": round(us, 3)} for name, us in rows]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adaptive_cost", description="What deciding costs.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--routes", type=int, nargs="*", default=[1, 100])
    parser.add_argument("--repetitions", type=int, default=21)
    options = parser.parse_args()
    rows = [row for routes in options.routes for row in measure(routes, options.repetitions)]
    rows.append({"call": "a heap of 1,000 (unit)", "routes": 0, "us": round(unit_us(), 1)})
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
