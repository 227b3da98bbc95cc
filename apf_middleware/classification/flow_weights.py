"""The weights of a schema's flows against other flows of their level, as plain data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from apf_middleware.classification.digest import RequestDigest
from apf_middleware.classification.text import require_text
from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError

__all__ = ["LEAST_WEIGHT", "MOST_WEIGHT", "FlowWeights", "WeightEntries", "require_weight"]

LEAST_WEIGHT: Final = 0.01
MOST_WEIGHT: Final = 1000

WeightEntries = tuple[tuple[str, float], ...]
"""Pairs of a name and a weight; a name may end with ``*``."""


@dataclass(frozen=True, slots=True)
class FlowWeights(Value):
    """The weight of each flow of a schema, from the first of these that has one for a request.

    1. ``function`` returns the weight of a request, or None if it has none for it.
    2. ``groups`` has weights of callers by their groups; the highest one of the caller's groups applies.
    3. ``flows`` has weights of flows by their names, which are the values of the distinguisher.
    4. ``default`` is the weight of all others.

    A name in ``groups`` and ``flows`` may end with ``*``. Exact names take precedence over prefixes, and longer
    prefixes over shorter ones.
    """

    default: float = 1
    flows: WeightEntries = ()
    groups: WeightEntries = ()
    function: Callable[[RequestDigest], float | None] | None = None

    def __post_init__(self) -> None:
        require_weight("default", self.default)
        _check("flows", self.flows)
        _check("groups", self.groups)
        for group, _ in self.groups:
            require_text("group with a weight", group)
        if self.function is not None and not callable(self.function):
            raise InvalidValueError("function", self.function, "it must be callable")


def require_weight(name: str, value: object) -> float:
    """Return ``value``; raise InvalidValueError unless it is a number (not a bool) that can be a weight."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not LEAST_WEIGHT <= value <= MOST_WEIGHT:
        raise InvalidValueError(name, value, f"it must be a number from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}")
    return value


def _check(name: str, entries: WeightEntries) -> None:
    """Raise InvalidValueError if a name is listed twice or has ``*`` before its end, or if a weight is none."""
    seen = set()
    for entry, weight in entries:
        if "*" in entry[:-1]:
            raise InvalidValueError(name, entry, "* can only be its end, as in tenant-*")
        if entry in seen:
            raise InvalidValueError(name, entry, "it must not be listed more than once")
        seen.add(entry)
        require_weight(f"weight of {entry!r} in {name}", weight)
