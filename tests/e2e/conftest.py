"""``apf`` as a person runs it: a process with arguments, output and an exit status."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Apf = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parents[2]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def apf() -> Apf:
    """Return the path of the installed command."""
    return lambda *arguments: run([str(Path(sys.executable).parent / "apf"), *map(str, arguments)])
