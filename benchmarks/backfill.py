"""What back-fill is worth: ``python -m benchmarks.backfill [--discipline NAME] [--json]``.

Twelve seats, flows of requests that take ten and flows that take one, more of both than can be served, and services of
random length, one second on average. For each number of rounds the part of the seats in use, what wide and narrow ones
had of them, and the longest time that a wide request was at the head, from when it first didn't fit until it sat.
"""

import argparse
import random
from collections.abc import Iterator
from typing import Any, Final

from apf_middleware.fairqueuing import DISCIPLINES, QueueSet, QueueSetSettings, Work, flow_hash
from apf_middleware.testing import Call, World
from benchmarks.measure import print_rows

__all__ = ["play_mix"]

SECOND: Final = 10**9
_SEATS, _WIDTH = 12, 10
_THREADS: Final = {1: 40, _WIDTH: 10}  # that call without rest, by width
_SEEDS: Final = (1, 2, 3)


class _Request(Call):
    """One that remembers when it first didn't fit."""

    __slots__ = ("passed_at", "world")

    def pass_over(self) -> None:
        if self.passed_at is None:
            self.passed_at = self.world.now

    world: World
    passed_at: int | None


def play_mix(
    rounds: int, flows: int, discipline: str = "equal-serial", seconds: int = 300, seed: int = 1
) -> dict[str, float]:
    """So many flows of either width."""
    chance = random.Random(seed)
    settings = QueueSetSettings(_SEATS, 64, 6, 10**6, exact=2 * flows, backfill=rounds)
    world = World(QueueSet(settings, discipline=DISCIPLINES[discipline]))
    used = {1: 0, _WIDTH: 0}
    longest = 0

    def call(width: int, flow: int) -> None:
        def seated(request: Call) -> None:
            nonlocal longest
            if width > 1 and request.passed_at is not None:  # type: ignore[attr-defined]
                longest = max(longest, world.now - request.passed_at)  # type: ignore[attr-defined]

        def finished(request: Call) -> None:
            used[width] += width * request.duration_ns
            call(width, flow)

        lasts = round(chance.expovariate(1) * SECOND) + 1
        entropy = flow_hash(str(width), str(flow))
        request = _Request("flow", entropy, Work(width), lasts, on_seated=seated, on_finish=finished)
        request.world, request.passed_at = world, None
        world.arrive_at(world.now, request)

    for width, threads in _THREADS.items():
        for flow in range(flows):
            for _ in range(threads):
                call(width, flow)
    world.run(seconds * SECOND)
    parts = {width: work / SECOND / seconds for width, work in used.items()}
    return {
        "utilisation": sum(parts.values()) / _SEATS,
        "wide_seats": parts[_WIDTH],
        "narrow_seats": parts[1],
        "longest_at_head_s": longest / SECOND,
    }


def measure(discipline: str) -> Iterator[dict[str, Any]]:
    for flows in (1, 4):
        for rounds in (0, 1, 2, 3, 5, 8):
            played = [play_mix(rounds, flows, discipline, seed=seed) for seed in _SEEDS]
            means = {key: round(sum(one[key] for one in played) / len(played), 3) for key in played[0]}
            means["longest_at_head_s"] = round(max(one["longest_at_head_s"] for one in played), 1)
            yield {"discipline": discipline, "flows": flows, "rounds": rounds, **means}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backfill", description="What back-fill is worth.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--discipline", choices=DISCIPLINES, default="equal-serial")
    options = parser.parse_args()
    rows = list(measure(options.discipline))
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
