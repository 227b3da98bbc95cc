"""What a gate is: a condition beside the seats, which a request reserves rather than looks at.

A gate has a key for each request that it concerns, and a slot for each key. It answers with a lease, which is given
back when the request has ended; with `Hold`, which keeps the request waiting; or with a `Reject`. All gates of a
request are asked in one step, and all leases are given back in the same step unless all let it pass.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.gates.backoff import FIRST_PAUSE_NS
from apf_middleware.gates.outcomes import Reject
from apf_middleware.gates.tally import GateTally

if TYPE_CHECKING:
    from collections.abc import Callable

    from apf_middleware.gates.outcomes import Hint
    from apf_middleware.gates.passage import GateRequest
    from apf_middleware.gates.slot import Slot

__all__ = ["MOST_BYPASSES", "Gate", "Hold", "OnError", "ReleaseAt", "Terms", "require_name"]

MOST_BYPASSES: Final = 16
"""So many requests may pass one that a gate keeps waiting because of what it takes."""

OnError = Literal["admit", "reject", "backoff"]
ReleaseAt = Literal["response", "headers"]


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait. ``retry_at`` is when it may be worth while to try again; what costs less than ``below`` would fit now."""

    retry_at: int | None = None
    penalty: bool = True
    below: int | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """What all gates have in common.

    ``status`` answers whom the gate refuses. ``on_error`` is what happens when the gate itself fails. At most
    ``max_parked`` wait for it; None means as many as half of each queue holds. A lease is held until the ``release``:
    the end of the response, or its headers. Where no event has come for ``flush_ns`` the gate is tried anyway, None
    means after a tenth of the time that a request may wait; and with ``poll_ns`` it is one that nothing tells of, and
    is tried after a first pause of so long.
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
        if self.release not in {"response", "headers"}:
            raise InvalidValueError("release", self.release, "it must be response or headers")
        for name in ("max_parked", "flush_ns", "poll_ns"):
            value = getattr(self, name)
            if value is not None:
                require_integer(name, value, least=1)
        require_integer("most_bypasses", self.most_bypasses, least=1)

    @property
    def first_pause_ns(self) -> int:
        return FIRST_PAUSE_NS if self.poll_ns is None else self.poll_ns


def require_name(name: object) -> None:
    """InvalidValueError unless a gate can have this name."""
    if not isinstance(name, str) or not name:
        raise InvalidValueError("name", name, "it must be a string that isn't empty")


class Gate(ABC):
    """A gate by its ``name``; `slots` are those where somebody waits or something is known."""

    kind = "gate"
    is_async = False
    tells_when = False
    """Whether it always knows when it opens, so that no other event is missed."""

    def __init__(self, name: str, terms: Terms) -> None:
        require_name(name)
        self.name = name
        self.terms = terms
        self.tally: GateTally = GateTally()
        self.slots: dict[Hashable, Slot] = {}
        self.parked = 0
        self.is_closed = False  # by an operator
        self.closed_until: int | None = None
        self.hints: dict[str, Callable[[Any, GateRequest], Hint]] = {}
        self.moves: Counter[tuple[str, str]] = Counter()  # where to and why

    @property
    def most_bypasses(self) -> int:
        return self.terms.most_bypasses

    @property
    def events(self) -> Sequence[str]:
        """Those that open it, beside its own name."""
        return (*self.terms.events, *self.hints)

    @abstractmethod
    def key(self, request: "GateRequest") -> Hashable:
        """Which of its slots ``request`` has to do with; None if it doesn't concern it."""

    @abstractmethod
    def cost(self, request: "GateRequest") -> int:
        """How much it takes."""

    @abstractmethod
    def acquire(self, now: int, request: "GateRequest", key: Hashable, cost: int) -> object:
        """A lease, a `Hold`, or a `Reject`."""

    def release(self, key: Hashable, lease: object) -> None:  # noqa: B027 - a gate may have nothing to give back
        """The request has ended."""

    def undo(self, key: Hashable, lease: object) -> None:
        """The request doesn't pass after all, because of another gate."""
        self.release(key, lease)

    async def aclose(self) -> None:  # noqa: B027 - a gate may have nothing to give back
        """Give back what is held elsewhere, within a bounded time: the server stops."""

    def opens_at(self, now: int, key: Hashable, cost: int) -> int | None:  # noqa: ARG002 - for those that know
        """When so much fits at the earliest, all that waits already included; None if nobody knows."""
        return None

    def is_full(self, key: Hashable) -> bool:  # noqa: ARG002 - for those that count
        """Whether it is certain that nothing fits until something is given back."""
        return False

    def is_blocking(self, key: Hashable) -> bool:
        """Whether it is known, without asking, that no request passes now; for those who look."""
        return self.is_full(key)

    def used(self, key: Hashable) -> int | None:  # noqa: ARG002 - for those that count
        """How much is taken, of those that count it."""
        return None

    @property
    def limit(self) -> int | None:
        """How much there is, of those that know."""
        return None

    def refusal(self) -> Reject:
        """What a request is told that the gate doesn't let pass in time."""
        return Reject(self.terms.status)

    def check(self) -> None:
        """Raise AssertionError where what is kept doesn't add up."""
        for key, slot in self.slots.items():
            assert (slot.gate, slot.key) == (self, key), f"{slot!r} isn't where it belongs"
            slot.check()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.parked} parked>"
