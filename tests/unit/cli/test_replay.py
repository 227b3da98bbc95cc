"""The command ``apf replay``."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from apf_middleware.testing import replay
from apf_middleware.testing.trace import parse, store
from tests.support.command_line import Outcome
from tests.support.golden import golden_files, needs_golden

Apf = Callable[..., Outcome]


def test_a_trace_that_differs_is_reported_and_fails(apf: Apf, recorded: Path, tmp_path: Path) -> None:
    document = replay(parse(json.loads(subprocess.check_output(["gzip", "-cd", str(recorded)])))).document()  # noqa: S607
    document["results"]["rows"][3][1] = 99
    store(tmp_path / "other.json", document)

    result = apf("replay", recorded, tmp_path / "other.json")

    assert result.returncode == 1
    first, second = result.stdout.splitlines()
    assert first.endswith(": ok")
    assert "row of id 3, queue: expected 99, got" in second


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
