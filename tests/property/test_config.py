"""Configurations at random: order doesn't matter, what is written is read again, and no text does harm."""

import json
import time
from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.config import Reading, load_text, read, read_source
from apf_middleware.config.emit import emit
from tests.support.examples import examples

NAMES = st.sampled_from(["a", "b", "c", "users", "exempt", "catch-all", "system-top", "x.y"])
# fmt: off
KEYS = st.sampled_from([
    "apiVersion", "kind", "metadata", "meta", "spec", "name", "type", "rules", "match", "and", "equals", "field",
    "value", "set", "limited", "exempt", "queuing", "queues", "handSize", "level", "precedence", "subjects", "user",
    "group", "httpRules", "paths", "headers", "distinguisher", "source", "transform", "items", "shares",
    "limitResponse", "superSet", "resourceRules", "verbs", "namespaces", "seats", "routes", "gates", "waitLimit",
    "streams", "maxOpen", "releaseWhenBlocked",
    "nonResourceURLs", "status",
])
ODD = st.sampled_from([
    "apf/v1", "v1", "List", "FlowSchema", "Server", "PriorityLevel", "RequestPriority", "*", "(", "[[a", "/a/*",
    "{x}", "15s", "yes",
])
# fmt: on
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    ODD,
    st.sampled_from(["flowcontrol.apiserver.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchemaList"]),
    st.sampled_from(["PriorityLevelConfiguration", "exempt", "Exempt", "Limited", "Queue", "user", "groups"]),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=6),
    max_leaves=30,
)


def objects(spec: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Documents that look like something until one looks inside."""
    versions = ["apf/v1", "flowcontrol.apiserver.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1beta2", None]
    kinds = ["FlowSchema", "PriorityLevel", "Server", "PriorityLevelConfiguration", "RequestPriority", "List"]
    return st.fixed_dictionaries(
        {"apiVersion": st.sampled_from(versions), "kind": st.sampled_from(kinds), "spec": spec},
        optional={"metadata": st.fixed_dictionaries({"name": NAMES}), "meta": st.fixed_dictionaries({"name": NAMES})},
    ).map(lambda one: {key: value for key, value in one.items() if value is not None})


def quickly(text: str | bytes) -> Reading:
    """Return the result, which must come within a second."""
    began = time.thread_time()
    reading = read_source(text)
    for problem in reading.problems:
        assert str(problem)
        json.dumps(problem.as_dict())
    assert time.thread_time() - began < 1
    assert (reading.configuration is None) == bool(reading.errors)
    return reading


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")))
@examples(80)
def test_arbitrary_bytes_are_handled(raw: bytes) -> None:
    quickly(raw)


@given(st.text(alphabet="ab:-?[]{}&*!|>'\"#%@`,\n\t <~0", max_size=200))
@examples(80)
def test_arbitrary_punctuation_is_handled(text: str) -> None:
    quickly(text)


@given(st.lists(TREES | objects(TREES), max_size=4))
@examples(80)
def test_arbitrary_structures_are_handled(trees: list[Any]) -> None:
    quickly(yaml.safe_dump_all(trees))
    for tree in trees:
        quickly(json.dumps(tree))


# What is well-formed


def subsets(*values: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), unique=True, min_size=1, max_size=3)


SUBJECTS = st.one_of(
    st.builds(lambda name: {"user": name}, NAMES),
    st.builds(lambda name: {"group": name}, NAMES),
    st.builds(lambda name: {"serviceAccount": {"namespace": "ns", "name": name}}, NAMES),
)
HTTP_RULES = st.fixed_dictionaries(
    {},
    optional={
        "methods": subsets("GET", "POST", "PUT"),
        "paths": subsets("/a", "/a/*", "/b/{x}", "/*", "/c/*/d"),
        "hosts": subsets("example.com", "*.example.com"),
        "headers": st.just([{"name": "x-a", "values": ["b"]}, {"name": "x-b", "absent": True}]),
        "query": st.just([{"name": "Q", "pattern": "[0-9]+"}]),
    },
)
RULES = st.fixed_dictionaries(
    {"httpRules": st.lists(HTTP_RULES, min_size=1, max_size=3)},
    optional={"subjects": st.lists(SUBJECTS, min_size=1, max_size=3)},
)
TESTS = st.one_of(
    st.builds(
        lambda op, value: {op: {"field": "user", "value": value}}, st.sampled_from(["equals", "notEquals"]), NAMES
    ),
    st.builds(lambda op: {op: None, "field": "groups", "set": ["a", "b"]}, st.sampled_from(["superSet", "notInSet"])),
    st.just({"patternMatch": {"field": "path", "pattern": "/a.*"}}),
)
DISTINGUISHERS = st.sampled_from(
    [
        {"source": "user", "transform": "(a).*"},
        {"source": "header", "name": "X-Tenant"},
        {"source": "clientAddress", "prefixV4": 16},
        {"source": "group", "groups": ["t-*"]},
        {"source": "callable", "callable": "builtins:repr"},
    ]
)
WEIGHTS = st.integers(1, 1000) | st.floats(0.01, 1000)
PATTERNS = st.text(st.characters(exclude_characters="*", exclude_categories=["Cs", "Cc"]), max_size=5).map(
    lambda name: f"{name}*" if len(name) > 2 else name
)
SCHEMA_SPECS = st.fixed_dictionaries(
    {
        "level": NAMES,
        "precedence": st.integers(2, 10_000),
        "rules": st.lists(RULES, min_size=1, max_size=3),
        "match": st.lists(st.fixed_dictionaries({"and": st.lists(TESTS, max_size=3)}), max_size=2),
    },
    optional={
        "distinguisher": DISTINGUISHERS,
        "weight": WEIGHTS,
        "groupWeights": st.dictionaries(PATTERNS.filter(bool), WEIGHTS, max_size=3),
        "weightFunction": st.just("builtins:hash"),
    },
)
WEIGHTED_SCHEMA_SPECS = st.builds(
    lambda spec, distinguisher, weights: spec | {"distinguisher": distinguisher, "weights": weights},
    SCHEMA_SPECS,
    DISTINGUISHERS,
    st.dictionaries(PATTERNS, WEIGHTS, max_size=3),
)
AMOUNTS = st.integers(0, 50)
STREAMS: dict[str, st.SearchStrategy[Any]] = {
    "releaseAtStart": st.booleans(),
    "releaseWhenBlocked": st.sampled_from(["0s", "250ms", "1m"]),
}
BODIES: dict[str, st.SearchStrategy[Any]] = {
    "holdSeats": st.booleans(),
    "buffer": st.sampled_from(["1B", "64KiB"]),
    "minRate": st.sampled_from(["0B", "1025B"]),
    "patience": st.sampled_from(["250ms", "1m"]),
    "maxReceiving": st.integers(1, 1000),
    "maxBuffered": st.sampled_from(["1MiB", "1GiB"]),
    "anyMethod": st.booleans(),
}
LEVEL_SPECS = st.fixed_dictionaries(
    {
        "shares": st.integers(0, 200),
        "lendablePercent": st.integers(0, 100),
        "queuing": st.fixed_dictionaries(
            {"queues": st.integers(8, 1000), "handSize": st.integers(1, 6)}, optional={"backfill": st.integers(0, 9)}
        )
        | st.fixed_dictionaries(
            {"queues": st.just("exact")},
            optional={"maxQueues": st.integers(1, 1000), "sharedQueues": st.integers(1, 20)},
        ),
    },
    optional={
        "borrowingLimitPercent": st.integers(0, 300),
        "minSeats": st.integers(0, 5),
        "maxSeats": st.integers(5, 10),
        "waitLimit": st.sampled_from(["0s", "15s", "1m30s", "1.5s"]),
        "gates": st.just(["db"]),
        "streams": st.fixed_dictionaries({}, optional=STREAMS | {"maxOpen": st.just(50), "maxOpenPerFlow": AMOUNTS}),
    },
)


@st.composite
def configurations(draw: st.DrawFn) -> list[dict[str, Any]]:
    own = st.sampled_from([f"n{number}" for number in range(8)])
    documents = [
        {"apiVersion": "apf/v1", "kind": kind, "metadata": {"name": name}, "spec": draw(spec)}
        for kind, spec in (("PriorityLevel", LEVEL_SPECS), ("FlowSchema", SCHEMA_SPECS | WEIGHTED_SCHEMA_SPECS))
        for name in draw(st.lists(own, unique=True, max_size=4))
    ]
    server = {"defaults": draw(st.sampled_from(["web", "kubernetes", "none"])), "seats": draw(st.integers(1, 500))}
    server["streams"] = draw(st.fixed_dictionaries({}, optional=STREAMS))
    server["bodies"] = draw(st.fixed_dictionaries({}, optional=BODIES))
    return [*documents, {"apiVersion": "apf/v1", "kind": "Server", "spec": server}]


@given(configurations(), st.randoms(use_true_random=False))
@examples(25)
def test_order_of_documents_and_files_does_not_matter(documents: list[dict[str, Any]], random: Any) -> None:  # noqa: ANN401
    shuffled = random.sample(documents, len(documents))
    expected = load_text(yaml.safe_dump_all(documents))

    assert load_text(yaml.safe_dump_all(shuffled)) == expected
    assert load_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": shuffled})) == expected
    assert [(one.precedence, one.name) for one in expected.schemas] == sorted(
        (one.precedence, one.name) for one in expected.schemas
    )


@given(configurations())
@examples(25)
def test_a_written_configuration_reads_back_equal(documents: list[dict[str, Any]]) -> None:
    configuration = load_text(yaml.safe_dump_all(documents))
    text = emit(configuration)

    assert load_text(text) == configuration
    assert emit(load_text(text)) == text


def test_files_are_sorted_for_any_order_of_paths(tmp_path_factory: Any) -> None:  # noqa: ANN401
    folder = tmp_path_factory.mktemp("config")
    for name in "abc":
        (folder / f"{name}.yaml").write_text(
            f"apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: {name}}}\nspec: {{}}\n"
        )
    paths = sorted(folder.iterdir())

    assert read(paths) == read(list(reversed(paths))) == read([folder])


FEW = {"apiVersion": "apf/v1", "kind": "FlowSchema", "metadata": {"name": "s"}}
MANY = 9_000


@cache
def floods() -> dict[str, Any]:
    rule = {"subjects": [{"user": "a"}], "httpRules": [{"methods": ["GET"]}]}
    kubernetes = {**FEW, "apiVersion": "flowcontrol.apiserver.k8s.io/v1"}
    twins = {"kind": "FlowSchema", "meta": {"name": "s"}}
    spec: dict[str, Any] = {"requestPriority": {"name": "l"}}
    return {
        "unknown keys": {**FEW, "spec": {f"precedense{n}": n for n in range(MANY)}},
        "unknown keys of many": [{**FEW, "metadata": {"name": f"s{n}"}, "spec": {f"lvl{n}": 1}} for n in range(6_000)],
        "wrong items": {**FEW, "spec": {"level": "l", "rules": list(range(MANY))}},
        "one value many times": {
            **FEW,
            "spec": {"level": "l", "rules": [{"httpRules": [{"methods": ["GET"] * MANY}]}]},
        },
        "many paths": {
            **FEW,
            "spec": {"level": "l", "rules": [{"httpRules": [{"paths": [f"/{n}" for n in range(MANY)]}]}]},
        },
        "wrong weights": {**FEW, "spec": {"level": "l", "weights": {f"*{n}": n for n in range(MANY)}}},
        "conditions": {**kubernetes, "status": {"conditions": [{"type": "a"}] * MANY}},
        "subjects by rules": {
            **FEW,
            "spec": {
                "level": "exempt",
                "rules": [
                    {
                        "subjects": [{"user": f"u{n}"} for n in range(4_000)],
                        "httpRules": [{"paths": [f"/{n}"]} for n in range(4_000)],
                    }
                ],
            },
        },
        "many schemas": [
            {**FEW, "metadata": {"name": f"s{n}"}, "spec": {"level": "exempt", "precedence": 9, "rules": [rule]}}
            for n in range(1_500)
        ],
        "many twins": [
            {**twins, "spec": {**spec, "matchingPriority": 2 + n, "match": [{"and": []}]}} for n in range(3_000)
        ],
        "tests": {
            **FEW,
            "spec": {"level": "exempt", "match": [{"and": [{"equals": {"field": "user", "value": "a"}}] * MANY}]},
        },
    }


@pytest.mark.parametrize("name", floods())
def test_rejecting_a_flood_takes_seconds_at_most(name: str) -> None:
    """As much as one file may hold, of whatever might take longer than in proportion."""
    flood = floods()[name]
    whole = {"apiVersion": "v1", "kind": "List", "items": flood} if isinstance(flood, list) else flood
    text = json.dumps(whole)
    began = time.thread_time()
    problems = read_source(text).problems

    took = time.thread_time() - began
    print(name, len(text), len(problems), took)
    assert took < 15  # what grows with the square takes minutes; a busy machine takes several times as long
