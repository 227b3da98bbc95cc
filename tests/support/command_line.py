"""The command ``apf``: in this process, which takes a tenth of the time, or as a process of its own."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import typer.testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from apf_middleware.cli.app import app

__all__ = ["Outcome", "invoke", "run_apf", "run_installed"]

_ROOT: Final = Path(__file__).parents[2]

# The runner builds all commands anew for each invocation, which takes 20 ms of the 22 that a short one takes.
setattr(typer.testing, "_get_command", cache(get_command))  # noqa: B010 - the name is not public


class Outcome(NamedTuple):
    """The exit status of a command, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def invoke(*arguments: object, **environment: str | None) -> Result:
    """Run ``apf`` in this process and return all that is known of the run; a variable that is None is unset."""
    return CliRunner().invoke(app, list(map(str, arguments)), env=environment, prog_name="apf")


def run_apf(*arguments: object, **environment: str | None) -> Outcome:
    """Run ``apf`` in this process; a variable that is None is unset."""
    result = invoke(*arguments, **{"COLUMNS": "200", **environment})
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
