"""Named queues in OpenAPI: what a queue looks like, and every order that can be given about one."""

from collections.abc import Mapping
from typing import Final

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
from apf_middleware.asgi.admin.operations import CHANGING, FINDING, LOOKING, NAMED, flag, operation

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
    "HoldingGate": object_of(gate=TEXT, key=or_null(TEXT), parked=COUNT, oldest=NUMBER),
    "Waiting": object_of(
        worker={"$ref": "#/components/schemas/Worker"},
        queue=TEXT,
        waiting=COUNT,
        seats=COUNT,
        oldest=NUMBER,
        flows=list_of("WaitingFlow"),
        gates=list_of("HoldingGate"),
    ),
    "QueueCreation": object_of(*_CHANGES, name=TEXT, **_CHANGES),
    "QueueChange": object_of(*_CHANGES, **_CHANGES),
    "QueueClosing": object_of("mode", mode={"type": "string", "enum": ["drain", "shed"], "default": "drain"}),
}


def describe_queues(path: str) -> dict[str, Schema]:
    """The operations, by path below ``path`` and by method."""
    documents = flag("documents", "Also as documents to commit, and how the server differs from its files.")
    cascade = flag("cascade", "Also while it isn't closed: who waits is rejected, who runs ends; its children too.")
    one = f"{path}/queues/{{name}}"
    return {
        f"{path}/queues": {
            "get": operation("listQueues", "All named queues of this worker", "NamedQueues", LOOKING, documents),
            "post": operation(
                "createQueue", "Create a queue", "OneQueue", CHANGING, takes="QueueCreation", status="201"
            ),
        },
        one: {
            "get": operation("getQueue", "One queue", "OneQueue", FINDING, NAMED),
            "patch": operation("updateQueue", "Change a queue", "OneQueue", CHANGING, NAMED, takes="QueueChange"),
            "delete": operation(
                "deleteQueue", "Delete a closed queue", "DeletedQueue", (*FINDING, "409"), NAMED, cascade
            ),
        },
        f"{one}/waiting": {"get": operation("getWaiting", "Who waits in a queue", "Waiting", FINDING, NAMED)},
        f"{one}/open": {"post": operation("openQueue", "Open a queue", "OneQueue", CHANGING, NAMED, takes="Nothing")},
        f"{one}/pause": {
            "post": operation("pauseQueue", "Pause a queue", "OneQueue", CHANGING, NAMED, takes="Nothing")
        },
        f"{one}/close": {
            "post": operation("closeQueue", "Close a queue", "OneQueue", CHANGING, NAMED, takes="QueueClosing")
        },
    }
