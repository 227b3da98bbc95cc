"""Recorded traces of one queue set: a JSON file of events and, where they are known, results.

The format is ``apf-queueset-trace/1``: a configuration, events in order of time (arrive, cancel, reconfig), and results
as a table with a row for each arrival. Times are integer nanoseconds, meters are integers too large for a double. A
file may be compressed with gzip. A malformed file raises a TraceFormatError that names the place.
"""

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apf_middleware.exceptions import InvalidValueError, TraceFormatError
from apf_middleware.fairqueuing import QueueSetSettings, Work
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS

__all__ = ["FORMAT", "Arrival", "Cancellation", "Event", "Reconfiguration", "Trace", "load", "parse", "store"]

FORMAT: Final = "apf-queueset-trace/1"

_MOST_ENTROPY: Final = 2**64 - 1
_EXEMPT_QUEUES: Final = -1  # the number of queues that a trace has for an exempt level


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request arrives."""

    time: int
    id: int
    flow: str
    entropy: int
    work: Work
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A request gives up, if it still waits."""

    time: int
    id: int


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """The level's numbers change."""

    time: int
    settings: QueueSetSettings


Event = Arrival | Cancellation | Reconfiguration


@dataclass(frozen=True, slots=True)
class Trace:
    """The recorded events of one queue set; ``document`` is the file as it was."""

    name: str
    settings: QueueSetSettings
    guess_ns: int
    initial_r: int
    events: Sequence[Event]
    document: Mapping[str, Any]

    @property
    def columns(self) -> Sequence[str]:
        """The columns of the results, empty when the file has none."""
        results = self.document.get("results")
        return tuple(results["columns"]) if results else ()

    @property
    def rows(self) -> Sequence[Sequence[object]]:
        """The rows of the results, empty when the file has none."""
        results = self.document.get("results")
        return tuple(results["rows"]) if results else ()


def load(path: Path) -> Trace:
    """Read the trace in this file."""
    try:
        raw = _bytes_of(path)
        text = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
        document = json.loads(text)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceFormatError(f"{path}: it can't be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise TraceFormatError(f"{path}: it isn't JSON: {error}") from error
    try:
        return parse(document)
    except TraceFormatError as error:
        raise TraceFormatError(f"{path}: {error}") from error


def _bytes_of(path: Path) -> bytes:
    if path.is_char_device():
        raise OSError("a device may never end")
    return path.read_bytes()


def store(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document, compressed if the name ends in .gz. The same document gives the same bytes."""
    text = json.dumps(document, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def parse(document: object) -> Trace:
    """Return the trace in this document, which is parsed JSON."""
    top = _mapping(document, "the document")
    if top.get("format") != FORMAT:
        raise TraceFormatError(f"format is {top.get('format')!r}, but it must be {FORMAT!r}")
    config = _mapping(_need(top, "config", "the document"), "config")
    trace = Trace(
        name=str(top.get("name", "")),
        settings=_settings(config, "config"),
        guess_ns=_integer(config, "estimatedServiceDuration_ns", "config", default=0) or DEFAULT_GUESS_NS,
        initial_r=_integer(config, "initial_r", "config", default=0),
        events=_events(_need(top, "events", "the document")),
        document=top,
    )
    _check_results(top.get("results"))
    for totals in ("summary", "final_state"):
        _mapping(top.get(totals) or {}, totals)
    return trace


def _events(value: object) -> Sequence[Event]:
    if not isinstance(value, list):
        raise TraceFormatError(f"events is a {type(value).__name__}, but it must be a list")
    events = [_event(_mapping(event, f"events[{place}]"), f"events[{place}]") for place, event in enumerate(value)]
    arrived: set[int] = set()
    time = 0
    for place, event in enumerate(events):
        if event.time < time:
            raise TraceFormatError(f"events[{place}].t_ns is {event.time}, but events must be in order of time")
        time = event.time
        # Ids are unique, so that a cancellation and a row of the results belong to exactly one arrival.
        if isinstance(event, Arrival):
            if event.id in arrived:
                raise TraceFormatError(f"events[{place}].id is {event.id}, but that request has already arrived")
            arrived.add(event.id)
        elif isinstance(event, Cancellation) and event.id not in arrived:
            raise TraceFormatError(f"events[{place}].id is {event.id}, but that request has not arrived")
    return events


def _event(event: Mapping[str, Any], place: str) -> Event:
    time = _integer(event, "t_ns", place)
    match event.get("op"):
        case "arrive":
            seats = _integer(event, "seats", place)
            final_seats = _integer(event, "final_seats", place, default=0)
            linger_ns = _integer(event, "additional_latency_ns", place, default=0)
            try:
                work = Work(seats, final_seats, linger_ns)
            except InvalidValueError as error:
                raise TraceFormatError(f"{place}: {error}") from error
            flow = str(event.get("flow", ""))
            entropy, duration_ns = _integer(event, "flow_hash", place), _integer(event, "duration_ns", place)
            if entropy > _MOST_ENTROPY:
                raise TraceFormatError(f"{place}.flow_hash is {entropy}, but it must have at most 64 bits")
            return Arrival(time, _integer(event, "id", place), flow, entropy, work, duration_ns)
        case "cancel":
            return Cancellation(time, _integer(event, "id", place))
        case "reconfig":
            inner = f"{place}.config"
            return Reconfiguration(time, _settings(_mapping(_need(event, "config", place), inner), inner))
        case other:
            raise TraceFormatError(f"{place}.op is {other!r}, but it must be arrive, cancel or reconfig")


def _settings(config: Mapping[str, Any], place: str) -> QueueSetSettings:
    concurrency = _integer(config, "concurrency", place)
    queues = _integer(config, "queues", place, least=_EXEMPT_QUEUES)
    try:
        if queues == _EXEMPT_QUEUES:
            return QueueSetSettings.without_limit(concurrency)
        if queues == 0:
            return QueueSetSettings.without_queues(concurrency)
        hand_size, limit = _integer(config, "handSize", place), _integer(config, "queueLengthLimit", place)
        return QueueSetSettings(concurrency, queues, hand_size, limit)
    except InvalidValueError as error:
        raise TraceFormatError(f"{place}: {error}") from error


def _check_results(results: object) -> None:
    if results is None:
        return
    table = _mapping(results, "results")
    columns, rows = _need(table, "columns", "results"), _need(table, "rows", "results")
    if not isinstance(columns, list) or not isinstance(rows, list):
        raise TraceFormatError("results: columns and rows must be lists")
    for place, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(columns):
            raise TraceFormatError(f"results.rows[{place}] must be a list of {len(columns)} values")


def _mapping(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TraceFormatError(f"{place} is a {type(value).__name__}, but it must be an object")
    return value


def _need(mapping: Mapping[str, Any], name: str, place: str) -> object:
    if name not in mapping:
        raise TraceFormatError(f"{name} is missing in {place}")
    return mapping[name]


def _integer(mapping: Mapping[str, Any], name: str, place: str, *, default: int | None = None, least: int = 0) -> int:
    value = mapping.get(name, default) if default is not None else _need(mapping, name, place)
    if type(value) is not int or value < least:
        raise TraceFormatError(f"{place}.{name} is {value!r}, but it must be an integer of at least {least}")
    return value
