"""One request's way through its gates: which it has to pass, where it is kept waiting and since when, what it holds."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from apf_middleware.classification import ANONYMOUS, Identity, RequestDigest

if TYPE_CHECKING:
    from apf_middleware.fairqueuing import SharedLevel, Ticket
    from apf_middleware.gates.gate import Gate
    from apf_middleware.gates.line import Line
    from apf_middleware.gates.slot import GateReservation, Slot

__all__ = ["Check", "GateRequest", "Need", "Passage", "Refusal", "Stage"]


@dataclass(frozen=True, slots=True)
class GateRequest:
    """What a gate is told of a request. ``state`` is the ASGI scope's."""

    level: str
    schema: str
    flow: str
    seats: int = 1
    identity: Identity = ANONYMOUS
    digest: RequestDigest | None = None
    scope: Mapping[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> Mapping[str, Any]:
        state: Mapping[str, Any] = self.scope.get("state", {})
        return state

    @property
    def headers(self) -> Mapping[str, str]:
        return {} if self.digest is None else self.digest.headers


class Stage(Enum):
    """Where a request is."""

    QUEUED = "queued"
    PARKED = "parked"
    CHECKING = "checking"  # an asynchronous gate thinks about it
    BEHIND = "behind"  # an earlier one of its flow is kept waiting, and nobody may overtake
    PASSED = "passed"
    ENDED = "ended"


class Need:
    """A gate that a request has to pass, with the key and the cost that it has there, and the lease once it has one."""

    __slots__ = ("cost", "gate", "key", "lease")

    def __init__(self, gate: "Gate", key: Hashable, cost: int) -> None:
        self.gate: Gate = gate
        self.key: Hashable = key
        self.cost: int = cost
        self.lease: object = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a gate has refused a request: with which status, and when to come back, if it knows that."""

    gate: str
    status: int
    retry_after: float | None = None


class Check:
    """One asynchronous question; whoever asks it tells `GateKeeper.conclude` the answer."""

    __slots__ = ("need", "opening", "passage")

    def __init__(self, passage: "Passage", need: Need, opening: int) -> None:
        self.passage: Passage = passage
        self.need: Need = need
        self.opening: int = opening


class Passage:
    """A request's passage. ``number`` grows with each that arrives."""

    __slots__ = (
        "asked",
        "attempts",
        "bypasses",
        "check",
        "deadline",
        "flow",
        "has_waited",
        "is_due",
        "is_forced",
        "lapses",
        "level",
        "limit_ns",
        "line",
        "needs",
        "number",
        "parked_at",
        "refusal",
        "request",
        "reservations",
        "slot",
        "stage",
        "stay",
        "ticket",
    )

    def __init__(
        self, ticket: "Ticket", level: "SharedLevel", request: GateRequest, *, number: int, now: int, limit_ns: int
    ) -> None:
        self.ticket: Ticket = ticket
        self.level: SharedLevel = level
        self.request: GateRequest = request
        self.flow: str = ticket.flow
        self.number: int = number
        self.limit_ns: int = limit_ns
        self.deadline: int = now + limit_ns
        self.needs: list[Need] = []
        self.stage: Stage = Stage.PARKED  # until it is let into its queue
        self.slot: Slot | None = None  # which keeps it waiting
        self.line: Line | None = None  # of which it is the one that may try
        self.parked_at: int = now  # at that slot
        self.attempts: int = 0
        self.bypasses: int = 0  # how many have passed where this was the first one
        self.is_due: bool = False  # passed as often as any of its gates allows
        self.reservations: list[GateReservation] = []
        self.lapses: int = 0  # of its reservations
        self.asked: int = -1  # the opening of the slot about which its hints have been asked
        self.is_forced: bool = False
        self.has_waited: bool = False
        self.stay: int = 0  # how often it has joined a line
        self.check: Check | None = None  # while it is checked asynchronously
        self.refusal: Refusal | None = None

    @property
    def is_parked(self) -> bool:
        """Whether it is out of the chain of its queue."""
        return self.stage in {Stage.PARKED, Stage.CHECKING, Stage.BEHIND}

    def cost_at(self, slot: "Slot") -> int:
        """What it takes there."""
        return next((need.cost for need in self.needs if need.gate is slot.gate), 1)

    def __repr__(self) -> str:
        where = f" at {self.slot!r}" if self.slot is not None else ""
        return f"<Passage {self.number} of {self.flow!r}: {self.stage.value}{where}>"
