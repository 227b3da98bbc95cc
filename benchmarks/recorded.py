"""The traffic of a real server, recorded under overload and simulated again with the same configuration.

These are rows of `benchmarks.fidelity`. ``apf record`` records while `benchmarks.load` runs, from before its first
request until after its last one. The recording contains what the server did with each request, and `simulate` decides
again: waits and rejections of both are compared.
"""

import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from apf_middleware.config import load
from apf_middleware.config.scenario import Backend, Scenario
from apf_middleware.recordings import RecordedRequest
from apf_middleware.simulation import Result, simulate
from apf_middleware.simulation.recording import OTHERS, Recording
from apf_middleware.simulation.trace import RequestTrace
from benchmarks.load import percentile
from benchmarks.recorded_app import CONFIG_VARIABLE
from benchmarks.wire_backend import PLACES, Scoreboard
from benchmarks.wire_configs import write_config
from tests.support.servers import ROOT, cores, pinned, serve

__all__ = ["LOADS", "RecordedLoad", "compare"]

_LEVEL: Final = "tenants"
_AROUND_S: Final = 3.0  # the recording begins before the load, and ends after it


@dataclass(frozen=True, slots=True)
class RecordedLoad:
    """A load and a configuration."""

    name: str
    config: str = "overload"
    elephants: int = 1
    connections: int = 200
    mice: int = 10
    rate: float = 10.0


LOADS: Final = (
    RecordedLoad("recorded-elephant"),
    RecordedLoad("recorded-elephants", elephants=3, connections=210),
    RecordedLoad("recorded-crowd", connections=600),
)
"""One elephant; three; one that is often rejected."""


def compare(rows: Sequence[RecordedLoad], plan: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
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


def _record(row: RecordedLoad, plan: Mapping[str, Any], folder: Path, config: Path) -> Path:
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
    real = _figures_of(counted, recording.span_ns / 1e9)
    heavy = {f"{_LEVEL}/{flow}" for flow in _heavy_flows(counted)}
    served = [one for one in result.tenants if one.name.startswith(f"{_LEVEL}/") or one.name == OTHERS]
    tenants = [one for one in served if one.name in heavy]
    durations = fmean(one.duration_ns / 1e6 for one in counted if one.duration_ns is not None)
    latency = sum((one.mean_ms or 0.0) * one.served for one in served) / sum(one.served for one in served)
    simulated = {
        "wait_mean_ms": latency - durations,
        "heavy_p50_ms": fmean(one.p50_ms or 0.0 for one in tenants),
        "heavy_p90_ms": fmean(one.p90_ms or 0.0 for one in tenants),
        "light_p50_ms": fmean(one.p50_ms or 0.0 for one in served if one.name not in heavy),
        "rejected": result.level(_LEVEL).rejected / result.seconds,
    }
    line: dict[str, Any] = {"requests": len(counted)}
    for name, measured in real.items():
        found, said = round(measured, 1), round(simulated[name], 1)
        line[name], line[f"simulated_{name}"] = found, said
        line[f"error_pct_{name}"] = round(100 * (said / found - 1), 1) if found else 100.0 * bool(said)
    line["worst_error_pct"] = max(abs(line[f"error_pct_{name}"]) for name in real)
    return line


def _heavy_flows(rows: Sequence[RecordedRequest]) -> set[str]:
    """Return the flows of the elephants: those with at least a tenth of the requests."""
    return {flow for flow, number in Counter(one.flow for one in rows).items() if number >= 0.1 * len(rows)}


def _figures_of(rows: Sequence[RecordedRequest], seconds: float) -> dict[str, float]:
    heavy, latencies, waits = _heavy_flows(rows), defaultdict[str, list[float]](list), []
    for one in rows:
        if one.duration_ns is not None and one.wait_ns is not None:
            waits.append(one.wait_ns / 1e6)
            latencies[one.flow].append((one.wait_ns + one.duration_ns) / 1e6)
    return {
        "wait_mean_ms": fmean(waits),
        "heavy_p50_ms": fmean(percentile(latencies[flow], 50) or 0.0 for flow in heavy),
        "heavy_p90_ms": fmean(percentile(latencies[flow], 90) or 0.0 for flow in heavy),
        "light_p50_ms": fmean(percentile(found, 50) or 0.0 for flow, found in latencies.items() if flow not in heavy),
        "rejected": sum(one.outcome in {"rejected", "hung-up"} for one in rows) / seconds,
    }
