"""``apf`` as a person runs it: arguments, output and an exit status; some tests start a process."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from apf_middleware import __version__
from apf_middleware.testing import replay
from apf_middleware.testing.trace import parse, store
from tests.support.command_line import Outcome
from tests.support.golden import golden_files, needs_golden

Apf = Callable[..., Outcome]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Write a trace with its results."""
    settings = {"concurrency": 1, "queues": 4, "handSize": 2, "queueLengthLimit": 5, "estimatedServiceDuration_ns": 0}
    arrivals = [
        {"t_ns": n, "op": "arrive", "id": n, "flow": "a", "flow_hash": 3, "seats": 1, "duration_ns": 10}
        for n in range(20)
    ]
    trace = parse({"format": "apf-queueset-trace/1", "name": "t", "config": settings, "events": arrivals})
    store(tmp_path / "recorded.json.gz", replay(trace).document())
    return tmp_path / "recorded.json.gz"


def test_a_trace_that_agrees_is_ok(installed: Apf, recorded: Path) -> None:
    result = installed("replay", recorded)

    assert (result.stdout, result.stderr, result.returncode) == (f"{recorded}: ok\n", "", 0)


def test_a_trace_that_differs_is_told_and_fails(apf: Apf, recorded: Path, tmp_path: Path) -> None:
    document = replay(parse(json.loads(subprocess.check_output(["gzip", "-cd", str(recorded)])))).document()  # noqa: S607
    document["results"]["rows"][3][1] = 99
    store(tmp_path / "other.json", document)

    result = apf("replay", recorded, tmp_path / "other.json")

    assert result.returncode == 1
    first, second = result.stdout.splitlines()
    assert first.endswith(": ok")
    assert "row of id 3, queue: expected 99, got" in second


def test_a_file_that_is_no_trace_is_told_and_the_others_are_replayed(installed: Apf, recorded: Path) -> None:
    result = installed("replay", "README.md", recorded, "/does/not/exist.json")

    assert result.returncode == 2
    assert result.stdout == f"{recorded}: ok\n"
    assert "README.md: it isn't JSON" in result.stderr
    assert "/does/not/exist.json: it can't be read" in result.stderr
    assert "Traceback" not in result.stderr


def test_results_can_be_written(apf: Apf, recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert apf("replay", recorded, "--write", out).returncode == 0
    assert apf("replay", out).stdout == f"{out}: ok\n"

    (tmp_path / "folder").mkdir()
    assert apf("replay", recorded, out, "--write", tmp_path / "folder").returncode == 0
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["out.json", "recorded.json.gz"]


def test_several_results_need_a_folder(apf: Apf, recorded: Path, tmp_path: Path) -> None:
    result = apf("replay", recorded, recorded, "--write", tmp_path / "one.json")

    assert result.returncode == 2
    assert "is not a folder" in result.stderr


@needs_golden
def test_the_traces_of_kubernetes_replay_strictly(apf: Apf) -> None:
    """Some of them; `tests/differential/test_golden.py` replays all."""
    files = sorted(golden_files("traces/*.json.gz"), key=lambda path: path.stat().st_size)[:12]

    result = apf("replay", "--strict", *files)

    assert result.returncode == 0
    assert result.stdout.splitlines() == [f"{path}: ok" for path in files]


def test_collisions_are_told_as_text_and_as_json(apf: Apf) -> None:
    text = apf("collisions", "--queues", "64", "--hand", "6", "--elephants", "4")
    rows = json.loads(apf("collisions", "--queues", "64", "--hand", "6", "--elephants", "4", "-o", "json").stdout)

    assert "64 queues, hands of 6, 36 bits of entropy" in text.stdout
    assert "4  0.000747" in text.stdout
    assert [row["elephants"] for row in rows] == [1, 2, 3, 4]
    assert rows[3]["covered"] == pytest.approx(7.47e-4, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("collisions", "--queues", "4", "--hand", "5"), "a hand can't exceed"),
        (("collisions", "--elephants", "0"), "it must be at least 1"),
        (("collisions", "-o", "xml"), "is not one of"),
        (("collisions", "--queues", "many"), "Invalid value for '--queues'"),
        (("replay",), "Missing argument"),
        (("fly",), "No such command"),
    ],
)
def test_wrong_arguments_are_told_and_end_with_status_2(apf: Apf, arguments: tuple[str, ...], said: str) -> None:
    result = apf(*arguments)

    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_the_version_is_told(apf: Apf) -> None:
    assert apf("--version").stdout == f"apf {__version__}\n"


def test_help_lists_the_commands(apf: Apf) -> None:
    result = apf("--help")

    assert result.returncode == 0
    assert "replay" in result.stdout
    assert "collisions" in result.stdout


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_extra_the_command_says_how_to_get_it(package: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; from apf_middleware.cli import main; main()"

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert result.returncode == 1
    assert "pip install 'apf-middleware[cli]'" in result.stderr
    assert "Traceback" not in result.stderr
