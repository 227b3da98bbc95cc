"""Reading a configuration: from paths or text to a `Configuration`, or to everything that is wrong with it."""

from collections.abc import Iterable, Sequence
from os import PathLike, fspath

from apf_middleware.config.files import read_files, read_text
from apf_middleware.config.formats import define
from apf_middleware.config.level_conflicts import report_conflicts
from apf_middleware.config.lint import lint_objects
from apf_middleware.config.merge import Defaults, merge
from apf_middleware.config.objects import Configuration
from apf_middleware.config.problems import ConfigurationError, Place, Problem, Problems, Severity
from apf_middleware.config.server import ServerSettings
from apf_middleware.config.yaml_nodes import Document
from apf_middleware.frozen import frozen

__all__ = ["Reading", "load", "load_text", "read", "read_documents", "read_source"]


@frozen
class Reading:
    """The result of reading: a configuration if there are no errors, and all errors and warnings, sorted by place.

    ``has_server`` means that a Server document was among the files.
    """

    configuration: Configuration | None
    problems: tuple[Problem, ...]
    has_server: bool = False

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity is Severity.WARNING)

    def unwrap(self) -> Configuration:
        """Return the configuration, or raise ConfigurationError with all errors."""
        if self.configuration is None:
            raise ConfigurationError(self.errors)
        return self.configuration


def load(*paths: str | PathLike[str], defaults: Defaults | None = None, allow_empty: bool = False) -> Configuration:
    """Return the configuration in these files, directories and globs; without any, the web defaults.

    ``defaults`` takes precedence over a Server document. Files that define nothing are an error unless ``allow_empty``.
    ConfigurationError has all errors; `read` also returns warnings.
    """
    return read(paths, defaults=defaults, allow_empty=allow_empty).unwrap()


def load_text(text: str | bytes, name: str = "<text>", *, defaults: Defaults | None = None) -> Configuration:
    """Return the configuration in this text; problems show ``name`` as its file."""
    return read_source(text, name, defaults=defaults).unwrap()


def read(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    defaults: Defaults | None = None,
    allow_empty: bool = False,
    skip_foreign: bool = False,
) -> Reading:
    """Return the configuration or the errors, as `load` does, and the warnings; ``paths`` may be one path.

    Objects of other APIs are ignored; unless ``skip_foreign``, each causes a warning.
    """
    problems = Problems()
    listed = [fspath(path) for path in ([paths] if isinstance(paths, str | PathLike) else paths)]
    documents = read_files(listed, problems)
    needed = None if allow_empty or not listed else Place(listed[0])
    return read_documents(documents, problems, defaults, skip_foreign=skip_foreign, needed=needed)


def read_source(
    text: str | bytes, name: str = "<text>", *, defaults: Defaults | None = None, allow_empty: bool = True
) -> Reading:
    """Return the configuration or the errors, as `load_text` does, and the warnings.

    A text that defines nothing is an error unless ``allow_empty``.
    """
    problems = Problems()
    needed = None if allow_empty else Place(name)
    return read_documents(read_text(text, name, problems), problems, defaults, needed=needed)


def read_documents(
    documents: Sequence[Document],
    problems: Problems,
    defaults: Defaults | None = None,
    *,
    skip_foreign: bool = False,
    needed: Place | None = None,
) -> Reading:
    """Return the reading of these documents, with the problems found so far.

    If no document defines an object, that is an error at the place ``needed``, if one is given.
    """
    definitions = [one for document in documents for one in define(document, problems, skip_foreign=skip_foreign)]
    if needed is not None and not definitions and not problems.errors:
        hint = "Write a document, or accept the defaults with --allow-empty (allow_empty=True)"
        problems.error(needed, "there must be an object, because without any the defaults would be used", hint=hint)
    incomplete = bool(problems.errors)
    merged = merge(definitions, problems, defaults)
    if not incomplete:  # otherwise a level that has an error would be reported as missing
        report_conflicts(merged, definitions, problems)
        lint_objects(merged, problems)
    has_server = any(isinstance(one.thing, ServerSettings) for one in definitions)
    return Reading(None if problems.errors else merged.configuration(), tuple(problems), has_server)
