"""The shipped JSON Schema."""

import json

from apf_middleware.config.jsonschema import FILE, json_schema, written


def test_the_shipped_schema_is_what_the_models_say() -> None:
    assert FILE.read_text() == written(), "run python -m apf_middleware.config.jsonschema"


def test_it_tells_the_kinds_apart_and_allows_no_unknown_keys() -> None:
    schema = json.loads(FILE.read_text())

    assert sorted(schema["discriminator"]["mapping"]) == ["FlowSchema", "PriorityLevel", "Server"]
    assert all(
        model["additionalProperties"] is False for model in schema["$defs"].values() if model.get("type") == "object"
    )
    assert schema == json_schema()
