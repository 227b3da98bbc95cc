"""A gate for the connections of an asyncpg pool.

The pool has no event for a connection that comes back. Requests that came through the gate give their leases back; for
other users of the pool, the gate looks again after pauses, from 10 ms on, doubled each time. The gate needs only three
numbers of the library, so it works with any pool that has these.

Nor does the pool have an event for a connection that is taken. While other users have connections, a request that has
passed the gate counts in addition to the connections in use, until their number has grown or some time has passed.
"""

from collections.abc import Hashable
from typing import Final, Protocol, Unpack

from apf_middleware.adapters.shared import SharedPlaces
from apf_middleware.exceptions import require_integer
from apf_middleware.gates.gate import CostOf, Gate, GateRequest, Terms, TermsGiven, unit_cost
from apf_middleware.gates.registry import Gates

__all__ = ["CountedPool", "PoolGate", "pool_gate"]

_POLL: Final = 0.01
_PROMISED_FOR_NS: Final = 100_000_000


class CountedPool(Protocol):
    """The numbers that a pool must have; ``asyncpg.Pool`` has them."""

    def get_size(self) -> int:
        """Return the number of connections."""
        ...

    def get_idle_size(self) -> int:
        """Return the number of connections that are not in use."""
        ...

    def get_max_size(self) -> int:
        """Return the greatest number of connections."""
        ...


def pool_gate(
    gates: Gates, name: str, pool: CountedPool, *, cost: CostOf = unit_cost, **terms: Unpack[TermsGiven]
) -> "PoolGate":
    """Add a gate with as many places as the pool has connections; a request needs ``cost`` of them at once."""
    given: TermsGiven = {"poll": _POLL, **terms}
    gate = PoolGate(name, pool, gates.terms(given), cost)
    gates.add(gate)
    return gate


class PoolGate(Gate):
    """A gate for the connections of ``pool``."""

    kind = "asyncpg"

    def __init__(self, name: str, pool: CountedPool, terms: Terms, cost: CostOf) -> None:
        super().__init__(name, terms, cost=cost)
        self._limit = pool.get_max_size()
        self._pool = pool
        self._places = SharedPlaces()
        self._seen = 0
        self._promised_until = 0

    @property
    def limit(self) -> int:
        return self._limit

    def resize(self, limit: int) -> None:
        self._limit = require_integer("limit", limit, least=0)

    def _taken(self) -> int:
        return self._pool.get_size() - self._pool.get_idle_size()

    def used(self, key: Hashable) -> int:
        return self._places.used(key, self._taken())

    def is_full(self, key: Hashable) -> bool:
        return self.used(key) >= self._limit

    def acquire(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:  # noqa: ARG002
        places, taken = self._places, self._taken()
        has_others = taken > places.leased(key)
        if not has_others or now >= self._promised_until:
            places.forget_promises()
        elif taken > self._seen:
            places.note_use(key, taken - self._seen)
        self._seen = taken
        answer = places.acquire(key, cost, limit=self._limit, taken=taken)
        if isinstance(answer, int):
            self._promised_until = now + _PROMISED_FOR_NS
            if not has_others:
                places.forget_promises()
        return answer

    def release(self, key: Hashable, lease: object) -> None:
        self._places.release(key, lease)

    def check(self) -> None:
        self._places.check()
