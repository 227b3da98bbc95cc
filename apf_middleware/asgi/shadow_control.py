"""The shadow of a server: the second configuration that is tried now, if any; its start, report and end."""

import logging
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anyio.lowlevel import checkpoint

from apf_middleware.asgi.background_tasks import BackgroundTasks
from apf_middleware.asgi.own_thread import run_in_own_thread
from apf_middleware.asgi.reload import server_file
from apf_middleware.asgi.request_observers import RequestObservers
from apf_middleware.asgi.resolver import RequestResolver
from apf_middleware.config import Configuration, ConfigurationError, Problem, read_source
from apf_middleware.config.values import known_functions_only
from apf_middleware.estimation import Inventory
from apf_middleware.exceptions import APFError
from apf_middleware.runtime import Controller
from apf_middleware.runtime.log import log_event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from apf_middleware.asgi.shadow import Shadow, ShadowTrial
    from apf_middleware.metrics import ShadowReading
    from apf_middleware.runtime.fleet.participant import FleetParts
    from apf_middleware.snapshots.shadow import ShadowSnapshot

__all__ = ["ShadowControl", "read_trial"]

_SLICE: Final = 1_000  # events that are caught up with before other tasks run


def read_trial(text: str, source: str, *, classify_only: bool = False, is_own: bool = False) -> "ShadowTrial":
    """Return the trial of the configuration in this text; raise ConfigurationError with all of its errors.

    Unless the text ``is_own``, from a file that the server's own files name, it may only name functions that these do.
    """
    # Most servers never try anything. This runs in a thread, or before the server starts.
    from apf_middleware.asgi.shadow import ShadowTrial  # noqa: PLC0415

    with nullcontext() if is_own else known_functions_only():
        reading = read_source(text, source, allow_empty=False)
    return ShadowTrial(reading.unwrap(), text, source, classify_only, reading.has_server)


def _log_refusal(source: object, error: object) -> None:
    log_event(logging.WARNING, "apf.shadow-refused", source=source, error=str(error))


class ShadowControl:
    """Starts and ends shadows of a server, which has ``controller`` and ``resolver``, and whose files are ``sources``.

    ``force`` puts a trial in force, or returns why it can't. ``read_parts`` returns the server's parts in its
    fleet.
    """

    def __init__(
        self,
        controller: Controller,
        resolver: RequestResolver,
        observers: RequestObservers,
        inventory: Inventory,
        *,
        force: "Callable[[ShadowTrial], Awaitable[tuple[Problem, ...]]]",
        sources: Sequence[str | PathLike[str]] = (),
        read_parts: "Callable[[], FleetParts | None]" = lambda: None,
    ) -> None:
        self._controller = controller
        self._resolver = resolver
        self._observers = observers
        self._inventory = inventory
        self._force = force
        self._sources = sources
        self._read_parts = read_parts
        self._shadow: Shadow | None = None
        self._error: str | None = None
        self.was_promoted: bool = False  # the last trial
        self._changes = 0  # how often a trial has begun or ended, or another member has told that one has
        self._tasks = BackgroundTasks()
        self.configured: ShadowTrial | None = None
        """The trial that the configuration in force asks for."""

    @property
    def trial(self) -> "ShadowTrial | None":
        """What is tried now, or was tried until the shadow failed."""
        return None if self._shadow is None else self._shadow.trial

    @property
    def is_running(self) -> bool:
        """Whether a shadow sees the requests."""
        return self._shadow is not None and self._error is None

    def start(self, trial: "ShadowTrial") -> None:
        """Try another configuration from now on, instead of the one before; raise APFError if that is impossible."""
        from apf_middleware.asgi.shadow import Shadow  # noqa: PLC0415 - `read_trial` has loaded it

        resolver = self._resolver
        begun = Shadow(
            trial,
            self._controller,
            resolver.chain,
            resolver.keys,
            inventory=self._inventory,
            on_failure=self._fail,
        )
        self.stop()
        self._shadow, self.was_promoted = begun, False
        self.follow_fleet()
        self._observers.add(begun)
        log_event(logging.INFO, "apf.shadow-started", source=trial.source, classify_only=trial.classify_only)

    def stop(self) -> bool:
        """End the shadow; return False if there is none."""
        self._changes += 1
        shadow, self._shadow, self._error = self._shadow, None, None
        if shadow is None:
            return False
        shadow.server.is_over = True
        self._observers.remove(shadow)
        log_event(logging.INFO, "apf.shadow-stopped", source=shadow.trial.source)
        return True

    async def promote(self) -> tuple[Problem, ...]:
        """Put the configuration that is tried in force; return why not, if that is impossible and nothing changes.

        The files stay as they are, and the next reload reads them again.
        """
        trial = self.trial
        return () if trial is None else await self._promote(trial)

    async def _promote(self, trial: "ShadowTrial") -> tuple[Problem, ...]:
        problems = await self._force(trial)
        if not problems:
            if self.trial is trial:
                self.stop()
            # Otherwise it has ended when it was put in force: a trial that the files had named, which it names no
            # longer.
            self.was_promoted = self.trial is None
        return problems

    def _fail(self, shadow: "Shadow", error: Exception) -> None:
        """End a shadow because of an error in it; its report stays."""
        self._observers.remove(shadow)
        if shadow is self._shadow:
            self._error = f"{type(error).__name__}: {error}"
        log_event(
            logging.ERROR,
            "apf.shadow-failed",
            source=shadow.trial.source,
            error="".join(traceback.format_exception(error)),
        )

    async def report(self) -> "ShadowSnapshot | None":
        """Return what the shadow has found; None if there is none."""
        shadow = self._shadow
        if shadow is None:
            return None
        try:
            while self.is_running and not shadow.server.settle(_SLICE):
                await checkpoint()
        except Exception as error:  # noqa: BLE001 - as with requests, an error ends the shadow only
            shadow.server.fail(error)
        controller, reason = self._controller, self._error if shadow is self._shadow else None
        return shadow.report(controller.configuration, controller.now(), reason)

    def reading(self) -> "ShadowReading | None":
        """Return the numbers for the metrics; None without a shadow."""
        shadow = self._shadow
        if shadow is None:
            return None
        if self.is_running:
            try:
                shadow.server.settle(_SLICE)
            except Exception as error:  # noqa: BLE001 - as above
                shadow.server.fail(error)
        return shadow.reading(has_failed=self._error is not None)

    # The other members of a fleet

    def follow(self, text: str | None, source: str, *, classify_only: bool) -> None:
        """Try, in the background, what another member tries; None ends the trial."""
        self._changes += 1
        if text is None:
            self.stop()
        elif not self._tries(text, classify_only=classify_only):
            read = partial(read_trial, text, source, classify_only=classify_only)
            self._tasks.start("apf: start a shadow", partial(self._read_and_start, read, source, self._changes))

    def _tries(self, text: str, *, classify_only: bool) -> bool:
        trial = self.trial
        return trial is not None and (trial.text, trial.classify_only) == (text, classify_only)

    def follow_promotion(self, text: str, source: str) -> None:
        """Put this configuration in force, in the background, because another member has; other trials end."""
        self._tasks.start("apf: promote a shadow", partial(self._follow_promotion, text, source))

    async def _follow_promotion(self, text: str, source: str) -> None:
        trial = self.trial
        if trial is None or trial.text != text:
            self.stop()
            trial = await self._read(partial(read_trial, text, source), source)
        if trial is not None and (problems := await self._promote(trial)):
            _log_refusal(source, problems[0])

    async def _read_and_start(self, read: "Callable[[], ShadowTrial]", source: str, changes: int) -> None:
        trial = await self._read(read, source)
        try:
            if trial is not None and changes == self._changes:  # otherwise what was done or told meanwhile is newer
                self.start(trial)
        except Exception as error:  # noqa: BLE001 - code that a configuration names may raise anything
            _log_refusal(source, error)

    async def _read(self, read: "Callable[[], ShadowTrial]", source: str) -> "ShadowTrial | None":
        try:
            return await run_in_own_thread(read)
        except Exception as error:  # noqa: BLE001 - as above
            _log_refusal(source, error)
            return None

    # The real server

    def follow_fleet(self) -> None:
        """Give the shadow the parts of its seats and maxes that this member has of the fleet's."""
        shadow = self._shadow
        parts = None if shadow is None else self._read_parts()
        if shadow is not None and parts is not None:
            shadow.server.restrict(*parts)

    def read(self, configuration: Configuration) -> "ShadowTrial | None":
        """Return the trial that ``configuration`` asks for; None, and log why, if its file can't be used."""
        settings = configuration.server.shadow
        if settings is None:
            return None
        path = Path(settings.file)
        try:
            if self._sources:
                path = Path(server_file(self._sources)).parent / path
            return read_trial(path.read_text("utf-8-sig"), str(path), classify_only=settings.classify_only, is_own=True)
        except (APFError, OSError, ValueError) as error:
            _log_refusal(path, error.problems[0] if isinstance(error, ConfigurationError) else error)
            return None

    def adopt(self, resolver: RequestResolver, configured: "ShadowTrial | None") -> None:
        """Follow another real configuration, which has this ``resolver`` and asks for the trial ``configured``.

        A trial that an operator has begun goes on.
        """
        self._resolver = resolver
        before, self.configured = self.configured, configured
        if configured is not None and configured != before:
            self._start_configured(configured)
        elif configured is None and before is not None and self.trial == before:
            self.stop()
        if self._shadow is not None:
            self._shadow.adopt(resolver.chain, resolver.keys)

    def _start_configured(self, trial: "ShadowTrial") -> None:
        try:
            self.start(trial)
        except Exception as error:  # noqa: BLE001 - code that a configuration names may raise anything
            _log_refusal(trial.source, error)

    def __repr__(self) -> str:
        return f"<ShadowControl: {self._shadow!r}>"
