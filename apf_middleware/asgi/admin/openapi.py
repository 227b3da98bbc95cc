"""What the admin offers, described in OpenAPI 3.1 for programs that want to read it.

Every field of every JSON answer is named here, and nothing else may come: the tests hold the answers against it.
"""

from collections.abc import Mapping
from typing import Final

from apf_middleware import __version__
from apf_middleware.asgi.admin.dumps import ORDERS
from apf_middleware.asgi.admin.jsonschema import (
    COUNT,
    FLAG,
    METER,
    NUMBER,
    TEXT,
    TIME,
    WORK,
    Schema,
    list_of,
    map_of,
    object_of,
    or_null,
)
from apf_middleware.asgi.admin.openapi_gates import GATE_SCHEMAS, describe_gates
from apf_middleware.asgi.admin.openapi_queues import QUEUE_SCHEMAS, describe_queues
from apf_middleware.asgi.admin.operations import COMMON_SCHEMAS

__all__ = ["describe"]

_DETAILS: Final = ("user", "verb", "path", "namespace", "name", "api_group", "api_version", "resource", "subresource")

_SCHEMAS: Final[Mapping[str, Schema]] = {
    "Level": object_of(
        level=TEXT,
        exempt=FLAG,
        idle=FLAG,
        quiescing=FLAG,
        active_queues=COUNT,
        waiting=COUNT,
        parked=COUNT,
        receiving=COUNT,
        seats_waiting=COUNT,
        executing=COUNT,
        lingering=COUNT,
        seats_in_use=COUNT,
        dispatched=COUNT,
        rejected=map_of(COUNT),
        nominal=COUNT,
        min=COUNT,
        max=or_null(COUNT),
        current=or_null(COUNT),
        discipline=TEXT,
        meters=map_of(METER),
    ),
    "Queue": object_of(
        level=TEXT,
        index=COUNT,
        waiting=COUNT,
        parked=COUNT,
        executing=COUNT,
        seats_in_use=COUNT,
        next_dispatch_r=or_null(WORK),
        initial_seats_waiting=COUNT,
        seats_waiting=COUNT,
        work_waiting=WORK,
    ),
    "Request": object_of(
        *_DETAILS,
        level=TEXT,
        schema=TEXT,
        flow=TEXT,
        queue=or_null(COUNT),
        position=or_null(COUNT),
        arrived_at=TIME,
        seated_at=or_null(TIME),
        seats=COUNT,
        final_seats=COUNT,
        linger=NUMBER,
        width=COUNT,
        held_by=or_null(object_of(gate=or_null(TEXT), since=TIME, number=COUNT, stage=TEXT)),
        **dict.fromkeys(_DETAILS, TEXT),
    ),
    "Flow": object_of(
        level=TEXT,
        schema=TEXT,
        flow=TEXT,
        work=NUMBER,
        work_error=NUMBER,
        rejected=COUNT,
        rejected_error=COUNT,
        waiting=COUNT,
        executing=COUNT,
        seats_in_use=COUNT,
    ),
    "ConfigurationProblem": object_of(
        severity={"type": "string", "enum": ["error", "warning"]},
        file=TEXT,
        document=COUNT,
        line=COUNT,
        field=TEXT,
        value=TEXT,
        rule=TEXT,
        hint=TEXT,
    ),
    "Levels": object_of(seats=COUNT, levels=list_of("Level")),
    "Queues": object_of(queues=list_of("Queue")),
    "Requests": object_of(requests=list_of("Request")),
    "Flows": object_of(flows=list_of("Flow")),
    "Configuration": object_of(
        problems=list_of("ConfigurationProblem"), documents={"type": "array", "items": map_of({})}
    ),
    "Reload": object_of(
        reloaded=FLAG, seats=COUNT, levels=COUNT, schemas=COUNT, problems=list_of("ConfigurationProblem")
    ),
    "FieldError": object_of(field=TEXT, value={}, rule=TEXT, hint=TEXT),
    "Problem": {
        "type": "object",
        "properties": {
            "type": TEXT,
            "title": TEXT,
            "status": COUNT,
            "detail": TEXT,
            "errors": list_of("FieldError"),
        },
        "required": ["type", "title", "status", "detail"],
    },
    **COMMON_SCHEMAS,
    **QUEUE_SCHEMAS,
    **GATE_SCHEMAS,
}

_FORMAT: Final = {
    "name": "format",
    "in": "query",
    "description": "What to answer with; goes before the header Accept.",
    "schema": {"type": "string", "enum": ["text", "json"]},
}
_INCLUDE_DETAILS: Final = {
    "name": "includeRequestDetails",
    "in": "query",
    "description": "Unless empty, tells whose each request is and what it is about.",
    "schema": TEXT,
}
_BY: Final = {
    "name": "by",
    "in": "query",
    "description": "What to sort by.",
    "schema": {"type": "string", "enum": list(ORDERS), "default": "work"},
}

_REFUSALS: Final = {
    "400": "A parameter has a value that means nothing.",
    "401": "The caller hasn't shown credentials, or bad ones.",
    "403": "The caller is known, and not in a group that may look.",
}


def describe(path: str, root: str) -> Schema:
    """The description of an admin at ``path``, for an app that is mounted at ``root``."""
    text, yaml = "text/plain", "application/yaml"
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "apf_middleware admin",
            "version": __version__,
            "summary": "What API Priority and Fairness is doing at this moment.",
        },
        "servers": [{"url": root or "/"}],
        "security": [{"credentials": []}],
        "paths": {
            f"{path}/dump_priority_levels": _operation("Levels", "All levels", text),
            f"{path}/dump_queues": _operation("Queues", "All queues", text),
            f"{path}/dump_requests": _operation("Requests", "All waiting and running requests", text, _INCLUDE_DETAILS),
            f"{path}/configuration": _operation("Configuration", "The configuration in force", yaml),
            f"{path}/flows": _operation("Flows", "The heaviest flows", text, _BY),
            f"{path}/openapi.json": _operation(None, "This description", ""),
            f"{path}/reload": _reload(),
            **describe_queues(path),
            **describe_gates(path),
        },
        "components": {
            "schemas": dict(_SCHEMAS),
            "securitySchemes": {
                "credentials": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Or any other credentials that the server's configuration has an authenticator for.",
                }
            },
        },
    }


def _operation(schema: str | None, summary: str, text: str, *parameters: Schema) -> Schema:
    content: Schema = {"application/json": {"schema": {"type": "object"}}}
    if schema is not None:
        content = {text: {"schema": TEXT}, "application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    refusals = {status: _refusal(why) for status, why in _REFUSALS.items()}
    operation: Schema = {
        "operationId": f"get{schema or 'Description'}",
        "summary": summary,
        "responses": {"200": {"description": f"{summary}.", "content": content}, **refusals},
    }
    asked = [_FORMAT, *parameters] if schema else []
    return {"get": operation | ({"parameters": asked} if asked else {})}


def _refusal(why: str) -> Schema:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": why, "content": content}


def _reload() -> Schema:
    """What isn't read but done."""
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Reload"}}}
    responses = {
        "200": {"description": "What was read is in force; its warnings.", "content": content},
        "401": _refusal(_REFUSALS["401"]),
        "403": _refusal("The caller is no operator, or a page of another site has asked."),
        "409": _refusal("The configuration didn't come from files, so it can't be read again."),
        "422": {"description": "Something is wrong with it: its errors. All stays as it was.", "content": content},
    }
    summary = "Read the configuration again, and put it in force"
    return {"post": {"operationId": "postReload", "summary": summary, "responses": responses}}
