"""The benchmark of throughput measures what it says, and stops when a server's figures would be worthless."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from benchmarks import bursts, throughput
from benchmarks.bursts import Burst, BurstTarget, WorthlessRowError, send_bursts
from benchmarks.interpreters import Interpreter, WrongBuildError, compiled_interpreter
from benchmarks.measure import quartiles
from benchmarks.throughput import ROWS, MeasuredRow, Plan, ThroughputRow, choose, compare, in_turns, measure, noise
from benchmarks.wire_builds import Build
from benchmarks.wrk import CONNECTIONS, WrkReport, parse_wrk
from tests.support.servers import ROOT, Server

BARE, NOOP, OURS = (ThroughputRow("raw", wrapper) for wrapper in ("bare", "noop", "ours"))
BARE_COMPILED, OURS_COMPILED = (ThroughputRow("raw", wrapper, is_compiled=True) for wrapper in ("bare", "ours"))

needs_wrk = pytest.mark.skipif(shutil.which("wrk") is None and "CI" not in os.environ, reason="wrk isn't installed")


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.throughput", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False, timeout=110
    )


# The command


@needs_wrk
def test_rows_are_measured_beside_the_bare_app() -> None:
    result = run("--json", "--rounds=1", "--starts=1", "--warm-up=0", "--only", "raw ours")
    assert result.returncode == 0, result.stdout + result.stderr
    rows = json.loads(result.stdout)

    assert [(row["base"], row["row"], row["build"]) for row in rows] == [
        ("raw", "bare", Build.here().name),
        ("raw", "ours", Build.here().name),
    ]
    assert rows[0]["ratio"] == 1
    for row in rows:
        assert set(throughput._COLUMNS) <= set(row)
        assert row["requests_per_s"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["cpu_ratio_q1"] == row["cpu_ratio"] == row["cpu_ratio_q3"] > 0
        assert row["cpu_us"] > 1


@needs_wrk
def test_an_interpreter_without_a_compiled_build_of_its_own_is_refused() -> None:
    result = run("--rounds=1", "--starts=1", "--warm-up=0", "--only", "raw ours-compiled", "--compiled", sys.executable)

    assert result.returncode == 1
    assert f"{sys.executable} runs the {Build.here().name} build in " in result.stderr
    assert "not an installed and compiled one. Make one with: make native" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--only", "nothing like it"], "--only must match a row"),
        (["--starts", "0"], "--starts, --seconds and --connections must be at least 1"),
        (["--connections", "0"], "--starts, --seconds and --connections must be at least 1"),
        (["--rounds", "3", "--starts", "4"], "--rounds at least --starts"),
        (["--compiled", "/nowhere/python"], "there is no /nowhere/python. Make one with: make native"),
    ],
)
def test_wrong_arguments_are_errors(
    arguments: list[str], error: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(sys, "argv", ["throughput", *arguments])

    with pytest.raises(SystemExit, match="2"):
        throughput.main()
    assert error in capsys.readouterr().err


def test_without_wrk_the_error_says_how_to_get_it() -> None:
    result = run("--json", PATH="/nowhere")

    assert result.returncode == 1
    assert "wrk makes the load, and it isn't installed. Install it (apt-get install wrk" in result.stderr


def test_the_table_ends_with_a_line_about_noise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(rows: Sequence[ThroughputRow], *_arguments: object) -> list[MeasuredRow]:
        return [MeasuredRow(row, [burst(10.0)], [burst(10.0)], [burst(10.0)]) for row in rows]

    monkeypatch.setattr(throughput, "measure", measure)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(sys, "argv", ["throughput"])
    throughput.main()
    header, *rows, last = capsys.readouterr().out.splitlines()

    assert tuple(header.split()) == throughput._COLUMNS
    assert [tuple(line.split()[:2]) for line in rows] == [(row.base, row.name) for row in ROWS]
    assert last.startswith("noise: cpu_ratio of bare, quartiles: raw 1.0 to 1.0, ")


def test_a_worthless_row_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*_arguments: object) -> list[MeasuredRow]:
        raise WorthlessRowError("row raw ours: refused")

    monkeypatch.setattr(throughput, "measure", measure)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(sys, "argv", ["throughput"])

    with pytest.raises(SystemExit, match="row raw ours: refused"):
        throughput.main()


# Rows and their order


def test_all_apps_and_wrappers_are_rows() -> None:
    names = [(row.base, row.name) for row in choose("")]

    assert names == [
        (base, wrapper)
        for base in ("raw", "starlette", "fastapi")
        for wrapper in ("bare", "noop", "semaphore", "headers", "ours")
    ]
    assert choose("nothing like it") == []


def test_a_row_is_chosen_with_the_bare_one_of_its_interpreter() -> None:
    assert choose("fastapi semaphore") == [ThroughputRow("fastapi", "bare"), ThroughputRow("fastapi", "semaphore")]
    assert choose("raw ours", with_compiled=True) == [BARE, OURS, BARE_COMPILED, OURS_COMPILED]
    assert choose("raw ours-compiled", with_compiled=True) == [BARE_COMPILED, OURS_COMPILED]
    assert choose("compiled") == []


def test_in_each_round_all_rows_have_one_turn_and_those_of_an_app_follow_each_other() -> None:
    random = Random(1)
    for _ in range(30):
        turns = list(in_turns(ROWS, random))
        assert len(turns) == len(ROWS)
        assert set(turns) == set(ROWS)
        assert all(len({row.base for row in turns[first : first + 5]}) == 1 for first in (0, 5, 10))


def test_no_row_always_follows_the_same_one() -> None:
    random = Random(1)
    pairs = Counter(pairwise(row for _ in range(30) for row in in_turns(ROWS, random)))

    for row in ROWS:
        before = [number for (_, after), number in pairs.items() if after == row]
        assert len(before) > 4
        assert max(before) <= 15  # of 30


# Rounds and starts


class Machine:
    """Stands for the servers: writes down which are started, and what gets bursts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[str] = []
        self.seeds: list[int] = []
        self.sent: list[list[str]] = []
        self._running = 0
        monkeypatch.setattr(throughput, "_served", self._serve)
        monkeypatch.setattr(throughput, "send_bursts", self._send)

    @contextmanager
    def _serve(self, row: ThroughputRow, _interpreter: Interpreter, seed: int, _warm_up: int) -> Iterator[BurstTarget]:
        self.started.append(row.name)
        self.seeds.append(seed)
        self._running += 1
        yield BurstTarget(f"{row.name} {self._running}", cast("Server", None), b"ok")
        self._running -= 1

    def _send(self, targets: Sequence[BurstTarget], seconds: int, _core: int | None, connections: int) -> list[Burst]:
        assert connections == CONNECTIONS
        names = [target.name for target in targets]
        self.sent.append(names)
        return [burst(float(name.split()[1]), per_second=seconds) for name in names]


def plan(rounds: int = 1, starts: int = 1, compiled: Path | None = None) -> Plan:
    return Plan(rounds, starts, seconds=7, warm_up=0, compiled=compiled)


def test_each_row_has_bursts_alone_and_beside_another_bare_server(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    bare, ours = measure([BARE, OURS], plan(rounds=5))

    assert machine.started == ["bare", "ours", "bare"]
    assert {frozenset(names) for names in machine.sent} == {
        frozenset(names) for names in (["bare 1"], ["bare 1", "bare 3"], ["ours 2"], ["ours 2", "bare 3"])
    }
    assert {names[0] for names in machine.sent if len(names) == 2} == {"bare 1", "ours 2", "bare 3"}
    assert (bare.row, ours.row) == (BARE, OURS)
    assert bare.alone == bare.beside == [burst(1.0, 7)] * 5
    assert ours.alone == ours.beside == [burst(2.0, 7)] * 5
    assert bare.references == ours.references == [burst(3.0, 7)] * 5


def test_servers_are_started_anew_in_the_course_of_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    [bare] = measure([BARE], plan(rounds=7, starts=3))

    assert machine.started == ["bare", "bare"] * 3
    assert machine.seeds == [0, 0, 1, 1, 2, 2]
    assert len(bare.alone) == len(bare.beside) == len(bare.references) == 7
    assert plan(rounds=7, starts=3).parts() == [3, 2, 2]


def test_the_reference_of_the_compiled_build_has_its_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    measure([BARE, BARE_COMPILED, OURS_COMPILED], plan(compiled=Path(sys.executable)))

    assert machine.started == ["bare", "bare-compiled", "ours-compiled", "bare", "bare-compiled"]
    assert {"ours-compiled 3", "bare-compiled 5"} in map(set, machine.sent)


# Figures


def burst(cpu_us: float | None, per_second: float = 1000.0, foreign_cpu: float | None = 0.25) -> Burst:
    return Burst(1000, per_second, 1.0, 2.0, cpu_us, foreign_cpu)


def bursts_of(*cpu_us: float | None, foreign_cpu: float | None = 0.25) -> list[Burst]:
    return [burst(one, foreign_cpu=foreign_cpu) for one in cpu_us]


def test_processor_time_is_compared_with_that_of_the_reference_at_the_same_time() -> None:
    ours = MeasuredRow(OURS, bursts_of(1, 1, 1), bursts_of(12, 22, 80), bursts_of(10, 20, 50))
    _, row = compare([MeasuredRow(BARE, bursts_of(5, 5, 5), bursts_of(5), bursts_of(5)), ours], plan(3))

    assert (row["cpu_us"], row["rounds"], row["starts"]) == (22.0, 3, 1)
    assert (row["cpu_ratio_q1"], row["cpu_ratio"], row["cpu_ratio_q3"]) == (1.15, 1.2, 1.4)


def test_requests_are_compared_with_those_of_the_bare_row_of_the_interpreter_in_the_same_round() -> None:
    figures = {BARE: (1000, 500, 250), OURS: (800, 450, 100), BARE_COMPILED: (9, 9, 9), OURS_COMPILED: (9, 9, 9)}
    measured = [
        MeasuredRow(row, [burst(1.0, each) for each in per_second], bursts_of(1), bursts_of(1))
        for row, per_second in figures.items()
    ]
    bare, ours, _, ours_compiled = compare(measured, plan(3))

    assert (bare["ratio_q1"], bare["ratio"], bare["ratio_q3"]) == (1, 1, 1)
    assert (ours["requests_per_s"], ours["build"]) == (450, Build.here().name)
    assert (ours["ratio_q1"], ours["ratio"], ours["ratio_q3"]) == (0.6, 0.8, 0.85)
    assert (ours_compiled["row"], ours_compiled["build"], ours_compiled["ratio"]) == ("ours-compiled", "compiled", 1)


def test_processor_time_that_is_not_known_is_none() -> None:
    unknown = bursts_of(None, foreign_cpu=None)
    [row] = compare([MeasuredRow(BARE, unknown, unknown, unknown)], plan())

    assert [row[name] for name in ("cpu_us", "cpu_ratio", "cpu_ratio_q1", "foreign_cpu")] == [None] * 4
    assert row["ratio"] == 1
    assert noise([row]) == "noise: not known"


def test_noise_is_the_spread_of_what_should_be_1_and_what_other_processes_take() -> None:
    bare = MeasuredRow(
        BARE, bursts_of(1, foreign_cpu=0.125), bursts_of(9, 10, 12, foreign_cpu=0.125), bursts_of(10, 10, 10)
    )
    ours = MeasuredRow(OURS, bursts_of(1, foreign_cpu=0.5), bursts_of(20, foreign_cpu=0.5), bursts_of(10))

    assert noise(list(compare([bare, ours], plan()))) == (
        "noise: cpu_ratio of bare, quartiles: raw 0.95 to 1.1; other processes: 0.31 cores, at most 0.50"
    )


def test_quartiles_of_one_value_are_that_value() -> None:
    assert quartiles([3.0]) == (3.0, 3.0, 3.0)
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 3.0, 4.0)


# Bursts

REPORT = WrkReport(1000 - CONNECTIONS, 990.0, 1.0, 2.0, 0, 0)


@contextmanager
def answering(status: int, body: bytes) -> Iterator[int]:
    """Yield the port of a server that answers each GET alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


Targets = Callable[..., BurstTarget]


@pytest.fixture
def target(tmp_path: Path) -> Targets:
    """Return targets at a port, whose process has ended."""
    (tmp_path / "output").write_text("what the server wrote")
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return lambda name="raw ours", port=0: BurstTarget(name, Server(process, port, tmp_path / "output"), b"ok")


@pytest.mark.parametrize(("status", "body"), [(503, b"ok"), (200, b"no"), (307, b"ok")])
def test_a_server_must_answer_what_its_app_answers(status: int, body: bytes, target: Targets) -> None:
    with (
        answering(status, body) as port,
        pytest.raises(WorthlessRowError, match=rf"^row raw ours: .* {status} {body!r}, not with 200 b'ok':\nwhat the"),
    ):
        target(port=port).check_answer()


def test_the_right_answer_is_accepted(target: Targets) -> None:
    with answering(200, b"ok") as port:
        target(port=port).check_answer()


@pytest.mark.parametrize(
    ("report", "error"),
    [
        (WrkReport(100, 100.0, 1.0, 2.0, 77, 0), "of 100 responses, 77 were not 2xx; 0 errors"),
        (WrkReport(100, 100.0, 1.0, 2.0, 0, 3), "of 100 responses, 0 were not 2xx; 3 errors"),
    ],
)
def test_a_burst_with_a_failure_is_worthless(
    report: WrkReport, error: str, target: Targets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bursts, "run_wrk", lambda *_arguments: [REPORT, report])

    with pytest.raises(WorthlessRowError, match=f"^row raw ours: {error}"):
        send_bursts([target("raw bare"), target()], 1, None)


def test_after_a_burst_with_few_responses_a_longer_one_follows(
    target: Targets, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, lengths = iter([0, 639, 640]), list[int]()

    def run_wrk(_urls: Sequence[str], seconds: int, _core: int | None, connections: int) -> list[WrkReport]:
        lengths.append(seconds)
        assert connections == 64
        return [WrkReport(next(answered), 9.0, 1.0, 2.0, 0, 0)]

    monkeypatch.setattr(bursts, "_PAUSE", 0.0)
    monkeypatch.setattr(bursts, "run_wrk", run_wrk)
    [found] = send_bursts([target()], 2, None)

    assert found.requests == 640
    assert lengths == [2, 4, 6]


def test_a_machine_that_is_too_busy_is_an_error(target: Targets, monkeypatch: pytest.MonkeyPatch) -> None:
    few = WrkReport(639, 639.0, 1.0, 2.0, 0, 0)
    monkeypatch.setattr(bursts, "_PAUSE", 0.0)
    monkeypatch.setattr(bursts, "run_wrk", lambda *_arguments: [few])

    with pytest.raises(WorthlessRowError, match=r"^row raw ours: .* less than 640 responses in 10 s. Try longer"):
        send_bursts([target()], 1, None)


class Meters:
    """Give the readings of bursts of one second: servers, by their names, all processes, load; None is not known."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, servers: Mapping[str, Sequence[float | None]], busy: float | None
    ) -> None:
        self.paused = 0.0
        self._servers = {name: list(readings) for name, readings in servers.items()}
        self._times = iter([10.0, 11.0])
        self._busy, self._load = iter([100.0, busy]), iter([5.0, 5.5])
        clock = SimpleNamespace(perf_counter=lambda: next(self._times), sleep=self._pause)
        monkeypatch.setattr("benchmarks.bursts.time", clock)
        monkeypatch.setattr(bursts, "run_wrk", lambda urls, *_arguments: [REPORT for _ in urls])
        monkeypatch.setattr(BurstTarget, "cpu_seconds", lambda target: self._read(target.name))
        monkeypatch.setattr(bursts, "busy_seconds", lambda: next(self._busy))
        monkeypatch.setattr(bursts, "_load_seconds", lambda: next(self._load))

    def _read(self, name: str) -> float | None:
        readings = self._servers[name]
        return readings.pop(0) if len(readings) > 1 else readings[0]

    def _pause(self, seconds: float) -> None:
        self.paused += seconds


def test_a_burst_is_over_when_the_server_has_finished_what_it_left_behind(
    target: Targets, monkeypatch: pytest.MonkeyPatch
) -> None:
    Meters(monkeypatch, {"raw ours": [50.0, 50.7, 50.75, 50.8, 50.8]}, 101.5)
    [found] = send_bursts([target()], 1, None)

    assert (found.per_second, found.p50_ms, found.p99_ms) == (990.0, 1.0, 2.0)
    assert found.cpu_us == pytest.approx(800)
    assert found.foreign_cpu == pytest.approx(1.5 - 0.8 - 0.5)


def test_servers_with_bursts_at_once_are_told_apart(target: Targets, monkeypatch: pytest.MonkeyPatch) -> None:
    Meters(monkeypatch, {"raw ours": [50.0, 50.3], "raw bare": [7.0, 7.2]}, 101.5)
    ours, bare = send_bursts([target(), target("raw bare")], 1, None)

    assert [ours.cpu_us, bare.cpu_us] == pytest.approx([300, 200])
    assert ours.foreign_cpu == bare.foreign_cpu == pytest.approx(1.5 - 0.3 - 0.2 - 0.5)


def test_a_server_that_waits_for_its_core_has_not_finished(target: Targets, monkeypatch: pytest.MonkeyPatch) -> None:
    Meters(monkeypatch, {"raw ours": [50.0, 50.7, 50.7, 50.7, 50.8]}, 101.5)
    waits = iter([True, True, False])
    monkeypatch.setattr(bursts, "is_runnable", lambda _pid: next(waits))
    [found] = send_bursts([target()], 1, None)

    assert found.cpu_us == pytest.approx(800)


def test_a_server_that_is_never_idle_is_worthless(target: Targets, monkeypatch: pytest.MonkeyPatch) -> None:
    meters = Meters(monkeypatch, {"raw ours": [50.0, *(50.5 + count / 1000 for count in range(1000))]}, 101.5)

    with pytest.raises(WorthlessRowError, match=r"^row raw ours: the server is busy 5 s after its load has ended"):
        send_bursts([target()], 1, None)
    assert meters.paused == pytest.approx(5)


def test_what_the_system_does_not_tell_is_not_known(target: Targets, monkeypatch: pytest.MonkeyPatch) -> None:
    Meters(monkeypatch, {"raw ours": [None]}, None)
    [found] = send_bursts([target()], 1, None)

    assert (found.cpu_us, found.foreign_cpu) == (None, None)


# Builds and interpreters


def printed(build: Build, capsys: pytest.CaptureFixture[str]) -> str:
    build.print()
    return "something before\n" + capsys.readouterr().out + "something after\n"


def test_a_server_of_our_interpreter_runs_our_build(capsys: pytest.CaptureFixture[str]) -> None:
    here = Build.here()

    assert Interpreter().check(printed(here, capsys)) == here
    for other in (Build("/elsewhere", here.is_compiled), Build(here.package, not here.is_compiled)):
        with pytest.raises(WrongBuildError, match=f"a server runs the {other.name} build in {other.package}, not"):
            Interpreter().check(printed(other, capsys))


def test_a_server_that_does_not_print_its_build_is_refused() -> None:
    with pytest.raises(WrongBuildError, match="did not print which build it runs:\nsomething"):
        Interpreter().check("something")


def test_the_other_interpreter_has_an_installed_and_compiled_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interpreter, installed = Interpreter("python", tmp_path), Build("/site-packages/apf_middleware", is_compiled=True)

    assert interpreter.check(printed(installed, capsys)) == installed
    for other in (
        Build("/site-packages/apf_middleware", is_compiled=False),
        Build(Build.here().package, is_compiled=True),
    ):
        with pytest.raises(WrongBuildError, match="not an installed and compiled one"):
            interpreter.check(printed(other, capsys))


def test_servers_of_the_other_interpreter_find_the_benchmarks_and_no_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    program = "import os, benchmarks.wire_client; print(os.environ['PYTHONPATH'], benchmarks.wire_client.__file__)"
    with compiled_interpreter(Path(sys.executable)) as interpreter:
        result = subprocess.run(
            [interpreter.python, "-c", program],
            cwd=interpreter.folder,
            env={**os.environ, **interpreter.variables},
            capture_output=True,
            text=True,
            check=True,
        )

        assert [path.name for path in interpreter.folder.iterdir()] == ["benchmarks"]
        assert not interpreter.is_own
    assert result.stdout.split() == [str(interpreter.folder), f"{interpreter.folder}/benchmarks/wire_client.py"]


# wrk


WRK = """Running 2s test @ http://127.0.0.1:8000/
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.10ms  242.10us   7.32ms   92.62%
    Req/Sec    56.41k     1.77k   59.60k    70.00%
  Latency Distribution
     50%  912.00us
     75%    1.10ms
     90%    1.21ms
     99%    1.02s
  112276 requests in 2.00s, 12.96MB read
"""


def test_what_wrk_prints_is_read() -> None:
    found = parse_wrk(WRK + "Requests/sec:  56130.11\nTransfer/sec:      6.48MB\n")

    assert found == WrkReport(112276, 56130.11, 0.912, 1020.0, 0, 0)


def test_refusals_and_broken_connections_that_wrk_met_are_read() -> None:
    errors = "  Socket errors: connect 1, read 20, write 300, timeout 4000\n  Non-2xx or 3xx responses: 77\n"
    found = parse_wrk(WRK + errors + "Requests/sec:  56130.11\n")

    assert (found.non_2xx, found.errors) == (77, 4321)


def test_what_wrk_does_not_print_is_an_error_that_shows_it() -> None:
    with pytest.raises(ValueError, match=r"nothing that matches.*\n.*unable to connect"):
        parse_wrk("unable to connect to 127.0.0.1:1")
