"""Versions of the suggested objects: an upgrade changes nothing, and what it would change is told."""

import json
from pathlib import Path

import pytest

from apf_middleware.config import Configuration, load_text, read_source
from apf_middleware.config import suggested as module
from apf_middleware.config.problems import ConfigurationError
from apf_middleware.config.suggested import mandatory, newer_defaults, newest_version, suggested
from tests.support.command_line import run_apf

SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {{seats: 100, {}}}\n"
SECOND = """
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: users}
spec: {shares: 80}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crawlers}
spec: {shares: 5}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: all-users}
spec: {level: users, rules: [{httpRules: [{}]}]}
"""
OWN = """---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: users, annotations: {{apf.kubernetes.io/autoupdate-spec: "{}"}}}}
spec: {{shares: 7}}
"""


@pytest.fixture
def two_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a second version of the web defaults."""
    for path in module.FOLDER.glob("*.yaml"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "web-2.yaml").write_text(SECOND)
    monkeypatch.setattr(module, "FOLDER", tmp_path)


def shares(configuration: Configuration) -> dict[str, int]:
    return {name: level.shares.shares for name, level in configuration.levels.items() if not level.exempt}


def test_there_is_one_version_of_each_set() -> None:
    assert (newest_version("web"), newest_version("kubernetes")) == (1, 1)
    assert newer_defaults("web", 1) is newer_defaults("none", 1) is None
    assert {thing.name for thing in suggested("web", 1)} >= {"users", "anonymous", "probes"}
    assert {thing.name for thing in mandatory()} == {"exempt", "catch-all"}


@pytest.mark.usefixtures("two_versions")
def test_a_newer_version_changes_nothing_until_it_is_asked_for() -> None:
    assert shares(load_text(SERVER.format("defaults: web"))) == {"users": 75, "anonymous": 25, "catch-all": 5}
    second = load_text(SERVER.format("defaultsVersion: 2"))
    assert shares(second) == {"users": 80, "crawlers": 5, "catch-all": 5}
    assert [schema.name for schema in second.schemas] == ["exempt", "all-users", "catch-all"]


@pytest.mark.usefixtures("two_versions")
def test_the_check_tells_what_a_newer_version_would_change(tmp_path: Path) -> None:
    path = tmp_path / "apf.yaml"
    path.write_text(SERVER.format("defaults: web"))
    told = run_apf("check", path)
    assert told.returncode == 0
    changes = json.loads(run_apf("check", path, "-o", "json").stdout)["newerDefaults"]
    assert changes["version"] == 2
    assert set(changes["changes"]) >= {"another level users", "new level crawlers", "without schema probes"}
    assert "level anonymous" not in set(changes["changes"]) - {"without level anonymous"}
    assert "defaultsVersion: 2" in told.stdout
    assert "new level crawlers" in told.stdout

    path.write_text(SERVER.format("defaultsVersion: 2"))
    assert "defaultsVersion" not in run_apf("check", path).stdout
    assert json.loads(run_apf("check", path, "-o", "json").stdout)["newerDefaults"] is None


@pytest.mark.parametrize(("version", "rule"), [(2, "the newest version of defaults: web is 1"), (0, "at least 1")])
def test_a_version_that_there_is_not_is_an_error(version: int, rule: str) -> None:
    with pytest.raises(ConfigurationError, match=rule) as raised:
        load_text(SERVER.format(f"defaultsVersion: {version}"))
    assert "<text>:3" in str(raised.value)


@pytest.mark.parametrize("value", ["true", "false", "", "TRUE"])
def test_an_own_edit_of_a_suggested_object_is_kept_unless_it_is_marked_as_a_copy(value: str) -> None:
    reading = read_source(SERVER.format("defaults: web") + OWN.format(value))
    assert reading.configuration is not None
    is_copy = value == "true"
    assert shares(reading.configuration)["users"] == (75 if is_copy else 7)
    found = [problem.rule for problem in reading.problems if "annotation" in problem.rule]
    assert found == (
        ["the suggested object 'users' is used instead, because this annotation says so"] if is_copy else []
    )


@pytest.mark.usefixtures("two_versions")
def test_a_copy_becomes_the_present_version() -> None:
    marked = "{name: users, annotations: {apf.kubernetes.io/autoupdate-spec: 'true'}}"
    marked = "---\n" + SECOND.split("---", maxsplit=1)[0].replace("{name: users}", marked)
    assert shares(load_text(SERVER.format("defaultsVersion: 1") + marked))["users"] == 75
    assert read_source(SERVER.format("defaultsVersion: 2") + marked).problems == ()


def test_the_annotation_means_nothing_for_other_objects() -> None:
    other = OWN.format("true").replace("users", "workers")
    assert shares(load_text(SERVER.format("defaults: web") + other))["workers"] == 7
    assert shares(load_text(SERVER.format("defaults: none") + OWN.format("true")))["users"] == 7
