"""Gates in OpenAPI: what they look like, and every order that can be given about one."""

from collections.abc import Mapping
from typing import Final

from apf_middleware.asgi.admin.jsonschema import COUNT, NUMBER, TEXT, Schema, list_of, object_of, or_null
from apf_middleware.asgi.admin.operations import CHANGING, FINDING, LOOKING, NAMED, operation

__all__ = ["GATE_SCHEMAS", "describe_gates"]

_WORKER: Final[Schema] = {"$ref": "#/components/schemas/Worker"}

GATE_SCHEMAS: Final[Mapping[str, Schema]] = {
    "Gate": object_of(
        gate=TEXT,
        key=or_null(TEXT),
        kind=TEXT,
        state={"type": "string", "enum": ["passing", "blocking", "held"]},
        parked=COUNT,
        oldest=or_null(NUMBER),
        acquired=or_null(COUNT),
        limit=or_null(COUNT),
        events=COUNT,
        rescues=COUNT,
    ),
    "ParkedRequest": object_of(
        id=COUNT,
        level=TEXT,
        schema=TEXT,
        flow=TEXT,
        gate=TEXT,
        key=or_null(TEXT),
        cost=COUNT,
        stage=TEXT,
        parked_for=NUMBER,
        waited=NUMBER,
        attempts=COUNT,
    ),
    "Gates": object_of("kicked", worker=_WORKER, gates=list_of("Gate"), kicked=COUNT),
    "OneGate": object_of(worker=_WORKER, gates=list_of("Gate"), parked=list_of("ParkedRequest")),
    "GateClosing": object_of("for", **{"for": or_null(NUMBER)}),
    "GateKick": object_of("request", request=or_null(COUNT)),
}


def describe_gates(path: str) -> dict[str, Schema]:
    """The operations, by path below ``path`` and by method."""
    one = f"{path}/gates/{{name}}"
    orders = {"open": ("Open a gate", "Nothing"), "close": ("Close a gate", "GateClosing")}
    orders["kick"] = ("Let those who wait try once more", "GateKick")
    return {
        f"{path}/gates": {"get": operation("listGates", "All gates of this worker", "Gates", LOOKING)},
        one: {"get": operation("getGate", "One gate, and who waits there", "OneGate", FINDING, NAMED)},
    } | {
        f"{one}/{name}": {"post": operation(f"{name}Gate", summary, "Gates", CHANGING, NAMED, takes=takes)}
        for name, (summary, takes) in orders.items()
    }
