"""Named queues in OpenAPI: what a queue looks like, and every order that can be given about one."""

from collections.abc import Mapping
from typing import Any, Final

from apf_middleware.asgi.admin.jsonschema import (
    COUNT,
    FLAG,
    METER,
    NUMBER,
    TEXT,
    Schema,
    list_of,
    map_of,
    object_of,
    or_null,
)

__all__ = ["QUEUE_SCHEMAS", "describe_queues"]

_ANYTHING: Final[Schema] = {}
_SEATS: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_CHANGES: Final[Mapping[str, Schema]] = {
    "weight": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
    "min": _SEATS,
    "max": or_null(_SEATS),
    "parent": or_null(TEXT),
    "priority": METER,
    "reclaimable": FLAG,
    "dequeue_strategy": {"type": "string", "enum": ["traverse", "fifo"]},
    "wait_limit": or_null(NUMBER),
}
_WORKER: Final = object_of(pid=COUNT, app=TEXT, version=TEXT)
_DOCUMENTS: Final[Schema] = {"type": "array", "items": map_of(_ANYTHING)}

QUEUE_SCHEMAS: Final[Mapping[str, Schema]] = {
    "NamedQueue": object_of(
        name=TEXT,
        parent=or_null(TEXT),
        state={"type": "string", "enum": ["Open", "Paused", "Closing", "Closed"]},
        weight=COUNT,
        min=COUNT,
        deserved=NUMBER,
        used=COUNT,
        max=COUNT,
        inqueue=COUNT,
        pending=COUNT,
        running=COUNT,
        completed=COUNT,
        failed=COUNT,
        aborted=COUNT,
        rejected=map_of(COUNT),
        share=NUMBER,
        source={"type": "string", "enum": ["file", "live"]},
        generation=COUNT,
        priority=METER,
        reclaimable=FLAG,
        dequeue_strategy={"type": "string", "enum": ["traverse", "fifo"]},
        exempt=FLAG,
        closed_by_parent=FLAG,
        children={"type": "array", "items": TEXT},
        capacity=COUNT,
    ),
    "Worker": _WORKER,
    "Drift": object_of(queue=TEXT, field=TEXT, file=_ANYTHING, live=_ANYTHING),
    "NamedQueues": object_of(
        "documents",
        "drift",
        worker={"$ref": "#/components/schemas/Worker"},
        queues=list_of("NamedQueue"),
        documents=_DOCUMENTS,
        drift=list_of("Drift"),
    ),
    "OneQueue": object_of(
        "drift",
        worker={"$ref": "#/components/schemas/Worker"},
        queue={"$ref": "#/components/schemas/NamedQueue"},
        documents=_DOCUMENTS,
        drift=list_of("Drift"),
    ),
    "DeletedQueue": object_of(worker={"$ref": "#/components/schemas/Worker"}, deleted=TEXT),
    "WaitingFlow": object_of(flow=TEXT, waiting=COUNT, seats=COUNT, oldest=NUMBER),
    "Waiting": object_of(
        worker={"$ref": "#/components/schemas/Worker"},
        queue=TEXT,
        waiting=COUNT,
        seats=COUNT,
        oldest=NUMBER,
        flows=list_of("WaitingFlow"),
    ),
    "QueueCreation": object_of(*_CHANGES, name=TEXT, **_CHANGES),
    "QueueChange": object_of(*_CHANGES, **_CHANGES),
    "QueueClosing": object_of("mode", mode={"type": "string", "enum": ["drain", "shed"], "default": "drain"}),
    "Nothing": object_of(),
}

_REFUSALS: Final[Mapping[str, str]] = {
    "400": "The body is no JSON object.",
    "401": "The caller hasn't shown credentials, or bad ones.",
    "403": "The caller is in none of the groups that may do this.",
    "404": "There is no such queue.",
    "408": "The body didn't come in time.",
    "409": "Not in the state in which things are now.",
    "413": "The body is too long.",
    "415": "The body isn't application/json.",
    "422": "Fields have wrong values; `errors` has all of them.",
}
_LOOKING: Final = ("401", "403")
_FINDING: Final = (*_LOOKING, "404")
_CHANGING: Final = tuple(_REFUSALS)

_NAME: Final[Schema] = {"name": "name", "in": "path", "required": True, "description": "The queue's.", "schema": TEXT}


def _flag(name: str, description: str) -> Schema:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"type": "string", "enum": ["1", "true"]},
    }


def describe_queues(path: str) -> dict[str, Schema]:
    """The operations, by path below ``path`` and by method."""
    documents = _flag("documents", "Also as documents to commit, and how the server differs from its files.")
    cascade = _flag("cascade", "Also while it isn't closed: who waits is rejected, who runs ends; its children too.")
    one = f"{path}/queues/{{name}}"
    return {
        f"{path}/queues": {
            "get": _operation("listQueues", "All named queues of this worker", "NamedQueues", _LOOKING, documents),
            "post": _operation(
                "createQueue", "Create a queue", "OneQueue", _CHANGING, takes="QueueCreation", status="201"
            ),
        },
        one: {
            "get": _operation("getQueue", "One queue", "OneQueue", _FINDING, _NAME),
            "patch": _operation("updateQueue", "Change a queue", "OneQueue", _CHANGING, _NAME, takes="QueueChange"),
            "delete": _operation(
                "deleteQueue", "Delete a closed queue", "DeletedQueue", (*_FINDING, "409"), _NAME, cascade
            ),
        },
        f"{one}/waiting": {"get": _operation("getWaiting", "Who waits in a queue", "Waiting", _FINDING, _NAME)},
        f"{one}/open": {"post": _operation("openQueue", "Open a queue", "OneQueue", _CHANGING, _NAME, takes="Nothing")},
        f"{one}/pause": {
            "post": _operation("pauseQueue", "Pause a queue", "OneQueue", _CHANGING, _NAME, takes="Nothing")
        },
        f"{one}/close": {
            "post": _operation("closeQueue", "Close a queue", "OneQueue", _CHANGING, _NAME, takes="QueueClosing")
        },
    }


def _operation(
    name: str,
    summary: str,
    gives: str,
    refusals: tuple[str, ...],
    *parameters: Schema,
    takes: str = "",
    status: str = "200",
) -> Schema:
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    responses: dict[str, Any] = {status: {"description": f"{summary}.", "content": _json(gives)}}
    responses |= {one: {"description": _REFUSALS[one], "content": problem} for one in refusals}
    operation: Schema = {"operationId": name, "summary": summary, "responses": responses}
    if parameters:
        operation["parameters"] = list(parameters)
    if takes:
        operation["requestBody"] = {"required": True, "content": _json(takes)}
    return operation


def _json(schema: str) -> Schema:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
