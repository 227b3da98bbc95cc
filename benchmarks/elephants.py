"""How long mice take beside elephants, in virtual time: ``python -m benchmarks.elephants [--json]``.

Ten seats, calls of 20 ms, ten mice who call ten times a second each at random, and elephants of 40 threads that never
rest. Latencies of the mice in milliseconds, with as many elephants as the row says; waiting and service together.

``exact`` is a queue for each flow, the other rows are shuffle sharding by queues and hand.
"""

import argparse
import random
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from apf_middleware.fairqueuing import DISCIPLINES, QueueSet, QueueSetSettings, Work, flow_hash
from apf_middleware.testing import Call, Rank, World
from benchmarks.measure import print_json, print_table

__all__ = ["SETTINGS", "mice_latencies"]

_MS: Final = 10**6
_SERVE_NS: Final = 20 * _MS
_MICE, _THREADS = 10, 40
_COUNTS: Final = (1, 3, 5, 10)

SETTINGS: Final[Mapping[str, QueueSetSettings]] = {
    "exact": QueueSetSettings(10, 64, 6, 1000, exact=1024),
    "64 queues, hand of 6": QueueSetSettings(10, 64, 6, 1000),
    "128 queues, hand of 6": QueueSetSettings(10, 128, 6, 1000),
    "64 queues, hand of 1": QueueSetSettings(10, 64, 1, 1000),
}


def mice_latencies(
    settings: QueueSetSettings, elephants: int, discipline: str = "equal-serial", seconds: int = 60
) -> list[float]:
    """Of all calls of the mice, sorted, in milliseconds."""
    chance = random.Random(1)
    world = World(QueueSet(settings, discipline=DISCIPLINES[discipline]))
    latencies: list[float] = []

    def elephant(number: int, _call: Call | None = None) -> None:
        world.arrive(
            Call("elephant", flow_hash("e", str(number)), Work(), _SERVE_NS, on_finish=partial(elephant, number))
        )

    def mouse(number: int) -> None:
        arrived = world.now

        def note(_call: Call) -> None:
            latencies.append((world.now - arrived) / _MS)

        world.arrive(Call("mouse", flow_hash("m", str(number)), Work(), _SERVE_NS, on_finish=note))
        later = world.now + round(chance.expovariate(10) * 1000 * _MS)
        world.at(later, partial(mouse, number), Rank.ARRIVE)

    for number in range(elephants):
        for thread in range(_THREADS):  # apart, so that seats don't come free all at once
            world.at(thread * _MS // 2 + number * 10_000, partial(elephant, number), Rank.ARRIVE)
    for number in range(_MICE):
        world.at(chance.randrange(100) * _MS, partial(mouse, number), Rank.ARRIVE)
    world.run(seconds * 1000 * _MS)
    return sorted(latencies)


def measure(discipline: str) -> Iterator[dict[str, Any]]:
    for name, settings in SETTINGS.items():
        for elephants in _COUNTS:
            latencies = mice_latencies(settings, elephants, discipline)
            part = {f"p{percent}_ms": round(latencies[len(latencies) * percent // 100], 1) for percent in (50, 99)}
            yield {"queues": name, "discipline": discipline, "elephants": elephants, **part}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elephants", description="Mice beside elephants.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--discipline", choices=DISCIPLINES, default="equal-serial")
    options = parser.parse_args()
    rows = list(measure(options.discipline))
    if options.json:
        print_json(rows)
    else:
        print_table(
            ("queues", "elephants", "p50_ms", "p99_ms"),
            ([row[key] for key in ("queues", "elephants", "p50_ms", "p99_ms")] for row in rows),
        )


if __name__ == "__main__":
    main()
