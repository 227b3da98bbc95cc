"""The connections of an asyncpg pool.

The pool tells nobody when a connection comes back. Requests that came through the gate do, by their leases; for whoever
else uses the pool the gate looks again after pauses, from 10 ms on, doubled each time. It needs nothing of the library
but three numbers, so any pool that tells these will do.

Nor does the pool tell when a connection is taken. While others have some, a request that was let in counts in addition
until the number in use is seen to grow, or some time has passed.
"""

from collections.abc import Hashable
from typing import Final, Protocol, Unpack

from apf_middleware.adapters.shared import SharedCapacity
from apf_middleware.gates.gate import CostOf, GateRequest, Terms, TermsGiven, everybody, one
from apf_middleware.gates.registry import Gates

__all__ = ["CountedPool", "PoolGate", "pool_gate"]

_POLL: Final = 0.01
_PROMISED_FOR_NS: Final = 100_000_000


class CountedPool(Protocol):
    """What a pool must tell; ``asyncpg.Pool`` does."""

    def get_size(self) -> int: ...

    def get_idle_size(self) -> int: ...

    def get_max_size(self) -> int: ...


def pool_gate(
    gates: Gates, name: str, pool: CountedPool, *, cost: CostOf = one, **terms: Unpack[TermsGiven]
) -> "PoolGate":
    """A gate with as many places as the pool has connections; ``cost`` is how many a request needs at once."""
    given: TermsGiven = {"poll": _POLL, **terms}
    gate = PoolGate(name, pool, gates.terms(given), cost)
    gates.add(gate)
    return gate


class PoolGate(SharedCapacity):
    """The connections of ``pool``."""

    kind = "asyncpg"

    def __init__(self, name: str, pool: CountedPool, terms: Terms, cost: CostOf) -> None:
        super().__init__(name, pool.get_max_size(), terms, everybody, cost)
        self._pool = pool
        self._seen = 0
        self._promised_until = 0

    def taken(self, key: Hashable) -> int:  # noqa: ARG002
        return self._pool.get_size() - self._pool.get_idle_size()

    def acquire(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:
        taken = self.taken(key)
        has_others = taken > self.leased(key)
        if not has_others or now >= self._promised_until:
            self._promised.clear()
        elif taken > self._seen:
            self.note_use(key, taken - self._seen)
        self._seen = taken
        answer = super().acquire(now, request, key, cost)
        if isinstance(answer, int):
            self._promised_until = now + _PROMISED_FOR_NS
            if not has_others:
                self._promised.clear()
        return answer
