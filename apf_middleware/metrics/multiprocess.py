"""Several workers on one host: each writes its numbers to files, and the worker that is scraped reads all files.

The files have prometheus_client's format (``PROMETHEUS_MULTIPROC_DIR``), and prometheus_client adds them up. Its own
collector can therefore read them together with an app's own metrics. They are written by a `Publisher` instead of
prometheus_client's value classes, for three reasons: it writes only numbers that have changed; each file has only one
writer, even if others use the directory; and the series of removed levels disappear, because a new file replaces the
old one.

A file's name contains the ID of the process, the time at which the process began, and the number of the publisher in
it. The gauges of a killed worker can therefore be told from those of a later process with the same ID, and the next
scrape deletes them. The counters and histograms of the killed worker stay, because they count requests that have
happened.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from apf_middleware.counters import Histogram
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.metrics.collector import DEFAULT_PREFIX, metric_name
from apf_middleware.metrics.exposition import render
from apf_middleware.metrics.families import read_families
from apf_middleware.metrics.family import Family
from apf_middleware.metrics.ratios import RatioLedger
from apf_middleware.metrics.reading import ServerReading

__all__ = ["DIRECTORY_VARIABLE", "DirectoryCollector", "Publisher", "scrape"]

DIRECTORY_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that names the directory."""

_OURS: Final = re.compile(r"gauge_[a-z]+_apf-(?P<pid>\d+)-(?P<birth>\d+)-\d+\.db")
_PROCESSES: Final = Path("/proc")
_NO_BIRTH: Final = "0"  # if the system doesn't report it
_LEAST_BYTES: Final = 2**16  # of a file
_HEAD_BYTES: Final = 8
_MOST_ADDED: Final = 28  # bytes of an entry beyond its key: the length, padding and two numbers
_numbers: Final = count()


def _birth(pid: int) -> str | None:
    """Return the time at which a process began, in the system's own units; None if it has ended or is a zombie."""
    try:
        stat = (_PROCESSES / str(pid) / "stat").read_text()
    except OSError:
        if (_PROCESSES / "self").exists():
            return None
        return _NO_BIRTH if _answers(pid) else None
    # The command before this is in parentheses, and may contain any characters, even parentheses and spaces.
    state, *fields = stat.rpartition(")")[2].split()
    # the 22nd field of proc(5), where the state is the third
    return None if state in "ZX" else fields[18]


def _answers(pid: int) -> bool:
    """Return whether a process exists, on systems on which only a signal can find this out."""
    if os.name != "posix":
        return True  # on other systems, any signal ends the process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class _SeriesFile:
    """One file of one publisher, and the series in it.

    The file system has room for all of its length from the beginning. Otherwise the process would be killed by SIGBUS
    if it wrote to a new page while the file system is full.
    """

    __slots__ = ("_path", "_room", "_values", "_written")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: dict[str, float] = {}
        self._values, self._room = self._begin({})

    def write(self, series: dict[str, float]) -> None:
        """Write these series: change their numbers, or begin a new file.

        That is needed if some series have gone, if new ones don't fit, or if something else has removed the file.
        """
        written = self._written
        more = _most_bytes(series.keys() - written.keys())
        if written.keys() - series.keys() or more > self._room or not self._path.exists():
            gone = self._values
            self._values, self._room = self._begin(series)
            gone.close()
        else:
            self._room -= more
            put = self._values.write_value
            for key, value in series.items():
                if written.get(key) != value:
                    put(key, value, 0.0)
        self._written = series

    def _begin(self, series: dict[str, float]) -> tuple[Any, int]:
        """Write a new file, and return its values and the bytes that are free in it.

        It gets its final name only when it is complete, so that no reader sees half of it.
        """
        # readers look for *.db, so they ignore this name
        new = self._path.with_suffix(".new")
        used = _HEAD_BYTES + _most_bytes(series)
        length = max(_LEAST_BYTES, 2 * used)
        try:
            new.write_bytes(bytes(length))
            values: Any = MmapedDict(str(new))  # type: ignore[no-untyped-call]
            for key, value in series.items():
                values.write_value(key, value, 0.0)
            new.replace(self._path)
        except OSError:
            new.unlink(missing_ok=True)
            raise
        return values, length - used

    def close(self, *, delete: bool) -> None:
        self._values.close()
        if delete:
            self._path.unlink(missing_ok=True)


def _most_bytes(keys: Iterable[str]) -> int:
    """Return the most bytes that the entries of these series have in a file."""
    return sum(len(key.encode()) + _MOST_ADDED for key in keys)


class Publisher:
    """Writes the metrics of one server in this process to ``directory``, by default that of the environment variable.

    In a forked process it begins files of its own.
    """

    def __init__(
        self,
        read: Callable[[], ServerReading],
        prefix: str = DEFAULT_PREFIX,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        self._read = read
        self._prefix = prefix
        self._directory = _require_directory(directory)
        self._number = next(_numbers)
        self._pid = 0
        self._identity = ""
        self._files: dict[str, _SeriesFile] = {}
        self._keys: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        self._ledger = RatioLedger()

    def publish(self) -> None:
        """Write the present numbers; call this regularly while they change, and before this process is scraped."""
        if self._pid != os.getpid():
            self._begin()
        # This begins with all existing files, because a file must be emptied if all of its series have gone.
        series: dict[str, dict[str, float]] = {name: {} for name in self._files}
        # built anew, so that keys of series that have gone are forgotten
        known, self._keys = self._keys, {}
        for family, points in read_families(self._read(), self._ledger):
            held = series.setdefault(_file_kind(family), {})
            for labels, value in points:
                place = family.suffix, labels
                keys = self._keys[place] = known.get(place) or list(self._new_keys(family, labels))
                held.update(zip(keys, _values(family, value), strict=True))
        for name, held in series.items():
            if name not in self._files:
                self._files[name] = _SeriesFile(self._directory / f"{name}_{self._identity}.db")
            self._files[name].write(held)

    def close(self) -> None:
        """Publish for the last time and close the files: counters and histograms stay, gauges are deleted."""
        try:
            self.publish()
        finally:
            for name, file in self._files.items():
                file.close(delete=name.startswith("gauge"))
            self._files.clear()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._identity = f"apf-{self._pid}-{_birth(self._pid) or _NO_BIRTH}-{self._number}"
        for file in self._files.values():  # those of the parent process, where they stay open
            file.close(delete=False)
        self._files = {}

    def _new_keys(self, family: Family, labels: tuple[str, ...]) -> Iterator[str]:
        """Yield the entries of one series in a file: one for a number; one per bucket and the sum for a histogram."""
        name = metric_name(family, self._prefix)
        key = partial(mmap_key, name, help_text=family.help)
        if family.kind == "histogram":
            for le in family.buckets:
                yield key(f"{name}_bucket", [*family.labels, "le"], [*labels, le])
            yield key(f"{name}_sum", list(family.labels), list(labels))
        else:
            yield key(f"{self._prefix}_{family.suffix}", list(family.labels), list(labels))

    def __repr__(self) -> str:
        return f"<Publisher of {self._prefix}_* in {self._directory}>"


def _values(family: Family, value: float | Histogram) -> tuple[float, ...]:
    """Return the numbers of one series, in the order of its entries."""
    return (*value.counts, value.total / family.unit) if isinstance(value, Histogram) else (value,)


def _file_kind(family: Family) -> str:
    return f"gauge_{family.mode}" if family.kind == "gauge" else family.kind


def _require_directory(directory: str | os.PathLike[str] | None) -> Path:
    given = os.environ.get(DIRECTORY_VARIABLE, "") if directory is None else directory
    if not given or not os.path.isdir(given):  # noqa: PTH112 (an empty path would be the present directory)
        rule = "it must be a directory that exists"
        raise InvalidValueError(DIRECTORY_VARIABLE, given, rule, "Make it before the workers start, and empty it")
    return Path(given)


def _forget_dead(directory: str | os.PathLike[str]) -> None:
    """Delete the gauges of workers that ended without closing them."""
    births: dict[int, str | None] = {}
    for path in Path(directory).glob("gauge_*_apf-*.db"):
        named = _OURS.fullmatch(path.name)
        if named is None:
            continue
        pid = int(named["pid"])
        if pid not in births:
            births[pid] = _birth(pid)
        if births[pid] != named["birth"]:
            path.unlink(missing_ok=True)


class DirectoryCollector(Collector):
    """All metrics in ``directory``: those of all workers together, and those that an app itself keeps there."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self._directory = _require_directory(directory)

    def collect(self) -> Iterator[Metric]:
        _forget_dead(self._directory)
        # An app's own file is empty for an instant when it has just been made.
        files = []
        for path in sorted(self._directory.glob("*.db")):
            with suppress(FileNotFoundError):
                if path.stat().st_size:
                    files.append(str(path))
        yield from MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        return f"<DirectoryCollector of {self._directory}>"


def scrape(directory: str | os.PathLike[str] | None = None, accept: str = "") -> tuple[bytes, str]:
    """Return the metrics of all workers as text, and its content type, in the format that ``accept`` prefers."""
    registry = CollectorRegistry()
    registry.register(DirectoryCollector(directory))
    return render(accept, registry)
