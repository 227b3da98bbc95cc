"""The admin's JSON documents and the bodies that it reads, and their JSON schemas.

Answers are made of snapshots and of the frozen classes here. Bodies are pydantic models; the description of a field is
also the rule that a wrong value breaks.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, create_model

from apf_middleware.asgi.admin.formatting import Formatter
from apf_middleware.frozen import frozen
from apf_middleware.mode import MODES, Mode
from apf_middleware.recordings.marks import Names
from apf_middleware.runtime.queues import Drift
from apf_middleware.snapshots import (
    Count,
    GateSnapshot,
    NamedQueueSnapshot,
    Number,
    ParkedRequest,
    QueueSnapshot,
    SharingSnapshot,
)
from apf_middleware.snapshots.fleet import FleetLevelSnapshot, FleetMemberSnapshot
from apf_middleware.snapshots.requests import FlowSnapshot, RequestSnapshot
from apf_middleware.snapshots.shadow import ShadowSnapshot

__all__ = [
    "AdaptiveSeatsDocument",
    "ConfigurationDocument",
    "ConfigurationProblem",
    "DeletedQueue",
    "FieldError",
    "FleetMemberList",
    "FlowList",
    "GateClosing",
    "GateDocument",
    "GateKick",
    "GateList",
    "HoldingGate",
    "ModeChange",
    "ModeDocument",
    "NamedQueueDocument",
    "NamedQueueList",
    "Nothing",
    "ProblemDocument",
    "QueueChange",
    "QueueClosing",
    "QueueCreation",
    "QueueList",
    "RecordingDocument",
    "RecordingList",
    "RecordingSnapshot",
    "RecordingStart",
    "ReloadDocument",
    "RequestList",
    "ShadowDocument",
    "ShadowStart",
    "WaitingDocument",
    "WaitingFlow",
    "Worker",
    "component_schemas",
    "from_json",
    "to_json",
]

DocumentT = TypeVar("DocumentT")
Schema = dict[str, Any]
Documents = tuple[Mapping[str, Any], ...]
"""Documents of a configuration, with the keys that they have in YAML."""


@frozen
class Worker:
    """The process that answers."""

    pid: Count
    app: str
    version: str


@frozen
class QueueList:
    """All queues of all levels."""

    queues: tuple[QueueSnapshot, ...]


@frozen
class RequestList:
    """All requests that wait or run."""

    requests: tuple[RequestSnapshot, ...]


@frozen
class FlowList:
    """The heaviest flows."""

    flows: tuple[FlowSnapshot, ...]


@frozen
class FleetMemberList:
    """All members of a fleet, its ``seats``, and the sums of its levels."""

    seats: Count
    levels: tuple[FleetLevelSnapshot, ...]
    members: tuple[FleetMemberSnapshot, ...]


@frozen
class ModeDocument:
    """The mode of a worker, and the requests that have passed in the other modes than ``on``."""

    worker: Worker
    mode: Mode
    passed: Mapping[str, Count]


@frozen
class RecordingSnapshot:
    """A recording under way: when it began and how long it will take, in seconds, and the rows sent and lost."""

    id: str
    by: str
    since: Number
    left: Number
    rows: Count
    lost: Count
    sample: Number
    names: Names


@frozen
class RecordingList:
    """All recordings of a worker."""

    worker: Worker
    recordings: tuple[RecordingSnapshot, ...]


@frozen
class RecordingDocument:
    """One recording."""

    worker: Worker
    recording: RecordingSnapshot


@frozen
class ShadowDocument:
    """The configuration that a worker tries beside the one in force; null if there is none."""

    worker: Worker
    shadow: ShadowSnapshot | None


@frozen
class ConfigurationProblem:
    """An error or a warning about a configuration, and its place."""

    severity: Literal["error", "warning"]
    file: str
    document: Count
    line: Count
    field: str
    value: str
    rule: str
    hint: str


@frozen
class ConfigurationDocument:
    """The configuration in force."""

    problems: tuple[ConfigurationProblem, ...]
    documents: Documents


@frozen
class ReloadDocument:
    """The outcome of a reload, and the warnings or errors of the configuration that was read."""

    reloaded: bool
    seats: Count
    levels: Count
    schemas: Count
    problems: tuple[ConfigurationProblem, ...]


@frozen
class FieldError:
    """A wrong value of one field."""

    field: str
    value: object
    rule: str
    hint: str = ""


@frozen
class ProblemDocument:
    """A problem (RFC 9457); ``errors`` are those of single fields."""

    type: str
    title: str
    status: Count
    detail: str
    errors: tuple[FieldError, ...] = ()


@frozen
class AdaptiveSeatsDocument:
    """A number of ``seats`` that the worker finds between ``min`` and ``max``, and the reason of its last decision.

    If it is ``shared``, it is that of the whole fleet.
    """

    seats: int
    min: int
    max: int
    reason: str
    shared: bool = False


@frozen
class NamedQueueList:
    """All named queues of a worker, the ``documents`` that define them, and their ``drift`` from the files.

    ``adaptive`` is there if the worker's number of seats adapts. If the seats are ``shared``, the limits of the queues
    are those of the whole fleet.
    """

    worker: Worker
    queues: tuple[NamedQueueSnapshot, ...]
    documents: Documents = ()
    drift: tuple[Drift, ...] = ()
    adaptive: AdaptiveSeatsDocument | None = None
    shared: bool = False


@frozen
class NamedQueueDocument:
    """One named queue; if the seats are ``shared``, its limits are those of the whole fleet."""

    worker: Worker
    queue: NamedQueueSnapshot
    documents: Documents
    drift: tuple[Drift, ...] = ()
    shared: bool = False


@frozen
class DeletedQueue:
    """The name of a queue that was deleted."""

    worker: Worker
    deleted: str


@frozen
class WaitingFlow:
    """The waiting requests of a flow, the seats that they ask for, and how long the oldest has waited in seconds."""

    flow: str
    waiting: Count
    seats: Count
    oldest: Number


@frozen
class HoldingGate:
    """A gate that holds requests of a queue."""

    gate: str
    key: str | None
    parked: Count
    oldest: Number


@frozen
class WaitingDocument:
    """The requests that wait in a named queue."""

    worker: Worker
    queue: str
    waiting: Count
    seats: Count
    oldest: Number
    flows: tuple[WaitingFlow, ...]
    gates: tuple[HoldingGate, ...]


@frozen
class GateList:
    """The gates of a worker, with one row for each key for which requests wait."""

    worker: Worker
    gates: tuple[GateSnapshot, ...]
    kicked: Count = 0


@frozen
class GateDocument:
    """One gate and the requests that it holds."""

    worker: Worker
    gates: tuple[GateSnapshot, ...]
    parked: tuple[ParkedRequest, ...]


# Bodies


def _hide_defaults(schema: Schema) -> None:
    for field in schema["properties"].values():
        if field.get("default", "") is None:  # of a field that may be left out
            del field["default"]


_CONFIG: Final = ConfigDict(
    extra="forbid", strict=True, allow_inf_nan=False, json_schema_extra=_hide_defaults, defer_build=True
)
_LARGEST: Final = 2**31 - 1
_Key = Annotated[str, StringConstraints(pattern="^([0-9a-f]{2}){16,64}$")]
LONGEST_CLOSING_S: Final = 10**9
"""The longest time for which a gate may be closed, in seconds."""


def _field(kind: Any, rule: str, default: object = None, **limits: Any) -> tuple[Any, Any]:  # noqa: ANN401 - pydantic's
    """Return a field that may be left out; minimum and maximum are only described here; `NamedQueues` checks them."""
    least = limits.pop("least", None)
    return kind, Field(default, description=rule, ge=least, json_schema_extra=limits)


def _body(name: str, fields: Mapping[str, tuple[Any, Any]]) -> type[BaseModel]:
    definitions: dict[str, Any] = {**fields}
    return create_model(name, __config__=_CONFIG, **definitions)


_CHANGES: Final[Mapping[str, tuple[Any, Any]]] = {
    "weight": _field(int, "a whole number", minimum=1, maximum=_LARGEST),
    "min": _field(int, "a whole number of seats", minimum=0, maximum=_LARGEST),
    "max": _field(int | None, "a whole number of seats, or null for no limit", minimum=0, maximum=_LARGEST),
    "parent": _field(str | None, "the name of a queue, or null for none"),
    "priority": _field(int, "a whole number"),
    "reclaimable": _field(bool, "true or false"),
    "dequeue_strategy": _field(Literal["traverse", "fifo"], "traverse or fifo"),
    "wait_limit": _field(float | None, "a number of seconds, or null for the server's limit", least=0),
}
_CLOSING: Final = f"a number of seconds, more than 0 and at most {LONGEST_CLOSING_S}, or null"
Nothing: Final = _body("Nothing", {})
QueueChange: Final = _body("QueueChange", _CHANGES)
QueueCreation: Final = _body("QueueCreation", {"name": (str, Field(description="a DNS name")), **_CHANGES})
QueueClosing: Final = _body("QueueClosing", {"mode": _field(Literal["drain", "shed"], "drain or shed", "drain")})
GateClosing: Final = _body(
    "GateClosing", {"for": (float | None, Field(None, description=_CLOSING, ge=1e-3, le=LONGEST_CLOSING_S))}
)
GateKick: Final = _body("GateKick", {"request": _field(int | None, "the id of a request, or null for all")})
ModeChange: Final = _body("ModeChange", {"mode": (Mode, Field(description=f"one of {', '.join(MODES)}"))})
LONGEST_RECORDING_S: Final = 24 * 3600
"""The longest time for which traffic may be recorded, in seconds."""

_SECONDS_RULE: Final = f"a number of seconds, more than 0 and at most {LONGEST_RECORDING_S}"
RecordingStart: Final = _body(
    "RecordingStart",
    {
        "seconds": (float, Field(description=_SECONDS_RULE, gt=0, le=LONGEST_RECORDING_S)),
        "sample": (float, Field(1.0, description="the part of the flows, more than 0 and at most 1", gt=0, le=1)),
        "names": _field(Names, "hashed or plain", "hashed"),
        "key": _field(_Key, "32 to 128 hexadecimal digits, the key of the hashes", None),
    },
)
ShadowStart: Final = _body(
    "ShadowStart",
    {
        "configuration": (str, Field(description="the text of a configuration, in YAML")),
        "source": _field(str, "the name under which the configuration is shown", "the request"),
        "classifyOnly": _field(bool, "true or false", default=False),
    },
)
_BODIES: Final = (
    *(Nothing, QueueCreation, QueueChange, QueueClosing, GateClosing, GateKick, ModeChange),
    *(RecordingStart, ShadowStart),
)

_COMPONENTS: Final[Mapping[str, type]] = {
    "Levels": SharingSnapshot,
    "Queues": QueueList,
    "Requests": RequestList,
    "Flows": FlowList,
    "Fleet": FleetMemberList,
    "Configuration": ConfigurationDocument,
    "Reload": ReloadDocument,
    "Problem": ProblemDocument,
    "NamedQueues": NamedQueueList,
    "OneQueue": NamedQueueDocument,
    "DeletedQueue": DeletedQueue,
    "Waiting": WaitingDocument,
    "Gates": GateList,
    "OneGate": GateDocument,
    "OneMode": ModeDocument,
    "Recordings": RecordingList,
    "OneRecording": RecordingDocument,
    "OneShadow": ShadowDocument,
}
"""The names of documents in the OpenAPI description; other classes have their own names there, without ``Snapshot``."""

_PREFIX: Final = "#/components/schemas/"
_NO_CLOCK: Final = Formatter(0)


@cache
def _adapter(kind: Hashable, *, of_list: bool = False) -> TypeAdapter[Any]:
    form: Any = GenericAlias(list, kind) if of_list else kind
    return TypeAdapter(form)


def to_json(document: Any, *, without: Sequence[str] = (), formatter: Formatter = _NO_CLOCK) -> Any:  # noqa: ANN401
    """Return a document, or a list of rows of one class, in the form of JSON; the fields ``without`` are left out."""
    if not isinstance(document, list):
        return _adapter(document.__class__).serializer.to_python(document, exclude=set(without), context=formatter)
    if not document:
        return []
    exclude = {"__all__": set(without)} if without else None
    adapter = _adapter(document[0].__class__, of_list=True)
    return adapter.serializer.to_python(document, exclude=exclude, context=formatter)


def from_json(kind: type[DocumentT], content: bytes) -> DocumentT:
    """Return an answer of the admin as a document of the class ``kind``; raise ValueError if it has another form.

    Fields that the class doesn't have are ignored.
    """
    form: Any = kind
    document: DocumentT = _adapter(form).validate_json(content)
    return document


def component_schemas() -> dict[str, Schema]:
    """Return the JSON schemas of all documents, by their names in the OpenAPI description."""
    adapters = [(name, "serialization", _adapter(kind)) for name, kind in _COMPONENTS.items()]
    adapters += [(kind.__name__, "validation", _adapter(kind)) for kind in _BODIES]
    _, found = TypeAdapter.json_schemas(adapters, ref_template=_PREFIX + "{model}")  # type: ignore[arg-type]
    names = {kind.__name__: name for name, kind in _COMPONENTS.items()}
    return {_rename(name, names): _tidied(schema, names) for name, schema in found["$defs"].items()}


def _rename(name: str, names: Mapping[str, str]) -> str:
    return names.get(name, name.removesuffix("Snapshot"))


def _tidied(part: Any, names: Mapping[str, str], *, is_map: bool = False) -> Any:  # noqa: ANN401 - of a JSON schema
    """Return a schema with the names of the description, without pydantic's titles and additional properties."""
    if isinstance(part, list):
        return [_tidied(one, names) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return {"$ref": _PREFIX + _rename(part["$ref"].removeprefix(_PREFIX), names)}
    tidy = {
        key: _tidied(value, names, is_map=key == "properties")
        for key, value in part.items()
        if is_map or key != "title"
    }
    return tidy | {"additionalProperties": False} if not is_map and "properties" in tidy else tidy
