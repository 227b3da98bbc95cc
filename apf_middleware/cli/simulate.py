"""``apf simulate``: the results of a configuration for given arrivals, in virtual time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from apf_middleware.cli.curves import print_curves
from apf_middleware.cli.output import (
    Output,
    OutputOption,
    is_there,
    parse_path,
    require_folder,
    require_paths,
    show_json,
    tell,
)
from apf_middleware.cli.simulations import (
    UNUSABLE,
    fail,
    read_recording,
    warn_of_omissions,
    with_progress,
    with_workers,
)
from apf_middleware.cli.tables import print_layouts, print_levels, print_members, print_tenants
from apf_middleware.config import Configuration, ConfigurationError, Severity
from apf_middleware.config.scenario import Scenario, read_scenario
from apf_middleware.exceptions import InvalidValueError, MissingExtraError, TraceFormatError
from apf_middleware.simulation import VARIANTS, Result, variant
from apf_middleware.simulation.backend import with_backend_of
from apf_middleware.simulation.compare import describe_changes
from apf_middleware.simulation.fleet import LAYOUTS, layout
from apf_middleware.simulation.fleet.comparison import compare_layouts
from apf_middleware.simulation.plots import plot as draw
from apf_middleware.simulation.plots import require_plots
from apf_middleware.simulation.recording import By
from apf_middleware.simulation.trace import RequestTrace
from apf_middleware.wording import plural

__all__ = ["simulate"]

_Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATHS", help="Files, directories or globs of YAML or JSON.", parser=parse_path, show_default=False
    ),
]


def simulate(
    paths: _Paths = None,
    *,
    trace: Annotated[Path | None, typer.Option(help="Recorded requests: JSON lines or an access log.")] = None,
    by: Annotated[By, typer.Option(help="The field by which the rows of a trace are listed.")] = "user",
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(help=f"Two configurations for the same arrivals: files, or {', '.join(VARIANTS)}.", metavar="A B"),
    ] = None,
    compare_fleet: Annotated[
        bool, typer.Option("--compare-fleet", help="Compare the members with one big server, and with equal parts.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw into a file: .png, .svg or .pdf.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="A seed to use instead of the scenario's.")] = None,
    curves: Annotated[bool, typer.Option(help="Draw curves in the terminal.")] = True,
    output: OutputOption = Output.TEXT,
) -> None:
    """Simulate a scenario, or recorded requests with --trace, with the code that runs in production.

    PATHS are a scenario and its configuration, in one file or several. With --trace they may be omitted; then the
    default configuration is simulated. Exit status 2 if they can't be used.
    """
    together = not compare_fleet and "own" in (compare or ("own",))
    scenario, configuration = _read(paths or [], trace, together=together)
    if seed is not None:
        scenario = replace(scenario, seed=seed)
    try:
        if plot is not None:
            require_folder("plot", plot)
            require_plots(plot)
        recording = None if trace is None else read_recording(RequestTrace(trace), configuration, by)
        scenario = scenario if recording is None else with_workers(scenario, configuration, recording)
        wanted = list(_wanted(scenario, configuration, compare, fleet=compare_fleet))
        warn_of_omissions(one for _, _, one in wanted)
        _tell_backend(scenario, configuration, [one for _, _, one in wanted] if compare else ())
        results = [with_progress(played, one, name, recording) for name, played, one in wanted]
        if plot is not None:
            draw(results, plot)
    except (TraceFormatError, ConfigurationError, InvalidValueError, MissingExtraError, OSError) as error:
        fail("simulate", error)
    if output is Output.JSON:
        documents = [result.as_dict() for result in results]
        show_json(documents[0] if len(documents) == 1 else documents)
        return
    _print(scenario, results, curves=curves)


def _wanted(
    scenario: Scenario, configuration: Configuration, compare: tuple[str, str] | None, *, fleet: bool
) -> Iterator[tuple[str, Scenario, Configuration]]:
    """Yield the name, the scenario and the configuration of each simulation."""
    if fleet and compare is not None:
        raise typer.BadParameter("it can't be combined with --compare", param_hint="--compare-fleet")
    if fleet:
        for name in LAYOUTS:
            yield name, *layout(name, scenario, configuration)
    elif compare is None:
        yield "own", scenario, configuration
    else:
        same = with_backend_of(configuration, scenario)
        for name in compare:
            yield name, same, _chosen_configuration(name, configuration)


def _tell_backend(scenario: Scenario, own: Configuration, compared: Iterable[Configuration]) -> None:
    """Say which backend all of them have, if one would have another in a simulation of its own."""
    if scenario.backend.places is None and any(one.server.seats != own.server.seats for one in compared):
        typer.secho(
            "the numbers of seats differ: all sides have the backend of own, which serves"
            f" {plural(own.server.total, 'request')} at once at full speed (backend.places in the scenario sets another"
            " number)",
            err=True,
            fg="yellow",
        )


def _print(scenario: Scenario, results: Sequence[Result], *, curves: bool) -> None:
    if scenario.about:
        tell(scenario.about)
    for result in results:
        print_tenants(result)
        print_levels(result)
        print_members(result)
        if curves:
            print_curves(result)
    if len(results) == len(LAYOUTS):
        print_layouts(compare_layouts(results))
    if len(results) == 2:
        tell(f"From {results[0].configuration} to {results[1].configuration}:", "bold")
        for line in describe_changes(*results):
            tell(f"  {line}")


def _read(paths: list[Path], trace: Path | None, *, together: bool) -> tuple[Scenario, Configuration]:
    if not paths and trace is None:
        raise typer.BadParameter("there must be a scenario, or recorded requests with --trace", param_hint="PATHS")
    require_paths(paths)
    reading = read_scenario(paths, wanted=trace is None, together=together)
    for problem in reading.problems:
        typer.secho(problem, err=True, fg="red" if problem.severity is Severity.ERROR else "yellow")
    if reading.scenario is None or reading.configuration is None:
        raise typer.Exit(UNUSABLE)
    scenario = reading.scenario
    if trace is not None and not scenario.tenants:
        scenario = replace(scenario, name=trace.name)
    return scenario, reading.configuration


def _chosen_configuration(name: str, configuration: Configuration) -> Configuration:
    """Return a variant of the scenario's configuration, or that in a file, without the scenario in the file."""
    if name in VARIANTS:
        return variant(name, configuration)
    if not is_there(Path(name), "--compare"):
        raise typer.BadParameter(f"{name!r} must be a file or one of {', '.join(VARIANTS)}", param_hint="--compare")
    return read_scenario([name], wanted=False).unwrap()[1]
