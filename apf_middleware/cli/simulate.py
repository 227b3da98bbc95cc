"""``apf simulate``: the results of a configuration for given arrivals, in virtual time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

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
from apf_middleware.cli.tables import print_layouts, print_levels, print_members, print_tenants
from apf_middleware.config import Configuration, ConfigurationError, Severity
from apf_middleware.config.scenario import Scenario, ScenarioMembers, read_scenario
from apf_middleware.exceptions import InvalidValueError, MissingExtraError, TraceFormatError
from apf_middleware.simulation import VARIANTS, Result, variant
from apf_middleware.simulation import simulate as run
from apf_middleware.simulation.backend import with_backend_of
from apf_middleware.simulation.compare import describe_changes
from apf_middleware.simulation.fleet import LAYOUTS, layout
from apf_middleware.simulation.fleet.comparison import compare_layouts
from apf_middleware.simulation.plots import plot as draw
from apf_middleware.simulation.plots import require_plots
from apf_middleware.simulation.recording import Recording
from apf_middleware.simulation.trace import RequestTrace, TraceSurvey

__all__ = [
    "Listing",
    "chosen_configuration",
    "fail",
    "read_recording",
    "simulate",
    "warn_of_omissions",
    "with_progress",
    "with_workers",
]

_UNUSABLE: Final = 2

_Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATHS", help="Files, directories or globs of YAML or JSON.", parser=parse_path, show_default=False
    ),
]


class Listing(StrEnum):
    """The fields by which the rows of a trace can be listed."""

    USER = "user"
    ADDRESS = "address"
    PATH = "path"
    FLOW = "flow"


def simulate(
    paths: _Paths = None,
    *,
    trace: Annotated[Path | None, typer.Option(help="Recorded requests: JSON lines or an access log.")] = None,
    by: Annotated[Listing, typer.Option(help="The field by which the rows of a trace are listed.")] = Listing.USER,
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
        recording = None if trace is None else read_recording(RequestTrace(trace), by)
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
            yield name, same, chosen_configuration(name, configuration)


def _tell_backend(scenario: Scenario, own: Configuration, compared: Iterable[Configuration]) -> None:
    """Say which backend all of them have, if one would have another in a simulation of its own."""
    if scenario.backend.places is None and any(one.server.seats != own.server.seats for one in compared):
        typer.secho(
            f"the numbers of seats differ: all sides have the backend of own, which serves {own.server.total} requests"
            " at once at full speed (backend.places in the scenario sets another number)",
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
        raise typer.Exit(_UNUSABLE)
    scenario = reading.scenario
    if trace is not None and not scenario.tenants:
        scenario = replace(scenario, name=trace.name)
    return scenario, reading.configuration


def read_recording(trace: RequestTrace, by: Listing = Listing.USER) -> Recording:
    """Return recorded requests, and say what is wrong with them and what their sample means."""
    survey = trace.survey()
    for one in _limits_of(survey):
        typer.secho(f"{trace.path}: {one}", err=True, fg="yellow")
    return Recording(trace, survey, by.value)


def _limits_of(survey: TraceSurvey) -> Iterator[str]:
    header, footer = survey.header, survey.footer
    if survey.unreadable:
        yield f"lines that can't be read or are about something else are left out: {survey.unreadable:,}"
    stray_ns = survey.times.stray_ns
    if stray_ns is not None:
        yield (
            f"{survey.span_ns / 1e9:,.0f} s are simulated because of a request at the time {stray_ns / 1e9:,.0f} s, far"
            " from all others; correct its time or remove it"
        )
    if survey.has_lost_header:
        least = f"is at least {survey.last_worker + 1}" if survey.last_worker else "isn't known"
        yield (
            f"the recording has lost its first line, so the number of its processes {least}: one server is simulated,"
            " unless a scenario has servers or members"
        )
    if survey.unmeasured and not survey.durations.is_empty:
        yield (
            f"{survey.unmeasured:,} requests have no duration, so each takes as long as another one; remove lines that"
            " aren't requests"
        )
    if survey.is_cut_off:
        yield "the recording has no end, because it was cut off; what is there is used"
    if footer is not None and footer.lost:
        yield f"{footer.lost:,} requests were lost during the recording, so there was more load than is simulated"
    if footer is not None and footer.reason == "incomplete":
        yield "a worker went away during the recording, so its later requests are missing"
    if footer is not None and not footer.is_settled:
        yield "the configuration or the mode has changed during the recording"
    if header is not None and header.sample < 1:
        part = f"{100 * header.sample:g} %"
        yield (
            f"only {part} of the flows were recorded, each of them whole: with all seats there is too little load, so "
            f"simulate with {part} of the seats; a level needs {1 / header.sample:g} times what is found here"
        )


def with_workers(scenario: Scenario, configuration: Configuration, recording: Recording) -> Scenario:
    """Return the scenario with a server for each process of the recording, unless it says how many there are.

    If the configuration has a fleet, they are its members.
    """
    header = recording.survey.header
    if header is None or header.workers < 2 or scenario.servers > 1 or scenario.members is not None:
        return scenario
    if configuration.server.fleet is not None:
        return replace(scenario, members=ScenarioMembers(header.workers))
    return replace(scenario, servers=header.workers)


def chosen_configuration(name: str, configuration: Configuration) -> Configuration:
    """Return a variant of the scenario's configuration, or that in a file, without the scenario in the file."""
    if name in VARIANTS:
        return variant(name, configuration)
    if not is_there(Path(name), "--compare"):
        raise typer.BadParameter(f"{name!r} must be a file or one of {', '.join(VARIANTS)}", param_hint="--compare")
    return read_scenario([name], wanted=False).unwrap()[1]


def warn_of_omissions(configurations: Iterable[Configuration]) -> None:
    """Warn of what is not simulated: how long a dependency keeps requests waiting, and how late an event loop is."""
    gates, elastic = set[str](), set[str]()
    for one in configurations:
        gates.update(name for _, names in one.gates_by_owner() for name in names)
        elastic |= one.elastic_levels
    said = {"gates aren't simulated, all requests pass them": gates, "elastic levels keep their seats": elastic}
    for left_out, names in said.items():
        if names:
            typer.secho(f"{left_out}: {', '.join(sorted(names))}", err=True, fg="yellow")


def with_progress(
    scenario: Scenario, configuration: Configuration, name: str, recording: Recording | None = None
) -> Result:
    """Run a simulation, and show its progress on a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[asked]:,} requests"))
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(name, total=1.0, asked=0)

        def show(part: float, asked: int) -> None:
            progress.update(task, completed=part, asked=asked)

        return run(scenario, configuration, name=name, recording=recording, on_progress=show)


def fail(command: str, error: Exception) -> NoReturn:
    """End the command with status 2 and the error."""
    typer.echo(f"apf {command}: {error}", err=True)
    raise typer.Exit(_UNUSABLE)
