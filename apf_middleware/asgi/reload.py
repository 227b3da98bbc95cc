"""Reload of the configuration while the server runs: it is read again from its files and put in force in one step.

Reading is slow and happens in a thread. The new configuration is checked there as at the start, and all objects that
can be built in advance are built there. It is then put in force between two steps of the event loop, so no request sees
a mixture of old and new. If there is an error, nothing changes; the error is logged with its place, counted, and kept
for display.
"""

import logging
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Final, NamedTuple

from apf_middleware.asgi.background_tasks import BackgroundTasks
from apf_middleware.asgi.loop_lock import LoopLock
from apf_middleware.asgi.own_thread import run_in_own_thread
from apf_middleware.asgi.resolver import RequestResolver
from apf_middleware.asgi.signals import Signals
from apf_middleware.asgi.watcher import Watcher, require_sources
from apf_middleware.config import Configuration, ConfigurationError, Place, Problem, read
from apf_middleware.config.files import read_files
from apf_middleware.config.formats import unwrapped
from apf_middleware.config.problems import Absent, Problems, dotted
from apf_middleware.config.problems import Path as FieldPath
from apf_middleware.config.server import ServerSettings
from apf_middleware.config.settings import Settings, as_mapping, declared_fields, key_of, path_of
from apf_middleware.config.yaml_nodes import Document
from apf_middleware.exceptions import APFError, InvalidValueError, UnknownGateError
from apf_middleware.runtime import SETTLED_AT_START, Controller, log_event
from apf_middleware.runtime.event_loop import EventLoop

if TYPE_CHECKING:
    from apf_middleware.asgi.shadow import ShadowTrial
    from apf_middleware.asgi.tracing import Tracing

__all__ = [
    "NO_FILES",
    "ConfigurationOrigin",
    "PreparedConfiguration",
    "Reloader",
    "located",
    "needs_restart",
    "server_file",
]

_RELOAD: Final = (signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()
_RULE: Final = "it can't change while the server runs"
_VANISHED: Final = "a Server document must stay while the configuration in force has one"
_ALLOW: Final = "Write it back, or start the server with allow_empty=True"
_MOST_LOGGED: Final = 20  # warnings of one configuration
_COPY: Final = "Copy it from the server's own files, or start the server with allow_empty=True"


class PreparedConfiguration(NamedTuple):
    """A configuration and the objects built from it before it is in force; ``files`` is without live changes."""

    files: Configuration
    configuration: Configuration
    resolver: RequestResolver
    tracing: "Tracing | None"
    shadow: "ShadowTrial | None" = None


class ConfigurationOrigin(NamedTuple):
    """The sources of a configuration and the findings of its first reading.

    If there is a ``watcher``, the files are read again when they change; it was made before the first reading.
    ``has_server`` tells whether the files had a Server document. With ``allow_empty``, the files may define nothing,
    and a reload may remove the Server document.
    """

    sources: tuple[str | PathLike[str], ...] = ()
    watcher: Watcher | None = None
    warnings: tuple[Problem, ...] = ()
    has_server: bool = False
    allow_empty: bool = False


NO_FILES: Final = ConfigurationOrigin()
"""The origin of a configuration that was not read from files."""


class _Outcome(NamedTuple):
    """A configuration that is ready to be put in force, with its warnings; or None, with the errors."""

    prepared: PreparedConfiguration | None
    problems: tuple[Problem, ...]
    has_server: bool = False


class Reloader:
    """A reader that reloads the files of ``origin``; it does nothing if there are no files.

    ``prepare`` is called in a thread, and builds the objects that can be built in advance. ``adopt`` puts them in force
    in one step, or raises and changes nothing; then ``controller`` has the new configuration. ``publish_soon``
    publishes the numbers of loads for other workers.

    Files that define nothing are refused, and so are files without a Server document while the configuration in force
    has one: a file that was emptied by mistake must not remove authentication.

    ``loads`` counts readings by result, ``error`` is the error of the last reading or None if it is in force, and
    ``warnings`` are those of the configuration in force.
    """

    def __init__(
        self,
        origin: ConfigurationOrigin,
        controller: Controller,
        *,
        prepare: Callable[[Configuration], PreparedConfiguration],
        adopt: Callable[[PreparedConfiguration], None],
        publish_soon: Callable[[], None],
    ) -> None:
        self._controller = controller
        self._build = prepare
        self._adopt = adopt
        self._publish_soon = publish_soon
        self._sources = origin.sources
        self._has_server = origin.has_server
        self._allow_empty = origin.allow_empty
        self._watcher = origin.watcher
        self._signals = Signals(*_RELOAD, may_end=False) if _RELOAD and self._sources else None
        self._lock = LoopLock()
        self._begun = 0
        self._completed = 0  # the number of the last reading that has ended
        self._tasks = BackgroundTasks()
        self.loads: Counter[str] = Counter({"success": 1, "failure": 0})
        self.error: ConfigurationError | None = None
        self.warnings: tuple[Problem, ...] = origin.warnings

    async def reload(self) -> bool:
        """Read the files again and put their configuration in force; False if there is an error and nothing changes.

        One reading runs at a time. All calls that arrive during a reading share the result of the next one. They can't
        share the current one, because it may have read the files before the changes for which they were made.
        """
        require_sources(self._sources, "config", value=self._controller.configuration)
        begun = self._begun
        async with self._lock.here():
            if self._completed > begun:
                return self.error is None
            self._begun = number = self._begun + 1
            try:
                outcome = await run_in_own_thread(self._read)
            except (OSError, RuntimeError) as error:  # the system has no further thread
                problem = Problem(Place(fspath(self._sources[0])), "", None, f"it can't be read now: {error}")
                outcome = _Outcome(None, (problem,))
            # Not reached if this call is cancelled: the next caller then reads the files again and shares nothing.
            self._completed = number
            # where requests are served, also if this call runs in another thread's event loop
            return self._controller.home.call(partial(self._conclude, outcome))

    async def force(self, trial: "ShadowTrial") -> tuple[Problem, ...]:
        """Put the configuration of a trial in force; return why not, if that is impossible.

        The next reading of the files replaces it.
        """
        configuration, source = trial.configuration, trial.source
        async with self._lock.here():
            if not trial.has_server and self._needs_server(configuration):
                return (Problem(Place(source), "kind", Absent.ABSENT, _VANISHED, _COPY),)
            prepared, problems, _ = await run_in_own_thread(partial(self._prepare, configuration, source))
            if prepared is None:
                return problems
            try:
                self._adopt(prepared)
            except APFError as error:
                return (Problem(Place(source), "", None, str(error)),)
            self._succeed(prepared.configuration, problems)
            return ()

    def _needs_server(self, configuration: Configuration) -> bool:
        """Return whether a configuration without a Server document would remove settings like the authentication."""
        if self._allow_empty:
            return False
        # A configuration made in Python has no documents, so its settings are compared.
        return self._has_server if self._sources else configuration.server != self._controller.configuration.server

    def _prepare(self, configuration: Configuration, source: str) -> _Outcome:
        refused = needs_restart(self._controller.configuration, configuration, ())
        if refused:
            return _Outcome(None, tuple(replace(problem, place=Place(source)) for problem in refused))
        try:
            return _Outcome(self._build(configuration), ())
        except Exception as error:  # noqa: BLE001 - as in `_read`
            return _Outcome(None, (Problem(Place(source), "", None, f"it can't be used: {error}"),))

    def _conclude(self, outcome: _Outcome) -> bool:
        """Put the configuration in force if it has no errors, and return whether it is."""
        prepared, problems, has_server = outcome
        if prepared is not None:
            # This may refuse what the thread couldn't check, such as a schema with a gate that the app has removed.
            try:
                self._adopt(prepared)
            except APFError as error:
                prepared, problems = None, (_problem(error, self._sources),)
        if prepared is None:
            self._fail(problems)
            return False
        self._has_server = has_server
        self._succeed(prepared.configuration, problems)
        return True

    def _read(self) -> _Outcome:
        """Read the files, and check that their changes are possible while the server runs."""
        try:
            reading = read(self._sources, allow_empty=self._allow_empty)
            if reading.configuration is None:
                return _Outcome(None, reading.errors)
            if self._has_server and not (reading.has_server or self._allow_empty):
                gone = Problem(Place(fspath(self._sources[0])), "kind", Absent.ABSENT, _VANISHED, _ALLOW)
                return _Outcome(None, (gone,))
            refused = needs_restart(self._controller.configuration, reading.configuration, self._sources)
            if refused:
                return _Outcome(None, refused)
            return _Outcome(self._build(reading.configuration), reading.warnings, reading.has_server)
        except Exception as error:  # noqa: BLE001 - code that a configuration names may raise anything
            return _Outcome(None, (_problem(error, self._sources),))

    def _succeed(self, configuration: Configuration, warnings: tuple[Problem, ...]) -> None:
        self.loads["success"] += 1
        self._publish_soon()
        self.error, self.warnings = None, warnings
        counts = {"levels": len(configuration.levels), "schemas": len(configuration.schemas)}
        log_event(logging.INFO, "apf.reloaded", seats=configuration.server.total, **counts, warnings=len(warnings))
        self._log_warnings()

    def _log_warnings(self) -> None:
        for one in self.warnings[:_MOST_LOGGED]:
            log_event(logging.WARNING, "apf.configuration-warning", **_place_in_log(one), warning=str(one))

    def _fail(self, problems: tuple[Problem, ...]) -> None:
        self.loads["failure"] += 1
        self._publish_soon()
        self.error = ConfigurationError(problems)
        first = problems[0]
        log_event(logging.ERROR, "apf.reload-failed", **_place_in_log(first), errors=len(problems), error=str(first))

    def located(self, error: UnknownGateError) -> APFError:
        """Return the error with its file and line, if the configuration was read from files."""
        return located(error, self._sources)

    # Reloads on a signal or on changes of the files, from the server's start to its end

    def begin(self) -> None:
        """Log the warnings, and begin to react to signals and changed files; this needs the running event loop."""
        self._log_warnings()
        if not self._sources:
            return
        self._lock.here()  # This loads code, for which a busy server may have no file descriptor later.
        # The watcher calls this in its thread, and a signal may interrupt any statement. Both only post to the loop.
        ask = partial(EventLoop().post, self.ask)
        if self._signals is not None:
            self._signals.listen(ask)
        if self._watcher is not None:
            self._watcher.start(ask)

    def end(self) -> None:
        """Stop reacting to signals and changed files."""
        if self._signals is not None:
            self._signals.forget()
        if self._watcher is not None:
            self._watcher.stop()

    def ask(self) -> None:
        """Start a reload in the background."""
        self._tasks.start("apf: reload", self.reload)

    def __repr__(self) -> str:
        return f"<Reloader of {', '.join(fspath(one) for one in self._sources) or 'nothing'}: {dict(self.loads)}>"


def _place_in_log(problem: Problem) -> dict[str, object]:
    return {"file": problem.place.file, "line": problem.place.line, "field": problem.field}


def located(error: InvalidValueError, sources: Sequence[str | PathLike[str]]) -> APFError:
    """Return an error of a setting in these files with its file and line; return other errors unchanged."""
    first, *rest = path_of(error.name)
    # An argument of the middleware may have the name of a setting, but not of a part of one.
    is_setting = bool(rest) and first in {one.key for one in declared_fields(ServerSettings).values()}
    if sources and (is_setting or isinstance(error, UnknownGateError)):
        return ConfigurationError([_problem(error, sources)])
    return error


def _problem(error: Exception, sources: Sequence[str | PathLike[str]]) -> Problem:
    """Return the problem that an exception describes, with its place as far as that is known."""
    if isinstance(error, UnknownGateError):
        place, field = _place_of_gate(sources, error.value)
        return Problem(place, field or error.name, error.value, error.rule, error.hint)
    if isinstance(error, InvalidValueError):
        path = path_of(error.name)
        return Problem(_place(sources, path), f"spec.{error.name}", error.value, error.rule, error.hint)
    rule = str(error) if isinstance(error, APFError) else f"it can't be used: {type(error).__name__}: {error}"
    return Problem(_place(sources, ()), "", None, rule)


def needs_restart(
    before: Configuration, after: Configuration, sources: Sequence[str | PathLike[str]]
) -> tuple[Problem, ...]:
    """Return a problem for each changed setting that needs a restart, with its place in ``sources``."""
    old, new = before.server, after.server
    changed: dict[FieldPath, object] = {
        (key_of(name),): getattr(new, name) for name in SETTLED_AT_START if getattr(new, name) != getattr(old, name)
    }
    # The names of metrics and the control socket are settled when the service is created.
    if new.metrics.prefix != old.metrics.prefix:
        changed["metrics", "prefix"] = new.metrics.prefix
    for name in ("socket", "app"):
        if getattr(new.admin, name) != getattr(old.admin, name):
            changed["admin", name] = getattr(new.admin, name)
    return tuple(
        Problem(
            _place(sources, path),
            dotted(("spec", *path)),
            as_mapping(value) if isinstance(value, Settings) else value,
            _RULE,
            "Restart the server",
        )
        for path, value in changed.items()
    )


def server_file(sources: Sequence[str | PathLike[str]]) -> str:
    """Return the path of the file with the Server document; without one, the first of the sources."""
    return _place(sources, ()).file


def _place(sources: Sequence[str | PathLike[str]], path: FieldPath) -> Place:
    """Return the place of a setting in the Server document; without one, the first of the sources."""
    for document in _objects(sources):
        kind = document.root.get("kind")
        if kind is not None and kind.value == "Server":
            return document.place(("spec", *path))
    return Place(fspath(sources[0]) if sources else "")


def _objects(sources: Sequence[str | PathLike[str]]) -> Iterator[Document]:
    """Yield the objects in the files, also those in lists."""
    problems = Problems()
    for document in read_files(sources, problems):
        yield from unwrapped(document, problems)


def _place_of_gate(sources: Sequence[str | PathLike[str]], name: object) -> tuple[Place, str]:
    """Return the first place where a list of gates has this name, and the field there."""
    for document in _objects(sources):
        for path, node in document.root.walk():
            if path[-2:-1] == ("gates",) and node.value == name:
                return document.place(path), dotted((*document.base, *path))
    return _place(sources, ()), ""
