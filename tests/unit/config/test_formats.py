"""Documents of other APIs among those of a configuration."""

from pathlib import Path

import pytest

from apf_middleware.config import read
from apf_middleware.config.load import read_source

LEVEL = "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: a}\nspec: {shares: 5}\n"
SCHEMA = (
    "---\napiVersion: apf/v1\nkind: FlowSchema\nmetadata: {name: a}\nspec: {level: a, rules: [{httpRules: [{}]}]}\n"
)
ACCOUNT = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: controller}\n"
ROLE = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\nrules: []\n"


def test_objects_of_other_apis_are_warnings() -> None:
    reading = read_source(f"{LEVEL}{SCHEMA}{ACCOUNT}{ROLE}")

    assert reading.configuration is not None
    assert [(one.place.document, one.field, one.value) for one in reading.warnings] == [
        (3, "kind", "ServiceAccount"),
        (4, "kind", "ClusterRole"),
    ]


def test_they_can_be_skipped_without_warnings(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{LEVEL}{SCHEMA}{ACCOUNT}{ROLE}")

    assert read([tmp_path], skip_foreign=True).problems == ()


def test_a_list_can_contain_foreign_objects() -> None:
    text = '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod"}, {"kind": "Pod"}]}'

    reading = read_source(text)

    assert [one.field for one in reading.warnings] == ["items[0].kind"]
    assert [one.field for one in reading.errors] == ["items[1].apiVersion"]


@pytest.mark.parametrize("kind", ["List", "FlowSchemaList"])
def test_a_list_may_be_empty(kind: str) -> None:
    """As kubectl prints it if there are no such objects."""
    text = f"apiVersion: v1\nkind: {kind}\nitems: []\n"

    assert read_source(text).problems == ()
    [error] = read_source(text, allow_empty=False).errors
    assert error.rule.startswith("there must be an object")


def test_foreign_objects_may_have_keys_and_tags_that_ours_may_not_have() -> None:
    foreign = "---\napiVersion: v1\nkind: ConfigMap\ndata: {1: x, true: !ref y, a: 1, a: 2, b: {{ .z }}}\n"

    reading = read_source(f"{LEVEL}{foreign}{SCHEMA}")

    assert [one.rule for one in reading.problems] == ["this object is of another API, so it is ignored"]
    assert read_source(f"{foreign}---\na: [\n").errors[0].rule.startswith("the text must be YAML")
    assert len(read_source(f"{LEVEL}{SCHEMA}---\n{LEVEL.replace('name: a', '1: a')}").errors) == 2


def test_foreign_objects_of_a_list_may_have_such_keys_and_ours_may_not() -> None:
    foreign = "- {apiVersion: v1, kind: ConfigMap, data: {1: x}}\n"
    own = "- apiVersion: apf/v1\n  kind: Server\n  spec: {2: x}\n"

    for items in (f"{foreign}{own}", f"{own}{foreign}"):
        reading = read_source(f"apiVersion: v1\nkind: List\nitems:\n{items}")
        assert [one.rule for one in reading.errors] == ["a key must be text, and 2 isn't"]


@pytest.mark.parametrize(
    "text", ["resources: [a.yaml]\n", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"]
)
def test_a_directory_may_have_a_kustomization(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(f"{LEVEL}{SCHEMA}")
    (tmp_path / "kustomization.yaml").write_text(text)

    reading = read([tmp_path])

    assert reading.configuration is not None
    assert len(reading.warnings) == 1


@pytest.mark.parametrize(
    ("version", "kind", "field"),
    [
        ("v1", "FlowSchema", "apiVersion"),
        ("v1", "FlowSchemas", "apiVersion"),
        ("apf/v2", "Whatever", "apiVersion"),
        ("apf", "Thing", "apiVersion"),
        ("flowcontrol.apiserver.k8s.io/v2", "Whatever", "apiVersion"),
        ("flowcontrol.apiserver.k8s.oi/v1", "Whatever", "apiVersion"),
        ("apf/v1", "ServiceAccount", "kind"),
        ("apps/v1", "PriorityLevelConfig", "apiVersion"),
    ],
)
def test_a_similar_api_version_is_an_error(version: str, kind: str, field: str) -> None:
    errors = read_source(f"apiVersion: {version}\nkind: {kind}\n").errors

    assert [one.field for one in errors] == [field]


def test_an_api_version_is_suggested_for_an_object_without_one() -> None:
    [error] = read_source("kind: Server\nspec: {seats: 10}\n").errors

    assert (error.field, error.hint) == ("apiVersion", "Write apiVersion: apf/v1")


def test_the_whole_form_is_suggested_for_a_mapping_that_is_no_object() -> None:
    [error] = read_source("config: 5\n").errors

    assert (
        error.hint == "Write apiVersion: apf/v1, kind: FlowSchema or PriorityLevel or Server, and the rest below spec"
    )
