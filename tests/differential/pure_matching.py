"""Matching and selection against golden/pure, one case at a time.

Schemas stand there as Kubernetes' API writes them. They are read here by hand, not by the configuration's loader: the
cases break its rules on purpose, and what must agree is what the code makes of them.
"""

import functools
import gzip
import json
from collections.abc import Mapping
from typing import Any

from apf_middleware.classification import (
    AnySubject,
    Classifier,
    Distinguisher,
    FlowSchema,
    GroupSubject,
    Identity,
    NonResourceRule,
    RequestDigest,
    Resource,
    ResourceRule,
    Rule,
    ServiceAccountSubject,
    Source,
    UserSubject,
    accepts,
)
from apf_middleware.fairqueuing import flow_hash
from tests.support.golden import GOLDEN

__all__ = ["digest_of", "read_schema", "replay_matching", "replay_selection"]

Case = Mapping[str, Any]

_SOURCES = {"ByUser": Source.USER, "ByNamespace": Source.NAMESPACE}
_OBJECTS = 19  # eleven schemas in order of evaluation, and eight levels


def replay_matching(case: Case) -> str | None:
    """Whether one schema accepts one request, plainly and compiled."""
    schema, digest = read_schema(case["flowSchema"]["metadata"]["name"], case["flowSchema"]["spec"]), digest_of(case)
    plain = accepts(schema, digest)
    compiled = _classifier((schema,), FlowSchema("none", "none")).classify(digest).schema == schema.name
    return _differs([case["matches"]] * 2, [plain, compiled])


def replay_selection(case: Case) -> str | None:
    """Return the choice among the default objects, and the flow."""
    schemas = _default_schemas()
    digest = digest_of(case)
    found = _default_classifier().classify(digest)
    fallback = not any(accepts(schema, digest) for schema in schemas)
    expected = [case[key] for key in ("flowSchema", "priorityLevel", "distinguisher", "hash")]
    got = [found.schema, found.level, found.flow, found.entropy]
    return _differs([*expected, case.get("fallback", False)], [*got, fallback])


@functools.cache
def _default_schemas() -> tuple[FlowSchema, ...]:
    objects = json.loads(gzip.decompress((GOLDEN / "pure" / "default_config.json.gz").read_bytes()))
    if len(objects) != _OBJECTS:
        raise ValueError(f"there must be {_OBJECTS} default objects, and there are {len(objects)}")
    return tuple(read_schema(one["name"], one["spec"]) for one in objects if one["kind"] == "FlowSchema")


@functools.cache
def _default_classifier() -> Classifier:
    schemas = _default_schemas()
    return _classifier(tuple(reversed(schemas)), schemas[-1])


def _classifier(schemas: tuple[FlowSchema, ...], fallback: FlowSchema) -> Classifier:
    return Classifier(schemas, hash_flow=flow_hash, fallback=fallback)


def digest_of(case: Case) -> RequestDigest:
    """Return the request of a case."""
    user, request = case["user"], case["request"]
    resource = None
    if request["isResourceRequest"]:
        resource = Resource(
            resource=request.get("resource", ""),
            api_group=request.get("apiGroup", ""),
            subresource=request.get("subresource", ""),
            namespace=request.get("namespace", ""),
            name=request.get("name", ""),
        )
    identity = Identity(user["name"], tuple(user["groups"] or ()))
    return RequestDigest(identity, request["verb"], request["path"], resource=resource)


def read_schema(name: str, spec: Mapping[str, Any]) -> FlowSchema:
    """Return a schema from its API form."""
    method = spec.get("distinguisherMethod")
    return FlowSchema(
        name=name,
        level=spec["priorityLevelConfiguration"]["name"],
        precedence=spec["matchingPrecedence"],
        rules=tuple(_read_rule(rule) for rule in spec.get("rules") or ()),
        distinguisher=Distinguisher(_SOURCES[method["type"]]) if method else None,
    )


def _read_rule(rule: Mapping[str, Any]) -> Rule:
    return Rule(
        subjects=tuple(read for one in rule.get("subjects") or () if (read := _read_subject(one)) is not None),
        resource_rules=tuple(
            ResourceRule(
                verbs=_strings(one, "verbs"),
                api_groups=_strings(one, "apiGroups"),
                resources=_strings(one, "resources"),
                namespaces=_strings(one, "namespaces"),
                cluster_scope=one.get("clusterScope", False),
            )
            for one in rule.get("resourceRules") or ()
        ),
        non_resource_rules=tuple(
            NonResourceRule(_strings(one, "verbs"), _strings(one, "nonResourceURLs"))
            for one in rule.get("nonResourceRules") or ()
        ),
    )


def _read_subject(subject: Mapping[str, Any]) -> AnySubject | None:
    """None when its member is missing: it never matches."""
    match subject:
        case {"kind": "User", "user": {"name": str(name)}}:
            return UserSubject(name)
        case {"kind": "Group", "group": {"name": str(name)}}:
            return GroupSubject(name)
        case {"kind": "ServiceAccount", "serviceAccount": {"namespace": str(namespace), "name": str(name)}}:
            return ServiceAccountSubject(namespace, name)
    return None


def _strings(rule: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(rule.get(key) or ())


def _differs(expected: object, got: object) -> str | None:
    return None if expected == got else f"expected {expected!r}, got {got!r}"
