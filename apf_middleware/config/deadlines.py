"""Settings of deadlines that requests bring with them: the ``deadlines`` of a Server document."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final, Literal

from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import LowerCaseSet, Nanoseconds, TrustedGroups, is_header
from apf_middleware.frozen import frozen
from apf_middleware.propagation.time_limits import LimitFormat

__all__ = ["DEFAULT_MODE", "USUAL_HEADERS", "DeadlineSettings", "PredictionMode"]

PredictionMode = Literal["off", "shadow", "on"]
"""Whether requests that can't be in time aren't looked for, are counted only, or are rejected."""

DEFAULT_MODE: Final[PredictionMode] = "shadow"

USUAL_HEADERS: Final[Mapping[str, LimitFormat]] = {
    "grpc-timeout": "grpc",
    "connect-timeout-ms": "milliseconds",
    "x-envoy-expected-rq-timeout-ms": "milliseconds",
}
"""The headers that are read by default."""

_PARAMETER: Final = re.compile(r"[A-Za-z0-9._~-]+")
_STARTS: Final = ("x-request-start", "x-queue-start")
_MS: Final = 10**6


@frozen
class DeadlineSettings(Settings):
    """The time limits that requests bring with them, which only shorten waits.

    ``headers`` say how each header writes a limit. ``started`` are headers in which a front end tells when it received
    the request; only trusted proxies are believed. ``query`` is a parameter with a duration, as in Kubernetes. A wait
    ends ``margin_ns`` before the deadline, but at most half of the limit, so that the answer is there in time. Requests
    that are predicted to be late are rejected on arrival if ``prediction`` is on, and counted if it is shadow.

    The limit in a header may be longer than the deadline of the schema or level if the caller is in one of ``groups``
    or behind a trusted proxy, but not longer than ``extend_to_ns``. Without that, no caller gets more time.
    """

    headers: Mapping[str, LimitFormat] = field(default_factory=lambda: dict(USUAL_HEADERS), hash=False)
    started: LowerCaseSet = _STARTS
    query: str = ""
    margin_ns: Nanoseconds = 10 * _MS
    prediction: PredictionMode = DEFAULT_MODE
    groups: TrustedGroups = ()
    extend_to_ns: Nanoseconds | None = None

    def rules(self) -> Iterator[Violation]:
        for name, written in self.headers.items():
            if not is_header(name):
                rule, hint = "its name must be a header's, in lower case", "Write it like x-request-timeout"
                yield Violation(("headers", name), written, rule, hint)
            elif name in self.started:
                hint = "A header tells a limit or a time, so remove one of them"
                yield Violation(("headers", name), written, "it is in started, too", hint)
        for number, name in enumerate(self.started):
            if not is_header(name):
                yield Violation(
                    ("started", number), name, "it must be the name of a header", "Write it like x-request-start"
                )
        if self.groups and self.extend_to_ns is None:
            rule = "without extendTo, nobody may extend a deadline"
            yield Violation(("groups",), list(self.groups), rule, "Add extendTo, such as 1m, or remove the groups")
        if self.query and not _PARAMETER.fullmatch(self.query):
            yield Violation(("query",), self.query, "it must be the name of a query parameter", "Write it like timeout")
