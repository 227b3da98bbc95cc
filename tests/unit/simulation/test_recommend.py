"""What is proposed for a trace and an objective, and why."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from apf_middleware.config import Configuration, emit, load_text, read_source
from apf_middleware.config.scenario import Backend, Scenario, ScenarioMembers
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.simulation import Result, simulate
from apf_middleware.simulation.recommend import Objective, Recommendation, recommend
from apf_middleware.simulation.recording import Recording
from apf_middleware.simulation.results import LevelResult
from apf_middleware.simulation.trace import RequestTrace

Run = Callable[[Configuration, str], Result]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Run]:
    """Before a backend of so many places come 100 requests a second of 50 ms, three in four of users: five are busy."""
    dice = random.Random(1)
    path = tmp_path_factory.mktemp("trace") / "t.jsonl"
    at = 0.0
    with path.open("w") as file:
        for number in range(1_200):
            at += dice.expovariate(100)
            user = f"user-{number % 7}" if dice.random() < 0.75 else ""
            file.write(json.dumps({"time": at, "duration": 0.05, "user": user, "clientAddress": "10.0.0.1"}) + "\n")
    trace = RequestTrace(path)
    recording = Recording(trace, trace.survey())

    def runner(places: int) -> Run:
        scenario = Scenario(backend=Backend(places=places))
        return lambda configuration, name: simulate(scenario, configuration, name=name, recording=recording)

    return runner


@pytest.fixture(scope="module")
def run(before: Callable[[int], Run]) -> Run:
    return before(10**6)


WEB = load_text("", defaults="web")


@pytest.fixture(scope="module")
def p99_within_150_ms(run: Run) -> Recommendation:
    return recommend(WEB, Objective("p99", 150.0), run)


@pytest.fixture(scope="module")
def p90_within_200_ms(run: Run) -> Recommendation:
    return recommend(WEB, Objective("p90", 200.0), run, heavy=4)


def test_the_fewest_seats_are_found_that_meet_the_objective(p99_within_150_ms: Recommendation) -> None:
    found = p99_within_150_ms

    seats = found.configuration.server.total
    assert (found.meets, found.comes_close) == (True, True)
    assert 5 <= seats <= 12
    tried = {trial.seats: trial.meets for trial in found.trials if trial.tried == "bisection"}
    assert tried[seats]
    assert not tried[seats - 1], "one less misses it"
    assert found.trials[0].tried == "as it is"
    assert found.trials[-1].worst_ms is not None
    assert found.trials[-1].worst_ms <= 150
    shares = {name: level.shares.shares for name, level in found.configuration.levels.items()}
    assert shares["users"] > 1.5 * shares["anonymous"] > 10 * shares["catch-all"]
    assert sum("but not with fewer" in reason for reason in found.reasons) == 1


def test_a_recommended_configuration_can_be_written_and_read(p90_within_200_ms: Recommendation) -> None:
    found = p90_within_200_ms

    again = load_text(emit(found.configuration, "apf"))
    assert again.server.total == found.configuration.server.total
    assert again.levels["users"] == found.configuration.levels["users"]


def test_exact_queues_stay_exact(p90_within_200_ms: Recommendation) -> None:
    found = p90_within_200_ms

    before, after = WEB.levels["users"].queuing, found.configuration.levels["users"].queuing
    assert before is not None
    assert after is not None
    assert before.exact
    assert after == replace(before, queue_length_limit=after.queue_length_limit)
    assert any(reason.startswith("users: a queue for each flow as before, queues of ") for reason in found.reasons)
    assert not any("hands of" in reason for reason in found.reasons)


def test_the_recommended_deck_makes_collisions_rare(run: Run) -> None:
    sharded = load_text(
        "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: users}\n"
        "spec: {shares: 50, queuing: {queues: 8, handSize: 2, backfill: 3}}\n",
        defaults="web",
    )
    found = recommend(sharded, Objective("p90", 300.0), run, heavy=4)

    queuing = found.configuration.levels["users"].queuing
    assert queuing is not None
    assert (queuing.queues, queuing.hand_size) == (64, 6), "four heavy flows cover a light one once in hundreds"
    assert (queuing.exact, queuing.backfill) == (0, 3)
    assert sum("64 queues and hands of 6" in reason for reason in found.reasons) == 1


def test_a_tighter_objective_takes_more_seats(run: Run, p99_within_150_ms: Recommendation) -> None:
    tight = recommend(WEB, Objective("p99", 75.0), run)

    assert tight.configuration.server.total > p99_within_150_ms.configuration.server.total


def test_an_objective_below_the_service_time_is_raised(run: Run) -> None:
    found = recommend(WEB, Objective("p50", 20.0), run)

    assert (found.meets, found.comes_close) == (False, True)
    assert all(trial.meets == (trial.comes_close and (trial.worst_ms or 0) <= 20.0) for trial in found.trials)
    assert not any(trial.meets for trial in found.trials if trial.tried != "without a limit")
    assert "ms without any wait. No number of seats makes it 20 ms" in found.reasons[0]


def test_a_server_that_is_too_small_is_reported(run: Run) -> None:
    found = recommend(WEB, Objective("p99", 100.0), run, most_seats=3)

    assert (found.meets, found.comes_close) == (False, False)
    assert "Even with 3 seats the objective is missed." in found.reasons
    assert found.configuration.server.total == 3


def test_slowdown_of_a_crowded_backend_is_not_counted_as_demand(run: Run, before: Callable[[int], Run]) -> None:
    """With without a limit it would become slower and slower."""
    found = recommend(WEB, Objective("p99", 150.0), before(3), run_free=run, most_seats=3)

    assert not found.meets
    assert not any("no number of seats" in reason for reason in found.reasons)
    assert "The backend serves 3 at once, which is too few: no configuration serves all requests." in found.reasons
    limits = [level.wait_limit_ns for level in found.configuration.levels.values() if level.wait_limit_ns is not None]
    assert limits
    assert max(limits) < 300 * 10**6, "who waits longer misses the objective"


def recorded(path: Path, rows: list[dict[str, object]], scenario: Scenario) -> Run:
    """Return what simulates these rows of a recording of four processes."""
    header = {"recording": "begin", "start": "2026-11-24T06:53:41+00:00", "configuration": "x", "workers": 4}
    path.write_text("\n".join(map(json.dumps, [header | {"version": 1}, *rows])))
    trace = RequestTrace(path)
    recording = Recording(trace, trace.survey())
    return lambda configuration, name: simulate(scenario, configuration, name=name, recording=recording)


def two_at_once(workers: list[int]) -> list[dict[str, object]]:
    """Return 10 s in which each of these processes has two requests of 100 ms in flight."""
    return [
        {"time": number * 0.05 + worker * 0.007, "duration": 0.1, "user": "alice", "worker": worker, "path": "/"}
        for number in range(200)
        for worker in workers
    ]


@pytest.mark.parametrize("workers", [[0, 1, 2, 3], [2]], ids=["alike", "one busy"])
def test_the_seats_of_one_of_several_processes_are_found(tmp_path: Path, workers: list[int]) -> None:
    run = recorded(tmp_path / "t.jsonl", two_at_once(workers), Scenario(servers=4, backend=Backend(places=10**6)))
    found = recommend(WEB, Objective("p99", 150.0), run, processes=4)

    assert (found.meets, found.servers) == (True, 4)
    assert found.configuration.server.total == 2
    assert [trial.meets for trial in found.trials if (trial.tried, trial.seats) == ("bisection", 2)] == [True]
    assert all(trial.used <= 1 for trial in found.trials)
    assert "Each level meets the objective with 2 seats per process, but not with fewer." in found.reasons
    assert f"seats per process on average, and {len(workers) / 2:g} if all" in found.reasons[0]


def test_places_of_each_process_are_compared_with_its_demand(tmp_path: Path) -> None:
    run = recorded(tmp_path / "t.jsonl", two_at_once([0, 1, 2, 3]), Scenario(servers=4, backend=Backend(places=2)))
    found = recommend(WEB, Objective("p99", 150.0), run, processes=4, most_seats=2)

    assert found.meets
    assert not any("too few" in reason for reason in found.reasons)

    crowd = recommend(WEB, Objective("p99", 150.0), run, processes=4, most_seats=1)
    assert "Even with 1 seat per process the objective is missed." in crowd.reasons
    assert any(reason.startswith("The backend of each process serves 1 at once") for reason in crowd.reasons)


def test_the_seats_of_a_whole_fleet_are_found_with_queues_for_each_member(tmp_path: Path) -> None:
    fleet = load_text("apiVersion: apf/v1\nkind: Server\nspec: {fleet: {name: shop}}\n", defaults="web")
    backend = Backend(places=10**6)
    scenario = Scenario(members=ScenarioMembers(4), backend=backend)
    run = recorded(tmp_path / "t.jsonl", two_at_once([0, 1, 2, 3])[:400], scenario)
    found = recommend(fleet, Objective("p99", 900.0), run, processes=4)

    assert (found.meets, found.servers) == (True, 1)
    seats = found.configuration.server.total
    assert f"Each level meets the objective with {seats} seats, but not with fewer." in found.reasons
    assert seats >= 8, "two in each member"
    queuing = found.configuration.levels["users"].queuing
    assert queuing is not None
    assert queuing.queue_length_limit <= 8 * seats / 4 + 1, "a member has a quarter of the seats, and 8 times 100 ms"


def test_rows_that_take_no_time_are_refused(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"time": number / 100, "duration": 0, "user": "alice"} for number in range(100)]
    run = recorded(tmp_path / "t.jsonl", rows, Scenario())

    with pytest.raises(InvalidValueError, match="requests that take no time', but its rows must have durations"):
        recommend(WEB, Objective("p99", 150.0), run)


def test_a_level_whose_requests_take_no_time_meets_the_objective(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"time": 0.1 * number, "duration": 0, "user": ""} for number in range(50)]
    rows += two_at_once([0])
    run = recorded(tmp_path / "t.jsonl", rows, Scenario())

    assert recommend(WEB, Objective("p99", 300.0), run).meets


def crowded(configuration: Configuration, name: str) -> Result:
    """Two levels in three have requests, and no number of seats is enough."""
    names = [one for one, level in configuration.levels.items() if one != "exempt"][::2]
    slow = dict.fromkeys(("p50", "p90", "p95", "p99"), 1000.0 if name != "without a limit" else 1.0)
    levels = tuple(
        LevelResult(
            one,
            1,
            exempt=False,
            seats=500.0,
            most_seats=10.0 ** (4 - place),
            dispatched=100,
            rejected=0,
            wait_p50_ms=1.0,
            wait_p99_ms=1.0,
            quantiles_ms=slow,
        )
        for place, one in enumerate(names)
    )
    return Result("s", name, 1.0, 1.0, (), levels, (), None, 0.0, 0.0, 1, 1)


@pytest.mark.parametrize("seats", [4, 6, 32, 400])
@pytest.mark.parametrize("defaults", ["web", "kubernetes"])
@pytest.mark.parametrize("borrowing", ["immediate", "periodic"])
def test_apf_check_has_no_findings_for_a_recommendation(
    seats: int, defaults: Literal["web", "kubernetes"], borrowing: str
) -> None:
    """But where there are fewer seats than levels, and each is rounded up to one: no shares can change that.

    Nor can they change that small levels have nothing to keep until the next adjustment.
    """
    server = f"apiVersion: apf/v1\nkind: Server\nspec: {{defaults: {defaults}, borrowing: {borrowing}}}\n"
    found = recommend(load_text(server), Objective("p99", 100.0), crowded, most_seats=seats)

    reading = read_source(emit(found.configuration, "apf"))
    assert found.configuration.server.total == seats
    levels = [level for level in found.configuration.levels.values() if not level.exempt]
    is_possible = borrowing == "immediate" or seats >= len(levels)
    problems = [one for one in reading.problems if one.field != "spec.borrowing"]
    assert bool(problems) is not is_possible, [str(one) for one in problems]
    assert borrowing == "periodic" or problems == list(reading.problems)


def test_guaranteed_seats_are_included(run: Run) -> None:
    level = "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: users}\nspec: {minSeats: 20}\n"
    found = recommend(load_text(level, defaults="web"), Objective("p99", 400.0), run)

    assert found.configuration.server.total == 21, "one is left for all others"
    assert read_source(emit(found.configuration, "apf")).problems == ()


PARENT = """
apiVersion: apf/v1
kind: Server
spec: {seats: 40, defaults: none}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: tenants}
spec: {weight: 20}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: paid}
spec: {weight: 1, parent: tenants}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: web}
spec: {weight: 10}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: paid}
spec: {level: paid, precedence: 10, rules: [{subjects: [{group: "system:authenticated"}], httpRules: [{paths: [/*]}]}]}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: web}
spec: {level: web, precedence: 20, rules: [{httpRules: [{paths: [/*]}]}]}
"""


def test_a_max_that_stays_is_named_where_the_objective_is_missed(run: Run) -> None:
    level = "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: users}\nspec: {maxSeats: 2}\n"
    found = recommend(load_text(level, defaults="web"), Objective("p99", 150.0), run)

    missed = next(place for place, one in enumerate(found.reasons) if one.startswith("Even with"))
    assert found.reasons[missed + 1].startswith("The level users keeps its maxSeats of 2, and could use ")


def test_a_parent_has_the_shares_of_its_children(run: Run) -> None:
    found = recommend(load_text(PARENT), Objective("p99", 150.0), run)

    assert found.meets
    shares = {name: level.shares.shares for name, level in found.configuration.levels.items()}
    assert shares["tenants"] == shares["paid"] > shares["web"]
    lengths = {
        name: level.queuing.queue_length_limit for name, level in found.configuration.levels.items() if level.queuing
    }
    assert lengths["paid"] > lengths["web"]


@pytest.mark.parametrize("outcome", [{"outcome": "hung-up"}, {"outcome": "rejected", "reason": "body-limit"}])
def test_requests_that_never_ask_for_seats_do_not_miss_the_objective(tmp_path: Path, outcome: dict[str, str]) -> None:
    rows: list[dict[str, Any]] = [{"time": n / 20, "duration": 0.1, "user": "alice"} for n in range(200)]
    rows += [{"time": n / 4, "wait": 0, "user": "alice"} | outcome for n in range(20)]
    rows += [{"time": n, "wait": 0} | outcome for n in range(3)]
    run = recorded(tmp_path / "t.jsonl", rows, Scenario(backend=Backend(places=10**6)))
    found = recommend(WEB, Objective("p99", 150.0), run)

    assert found.meets
    assert found.configuration.server.total <= 3
    assert {trial.worst_level for trial in found.trials} == {"users"}
    rule = "Requests that are refused with any number of seats count neither as served nor as rejected: "
    assert f"{rule}anonymous 3, users 20." in found.reasons


DEADLINES = load_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 2, deadlines: {}}\n")


def test_requests_that_come_after_their_deadlines_do_not_miss_the_objective(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"time": n / 20, "duration": 0.1, "user": "alice", "deadline": 5} for n in range(200)]
    rows += [
        {"time": n / 4, "wait": 0, "user": "alice", "outcome": "rejected", "reason": "deadline", "deadline": 0}
        for n in range(20)
    ]
    run = recorded(tmp_path / "t.jsonl", rows, Scenario(backend=Backend(places=10**6)))
    found = recommend(DEADLINES, Objective("p99", 150.0), run)

    assert found.meets
    assert found.configuration.server.total <= 3
    assert found.reasons[0].endswith(": users 20.")


def test_a_trace_in_which_all_deadlines_are_over_is_refused(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"time": n / 20, "duration": 0.1, "user": "a", "deadline": 0} for n in range(20)]
    run = recorded(tmp_path / "t.jsonl", rows, Scenario())

    with pytest.raises(InvalidValueError, match="it must have requests for seats of levels that aren't exempt"):
        recommend(DEADLINES, Objective("p99", 150.0), run)


def test_a_recommendation_replaces_adaptive_seats_by_a_number(run: Run) -> None:
    adaptive = "apiVersion: apf/v1\nkind: Server\nspec: {seats: {adaptive: {min: 5, max: 50}}}\n"
    found = recommend(load_text(adaptive), Objective("p99", 150.0), run)

    assert found.reasons[0] == "The seats were adaptive; the number that is proposed is fixed."
    assert found.configuration.server.seat_bounds is None


def test_the_longest_objective_gives_a_configuration_that_can_be_read(run: Run) -> None:
    found = recommend(WEB, Objective("p99", 86_400_000), run)

    assert found.meets
    assert read_source(emit(found.configuration, "apf")).problems == ()


@pytest.mark.parametrize(
    ("quantile", "limit"), [("p98", 1.0), ("p99", 0.0), ("p99", float("nan")), ("p99", 86_400_001)]
)
def test_an_invalid_objective_is_refused(quantile: str, limit: float) -> None:
    with pytest.raises(InvalidValueError, match="objective is"):
        Objective(quantile, limit)
