"""The command ``apf`` as an installed process."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import Outcome
from tests.support.recorded_trace import write_recorded_trace

Apf = Callable[..., Outcome]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Write a trace with its results."""
    return write_recorded_trace(tmp_path / "recorded.json.gz")


def test_a_trace_that_agrees_is_ok(installed: Apf, recorded: Path) -> None:
    result = installed("replay", recorded)

    assert (result.stdout, result.stderr, result.returncode) == (f"{recorded}: ok\n", "", 0)


def test_an_invalid_trace_is_reported_and_the_others_are_replayed(installed: Apf, recorded: Path) -> None:
    result = installed("replay", "README.md", recorded, "/does/not/exist.json")

    assert result.returncode == 2
    assert result.stdout == f"{recorded}: ok\n"
    assert "README.md: it isn't JSON" in result.stderr
    assert "/does/not/exist.json: it can't be read" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", [("schema",), ("collisions",), ("check", "examples/config/shop.yaml"), ("--help",)])
def test_a_full_disk_ends_with_one_line(command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "apf_middleware", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )

    assert result.returncode == 1
    assert result.stderr == "apf: the output can't be written: no space left on device\n"
