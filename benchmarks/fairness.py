"""What each fairness scenario reaches: ``python -m benchmarks.fairness [--discipline NAME] [--scenario NAME]``.

For each discipline, or the one that is named, and for each scenario: the seats that its clients had on average, beside
those that they should have had, the largest relative distance between the two, and the verdict by the scenario's own
margin. "unfair, as it must be" marks the controls and the known defect that a scenario is there to show; scenarios of
our own (`more_scenarios`) have no verdict, for what they show is the difference between disciplines and settings.
Flows with weights must get seats in proportion to them, within 2 %; Kubernetes (``--strict``) doesn't know weights.

``--exact`` gives each flow a queue of its own, ``--backfill N`` lets others pass wide requests in N rounds.
``--compare`` plays those scenarios that tell the disciplines apart with each of them, and prints one table.

``gap`` is the largest difference in seat-seconds that ever came about between two clients while requests of both
waited; ``shortfall`` is by how many seat-seconds a client ever fell behind its fair share while it waited, and
``bound`` is by how many it may where each flow has a queue of its own (C + 1 of the longest requests);
``utilisation`` is the seats in use by those that would be in use with fair shares and no seat left idle.

``--starvation`` plays the scenarios in which a flow may starve for what happened before, always with a queue for each
flow. In each row: the seats of each flow in the first three seconds after something has changed, the requests of the
first flow that are served in each three seconds, and its shortfall and bound. ``drought`` is the longest time for which
a waiting flow had less than its share, to within one request; its bound is C plus the number of waiting flows times the
longest service time. The verdict is "fair" when both bounds are kept.
"""

import argparse
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from apf_middleware.fairqueuing import DISCIPLINES, Discipline, QueueSet
from apf_middleware.testing import Shortfall, jain_index, observe, play
from benchmarks.measure import print_json, print_table
from benchmarks.starvation_scenarios import STARVATION_SCENARIOS, StarvationCase
from tests.support.kubernetes_scenarios import SCENARIOS, FairnessCase, worst_deviation
from tests.support.level_weights import EXPECTED, play_levels
from tests.support.own_scenarios import MORE_SCENARIOS
from tests.support.weighted_load import WeightedLoad, weighted_settings

__all__ = ["Variant", "measure"]

Row = dict[str, Any]

_NS: Final = 10**9
_PLACES: Final = 2048  # more than any scenario has flows
_TELLING: Final = ("uniform flows, hand of 3", "different widths", "too wide", "windup, upper bound")
_LEVELS: Final = "weights through levels"
_WEIGHTED: Final = {
    "flow weights 1, 2, 4": (1, 2, 4),
    "flow weights 1, 4, 40": (0.25, 1, 10),
    "one flow of weight 8": (8, *[1] * 10),
}
_SETTLING_NS, _WEIGHED_NS = 10 * _NS, 150 * _NS
_WEIGHED_MARGIN: Final = 0.02
_SHOWN: Final = 8  # of more clients, the least and the most
_HEADER: Final = (
    *("scenario", "window", "seats", "expected", "deviation", "gap", "shortfall", "bound", "jain", "utilisation"),
    "verdict",
)
_STARVATION: Final = (
    *("scenario", "seats", "expected", "served", "shortfall", "bound", "drought", "drought_bound", "verdict"),
)


@dataclass(frozen=True, slots=True)
class Variant:
    """How the queue sets are set up."""

    discipline: str = "equal-serial"
    exact: bool = False
    backfill: int = 0
    strict_upstream: bool = False

    @property
    def make(self) -> Callable[[int, int], Discipline[Any]]:
        return DISCIPLINES[self.discipline]


def measure(variant: Variant, chosen: Collection[str] = ()) -> Iterator[Row]:
    """Play the ``chosen`` scenarios, or all; yield a row for each window."""
    for case in SCENARIOS:
        if not chosen or case.name in chosen:
            yield from _play(case, variant, is_judged=True)
    for case in MORE_SCENARIOS:
        if not chosen or case.name in chosen:
            yield from _play(case, variant, is_judged=False)
    if not chosen or _LEVELS in chosen:
        yield _levels(variant)
    for name, weights in _WEIGHTED.items():
        if not variant.strict_upstream and (not chosen or name in chosen):
            yield _weights(name, weights, variant)


def _play(case: FairnessCase, variant: Variant, *, is_judged: bool) -> Iterator[Row]:
    settings = case.scenario.settings
    if settings.queues:
        settings = replace(settings, exact=_PLACES if variant.exact else 0, backfill=variant.backfill)
    scenario = replace(case.scenario, settings=settings)
    outcome = play(scenario, discipline=variant.make, strict_upstream=variant.strict_upstream)
    for window, expectation in enumerate(case.expectations):
        expected = case.expected(window)
        row = _row(case.name, variant, outcome.averages[window], expected, outcome.gap)
        row |= _shortfall(outcome.shortfall)
        row |= {"window": window + 1, "deviation": round(worst_deviation(expected, outcome, window), 4)}
        row["rejected"] = sum(outcome.rejected)
        if is_judged:
            strict = variant.strict_upstream
            fair, margin = (
                expectation.must_be_fair(variant.discipline, strict=strict),
                expectation.margin_of(strict=strict),
            )
            as_it_must_be = (row["deviation"] <= margin) is fair
            row |= {"margin": margin, "must_be_fair": fair, "as_it_must_be": as_it_must_be}
        yield row


def _row(name: str, variant: Variant, got: Sequence[float], expected: Sequence[float], gap: float) -> Row:
    parts = [seats / fair for seats, fair in zip(got, expected, strict=True)]
    return {
        "scenario": name,
        "window": 1,
        "discipline": variant.discipline,
        "exact": variant.exact,
        "backfill": variant.backfill,
        "seats": [round(seats, 4) for seats in got],
        "expected": [round(seats, 4) for seats in expected],
        "deviation": round(max(abs(part - 1) for part in parts), 4),
        "gap": round(gap, 3),
        "jain": round(jain_index(parts), 4),
        "utilisation": round(sum(got) / sum(expected), 4),
    }


def _shortfall(shortfall: Shortfall) -> Row:
    worst = shortfall.worst
    if worst is None:
        return {"shortfall": 0.0, "bound": round(shortfall.bound / _NS, 3)}
    return {"shortfall": round(worst.seconds, 3), "bound": round(worst.bound / _NS, 3)}


def starvation(variant: Variant, chosen: Collection[str] = ()) -> Iterator[Row]:
    """Play those scenarios in which a flow may starve."""
    for case in STARVATION_SCENARIOS:
        if not chosen or case.name in chosen:
            yield _starve(case, variant)


def _starve(case: StarvationCase, variant: Variant) -> Row:
    settings = replace(case.settings, backfill=variant.backfill)
    strict = variant.strict_upstream
    seen = observe(settings, case.callers, discipline=variant.make, windows=case.windows, strict_upstream=strict)
    worst, drought = seen.shortfall.worst, seen.shortfall.worst_drought
    is_fair = (worst is None or worst.ratio <= 1) and (drought is None or drought.ratio <= 1)
    row = {"scenario": case.name, "discipline": variant.discipline, "exact": True, "backfill": variant.backfill}
    row |= {
        "seats": [round(seats, 2) for seats in seen.seats[0]],
        "expected": [round(seats, 2) for seats in case.expected],
    }
    row |= {"served": " ".join(str(window[0]) for window in seen.served), **_shortfall(seen.shortfall)}
    row |= {"drought": round(drought.seconds, 3) if drought else 0.0}
    row |= {"drought_bound": round(drought.bound / _NS, 3) if drought else 0.0}
    return row | {"must_be_fair": not strict, "as_it_must_be": is_fair or strict, "is_fair": is_fair}


def _levels(variant: Variant) -> Row:
    got, gap = play_levels(variant.make, _PLACES if variant.exact else 0, variant.backfill)
    return _row(_LEVELS, variant, got, EXPECTED, gap)


def _weights(name: str, weights: Sequence[float], variant: Variant) -> Row:
    """Return what flows get that always wait, with these weights and requests of different widths and lengths."""
    settings = replace(weighted_settings(exact=variant.exact), backfill=variant.backfill)
    queueset = QueueSet(settings, discipline=variant.make)
    load = WeightedLoad(queueset, {place * 7919: weight for place, weight in enumerate(weights, 1)}, seed=0)
    load.run(_SETTLING_NS)
    load.measure(_WEIGHED_NS)
    got = [used / _WEIGHED_NS for used in load.used.values()]
    row = _row(name, variant, got, [sum(got) * weight / sum(weights) for weight in weights], 0.0)
    del row["gap"], row["utilisation"]  # the expected seats are parts of those that were used
    if variant.backfill:
        return row  # wide requests that narrow ones pass get less
    return row | {"margin": _WEIGHED_MARGIN, "must_be_fair": True, "as_it_must_be": row["deviation"] <= _WEIGHED_MARGIN}


def compare() -> Iterator[Row]:
    """Return the last windows of the scenarios that tell disciplines and settings apart."""
    cases = [case for case in SCENARIOS if case.name in _TELLING] + list(MORE_SCENARIOS)
    for exact, backfill in ((False, 0), (True, 0), (True, 2)):
        for discipline in DISCIPLINES:
            variant = Variant(discipline, exact, backfill)
            for case in cases:
                yield list(_play(case, variant, is_judged=False))[-1]
            yield _levels(variant)


def verdict(line: Row) -> str:
    if line.get("is_fair") is False and line["as_it_must_be"]:
        return "unfair, as upstream"
    if "as_it_must_be" not in line:
        return "-"
    if not line["as_it_must_be"]:
        return "FAILS"
    return "fair" if line["must_be_fair"] else "unfair, as it must be"


def _print_comparison(lines: Sequence[Row]) -> None:
    """Print a table for each setting: deviation and gap of each discipline."""
    for exact, backfill in ((False, 0), (True, 0), (True, 2)):
        print(f"\n{'a queue for each flow' if exact else 'sharded'}, back-fill in {backfill} rounds\n")
        chosen = [line for line in lines if (line["exact"], line["backfill"]) == (exact, backfill)]
        names = dict.fromkeys(line["scenario"] for line in chosen)
        rows = []
        for name in names:
            played = {line["discipline"]: line for line in chosen if line["scenario"] == name}
            cells = [
                f"{line['deviation']:.1%} · {line['gap']:.4g} · {line['jain']:.3f} · {line['utilisation']:.0%}"
                for line in played.values()
            ]
            rows.append((name, *cells))
        print_table(("scenario", *DISCIPLINES), rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description="What each scenario reaches.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--discipline", choices=DISCIPLINES, help="this one alone")
    parser.add_argument("--exact", action="store_true", help="a queue for each flow")
    parser.add_argument("--backfill", type=int, default=0, metavar="ROUNDS", help="let others pass wide requests")
    parser.add_argument("--strict", action="store_true", help="reproduce upstream's known defects too")
    parser.add_argument("--compare", action="store_true", help="all disciplines, where they differ")
    parser.add_argument("--starvation", action="store_true", help="only the scenarios in which a flow may starve")
    parser.add_argument("--scenario", action="append", default=[], metavar="NAME", help="this one alone, or several")
    options = parser.parse_args()
    disciplines = [options.discipline] if options.discipline else DISCIPLINES
    variants = [Variant(name, options.exact, options.backfill, options.strict) for name in disciplines]
    played = starvation if options.starvation else measure
    lines = list(
        compare() if options.compare else chain.from_iterable(played(variant, options.scenario) for variant in variants)
    )
    if options.json:
        print_json(lines)
    elif options.compare:
        _print_comparison(lines)
    else:
        _print_by_discipline(lines, _STARVATION if options.starvation else _HEADER)
    if not all(line.get("as_it_must_be", True) for line in lines):
        sys.exit(1)


def _print_by_discipline(lines: Sequence[Row], header: Sequence[str]) -> None:
    names = dict.fromkeys(line["discipline"] for line in lines)
    for name in names:
        rows = [{**line, "verdict": verdict(line)} for line in lines if line["discipline"] == name]
        if len(names) > 1:
            print(f"\n{name}\n")
        print_table(header, ([_listed(line.get(column, "-")) for column in header] for line in rows))


def _listed(value: object) -> object:
    if not isinstance(value, list):
        return value
    if len(value) > _SHOWN:
        return f"{min(value):g} to {max(value):g}"
    return " / ".join(f"{seats:g}" for seats in value)


if __name__ == "__main__":
    main()
