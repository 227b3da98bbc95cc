"""The classifier: which schema wins, and what is cached."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from apf_middleware.classification import (
    Classification,
    Distinguisher,
    FlowSchema,
    FlowWeights,
    GroupSubject,
    HttpRule,
    Identity,
    RequestDigest,
    Resource,
    Rule,
    Source,
    ValueMatch,
)
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import flow_hash
from tests.support.builds import raises_for_wrong_type
from tests.support.schemas import LAST, classifier, schema

ANN = Identity("ann", ("dev",))
DIGEST = RequestDigest(ANN, "get", "/a")


def test_the_lowest_precedence_wins_and_then_the_name() -> None:
    ours = classifier(schema("b", 5), schema("c", 5), schema("a", 6), schema("z", 4, paths=("/x",)))

    assert ours.classify(DIGEST).schema == "b"
    assert ours.classify(replace(DIGEST, path="/x")).schema == "z"
    assert [one.name for one in ours.schemas] == ["z", "b", "c", "a"]


def test_unmatched_requests_get_a_fallback() -> None:
    ours = classifier()
    root = replace(DIGEST, identity=Identity("root", ("system:masters",)))

    assert ours.classify(DIGEST) == Classification("last", "catch-all", "ann", flow_hash("last", "ann"))
    assert ours.classify(root) == Classification("top", "exempt", "", flow_hash("top", ""))
    assert classifier(masters_fallback=None).classify(root).schema == "last"


def test_a_level_without_flows_has_neither_distinguisher_nor_entropy() -> None:
    ours = classifier(schema("a", distinguisher=Distinguisher(Source.USER)), flowless_levels=["level-a", "catch-all"])

    assert ours.classify(DIGEST) == Classification("a", "level-a", "", 0)
    assert classifier(flowless_levels=["catch-all"]).classify(DIGEST) == Classification("last", "catch-all", "", 0)


def test_a_fallback_may_share_the_name_of_a_schema() -> None:
    ours = classifier(schema("last", paths=("/x",)))

    for path, level in (("/x", "level-last"), ("/y", "catch-all"), ("/x/1", "level-last"), ("/z", "catch-all")):
        found = ours.classify(replace(DIGEST, path=path, identity=Identity("")))
        assert (found.schema, found.level, found.flow) == ("last", level, "")


def test_a_url_that_ends_with_a_star_within_a_segment_is_also_the_path_that_does() -> None:
    ours = classifier(schema("a", paths=("/a*",)))

    assert ours.classify(replace(DIGEST, path="/a*")).schema == "a"
    assert ours.classify(replace(DIGEST, path="/a/b")).schema == "a"
    assert ours.classify(replace(DIGEST, path="/ab")).schema == "last"


def test_a_cached_decision_is_the_same_object() -> None:
    ours = classifier(schema("a"))

    assert ours.classify(DIGEST) is ours.classify(replace(DIGEST))


@pytest.mark.parametrize(
    ("source", "one", "other"),
    [
        ({"source": Source.HEADER, "argument": "k"}, {"headers": {"k": "1"}}, {"headers": {"k": "2"}}),
        ({"source": Source.QUERY, "argument": "k"}, {"query": {"k": "1"}}, {"query": {"k": "2"}}),
        ({"source": Source.CLIENT_ADDRESS}, {"client_address": "1.2.3.4"}, {"client_address": "1.2.4.4"}),
        (
            {"source": Source.PATH_PARAMETER, "argument": "k"},
            {"path_parameters": {"k": "1"}},
            {"path_parameters": {"k": "2"}},
        ),
        ({"source": Source.CALLABLE, "function": lambda digest: digest.host}, {"host": "1"}, {"host": "2"}),
    ],
)
def test_a_flow_is_computed_again_if_it_depends_on_more_than_the_cache_key(
    source: dict[str, Any], one: dict[str, Any], other: dict[str, Any]
) -> None:
    ours = classifier(schema("a", distinguisher=Distinguisher(**source)))

    flows = [ours.classify(replace(DIGEST, **facts)).flow for facts in (one, other, one)]

    assert flows[0] == flows[2] != flows[1]
    assert len(ours._decisions) == 1


def test_a_flow_has_the_weight_of_its_name_or_its_schema() -> None:
    weights = FlowWeights(2, (("ann", 4), ("a*", 3)))
    ours = classifier(schema("a", distinguisher=Distinguisher(Source.USER), weights=weights), schema("b", 2000))

    for name, weight in (("ann", 4), ("amy", 3), ("bob", 2), ("ann", 4)):
        assert ours.classify(replace(DIGEST, identity=Identity(name))).weight == weight
    assert classifier(schema("a")).classify(DIGEST).weight == 1


def test_the_weight_follows_the_groups_of_each_caller_of_one_flow() -> None:
    weights = FlowWeights(2, groups=(("gold", 4), ("iron", 0.5)))
    ours = classifier(schema("a", weights=weights))

    for _ in range(2):
        found = [
            ours.classify(replace(DIGEST, identity=Identity("ann", groups)))
            for groups in (("gold",), ("iron",), (), ("iron", "gold"))
        ]
        assert [one.weight for one in found] == [4, 0.5, 2, 4]
        assert {(one.schema, one.level, one.flow, one.entropy) for one in found} == {found[0][:4]}
    gold = replace(DIGEST, identity=Identity("ann", ("gold",)))
    assert ours.classify(gold) is ours.classify(replace(gold))


def test_a_function_weighs_each_request_again() -> None:
    weights = FlowWeights(2, function=lambda digest: 8 if digest.headers.get("k") else None)
    ours = classifier(schema("a", weights=weights))

    found = [ours.classify(replace(DIGEST, headers=headers)).weight for headers in ({"k": "1"}, {}, {"k": "2"})]

    assert found == [8, 2, 8]
    assert len(ours._decisions) == 1


def test_a_wrong_weight_of_a_function_is_an_error_that_names_the_schema() -> None:
    ours = classifier(schema("a", weights=FlowWeights(function=lambda _: -1)))

    for _ in range(2):
        with pytest.raises(InvalidValueError, match="weight of the schema 'a' by its function is -1"):
            ours.classify(DIGEST)


def test_a_level_without_flows_has_no_weights() -> None:
    weights = FlowWeights(2, (("ann", 4),), (("dev", 8),), lambda _: 16)
    own = schema("a", distinguisher=Distinguisher(Source.USER), weights=weights)

    assert classifier(own).classify(DIGEST).weight == 16
    assert classifier(own, flowless_levels=["level-a"]).classify(DIGEST).weight == 1


def test_a_fallback_with_the_name_of_a_schema_has_its_own_weights() -> None:
    last = replace(LAST, weights=FlowWeights(4))
    ours = classifier(replace(last, rules=schema("x", paths=("/x",)).rules, weights=None), fallback=last)

    found = [ours.classify(replace(DIGEST, path=path)).weight for path in ("/x", "/y", "/x/1", "/z")]
    assert found == [1, 4, 1, 4]


def test_the_caches_are_bounded_in_entries() -> None:
    ours = classifier(schema("a", distinguisher=Distinguisher(Source.USER)), remembered=10)
    for n in range(1000):
        ours.classify(RequestDigest(Identity(f"user-{n}"), "get", f"/{n}"))

    assert len(ours._decisions) <= 20
    assert len(ours._plans) <= 20
    assert len(ours._flows) <= 20


def test_long_keys_are_not_cached() -> None:
    ours = classifier(
        schema("a", 1, paths=("/x",)),
        FlowSchema("b", "l", rules=(Rule((GroupSubject("g"),), http_rules=(HttpRule(headers=(ValueMatch("k"),)),)),)),
    )
    long = "x" * 100_000
    for digest in (
        replace(DIGEST, path="/" + long),
        replace(DIGEST, verb=long),
        replace(DIGEST, headers={"k": long}),
        replace(DIGEST, identity=Identity(long)),
        replace(DIGEST, identity=Identity("ann", (long,))),
        replace(DIGEST, identity=Identity("ann", ("",) * 5000)),
        replace(DIGEST, resource=Resource("r", namespace=long)),
    ):
        assert ours.classify(digest) == ours.classify(digest)

    assert len(ours._decisions) == 0
    assert len(ours._flows) <= 1
    assert len(ours._plans) == 1


def test_a_flow_with_a_long_name_is_known_by_its_beginning_and_a_hash() -> None:
    hashed: list[str] = []

    def hash_flow(_schema: str, flow: str) -> int:
        hashed.append(flow)
        return 7

    by_header = schema("a", distinguisher=Distinguisher(Source.HEADER, "k"))
    ours = classifier(by_header, hash_flow=hash_flow)
    names = ["x" * 256, "x" * 257, "x" * 256 + "y", "\ud800" * 60_000]
    flows = [ours.classify(replace(DIGEST, headers={"k": name})).flow for name in names]

    assert flows[0] == names[0]
    assert len(set(flows)) == 4
    assert {len(flow) for flow in flows} == {256}
    assert flows[1].startswith("xxxxxxxx")
    assert hashed == names  # the same queues as in Kubernetes


def test_an_explanation_says_why_earlier_schemas_did_not_match() -> None:
    ours = classifier(schema("a", 1, paths=("/x",)), schema("b", 2), schema("c", 3))
    explanation = ours.explain(DIGEST)

    assert explanation.classification == ours.classify(DIGEST)
    assert explanation.passed_over == (("a", "the path '/a' is not in ['/x']"),)
    assert not explanation.fallback
    assert classifier().explain(DIGEST).fallback


def test_the_repr_shows_the_number_of_schemas() -> None:
    ours = classifier(schema("a"))
    ours.classify(DIGEST)

    assert repr(ours) == "Classifier: 1 schemas, 1 decisions remembered"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: classifier(schema("a"), schema("a", 2)), "name of a schema is 'a', but another schema has the same"),
        (lambda: classifier(hash_flow=7), "hash_flow is 7"),
        (lambda: classifier(remembered=0), "remembered is 0, but it must be at least 1"),
        (lambda: classifier(flowless_levels="exempt"), "flowless_levels is 'exempt'"),
    ],
)
def test_invalid_arguments_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        make()

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: classifier("a"), "schema is 'a', but it must be a FlowSchema"),  # type: ignore[arg-type]
        (lambda: classifier(fallback=None), "fallback is None"),
        (lambda: classifier(masters_fallback="x"), "masters_fallback is 'x'"),
    ],
)
def test_arguments_of_a_wrong_type_are_refused(make: Callable[[], object], message: str) -> None:
    with raises_for_wrong_type(message):
        make()
