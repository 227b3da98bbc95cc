"""The interface of gates: the request, the possible answers, and the terms and counters that all gates have.

A gate is a condition besides the seats. It may limit a resource of which each request takes a part. The gate computes a
key for each request that it concerns, and has a slot for each key (see `slot`). It answers with a lease, which is given
back when the request has ended; with `ParkDecision`, which parks the request; or with `Reject`. The `GateScheduler`
(see `scheduler`) asks all gates of a request in one step. If one of them doesn't let the request pass, the scheduler
gives the leases of the others back in the same step. It then rejects the request, or parks it and decides when to ask
again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import isfinite
from typing import Any, Final, Literal, TypedDict

from apf_middleware.classification import ANONYMOUS, Identity, RequestDigest
from apf_middleware.classification.text import require_text
from apf_middleware.counters import DURATION_BOUNDS_NS, Histogram
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.gates.functions import is_unfinished, require_plain

__all__ = [
    "FIRST_PAUSE_NS",
    "INTERRUPTS",
    "MOST_BYPASSES",
    "NO_LEASE",
    "QUEUE",
    "SKIP",
    "CostOf",
    "Gate",
    "GateCounters",
    "GateRequest",
    "Hint",
    "KeyOf",
    "OnError",
    "Park",
    "ParkDecision",
    "Probe",
    "Reject",
    "ReleaseAt",
    "Terms",
    "TermsGiven",
    "shared_key",
    "terms_of",
    "unit_cost",
]

MOST_BYPASSES: Final = 16
"""The number of requests that may pass a request whose turn has come, but which needs more than is free."""

FIRST_PAUSE_NS: Final = 10_000_000
"""The first pause before a gate without events is asked again."""

INTERRUPTS: Final = (GeneratorExit, KeyboardInterrupt)
"""Exceptions that an app's function passes on. All others are its failures, also a CancelledError of what it reads."""

_SECOND: Final = 10**9


@dataclass(frozen=True, slots=True)
class GateRequest:
    """The facts about a request that gates may use; ``route`` is its kind, if durations are learned."""

    level: str
    schema: str
    flow: str
    seats: int = 1
    identity: Identity = ANONYMOUS
    digest: RequestDigest | None = None
    scope: Mapping[str, Any] = field(default_factory=dict)
    route: str | None = None

    @property
    def state(self) -> Mapping[str, Any]:
        """Return the ``state`` of the ASGI scope, which the app's lifespan and its middlewares share."""
        state: Mapping[str, Any] = self.scope.get("state", {})
        return state

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the request's headers, with names in lower case."""
        return {} if self.digest is None else self.digest.headers


KeyOf = Callable[[GateRequest], Hashable]
CostOf = Callable[[GateRequest], int]


def shared_key(request: GateRequest) -> Hashable:  # noqa: ARG001
    """Return one key for all requests."""
    return ""


def unit_cost(request: GateRequest) -> int:  # noqa: ARG001
    """Return a cost of 1 for all requests."""
    return 1


# Answers of an app's own gates and conditions, in seconds on the clock of `time.monotonic`


class Hint(Enum):
    """The meaning of an event for one waiting request."""

    QUEUE = "queue"
    SKIP = "skip"


QUEUE: Final = Hint.QUEUE
"""The event may help the request: let it try."""

SKIP: Final = Hint.SKIP
"""The event can't help the request."""


@dataclass(frozen=True, slots=True)
class Park:
    """The request waits, because the gate may open before the request's wait limit.

    ``retry_at`` (a time) or ``retry_in`` (from now) says when the gate can open at the earliest, if that is known. A
    request whose wait limit ends before that is rejected at once. With ``penalty=False``, an event opens the gate
    without a pause, even if the gate is polled.
    """

    retry_at: float | None = None
    retry_in: float | None = None
    penalty: bool = True

    def __post_init__(self) -> None:
        if self.retry_at is not None and self.retry_in is not None:
            raise InvalidValueError("retry_in", self.retry_in, "it must be None if retry_at is given")
        for name, value in (("retry_at", self.retry_at), ("retry_in", self.retry_in)):
            if value is not None:
                _require_seconds(name, value)

    def retry_at_ns(self, now: int) -> int | None:
        """Return the time to try again, in nanoseconds of the clock of ``now``."""
        if self.retry_in is not None:
            return now + int(self.retry_in * 1e9)
        return None if self.retry_at is None else int(self.retry_at * 1e9)


def _require_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InvalidValueError(name, value, "it must be a number of seconds")


@dataclass(frozen=True, slots=True)
class Reject:
    """The request is rejected, because waiting can't help.

    If ``status`` is None, the gate's own is used; if ``retry_after`` is None, the server's usual ``Retry-After``.
    """

    status: int | None = None
    retry_after: float | None = None

    def __post_init__(self) -> None:
        if self.status is not None:
            require_integer("status", self.status, least=400, most=599)
        # this form of the comparison also rejects NaN
        if self.retry_after is not None and not 0 <= self.retry_after < 1e9:
            raise InvalidValueError("retry_after", self.retry_after, "it must be from 0 to less than 1e9 seconds")


@dataclass(frozen=True, slots=True)
class Probe:
    """At most ``most`` requests pass at a time, to find out whether a dependency works again."""

    most: int = 1

    def __post_init__(self) -> None:
        require_integer("most", self.most, least=1)


NO_LEASE: Final = object()
"""The request passes, and has nothing to give back to the gate."""


@dataclass(frozen=True, slots=True)
class ParkDecision:
    """The same as `Park`, with times in nanoseconds. A request that costs less than ``below`` would pass now."""

    retry_at: int | None = None
    penalty: bool = True
    below: int | None = None


# Terms

OnError = Literal["admit", "reject", "backoff"]
ReleaseAt = Literal["response", "headers", "seats"]


@dataclass(frozen=True, slots=True)
class Terms:
    """The settings that all kinds of gates have.

    ``status`` is the status of the gate's rejections, and ``on_error`` the answer when the gate itself fails. At most
    ``max_parked`` requests wait for the gate; if it is None, half of the length limit in each queue, for all gates
    together. ``release`` says when a lease is given back: at the end of the response, when its headers are sent, or
    with the seats of the request, which a stream gives back when it begins. If no event has come for ``flush_ns``, the
    gate is asked again; None means a tenth of the request's wait limit, at most a second. ``poll_ns`` is for gates
    without events: the first pause after which the gate is asked again.
    """

    status: int = 503
    on_error: OnError = "admit"
    max_parked: int | None = None
    release: ReleaseAt = "response"
    flush_ns: int | None = None
    poll_ns: int | None = None
    events: tuple[str, ...] = ()
    most_bypasses: int = MOST_BYPASSES

    def __post_init__(self) -> None:
        require_integer("status", self.status, least=400, most=599)
        if self.on_error not in {"admit", "reject", "backoff"}:
            raise InvalidValueError("on_error", self.on_error, "it must be admit, reject or backoff")
        if self.release not in {"response", "headers", "seats"}:
            raise InvalidValueError("release", self.release, "it must be response, headers or seats")
        events: object = self.events
        if isinstance(events, str):  # each letter of it would be an event
            raise InvalidValueError("events", events, "it must be a tuple of names", "Write (name,) for one")
        for name in ("max_parked", "flush_ns", "poll_ns"):
            value = getattr(self, name)
            if value is not None:
                require_integer(name, value, least=1)
        require_integer("most_bypasses", self.most_bypasses, least=1)

    @property
    def first_pause_ns(self) -> int:
        """Return the first pause before the gate is asked again."""
        return FIRST_PAUSE_NS if self.poll_ns is None else self.poll_ns


class TermsGiven(TypedDict, total=False):
    """`Terms` as an app writes them; ``flush`` and ``poll`` are in seconds."""

    status: int
    on_error: OnError
    max_parked: int
    release: ReleaseAt
    flush: float
    poll: float
    events: tuple[str, ...]
    most_bypasses: int


def terms_of(given: TermsGiven, otherwise: Terms | None = None) -> Terms:
    """Return the terms that are ``given``, completed from ``otherwise``."""
    changed: dict[str, Any] = dict(given)
    for name in ("flush", "poll"):
        if name in changed:
            seconds = changed.pop(name)
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 1e6:
                raise InvalidValueError(name, seconds, "it must be more than 0 seconds, and less than 1e6")
            changed[f"{name}_ns"] = int(seconds * _SECOND)
    return replace(otherwise or Terms(), **changed)


# Gates


class GateCounters:
    """A gate's counters. ``evaluations`` are counted by result: passed, parked, rejected, error.

    ``last`` is the key and the result of the last evaluation; None if an event has come after it.
    """

    __slots__ = ("evaluations", "events", "last", "rejected", "rescues", "waits")

    def __init__(self) -> None:
        self.evaluations: dict[str, int] = {"passed": 0, "parked": 0, "rejected": 0, "error": 0}
        self.last: tuple[Hashable, str] | None = None
        self.events: int = 0
        self.rescues: int = 0
        self.rejected: int = 0
        self.waits: Histogram = Histogram(DURATION_BOUNDS_NS)

    def count(self, key: Hashable, answer: object) -> None:
        """Count the ``answer`` of the gate to a request with this ``key``."""
        result = (
            "parked" if isinstance(answer, ParkDecision) else "rejected" if isinstance(answer, Reject) else "passed"
        )
        self.evaluations[result] += 1
        self.last = key, result

    def has_stopped(self, key: Hashable) -> bool:
        """Return whether the last request about which the gate was asked had this ``key``, and was stopped."""
        return self.last is not None and self.last[0] == key and self.last[1] != "passed"

    @property
    def evaluated(self) -> int:
        """Return the number of evaluations."""
        return sum(self.evaluations.values())

    def __repr__(self) -> str:
        return f"<GateCounters: {self.evaluations}, {self.events} events, {self.rescues} rescues>"


class Gate(ABC):
    """A gate of this ``name``; ``key`` and ``cost`` are functions of the request.

    The scheduler asks an asynchronous gate with `acquire_later`, and every other gate with `acquire`.
    """

    kind = "gate"
    is_async = False
    tells_when = False
    """True if the gate always names the time at which it opens, so that no event can be missed."""

    def __init__(self, name: str, terms: Terms, key: KeyOf = shared_key, cost: CostOf = unit_cost) -> None:
        require_text("name", name)
        require_plain(f"key of the gate {name!r}", key)
        require_plain(f"cost of the gate {name!r}", cost)
        self.name = name
        self.terms = terms
        self.counters: GateCounters = GateCounters()
        self.parked = 0
        self.is_closed = False  # by an operator
        self.closed_until: int | None = None
        self.hints: dict[str, Callable[[Any, GateRequest], Hint]] = {}
        self._key = key
        self._cost = cost

    @property
    def events(self) -> Sequence[str]:
        """Return the names of the events that open the gate, besides its own name."""
        return (*self.terms.events, *self.hints)

    def key(self, request: GateRequest) -> Hashable:
        """Return the key of the slot that ``request`` needs; None if the gate doesn't concern the request."""
        key = self._key(request)
        hash(key)  # an error here is one of the gate; later it would end the step of other requests
        if not isinstance(key, str | tuple | int) and is_unfinished(key):
            raise InvalidValueError(f"key of the gate {self.name!r}", key, "it would have to be awaited or iterated")
        return key

    def cost(self, request: GateRequest) -> int:
        """Return the amount that ``request`` takes."""
        return require_integer(f"cost of the gate {self.name!r}", self._cost(request), least=1)

    @abstractmethod
    def acquire(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:
        """Return a lease, a `ParkDecision`, or a `Reject`."""

    async def acquire_later(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:
        """Return the answer of an asynchronous gate, as `acquire` does."""
        return self.acquire(now, request, key, cost)

    def release(self, key: Hashable, lease: object) -> None:  # noqa: B027 - a gate may have nothing to take back
        """Take back the lease of a request that has ended."""

    def undo(self, key: Hashable, lease: object) -> None:
        """Take back the lease of a request that was not served, because another gate stopped it or it left."""
        self.release(key, lease)

    async def aclose(self) -> None:  # noqa: B027 - a gate may have nothing to give back
        """Give back, within a bounded time, what the gate holds in other systems; called when the server stops."""

    def opens_at(self, now: int, key: Hashable, cost: int) -> int | None:  # noqa: ARG002 - for gates that know
        """Return the earliest time at which ``cost`` fits, if it is known."""
        return None

    def is_full(self, key: Hashable) -> bool:  # noqa: ARG002 - for gates that count
        """Return True if it is certain that no request fits until a lease is given back."""
        return False

    def is_blocking(self, key: Hashable) -> bool:
        """Return whether it is known, without asking, that no request passes now."""
        return self.is_full(key)

    def used(self, key: Hashable) -> int | None:  # noqa: ARG002 - for gates that count
        """Return the amount that is taken, if the gate counts it."""
        return None

    @property
    def limit(self) -> int | None:
        """Return the amount that can be taken in all for each key, if it is known."""
        return None

    def limit_of(self, key: Hashable) -> int | None:  # noqa: ARG002 - for gates whose keys differ
        """Return the amount that can be taken in all for this key, if it is known."""
        return self.limit

    def resize(self, limit: int) -> None:
        """Set another limit; `Gates.resize` also opens the slots."""
        raise InvalidValueError("limit", limit, f"the gate {self.name!r} has no limit that can be changed")

    def refusal(self) -> Reject:
        """Return the rejection of a request that the gate doesn't let pass in time."""
        return Reject(self.terms.status)

    def check(self) -> None:  # noqa: B027 - a gate may count nothing
        """Raise AssertionError if the gate's own numbers are inconsistent."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.parked} parked>"
