"""Requests and rules to be matched."""

from dataclasses import replace

from apf_middleware.classification import (
    HttpRule,
    Identity,
    NonResourceRule,
    RequestDigest,
    Resource,
    Rule,
    UserSubject,
)

__all__ = ["ANN", "EVERYBODY", "PATH", "PODS", "http", "urls"]

EVERYBODY = (UserSubject("*"),)
ANN = Identity("ann", ("dev", "ops"))
PATH = RequestDigest(ANN, "get", "/healthz/ping", host="Api.Example.com:8443")
PODS = replace(PATH, resource=Resource("pods", "", "v1", "log", "ns1", "p"))


def urls(*patterns: str) -> Rule:
    return Rule(EVERYBODY, non_resource_rules=(NonResourceRule(("*",), patterns),))


def http(**rule: tuple[object, ...]) -> Rule:
    return Rule(EVERYBODY, http_rules=(HttpRule(**rule),))  # type: ignore[arg-type]
