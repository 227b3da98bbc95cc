"""Distinguishers and paths of apf/v1."""

import pytest

from apf_middleware.classification import Distinguisher, Source
from apf_middleware.config import read_source
from apf_middleware.config.http_rules import path_rule
from tests.support.apf_documents import SCHEMA, schema


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("source: user", Distinguisher(Source.USER)),
        ("source: namespace", Distinguisher(Source.NAMESPACE)),
        ("source: group, groups: ['tenant-*', ops]", Distinguisher(Source.GROUP, groups=("tenant-*", "ops"))),
        ("source: header, name: X-Tenant", Distinguisher(Source.HEADER, "x-tenant")),
        ("source: pathParameter, name: tenant", Distinguisher(Source.PATH_PARAMETER, "tenant")),
        ("source: query, name: Key", Distinguisher(Source.QUERY, "Key")),
        ("source: clientAddress", Distinguisher(Source.CLIENT_ADDRESS)),
        ("source: clientAddress, prefixV4: 32, prefixV6: 0", Distinguisher(Source.CLIENT_ADDRESS, "", (), 32, 0)),
        ("source: user, transform: '(.*)@.*'", Distinguisher(Source.USER, transform="(.*)@.*")),
        ("source: callable, callable: 'builtins:repr'", Distinguisher(Source.CALLABLE, function=repr)),
    ],
)
def test_distinguishers(given: str, expected: Distinguisher) -> None:
    assert schema(SCHEMA.replace("source: user", given)).distinguisher == expected


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/caf%C3%A9", "percent-encoded"),
        ("/a%2fb/*", "percent-encoded"),
        ("/café", ""),
        ("/100%", ""),
        ("/100%/x", ""),
        ("/a b", "a space"),
        ("/a//b", "'//'"),
    ],
)
def test_a_path_that_no_request_has_is_an_error(path: str, rule: str) -> None:
    assert rule in path_rule(path)
    assert bool(rule) == bool(path_rule(path))


def test_a_header_that_no_request_has_is_an_error() -> None:
    [error] = read_source(SCHEMA.replace("source: user", "source: header, name: 'X Tenant'")).errors

    assert (error.field, error.rule) == ("spec.distinguisher.name", "it must be a header's name")
