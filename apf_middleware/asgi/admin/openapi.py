"""The admin described in OpenAPI 3.1; the schemas of its documents are pydantic's."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from apf_middleware._version import __version__
from apf_middleware.asgi.admin.documents import component_schemas
from apf_middleware.asgi.admin.dumps import ORDERS

__all__ = ["describe"]

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_REFUSALS: Final[Mapping[str, str]] = {
    "400": "A parameter has an unknown value, or the body is not a JSON object.",
    "401": "The request has no valid credentials.",
    "403": "The caller is not authorized, or a page of another site has sent the request.",
    "404": "There is no such object.",
    "408": "The body did not come in time.",
    "409": "The present state does not allow it.",
    "413": "The body is too long.",
    "415": "The body is not application/json.",
    "422": "Fields have wrong values; `errors` lists all of them.",
}
_VIEW: Final = ("401", "403")
_DUMP: Final = ("400", *_VIEW)
_FIND: Final = (*_VIEW, "404")
_CHANGE: Final = tuple(_REFUSALS)


def describe(path: str, root: str, resources: Collection[str] = ()) -> Schema:
    """Describe an admin at ``path``, of an app that is mounted at ``root``; the console if ``resources`` has it."""
    pages = _dumps() | _queues() | _gates() | _mode() | _explain() | _recordings() | _shadow()
    pages |= _console() if "console" in resources else {}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "apf_middleware admin",
            "version": __version__,
            "summary": "What API Priority and Fairness is doing at this moment.",
        },
        "servers": [{"url": root or "/"}],
        "security": [{"credentials": []}],
        "paths": {f"{path}/{page}": item for page, item in pages.items()},
        "components": {
            "schemas": component_schemas(),
            "securitySchemes": {
                "credentials": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Or other credentials that the server's configuration has an authenticator for.",
                }
            },
        },
    }


def _dumps() -> dict[str, Schema]:
    details = _query("includeRequestDetails", "Unless empty, adds the user and the details of each request.", _TEXT)
    of_flow = (
        _query("level", "Only requests of this level.", _TEXT),
        _query("schema", "Only requests of this schema.", _TEXT),
        _query("flow", "Only requests of this flow.", _TEXT),
        _query("most", "The maximum number of requests.", {"type": "integer", "minimum": 0}),
    )
    by = _query("by", "The order.", {**_one_of(*ORDERS), "default": "work"})
    summary = "Read the configuration again, and put it in force"
    reload = _operation("postReload", summary, "Reload", (*_VIEW, "409"))
    reload["responses"]["422"] = {
        "description": "The configuration has errors, and the one before stays in force.",
        "content": _json("Reload"),
    }
    description: Schema = _operation("getDescription", "This description", "", _VIEW)
    return {
        "dump_priority_levels": {"get": _dump("Levels", "All levels")},
        "dump_queues": {"get": _dump("Queues", "All queues")},
        "dump_requests": {"get": _dump("Requests", "All waiting and running requests", details, *of_flow)},
        "configuration": {"get": _dump("Configuration", "The configuration in force", text="application/yaml")},
        "flows": {"get": _dump("Flows", "The heaviest flows", by)},
        "fleet": {"get": _dump("Fleet", "All members of the fleet")},
        "openapi.json": {"get": description},
        "reload": {"post": reload},
    }


def _queues() -> dict[str, Schema]:
    documents = _flag("documents", "Adds documents that define the queues, and their differences from the files.")
    cascade = _flag("cascade", "Deletes the queue in any state, and its children: waiting requests are rejected.")
    name = "queues/{name}"
    actions = {"open": ("Open a queue", "Nothing"), "pause": ("Pause a queue", "Nothing")}
    actions["close"] = ("Close a queue", "QueueClosing")
    return {
        "queues": {
            "get": _operation("listQueues", "All named queues of this worker", "NamedQueues", _VIEW, documents),
            "post": _operation("createQueue", "Create a queue", "OneQueue", _CHANGE, body="QueueCreation", code="201"),
        },
        name: {
            "get": _operation("getQueue", "One queue", "OneQueue", _FIND, _NAME),
            "patch": _operation("updateQueue", "Change a queue", "OneQueue", _CHANGE, _NAME, body="QueueChange"),
            "delete": _operation(
                "deleteQueue", "Delete a closed queue", "DeletedQueue", (*_FIND, "409"), _NAME, cascade
            ),
        },
        f"{name}/waiting": {"get": _operation("getWaiting", "Waiting requests of a queue", "Waiting", _FIND, _NAME)},
    } | {
        f"{name}/{action}": {"post": _operation(f"{action}Queue", summary, "OneQueue", _CHANGE, _NAME, body=body)}
        for action, (summary, body) in actions.items()
    }


def _gates() -> dict[str, Schema]:
    name = "gates/{name}"
    actions = {"open": ("Open a gate", "Nothing"), "close": ("Close a gate", "GateClosing")}
    actions["kick"] = ("Let held requests try once more", "GateKick")
    return {
        "gates": {"get": _operation("listGates", "All gates of this worker", "Gates", _VIEW)},
        name: {"get": _operation("getGate", "One gate, and the requests that it holds", "OneGate", _FIND, _NAME)},
    } | {
        f"{name}/{action}": {"post": _operation(f"{action}Gate", summary, "Gates", _CHANGE, _NAME, body=body)}
        for action, (summary, body) in actions.items()
    }


def _mode() -> dict[str, Schema]:
    return {
        "mode": {
            "get": _operation("getMode", "Whether this worker limits requests", "OneMode", _VIEW),
            "put": _operation("putMode", "Change the mode", "OneMode", _CHANGE, body="ModeChange"),
        }
    }


def _recordings() -> dict[str, Schema]:
    summary = "Record the traffic: a header, a line for each request that has ended, and a footer"
    start = _operation("startRecording", summary, "", _CHANGE, body="RecordingStart")
    start["responses"]["200"]["content"] = {"application/x-ndjson": {"schema": _TEXT}}
    return {
        "recordings": {
            "get": _operation("listRecordings", "All recordings under way in this worker", "Recordings", _VIEW),
            "post": start,
        },
        "recordings/{name}": {
            "get": _operation("getRecording", "One recording under way", "OneRecording", _FIND, _NAME),
            "delete": _operation("stopRecording", "End a recording, with its footer", "OneRecording", _FIND, _NAME),
        },
    }


def _shadow() -> dict[str, Schema]:
    start = "Try a configuration beside the one in force"
    promote = "Put the configuration that is tried in force, until the next reload"
    return {
        "shadow": {
            "get": _operation("getShadow", "What the configuration that is tried would have done", "OneShadow", _VIEW),
            "put": _operation("startShadow", start, "OneShadow", _CHANGE, body="ShadowStart"),
            "delete": _operation("stopShadow", "End the trial", "OneShadow", _FIND),
        },
        "shadow/promote": {"post": _operation("promoteShadow", promote, "OneShadow", _CHANGE, body="Nothing")},
    }


def _explain() -> dict[str, Schema]:
    parameters = (
        _query("method", "The method of the request.", {**_TEXT, "default": "GET"}),
        _query("url", "The URL, or the path with its query.", {**_TEXT, "default": "/", "examples": ["/orders/7"]}),
        _query("user", "The name of the user; without it, the request is anonymous.", _TEXT),
        _query("group", "A group of the user; may be repeated.", _TEXT),
        _query("header", "A header; may be repeated.", {**_TEXT, "pattern": "^[^:]+:", "examples": ["x-tenant:acme"]}),
        _query("client", "The IP address of the client.", {**_TEXT, "examples": ["192.0.2.7", "2001:db8::7"]}),
    )
    summary = "The classification of a request that is described"
    return {"explain": {"get": _operation("explain", summary, "", _DUMP, *parameters)}}


def _console() -> dict[str, Schema]:
    page: Schema = _operation("getConsole", "The page for browsers", "", _VIEW)
    page["responses"]["200"]["content"] = {"text/html": {"schema": _TEXT}}
    events = _operation(
        "getEvents", "Server-sent events for the page: a greeting, and a document each second", "", _VIEW
    )
    events["responses"]["200"]["content"] = {"text/event-stream": {"schema": _TEXT}}
    return {"console/": {"get": page}, "console/events": {"get": events}}


def _dump(schema: str, summary: str, *parameters: Schema, text: str = "text/plain") -> Schema:
    """Describe a page with two formats."""
    form = _query("format", "The format; takes precedence over the header Accept.", _one_of("text", "json"))
    operation = _operation(f"get{schema}", summary, schema, _DUMP, form, *parameters)
    operation["responses"]["200"]["content"] = {text: {"schema": _TEXT}, **_json(schema)}
    return operation


def _operation(
    name: str,
    summary: str,
    schema: str,
    refusals: tuple[str, ...],
    *parameters: Schema,
    body: str = "",
    code: str = "200",
) -> Schema:
    """Describe an operation by the schemas of its answer and of its body."""
    problem = {"application/problem+json": {"schema": _reference("Problem")}}
    content = _json(schema) if schema else {"application/json": {"schema": {"type": "object"}}}
    responses: Schema = {code: {"description": f"{summary}.", "content": content}}
    responses |= {one: {"description": _REFUSALS[one], "content": problem} for one in refusals}
    operation: Schema = {"operationId": name, "summary": summary, "responses": responses}
    if parameters:
        operation["parameters"] = list(parameters)
    if body:
        operation["requestBody"] = {"required": True, "content": _json(body)}
    return operation


def _json(schema: str) -> Schema:
    return {"application/json": {"schema": _reference(schema)}}


def _reference(schema: str) -> Schema:
    return {"$ref": f"#/components/schemas/{schema}"}


def _one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def _query(name: str, description: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _flag(name: str, description: str) -> Schema:
    return _query(name, description, _one_of("1", "true"))


_NAME: Final[Schema] = {"name": "name", "in": "path", "required": True, "description": "Its name.", "schema": _TEXT}
