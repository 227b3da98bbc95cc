"""``apf check``: the errors and warnings of a configuration, and the seats of its levels."""

from pathlib import Path
from typing import Annotated, Final

import typer

from apf_middleware.cli.output import Output, OutputOption, Paths, align, require_paths, show_json, tell
from apf_middleware.config import Configuration, Reading, Severity, read
from apf_middleware.config.build import derive_limits
from apf_middleware.config.suggested import NewerDefaults, newer_defaults
from apf_middleware.wording import plural

__all__ = ["check"]

_ERRORS: Final = 1
_MOST_LEVELS: Final = 40  # in the table
_STYLES: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


def check(
    paths: Paths,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    skip_foreign: Annotated[
        bool, typer.Option("--skip-foreign", help="Don't warn of objects that belong to other APIs.")
    ] = False,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Accept files that define nothing.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Check configuration files, and show the seats of the levels and all problems with file, line and field.

    Exit status 0 if the configuration can be used, 1 if there are errors, 2 if there is nothing to check.
    """
    require_paths(paths)
    reading = read(paths, skip_foreign=skip_foreign, allow_empty=allow_empty)
    failed = bool(reading.errors or (strict and reading.warnings))
    if output is Output.JSON:
        show_json(_as_document(reading, failed=failed))
    else:
        _print(reading, paths)
    raise typer.Exit(_ERRORS if failed else 0)


def _as_document(reading: Reading, *, failed: bool) -> dict[str, object]:
    configuration = reading.configuration
    newer = None if configuration is None else _newer(configuration)
    return {
        "ok": not failed,
        "levels": sorted(configuration.levels) if configuration else [],
        "schemas": [schema.name for schema in configuration.schemas] if configuration else [],
        "seats": _seats(configuration) if configuration else {},
        "problems": [problem.as_dict() for problem in reading.problems],
        "newerDefaults": None if newer is None else newer._asdict(),
    }


def _seats(configuration: Configuration) -> dict[str, dict[str, int]]:
    """Return nominal and min seats of each level."""
    limits = derive_limits(configuration)
    return {name: {"nominal": one.nominal, "min": one.min} for name, one in sorted(limits.items())}


def _newer(configuration: Configuration) -> NewerDefaults | None:
    return newer_defaults(configuration.server.defaults, configuration.server.defaults_version)


def _print_seats(configuration: Configuration) -> None:
    """Print the seats of the levels, the suggested ones among them, because all levels share the server's seats."""
    server, seats = configuration.server, _seats(configuration)
    levels = sorted(configuration.levels.values(), key=lambda one: (one.exempt, -seats[one.name]["nominal"], one.name))
    total = f"of {plural(server.total, 'seat')}{'' if server.seat_bounds is None else ' at first'}"
    rows = [(total, "nominal", "min")]
    for level in levels[:_MOST_LEVELS]:
        name = level.name if level.parent is None else f"{level.name} (of {level.parent})"
        nominal, least = map(str, seats[level.name].values())
        rows.append((name, "exempt", "") if level.exempt else (name, nominal, least))
    for number, line in enumerate(align(rows, {total})):
        tell(line, "" if number else "dim")
    if len(levels) > _MOST_LEVELS:
        tell(f"and {plural(len(levels) - _MOST_LEVELS, 'more level')}; --output json has all of them", "dim")


def _print(reading: Reading, paths: list[Path]) -> None:
    if reading.configuration is not None:
        _print_seats(reading.configuration)
    for problem in reading.problems:
        tell(problem, _STYLES[problem.severity])
    counted = f"{plural(len(reading.errors), 'error')}, {plural(len(reading.warnings), 'warning')}"
    if reading.configuration is None:
        tell(f"{' '.join(map(str, paths))}: {counted}", "bold red")
        return
    levels, schemas = len(reading.configuration.levels), len(reading.configuration.schemas)
    style = "bold yellow" if reading.warnings else "bold green"
    tell(f"{plural(levels, 'level')}, {plural(schemas, 'schema')}: {counted}", style)
    newer = _newer(reading.configuration)
    if newer is not None:
        changes = ", ".join(newer.changes)
        tell(f"{reading.configuration.server.defaults} has defaultsVersion: {newer.version}, which changes: {changes}")
