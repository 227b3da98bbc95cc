"""The facts that rules read, which are the key of a cached decision."""

from dataclasses import replace
from typing import Any

import pytest

from apf_middleware.classification import AtomicTest as Atom  # under its own name pytest would collect it
from apf_middleware.classification import (
    Conjunction,
    Field,
    FlowSchema,
    HttpRule,
    Identity,
    Operator,
    RequestDigest,
    Resource,
    Rule,
    UserSubject,
    ValueMatch,
)
from tests.support.schemas import classifier, schema

ANN = Identity("ann", ("dev",))
DIGEST = RequestDigest(ANN, "get", "/a")


@pytest.mark.parametrize(
    ("rule", "yes", "no"),
    [
        (HttpRule(headers=(ValueMatch("X-K", ("1",)),)), {"headers": {"x-k": "1"}}, {"headers": {"x-k": "2"}}),
        (HttpRule(query=(ValueMatch("k", absent=True),)), {"query": {}}, {"query": {"k": ""}}),
        (HttpRule(hosts=("h",)), {"host": "h"}, {"host": "i"}),
        (HttpRule(methods=("PUT",)), {"method": "PUT"}, {"method": "GET"}),
        (HttpRule(paths=("/b",)), {"path": "/b"}, {"path": "/c"}),
        (Atom(Field.UID, Operator.EQUALS, ("1",)), {"identity": replace(ANN, uid="1")}, {"identity": ANN}),
        (
            Atom(Field.NAME, Operator.EQUALS, ("1",)),
            {"resource": Resource("r", name="1")},
            {"resource": Resource("r", name="2")},
        ),
        (
            Atom(Field.VERSION, Operator.EQUALS, ("1",)),
            {"resource": Resource("r", version="1")},
            {"resource": Resource("r", version="2")},
        ),
    ],
)
@pytest.mark.parametrize("resource", [None, Resource("r")])
def test_facts_read_by_rules_are_part_of_the_cache_key(
    rule: HttpRule | Atom, yes: dict[str, Any], no: dict[str, Any], resource: Resource | None
) -> None:
    found = Rule((UserSubject("*"),), http_rules=(rule,)) if isinstance(rule, HttpRule) else Conjunction((rule,))
    ours = classifier(FlowSchema("a", "level", rules=(found,)))
    digest = replace(DIGEST, resource=resource)

    for facts, expected in ((yes, "a"), (no, "last"), (yes, "a"), (no, "last")):
        assert ours.classify(replace(digest, **facts)).schema == expected


def test_facts_not_read_by_rules_are_not_part_of_the_cache_key() -> None:
    ours = classifier(schema("a"))
    for n in range(10):
        ours.classify(replace(DIGEST, resource=Resource("r", name=str(n)), path=f"/r/{n}", host=str(n), method=str(n)))

    assert len(ours._decisions) == 1


def test_keys_with_and_without_a_resource_differ() -> None:
    """Also when the parts of their keys could be equal."""
    ours = classifier(FlowSchema("a", "l", rules=(Conjunction((Atom(Field.RESOURCE, Operator.EQUALS, ("",)),)),)))

    assert ours.classify(DIGEST).schema == "a"
    assert ours.classify(replace(DIGEST, resource=Resource("r"))).schema == "last"
    assert ours.classify(DIGEST).schema == "a"
