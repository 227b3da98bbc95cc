"""The command ``apf convert``."""

from collections.abc import Callable
from pathlib import Path

import pytest

import apf_middleware.config
from apf_middleware.config import load
from tests.support.command_line import Outcome

Apf = Callable[..., Outcome]
DEFAULTS = Path(apf_middleware.config.__file__).parent / "defaults"
KUBERNETES, WEB = DEFAULTS / "kubernetes.yaml", DEFAULTS / "web.yaml"

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


@pytest.mark.parametrize(("path", "to"), [(KUBERNETES, "v1"), (KUBERNETES, "apf"), (WEB, "apf")])
def test_what_is_converted_means_the_same(apf: Apf, path: Path, to: str, tmp_path: Path) -> None:
    result = apf("convert", path, "--to", to)
    (tmp_path / "converted.yaml").write_text(result.stdout)

    before, after = load(path), load(tmp_path / "converted.yaml")

    assert result.returncode == 0
    assert after.levels == before.levels
    assert after.schemas == before.schemas


def test_what_v1_cannot_say_is_reported(apf: Apf) -> None:
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
