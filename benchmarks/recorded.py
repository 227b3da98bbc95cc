"""A real server's traffic, recorded under overload and simulated again with the same configuration.

``apf record`` records while `benchmarks.load` runs, from before its first request until after its last one. The
recording contains what the server did with each request, and `simulate` decides again: waits and rejections of both
are compared.
"""

import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apf_middleware.config import load
from apf_middleware.config.scenario import Backend, Scenario
from apf_middleware.recordings import RecordedRequest
from apf_middleware.simulation import Result, simulate
from apf_middleware.simulation.recording import Recording
from apf_middleware.simulation.trace import RequestTrace
from benchmarks.load import percentile
from benchmarks.recorded_app import CONFIG_VARIABLE
from benchmarks.wire_backend import PLACES, Scoreboard
from benchmarks.wire_configs import write_config
from tests.support.servers import ROOT, cores, pinned, serve

__all__ = ["ROWS", "RecordedRow", "compare"]

_LEVEL: Final = "tenants"
_AROUND_S: Final = 3.0  # the recording begins before the load, and ends after it


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """A load and a configuration."""

    name: str
    config: str = "overload"
    elephants: int = 1
    connections: int = 200
    mice: int = 10
    rate: float = 10.0


ROWS: Final = (
    RecordedRow("recorded-elephant"),
    RecordedRow("recorded-elephants", elephants=3, connections=210),
    RecordedRow("recorded-crowd", connections=600),
)
"""One elephant; three; one that is often rejected."""


def compare(rows: Sequence[RecordedRow], plan: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a comparison for each row."""
    for row in rows:
        with tempfile.TemporaryDirectory(prefix="apf-recorded-") as name:
            folder = Path(name)
            config = write_config(row.config, folder)
            trace = RequestTrace(_record(row, plan, folder, config))
            recording = Recording(trace, trace.survey(), "flow")
            scenario = Scenario("recorded", backend=Backend(places=PLACES, exponent=0.0))
            result = simulate(scenario, load(config), recording=recording)
            yield {"row": row.name, **_beside(list(trace.rows()), recording, result)}


def _record(row: RecordedRow, plan: Mapping[str, Any], folder: Path, config: Path) -> Path:
    """Return the file with the recording of a load."""
    server_core, load_core = cores() or (None, None)
    scoreboard = Scoreboard(folder / "scoreboard")
    sockets, file = folder / "sockets", folder / "traffic.jsonl.gz"
    environment = {CONFIG_VARIABLE: str(config), "APF_RUNTIME_DIR": str(sockets)} | scoreboard.environment()
    known = {"elephants": row.elephants, "connections": row.connections, "mice": row.mice, "rate": row.rate}
    with serve(
        "benchmarks.recorded_app:make_app",
        *("--factory", "--loop", "auto", "--http", "auto"),
        environment=environment,
        core=server_core,
    ) as server:
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in {**plan, **known}.items()]
        apf = [sys.executable, "-m", "apf_middleware", "record", f"--runtime-dir={sockets}", f"--output={file}"]
        seconds = plan["seconds"] + plan["warm_up"] + 2 * _AROUND_S
        with pinned(load_core), subprocess.Popen([*apf, f"--seconds={seconds}"], cwd=ROOT) as recorder:  # noqa: S603 - ours
            subprocess.run(  # noqa: S603 - our own program
                [sys.executable, "-m", "benchmarks.load", "--json", f"--port={server.port}", *arguments],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                check=True,
            )
            recorder.wait()
    if recorder.returncode:
        raise RuntimeError(f"apf record has ended with status {recorder.returncode}")
    return file


def _beside(rows: Sequence[RecordedRequest], recording: Recording, result: Result) -> dict[str, Any]:
    """Return the figures of the recording beside those of the simulation, and how far they are apart."""
    counted = [one for one in rows if one.level == _LEVEL]
    calls = Counter(one.flow for one in counted)
    heavy = {flow for flow, _ in calls.most_common(sum(number > 0.1 * len(counted) for number in calls.values()))}
    waits = [one.wait_ns / 1e6 for one in counted if one.wait_ns is not None and one.duration_ns is not None]
    mice = [one for one in counted if one.flow not in heavy and one.wait_ns is not None and one.duration_ns is not None]
    latencies = [((one.wait_ns or 0) + (one.duration_ns or 0)) / 1e6 for one in mice]
    seconds, level = recording.span_ns / 1e9, result.level(_LEVEL)
    real = {
        "wait_p50_ms": percentile(waits, 50),
        "wait_p99_ms": percentile(waits, 99),
        "mice_p50_ms": percentile(latencies, 50),
        "rejected": sum(one.outcome in {"rejected", "hung-up"} for one in counted) / seconds,
    }
    light = [result.tenant(name) for name in {one.listed_as("flow") for one in mice} if name in recording.names]
    simulated = {
        "wait_p50_ms": level.wait_p50_ms,
        "wait_p99_ms": level.wait_p99_ms,
        "mice_p50_ms": statistics.median(one.p50_ms or 0.0 for one in light),
        "rejected": level.rejected / result.seconds,
    }
    line: dict[str, Any] = {"requests": len(counted)}
    for name, measured in real.items():
        found, said = round(measured or 0.0, 1), round(simulated[name] or 0.0, 1)
        line[name], line[f"simulated_{name}"] = found, said
        line[f"error_pct_{name}"] = 0.0 if found == said else round(100 * (said / found - 1), 1) if found else 100.0
    line["worst_error_pct"] = max(abs(line[f"error_pct_{name}"]) for name in real)
    return line
