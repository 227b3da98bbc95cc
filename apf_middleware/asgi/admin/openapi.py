"""What the admin offers, described in OpenAPI 3.1 for programs that want to read it.

Every field of every JSON answer is named here, and nothing else may come: the tests hold the answers against it.
"""

from collections.abc import Mapping
from typing import Any, Final

from apf_middleware import __version__
from apf_middleware.asgi.admin.dumps import ORDERS

__all__ = ["describe"]

_Schema = dict[str, Any]

_TEXT: Final[_Schema] = {"type": "string"}
_COUNT: Final[_Schema] = {"type": "integer", "minimum": 0}
_FLAG: Final[_Schema] = {"type": "boolean"}
_NUMBER: Final[_Schema] = {"type": "number", "minimum": 0}
_METER: Final[_Schema] = {"type": "integer"}
_TIME: Final[_Schema] = {"type": "string", "format": "date-time"}
_WORK: Final[_Schema] = {"type": "string", "pattern": r"^-?\d+\.\d{8}ss$"}


def _or_null(schema: _Schema) -> _Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _object(*optional: str, **properties: _Schema) -> _Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _map(schema: _Schema) -> _Schema:
    return {"type": "object", "additionalProperties": schema}


def _list(name: str, **more: _Schema) -> _Schema:
    """An object with a list of these; ``more`` stands beside it."""
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}, **more}


_DETAILS: Final = ("user", "verb", "path", "namespace", "name", "api_group", "api_version", "resource", "subresource")

_SCHEMAS: Final[Mapping[str, _Schema]] = {
    "Level": _object(
        level=_TEXT,
        exempt=_FLAG,
        idle=_FLAG,
        quiescing=_FLAG,
        active_queues=_COUNT,
        waiting=_COUNT,
        parked=_COUNT,
        seats_waiting=_COUNT,
        executing=_COUNT,
        lingering=_COUNT,
        seats_in_use=_COUNT,
        dispatched=_COUNT,
        rejected=_map(_COUNT),
        nominal=_COUNT,
        min=_COUNT,
        max=_or_null(_COUNT),
        current=_or_null(_COUNT),
        discipline=_TEXT,
        meters=_map(_METER),
    ),
    "Queue": _object(
        level=_TEXT,
        index=_COUNT,
        waiting=_COUNT,
        parked=_COUNT,
        executing=_COUNT,
        seats_in_use=_COUNT,
        next_dispatch_r=_or_null(_WORK),
        initial_seats_waiting=_COUNT,
        seats_waiting=_COUNT,
        work_waiting=_WORK,
    ),
    "Request": _object(
        *_DETAILS,
        level=_TEXT,
        schema=_TEXT,
        flow=_TEXT,
        queue=_or_null(_COUNT),
        position=_or_null(_COUNT),
        arrived_at=_TIME,
        seated_at=_or_null(_TIME),
        seats=_COUNT,
        final_seats=_COUNT,
        linger=_NUMBER,
        width=_COUNT,
        held_by=_or_null(_object(gate=_or_null(_TEXT), since=_TIME, number=_COUNT, stage=_TEXT)),
        **dict.fromkeys(_DETAILS, _TEXT),
    ),
    "Flow": _object(
        level=_TEXT,
        schema=_TEXT,
        flow=_TEXT,
        work=_NUMBER,
        work_error=_NUMBER,
        rejected=_COUNT,
        rejected_error=_COUNT,
        waiting=_COUNT,
        executing=_COUNT,
        seats_in_use=_COUNT,
    ),
    "ConfigurationProblem": _object(
        severity={"type": "string", "enum": ["error", "warning"]},
        file=_TEXT,
        document=_COUNT,
        line=_COUNT,
        field=_TEXT,
        value=_TEXT,
        rule=_TEXT,
        hint=_TEXT,
    ),
    "Levels": _object(seats=_COUNT, levels=_list("Level")),
    "Queues": _object(queues=_list("Queue")),
    "Requests": _object(requests=_list("Request")),
    "Flows": _object(flows=_list("Flow")),
    "Configuration": _object(problems=_list("ConfigurationProblem"), documents={"type": "array", "items": _map({})}),
    "Reload": _object(
        reloaded=_FLAG, seats=_COUNT, levels=_COUNT, schemas=_COUNT, problems=_list("ConfigurationProblem")
    ),
    "Problem": {
        "type": "object",
        "properties": {"type": _TEXT, "title": _TEXT, "status": _COUNT, "detail": _TEXT},
        "required": ["type", "title", "status", "detail"],
    },
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
    "schema": _TEXT,
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


def describe(path: str, root: str) -> _Schema:
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


def _operation(schema: str | None, summary: str, text: str, *parameters: _Schema) -> _Schema:
    content: _Schema = {"application/json": {"schema": {"type": "object"}}}
    if schema is not None:
        content = {text: {"schema": _TEXT}, "application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    refusals = {status: _refusal(why) for status, why in _REFUSALS.items()}
    operation: _Schema = {
        "operationId": f"get{schema or 'Description'}",
        "summary": summary,
        "responses": {"200": {"description": f"{summary}.", "content": content}, **refusals},
    }
    asked = [_FORMAT, *parameters] if schema else []
    return {"get": operation | ({"parameters": asked} if asked else {})}


def _refusal(why: str) -> _Schema:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": why, "content": content}


def _reload() -> _Schema:
    """What isn't read but done."""
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Reload"}}}
    responses = {
        "200": {"description": "What was read is in force; its warnings.", "content": content},
        "401": _refusal(_REFUSALS["401"]),
        "403": _refusal(f"{_REFUSALS['403'][:-1]}, or a page of another site has asked."),
        "409": _refusal("The configuration didn't come from files, so it can't be read again."),
        "422": {"description": "Something is wrong with it: its errors. All stays as it was.", "content": content},
    }
    summary = "Read the configuration again, and put it in force"
    return {"post": {"operationId": "postReload", "summary": summary, "responses": responses}}
