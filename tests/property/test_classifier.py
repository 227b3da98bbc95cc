"""The classifier against its plain twin, and what must hold whatever the schemas."""

import random
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.classification import (
    AnySubject,
    Classifier,
    Conjunction,
    Distinguisher,
    Field,
    FlowSchema,
    FlowWeights,
    GroupSubject,
    HttpRule,
    Identity,
    NonResourceRule,
    Operator,
    RequestDigest,
    Resource,
    ResourceRule,
    Rule,
    ServiceAccountSubject,
    Source,
    UserSubject,
    ValueMatch,
    accepts,
    why_not,
)
from apf_middleware.classification import AtomicTest as Atom  # under its own name pytest would collect it
from apf_middleware.fairqueuing import flow_hash
from tests.support import classifier_twin as twin
from tests.support.examples import examples

FALLBACK = FlowSchema("fallback", "last", distinguisher=Distinguisher(Source.USER))
MASTERS = FlowSchema("masters-fallback", "exempt")

USERS = ("ann", "bob", "", "system:serviceaccount:ns1:robot", "system:serviceaccount:ns1-x:a:b")
GROUPS = ("dev", "ops", "system:masters", "tenant:1", "tenant:2")
NAMESPACES = ("", "ns1", "ns1-x", "ns1-x:a", "ns2")
RESOURCES = ("pods", "nodes", "leases")
SEGMENTS = ("a", "b", "ab", "", "a*")
VERBS = ("get", "list", "post", "delete")
HOSTS = ("example.com", "a.example.com", "A.Example.com:8080", "b.a.example.com.", "")
VALUES = ("x", "y", "xy", "")
REGEXES = ("x.*", ".*y", "", "(x|y)+", "a.*")


def some(values: tuple[str, ...], least: int = 0) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), min_size=least, max_size=3, unique=True).map(tuple)


def listed(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.just(("*",)) | some((*values, "*"))


paths = st.lists(st.sampled_from(SEGMENTS), max_size=4).map(lambda parts: "/" + "/".join(parts)) | st.sampled_from(
    ("", "*", "a/b")
)
urls = st.builds(lambda path, star: path + star, paths, st.sampled_from(("", "*", "/*")))
parts = st.lists(st.sampled_from(("a", "b", "{p}", "{q}", "*", "")), min_size=1, max_size=4, unique=True)
templates = st.just("*") | parts.map(lambda segments: "/" + "/".join(segments))
subjects: st.SearchStrategy[AnySubject] = st.one_of(
    st.sampled_from((*USERS, "*")).map(UserSubject),
    st.sampled_from((*GROUPS, "*")).map(GroupSubject),
    st.builds(ServiceAccountSubject, st.sampled_from(NAMESPACES), st.sampled_from(("*", "robot", "a:b", ""))),
)
resource_rules = st.builds(
    ResourceRule,
    verbs=listed(VERBS),
    api_groups=listed(("", "apps")),
    resources=listed((*RESOURCES, "pods/log")),
    namespaces=listed(NAMESPACES),
    cluster_scope=st.booleans(),
)
non_resource_rules = st.builds(NonResourceRule, listed(VERBS), st.lists(urls, max_size=3).map(tuple))
value_matches = st.one_of(
    st.builds(ValueMatch, st.sampled_from(("X-One", "two")), values=some(VALUES)),
    st.builds(ValueMatch, st.sampled_from(("X-One", "two")), some(VALUES), st.sampled_from(REGEXES)),
    st.builds(ValueMatch, st.sampled_from(("X-One", "two")), absent=st.just(True)),  # noqa: FBT003
)
http_rules = st.builds(
    HttpRule,
    methods=st.just(()) | listed(("GET", "post")).map(lambda methods: tuple(method for method in methods if method)),
    paths=st.lists(templates, max_size=2).map(tuple),
    hosts=some(("example.com", "*.example.com", "a.EXAMPLE.com")),
    headers=st.lists(value_matches, max_size=1).map(tuple),
    query=st.lists(value_matches, max_size=1).map(tuple),
)
rules = st.builds(
    Rule,
    st.lists(subjects, max_size=3).map(tuple),
    st.lists(resource_rules, max_size=2).map(tuple),
    st.lists(non_resource_rules, max_size=2).map(tuple),
    st.lists(http_rules, max_size=2).map(tuple),
)
FIELD_VALUES: dict[Field, tuple[str, ...]] = {
    Field.USER: USERS,
    Field.UID: ("1", "2"),
    Field.GROUPS: GROUPS,
    Field.VERB: VERBS,
    Field.METHOD: ("GET", "POST"),
    Field.PATH: ("/", "/a", "/a/b", "/b"),
    Field.HOST: ("example.com", "a.example.com"),
    Field.API_GROUP: ("", "apps"),
    Field.VERSION: ("", "v1"),
    Field.RESOURCE: ("", *RESOURCES),
    Field.SUBRESOURCE: ("", "log"),
    Field.NAMESPACE: NAMESPACES,
    Field.NAME: ("", "x", "y"),
}


@st.composite
def atoms(draw: st.DrawFn) -> Atom:
    field, operator = draw(st.sampled_from(list(Field))), draw(st.sampled_from(list(Operator)))
    values = some(FIELD_VALUES[field], 1)
    if operator is Operator.EQUALS:
        values = values.map(lambda found: found[:1])
    elif operator is Operator.PATTERN_MATCH:
        values = st.sampled_from(("", ".*", ".*a.*", "(?:x|/a).*", "system:.*")).map(lambda regex: (regex,))
    return Atom(field, operator, draw(values), inverted=draw(st.booleans()))


conjunctions = st.lists(atoms(), max_size=3).map(lambda found: Conjunction(tuple(found)))
distinguishers = st.none() | st.one_of(
    *(
        st.builds(Distinguisher, st.just(source), transform=st.sampled_from((None, "(x|ns1|ann).*", ".*(y)?")), **more)
        for source, more in (
            (Source.USER, {}),
            (Source.NAMESPACE, {}),
            (Source.GROUP, {"groups": some(("dev", "tenant:*", "*"), 1)}),
            (Source.HEADER, {"argument": st.just("X-One")}),
            (Source.QUERY, {"argument": st.just("two")}),
            (Source.PATH_PARAMETER, {"argument": st.sampled_from(("p", "q"))}),
        )
    )
)


def entries(*names: str) -> st.SearchStrategy[tuple[tuple[str, float], ...]]:
    weights = st.floats(0.01, 1000)
    return st.dictionaries(st.sampled_from(names), weights, max_size=3).map(lambda found: tuple(found.items()))


def weight_by_headers(digest: RequestDigest) -> float | None:
    """Weigh by facts that no cache of decisions has in its key, unless a rule happens to read them."""
    return {"x": 7.0, "y": 0.25}.get(digest.headers.get("x-one", ""))


weights = st.none() | st.builds(
    FlowWeights,
    st.floats(0.01, 1000),
    entries("ann", "a*", "", "*", "x", "ns1", "ns*", "tenant:*", "dev"),
    entries("dev", "tenant:*", "tenant:1", "*", "t*", "nobody"),
    st.sampled_from((None, weight_by_headers)),
)


@st.composite
def schema_lists(draw: st.DrawFn) -> list[FlowSchema]:
    accepting = st.lists(rules | conjunctions, max_size=3).map(tuple)
    bodies = draw(st.lists(st.tuples(st.integers(1, 3), accepting, distinguishers, weights), max_size=6))
    names = draw(st.permutations([f"s{n}" for n in range(len(bodies))]))
    schemas = []
    for name, (precedence, alternatives, distinguisher, weighed) in zip(names, bodies, strict=True):
        if weighed is not None and distinguisher is None:
            weighed = replace(weighed, flows=())  # noqa: PLW2901 - flows without a distinguisher have no names
        one = FlowSchema(name, f"level-{name}", precedence, alternatives, distinguisher, weights=weighed)
        schemas.append(one)
    return schemas


identities = st.builds(Identity, st.sampled_from(USERS), some(GROUPS), st.sampled_from(("", "1", "2")))
resources = st.builds(
    Resource,
    st.sampled_from((*RESOURCES, "")),
    st.sampled_from(("", "apps")),
    st.sampled_from(("", "v1")),
    st.sampled_from(("", "log")),
    st.sampled_from(NAMESPACES),
    st.sampled_from(("", "x", "y")),
)
digests = st.builds(
    RequestDigest,
    identity=identities,
    verb=st.sampled_from(VERBS),
    path=paths,
    method=st.sampled_from(("GET", "POST", "delete")),
    resource=st.none() | resources,
    host=st.sampled_from(HOSTS),
    headers=st.dictionaries(st.sampled_from(("x-one", "two")), st.sampled_from(VALUES)),
    query=st.dictionaries(st.sampled_from(("X-One", "two")), st.sampled_from(VALUES)),
    path_parameters=st.dictionaries(st.just("p"), st.sampled_from(VALUES)),
)
digest_lists = st.lists(digests, min_size=1, max_size=8)


def classifier(schemas: list[FlowSchema], remembered: int = 4096, flowless_levels: Sequence[str] = ()) -> Classifier:
    return Classifier(
        schemas,
        hash_flow=flow_hash,
        fallback=FALLBACK,
        masters_fallback=MASTERS,
        flowless_levels=flowless_levels,
        remembered=remembered,
    )


@examples(45)
@given(schema_lists(), digest_lists)
def test_the_classifier_agrees_with_its_plain_twin_also_when_cached(
    schemas: list[FlowSchema], asked: list[RequestDigest]
) -> None:
    """Three times each: unknown, remembered, and with a memory so small that it forgets in between."""
    ample, tiny = classifier(schemas), classifier(schemas, remembered=1)
    for digest in [*asked, *asked]:
        chosen = twin.choose(schemas, digest)
        if chosen is None:
            chosen = MASTERS if "system:masters" in digest.identity.groups else FALLBACK
        flow = twin.flow_of(chosen, digest)
        weight = twin.weight_of(chosen, digest)
        expected = (chosen.name, chosen.level, flow, flow_hash(chosen.name, flow), weight)

        for ours in (ample, tiny):
            found = ours.classify(digest)
            assert tuple(found) == expected


@examples(60)
@given(rules | conjunctions, digest_lists)
def test_matching_agrees_with_the_twin(rule: Rule | Conjunction, asked: list[RequestDigest]) -> None:
    for digest in asked:
        assert accepts(rule, digest) is twin.matches(rule, digest)
        assert why_not(rule, digest) != ""


@examples(18)
@given(schema_lists(), digest_lists, st.randoms(use_true_random=False))
def test_the_order_of_the_schemas_does_not_matter(
    schemas: list[FlowSchema], asked: list[RequestDigest], rnd: random.Random
) -> None:
    shuffled = rnd.sample(schemas, len(schemas))

    assert classifier(shuffled).schemas == classifier(schemas).schemas
    assert [classifier(shuffled).classify(one) for one in asked] == [classifier(schemas).classify(one) for one in asked]


@examples(18)
@given(schema_lists(), digest_lists)
def test_each_request_gets_an_accepting_schema_or_a_fallback(
    schemas: list[FlowSchema], asked: list[RequestDigest]
) -> None:
    ours = classifier(schemas)
    by_name = {schema.name: schema for schema in schemas}
    for digest in asked:
        explanation = ours.explain(digest)
        name = explanation.classification.schema

        assert explanation.fallback == (name not in by_name)
        assert explanation.fallback or accepts(by_name[name], digest)
        before = [schema.name for schema in ours.schemas]
        if not explanation.fallback:
            before = before[: before.index(name)]
        assert [schema for schema, _ in explanation.passed_over] == before
        assert all(reason for _, reason in explanation.passed_over)


@examples(18)
@given(schema_lists(), digest_lists)
def test_levels_without_flows_have_an_empty_distinguisher(
    schemas: list[FlowSchema], asked: list[RequestDigest]
) -> None:
    levels = [schema.level for schema in schemas[::2]]
    ours, plain = classifier(schemas, flowless_levels=levels), classifier(schemas)
    for digest in asked:
        found, expected = ours.classify(digest), plain.classify(digest)

        assert (found.schema, found.level) == (expected.schema, expected.level)
        if found.level in levels:
            assert (found.flow, found.entropy, found.weight) == ("", 0, 1)
        else:
            assert found == expected
