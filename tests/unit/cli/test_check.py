"""The command ``apf check``."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import apf_middleware.config
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


OWN = """
apiVersion: apf/v1
kind: Server
metadata: {name: server}
spec: {seats: 40, responses: {headers: none}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: shop}
spec: {shares: 100, minSeats: 9}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: shop}
spec: {level: shop, rules: [{httpRules: [{paths: [/shop]}]}]}
"""

CHILD = """
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: sales}
spec: {shares: 1, parent: shop}
"""


@pytest.mark.parametrize("path", [KUBERNETES, WEB], ids=lambda path: path.name)
def test_the_suggested_objects_have_no_warnings(apf: Apf, path: Path) -> None:
    result = apf("check", "--strict", path)

    assert (result.returncode, result.stderr) == (0, "")
    assert "0 errors, 0 warnings" in result.stdout


def test_warnings_are_errors_only_with_strict(apf: Apf, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text(ODD)

    assert apf("check", tmp_path).returncode == 0
    result = apf("check", "--strict", tmp_path)

    assert result.returncode == 1
    assert "odd.yaml:7" in result.stdout
    assert "warning: spec.level is 'missing'" in result.stdout


def test_all_errors_are_reported_with_file_line_and_field(apf: Apf, tmp_path: Path) -> None:
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


def test_the_seats_of_all_levels_are_shown_with_the_suggested_ones(apf: Apf, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN)

    shown = apf("check", tmp_path).stdout.splitlines()
    rows = json.loads(apf("check", tmp_path, "-o", "json").stdout)["seats"]

    assert shown == [
        "of 40 seats  nominal  min",
        "shop              20    9",
        "users             15    7",
        "anonymous          5    2",
        "catch-all          1    0",
        "exempt        exempt",
        "5 levels, 8 schemas: 0 errors, 0 warnings",
    ]
    assert rows["shop"] == {"nominal": 20, "min": 9}
    assert list(rows) == ["anonymous", "catch-all", "exempt", "shop", "users"]


def test_a_level_that_shares_the_seats_of_another_says_whose(apf: Apf, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN.replace("level: shop", "level: sales") + CHILD)

    assert apf("check", tmp_path).stdout.splitlines()[:3] == [
        "of 40 seats      nominal  min",
        "sales (of shop)       20   19",
        "shop                  20    9",
    ]


def test_seats_that_the_server_finds_are_those_at_the_start(apf: Apf, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN.replace("seats: 40", "seats: {adaptive: {min: 40, max: 90}}"))

    assert apf("check", tmp_path).stdout.startswith("of 40 seats at first  nominal")


def test_many_levels_are_cut_to_the_largest(apf: Apf, tmp_path: Path) -> None:
    levels = "".join(CHILD.replace("sales", f"l{number}").replace(", parent: shop", "") for number in range(50))
    (tmp_path / "own.yaml").write_text(OWN + levels)

    shown = apf("check", tmp_path).stdout

    assert "\nand 15 more levels; --output json has all of them\n" in shown
    assert "\nshop " in shown


def test_a_configuration_with_errors_has_no_seats_to_show(apf: Apf, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN.replace("shares: 100", "shares: -1"))

    assert "nominal" not in apf("check", tmp_path).stdout
    assert json.loads(apf("check", tmp_path, "-o", "json").stdout)["seats"] == {}
