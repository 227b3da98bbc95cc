"""Conflicts between levels: what must be true of several of them together, in files or in a live server.

A named queue *is* a level. Formats check single documents; this module checks levels together: parents that can't be
parents, and mins and max that don't fit into those of a parent.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from apf_middleware.config.objects import FALLBACKS, Configuration, Level
from apf_middleware.config.server import ServerSettings
from apf_middleware.frozen import frozen
from apf_middleware.wording import plural

if TYPE_CHECKING:
    from apf_middleware.config.formats import Definition
    from apf_middleware.config.merge import MergedObjects
    from apf_middleware.config.problems import Problems

__all__ = ["LevelConflict", "broken_promise", "default_queue", "find_conflicts", "report_conflicts", "written_key"]

_ALIASES: Final = {"minSeats": "guarantee", "maxSeats": "capability", "shares": "weight"}


@frozen
class LevelConflict:
    """A violation: the field as a PriorityLevel document calls it, its value, the rule and a hint."""

    queue: str
    field: str
    value: object
    rule: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.field} of {self.queue} is {self.value!r}, but {self.rule}{'. ' if self.hint else ''}{self.hint}"


def default_queue(configuration: Configuration) -> str:
    """Return the level for requests that name an unknown queue."""
    return configuration.server.queues.default or configuration.fallback.level


def find_conflicts(configuration: Configuration) -> Iterator[LevelConflict]:
    """Yield the rules that these levels break together."""
    levels, server = configuration.levels, configuration.server
    users = {schema.level: f"the schema {schema.name!r} sends requests there" for schema in configuration.schemas}
    if server.queues.default:
        users[server.queues.default] = "it is the default queue"
    for name in sorted(levels):
        level = levels[name]
        if level.parent is not None:
            yield from _parent_conflicts(level, levels, users, server)
    for parent in sorted(configuration.parents & levels.keys()):
        for field, value in (("elastic", levels[parent].elastic), ("headroom", levels[parent].headroom_percent)):
            if value:
                rule = "a parent takes no requests itself"
                yield LevelConflict(parent, field, value, rule, "Write it in its children")
        children = [levels[name] for name in sorted(levels) if levels[name].parent == parent != name]
        yield from _size_conflicts(levels[parent], children)


def _parent_conflicts(
    level: Level, levels: Mapping[str, Level], users: Mapping[str, str], server: ServerSettings
) -> Iterator[LevelConflict]:
    """Yield the rule that a level's parent breaks."""
    name, parent = level.name, levels.get(level.parent or "")
    rule = hint = ""
    if level.parent == name:
        rule = "a queue can't be its own parent"
    elif parent is None:
        rule, hint = "there is no such queue", "Create it first, or correct the name"
    elif parent.parent is not None:
        rule = f"that queue has a parent itself ({parent.parent}), and parents can't be nested"
    elif parent.exempt or level.exempt:
        rule = "exempt levels have no parents and no children, because nothing limits them"
    elif parent.name in users:
        rule, hint = f"a parent takes no requests itself, and {users[parent.name]}", "Send them to one of its children"
    elif parent.name in {schema_level for _, schema_level in FALLBACKS.values()} | {"catch-all", "exempt"}:
        rule = "mandatory levels can't be parents"
    elif server.borrowing != "immediate":
        rule, hint = "parents need seats that are lent at each dispatch", "Write borrowing: immediate"
    if rule:
        yield LevelConflict(name, "parent", level.parent, rule, hint)


def _size_conflicts(parent: Level, children: Sequence[Level]) -> Iterator[LevelConflict]:
    """Yield absolute numbers that exceed the parent's; seats from proportions are reduced to fit."""
    most = parent.max_seats
    for child in children:
        if most is not None and child.max_seats is not None and child.max_seats > most:
            rule = f"it must not exceed the max of its parent {parent.name!r}, which is {most}"
            yield LevelConflict(child.name, "maxSeats", child.max_seats, rule)
    promised = sum(child.min_seats or 0 for child in children)
    for bound, words in ((parent.min_seats, "min"), (most, "max")):
        if bound is not None and promised > bound:
            last = [child for child in children if child.min_seats][-1]
            rule = (
                f"with those of its siblings it adds up to {promised}, and the {words} of their parent {parent.name!r}"
                f" is {bound}"
            )
            yield LevelConflict(last.name, "minSeats", last.min_seats, rule, f"Lower it, or raise the parent's {words}")
            return


def broken_promise(mins: Mapping[str, int], seats: int, noun: str) -> str:
    """Return what is wrong if the ``mins`` by name add up to all ``seats`` or more; an empty text otherwise.

    A child's min is part of its parent's, so only that of the parent counts. ``noun`` is what the reader calls a level.
    """
    promised = {name: least for name, least in mins.items() if least}
    total = sum(promised.values())
    if not promised or total < seats:
        return ""
    among = f" ({', '.join(promised)})" if len(promised) > 1 else ""
    effect = f"no {noun} can be sure of its min" if total > seats else f"{noun}s without a min get no seats"
    return f"the mins of all {noun}s{among} add up to {total} of {plural(seats, 'seat')}, so {effect}"


def report_conflicts(merged: "MergedObjects", definitions: Sequence["Definition"], problems: "Problems") -> None:
    """Report the conflicts at their places in the files."""
    configuration = merged.configuration()
    for conflict in find_conflicts(configuration):
        definition = merged.levels[conflict.queue].definition
        if definition is not None:
            path = ("spec", written_key(definition, conflict.field))
            place = definition.document.place(path)
            problems.error(place, conflict.rule, field=".".join(path), value=conflict.value, hint=conflict.hint)
    queues = configuration.server.queues
    servers = [one for one in definitions if isinstance(one.thing, ServerSettings)]
    if not servers:
        return
    document = servers[0].document
    default = configuration.levels.get(queues.default)
    if queues.default and (default is None or default.exempt):
        rule = "it must be a level that isn't exempt" if default else "there is no such level"
        problems.error(
            document.place(("spec", "queues", "default")), rule, field="spec.queues.default", value=queues.default
        )
    readiness = configuration.server.readiness
    for number, name in enumerate(() if readiness is None else readiness.levels):
        level = configuration.levels.get(name)
        if level is None or level.exempt or name in configuration.parents:
            rule = "it must be a level that isn't exempt" if level else "there is no such level"
            hint = "Name a level that rejects requests"
            if name in configuration.parents:
                rule, hint = "a parent takes no requests itself", "Name its children"
            at = document.place(("spec", "readiness", "levels", number))
            problems.error(at, rule, field=f"spec.readiness.levels[{number}]", value=name, hint=hint)
    if queues.trusted_proxies and not configuration.server.trusted_proxies.trust_any:
        rule, hint = "there are no trusted proxies", "Name them in spec.trustedProxies"
        at = document.place(("spec", "queues", "trustedProxies"))
        problems.error(at, rule, field="spec.queues.trustedProxies", value=True, hint=hint)


def written_key(definition: "Definition", field: str) -> str:
    """Return the name of the field in the document, which may use the field's alias."""
    plain = definition.document.root.plain()
    spec = plain.get("spec") if isinstance(plain, dict) else None
    alias = _ALIASES.get(field, field)
    return alias if isinstance(spec, dict) and alias in spec else field
