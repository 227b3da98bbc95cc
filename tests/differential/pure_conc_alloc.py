"""The solver against golden/pure/conc_alloc.json.gz, one case at a time.

Upstream's error texts are its own: what has to agree is which rule is broken, and by which claim.
"""

import re
from typing import Any

from apf_middleware.exceptions import InfeasibleError, InvalidValueError
from apf_middleware.fairqueuing.sharing.allocation import Allocation, SeatClaim, solve

_TOLERANCE = 1e-10  # upstream's sums are rounded at each step, ours once

# What upstream says -> what we raise, and the name that it bears.
_RULES: tuple[tuple[str, type[InvalidValueError], str], ...] = (
    (r"negative sums", InvalidValueError, "total"),
    (r"lower bound (\d+) is .* negative", InvalidValueError, "claims[{}].lower"),
    (r"upper bound (\d+) is .* less than the lower bound", InvalidValueError, "claims[{}].upper"),
    (r"target (\d+) is .* below its lower bound", InvalidValueError, "claims[{}].target"),
    (r"^lower bounds sum to", InfeasibleError, "sum of lower bounds"),
    (r"^upper bounds sum to", InfeasibleError, "sum of upper bounds"),
)


def replay_conc_alloc(case: dict[str, Any]) -> str | None:
    """None when our solver agrees with upstream on ``case``, and else how it differs."""
    claims = [SeatClaim(item["lower"], item["upper"], item["target"]) for item in case["items"]]
    try:
        allocation = solve(case["sum"], claims)
    except InvalidValueError as error:
        return _compare_errors(case.get("error"), error)
    if "error" in case:
        return f"expected the error {case['error']!r}, got {allocation}"
    return _compare_allocations(case, allocation)


def _compare_errors(text: str | None, error: InvalidValueError) -> str | None:
    got = f"got {type(error).__name__}: {error}"
    if text is None:
        return f"expected an allocation, {got}"
    for pattern, kind, name in _RULES:
        found = re.search(pattern, text)
        if found:
            agrees = type(error) is kind and error.name == name.format(*found.groups())
            return None if agrees else f"expected the error {text!r}, {got}"
    return f"expected an error that no rule of ours stands for, {text!r}, {got}"


def _compare_allocations(case: dict[str, Any], allocation: Allocation) -> str | None:
    expected = [case["fair_prop"], *case.get("alloc", ())]
    got = [allocation.fair_fraction, *allocation.amounts]
    return None if got == expected else f"expected fair_prop and alloc {expected}, got {got}"
