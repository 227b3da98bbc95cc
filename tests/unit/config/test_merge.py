"""Documents merged into one configuration."""

import itertools
from pathlib import Path

import pytest

from apf_middleware.classification import ANONYMOUS, Classifier, Identity, RequestDigest
from apf_middleware.config import Queuing, load, load_text, read, read_source
from apf_middleware.config.merge import AUTO_UPDATE, Defaults
from apf_middleware.fairqueuing import flow_hash
from apf_middleware.fairqueuing.sharing.limits import LevelShares
from tests.support.kep_documents import LEVEL, SCHEMA
from tests.support.linted_documents import level

EXAMPLE = Path(__file__).parent / "data" / "kep-example.yaml"
KUBECTL = Path(__file__).parent / "data" / "kubectl.yaml"
EXAMPLES = Path(__file__).parents[3] / "examples" / "config"


def schema(name: str, more: str = "") -> str:
    spec = f"{{level: exempt, rules: [{{httpRules: [{{}}]}}]{more}}}"
    return f"---\napiVersion: apf/v1\nkind: FlowSchema\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def test_without_anything_the_web_defaults_hold() -> None:
    configuration = load()

    assert list(configuration.levels) == ["anonymous", "catch-all", "exempt", "users"]
    assert [one.name for one in configuration.schemas] == [
        "exempt",
        "probes",
        "metrics",
        "cors-preflights",
        "authenticated-users",
        "anonymous-clients",
        "catch-all",
    ]
    assert configuration.levels["catch-all"].shares == LevelShares(5)
    assert configuration.levels["catch-all"].queuing is None
    assert configuration.server.defaults == "web"


@pytest.mark.parametrize(("defaults", "schemas", "levels"), [("web", 7, 4), ("kubernetes", 11, 8), ("none", 2, 2)])
def test_defaults_can_be_chosen(defaults: Defaults, schemas: int, levels: int) -> None:
    said = load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{defaults: {defaults}}}")

    assert (len(said.schemas), len(said.levels)) == (schemas, levels)
    assert load(defaults=defaults) == said
    assert load_text("apiVersion: apf/v1\nkind: Server\nspec: {defaults: web}", defaults=defaults).levels == said.levels


@pytest.mark.parametrize("defaults", ["web", "kubernetes"])
def test_suggested_schemas_have_their_levels_with_any_backstops(defaults: Defaults) -> None:
    server = "apiVersion: apf/v1\nkind: Server\nspec: {{defaults: {}, backstops: {}}}"
    usual, kep = (load_text(server.format(defaults, backstops)) for backstops in ("kubernetes", "kep"))

    assert {one.name for one in usual.schemas} - {one.name for one in kep.schemas} == {"exempt", "catch-all"}
    assert kep.levels["exempt"] == usual.levels["exempt"]


def test_defaults_follow_the_format() -> None:
    assert load(KUBECTL).server.defaults == "none"
    assert load(EXAMPLE).server.backstops == "kep"
    mixed = load(KUBECTL, EXAMPLE)
    assert (mixed.server.defaults, mixed.server.backstops) == ("none", "kubernetes")
    assert {"exempt", "catch-all", "reports", "system-top"} <= mixed.levels.keys()
    assert load_text(level("a")).server.defaults == "web"


def test_suggested_objects_give_way_to_those_of_the_same_name() -> None:
    configuration = load_text(level("users", "{shares: 7}") + schema("probes"))

    assert configuration.levels["users"].shares == LevelShares(7)
    assert [one.precedence for one in configuration.schemas if one.name == "probes"] == [1000]


def test_our_own_catch_all_may_be_stronger_but_not_exempt() -> None:
    assert load_text(level("catch-all", "{shares: 50}")).levels["catch-all"].queuing == Queuing(backfill=2)
    [problem] = read_source(level("catch-all", "{type: Exempt}")).errors
    assert "must not be exempt" in problem.rule


def test_a_name_is_given_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(level("x") + schema("x"))
    (tmp_path / "b.yaml").write_text(schema("y") + level("x"))

    [problem] = read([tmp_path]).errors

    assert (problem.place.file, problem.place.document) == (str(tmp_path / "b.yaml"), 2)
    assert problem.rule == f"{tmp_path / 'a.yaml'}:4 (document 1) has a level of this name already"


def test_a_copy_of_a_kep_schema_is_dropped() -> None:
    other = SCHEMA.replace("alice", "bob")

    reading = read_source(f"{LEVEL}---\n{SCHEMA}---\n{other}---\n{other}")

    assert [one.name for one in reading.unwrap().schemas if one.level == "l" and one.precedence == 500] == ["s", "s-2"]
    assert ["is called 's-2'" in one.rule for one in reading.warnings if one.field == "meta.name"] == [True]


def test_there_is_one_server() -> None:
    [problem] = read_source(
        "apiVersion: apf/v1\nkind: Server\nspec: {}\n---\napiVersion: apf/v1\nkind: Server\nspec: {}"
    ).errors

    assert "only one Server" in problem.rule


def test_dangling_schemas_are_ignored() -> None:
    reading = read_source(schema("s").replace("level: exempt", "level: nowhere"))

    assert "s" not in [one.name for one in reading.unwrap().schemas]
    assert any("no such level" in one.rule for one in reading.warnings)


def test_the_order_of_documents_does_not_matter(tmp_path: Path) -> None:
    documents = [
        level("a"),
        level("b"),
        schema("s", ", precedence: 7"),
        schema("r", ", precedence: 7"),
        "apiVersion: apf/v1\nkind: Server\nspec: {}\n",
    ]
    expected = load_text("---\n".join(documents))

    for order in itertools.islice(itertools.permutations(documents), 0, 120, 7):
        assert load_text("---\n".join(order)) == expected
    assert [one.name for one in expected.schemas if one.precedence == 7] == ["r", "s"]


@pytest.mark.parametrize(
    ("text", "field", "hint"),
    [
        ("apiVersion: apf/v2\nkind: Server\n", "apiVersion", "Did you mean apf/v1?"),
        ("apiVersion: apf/v1\nkind: PriorityLvl\n", "kind", "Did you mean PriorityLevel?"),
        ("apiVersion: apf/v1\nkind: Scenario\n", "kind", "apf simulate reads it"),
        ("kind: Server\n", "apiVersion", "Write apiVersion: apf/v1"),
        ("- a\n", "the document", ""),
        ("apiVersion: v1\nkind: List\nitems: {}\n", "items", ""),
        ("apiVersion: v1\nkind: List\nitems: [1]\n", "items[0]", ""),
    ],
)
def test_documents_that_are_no_objects_are_reported(text: str, field: str, hint: str) -> None:
    [problem] = read_source(text).errors

    assert (problem.field, problem.hint) == (field, hint)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_load_without_a_warning(path: Path) -> None:
    assert read([path]).problems == ()


@pytest.mark.parametrize(
    ("digest", "schema", "flow"),
    [
        (RequestDigest(ANONYMOUS, "get", "/x", client_address="10.1.2.3"), "anonymous-clients", "10.1.2.0/24"),
        (RequestDigest(Identity("alice", ("system:authenticated",)), "get", "/x"), "authenticated-users", "alice"),
        (RequestDigest(ANONYMOUS, "get", "/healthz"), "probes", ""),
        (
            RequestDigest(ANONYMOUS, "post", "/healthz", method="POST", client_address="::1"),
            "anonymous-clients",
            "::/56",
        ),
        (RequestDigest(ANONYMOUS, "get", "/metrics"), "metrics", ""),
        (RequestDigest(Identity("root", ("system:masters",)), "get", "/x"), "exempt", ""),
        (RequestDigest(Identity("nobody"), "get", "/x"), "catch-all", ""),
        (
            RequestDigest(
                ANONYMOUS, "options", "/x", "OPTIONS", headers={"origin": "a", "access-control-request-method": "PUT"}
            ),
            "cors-preflights",
            "",
        ),
    ],
)
def test_the_web_defaults_take_what_they_are_for(digest: RequestDigest, schema: str, flow: str) -> None:
    configuration = load()
    classifier = Classifier(
        configuration.schemas,
        hash_flow=flow_hash,
        fallback=configuration.fallback,
        masters_fallback=configuration.masters_fallback,
        flowless_levels=configuration.flowless_levels,
    )

    classification = classifier.classify(digest)

    assert (classification.schema, classification.flow) == (schema, flow)


def test_a_schema_that_is_ignored_has_no_estimate_and_no_gates() -> None:
    """Otherwise a server wouldn't start without its gates."""
    spec = "{level: none, gates: [db], estimate: {seats: 2}, rules: []}"
    text = f"apiVersion: apf/v1\nkind: FlowSchema\nmetadata: {{name: s}}\nspec: {spec}\n"

    configuration = load_text(text)

    assert (configuration.gates, configuration.estimates) == ({}, {})


def test_a_copy_of_a_suggested_schema_has_none_of_its_own_settings() -> None:
    text = f"""\
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: authenticated-users, annotations: {{{AUTO_UPDATE}: "true"}}}}
spec: {{level: users, gates: [db], estimate: {{seats: 2}}, rules: []}}
"""

    configuration = load_text(text)

    assert (configuration.gates, configuration.estimates) == ({}, {})
