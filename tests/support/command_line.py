"""The command ``apf``: in this process, which takes a tenth of the time, or as a process of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from typer.testing import CliRunner

from apf_middleware.cli.app import app

__all__ = ["Outcome", "run_apf", "run_installed"]

_ROOT: Final = Path(__file__).parents[2]


class Outcome(NamedTuple):
    """The exit status of a command, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def run_apf(*arguments: object, **environment: str | None) -> Outcome:
    """Run ``apf`` in this process; a variable that is None is unset."""
    variables = {"COLUMNS": "200", **environment}
    result = CliRunner().invoke(app, list(map(str, arguments)), env=variables, prog_name="apf")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


def run_installed(*arguments: object, as_module: bool = False, **environment: str) -> Outcome:
    """Run the installed command, or the package with ``python -m``, as a person does."""
    command = [str(Path(sys.executable).parent / "apf")]
    if as_module:
        command = [sys.executable, "-m", "apf_middleware"]
    result = subprocess.run(
        [*command, *map(str, arguments)],
        cwd=_ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return Outcome(result.returncode, result.stdout, result.stderr)
