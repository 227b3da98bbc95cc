"""The fields of a queue that can be changed on a live server, and the rule of each."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from apf_middleware.config.objects import Level
from apf_middleware.config.values import MAX_INT32, is_subdomain
from apf_middleware.exceptions import QueueInvalidError
from apf_middleware.fairqueuing.sharing.hierarchy import MOST_PRIORITY

__all__ = ["FIELDS", "check_changes", "check_name", "with_changes"]

_Problem = tuple[str, object, str]
_Rule = Callable[[object], str]


def _whole(least: int, most: int, *, optional: bool = False) -> _Rule:
    def rule(value: object) -> str:
        if value is None and optional:
            return ""
        if not isinstance(value, int) or isinstance(value, bool):
            return "it must be a whole number"
        if not least <= value <= most:
            return f"it must be from {least} to {most}"
        return ""

    return rule


def _boolean(value: object) -> str:
    return "" if isinstance(value, bool) else "it must be true or false"


def _strategy(value: object) -> str:
    return "" if value in {"traverse", "fifo"} else "it must be traverse or fifo"


def _parent(value: object) -> str:
    return "" if value is None or isinstance(value, str) else "it must be the name of a queue"


FIELDS: Final[Mapping[str, tuple[str, _Rule]]] = {
    "weight": ("", _whole(1, MAX_INT32)),
    "min": ("min_seats", _whole(0, MAX_INT32)),
    "max": ("max_seats", _whole(0, MAX_INT32, optional=True)),
    "parent": ("parent", _parent),
    "priority": ("priority", _whole(-MOST_PRIORITY, MOST_PRIORITY)),
    "reclaimable": ("reclaimable", _boolean),
    "dequeue_strategy": ("dequeue_strategy", _strategy),
    "wait_limit_ns": ("wait_limit_ns", _whole(0, 2**62, optional=True)),
}
"""For each field, the attribute of a level and the rule for values."""


def check_name(name: object) -> None:
    """Raise QueueInvalidError unless a queue can have this name."""
    if not isinstance(name, str) or not is_subdomain(name):
        rule = "it must be a DNS name: lower-case letters, digits, '-' and '.', at most 253 characters"
        raise QueueInvalidError(str(name), (("name", name, rule),))


def check_changes(name: str, changes: Mapping[str, Any]) -> None:
    """Raise QueueInvalidError with the problems of all these values, if there are any."""
    problems: list[_Problem] = []
    for field, value in changes.items():
        known = FIELDS.get(field)
        rule = known[1](value) if known else f"there is no such field; the fields are {', '.join(FIELDS)}"
        if rule:
            problems.append((field, value, rule))
    if problems:
        raise QueueInvalidError(name, tuple(problems))


def with_changes(level: Level, changes: Mapping[str, Any]) -> Level:
    """Return the level with these valid changes; raise QueueInvalidError if they don't fit together."""
    plain = {FIELDS[field][0]: value for field, value in changes.items() if field != "weight"}
    changed = replace(level, **plain)
    if "weight" in changes:
        changed = replace(changed, shares=replace(level.shares, shares=changes["weight"]))
    least, most = changed.min_seats, changed.max_seats
    if least is not None and most is not None and least > most:
        raise QueueInvalidError(level.name, (("min", least, f"it must not exceed the max, which is {most}"),))
    return changed
