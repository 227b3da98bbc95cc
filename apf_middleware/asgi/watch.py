"""Detection of changed configuration files, by notifications of the operating system, in a background thread.

Directories are watched rather than files, because editors and mounted ConfigMaps replace a file with a new one.
Changes of other files there are ignored, because each notification leads to a comparison of the files' metadata.
"""

import glob
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from apf_middleware.config.problems import Problems
from apf_middleware.config.source import find_files
from apf_middleware.exceptions import MissingExtraError

__all__ = ["Watcher", "watched_directories"]

_QUIET_MS: Final = 100  # changes are reported after a quiet time of this length
_MOST_MS: Final = 1_000  # or after this time, if there is no quiet time

_Look = tuple[tuple[str, int, int, int], ...]


class Watcher:
    """A watcher that calls a function, in its own thread, shortly after the files of ``sources`` have changed.

    Raises:
        MissingExtraError: the package watchfiles is not installed.
    """

    __slots__ = ("_changed", "_look", "_sources", "_stop", "_thread", "_watch")

    def __init__(self, sources: Sequence[str | PathLike[str]]) -> None:
        try:
            from watchfiles import watch  # noqa: PLC0415 - the extra may be missing
        except ImportError as error:
            raise MissingExtraError("watchfiles", "reload") from error
        self._watch: Callable[..., Iterable[Any]] = watch
        self._sources = tuple(sources)
        self._look = self._seen()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._changed: Callable[[], None] | None = None

    def start(self, changed: Callable[[], None]) -> None:
        """Begin to watch, and call ``changed`` also for changes since the watcher was constructed."""
        self.stop()
        self._stop, self._changed = threading.Event(), changed
        self._thread = threading.Thread(
            target=self._run, args=(self._stop, changed), name="apf: watch the configuration", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, without waiting for it."""
        self._stop.set()
        self._thread = None

    def _run(self, stop: threading.Event, changed: Callable[[], None]) -> None:
        directories, is_deep = watched_directories(self._sources)
        self._compare(changed)
        for _ in self._watch(
            *directories,
            stop_event=stop,
            step=_QUIET_MS,
            debounce=_MOST_MS,
            recursive=is_deep,
            watch_filter=None,
            raise_interrupt=False,
            rust_timeout=_MOST_MS,
            yield_on_timeout=True,  # catches changes between the first comparison and the start of the watch
        ):
            if stop.is_set():
                return
            self._compare(changed)

    def _compare(self, changed: Callable[[], None]) -> None:
        look = self._seen()
        if look != self._look:
            self._look = look
            changed()

    def _seen(self) -> _Look:
        """Return metadata of the files that changes when one of them does."""
        found = []
        for path in find_files(self._sources, Problems()):
            try:
                stat = os.stat(path)  # noqa: PTH116 - there may be thousands of files
            except OSError:
                continue
            found.append((str(path), stat.st_mtime_ns, stat.st_size, stat.st_ino))
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
