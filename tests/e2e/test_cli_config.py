"""``apf check``, ``apf explain`` and ``apf convert`` on files, as a person runs them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import apf_middleware.config
from apf_middleware.config import load
from tests.support.command_line import Outcome

Apf = Callable[..., Outcome]

DEFAULTS = Path(apf_middleware.config.__file__).parent / "defaults"
KUBERNETES, WEB = DEFAULTS / "kubernetes.yaml", DEFAULTS / "web.yaml"

ODD = """
apiVersion: apf/v1
kind: FlowSchema
metadata:
  name: nowhere
spec:
  level: missing
  precedence: 500
  rules:
  - subjects: [{user: alice}]
    httpRules: [{methods: [GET]}]
"""

SLOW = """
---
apiVersion: apf/v1
kind: Server
spec: {defaults: none}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: slow}
spec:
  level: workload-low
  estimate: {seats: 3}
  rules: [{nonResourceRules: [{verbs: [get], nonResourceURLs: [/slow]}]}]
"""


@pytest.mark.parametrize("path", [KUBERNETES, WEB], ids=lambda path: path.name)
def test_the_suggested_objects_are_fine_even_strictly(apf: Apf, path: Path) -> None:
    result = apf("check", "--strict", path)

    assert (result.returncode, result.stderr) == (0, "")
    assert "0 errors, 0 warnings" in result.stdout


def test_a_warning_is_an_error_only_if_one_says_so(apf: Apf, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text(ODD)

    assert apf("check", tmp_path).returncode == 0
    result = apf("check", "--strict", tmp_path)

    assert result.returncode == 1
    assert "odd.yaml:7" in result.stdout
    assert "warning: spec.level is 'missing'" in result.stdout


def test_all_errors_are_told_with_file_line_and_field(apf: Apf, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(ODD.replace("500", "0").replace("methods", "metods"))

    result = apf("check", path)
    rows = json.loads(apf("check", path, "-o", "json").stdout)

    assert result.returncode == 1
    assert f"{path}:8" in result.stdout
    assert f"{path}:11" in result.stdout
    assert "Did you mean methods?" in result.stdout
    assert rows["ok"] is False
    assert {8, 11} <= {problem["line"] for problem in rows["problems"]}


@pytest.mark.parametrize("command", ["check", "convert"])
def test_what_is_not_there_cannot_be_used(apf: Apf, command: str) -> None:
    result = apf(command, "/does/not/exist.yaml")

    assert result.returncode == 2
    assert "there is no /does/not/exist.yaml" in result.stderr


def test_a_binary_file_is_told_without_a_traceback(apf: Apf, tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(bytes(range(256)))

    result = apf("check", path)

    assert result.returncode == 1
    assert "Traceback" not in result.stdout + result.stderr


def test_a_request_is_explained(apf: Apf) -> None:
    alice = ("--user", "alice", "--group", "dev")
    result = apf("explain", KUBERNETES, "get", "/api/v1/namespaces/x/pods/y/status", *alice)
    log = apf("explain", KUBERNETES, "get", "/api/v1/namespaces/x/pods/y/log", *alice)

    assert (result.returncode, log.returncode) == (0, 0)
    assert "served     at once, without a seat, as all long-running requests but watches" in log.stdout
    assert "schema     global-default" in result.stdout
    assert "flow       alice" in result.stdout
    assert "hand       55 62 126 125 105 1" in result.stdout
    assert "probes: it has no rule for resource requests" in result.stdout


def test_a_request_is_explained_to_programs(apf: Apf) -> None:
    request = ("OPTIONS", "https://shop.example/orders?x=1", "--client-ip", "10.1.2.3")
    preflight = ("--header", "Origin: https://a.example", "--header", "Access-Control-Request-Method: PUT")

    plain = json.loads(apf("explain", WEB, "GET", *request[1:], "-o", "json").stdout)
    cors = json.loads(apf("explain", WEB, *request, *preflight, "-o", "json").stdout)

    assert (plain["schema"], plain["flow"], plain["exempt"]) == ("anonymous-clients", "10.1.2.0/24", False)
    assert cors["exempt"] is True


def test_the_gates_of_a_request_are_explained(apf: Apf, tmp_path: Path) -> None:
    config = tmp_path / "gates.yaml"
    config.write_text(
        """\
apiVersion: apf/v1
kind: Server
spec:
  gates: [{name: db, capacity: 2}, {name: quota, tokens: {rate: 1, burst: 1}}]
  routes: [{path: "/reports/*", resource: reports, gates: [db]}]
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: l}
spec: {gates: [quota]}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: s}
spec: {level: l, rules: [{httpRules: [{paths: [/reports/*, /other]}]}]}
"""
    )

    assert "gates      db quota" in apf("explain", str(config), "GET", "/reports/1").stdout
    assert json.loads(apf("explain", str(config), "GET", "/other", "-o", "json").stdout)["gates"] == ["quota"]
    assert "gates" not in apf("explain", str(config), "GET", "/").stdout


NAMED = """
apiVersion: apf/v1
kind: Server
spec: {defaults: none, queues: {header: X-Queue, groups: [staff], unknown: notFound}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: web}
spec: {queuing: {queues: exact}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: paid}
spec: {queuing: {queues: 8, handSize: 2}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: by-plan}
spec: {level: web, queue: {source: header, name: X-Plan}, rules: [{httpRules: [{}]}]}
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "level      web\nhand       a queue of its own, while there are places\n"),
        (("--header", "X-Plan: paid"), "level      paid\n"),
        (("--header", "X-Queue: paid"), "level      web\n"),
        (("--header", "X-Queue: paid", "--user", "a", "--group", "staff"), "level      paid\n"),
        (("--header", "X-Plan: gold"), "rejected   404, queue-not-found\nschema     by-plan\n"),
    ],
)
def test_the_queue_that_a_request_names_is_told(
    apf: Apf, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "apf.yaml").write_text(NAMED)

    assert said in apf("explain", tmp_path / "apf.yaml", "GET", "/", *arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((WEB, "GET"), "it takes files, a method and a URL"),
        ((WEB, "GET", "orders"), "doesn't begin with a slash"),
        ((WEB, "GET", "/", "--header", "novalue"), "'novalue' is not NAME:VALUE"),
        (("/nope.yaml", "GET", "/"), "there is no /nope.yaml"),
    ],
)
def test_a_question_that_makes_no_sense_is_told(apf: Apf, arguments: tuple[object, ...], said: str) -> None:
    result = apf("explain", *arguments)

    assert result.returncode == 2
    assert said in result.stderr


@pytest.mark.parametrize(("path", "to"), [(KUBERNETES, "v1"), (KUBERNETES, "apf"), (WEB, "apf")])
def test_what_is_converted_means_the_same(apf: Apf, path: Path, to: str, tmp_path: Path) -> None:
    result = apf("convert", path, "--to", to)
    (tmp_path / "converted.yaml").write_text(result.stdout)

    before, after = load(path), load(tmp_path / "converted.yaml")

    assert result.returncode == 0
    assert after.levels == before.levels
    assert after.schemas == before.schemas


def test_what_v1_cannot_say_is_told(apf: Apf) -> None:
    result = apf("convert", WEB, "--to", "v1")

    assert result.returncode == 1
    assert result.stdout == ""
    assert "cors-preflights" in result.stderr


def test_what_v1_leaves_out_is_a_warning_beside_the_rest(apf: Apf, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(KUBERNETES.read_text() + SLOW)

    result = apf("convert", tmp_path, "--to", "v1")

    assert result.returncode == 0
    assert "<schema slow>: warning: estimate is" in result.stderr
    assert "name: slow\n" in result.stdout
    assert "estimate" not in result.stdout
