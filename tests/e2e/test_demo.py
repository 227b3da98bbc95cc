"""``make demo`` as a user starts it: what it measures and draws, and that it leaves no processes behind."""

import asyncio
import io
import json
import re
import signal
import subprocess
import sys
import time
import unicodedata
import urllib.request
import uuid
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import rich
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rich.console import Console

from examples.demo import show
from examples.demo.figures import Party, percentile, summarise
from examples.demo.load import Asked, Load, Run
from examples.demo.report import WIDTH, bar_cells, report
from examples.demo.servers import ServerStartError, serve
from tests.e2e.terminal import CURSOR_OFF, CURSOR_ON, ROOT, pipe, terminal
from tests.support.servers import free_port
from tests.support.virtual_loop import VirtualLoop

DEMO = "examples.demo"
MARK = "APF_TEST_MARK"
MOST_LATE_MS, MOST_RUNS = 20, 3


needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are looked for in /proc")


def marked(mark: str) -> list[int]:
    """Return the processes that descend from one with this mark in its environment."""
    wanted = f"{MARK}={mark}\0".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:  # it has ended, or isn't ours
            continue
        if wanted in environment:
            found.append(int(process.name))
    return found


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


@pytest.fixture(scope="module")
def done() -> tuple[subprocess.CompletedProcess[str], list[int]]:
    """Run a short demonstration into pipes, and return it with the processes that it left.

    A run whose load was late says nothing but that the machine was busy: then it is repeated.
    """
    runs = 0
    while True:
        mark = uuid.uuid4().hex
        done = pipe(DEMO, "--seconds", "2", "--json", NO_COLOR="1", **{MARK: mark})
        left, runs = marked(mark), runs + 1
        if done.returncode or left or runs == MOST_RUNS:
            return done, left
        summary = json.loads(done.stdout)
        if max(summary["without"]["late_ms"], summary["with"]["late_ms"]) < MOST_LATE_MS:
            return done, left


@pytest.fixture
def figures(done: tuple[subprocess.CompletedProcess[str], list[int]]) -> dict[str, Any]:
    assert done[0].returncode == 0, done[0].stderr
    figures: dict[str, Any] = json.loads(done[0].stdout)
    return figures


def test_light_clients_are_served_much_faster_with_protection(figures: dict[str, Any]) -> None:
    without, protected = figures["without"], figures["with"]
    assert without["mice"]["asked"] > 80
    assert protected["mice"]["asked"] == pytest.approx(without["mice"]["asked"], abs=10)
    assert without["mice"]["success"] < 0.6
    assert protected["mice"]["success"] > 0.95
    assert without["mice"]["p99_ms"] == 1000
    assert protected["mice"]["p99_ms"] < 700
    assert protected["mice"]["p50_ms"] < 150


def test_the_heavy_client_is_served_more_with_protection_too(figures: dict[str, Any]) -> None:
    without, protected = figures["without"], figures["with"]
    assert protected["goodput"] > 1.5 * without["goodput"]
    assert protected["elephant"]["served"] > without["elephant"]["served"]
    assert protected["elephant"]["success"] > 0.5
    assert protected["elephant"]["p50_ms"] > 4 * protected["mice"]["p50_ms"], "it waits behind itself"


def planned(tmp_path: Path, target: str, *variables: str) -> str:
    """Return the commands that make would run for a target in a fresh clone."""
    command = ["make", "--dry-run", "--directory", str(ROOT), f"VENV={tmp_path / 'venv'}", target, *variables]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_make_installs_for_the_demo_what_it_needs_and_for_the_rest_everything(tmp_path: Path) -> None:
    demo, check = planned(tmp_path, "demo"), planned(tmp_path, "check")
    assert "--requirement" in demo
    assert "--group" not in demo
    assert "--group dev" in check
    assert "--requirement" not in check


def test_the_demo_imports_nothing_but_what_make_installs_for_it() -> None:
    needed, seen = ["rich", "apf-middleware"], set[str]()
    while needed:
        name = canonicalize_name(needed.pop())
        if name not in seen:
            seen.add(name)
            requirements = map(Requirement, metadata.requires(name) or ())
            needed += [one.name for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})]
    modules = ", ".join(f"examples.demo.{name}" for name in ("app", "show", "load", "servers", "report"))
    allowed = {path.parts[0].removesuffix(".py") for name in seen for path in metadata.files(name) or ()}
    installed = {path.name.partition(".")[0] for path in Path(rich.__file__).parents[1].iterdir()}
    others = sorted(installed - {name.partition(".")[0] for name in allowed} - {"examples"})
    assert {"pydantic", "rich"} <= allowed
    assert "pytest" in others
    program = f"import sys; sys.modules.update(dict.fromkeys({others})); import {modules}"
    program += "; sys.argv[1:] = ['--help']; import examples.demo.__main__"  # which runs the demo
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(seen) <= 20


def test_output_to_a_pipe_is_plain_text(done: tuple[subprocess.CompletedProcess[str], list[int]]) -> None:
    shown = done[0].stderr
    assert {character for character in shown if unicodedata.category(character) == "Cc"} == {"\n"}
    assert max(map(len, shown.splitlines())) <= WIDTH
    for words in ("queueLengthLimit", "without protection", "with apf_middleware", "mice served: 100%", "goodput"):
        assert words in shown
    assert 'apf_rejected_requests_total{reason="queue-full"} 0' in shown, "that is what its metrics said"
    assert "uvicorn examples.demo.app:app" in shown
    assert "/metrics" in shown


@needs_proc
def test_it_leaves_no_process_behind(done: tuple[subprocess.CompletedProcess[str], list[int]]) -> None:
    assert done[1] == []


def test_in_a_terminal_it_shows_how_far_it_is_and_ends_by_itself() -> None:
    with terminal(DEMO, "--seconds", "0.4") as shown:
        assert shown.read_to_end() == 0
    assert shown.text.count("of 0.4 s") > 12, "two bars, some times a second"
    assert "goodput" in shown.text
    assert shown.text.count(CURSOR_OFF) == shown.text.count(CURSOR_ON) == 1


@needs_proc
@pytest.mark.parametrize(
    ("words", "sent", "status"),
    [
        ("httpRules", signal.SIGINT, 130),  # its servers are about to start
        ("of 8 s", signal.SIGINT, 130),
        ("of 8 s", signal.SIGTERM, 143),
    ],
)
def test_an_interrupt_ends_all_processes(mark: str, words: str, sent: signal.Signals, status: int) -> None:
    with terminal(DEMO, **{MARK: mark}) as shown:
        shown.read_until(words)
        deadline = time.monotonic() + 60
        while len(marked(mark)) < 3:
            assert time.monotonic() < deadline, "there were no servers to be ended"
        shown.process.send_signal(sent)
        assert shown.read_to_end() == status
    assert marked(mark) == []
    assert "Traceback" not in shown.text
    assert "goodput" not in shown.text
    assert shown.text.rfind(CURSOR_ON) >= shown.text.rfind(CURSOR_OFF)


def test_a_server_that_does_not_start_is_reported_with_its_output() -> None:
    with pytest.raises(ServerStartError, match='Attribute "nothing" not found'), serve("examples.demo.app:nothing"):
        pytest.fail("it can't have started")


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "soon", "1e9"])
def test_an_invalid_number_of_seconds_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        show.main(["--seconds", seconds])
    assert ended.value.code == 2
    assert "must be a number of seconds between 0.2 and 3600" in capsys.readouterr().err


def test_make_demo_runs_it_and_its_console_if_asked(tmp_path: Path) -> None:
    assert re.search(r"-m examples\.demo *\n", planned(tmp_path, "demo"))
    assert "-m examples.demo --console\n" in planned(tmp_path, "demo", "CONSOLE=1")


@needs_proc
def test_the_console_of_the_demo_is_open_until_ctrl_c(mark: str) -> None:
    with terminal(DEMO, "--console", **{MARK: mark, "NO_COLOR": "1"}) as shown:
        shown.read_until("/open/")
        shown.read_until("\r\n\r\n")
        found = re.search(r"http://127\.0\.0\.1:\d+/open/[\w-]+", shown.text)
        assert found is not None
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(found[0], timeout=30) as response:
            page = response.read().decode()
        shown.process.send_signal(signal.SIGINT)
        assert shown.process.wait(30) == 130

    assert "<title>apf console</title>" in page
    assert marked(mark) == []


def test_the_demo_ends_by_saying_how_to_open_the_console(
    done: tuple[subprocess.CompletedProcess[str], list[int]],
) -> None:
    assert "make demo CONSOLE=1" in done[0].stderr


class Answering(asyncio.Protocol):
    """A server's side of a connection: it answers each request with the given bytes, in two parts 1 ms apart."""

    def __init__(self, answer: bytes, transports: list[asyncio.Transport]) -> None:
        self.answer = answer
        self.transports = transports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transports.append(transport)

    def data_received(self, _data: bytes) -> None:
        transport = next(one for one in self.transports if one.get_protocol() is self)
        transport.write(self.answer[:20])
        asyncio.get_running_loop().call_later(0.001, transport.write, self.answer[20:])


def play(load: Load, answer: bytes, *, held_up: float = 0.0) -> tuple[Run, int]:
    """Run the load against a server that stalls once after 100 ms; return the report and the number of connections.

    Time is virtual: a busy machine would be late, too.
    """

    async def play() -> tuple[Run, int]:
        loop, transports = runner.get_loop(), list[asyncio.Transport]()
        assert isinstance(loop, VirtualLoop)
        async with await loop.create_server(lambda: Answering(answer, transports), "127.0.0.1", 0) as server:
            run = Run(load, server.sockets[0].getsockname()[1])
            loop.call_later(0.1, loop.stall, held_up)
            await run.play()
            for transport in transports:
                transport.abort()
            await asyncio.sleep(0.01)  # connections end in the loop's next turns
        return run, len(transports)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(play())


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REFUSED = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n"


def test_the_latency_of_a_light_client_counts_from_when_its_request_was_due() -> None:
    run, _ = play(Load(seconds=0.5, connections=0, mice=1, rate=100), OK, held_up=0.2)
    assert sum(one.took > 0.05 for one in run.mice) > 6, "those that were due while nothing could be sent"
    assert max(run.lateness) > 0.15
    assert all(one.is_served for one in run.mice)


def test_the_heavy_client_sends_its_next_request_immediately_on_the_same_connection() -> None:
    run, connections = play(Load(seconds=0.3, connections=3, mice=1, onset=0.01), OK)
    assert connections <= 3 + len(run.mice)
    assert len(run.elephant) > 60
    assert min(one.due for one in run.elephant) >= 0.06


def test_the_heavy_client_pauses_after_a_rejection() -> None:
    run, _ = play(Load(seconds=0.3, connections=3, mice=1, onset=0.01), REFUSED)
    assert 3 < len(run.elephant) < 3 * (0.3 / 0.05 + 1)
    assert {one.status for one in run.elephant} == {429}


def test_a_client_that_times_out_uses_a_new_connection() -> None:
    run, connections = play(Load(seconds=0.5, connections=3, mice=1, rate=20, deadline=0.1, onset=0.01), OK[:-1])
    assert {one.status for one in (*run.mice, *run.elephant)} == {0}
    assert all(0.09 < one.took < 0.3 for one in run.elephant)
    assert len(run.elephant) >= 6
    assert connections >= len(run.elephant) + len(run.mice)


def test_a_server_that_has_ended_counts_as_no_response() -> None:
    run = Run(Load(seconds=0.2, connections=1, mice=1, rate=50, deadline=0.1, onset=0.01), free_port())
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run.play())
    assert {one.status for one in run.mice} == {0}
    assert len(run.elephant) < 10, "it doesn't try again at once"


def run_of(mouse: Callable[[float], Asked], elephant: list[Asked]) -> Run:
    """Return a run in which the ten mice asked every 100 ms."""
    run = Run(Load(), 0)
    run.mice = [mouse(step / 100) for step in range(800)]
    run.elephant = elephant
    run.lateness = [0.001] * 800
    return run


def served_until_it_comes(due: float) -> Asked:
    return Asked(due, 0.02, 200) if due < Load().calm else Asked(due, 1.0, 0)


def always_served(due: float) -> Asked:
    return Asked(due, 0.02, 200)


def draw(width: int, encoding: str, errors: str = "strict") -> str:
    runs = run_of(served_until_it_comes, [Asked(2, 1.0, 0)]), run_of(always_served, [Asked(2, 0.5, 200)] * 5)
    written = io.BytesIO()
    with io.TextIOWrapper(written, encoding=encoding, errors=errors) as file:
        Console(file=file, width=width, highlight=False).print(report(*runs))
        file.flush()
        return written.getvalue().decode(encoding)


def test_the_picture_shows_requests_without_a_response() -> None:
    lines = draw(WIDTH, "utf-8").splitlines()
    assert max(map(len, lines)) <= WIDTH
    charts = [line for line in lines if "xx" in line]
    assert len(charts) == 6, "all the way from the top to the bottom"
    for line in charts:
        without, protected = line[:40], line[40:]
        assert without.count("x") == 24, "four fifths of 30 columns"
        assert "x" not in protected
    assert "▁▁▁▁▁▁xxx" in charts[-1], "before the elephant came, all was well"
    [bars] = [line for line in lines if line.startswith("│ mice")]
    assert bars.index("░   0%") < 40 < bars.index("█ 100%")


def test_where_nothing_but_ascii_can_be_written_it_is_drawn_with_that() -> None:
    show.register_sketch()
    drawn = draw(WIDTH, "ascii", "sketch")
    assert "xxxxx" in drawn
    assert "####" in drawn
    assert "?" not in drawn


def test_only_requests_since_the_heavy_client_began_count() -> None:
    figures = summarise(run_of(served_until_it_comes, [Asked(7.5, 1.0, 0), Asked(2, 0.5, 200)]))
    assert (figures.mice.asked, figures.mice.served, figures.mice.unanswered) == (640, 0, 640)
    assert (figures.elephant.asked, figures.elephant.served) == (1, 1), "the other one ended after the run"
    assert figures.goodput == pytest.approx(3 / 6.4), "two mice that were answered after it had come, and its own"
    assert figures.late_ms == 1


def test_unserved_requests_count_while_any_request_waits() -> None:
    requests = [Asked(0, 0.02, 200)] * 97 + [Asked(0, 0.001, 429), Asked(0, 0.002, 503), Asked(0, 0.3, 0)]
    party = Party.of(requests, deadline=1)
    assert (party.served, party.refused, party.unanswered) == (97, 2, 1)
    assert party.success == 0.97
    assert (party.p50_ms, party.p99_ms) == (20, 1000)


def test_without_requests_nothing_is_served() -> None:
    assert Party.of([], deadline=1) == Party(0, 0, 0, 0, 0.0, 0.0)
    assert Party.of([], deadline=1).success == 0
    assert percentile([1.0, 2.0, 3.0], 0.5) == 2


@pytest.mark.parametrize(("value", "cells"), [(0, "  "), (0.001, " ▁"), (0.5, " █"), (0.75, "▄█"), (9, "██")])
def test_bars_begin_at_the_bottom_line(value: float, cells: str) -> None:
    assert "".join(bar_cells(value, 1, 2)) == cells
