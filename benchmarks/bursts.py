"""Bursts of requests at one server or several, and the processor time that they take there.

A server without load costs almost nothing, so many can run on one core while few of them at a time get a burst.
"""

import http.client
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.wrk import CONNECTIONS, WrkReport, run_wrk
from tests.support.servers import Server, busy_seconds, cpu_seconds, is_runnable

__all__ = ["PATH", "Burst", "BurstTarget", "WorthlessRowError", "send_bursts"]

PATH: Final = "/items/42"

_PAUSE: Final = 0.02
_PAUSES: Final = 250
_ENOUGH: Final = 10  # responses on each connection
_ATTEMPTS: Final = 10


class WorthlessRowError(RuntimeError):
    """A server doesn't answer as its app does, so its figures would say nothing."""


@dataclass(frozen=True, slots=True)
class Burst:
    """What one burst came to. ``foreign_cpu`` is what neither servers nor load took, in cores."""

    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float | None
    foreign_cpu: float | None


@dataclass(frozen=True, slots=True)
class BurstTarget:
    """The server of the row ``name``, and what its app answers with."""

    name: str
    server: Server
    answer: bytes

    def check_answer(self) -> None:
        """Raise a WorthlessRowError if the app is not what answers: a rejection is quick."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        connection.request("GET", PATH)
        response = connection.getresponse()
        found = (response.status, response.read())
        connection.close()
        if found != (200, self.answer):
            raise WorthlessRowError(
                f"row {self.name}: GET {PATH} is answered with {found[0]} {found[1]!r}, not with 200 {self.answer!r}:\n"
                f"{self.server.output()}"
            )

    def check_report(self, report: WrkReport) -> None:
        """Raise a WorthlessRowError if a request has failed."""
        if report.non_2xx or report.errors:
            raise WorthlessRowError(
                f"row {self.name}: of {report.requests} responses, {report.non_2xx} were not 2xx; "
                f"{report.errors} errors of connections:\n{self.server.output()}"
            )

    def cpu_seconds(self) -> float | None:
        return cpu_seconds(self.server.pid)

    def settled_cpu_seconds(self) -> float | None:
        """Return the processor time when the server has finished what the load left behind.

        What it does later would be part of its next burst. If it still waits for its core, it has not finished.
        """
        taken = self.cpu_seconds()
        for _ in range(_PAUSES):
            time.sleep(_PAUSE)
            before, taken = taken, self.cpu_seconds()
            if taken == before and not is_runnable(self.server.pid):
                return taken
        raise WorthlessRowError(f"row {self.name}: the server is busy {_PAUSE * _PAUSES:g} s after its load has ended")


def send_bursts(
    targets: Sequence[BurstTarget], seconds: int, core: int | None, connections: int = CONNECTIONS
) -> Sequence[Burst]:
    """Load servers at once, each from so many connections, and raise a WorthlessRowError if a request fails.

    If other processes leave so little of the cores that new connections are much of the cost, a longer burst follows.
    """
    for attempt in range(_ATTEMPTS):
        bursts = _send_once(targets, seconds * (1 + attempt), core, connections)
        if all(burst.requests >= _ENOUGH * connections for burst in bursts):
            return bursts
    raise WorthlessRowError(
        f"row {targets[0].name}: there were less than {_ENOUGH * connections} responses in {seconds * _ATTEMPTS} s. "
        "Try longer bursts (--seconds), or stop what else runs on the machine"
    )


def _send_once(targets: Sequence[BurstTarget], seconds: int, core: int | None, connections: int) -> Sequence[Burst]:
    begin, before = time.perf_counter(), [target.cpu_seconds() for target in targets]
    busy, loaded = busy_seconds(), _load_seconds()
    reports = run_wrk([target.server.url + PATH for target in targets], seconds, core, connections)
    for target, report in zip(targets, reports, strict=True):
        target.check_report(report)
    taken = [_since(start, target.settled_cpu_seconds()) for target, start in zip(targets, before, strict=True)]
    elapsed, loaded, busy = time.perf_counter() - begin, _load_seconds() - loaded, _since(busy, busy_seconds())
    known = [one for one in taken if one is not None]
    is_known = busy is not None and len(known) == len(targets)
    foreign = max(0.0, (busy or 0.0) - sum(known) - loaded) / elapsed if is_known else None
    return [
        Burst(
            report.requests, report.per_second, report.p50_ms, report.p99_ms, _cpu_us(report, cpu, connections), foreign
        )
        for report, cpu in zip(reports, taken, strict=True)
    ]


def _cpu_us(report: WrkReport, seconds: float | None, connections: int) -> float | None:
    """Divide by what was served: wrk leaves one request on each connection unanswered, but not unserved."""
    return None if seconds is None else seconds / (report.requests + connections) * 1e6


def _load_seconds() -> float:
    """Return the processor time of the processes that were started and have ended, such as wrk."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _since(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
