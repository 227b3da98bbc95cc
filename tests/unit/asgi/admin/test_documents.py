"""The schemas of the admin's documents."""

import json
from collections.abc import Iterator

from apf_middleware.asgi.admin.openapi import describe
from tests.support.admin_world import PATH
from tests.support.json_schema import resolved


def references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        for one in part.values():
            yield from references(one)
    elif isinstance(part, list):
        for one in part:
            yield from references(one)


def test_every_reference_leads_to_a_schema_and_every_schema_is_referred_to() -> None:
    description = json.loads(json.dumps(describe(PATH, "/api")))
    found = set(references(description))

    assert all(resolved(reference, description) for reference in found)
    assert {reference.rpartition("/")[2] for reference in found} == set(description["components"]["schemas"])
