"""``apf replay``: run recorded traces through a queue set and compare the results with the recorded ones."""

from pathlib import Path
from typing import Annotated

import typer

from apf_middleware.cli.output import is_there, tell
from apf_middleware.exceptions import TraceFormatError
from apf_middleware.testing import replay as run
from apf_middleware.testing.trace import load, store

__all__ = ["replay"]

_DIFFERS = 1
_UNUSABLE = 2


def replay(
    files: Annotated[list[Path], typer.Argument(help="Traces, plain or compressed with gzip.", show_default=False)],
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Reproduce upstream's known defects too.")] = False,
    write: Annotated[
        Path | None,
        typer.Option(help="Write traces with the results of this run: to a file, or for several traces to a folder."),
    ] = None,
) -> None:
    """Run traces through a queue set, and compare each row with the results that the file has.

    For each file, print "ok" or the first row that differs. Exit status 1 if any differs, 2 if one can't be used.
    """
    if write is not None and len(files) > 1 and not (is_there(write, "--write") and write.is_dir()):
        raise typer.BadParameter(f"{write} is not a folder, and there are {len(files)} traces", param_hint="--write")
    status = max(_replay_one(file, strict=strict, write=write) for file in files)
    raise typer.Exit(status)


def _replay_one(file: Path, *, strict: bool, write: Path | None) -> int:
    try:
        result = run(load(file), strict_upstream=strict)
        difference = result.first_difference()
        if write is not None:
            store(write / file.name if write.is_dir() else write, result.document())
    except (TraceFormatError, OSError) as error:
        typer.echo(f"apf replay: {error}", err=True)
        return _UNUSABLE
    if difference is not None:
        tell(f"{file}: {difference}", "red")
        return _DIFFERS
    tell(f"{file}: ok" if result.trace.columns else f"{file}: ran, and has no results to compare with", "green")
    return 0
