"""Reading a configuration: from paths or text to a `Configuration`, or to everything that is wrong with it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike

from apf_middleware.config.advice import advise
from apf_middleware.config.build import Defaults, assemble
from apf_middleware.config.dialects import define
from apf_middleware.config.documents import Document
from apf_middleware.config.objects import Configuration
from apf_middleware.config.problems import ConfigurationError, Problem, Problems, Severity
from apf_middleware.config.queues import check_queues
from apf_middleware.config.source import read_files, read_text

__all__ = ["Reading", "load", "load_text", "read", "read_documents", "read_source"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of reading: a configuration if there are no errors, and all errors and warnings by place."""

    configuration: Configuration | None
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity is Severity.WARNING)

    def unwrap(self) -> Configuration:
        """The configuration; ConfigurationError with the errors if there are any."""
        if self.configuration is None:
            raise ConfigurationError(self.errors)
        return self.configuration


def load(*paths: str | PathLike[str], defaults: Defaults | None = None) -> Configuration:
    """The configuration in these files, directories and globs; without any, the web defaults.

    ``defaults`` goes before what a Server document says. ConfigurationError tells all that is wrong; warnings are what
    `read` tells.
    """
    return read(paths, defaults=defaults).unwrap()


def load_text(text: str | bytes, name: str = "<text>", *, defaults: Defaults | None = None) -> Configuration:
    """The configuration in this text, which messages call ``name``."""
    return read_source(text, name, defaults=defaults).unwrap()


def read(paths: Iterable[str | PathLike[str]], *, defaults: Defaults | None = None) -> Reading:
    """As `load`, but what is wrong is returned."""
    problems = Problems()
    return read_documents(read_files(paths, problems), problems, defaults)


def read_source(text: str | bytes, name: str = "<text>", *, defaults: Defaults | None = None) -> Reading:
    """As `load_text`, but what is wrong is returned."""
    problems = Problems()
    return read_documents(read_text(text, name, problems), problems, defaults)


def read_documents(documents: Sequence[Document], problems: Problems, defaults: Defaults | None = None) -> Reading:
    """As `read`, of what has been read so far with these problems."""
    definitions = [one for document in documents for one in define(document, problems)]
    incomplete = bool(problems.errors)
    assembly = assemble(definitions, problems, defaults)
    if not incomplete:  # or else a level might seem to be missing only because it has an error
        advise(assembly, problems)
        check_queues(assembly, definitions, problems)
    return Reading(None if problems.errors else assembly.configuration(), tuple(problems))
