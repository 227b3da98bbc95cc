"""Recorded requests for ``apf simulate`` and ``apf recommend``, and what is reported about them."""

import json
from pathlib import Path

from apf_middleware.recordings import Footer, Header
from tests.support.command_line import invoke as apf
from tests.support.simulated_worlds import SCENARIO


def test_gates_are_reported_as_left_out(scenario: Path, trace: Path) -> None:
    gates = "gates: [{name: db, capacity: 1}], routes: [{path: /*, resource: r, gates: [db, mail]}]"
    scenario.write_text(SCENARIO.replace("seats: 10", f"seats: 10, {gates}").replace("duration: 3s", "duration: 1s"))
    gated = scenario.with_name("gated.yaml")
    gated.write_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{seats: 10, {gates}}}\n")
    said = "gates aren't simulated, all requests pass them: db, mail\n"

    assert apf("simulate", scenario, "--no-curves").stderr == said
    found = apf("recommend", trace, "--objective", "p99=10s", "--config", gated, "--rows", 50)
    assert (found.exit_code, found.stderr) == (0, said)


def test_elastic_levels_are_reported_as_left_out(scenario: Path) -> None:
    level = "---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: batch}\nspec: {elastic: true}\n"
    scenario.write_text(SCENARIO.replace("duration: 3s", "duration: 1s") + level)

    assert apf("simulate", scenario, "--no-curves").stderr.endswith("\nelastic levels keep their seats: batch\n")


def test_lines_that_are_left_out_are_reported(trace: Path, scenario: Path) -> None:
    trace.write_text(trace.read_text() + "\nnot a request\n")

    result = apf("simulate", scenario, "--trace", trace, "--no-curves")

    assert result.exit_code == 0
    assert "lines that can't be read or are about something else are left out: 1" in result.stderr


def test_a_trace_without_durations_is_reported(trace: Path) -> None:
    lines = trace.read_text()
    message = json.dumps({"time": 5, "level": "INFO", "msg": "hello"})
    ended = json.dumps({"time": 5, "outcome": "rejected"}), json.dumps({"time": 5, "outcome": "running"})
    trace.write_text("\n".join([lines, *[message] * 3, *ended]))
    some = apf("simulate", "--trace", trace, "--no-curves")

    assert some.exit_code == 0
    assert some.stderr.startswith(f"{trace}: 3 requests without a duration: each takes as long as another one")
    trace.write_text("\n".join([message] * 400))
    for command in (("simulate", "--trace", trace), ("recommend", trace, "--objective", "p99=1s")):
        none = apf(*command)
        assert (none.exit_code, none.stdout) == (2, "")
        assert none.stderr.startswith(f"apf {command[0]}: {trace}: there is no request with a duration in it")
        assert "Write duration (in seconds) into each line" in none.stderr


def test_a_request_far_from_all_others_is_reported(trace: Path) -> None:
    trace.write_text(trace.read_text() + '\n{"time": 1786108536, "duration": 1}')
    said = "1,786,108,536 s are simulated because of a request at the time 1,786,108,536 s, far from all others"

    assert apf("simulate", "--trace", trace, "--no-curves").stderr.startswith(f"{trace}: {said}")


def test_what_a_recording_lacks_is_told(tmp_path: Path) -> None:
    header = Header("2026-10-10T13:55:36+00:00", sample=0.1, workers=2)
    footer = Footer(50, lost=1_200, seconds=5, reason="incomplete", is_settled=False)
    rows = [json.dumps({"time": n / 10, "duration": 0.01, "user": f"~{n % 3}", "worker": n % 2}) for n in range(50)]
    path = tmp_path / "traffic.jsonl"
    path.write_text("\n".join([header.line(), *rows, footer.line()]))
    whole = apf("simulate", "--trace", path, "--no-curves").stderr

    for said in (
        "lost during the recording: 1,200 requests",
        "a worker went away",
        "the configuration or the mode has changed",
        "only 10 % of the flows were recorded",
        "simulate with 10 % of the seats; a level needs 10 times what is found here",
    ):
        assert said in whole
    assert "cut off" not in whole

    path.write_text("\n".join([header.line(), *rows]))
    assert "it was cut off; what is there is used" in apf("simulate", "--trace", path, "--no-curves").stderr
    assert "it was cut off" in apf("recommend", path, "--objective", "p99=10s", "--rows", 1_000).stderr


def test_a_recording_without_its_header_is_reported(tmp_path: Path) -> None:
    row = {"time": 1, "duration": 0.1}
    path = tmp_path / "traffic.jsonl"
    lost = f"{path}: the recording has lost its first line, so the number of its processes "
    for lines, said in (
        ([json.dumps(row), Footer(1, seconds=5).line()], f"{lost}isn't known: one server is simulated"),
        ([json.dumps(row | {"worker": n}) for n in (0, 3, 1)], f"{lost}is at least 4: one server is simulated"),
        ([json.dumps(row)], ""),
        ([Header("2026-10-10T13:55:36+00:00").line(), json.dumps(row), Footer(1, seconds=5).line()], ""),
    ):
        path.write_text("\n".join(lines))
        stderr = apf("simulate", "--trace", path, "--no-curves").stderr
        assert stderr.startswith(said)
        assert bool(stderr) is bool(said)


def test_a_recording_of_several_processes_is_simulated_with_as_many(tmp_path: Path) -> None:
    header = Header("2026-10-10T13:55:36+00:00", workers=3)
    rows = [json.dumps({"time": 1, "duration": 1, "user": f"~{n}", "worker": n}) for n in range(3)]
    path, config = tmp_path / "traffic.jsonl", tmp_path / "apf.yaml"
    path.write_text("\n".join([header.line(), *rows, Footer(3, seconds=5).line()]))
    config.write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 1}\n")
    result = json.loads(apf("simulate", config, "--trace", path, "-o", "json").stdout)

    [users] = [level for level in result["levels"] if level["name"] == "users"]
    assert (users["dispatched"], users["wait_p99_ms"]) == (3, 0)

    config.write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 3, fleet: {name: shop}}\n")
    result = json.loads(apf("simulate", config, "--trace", path, "-o", "json").stdout)
    assert [member["dispatched"] for member in result["fleet"]["members"]] == [1, 1, 1]
