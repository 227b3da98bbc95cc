"""Lines of access logs as recorded requests: the common and combined forms, Envoy's own, and JSON with usual names.

The duration of a request is its time in the app. Proxies write that in addition to their own, which also has the time
that clients take to send and to read: nginx as ``$upstream_response_time``, Envoy as ``x-envoy-upstream-service-time``.
If a proxy has asked several servers, the last one has answered. A request that no server was asked for never reached
the app.

nginx writes the time at which a request ended; the others when it came.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from apf_middleware.recordings import RecordedRequest, UnreadableLineError
from apf_middleware.recordings.lines import nanoseconds_of, parse_fields

__all__ = ["NoRequestError", "is_access_log", "parse_access_log", "parse_log_line"]

_SECOND: Final = 10**9
_MS: Final = 10**6
_QUOTED: Final = r'(?!"\d[\d., :-]*"\s*$)"(?:[^"\\]|\\.)*"'  # but not a time at the end, which may be quoted
_LOG: Final = re.compile(
    r"(?P<address>\S+) \S+ (?P<user>.+?) \[(?P<time>[^\]]+)\]"
    r' "(?:(?P<method>[A-Z]+) (?P<path>\S+)[^"]*|(?:[^"\\]|\\.)*)"'
    rf" (?P<status>\d{{3}}) \S+(?: {_QUOTED})*(?P<times>(?: .+)?)\s*$"
)
_ENVOY: Final = re.compile(
    r'\[(?P<time>\d{4}-[^\]]+)\] "(?P<method>[A-Z]+) (?P<path>\S+) [^"]*" (?P<status>\d+) \S+'
    r'(?: (?:"[^"]*"|[^\s"]+))*? \d+ \d+ (?P<total>\d+) (?P<upstream>\d+|-)'
    r' "(?P<address>[^"]*)" "[^"]*" "[^"]*" "(?P<host>[^"]*)"'
)
_UVICORN: Final = re.compile(r'(?:\w+: +)?\S+:\d+ - "[A-Z]+ \S+ HTTP/[\d.]+" \d{3}')
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_NAMED: Final = re.compile(r'([\w-]+)=(?:"([^"]*)"|(\S+))')
_LISTED: Final = re.compile(r"(?:[\d.]+|-)(?:(?:,| :) (?:[\d.]+|-))*")
_UPSTREAM: Final = ("urt", "upstream_response_time", "upstream")
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "time": ("start_time", "time_iso8601", "@timestamp", "timestamp", "time_local", "ts", "time"),
    "user": ("user", "remote_user", "user_name"),
    "method": ("method", "request_method", "verb"),
    "path": ("path", "request_uri", "uri", "x_envoy_original_path", "url"),
    "host": ("host", "http_host", "authority", ":authority"),
    "clientAddress": ("clientAddress", "remote_addr", "client_ip", "x_forwarded_for", "downstream_remote_address"),
}
_IN_SECONDS: Final = ("upstream_response_time", "request_time", "response_time", "elapsed", "latency", "duration")
_IN_MS: Final = (
    "upstream_service_time",
    "x_envoy_upstream_service_time",
    "duration_ms",
    "response_time_ms",
    "latency_ms",
    "elapsed_ms",
)
_ONLY_IN_LOGS: Final = frozenset(
    {name for names in _NAMES.values() for name in names}
    | {"msec", "request", "request_time", "upstream_response_time", *_IN_MS}
) - {"time", "user", "method", "path", "host", "clientAddress"}


class NoRequestError(UnreadableLineError):
    """A log line records something that never reached the application."""


def parse_log_line(line: str) -> RecordedRequest:
    """Return the request in a line of text.

    Raises:
        NoRequestError: the line is about something that never reached the app.
        UnreadableLineError: it has no known form.
    """
    if line.startswith("["):
        return _of_envoy(line)
    found = _LOG.match(line)
    if found is None:
        if _UVICORN.match(line):
            hint = "record with apf record, or use the log of the proxy in front"
            raise UnreadableLineError(f"uvicorn's access log has neither times nor durations: {hint}")
        rule = "a line must be JSON, or of the common or combined log form with a duration at its end"
        raise UnreadableLineError(rule)
    duration_ns, is_end = _duration_of(found["times"].strip())
    method, path = found["method"], found["path"]
    if method is None:
        raise NoRequestError
    return RecordedRequest(
        time_ns=_log_time(found["time"]) - (duration_ns if is_end else 0),
        duration_ns=duration_ns,
        user="" if found["user"] == "-" else found["user"],
        method=method,
        path=path if path.startswith("/") else "/",
        address=found["address"],
        is_whole_second=True,
        status=int(found["status"]),
    )


def _duration_of(times: str) -> tuple[int, bool]:
    """Return the duration at the end of a line in nanoseconds, and whether the line has the time of the end."""
    named = {name: quoted or plain for name, quoted, plain in _NAMED.findall(times)}
    rest = _NAMED.sub("", times).strip().strip('"')
    upstream = next((named[name] for name in _UPSTREAM if name in named), None)
    if upstream is not None or (named and not rest):
        text = list(named.values())[-1] if upstream is None else upstream
    else:
        # $request_time $upstream_response_time, of which the latter may be a list; or one number
        first, _, last = rest.partition(" ")
        text = last if _LISTED.fullmatch(last) and _NUMBER.fullmatch(first) else rest
    if not _LISTED.fullmatch(text) or text == rest == "-":
        hint = "with nginx add $request_time to log_format, with Apache %D to LogFormat"
        raise UnreadableLineError(f"a line must end with the duration of the request: {hint}")
    number = _last_number(text)
    if "." not in number:
        return int(number) * 1000, False  # Apache's %D
    return round(float(number) * _SECOND), True


def _last_number(text: str) -> str:
    """Return the last number of a list; raise NoRequestError if there is none, because no server was asked."""
    numbers: list[str] = _NUMBER.findall(text)
    if not numbers:
        raise NoRequestError
    return numbers[-1]


def _of_envoy(line: str) -> RecordedRequest:
    found = _ENVOY.match(line)
    if found is None:
        raise UnreadableLineError("a line that begins with a bracket must be of Envoy's default form")
    if found["upstream"] == "-":
        raise NoRequestError
    return RecordedRequest(
        time_ns=_iso_time(found["time"]),
        duration_ns=int(found["upstream"]) * _MS,
        method=found["method"],
        path=found["path"] if found["path"].startswith("/") else "/",
        host="" if found["host"] == "-" else found["host"],
        address="" if found["address"] == "-" else found["address"].partition(",")[0],
        status=int(found["status"]),
    )


def is_access_log(fields: Mapping[str, Any]) -> bool:
    """Return whether a line of JSON is one of an access log, with other names than a recording."""
    return not _ONLY_IN_LOGS.isdisjoint(fields)


def parse_access_log(fields: Mapping[str, Any]) -> RecordedRequest:
    """Return the request in a line of JSON of an access log.

    Raises:
        NoRequestError: the line is about something that never reached the app.
        UnreadableLineError: a field has a wrong value.
    """
    found: dict[str, Any] = {name: fields[name] for name in ("groups", "headers", "seats") if name in fields}
    for name, known in _NAMES.items():
        value = next((fields[one] for one in known if fields.get(one) not in (None, "", "-")), None)
        if value is not None:
            found[name] = value
    _split_request(fields, found)
    if "method" not in found or "path" not in found:
        raise NoRequestError
    found["path"] = found["path"] if str(found["path"]).startswith("/") else "/"
    if isinstance(address := found.get("clientAddress"), str):
        found["clientAddress"] = _host_of(address)
    duration_ns = _duration_in(fields)
    status = fields.get("status", fields.get("response_code"))
    found["status"] = int(status) if str(status).isascii() and str(status).isdigit() else 0
    time_ns, is_whole = _time_in(fields, found)
    row = parse_fields({**found, "time": time_ns / _SECOND, "duration": duration_ns / _SECOND})
    return replace(row, time_ns=time_ns, duration_ns=duration_ns, is_whole_second=is_whole)


def _split_request(fields: Mapping[str, Any], found: dict[str, Any]) -> None:
    """Take method and path from the first line of the request, if they have no fields of their own."""
    parts = str(fields.get("request") or "").split(" ")
    if len(parts) == 3:
        found.setdefault("method", parts[0])
        found.setdefault("path", parts[1])


def _host_of(address: str) -> str:
    """Return an address without its port; of a list, the first one."""
    first = address.partition(",")[0].strip()
    if first.startswith("["):
        return first[1:].partition("]")[0]
    return first.partition(":")[0] if first.count(":") == 1 else first


def _duration_in(fields: Mapping[str, Any]) -> int:
    is_asked = [name for name in ("upstream_response_time", *_IN_MS[:2]) if name in fields]
    if is_asked and all(str(fields[name] or "-") == "-" for name in is_asked):
        raise NoRequestError
    for name in _IN_MS:
        if _has_number(fields.get(name)):
            return round(float(_last_number(str(fields[name]))) * _MS)
    for name in _IN_SECONDS:
        if _has_number(fields.get(name)):
            unit = _MS if name == "duration" and "start_time" in fields else _SECOND  # Envoy's is in milliseconds
            return round(float(_last_number(str(fields[name]))) * unit)
    raise UnreadableLineError(f"there must be a duration: one of {', '.join((*_IN_SECONDS, *_IN_MS))}")


def _has_number(value: object) -> bool:
    return value is not None and _NUMBER.search(str(value)) is not None


def _time_in(fields: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[int, bool]:
    """Return when a request came, and whether that is known to the second only."""
    total = fields.get("request_time")
    took_ns = round(float(_last_number(str(total))) * _SECOND) if _has_number(total) else 0
    msec = fields.get("msec")
    if _has_number(msec):
        return round(float(_last_number(str(msec))) * 1000) * _MS - took_ns, False
    time = found.get("time")
    if isinstance(time, int | float) and not isinstance(time, bool) and 0 <= time < 1e14:
        return round(time * (_MS if time > 1e11 else _SECOND)), False  # milliseconds or seconds since 1970
    text = str(time)
    time_ns = _log_time(text) if "/" in text else _iso_time(text)
    is_whole = time_ns % _SECOND == 0 and "." not in text
    return time_ns - took_ns, is_whole


@lru_cache(maxsize=64)
def _log_time(text: str) -> int:
    try:
        return nanoseconds_of(datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z"))
    except ValueError:
        raise UnreadableLineError(f"the time is {text!r}, but it must be like 10/Oct/2026:13:55:36 +0000") from None


def _iso_time(text: str) -> int:
    try:
        return nanoseconds_of(datetime.fromisoformat(text))
    except ValueError:
        raise UnreadableLineError(f"the time is {text!r}, but it must be ISO 8601") from None
