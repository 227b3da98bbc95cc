"""wrk, which makes the load of ``throughput`` and ``rejections``: how it is started, and what its report says."""

import contextlib
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.support.servers import pinned

__all__ = ["CONNECTIONS", "WrkReport", "parse_wrk", "run_wrk"]

CONNECTIONS: Final = 64

_MS: Final = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


@dataclass(frozen=True, slots=True)
class WrkReport:
    """What wrk says of one run."""

    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float
    non_2xx: int
    errors: int


def parse_wrk(text: str) -> WrkReport:
    """Parse the output of ``wrk --latency``, or raise a ValueError with its text."""

    def find(pattern: str) -> tuple[str, ...]:
        found = re.search(pattern, text)
        if found is None:
            raise ValueError(f"wrk's output has nothing that matches {pattern!r}:\n{text}")
        return found.groups()

    def latency(percent: int) -> float:
        value, unit = find(rf"\s{percent}%\s+([\d.]+)(us|ms|s|m)\s")
        return float(value) * _MS[unit]

    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    failed = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    return WrkReport(
        requests=int(find(r"(\d+) requests in ")[0]),
        per_second=float(find(r"Requests/sec:\s+([\d.]+)")[0]),
        p50_ms=latency(50),
        p99_ms=latency(99),
        non_2xx=int(refused[1]) if refused else 0,
        errors=sum(map(int, failed.groups())) if failed else 0,
    )


def run_wrk(
    urls: Sequence[str],
    seconds: int,
    core: int | None = None,
    connections: int = CONNECTIONS,
    headers: Sequence[str] = (),
) -> Sequence[WrkReport]:
    """Load servers from ``core``, all at once and each with a wrk of its own. wrk counts time in whole seconds."""
    with contextlib.ExitStack() as stack, pinned(core):
        processes = [stack.enter_context(_start(url, seconds, headers, connections)) for url in urls]
        return [_report(process) for process in processes]


def _start(url: str, seconds: int, headers: Sequence[str], connections: int) -> subprocess.Popen[str]:
    given = [argument for header in headers for argument in ("-H", header)]
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", *given, url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - the URL is ours


def _report(process: subprocess.Popen[str]) -> WrkReport:
    written, _ = process.communicate()
    return parse_wrk(written)
