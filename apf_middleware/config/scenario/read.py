"""Reading a scenario: its own document, and the configuration that it tries out.

The configuration is the other documents of the same file, and the files that the scenario names. Everything that is
wrong is reported together, with file, line and field, as for a configuration.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Final

from apf_middleware.config.files import read_files, read_text
from apf_middleware.config.load import read_documents
from apf_middleware.config.model import parse, without_nulls
from apf_middleware.config.objects import Configuration
from apf_middleware.config.problems import ConfigurationError, Place, Problem, Problems, dotted
from apf_middleware.config.scenario.objects import Scenario, ScenarioDocument
from apf_middleware.config.yaml_nodes import Document

__all__ = ["ScenarioReading", "load_scenario", "read_scenario", "read_scenario_text"]

_KIND: Final = "Scenario"


@dataclass(frozen=True, slots=True)
class ScenarioReading:
    """The result of reading: scenario and configuration if there are no errors, and all errors and warnings."""

    scenario: Scenario | None
    configuration: Configuration | None
    problems: tuple[Problem, ...]

    def unwrap(self) -> tuple[Scenario, Configuration]:
        """Return the scenario and the configuration; raise ConfigurationError with the problems if there are errors."""
        if self.scenario is None or self.configuration is None:
            raise ConfigurationError(self.problems)
        return self.scenario, self.configuration


def load_scenario(*paths: str | PathLike[str]) -> tuple[Scenario, Configuration]:
    """Return the scenario in these files and its configuration; ConfigurationError has all problems."""
    return read_scenario(paths).unwrap()


def read_scenario(
    paths: Iterable[str | PathLike[str]], *, wanted: bool = True, together: bool = False
) -> ScenarioReading:
    """Return the scenario and its configuration, or the problems. Without ``wanted``, the scenario may be missing.

    If both are simulated ``together``, and not only with other configurations, they must fit together.
    """
    problems = Problems()
    listed = [fspath(path) for path in paths]
    documents = read_files(listed, problems)
    return _reading(documents, listed[0] if listed else ".", problems, wanted=wanted, together=together)


def read_scenario_text(text: str, name: str = "<text>") -> ScenarioReading:
    """Return the reading of a text; `read_scenario` reads files."""
    problems = Problems()
    return _reading(read_text(text, name, problems), name, problems, wanted=True, together=False)


def _reading(
    documents: list[Document], name: str, problems: Problems, *, wanted: bool, together: bool
) -> ScenarioReading:
    own = [one for one in documents if _is_scenario(one)]
    others = [one for one in documents if not _is_scenario(one)]
    scenario = _scenario(own, name, problems, wanted=wanted)
    if scenario is not None:
        folder = Path(scenario.folder)
        others += read_files([folder / path for path in scenario.configuration], problems)
    reading = read_documents(others, problems)
    broken = reading.configuration is None or scenario is None
    if together and scenario is not None and reading.configuration is not None:
        broken = not _fit_together(scenario, reading.configuration, own, problems)
    return ScenarioReading(None if broken else scenario, reading.configuration, tuple(problems))


def _fit_together(scenario: Scenario, configuration: Configuration, own: list[Document], problems: Problems) -> bool:
    members = scenario.members
    if members is None or not members.events or configuration.server.fleet is not None:
        return True
    path = ("spec", "members", "events", 0, "type")
    rule, hint = "events happen to a fleet, and the server has none", "Write fleet in the Server document"
    problems.error(own[0].place(path), rule, field=dotted(path), value=members.events[0].type, hint=hint)
    return False


def _is_scenario(document: Document) -> bool:
    kind = document.root.get("kind")
    return kind is not None and kind.value == _KIND


def _scenario(own: list[Document], name: str, problems: Problems, *, wanted: bool) -> Scenario | None:
    for second in own[1:]:
        rule = f"there can be only one Scenario, and {own[0].place()} has it already"
        problems.error(second.place(("kind",)), rule, field="kind", value=_KIND)
    if not own:
        if not wanted:
            return Scenario(folder=str(Path(name).parent))
        if not problems.errors:
            hint = "Add one with apiVersion: apf/v1 and kind: Scenario; docs/simulator.md shows how"
            problems.error(Place(name), "there must be a document of the kind Scenario", hint=hint)
        return None
    document = own[0]
    raw = document.root.plain()
    data = without_nulls(ScenarioDocument, raw)
    read = parse(ScenarioDocument, data, document, problems) if isinstance(raw, Mapping) else None
    if read is None:
        return None
    if wanted and not read.spec.tenants:
        problems.error(document.place(("spec",)), "there must be at least one", field="spec.tenants", value=[])
        return None
    return replace(read.spec, name=read.metadata.name, folder=str(Path(document.file).parent))
