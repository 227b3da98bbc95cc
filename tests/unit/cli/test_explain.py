"""The command ``apf explain``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import apf_middleware.config
from tests.support.command_line import Outcome, invoke

SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {seats: 4, defaults: kubernetes}\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "apf.yaml"
    path.write_text(SERVER)
    return path


def explained(config: Path, *options: str, url: str = "/api/v1/pods") -> dict[str, Any]:
    result = invoke("explain", *options, str(config), "GET", url, "--output", "json")
    assert result.exit_code == 0, result.output
    explanation: dict[str, Any] = json.loads(result.output)
    return explanation


@pytest.mark.parametrize(
    ("options", "groups", "schema"),
    [
        (
            ("--user", "system:serviceaccount:foo:bar"),
            ["system:serviceaccounts", "system:serviceaccounts:foo", "system:authenticated"],
            "service-accounts",
        ),
        (
            ("--user", "system:serviceaccount:foo:bar", "--group", "a", "--group", "system:serviceaccounts"),
            ["a", "system:serviceaccounts", "system:serviceaccounts:foo", "system:authenticated"],
            "service-accounts",
        ),
        (("--user", "system:serviceaccount:foo"), ["system:authenticated"], "global-default"),
        (("--user", "alice"), ["system:authenticated"], "global-default"),
        (("--user", "system:anonymous"), ["system:unauthenticated"], "global-default"),
        ((), ["system:unauthenticated"], "global-default"),
        (("--group", "a"), ["a", "system:unauthenticated"], "global-default"),
    ],
)
def test_a_user_has_the_groups_that_a_cluster_adds(
    config: Path, options: tuple[str, ...], groups: list[str], schema: str
) -> None:
    explanation = explained(config, *options)

    assert explanation["groups"] == groups
    assert explanation["schema"] == schema


def test_a_level_never_has_more_seats_than_the_server(config: Path) -> None:
    seats = explained(config, "--user", "system:serviceaccount:foo:bar")["seats"]

    assert seats["max"] == 4
    assert seats["min"] <= seats["nominal"] <= seats["max"]


def test_a_request_without_seats_is_explained(config: Path) -> None:
    explanation = explained(config, "--user", "alice", url="/api/v1/namespaces/shop/pods/web-0/log")

    assert explanation["resource"] == "pods/log"
    assert explanation["served"] == "at once, without a seat, like all long-running requests except watches"
    assert "level" not in explanation


Apf = Callable[..., Outcome]
DEFAULTS = Path(apf_middleware.config.__file__).parent / "defaults"
KUBERNETES, WEB = DEFAULTS / "kubernetes.yaml", DEFAULTS / "web.yaml"


def test_a_request_is_explained(apf: Apf) -> None:
    alice = ("--user", "alice", "--group", "dev")
    result = apf("explain", KUBERNETES, "get", "/api/v1/namespaces/x/pods/y/status", *alice)
    log = apf("explain", KUBERNETES, "get", "/api/v1/namespaces/x/pods/y/log", *alice)

    assert (result.returncode, log.returncode) == (0, 0)
    assert "served     at once, without a seat, like all long-running requests except watches" in log.stdout
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


@pytest.mark.parametrize("address", ["999.1.1.1", "10.0.0.0/8", "shop.example"])
def test_a_client_address_that_is_none_is_refused(apf: Apf, address: str) -> None:
    result = apf("explain", WEB, "GET", "/", "--client-ip", address)

    assert result.returncode == 2
    assert f"Invalid value for --client-ip: {address!r}: it is no IP address" in result.stderr


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


def test_a_weight_is_explained_unless_it_is_1(apf: Apf, tmp_path: Path) -> None:
    config = tmp_path / "weights.yaml"
    config.write_text(
        """\
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: s}
spec:
  level: users
  distinguisher: {source: user}
  weights: {gold: 4, iron: 0.5}
  groupWeights: {"plan:*": 8}
  rules: [{httpRules: [{}]}]
"""
    )

    def weight(*options: str) -> object:
        return json.loads(apf("explain", str(config), "GET", "/", *options, "-o", "json").stdout)["weight"]

    assert (weight("--user", "gold"), weight("--user", "iron"), weight("--user", "ann")) == (4, 0.5, 1)
    assert weight("--user", "ann", "--group", "plan:gold") == 8
    assert "weight     4\n" in apf("explain", str(config), "GET", "/", "--user", "gold").stdout
    assert "weight     0.5\n" in apf("explain", str(config), "GET", "/", "--user", "iron").stdout
    assert "weight" not in apf("explain", str(config), "GET", "/", "--user", "ann").stdout


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
        ((), "level      web\nhand       a queue of its own, unless too many flows are active\n"),
        (("--header", "X-Plan: paid"), "level      paid\n"),
        (("--header", "X-Queue: paid"), "level      web\n"),
        (("--header", "X-Queue: paid", "--user", "a", "--group", "staff"), "level      paid\n"),
        (("--header", "X-Plan: gold"), "rejected   404, queue-not-found\nschema     by-plan\n"),
    ],
)
def test_the_queue_that_a_request_names_is_reported(
    apf: Apf, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "apf.yaml").write_text(NAMED)

    assert said in apf("explain", tmp_path / "apf.yaml", "GET", "/", *arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((WEB, "GET"), "give configuration files, a method and a URL"),
        ((WEB, "GET", "orders"), "doesn't begin with a slash"),
        ((WEB, "GET", "/", "--header", "novalue"), "'novalue' is not NAME:VALUE"),
        (("/nope.yaml", "GET", "/"), "there is no /nope.yaml"),
    ],
)
def test_invalid_requests_are_refused(apf: Apf, arguments: tuple[object, ...], said: str) -> None:
    result = apf("explain", *arguments)

    assert result.returncode == 2
    assert said in result.stderr


CRITICALITY = """
apiVersion: apf/v1
kind: Server
spec: {seats: 4, criticality: {groups: [ops]}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: batch}
spec: {shares: 10}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: batch}
spec: {level: batch, precedence: 2, rules: [{httpRules: [{criticality: [sheddable]}]}]}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: vital}
spec: {level: batch, precedence: 3, rules: [{httpRules: [{criticality: [criticalPlus]}]}]}
"""


@pytest.mark.parametrize(
    ("options", "schema"),
    [
        ((), "anonymous-clients"),
        (("--header", "x-criticality:sheddable"), "batch"),
        (("--header", "x-criticality:criticalPlus"), "anonymous-clients"),
        (("--header", "x-criticality:criticalPlus", "--group", "ops"), "vital"),
    ],
)
def test_a_criticality_is_found_as_a_server_does(config: Path, options: tuple[str, ...], schema: str) -> None:
    config.write_text(CRITICALITY)
    assert explained(config, *options, url="/report")["schema"] == schema


def test_a_distinguisher_without_a_text_is_named(config: Path) -> None:
    distinguisher = "{source: callable, callable: 'builtins:id'}"
    spec = f"{{level: users, distinguisher: {distinguisher}, rules: [{{httpRules: [{{}}]}}]}}"
    config.write_text(f"apiVersion: apf/v1\nkind: FlowSchema\nmetadata: {{name: s}}\nspec: {spec}\n")

    result = invoke("explain", str(config), "GET", "/")

    assert result.exit_code == 2
    assert "distinguisher of the schema 's' is " in result.stderr
    assert "its callable must return a string" in result.stderr
