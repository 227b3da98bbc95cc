"""Distinguishers of apf/v1."""

import pytest

from apf_middleware.classification import Distinguisher, Source
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
