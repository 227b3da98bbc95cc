"""A gate for the connections of an asyncpg pool.

The pool has no event for a connection that comes back. Requests that came through the gate give their leases back; for
other users of the pool, the gate looks again after pauses, from 10 ms on, doubled each time. The gate needs only three
numbers of the library, so it works with any pool that has these.

Nor does the pool have an event for a connection that is taken. A request that has passed the gate counts in addition to
the connections in use until the pool shows that it has taken its own, or some time has passed. For that, the gate keeps
an estimate of how many connections other users have: those that neither belong to leases nor are promised.
"""

from collections.abc import Hashable
from typing import Final, Protocol, Unpack

from apf_middleware.adapters.shared_places import SharedPlaces
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
        self._limit = require_integer(f"size of the pool of the gate {name!r}", pool.get_max_size(), least=1)
        self._pool = pool
        self._places = SharedPlaces()
        self._others = 0
        self._unsettled = 0  # the smallest number of promises since the time to forget was set
        self._forget_at = 0

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
        self._settle(now, key, taken)
        answer = places.acquire(key, cost, limit=self._limit, taken=taken)
        if isinstance(answer, int) and places.promised(key) == answer:  # the only promise
            self._forget_at, self._unsettled = now + _PROMISED_FOR_NS, answer
        return answer

    def _settle(self, now: int, key: Hashable, taken: int) -> None:
        """Find out which promises count no longer, and how many connections others have.

        A request that has given its connection back still counts as one that has it, until its lease ends. So a
        connection that was taken and has come back between two looks at the pool is noticed when the lease ends.
        """
        places = self._places
        leased, promised = places.leased(key), places.promised(key)
        self._others = min(self._others, taken) if leased else taken
        more = taken - self._others - (leased - promised)
        if more > 0:
            places.note_use(key, more)
            self._others += max(0, more - promised)
        self._unsettled = min(self._unsettled, places.promised(key))
        if now >= self._forget_at:
            # these requests take no connection, or took connections that others have given back unseen
            places.note_use(key, self._unsettled)
            self._others -= min(self._others, self._unsettled)
            self._forget_at, self._unsettled = now + _PROMISED_FOR_NS, places.promised(key)

    def release(self, key: Hashable, lease: object) -> None:
        self._places.release(key, lease)

    def check(self) -> None:
        self._places.check()
