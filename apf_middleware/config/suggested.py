"""The built-in objects: those that always exist, and the suggested ones, of which there are versions.

A version never changes once it has been released, so an upgrade of the package doesn't change a configuration. The
first version of a set is in the file of its name, say ``web.yaml``, and later ones in ``web-2.yaml`` and so on.
"""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from apf_middleware.classification import FlowSchema
from apf_middleware.config.files import read_text
from apf_middleware.config.formats import define
from apf_middleware.config.objects import Level
from apf_middleware.config.problems import ConfigurationError, Problems
from apf_middleware.config.server import ServerSettings

__all__ = ["NewerDefaults", "mandatory", "newer_defaults", "newest_version", "suggested"]

FOLDER = Path(__file__).parent / "defaults"
_FIRST: Final = 1


class NewerDefaults(NamedTuple):
    """A newer version of the suggested objects, and what it would change."""

    version: int
    changes: tuple[str, ...]


def mandatory() -> tuple[Level | FlowSchema, ...]:
    """Return the objects that always exist."""
    return _objects(FOLDER / "mandatory.yaml")


def suggested(defaults: str, version: int) -> tuple[Level | FlowSchema, ...]:
    """Return the suggested objects of this version."""
    return _objects(_file(defaults, version))


def newest_version(defaults: str) -> int:
    """Return the number of the newest version."""
    version = _FIRST
    while _file(defaults, version + 1).exists():
        version += 1
    return version


def newer_defaults(defaults: str, version: int) -> NewerDefaults | None:
    """Return the newest version and what it would change; None if this one is the newest, or there is no such set."""
    newest = 0 if defaults == "none" else newest_version(defaults)
    if newest <= version:
        return None
    before, after = (_by_name(suggested(defaults, one)) for one in (version, newest))
    changes = []
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            what = "without" if key not in after else "new" if key not in before else "another"
            changes.append(f"{what} {' '.join(key)}")
    return NewerDefaults(newest, tuple(changes))


def _by_name(things: Iterable[Level | FlowSchema]) -> dict[tuple[str, str], Level | FlowSchema]:
    return {("level" if isinstance(thing, Level) else "schema", thing.name): thing for thing in things}


def _file(defaults: str, version: int) -> Path:
    return FOLDER / (f"{defaults}.yaml" if version == _FIRST else f"{defaults}-{version}.yaml")


# The objects are immutable, so all configurations can share them.
@lru_cache(maxsize=16)
def _objects(path: Path) -> tuple[Level | FlowSchema, ...]:
    problems = Problems()
    documents = read_text(path.read_bytes(), f"<{path.stem}>", problems)
    things = [definition.thing for document in documents for definition in define(document, problems)]
    if problems.errors:
        raise ConfigurationError(problems)
    return tuple(thing for thing in things if not isinstance(thing, ServerSettings))
