"""The admin's JSON documents: pydantic makes them, and their JSON schemas, of snapshots and of the classes here."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import GenericAlias
from typing import Any, Final, Literal, TypeVar

from pydantic import TypeAdapter

from apf_middleware.asgi.admin.formatting import Formatter
from apf_middleware.runtime.queues import Drift
from apf_middleware.snapshots import (
    Count,
    FlowSnapshot,
    GateSnapshot,
    NamedQueueSnapshot,
    Number,
    ParkedRequest,
    QueueSnapshot,
    RequestSnapshot,
    SharingSnapshot,
)

__all__ = [
    "ConfigurationDocument",
    "ConfigurationProblem",
    "DeletedQueue",
    "FieldError",
    "FlowList",
    "GateDocument",
    "GateList",
    "HoldingGate",
    "NamedQueueDocument",
    "NamedQueueList",
    "ProblemDocument",
    "QueueList",
    "ReloadDocument",
    "RequestList",
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
"""Documents of a configuration, as YAML has them."""


@dataclass(frozen=True, slots=True)
class Worker:
    """The process that answers."""

    pid: Count
    app: str
    version: str


@dataclass(frozen=True, slots=True)
class QueueList:
    """All queues of all levels."""

    queues: tuple[QueueSnapshot, ...]


@dataclass(frozen=True, slots=True)
class RequestList:
    """All requests that wait or run."""

    requests: tuple[RequestSnapshot, ...]


@dataclass(frozen=True, slots=True)
class FlowList:
    """The heaviest flows."""

    flows: tuple[FlowSnapshot, ...]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class ConfigurationDocument:
    """The configuration in force."""

    problems: tuple[ConfigurationProblem, ...]
    documents: Documents


@dataclass(frozen=True, slots=True)
class ReloadDocument:
    """The outcome of a reload, and the warnings or errors of the configuration that was read."""

    reloaded: bool
    seats: Count
    levels: Count
    schemas: Count
    problems: tuple[ConfigurationProblem, ...]


@dataclass(frozen=True, slots=True)
class FieldError:
    """A wrong value of one field."""

    field: str
    value: object
    rule: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class ProblemDocument:
    """A problem (RFC 9457); ``errors`` are those of single fields."""

    type: str
    title: str
    status: Count
    detail: str
    errors: tuple[FieldError, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedQueueList:
    """All named queues of a worker; ``documents`` would make them, ``drift`` is how they differ from the files."""

    worker: Worker
    queues: tuple[NamedQueueSnapshot, ...]
    documents: Documents = ()
    drift: tuple[Drift, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedQueueDocument:
    """One named queue."""

    worker: Worker
    queue: NamedQueueSnapshot
    documents: Documents
    drift: tuple[Drift, ...] = ()


@dataclass(frozen=True, slots=True)
class DeletedQueue:
    """The name of a queue that was deleted."""

    worker: Worker
    deleted: str


@dataclass(frozen=True, slots=True)
class WaitingFlow:
    """The waiting requests of a flow, the seats that they ask for, and how long the oldest has waited in seconds."""

    flow: str
    waiting: Count
    seats: Count
    oldest: Number


@dataclass(frozen=True, slots=True)
class HoldingGate:
    """A gate that holds requests of a queue."""

    gate: str
    key: str | None
    parked: Count
    oldest: Number


@dataclass(frozen=True, slots=True)
class WaitingDocument:
    """The requests that wait in a named queue."""

    worker: Worker
    queue: str
    waiting: Count
    seats: Count
    oldest: Number
    flows: tuple[WaitingFlow, ...]
    gates: tuple[HoldingGate, ...]


@dataclass(frozen=True, slots=True)
class GateList:
    """The gates of a worker, each key apart where requests wait."""

    worker: Worker
    gates: tuple[GateSnapshot, ...]
    kicked: Count = 0


@dataclass(frozen=True, slots=True)
class GateDocument:
    """One gate and the requests that it holds."""

    worker: Worker
    gates: tuple[GateSnapshot, ...]
    parked: tuple[ParkedRequest, ...]


_COMPONENTS: Final[Mapping[str, type]] = {
    "Levels": SharingSnapshot,
    "Queues": QueueList,
    "Requests": RequestList,
    "Flows": FlowList,
    "Configuration": ConfigurationDocument,
    "Reload": ReloadDocument,
    "Problem": ProblemDocument,
    "NamedQueues": NamedQueueList,
    "OneQueue": NamedQueueDocument,
    "DeletedQueue": DeletedQueue,
    "Waiting": WaitingDocument,
    "Gates": GateList,
    "OneGate": GateDocument,
}
"""The names of documents in the OpenAPI description; other classes have their own, without ``Snapshot``."""

_PREFIX: Final = "#/components/schemas/"
_NO_CLOCK: Final = Formatter(0)


@cache
def _adapter(kind: Hashable, *, of_list: bool = False) -> TypeAdapter[Any]:
    form: Any = GenericAlias(list, kind) if of_list else kind
    return TypeAdapter(form)


def to_json(document: Any, *, without: Sequence[str] = (), formatter: Formatter = _NO_CLOCK) -> Any:  # noqa: ANN401
    """Return a document, or a list of rows of one class, as JSON has it; ``without`` fields that are left out."""
    if not isinstance(document, list):
        return _adapter(document.__class__).serializer.to_python(document, exclude=set(without), context=formatter)
    if not document:
        return []
    exclude = {"__all__": set(without)} if without else None
    adapter = _adapter(document[0].__class__, of_list=True)
    return adapter.serializer.to_python(document, exclude=exclude, context=formatter)


def from_json(kind: type[DocumentT], content: bytes) -> DocumentT:
    """Return the document of a class here in an answer of the admin; raise ValueError if the answer has another form.

    Fields that this version doesn't know are left out.
    """
    form: Any = kind
    document: DocumentT = _adapter(form).validate_json(content)
    return document


def component_schemas() -> dict[str, Schema]:
    """Return the JSON schemas of all documents, by their names in the OpenAPI description."""
    adapters = [(name, "serialization", _adapter(kind)) for name, kind in _COMPONENTS.items()]
    _, found = TypeAdapter.json_schemas(adapters, ref_template=_PREFIX + "{model}")  # type: ignore[arg-type]
    names = {kind.__name__: name for name, kind in _COMPONENTS.items()}
    return {_rename(name, names): _tidied(schema, names) for name, schema in found["$defs"].items()}


def _rename(name: str, names: Mapping[str, str]) -> str:
    return names.get(name, name.removesuffix("Snapshot"))


def _tidied(part: Any, names: Mapping[str, str], *, is_map: bool = False) -> Any:  # noqa: ANN401 - of a JSON schema
    """Return a schema with the names of the description, without pydantic's titles, and with closed objects."""
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
