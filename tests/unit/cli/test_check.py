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
