"""The kinds of gates: capacities, token buckets, conditions, and gates that an app defines itself."""

from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, runtime_checkable

from apf_middleware.exceptions import InvalidValueError, require_amount, require_integer
from apf_middleware.gates.functions import is_asynchronous, is_unfinished, require_plain
from apf_middleware.gates.gate import (
    NO_LEASE,
    CostOf,
    Gate,
    GateRequest,
    KeyOf,
    Park,
    ParkDecision,
    Probe,
    Reject,
    Terms,
    shared_key,
    unit_cost,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = ["Capacity", "Condition", "CustomGate", "OwnGate", "Tokens"]

_SECOND: Final = 10**9
_MOST_FULL: Final = 64  # with fewer token buckets, full ones aren't forgotten
_MOST_BUCKETS: Final = 65_536  # for each gate; about 240 bytes each


class Capacity(Gate):
    """A gate that limits the total cost of the requests in flight to ``limit``, for each key."""

    kind = "capacity"

    def __init__(self, name: str, limit: int, terms: Terms, key: KeyOf = shared_key, cost: CostOf = unit_cost) -> None:
        super().__init__(name, terms, key, cost)
        self._limit = require_integer("limit", limit, least=0)
        self._used: Counter[Hashable] = Counter()

    @property
    def limit(self) -> int:
        return self._limit

    def resize(self, limit: int) -> None:
        """Set another limit. Leases that are held stay valid."""
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
        if cost > self._limit > 0:  # with a limit of 0 the request waits, because that is how operators pause a gate
            return Reject()
        return ParkDecision(below=max(0, free) + 1)

    def release(self, key: Hashable, lease: object) -> None:
        assert isinstance(lease, int), "a capacity's lease is a number"
        left = self._used[key] - lease
        assert left >= 0, f"more is given back to {self!r} than was taken"
        if left:
            self._used[key] = left
        else:
            del self._used[key]

    def check(self) -> None:
        assert all(used > 0 for used in self._used.values()), f"{self!r} keeps keys that are not in use"


class Tokens(Gate):
    """A token bucket for each key: it gets ``rate`` tokens per second, and contains at most ``burst``.

    One number is stored for each key: the time at which its bucket will be full. Taking a token makes that time later
    by the time in which one token refills. The bucket is empty if that time is as far away as the refill of a whole
    bucket takes.

    A full bucket needs no memory. When too many buckets aren't full, the fullest eighth of them is forgotten; a
    forgotten bucket counts as full.
    """

    kind = "tokens"
    tells_when = True

    def __init__(
        self, name: str, rate: float, burst: int, *, terms: Terms, key: KeyOf = shared_key, cost: CostOf = unit_cost
    ) -> None:
        super().__init__(name, terms, key, cost)
        self._full_at: dict[Hashable, int] = {}
        self._most = _MOST_FULL
        self._per_token = 1
        self.set_rate(0, rate, burst)

    def set_rate(self, now: int, rate: float, burst: int) -> None:
        """Set another rate. Tokens that have been taken stay taken."""
        if require_amount("rate", rate) <= 0:
            raise InvalidValueError("rate", rate, "it must be more than 0 a second")
        self._burst = require_integer("burst", burst, least=1)
        before, self._per_token = self._per_token, max(1, int(_SECOND / rate))
        # The missing tokens of a bucket are stored as the time of their refill, which depends on the rate.
        for key, full_at in self._full_at.items():
            self._full_at[key] = now + (full_at - now) * self._per_token // before

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
            return ParkDecision(retry_at=opens_at, below=free + 1)
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

    def undo(self, key: Hashable, lease: object) -> None:
        """Give tokens back; those of a request that was served are used up, so `release` does nothing."""
        assert isinstance(lease, int), "a token bucket's lease is a number"
        # The result may lie in the past; then `acquire` treats the bucket as full.
        if key in self._full_at:  # otherwise the bucket was forgotten, and counts as full
            self._full_at[key] -= lease * self._per_token


class Condition(Gate):
    """A gate that asks a predicate: None and True let a request pass, False and `Park` let it wait.

    The predicate may also return `Reject`, or `Probe` to let a few requests pass.
    """

    kind = "condition"

    is_async: bool

    def __init__(
        self,
        name: str,
        ask: Callable[[GateRequest], object],
        terms: Terms,
        key: KeyOf = shared_key,
        cost: CostOf = unit_cost,
        *,
        blocks: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(name, terms, key, cost)
        if blocks is not None:
            require_plain(f"blocks of the gate {name!r}", blocks)
        self._ask = ask
        self._blocks = blocks
        self.is_async = is_asynchronous(ask)
        self._probing: Counter[Hashable] = Counter()

    def used(self, key: Hashable) -> int | None:
        return self._probing.get(key)

    def is_blocking(self, key: Hashable) -> bool:
        """Return the result of ``blocks``; without it, or if it fails, return whether the last request was stopped."""
        if self._blocks is not None:
            with suppress(Exception):
                return self._blocks()
        return self.counters.has_stopped(key)

    def acquire(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:  # noqa: ARG002
        return self._answer(now, key, self._ask(request))

    async def acquire_later(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:  # noqa: ARG002
        return self._answer(now, key, await cast("Awaitable[object]", self._ask(request)))

    def _answer(self, now: int, key: Hashable, found: object) -> object:
        if found is None or found is True:
            return NO_LEASE
        if found is False:
            return ParkDecision()
        if isinstance(found, Probe):
            if self._probing[key] >= found.most:
                return ParkDecision()
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
    """The interface of a gate that an app defines itself.

    Optional members are ``key`` (it returns None if the gate doesn't concern the request), ``cost``, ``events``,
    ``poll`` and ``flush`` (seconds), ``status``, ``on_error``, ``max_parked``, ``release_at`` (the term ``release``),
    and ``undo``, which is called instead of ``release`` if the request was not served with the lease. If
    ``try_acquire`` is an ``async def``, the gate is asked in a separate task. An ``async def aclose`` is awaited when
    the server stops, after the last request.
    """

    name: str

    def try_acquire(self, request: GateRequest, key: Any, cost: int) -> object:  # noqa: ANN401 - its own keys
        """Return a lease, `Park` or `Reject`."""
        ...

    def release(self, lease: Any) -> None:  # noqa: ANN401 - its own leases
        """Take the lease back."""
        ...


class CustomGate(Gate):
    """A gate around ``own``, which the app defines."""

    kind = "own"

    is_async: bool

    def __init__(self, own: OwnGate, terms: Terms) -> None:
        super().__init__(own.name, terms, getattr(own, "key", shared_key), getattr(own, "cost", unit_cost))
        for back in ("release", "undo"):
            require_plain(f"{back} of the gate {own.name!r}", getattr(own, back, own.release))
        self.own = own
        self.is_async = is_asynchronous(own.try_acquire)

    def acquire(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:
        return self._answer(now, self.own.try_acquire(request, key, cost))

    async def acquire_later(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:
        return self._answer(now, await cast("Awaitable[object]", self.own.try_acquire(request, key, cost)))

    def _answer(self, now: int, found: object) -> object:
        if found is None or found is False or found is Park or found is Reject or is_unfinished(found):
            raise InvalidValueError(f"answer of the gate {self.name!r}", found, "it must be a lease, Park or Reject")
        if isinstance(found, Park | Reject | Probe):
            return _translated(now, found, f"gate {self.name!r}", "a lease, Park or Reject")
        return found

    def release(self, key: Hashable, lease: object) -> None:  # noqa: ARG002
        self.own.release(lease)

    def undo(self, key: Hashable, lease: object) -> None:  # noqa: ARG002
        getattr(self.own, "undo", self.own.release)(lease)

    def is_blocking(self, key: Hashable) -> bool:
        return self.counters.has_stopped(key)

    async def aclose(self) -> None:
        close = getattr(self.own, "aclose", None)
        if close is not None:
            await close()


def _translated(now: int, found: object, name: str, rule: str) -> ParkDecision | Reject:
    if isinstance(found, Reject):
        return found
    if isinstance(found, Park):
        return ParkDecision(found.retry_at_ns(now), found.penalty)
    raise InvalidValueError(f"answer of the {name}", found, f"it must be {rule}")
