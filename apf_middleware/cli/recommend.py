"""``apf recommend``: seats, shares and queues for recorded traffic and a latency objective, with the evidence."""

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from apf_middleware.cli.output import Output, OutputOption, parse_path, require_folder, show_json, tell
from apf_middleware.cli.simulations import (
    fail,
    read_recording,
    warn_of_omissions,
    with_progress,
    with_workers,
)
from apf_middleware.cli.tables import in_ms, in_percent, print_table
from apf_middleware.config import Configuration, ConfigurationError, emit, load
from apf_middleware.config.scenario import Backend, Scenario
from apf_middleware.exceptions import InvalidValueError, MissingExtraError, TraceFormatError, reason_of
from apf_middleware.simulation.compare import describe_changes
from apf_middleware.simulation.recommend import Objective, Recommendation, Run
from apf_middleware.simulation.recommend import recommend as search
from apf_middleware.simulation.recording import Recording
from apf_middleware.simulation.trace import RequestTrace, TraceSurvey
from apf_middleware.wording import figure, plural

__all__ = ["recommend"]

_MISSED: Final = 1
_UNLIMITED: Final = 10_000_000
_OBJECTIVE: Final = re.compile(r"(p\d+)=(\d+(?:\.\d+)?)(ms|s)", re.ASCII)
_HEAVY: Final = 0.1
_MOST_HEAVY: Final = 16
_HEADER: Final = ("worst level", "latency", "rejected", "in use", "objective")


def recommend(
    trace: Annotated[Path, typer.Argument(help="Recorded requests: JSON lines or an access log.")],
    *,
    objective: Annotated[str, typer.Option(help="A quantile and its limit, like p99=200ms.")],
    config: Annotated[
        list[Path] | None,
        typer.Option(help="The present configuration; may be repeated.", parser=parse_path, metavar="PATH"),
    ] = None,
    rejected: Annotated[
        float, typer.Option(min=0, max=1, help="The part of the requests that may be rejected.")
    ] = 0.001,
    places: Annotated[
        int | None, typer.Option(min=1, help="The requests that a server's backend serves at once at full speed.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Take no more rows than this.")] = 200_000,
    write: Annotated[Path | None, typer.Option(help="Write the proposed configuration.")] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Propose seats, shares and queue settings for recorded requests, and show the trials.

    Exit status 1 if the objective can't be met, 2 if trace, configuration or the file to write can't be used.
    """
    try:
        wanted = _objective(objective, rejected)
        if write is not None:
            require_folder("write", write)
        given = load(*config or ())
        warn_of_omissions((given,))
        recording = read_recording(RequestTrace(trace, rows), given)
        survey = recording.survey
        found = _search(recording, given, wanted, places)
    except (TraceFormatError, ConfigurationError, InvalidValueError, MissingExtraError, OSError) as error:
        fail("recommend", error)
    if output is Output.JSON:
        show_json(_as_document(found, survey))
    else:
        _print(found, survey, wanted, write)
    if write is not None:
        _write(write, found.configuration)
    raise typer.Exit(0 if found.meets else _MISSED)


def _write(path: Path, configuration: Configuration) -> None:
    try:
        path.write_text(emit(configuration, "apf"), encoding="utf-8")
    except OSError as error:
        fail("recommend", f"{path} can't be written: {reason_of(error)}")


def _objective(text: str, rejected: float) -> Objective:
    found = _OBJECTIVE.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} isn't like p99=200ms", param_hint="--objective")
    return Objective(found[1], float(found[2]) * (1000 if found[3] == "s" else 1), rejected)


def _search(
    recording: Recording, configuration: Configuration, objective: Objective, places: int | None
) -> Recommendation:
    alone = with_workers(Scenario(recording.trace.path.name), configuration, recording)

    def runner(places: int) -> Run:
        scenario = replace(alone, backend=Backend(places=places))
        return lambda one, name: with_progress(scenario, one, name, recording)

    run, run_free = runner(places or _UNLIMITED), runner(_UNLIMITED)
    heavy = _heavy(recording.survey)
    processes = alone.servers if alone.members is None else alone.members.count
    return search(configuration, objective, run, run_free=run_free, heavy=heavy, most_seats=places, processes=processes)


def _heavy(survey: TraceSurvey) -> int:
    """Return how many flows have a tenth of the requests or more; at least 1, because a heavy one may come.

    Only recordings know flows; otherwise they may be users or addresses, and the larger number is taken.
    """
    listings = [survey.counts[by].values() for by in ("user", "address", "flow")]
    heavy = max(sum(count >= _HEAVY * survey.rows for count in counts) for counts in listings)
    return max(1, min(_MOST_HEAVY, heavy))


def _print(found: Recommendation, survey: TraceSurvey, objective: Objective, write: Path | None) -> None:
    span = survey.span_ns / 1e9
    tell(f"{plural(survey.rows, 'request')} in {span:,.0f} s, {figure(survey.busy)} at once on average", "bold")
    tell(f"Objective: {objective}")
    for reason in found.reasons:
        tell(f"- {reason}")
    per = "" if found.servers == 1 else " per process"
    print_table(
        ("tried", f"seats{per}", *_HEADER),
        [
            (
                trial.tried,
                str(trial.seats) if trial.seats else "any",
                trial.worst_level,
                in_ms(trial.worst_ms),
                in_percent(trial.rejected),
                in_percent(trial.used),
                "met" if trial.meets else "close" if trial.comes_close else "missed",
            )
            for trial in found.trials
        ],
    )
    for line in describe_changes(found.before, found.after)[:-1]:  # the last line needs the backend's capacity
        tell(line)
    near = ", but only because requests themselves take too long" if found.comes_close else ""
    verdict = "the objective is met." if found.meets else f"the objective is missed{near}."
    tell(
        f"{plural(found.configuration.server.total, 'seat')}{per}: {verdict}",
        "bold green" if found.meets else "bold red",
    )
    if write is None:
        tell("--write FILE writes the configuration.")


def _as_document(found: Recommendation, survey: TraceSurvey) -> dict[str, Any]:
    return {
        "requests": survey.rows,
        "busy": round(survey.busy, 3),
        "meets": found.meets,
        "seats": found.configuration.server.total,
        "servers": found.servers,
        "shares": {name: level.shares.shares for name, level in found.configuration.levels.items()},
        "reasons": list(found.reasons),
        "trials": [asdict(trial) for trial in found.trials],
        "configuration": emit(found.configuration, "apf"),
    }
