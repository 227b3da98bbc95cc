"""A watcher that notices changed files of a configuration.

A thread detects changed files by notifications of the operating system. It watches directories rather than files,
because editors and mounted ConfigMaps replace a file with a new one. Changes of other files there are ignored: each
notification only leads to a comparison of the files' metadata.
"""

import glob
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from apf_middleware.config.files import find_files
from apf_middleware.config.problems import Problems
from apf_middleware.exceptions import InvalidValueError, MissingExtraError
from apf_middleware.runtime import log_event

__all__ = ["Watcher", "require_sources", "watched_directories"]

_QUIET_MS: Final = 100  # changes are reported after a quiet time of this length
_MOST_MS: Final = 1_000  # or after this time, if there is no quiet time

_Look = tuple[tuple[str, int, int, int, int], ...]  # metadata of files


def require_sources(sources: Sequence[str | PathLike[str]], name: str, *, value: object) -> None:
    """Raise InvalidValueError about the argument ``name`` if a configuration came from no files."""
    if not sources:
        rule = "only a configuration that came from files can be read again"
        raise InvalidValueError(name, value, rule, "Give the middleware its paths: config='apf.yaml'")


class Watcher:
    """A watcher that calls a function, in its own thread, shortly after the files of ``sources`` have changed.

    Raises:
        MissingExtraError: the package watchfiles is not installed.
    """

    __slots__ = ("_differs", "_look", "_looked_at", "_sources", "_stop", "_thread", "_watch")

    def __init__(self, sources: Sequence[str | PathLike[str]]) -> None:
        require_sources(sources, "watch", value=True)
        try:
            from watchfiles import watch  # noqa: PLC0415 - the extra may be missing
        except ImportError as error:
            raise MissingExtraError("watchfiles", "reload") from error
        self._watch: Callable[..., Iterable[Any]] = watch
        self._sources = tuple(sources)
        self._look = self._seen()
        self._looked_at, self._differs = -1.0, False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, changed: Callable[[], object]) -> None:
        """Begin to watch, and call ``changed`` also for changes since the watcher was constructed."""
        self.stop()
        # A new event for each thread. `stop` doesn't wait, so an older thread may still run, and must find its own
        # event set.
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._stop, changed), name="apf: watch the configuration", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, without waiting for it."""
        self._stop.set()
        self._thread = None

    def _run(self, stop: threading.Event, changed: Callable[[], object]) -> None:
        self._compare(stop, changed)
        try:
            self._follow(stop, changed)
        except Exception as error:  # noqa: BLE001 - errors of watchfiles have no class of their own
            # Often a limit of the system: many processes of a user share a small number of inotify instances.
            log_event(logging.WARNING, "apf.watch-failed", instead="look at the files every second", error=error)
            while not stop.wait(_MOST_MS / 1000):
                self._compare(stop, changed)

    def _follow(self, stop: threading.Event, changed: Callable[[], object]) -> None:
        directories, is_deep = watched_directories(self._sources)
        for _ in self._watch(
            *directories,
            stop_event=stop,
            step=_QUIET_MS,
            debounce=_MOST_MS,
            recursive=is_deep,
            watch_filter=self._concerns,
            raise_interrupt=False,
            rust_timeout=_MOST_MS,
            yield_on_timeout=True,  # catches changes between the first comparison and the start of the watch
        ):
            self._compare(stop, changed)

    def _concerns(self, *_change: object) -> bool:
        """Return whether the files have changed, when watchfiles asks whether to report a change of any file.

        It logs what it reports. If the log is a file in a directory that is watched, each of its lines would cause the
        next one.
        """
        # All changes of one report are asked for at once, and there are at least `_QUIET_MS` between two reports.
        now = time.monotonic()
        if (now - self._looked_at) * 1000 >= _QUIET_MS / 2:
            self._looked_at, self._differs = now, self._seen() != self._look
        return self._differs

    def _compare(self, stop: threading.Event, changed: Callable[[], object]) -> None:
        look = self._seen()
        if look == self._look:
            return
        # watchfiles takes a file that is still being written for quiet, because it counts the changed files.
        waited_ms, before = 0, self._look
        while look != before and waited_ms < _MOST_MS:
            stop.wait(_QUIET_MS / 1000)
            waited_ms += _QUIET_MS
            before, look = look, self._seen()
        self._look = look
        # A change that is noticed after `stop` must not start a reload in a server that has ended.
        if not stop.is_set():
            changed()

    def _seen(self) -> _Look:
        """Return metadata of the files that differs when one of them has changed."""
        # A file that can't be found or read is reported by the reading that follows; here it only changes the result.
        # The inode differs if a file was replaced by one of the same size and time, such as a copy that keeps times.
        # The time at which its metadata changed differs if such a copy was written into it, and after `chmod`.
        found = []
        for path in find_files(self._sources, Problems()):
            try:
                stat = os.stat(path)  # noqa: PTH116 - there may be thousands of files
            except OSError:
                continue
            found.append((str(path), stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_ctime_ns))
        return tuple(found)

    def __repr__(self) -> str:
        return f"<Watcher of {', '.join(fspath(one) for one in self._sources)}{' at work' if self._thread else ''}>"


def watched_directories(sources: Iterable[str | PathLike[str]]) -> tuple[list[str], bool]:
    """Return the directories of these files and of link targets, and whether to watch them recursively."""
    found: set[Path] = set()
    is_deep = False
    for given in sources:
        source, path = fspath(given), Path(given)
        if glob.has_magic(source) and not path.exists():
            path = path.parent
            while glob.has_magic(str(path)):
                path, is_deep = path.parent, True
        for one in (path, path.resolve()):
            found.add(one if one.is_dir() else one.parent)
    return sorted(str(path) for path in found if path.is_dir()), is_deep
