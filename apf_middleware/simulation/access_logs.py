"""Lines of access logs as recorded requests: the common and combined forms, Envoy's own, and JSON with usual names.

The duration of a request is its time in the app. Proxies write that in addition to their own, which also has the time
that clients take to send and to read: nginx as ``$upstream_response_time``, Envoy as ``x-envoy-upstream-service-time``.
If a proxy has asked several servers, the last one has answered. A request that no server was asked for never reached
the app.

nginx and Caddy write the time at which a request ended; the others when it came.
"""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from apf_middleware.durations import duration_ns
from apf_middleware.recordings import RecordedRequest, UnreadableLineError
from apf_middleware.recordings.lines import LONGEST_S, nanoseconds_of, parse_fields

__all__ = ["NoRequestError", "is_access_log", "parse_access_log", "parse_log_line"]

_SECOND: Final = 10**9
_MS: Final = 10**6
_NUMBER_TEXT: Final = r"\d{1,15}(?:\.\d{1,30})?(?:[eE][-+]?\d{1,2})?"
_ITEM: Final = rf"(?:{_NUMBER_TEXT}|-)"
_ITEMS: Final = rf"{_ITEM}(?:(?:,| :) {_ITEM}){{0,99}}"  # bounded, so that a strange line takes no long time
_QUOTED: Final = r'(?!"\d[\d., :-]*"\s*$)"(?:[^"\\]|\\.)*"'  # but not a time at the end, which may be quoted
_LOG: Final = re.compile(
    r"(?:(?P<host>[\w.-]+):\d+ )?(?P<address>\S+) \S+ (?P<user>.+?) \[(?P<time>[^\]]+)\]"
    r' "(?:(?P<method>[A-Z]+) (?P<path>\S+)[^"]*|(?:[^"\\]|\\.)*)"'
    rf" (?P<status>\d{{3}}) \S+(?: {_QUOTED})*(?P<times>(?: .+)?)\s*$",
    re.ASCII,
)
_ENVOY: Final = re.compile(
    r'\[(?P<time>\d{4}-[^\]]+)\] "(?P<method>[A-Z]+) (?P<path>\S+) [^"]*" (?P<status>\d{1,3}) \S+'
    r'(?: (?:"[^"]*"|[^\s"]+))*? \d+ \d+ (?P<total>\d+) (?P<upstream>\d{1,15}|-)'
    r' "(?P<address>[^"]*)" "[^"]*" "[^"]*" "(?P<host>[^"]*)"',
    re.ASCII,
)
_ENVOY_TCP: Final = re.compile(r'\[\d{4}-[^\]]+\] "- - ')  # also of requests whose head couldn't be read
_UVICORN: Final = re.compile(r'(?:\w+: +)?\S+:\d+ - "[A-Z]+ \S+ HTTP/[\d.]+" \d{3}')
_NUMBER: Final = re.compile(_NUMBER_TEXT, re.ASCII)
_LISTED: Final = re.compile(_ITEMS, re.ASCII)
_NAMED: Final = re.compile(rf'([\w-]+)=(?:"([^"]*)"|([^\s",]+(?:(?:,| :) {_ITEM}(?![^\s,]))*))', re.ASCII)
_INGRESS_NGINX: Final = re.compile(
    rf"\d+ {_NUMBER_TEXT} \[[^\]]*\] \[[^\]]*\] \S+(?:(?:,| :) \S+){{0,20}}"
    rf" {_ITEMS} (?P<upstream>{_ITEMS}) {_ITEMS} \w+",
    re.ASCII,
)
_STATUS: Final = re.compile(r"\d{3}", re.ASCII)
_LATEST_S: Final = 1e11  # greater times since 1970 are in milliseconds
_LATEST_MS: Final = 1e14
_UPSTREAM: Final = ("urt", "upstream_response_time", "upstream", "rt", "request_time")  # the proxy's own come last
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "time": ("start_time", "StartUTC", "time_iso8601", "@timestamp", "timestamp", "time_local", "ts", "time"),
    "user": ("user", "remote_user", "user_name", "user_id", "ClientUsername"),
    "method": ("method", "request_method", "verb", "RequestMethod"),
    "path": ("path", "request_uri", "uri", "x_envoy_original_path", "url", "RequestPath"),
    "host": ("host", "http_host", "authority", ":authority", "RequestHost"),
    "clientAddress": (
        "clientAddress",
        "remote_addr",
        "client_ip",
        "x_forwarded_for",
        "downstream_remote_address",
        "ClientHost",
    ),
}
_DURATIONS: Final[Mapping[str, int]] = {
    "upstream_service_time": _MS,
    "x_envoy_upstream_service_time": _MS,
    "OriginDuration": 1,
    "duration_ms": _MS,
    "response_time_ms": _MS,
    "latency_ms": _MS,
    "elapsed_ms": _MS,
    **dict.fromkeys(("upstream_response_time", "request_time", "response_time", "elapsed", "latency"), _SECOND),
    "duration": _SECOND,  # but Envoy's is in milliseconds
}
"""The units of the fields that have the duration, those first that have the app's alone."""

_OF_THE_APP: Final = ("upstream_response_time", "upstream_service_time", "x_envoy_upstream_service_time")
_ALSO_ELSEWHERE: Final = frozenset(
    {
        *("time", "duration", "user", "method", "path", "host", "clientAddress"),  # of recordings
        *("user_id", "response_time", "elapsed", "latency"),
    }
)
_ONLY_IN_LOGS: Final = (
    frozenset({name for names in _NAMES.values() for name in names} | {"msec", "request", *_DURATIONS})
    - _ALSO_ELSEWHERE
)


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
    took_ns, is_end = _duration_of(found["times"].strip())
    method, path = found["method"], found["path"]
    if method is None:
        raise NoRequestError
    return RecordedRequest(
        time_ns=_log_time(found["time"]) - (took_ns if is_end else 0),
        duration_ns=took_ns,
        user="" if found["user"] == "-" else found["user"],
        method=method,
        path=path if path.startswith("/") else "/",
        host=found["host"] or "",
        address=found["address"],
        is_whole_second=True,
        status=int(found["status"]),
    )


def _duration_of(times: str) -> tuple[int, bool]:
    """Return the duration at the end of a line in nanoseconds, and whether the line has the time of the end."""
    named = {name: quoted or plain for name, quoted, plain in _NAMED.findall(times)}
    rest = _NAMED.sub("", times).replace('"', "").strip()
    ingress = _INGRESS_NGINX.fullmatch(times)
    text = ingress["upstream"] if ingress else next((named[name] for name in _UPSTREAM if name in named), None)
    if text is None and named and not rest:
        text = list(named.values())[-1]
    elif text is None:
        # $request_time $upstream_response_time, of which the latter may be a list; or one number
        first, _, last = rest.partition(" ")
        text = last if _LISTED.fullmatch(last) and _NUMBER.fullmatch(first) else rest
    if not _LISTED.fullmatch(text):
        hint = "with nginx add $request_time to log_format, with Apache %D to LogFormat"
        raise UnreadableLineError(f"a line must end with the duration of the request: {hint}")
    is_apache = "." not in text  # microseconds
    took_ns = _nanoseconds(text, 1000 if is_apache else _SECOND)
    if took_ns is None:
        raise NoRequestError  # no server was asked
    return _bounded(took_ns), not is_apache


def _nanoseconds(value: object, unit: int) -> int | None:
    """Return a time in nanoseconds, of a list the last one; None if there is none.

    Some logs write a unit: ``1.5ms``.
    """
    text = str(value)
    if _LISTED.fullmatch(text):
        numbers = _NUMBER.findall(text)
        return round(float(numbers[-1]) * unit) if numbers else None
    try:
        return duration_ns(text.replace("µ", "u"))
    except ValueError:
        return None


def _bounded(duration: int) -> int:
    """Return a duration, unless it is longer than any request takes."""
    seconds = duration / _SECOND
    if seconds >= LONGEST_S:
        raise UnreadableLineError(f"its duration is {seconds:.3g} seconds, but it must be less than {LONGEST_S:g}")
    return duration


def _of_envoy(line: str) -> RecordedRequest:
    found = _ENVOY.match(line)
    if found is None:
        if _ENVOY_TCP.match(line):
            raise NoRequestError
        raise UnreadableLineError("a line that begins with a bracket must be of Envoy's default form")
    if found["upstream"] == "-":
        raise NoRequestError
    return RecordedRequest(
        time_ns=_iso_time(found["time"]),
        duration_ns=_bounded(int(found["upstream"]) * _MS),
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
    fields = _flat(fields)
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
    duration = _duration_in(fields)
    status = fields.get("status", fields.get("response_code", fields.get("DownstreamStatus")))
    found["status"] = int(status) if _STATUS.fullmatch(str(status)) else 0
    time_ns, is_whole = _time_in(fields, found)
    row = parse_fields({**found, "time": time_ns / _SECOND, "duration": duration / _SECOND})
    row.time_ns, row.duration_ns, row.is_whole_second = time_ns, duration, is_whole
    return row


def _flat(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields, those of Caddy's ``request`` beside the others; its headers are lists."""
    request = fields.get("request")
    if not isinstance(request, dict):
        return fields
    return {**{name: value for name, value in request.items() if name != "headers"}, **fields}


def _split_request(fields: Mapping[str, Any], found: dict[str, Any]) -> None:
    """Take method and path from the first line of the request, if they have no fields of their own."""
    line = fields.get("request")
    parts = line.split(" ") if isinstance(line, str) else ()
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
    is_asked = [name for name in _OF_THE_APP if name in fields]
    if is_asked and all(str(fields[name] or "-") == "-" for name in is_asked):
        raise NoRequestError
    is_envoy = "start_time" in fields
    for name, unit in _DURATIONS.items():
        found = _nanoseconds(fields.get(name), _MS if is_envoy and name == "duration" else unit)
        if found is not None:
            return _bounded(found)
    raise UnreadableLineError(f"there must be a duration, as a number: one of {', '.join(_DURATIONS)}")


def _time_in(fields: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[int, bool]:
    """Return when a request came, and whether that is known to the second only."""
    took_ns = _until_the_end(fields)
    written_us = _nanoseconds(fields.get("msec"), 10**6)  # as exactly as a number has it
    if written_us is not None:
        return written_us * 1000 - took_ns, False
    time = found.get("time")
    if time is None:
        raise UnreadableLineError(f"there must be a time: one of msec, {', '.join(_NAMES['time'])}")
    text = str(time)
    number = float(text) if not isinstance(time, bool) and _NUMBER.fullmatch(text) else math.inf
    if number < _LATEST_MS:
        return round(number * (_MS if number > _LATEST_S else _SECOND)) - took_ns, False
    time_ns = _log_time(text) if "/" in text else _iso_time(text)
    is_whole = time_ns % _SECOND == 0 and "." not in text
    return time_ns - took_ns, is_whole


def _until_the_end(fields: Mapping[str, Any]) -> int:
    """Return how long after its arrival the time of a request was written: nginx and Caddy write that of its end."""
    is_caddy = isinstance(fields.get("request"), dict)
    for name in ("duration",) if is_caddy else ("request_time", "upstream_response_time"):
        took_ns = _nanoseconds(fields.get(name), _SECOND)
        if took_ns is not None:
            return _bounded(took_ns)
    return 0


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
