"""What ``apf simulate`` and ``apf recommend`` share: recorded requests, warnings, and simulations with progress."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NoReturn

import typer

from apf_middleware.cli.progress import show_progress
from apf_middleware.config import Configuration
from apf_middleware.config.scenario import Scenario, ScenarioMembers
from apf_middleware.simulation import Result, simulate
from apf_middleware.simulation.recording import By, Recording
from apf_middleware.simulation.trace import RequestTrace, TraceSurvey
from apf_middleware.wording import plural

__all__ = ["UNUSABLE", "fail", "read_recording", "warn_of_omissions", "with_progress", "with_workers"]

UNUSABLE: Final = 2
"""The exit status if files or arguments can't be used."""


def read_recording(trace: RequestTrace, configuration: Configuration, by: By = "user") -> Recording:
    """Return recorded requests, and say what is wrong with them and what their sample means.

    They may have been recorded under the ``configuration``.
    """
    survey = trace.survey()
    for one in _limits_of(survey):
        typer.secho(f"{trace.path}: {one}", err=True, fg="yellow")
    return Recording(trace, survey, by, configuration)


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
            f"{plural(survey.unmeasured, 'request')} without a duration: each takes as long as another one; remove"
            " lines that aren't requests"
        )
    if survey.is_cut_off:
        yield "the recording has no end, because it was cut off; what is there is used"
    if footer is not None and footer.lost:
        yield f"lost during the recording: {plural(footer.lost, 'request')}, so there was more load than is simulated"
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


def warn_of_omissions(configurations: Iterable[Configuration]) -> None:
    """Warn of what is not simulated: how long a dependency keeps requests waiting, and how late an event loop is."""
    gates, elastic = set[str](), set[str]()
    for one in configurations:
        gates |= one.named_gates
        elastic |= one.elastic_levels
    said = {"gates aren't simulated, all requests pass them": gates, "elastic levels keep their seats": elastic}
    for left_out, names in said.items():
        if names:
            typer.secho(f"{left_out}: {', '.join(sorted(names))}", err=True, fg="yellow")


def with_progress(scenario: Scenario, configuration: Configuration, name: str, recording: Recording | None) -> Result:
    """Run a simulation, and show its progress on a terminal."""
    with show_progress(name, 1.0) as show:
        return simulate(scenario, configuration, name=name, recording=recording, on_progress=show)


def fail(command: str, error: object) -> NoReturn:
    """End the command with status 2 and the error."""
    typer.echo(f"apf {command}: {error}", err=True)
    raise typer.Exit(UNUSABLE)
