"""Upstream's own functions, recorded case by case: ``python -m tests.differential.pure FILE...``.

Each file is a JSON array of cases and bears the name of the function. A line a file: how many cases agree, or the
first that doesn't. Exit status 1 if any differs, 2 if a file can't be used. Upstream's error texts are its own: what
has to agree is which rule is broken.
"""

import gzip
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Dealer, duration_per_seat, flow_hash, format_seat_seconds, seat_seconds
from tests.differential.pure_conc_alloc import replay_conc_alloc
from tests.differential.pure_default_config import compare_default_config
from tests.differential.pure_matching import replay_matching, replay_selection
from tests.differential.pure_work import replay_list_work, replay_mutating_work

__all__ = ["CASES", "KNOWN", "WHOLES", "compare", "load_cases", "main"]

Case = Mapping[str, Any]

_DEALER_RULES: Final = (  # what upstream says -> what our rule says
    ("is not positive", "it must be at least 1"),
    ("is greater than deckSize", "a hand can't exceed the deck"),
    ("is impractically large", "it must be at most 67108864"),
    ("is greater than 60", "at most 60 are allowed"),
)


def compare_dealer(case: Case) -> str | None:
    """Return the hand, or the rule that deck and hand break."""
    try:
        cards = list(Dealer(case["deck"], case["hand"]).deal(case["hash"]))
    except InvalidValueError as error:
        expected = case.get("error", "")
        rule = next((ours for theirs, ours in _DEALER_RULES if theirs in expected), None)
        return None if rule is not None and rule in error.rule else f"expected {expected!r}, got {error}"
    return _differs(case.get("cards", case.get("error")), cards)


def compare_flow_hash(case: Case) -> str | None:
    """64 bits of a flow."""
    return _differs(case["hash"], flow_hash(case["fs"], case["dist"]))


def compare_seat_seconds(case: Case) -> str | None:
    """Products, quotients and how they are written; upstream's products wrap to 64 bits."""
    expected = [case["seats_times_duration"], case["ss_duration_per_seat_ns"], case["ss_string"]]
    product = seat_seconds(case["seats"], case["duration_ns"]) % 2**64
    return _differs(expected, [product, duration_per_seat(case["ss"], case["per"]), format_seat_seconds(case["ss"])])


CASES: Final[Mapping[str, Callable[[Case], str | None]]] = {
    "conc_alloc": lambda case: replay_conc_alloc(dict(case)),
    "dealer": compare_dealer,
    "flow_hash": compare_flow_hash,
    "list_work": replay_list_work,
    "matching": replay_matching,
    "mutating_work": replay_mutating_work,
    "seat_seconds": compare_seat_seconds,
    "selection": replay_selection,
}

WHOLES: Final[Mapping[str, Callable[[Sequence[Case]], str | None]]] = {"default_config": compare_default_config}
"""Files whose cases only mean something together."""

KNOWN: Final = (*CASES, *WHOLES)


def _differs(expected: object, got: object) -> str | None:
    return None if expected == got else f"expected {expected!r}, got {got!r}"


def load_cases(path: Path) -> Sequence[Case]:
    """Return the cases in this file, which may be compressed."""
    raw = path.read_bytes()
    cases = json.loads(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw)
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise ValueError("it must be a list of objects")
    return cases


def compare(path: Path) -> list[str]:
    """How the cases in this file differ, one text for each that does."""
    name = path.name.split(".")[0]
    if name in WHOLES:
        difference = WHOLES[name](load_cases(path))
        return [difference] if difference is not None else []
    check = CASES[name]
    compared = ((case, check(case)) for case in load_cases(path))
    return [f"{json.dumps(case)[:300]}: {difference}" for case, difference in compared if difference is not None]


def main(names: Sequence[str]) -> int:
    """Compare all files; the exit status."""
    if not names:
        print(f"usage: python -m tests.differential.pure FILE...  (known: {', '.join(KNOWN)})", file=sys.stderr)
        return 2
    status = 0
    for path in map(Path, names):
        if path.name.split(".")[0] not in KNOWN:
            print(f"{path}: unknown function, known are {', '.join(KNOWN)}", file=sys.stderr)
            status = 2
            continue
        try:
            differences = compare(path)
        except (OSError, EOFError, ValueError, KeyError) as error:
            print(f"{path}: it can't be used: {type(error).__name__}: {error}", file=sys.stderr)
            status = 2
            continue
        if differences:
            print(f"{path}: {len(differences)} cases differ, the first: {differences[0]}")
            status = max(status, 1)
        else:
            print(f"{path}: ok, {len(load_cases(path))} cases")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
