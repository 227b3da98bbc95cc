"""The files of `grafana/`: the script's output, promtool's checks, and validation by Grafana's own schema."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from apf_middleware.metrics.families import FAMILIES
from grafana.build import HERE, PREFIX, RULES, main, render, with_prefix
from tests.e2e.dashboards import BOARDS, KUBERNETES, asked, panels, read_rules
from tests.e2e.prometheus import program

RULE_TESTS = ("tests.yaml", "tests-of-days.yaml")
SUFFIXES = {one.suffix for one in FAMILIES}


def alerts() -> list[dict[str, Any]]:
    return [rule for group in read_rules("alerts.rules.yaml") for rule in group["rules"]]


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [program("promtool"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("prefix", BOARDS)
def test_promtool_accepts_rules_and_configuration(prefix: str, tmp_path: Path) -> None:
    main(["--prefix", prefix, "--to", str(tmp_path)])
    shutil.copy(HERE / "prometheus.yaml", tmp_path)

    checked = promtool("check", "rules", *(str(tmp_path / name) for name in RULES))
    assert checked.returncode == 0, checked.stderr
    checked = promtool("check", "config", str(tmp_path / "prometheus.yaml"))
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("prefix", BOARDS)
def test_rules_say_what_their_own_tests_expect(prefix: str, tmp_path: Path) -> None:
    main(["--prefix", prefix, "--to", str(tmp_path)])
    for name in RULE_TESTS:
        (tmp_path / name).write_text(with_prefix((HERE / name).read_text(), prefix))
    tested = promtool("test", "rules", *(str(tmp_path / name) for name in RULE_TESTS))

    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_alert_is_seen_to_fire_and_to_be_silent() -> None:
    fires: set[str] = set()
    silent: set[str] = set()
    for one in yaml.safe_load((HERE / "tests.yaml").read_text())["tests"]:
        for expected in one.get("alert_rule_test", []):
            (fires if expected["exp_alerts"] else silent).add(expected["alertname"])

    names = {alert["alert"] for alert in alerts()}
    assert fires == names
    assert silent == names


def test_every_alert_has_a_description_and_a_link() -> None:
    page = (HERE.parent / "docs" / "operations.md").read_text()
    anchors = {title.lower() for title in re.findall(r"^### (APF\w+)$", page, re.MULTILINE)}

    for alert in alerts():
        assert alert["annotations"].keys() == {"summary", "description", "runbook"}
        assert alert["labels"].keys() == {"severity"}
        assert alert["annotations"]["runbook"] == f"docs/operations.md#{alert['alert'].lower()}"
    assert anchors == {alert["alert"].lower() for alert in alerts()}


# Files


@pytest.mark.parametrize("name", render())
def test_files_are_what_the_script_makes(name: str) -> None:
    assert (HERE / name).read_text() == render()[name], "run: python -m grafana.build"


def texts(prefix: str) -> dict[str, str]:
    """Return all queries of the dashboard and the rules, by their place."""
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel, _ in panels(BOARDS[prefix])
        for target in panel["targets"]
    }
    for name in RULES:
        for group in yaml.safe_load(render(prefix)[name])["groups"]:
            found |= {rule.get("alert") or rule["record"]: rule["expr"] for rule in group["rules"]}
    return found


@pytest.mark.parametrize("prefix", BOARDS)
def test_queries_ask_for_metrics_that_there_are(prefix: str) -> None:
    recorded = {rule["record"] for group in read_rules("recording.rules.yaml") for rule in group["rules"]}
    for where, text in texts(prefix).items():
        bare = re.sub(r"\w+:[\w:]+", "", text)
        suffixes = asked(bare, prefix)

        assert suffixes or bare != text, where
        assert suffixes <= SUFFIXES, where
        assert {name.replace(f"{prefix}_", "apf_") for name in re.findall(r"\w+:[\w:]+", text)} <= recorded, where
        assert prefix == PREFIX or f"{PREFIX}_" not in text, where


def test_the_dashboard_asks_for_all_metrics_but_a_few() -> None:
    shown = set().union(
        *(asked(target["expr"], PREFIX) for one, _ in panels(BOARDS[PREFIX]) for target in one["targets"])
    )

    strict_mode = {"dispatch_r", "epoch_advance_total", "latest_s", "next_discounted_s_bounds"}
    kubernetes_estimates = {"watch_count_samples"}
    mistakes = {"invalid_deadline_headers_total", "invalid_criticality_headers_total", "lowered_criticality_total"}
    other_measurements = {"adaptive_elasticity"}  # the decisions show what follows from it
    covered_by_others = {"read_vs_write_current_requests", "request_concurrency_in_use", "request_concurrency_limit"}
    covered_by_others |= {"queue_share"}  # used by deserved seats, of all instances together
    covered_by_others |= {"mode"}  # servers that don't limit show the requests that they let pass
    operators = {"gate_held"}  # what they do themselves is for the alert
    unseen = strict_mode | kubernetes_estimates | mistakes | other_measurements | operators
    assert SUFFIXES - shown == unseen | covered_by_others


def ask_about(title: str, number: int, series: Mapping[str, str], wanted: Mapping[str, float], folder: Path) -> None:
    """Let promtool compare the answer to a panel's query with ``wanted``; ``series`` have a value a minute."""
    [panel] = [one for one, _ in panels(BOARDS[PREFIX]) if one["title"] == title]
    chosen = {"__rate_interval": "5m", "level": "web"}  # Grafana puts the levels in for All, too
    query = re.sub(r"\$(\w+)", lambda found: chosen.get(found[1], ".*"), panel["targets"][number]["expr"])
    expected = [{"labels": labels, "value": value} for labels, value in wanted.items()]
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": "10m", "exp_samples": expected}],
    }
    path = folder / "panel.yaml"
    path.write_text(json.dumps({"tests": [case]}))
    tested = promtool("test", "rules", str(path))
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize(
    ("title", "number", "value"),
    [("Queues", 1, 12), ("Queues", 2, 20), ("Queues", 3, 30), ("Queues", 4, 40), ("Share", 0, 1.5)],
)
@pytest.mark.parametrize("queue", ["web", "its-parent"])
def test_limits_of_queues_of_a_fleet_count_once(
    queue: str, title: str, number: int, value: float, tmp_path: Path
) -> None:
    """The second instance has two workers, so its numbers are sums of two."""
    series: dict[str, str] = {}
    for instance, workers, used in (("a", 1, 4), ("b", 2, 26)):
        numbers = {"min": 12 * workers, "deserved": 20 * workers, "used": used, "max": 40 * workers}
        series |= {
            f'apf_queue_{name}_seats{{job="apf", instance="{instance}", queue="{queue}"}}': f"{number}x10"
            for name, number in numbers.items()
        }
        series[f'apf_queue_share{{job="apf", instance="{instance}", queue="{queue}"}}'] = "0.7x10"
        series[f'apf_fleet_members{{job="apf", instance="{instance}"}}'] = "3x10"

    ask_about(title, number, series, {f'{{queue="{queue}"}}': value}, tmp_path)


@pytest.mark.parametrize(("title", "value"), [("Seats of the fleet", 60), ("Members and allocators", 5)])
def test_fleets_of_several_jobs_are_added_up(title: str, value: float, tmp_path: Path) -> None:
    series = {}
    for job, instance, seats, members in (("one", "a", 20, 2), ("one", "b", 20, 2), ("two", "c", 40, 3)):
        series[f'apf_fleet_seats{{job="{job}", instance="{instance}"}}'] = f"{seats}x10"
        series[f'apf_fleet_members{{job="{job}", instance="{instance}"}}'] = f"{members}x10"

    ask_about(title, 0, series, {"{}": value}, tmp_path)


def test_a_short_queue_is_not_taken_for_a_long_one(tmp_path: Path) -> None:
    name, labels = "apf_request_queue_length_after_enqueue", 'job="apf", priority_level="web"'
    counts = {f'{name}_bucket{{{labels}, le="{le}"}}': f"0+{n}x10" for le, n in (("0", 0), ("10", 60), ("+Inf", 60))}
    sums = {f"{name}_count{{{labels}}}": "0+60x10", f"{name}_sum{{{labels}}}": "0+120x10"}

    ask_about("Length of the queue joined", 0, counts | sums, {'{priority_level="web"}': 2}, tmp_path)


def test_waits_of_a_shadow_are_those_of_the_served(tmp_path: Path) -> None:
    """Of each hundred requests, one would be served after waiting, and the others rejected at once."""
    name, labels = "apf_shadow_request_wait_duration_seconds_bucket", 'job="apf", priority_level="web"'
    series = {
        f'{name}{{{labels}, execute="{execute}", le="{le}"}}': f"0+{number}x10"
        for execute, le, number in (
            ("true", "0.5", 0),
            ("true", "1", 60),
            ("true", "+Inf", 60),
            ("false", "0.5", 5940),
            ("false", "1", 5940),
            ("false", "+Inf", 5940),
        )
    }

    ask_about("Would wait, 99 %", 0, series, {'{priority_level="web"}': 0.995}, tmp_path)


def test_a_restart_is_no_course_of_virtual_time(tmp_path: Path) -> None:
    labels = 'job="apf", priority_level="web"'
    series = {
        f'apf_current_r{{{labels}, instance="lives"}}': "0+60x10",
        f'apf_current_r{{{labels}, instance="restarted"}}': "90000 90060 90120 90180 90240 90300 0 60 120 180 240",
    }

    ask_about("Seats for each busy queue", 0, series, {'{priority_level="web"}': 0.5}, tmp_path)


WITH_ONE_UNIT = [one for one, _ in panels(BOARDS[PREFIX]) if one["type"] not in ("table", "heatmap")]


@pytest.mark.parametrize("panel", WITH_ONE_UNIT, ids=lambda panel: panel["title"])
def test_units_fit_what_is_asked_for(panel: Mapping[str, Any]) -> None:
    """All queries of a panel have one unit: events per second, or seconds, or numbers and parts of a whole."""
    kinds = {kind_of(target["expr"]) for target in panel["targets"]}
    unit = panel["fieldConfig"]["defaults"].get("unit", panel["options"].get("yAxis", {}).get("unit"))

    assert kinds == {{"reqps": "events per second", "ops": "events per second", "s": "seconds"}.get(unit, "numbers")}


def kind_of(query: str) -> str:
    """Return what a query gives; the rate of a sum of seconds is a number of those that last so long at once."""
    if "histogram_quantile" in query:
        return "seconds"
    if " / " in query or "deriv(" in query:
        return "numbers"
    if "rate(" in query:
        return "numbers" if "seconds_total" in query else "events per second"
    return "seconds" if re.search("_seconds\\b", query) else "numbers"


def test_panels_have_distinct_numbers_and_titles_and_a_word_of_explanation() -> None:
    found = [panel for panel, _ in panels(BOARDS[PREFIX])]

    assert len({panel["id"] for panel in BOARDS[PREFIX]["panels"]}) == len(BOARDS[PREFIX]["panels"])
    assert len({panel["title"] for panel in found}) == len(found)
    assert all(panel["description"].endswith(".") for panel in found)


def test_the_page_lists_the_rows_in_their_order() -> None:
    rows = [
        panel["title"]
        for panel in json.loads((HERE / "dashboard.json").read_text())["panels"]
        if panel["type"] == "row"
    ]
    table = (HERE / "README.md").read_text().partition("\n| row | content |\n|---|---|\n")[2].partition("\n\n")[0]

    listed = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
    assert listed == [re.sub(r": .*", "", title).replace("$level", "…") for title in rows]


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARDS[PREFIX]["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }

        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


@pytest.mark.parametrize(
    "arguments", [["--prefix", "4you", "--to", "x"], ["--prefix", "a-b", "--to", "x"], ["--prefix", KUBERNETES]]
)
def test_the_script_refuses_what_would_do_harm(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)

    assert f"--prefix is {arguments[1]!r}" in capsys.readouterr().err


def test_compose_mounts_files_that_there_are_at_the_places_where_they_are_looked_for() -> None:
    services = yaml.safe_load((HERE / "docker-compose.yaml").read_text())["services"]
    mounted = {
        inside: HERE / outside
        for service in services.values()
        for outside, inside, *_ in (volume.split(":") for volume in service["volumes"])
        if outside.startswith("./")
    }
    rules = yaml.safe_load((HERE / "prometheus.yaml").read_text())["rule_files"]
    [provider] = yaml.safe_load((HERE / "provisioning/dashboards/apf.yaml").read_text())["providers"]

    assert all(path.exists() for path in mounted.values())
    assert {f"/etc/prometheus/{name}" for name in (*rules, "prometheus.yaml")} <= mounted.keys()
    assert f"{provider['options']['path']}/dashboard.json" in mounted
    assert all(not service["image"].endswith("latest") and ":" in service["image"] for service in services.values())


# Grafana's published schema


def faults(value: object, schema: Mapping[str, Any], root: Mapping[str, Any], where: str = "") -> Iterator[str]:
    """Yield where ``value`` violates the schema; only the keywords that the published one uses are supported."""
    if "$ref" in schema:
        schema = root["definitions"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        tries = [list(faults(value, one, root, where)) for one in schema["anyOf"]]
        if all(tries):
            yield from min(tries, key=len)
    if "const" in schema and value != schema["const"]:
        yield f"{where}: {value!r} isn't {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} isn't one of {schema['enum']}"
    kinds = schema.get("type", [])
    if kinds and not any(isinstance(value, TYPES[kind]) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        yield f"{where}: {value!r} isn't of type {kinds}"
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from faults(one, schema.get("items", {}), root, f"{where}[{number}]")
    if isinstance(value, dict):
        yield from faults_of_keys(value, schema, root, where)


def faults_of_keys(
    value: Mapping[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], where: str
) -> Iterator[str]:
    known = schema.get("properties", {})
    yield from (f"{where}: {key} is missing" for key in schema.get("required", []) if key not in value)
    for key, one in value.items():
        beyond = schema.get("additionalProperties", {})
        if key not in known and beyond is False:
            yield f"{where}: nobody knows {key}"
        else:
            yield from faults(one, known.get(key, beyond), root, f"{where}.{key}")


TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
SCHEMAS = json.loads((HERE / "published-schema.json").read_text())["schemas"]


def faults_of_board(board: Mapping[str, Any]) -> list[str]:
    found = list(faults(board, SCHEMAS["dashboard"], SCHEMAS["dashboard"]))
    for panel, _ in panels(board):
        kind, custom = panel["type"], panel["fieldConfig"]["defaults"].get("custom", {})
        options, fields = SCHEMAS[f"{kind}-options"], SCHEMAS.get(f"{kind}-field")
        found += faults(panel["options"], options, options, f"{panel['title']}.options")
        found += faults(custom, fields, fields, f"{panel['title']}.custom") if fields else list(custom)
    return found


@pytest.mark.parametrize("prefix", BOARDS)
def test_the_dashboard_is_as_the_schema_that_grafana_publishes_wants_it(prefix: str) -> None:
    assert faults_of_board(BOARDS[prefix]) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("panels", 1, "options", "textMode"), "loud"),
        (("panels", 1, "fieldConfig", "defaults", "unti"), "s"),
        (("panels", 1, "gridPos", "w"), "wide"),
        (("panels", 7, "options", "tooltip", "mode"), "many"),
        (("panels", 7, "fieldConfig", "defaults", "custom", "drawStyle"), "dots"),
        (("templating", "list", 1, "definition"), "x"),
        (("schemaVersion",), "39"),
        (("graphTooltip",), 7),
    ],
)
def test_the_schema_finds_faults(path: tuple[str | int, ...], value: object) -> None:
    board = json.loads(json.dumps(BOARDS[PREFIX]))
    place = board
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value

    assert len(faults_of_board(board)) >= 1
