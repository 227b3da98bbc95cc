"""Whether the files of a configuration have changed: asked by the system's own notice, in a thread of its own.

Directories are watched rather than files, because editors and mounted ConfigMaps put a new file in the place of the
old one. What else happens there is sorted out by a look at the files themselves.
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

_QUIET_MS: Final = 100  # so long nothing must happen until what has happened is told
_MOST_MS: Final = 1_000  # but no later than this

_Look = tuple[tuple[str, int, int, int], ...]


class Watcher:
    """Calls ``changed``, in its own thread, some time after the files of these ``sources`` have changed.

    MissingExtraError without the package watchfiles.
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
        """Watch from now on; what has changed since this was made counts, too."""
        self.stop()
        self._stop, self._changed = threading.Event(), changed
        self._thread = threading.Thread(
            target=self._run, args=(self._stop, changed), name="apf: watch the configuration", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """The thread ends within a moment; nobody waits for it."""
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
            yield_on_timeout=True,  # what happened between the first look and the beginning is seen then
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
        """What changes when a file does."""
        found = []
        for path in find_files(self._sources, Problems()):
            try:
                stat = os.stat(path)  # noqa: PTH116 (one look for what may be a thousand files)
            except OSError:
                continue
            found.append((str(path), stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return tuple(found)

    def __repr__(self) -> str:
        return f"<Watcher of {', '.join(fspath(one) for one in self._sources)}{' at work' if self._thread else ''}>"


def watched_directories(sources: Iterable[str | PathLike[str]]) -> tuple[list[str], bool]:
    """The directories where these files are, and those that links lead to; whether what lies below them counts."""
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
