"""Paths that commands are given, and where they write."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import Outcome
from tests.support.command_line import invoke as apf

Apf = Callable[..., Outcome]


@pytest.mark.parametrize("command", ["check", "convert"])
def test_missing_files_are_reported(apf: Apf, command: str) -> None:
    result = apf(command, "/does/not/exist.yaml")

    assert result.returncode == 2
    assert "there is no /does/not/exist.yaml" in result.stderr


@pytest.mark.parametrize(
    "command",
    [("check", ""), ("convert", ""), ("explain", "", "GET", "/"), ("simulate", ""), ("queue", "diff", "")],
    ids=lambda command: command[0],
)
def test_an_empty_path_is_not_the_current_folder(command: tuple[str, ...]) -> None:
    result = apf(*command, APF_RUNTIME_DIR="/nonexistent")

    assert result.exit_code == 2
    assert "a path must not be empty" in result.stderr


def test_a_binary_file_is_reported_without_a_traceback(apf: Apf, tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(bytes(range(256)))

    result = apf("check", path)

    assert result.returncode == 1
    assert "Traceback" not in result.stdout + result.stderr


def test_an_unwritable_output_is_refused_before_the_simulation(scenario: Path, trace: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"

    for command in (
        ("simulate", scenario, "--plot", nowhere / "p.png"),
        ("recommend", trace, "--objective", "p99=1s", "--write", nowhere / "r.yaml"),
    ):
        result = apf(*command)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "there is no folder" in result.stderr
    result = apf("recommend", trace, "--objective", "p99=1s", "--write", tmp_path)
    assert (result.exit_code, "is a folder" in result.stderr) == (2, True)
