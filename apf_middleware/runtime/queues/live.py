"""Live changes: how queues that were changed on a live server differ from the files.

Each changed queue has an entry: the queue as it is now, and as the files defined it when it was changed. When the files
are read again, an entry stays valid if the files still define the queue in that way; otherwise the newer file takes
precedence over the older live change. So a reload of unrelated documents loses nothing, and the drift of a live queue
ends when its `document` is written into the files.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from apf_middleware.config import Configuration
from apf_middleware.config.level_conflicts import LevelConflict, find_conflicts
from apf_middleware.config.objects import Level
from apf_middleware.frozen import frozen

__all__ = ["Drift", "LiveChange", "LiveChanges"]

_NAMES: Final = {"min_seats": "min", "max_seats": "max"}


@frozen
class Drift:
    """One difference: ``file`` and ``live`` are the values of a field.

    The field ``queue`` has the name of the queue, or None on the side where the queue doesn't exist.
    """

    queue: str
    field: str
    file: object
    live: object


class LiveChange(NamedTuple):
    """A queue as it is now (None if deleted), and as it was in the files when it was changed (None if missing)."""

    level: Level | None
    base: Level | None


class LiveChanges:
    """All live changes. The object is immutable: each change returns a new one."""

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
        """Return the changes that stay valid with these files."""
        holding = LiveChanges(
            {
                name: entry
                for name, entry in self.entries.items()
                if files.levels.get(name) == entry.base and entry.level != entry.base
            }
        )
        # A change may conflict with the new files although they define its own queue as before, for example if a parent
        # has become smaller. Each round drops at least one change, so the loop ends.
        while holding.entries:
            configuration = holding.over(files)
            conflicts = list(find_conflicts(configuration))
            if not conflicts:
                break
            holding = holding.without(_concerned(conflicts, configuration))
        return holding

    def without(self, names: set[str]) -> "LiveChanges":
        """Return the changes without those of the queues ``names``; if these queues have none, return no changes."""
        if not names & self.entries.keys():
            return LiveChanges()
        return LiveChanges({name: entry for name, entry in self.entries.items() if name not in names})

    def over(self, files: Configuration) -> Configuration:
        """Return the configuration of these files with the changes; ``files`` itself if there are no changes."""
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
