"""The gates that come with this package: capacity, token buckets, conditions; and whatever an app brings itself."""

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, Protocol, runtime_checkable

from apf_middleware.exceptions import InvalidValueError, require_amount, require_integer
from apf_middleware.gates.gate import Gate, Hold, Terms
from apf_middleware.gates.outcomes import NO_LEASE, Park, Probe, Reject
from apf_middleware.gates.passage import GateRequest

__all__ = ["Capacity", "Condition", "CostOf", "KeyOf", "Own", "OwnGate", "Tokens", "everybody", "one"]

KeyOf = Callable[[GateRequest], Hashable]
CostOf = Callable[[GateRequest], int]

_SECOND: Final = 10**9
_MOST_FULL: Final = 64  # token buckets that are full again are forgotten when there are more
_MOST_BUCKETS: Final = 65_536  # of each gate, some 240 bytes each


def everybody(request: GateRequest) -> Hashable:  # noqa: ARG001
    """One key for all."""
    return ""


def one(request: GateRequest) -> int:  # noqa: ARG001
    return 1


class _Keyed(Gate):
    """Key and cost are functions."""

    def __init__(self, name: str, terms: Terms, key: KeyOf, cost: CostOf) -> None:
        super().__init__(name, terms)
        self._key = key
        self._cost = cost

    def key(self, request: GateRequest) -> Hashable:
        return self._key(request)

    def cost(self, request: GateRequest) -> int:
        return require_integer(f"cost of the gate {self.name!r}", self._cost(request), least=1)


class Capacity(_Keyed):
    """At most ``limit`` at a time, of each key."""

    kind = "capacity"

    def __init__(self, name: str, limit: int, terms: Terms, key: KeyOf = everybody, cost: CostOf = one) -> None:
        super().__init__(name, terms, key, cost)
        self._limit = require_integer("limit", limit, least=0)
        self._used: Counter[Hashable] = Counter()

    @property
    def limit(self) -> int:
        return self._limit

    def resize(self, limit: int) -> None:
        """Who holds a lease keeps it; `Gates.resize` opens the slots, too."""
        self._limit = require_integer("limit", limit, least=0)

    def used(self, key: Hashable) -> int:
        return self._used.get(key, 0)

    def is_full(self, key: Hashable) -> bool:
        return self._used.get(key, 0) >= self._limit

    def acquire(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:  # noqa: ARG002
        free = self._limit - self._used.get(key, 0)
        if cost <= free:
            self._used[key] += cost
            return cost
        if cost > self._limit > 0:
            return Reject()
        return Hold(below=max(0, free) + 1)

    def release(self, key: Hashable, lease: object) -> None:
        assert isinstance(lease, int), "a capacity's lease is a number"
        left = self._used[key] - lease
        assert left >= 0, f"more is given back to {self!r} than was taken"
        if left:
            self._used[key] = left
        else:
            del self._used[key]

    def check(self) -> None:
        super().check()
        assert all(used > 0 for used in self._used.values()), f"keys that nobody uses are kept by {self!r}"


class Tokens(_Keyed):
    """``rate`` a second and ``burst`` at once, of each key.

    One number a key: the time at which its bucket would be full. What is taken moves it on; what can be taken is what
    it lies below now plus the time of a full bucket.

    A full bucket needs no memory. Where so many are in use that there is no room, those nearest to being full are
    forgotten too, an eighth at a time: their flows get back what they had used of them.
    """

    kind = "tokens"
    tells_when = True

    def __init__(
        self, name: str, rate: float, burst: int, *, terms: Terms, key: KeyOf = everybody, cost: CostOf = one
    ) -> None:
        super().__init__(name, terms, key, cost)
        self._full_at: dict[Hashable, int] = {}
        self._most = _MOST_FULL
        self.resize(rate, burst)

    def resize(self, rate: float, burst: int) -> None:
        """What has been taken already, stays taken."""
        if require_amount("rate", rate) <= 0:
            raise InvalidValueError("rate", rate, "it must be more than 0 a second")
        self._burst = require_integer("burst", burst, least=1)
        self._per_token = max(1, int(_SECOND / rate))

    @property
    def limit(self) -> int:
        return self._burst

    def opens_at(self, now: int, key: Hashable, cost: int) -> int:
        return max(now, self._full_at.get(key, 0)) + (cost - self._burst) * self._per_token

    def acquire(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:  # noqa: ARG002
        if cost > self._burst:
            return Reject()
        full_at = max(now, self._full_at.get(key, 0))
        opens_at = full_at + (cost - self._burst) * self._per_token
        if opens_at > now:
            free = max(0, (now + self._burst * self._per_token - full_at) // self._per_token)
            return Hold(retry_at=opens_at, below=free + 1)
        if len(self._full_at) >= self._most:
            self._forget_full(now)
        self._full_at[key] = full_at + cost * self._per_token
        return cost

    def _forget_full(self, now: int) -> None:
        self._full_at = {one: at for one, at in self._full_at.items() if at > now}
        if len(self._full_at) >= _MOST_BUCKETS:
            emptiest = sorted(self._full_at.items(), key=lambda item: item[1])[_MOST_BUCKETS // 8 :]
            self._full_at = dict(emptiest)
        self._most = min(_MOST_BUCKETS, max(_MOST_FULL, 2 * len(self._full_at)))

    def release(self, key: Hashable, lease: object) -> None:
        """Tokens are used up."""

    def undo(self, key: Hashable, lease: object) -> None:
        assert isinstance(lease, int), "a token bucket's lease is a number"
        if key in self._full_at:  # or it was forgotten, and is full
            self._full_at[key] -= lease * self._per_token


class Condition(_Keyed):
    """Any predicate: None or True lets pass, False or `Park` keeps waiting; also `Reject` and `Probe`."""

    kind = "condition"

    is_async: bool

    def __init__(
        self,
        name: str,
        ask: "Callable[[GateRequest], object]",
        terms: Terms,
        key: KeyOf = everybody,
        cost: CostOf = one,
        *,
        blocks: "Callable[[], bool] | None" = None,
    ) -> None:
        super().__init__(name, terms, key, cost)
        self._ask = ask
        self._blocks = blocks
        self.is_async = inspect.iscoroutinefunction(ask)
        self._probing: Counter[Hashable] = Counter()

    def used(self, key: Hashable) -> int | None:
        return self._probing.get(key)

    def is_blocking(self, key: Hashable) -> bool:
        """What ``blocks`` says; without it, whether the last request that was asked about had to wait or go."""
        if self._blocks is not None:
            return self._blocks()
        return self.tally.has_stopped(key)

    def acquire(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:  # noqa: ARG002
        found = self._ask(request)
        if inspect.isawaitable(found):
            return self._later(now, key, found)
        return self._verdict(now, key, found)

    async def _later(self, now: int, key: Hashable, found: Awaitable[object]) -> object:
        return self._verdict(now, key, await found)

    def _verdict(self, now: int, key: Hashable, found: object) -> object:
        if found is None or found is True:
            return NO_LEASE
        if found is False:
            return Hold()
        if isinstance(found, Probe):
            if self._probing[key] >= found.most:
                return Hold()
            self._probing[key] += 1
            return found
        return _translated(now, found, f"condition {self.name!r}", "None, True, False, Park, Reject or Probe")

    def release(self, key: Hashable, lease: object) -> None:
        if isinstance(lease, Probe):
            self._probing[key] -= 1
            if not self._probing[key]:
                del self._probing[key]


@runtime_checkable
class OwnGate(Protocol):
    """What a gate of an app's own must have.

    It may have, too: ``key`` (None means that it doesn't concern the request), ``cost``, ``events``, ``poll``
    (seconds), ``status``, ``on_error``, and ``undo``, which takes a lease with which no request was served, where that
    is another thing than ``release``. With an ``async def try_acquire`` it is asked outside of the dispatcher. An
    ``async def aclose`` is awaited when the server stops, after the last request.
    """

    name: str

    def try_acquire(self, request: GateRequest, key: Any, cost: int) -> object: ...  # noqa: ANN401 - its own keys

    def release(self, lease: Any) -> None: ...  # noqa: ANN401 - its own leases


class Own(_Keyed):
    """A gate of the app's own."""

    kind = "own"

    is_async: bool

    def __init__(self, gate: OwnGate, terms: Terms) -> None:
        super().__init__(gate.name, terms, getattr(gate, "key", everybody), getattr(gate, "cost", one))
        self.gate = gate
        self.is_async = inspect.iscoroutinefunction(gate.try_acquire)

    def acquire(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:
        found = self.gate.try_acquire(request, key, cost)
        if inspect.isawaitable(found):
            return self._later(now, found)
        return self._verdict(now, found)

    async def _later(self, now: int, found: Awaitable[object]) -> object:
        return self._verdict(now, await found)

    def _verdict(self, now: int, found: object) -> object:
        if found is None or found is False:
            raise InvalidValueError(f"answer of the gate {self.name!r}", found, "it must be a lease, Park or Reject")
        if isinstance(found, Park | Reject | Probe):
            return _translated(now, found, f"gate {self.name!r}", "a lease, Park or Reject")
        return found

    def release(self, key: Hashable, lease: object) -> None:  # noqa: ARG002
        self.gate.release(lease)

    def undo(self, key: Hashable, lease: object) -> None:  # noqa: ARG002
        getattr(self.gate, "undo", self.gate.release)(lease)

    def is_blocking(self, key: Hashable) -> bool:
        return self.tally.has_stopped(key)

    async def aclose(self) -> None:
        close = getattr(self.gate, "aclose", None)
        if close is not None:
            await close()


def _translated(now: int, found: object, name: str, rule: str) -> Hold | Reject:
    if isinstance(found, Reject):
        return found
    if isinstance(found, Park):
        return Hold(found.retry_at_ns(now), found.penalty)
    raise InvalidValueError(f"answer of the {name}", found, f"it must be {rule}")
