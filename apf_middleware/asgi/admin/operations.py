"""How one operation on queues or gates is described in OpenAPI: what it takes and gives, and why it may be refused."""

from collections.abc import Mapping
from typing import Any, Final

from apf_middleware.asgi.admin.jsonschema import COUNT, TEXT, Schema, object_of

__all__ = ["CHANGING", "COMMON_SCHEMAS", "FINDING", "LOOKING", "NAMED", "flag", "operation"]

COMMON_SCHEMAS: Final[Mapping[str, Schema]] = {
    "Worker": object_of(pid=COUNT, app=TEXT, version=TEXT),
    "Nothing": object_of(),
}
"""What both have."""

_REFUSALS: Final[Mapping[str, str]] = {
    "400": "The body is no JSON object.",
    "401": "The caller hasn't shown credentials, or bad ones.",
    "403": "The caller is in none of the groups that may do this.",
    "404": "There is no such thing.",
    "408": "The body didn't come in time.",
    "409": "Not in the state in which things are now.",
    "413": "The body is too long.",
    "415": "The body isn't application/json.",
    "422": "Fields have wrong values; `errors` has all of them.",
}
LOOKING: Final = ("401", "403")
FINDING: Final = (*LOOKING, "404")
CHANGING: Final = tuple(_REFUSALS)

NAMED: Final[Schema] = {"name": "name", "in": "path", "required": True, "description": "Its name.", "schema": TEXT}


def flag(name: str, description: str) -> Schema:
    """A parameter that is there or not."""
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"type": "string", "enum": ["1", "true"]},
    }


def operation(
    name: str,
    summary: str,
    gives: str,
    refusals: tuple[str, ...],
    *parameters: Schema,
    takes: str = "",
    status: str = "200",
) -> Schema:
    """One operation: the schema that it ``gives``, its refusals and parameters, and the schema that it ``takes``."""
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    responses: dict[str, Any] = {status: {"description": f"{summary}.", "content": _json(gives)}}
    responses |= {one: {"description": _REFUSALS[one], "content": problem} for one in refusals}
    told: Schema = {"operationId": name, "summary": summary, "responses": responses}
    if parameters:
        told["parameters"] = list(parameters)
    if takes:
        told["requestBody"] = {"required": True, "content": _json(takes)}
    return told


def _json(schema: str) -> Schema:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
