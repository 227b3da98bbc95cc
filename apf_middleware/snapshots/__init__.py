"""Frozen snapshots of a server: its levels, queues, named queues and gates.

Those that few servers make have modules of their own: of requests and flows, of fleets, and of shadows.

Each stateful object makes its own snapshot with a method ``snapshot`` or ``status``, in the event loop's thread.
Metrics, the admin, the command line and tests read them. Requests are counted as in Kubernetes' debug dumps. Times are
nanoseconds on the clock of the server, and work is in units of 1e-8 seat-seconds.

The names and the order of the fields are those of the admin's JSON documents. From the classes here, pydantic makes
these documents and their schemas in the admin's OpenAPI description. A `JSONForm` says how the JSON of a field differs
from its value. It doesn't import pydantic, because the algorithm imports this module.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal

from apf_middleware.frozen import frozen

__all__ = [
    "Count",
    "Duration",
    "GateSnapshot",
    "JSONForm",
    "Key",
    "LevelSnapshot",
    "NamedQueueSnapshot",
    "Number",
    "ParkedRequest",
    "QueueSetSnapshot",
    "QueueSnapshot",
    "QueueState",
    "SharingSnapshot",
    "TicketSnapshot",
    "Time",
    "Work",
]

Schema = dict[str, Any]
"""A JSON schema, or a core schema of pydantic, which are plain dictionaries."""


class JSONForm:
    """The JSON value and the JSON schema of a field, for pydantic; a mark for `typing.Annotated`.

    ``write`` names a method of the serialization's context, which makes the JSON value of the field's value. ``schema``
    describes that value; without ``write`` it is added to the schema that follows from the field's type.
    """

    __slots__ = ("_schema", "_write")

    def __init__(self, write: str = "", **schema: object) -> None:
        self._write = write
        self._schema = schema

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[Any], Schema]) -> Schema:
        core = handler(source)
        if not self._write:
            return core
        return core | {"serialization": {"type": "function-plain", "function": self._written, "info_arg": True}}

    def _written(self, value: object, info: Any) -> object:  # noqa: ANN401 - of pydantic, which is not imported
        return getattr(info.context, self._write)(value)

    def __get_pydantic_json_schema__(self, core: Schema, handler: Callable[[Schema], Schema]) -> Schema:
        return dict(self._schema) if self._write else handler(core) | self._schema


Count = Annotated[int, JSONForm(minimum=0)]
Number = Annotated[float, JSONForm(minimum=0)]
Time = Annotated[int, JSONForm("time", type="string", format="date-time")]
"""Nanoseconds on the clock of the server; in JSON the time of day."""

Duration = Annotated[int, JSONForm("seconds", type="number", minimum=0)]
"""Nanoseconds, or seat-nanoseconds; in JSON seconds."""

Work = Annotated[int, JSONForm("work", type="string", pattern=r"^-?\d+\.\d{8}ss$")]
"""In units of 1e-8 seat-seconds; in JSON as Kubernetes writes it."""

Key = Annotated[Hashable, JSONForm("key", type=["string", "null"])]
"""A key of a gate, which may be anything hashable; in JSON text, or null for None and for an empty key."""


class QueueState(StrEnum):
    """The state of a named queue at one moment."""

    OPEN = "Open"
    PAUSED = "Paused"
    CLOSING = "Closing"
    CLOSED = "Closed"


@dataclass(frozen=True, slots=True)
class TicketSnapshot:
    """A ticket; ``seated_at`` is None until it is seated."""

    flow: str
    state: Enum
    reason: str | None
    seats: int
    final_seats: int
    linger_ns: int
    width: int
    arrived_at: int | None
    seated_at: int | None


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """A queue of a level; ``next_dispatch_r`` is None if the discipline has no such meter."""

    level: str
    index: Count
    waiting: Count
    parked: Count
    executing: Count
    seats_in_use: Count
    next_dispatch_r: Work | None
    initial_seats_waiting: Count
    seats_waiting: Count
    work_waiting: Work


@frozen
class QueueSetSnapshot:
    """A queue set; ``queues`` are those in which a request waits, is parked, runs or lingers."""

    now: int
    concurrency: int
    discipline: str
    meters: Mapping[str, int]
    is_quiescing: bool
    waiting: int
    seats_waiting: int
    executing: int
    lingering: int
    seats_in_use: int
    dispatched: int
    rejected: Mapping[str, int]
    no_accommodation: int
    queues: tuple[QueueSnapshot, ...]


@frozen
class LevelSnapshot:
    """A priority level; ``rejected`` counts by reason, and an exempt level has neither ``max`` nor ``current`` limit.

    An elastic level has a ``cap`` while the event loop is late.

    ``parked`` requests wait for a gate, and ``receiving`` requests for their bodies; ``waiting`` includes neither.
    """

    level: str
    exempt: bool
    idle: bool
    quiescing: bool
    active_queues: Count
    waiting: Count
    parked: Count
    receiving: Count
    seats_waiting: Count
    executing: Count
    lingering: Count
    seats_in_use: Count
    dispatched: Count
    rejected: Mapping[str, Count]
    nominal: Count
    min: Count
    max: Count | None
    current: Count | None
    discipline: str
    meters: Mapping[str, int]
    cap: Count | None = None


@frozen
class SharingSnapshot:
    """The seats of a server and its levels; levels that are drained come last."""

    seats: Count
    levels: tuple[LevelSnapshot, ...]


@frozen
class NamedQueueSnapshot:
    """A named queue, which is a level or the parent of levels; the counts of a parent are the sums of its children's.

    ``deserved`` is the number of seats that it could claim now, ``used`` the number that it has, and ``share`` is used
    divided by deserved. ``capacity`` is what the mins of other queues leave of its ``max``. ``source`` is "file" if the
    queue is as in the files. Each queue that is created gets a ``generation`` of its own.
    """

    name: str
    parent: str | None
    state: Annotated[str, JSONForm(enum=[one.value for one in QueueState])]
    weight: Count
    min: Count
    deserved: Number
    used: Count
    max: Count
    capacity: Count
    inqueue: Count
    pending: Count
    running: Count
    completed: Count
    failed: Count
    aborted: Count
    rejected: Mapping[str, Count]
    share: Number
    source: Literal["file", "live"]
    generation: Count
    priority: int
    reclaimable: bool
    dequeue_strategy: Annotated[str, JSONForm(enum=["traverse", "fifo"])]
    exempt: bool
    closed_by_parent: bool
    children: tuple[str, ...]

    @property
    def rejections(self) -> int:
        """Return the number of rejections for all reasons."""
        return sum(self.rejected.values())

    @property
    def arrived(self) -> int:
        """Return the number of requests that have arrived."""
        ended = self.completed + self.failed + self.aborted + self.rejections
        return ended + self.inqueue + self.pending + self.running


@frozen
class GateSnapshot:
    """One key of a gate; ``key`` is None for a gate at which no request waits.

    ``oldest`` is the longest wait of its ``parked`` requests, in seconds.
    ``state`` is *passing*; *blocking*, when requests that need the gate wait or are rejected; or *held*, when an
    operator has closed it.
    """

    gate: str
    key: Key
    kind: str
    state: Annotated[str, JSONForm(enum=["passing", "blocking", "held"])]
    parked: Count
    oldest: Number | None
    acquired: Count | None
    limit: Count | None
    events: Count
    rescues: Count


@frozen
class ParkedRequest:
    """A request that a gate holds; `Gates.kick` takes its ``id``. Durations are in seconds."""

    id: Count
    level: str
    schema: str
    flow: str
    gate: str
    key: Key
    cost: Count
    stage: str
    parked_for: Number
    waited: Number
    attempts: Count
