"""Live changes: how queues that were changed on a live server differ from the files.

Each changed queue has an entry: the queue as it is now, and as the files had it then. When files are read again, an
entry holds as long as the files have the queue as they had it; a newer file goes before an older live change. So a
reload of unrelated documents loses nothing, and committing the `document` of a live queue ends the drift.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from apf_middleware.config import Configuration
from apf_middleware.config.level_conflicts import LevelConflict, find_conflicts
from apf_middleware.config.objects import Level

__all__ = ["Drift", "LiveChange", "LiveChanges"]

_NAMES: Final = {"min_seats": "min", "max_seats": "max"}


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference: ``file`` and ``live`` are a field's values, or None where there is no such queue."""

    queue: str
    field: str
    file: object
    live: object


class LiveChange(NamedTuple):
    """A queue as it is now (None if deleted), and as it was in the files when it was changed (None if missing)."""

    level: Level | None
    base: Level | None


class LiveChanges:
    """All live changes. The object is immutable: a change makes another one."""

    __slots__ = ("entries",)

    def __init__(self, entries: Mapping[str, LiveChange] = MappingProxyType({})) -> None:
        self.entries: dict[str, LiveChange] = dict(entries)

    def changed(self, files: Configuration, name: str, level: Level | None) -> "LiveChanges":
        """Return the changes with one queue as ``level``; if the files have the same, the queue has no live change."""
        entries = dict(self.entries)
        base = files.levels.get(name)
        if level == base:
            entries.pop(name, None)
        else:
            entries[name] = LiveChange(level, base)
        return LiveChanges(entries)

    def still(self, files: Configuration) -> "LiveChanges":
        """Return the changes that hold over these files."""
        holding = LiveChanges(
            {
                name: entry
                for name, entry in self.entries.items()
                if files.levels.get(name) == entry.base and entry.level != entry.base
            }
        )
        # A change may fit the files no more although they say nothing new of its own queue: a parent has become
        # smaller, say. Each round drops the changes that conflict, at least one of them, so this ends.
        while holding.entries:
            configuration = holding.over(files)
            conflicts = list(find_conflicts(configuration))
            if not conflicts:
                break
            holding = holding.without(_concerned(conflicts, configuration))
        return holding

    def without(self, names: set[str]) -> "LiveChanges":
        """Return the changes without those of these queues; without any, if these queues have none."""
        if not names & self.entries.keys():
            return LiveChanges()
        return LiveChanges({name: entry for name, entry in self.entries.items() if name not in names})

    def over(self, files: Configuration) -> Configuration:
        """Return the configuration in force over these files; the same object if there are no changes."""
        if not self.entries:
            return files
        levels = dict(files.levels)
        for name, entry in self.entries.items():
            if entry.level is None:
                levels.pop(name, None)
            else:
                levels[name] = entry.level
        # the schemas of a deleted queue are ignored, as upstream ignores those without a level
        schemas = tuple(schema for schema in files.schemas if schema.level in levels)
        return replace(files, levels=MappingProxyType(dict(sorted(levels.items()))), schemas=schemas)

    def drift(self) -> tuple[Drift, ...]:
        """Return all differences from the files."""
        return tuple(one for name in sorted(self.entries) for one in _differences(name, self.entries[name]))

    def __repr__(self) -> str:
        return f"<LiveChanges of {', '.join(sorted(self.entries)) or 'nothing'}>"


def _concerned(conflicts: list[LevelConflict], configuration: Configuration) -> set[str]:
    """Return the queues that have conflicts, and their parents."""
    names = {conflict.queue for conflict in conflicts}
    parents = {configuration.levels[name].parent for name in names}
    return names | {parent for parent in parents if parent is not None}


def _differences(name: str, entry: LiveChange) -> list[Drift]:
    level, base = entry
    if level is None or base is None:
        return [Drift(name, "queue", base and base.name, level and level.name)]
    found = []
    if level.shares != base.shares:
        found.append(Drift(name, "weight", base.shares.shares, level.shares.shares))
    for field in fields(Level):
        before, now = getattr(base, field.name), getattr(level, field.name)
        if field.name not in {"name", "shares"} and before != now:
            found.append(Drift(name, _NAMES.get(field.name, field.name), before, now))
    return found
