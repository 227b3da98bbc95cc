"""A gate for the connections of an SQLAlchemy engine: requests wait for one in their queues, not in the pool.

Two facts of the library shape this gate. Its ``checkin`` event comes *before* the connection is back in the pool, and
if threads use the engine, the event loop may read the pool even earlier. And a connection that is detached leaves the
pool without a ``checkin``. So an event only makes the gate read the pool, always in the event loop, and neither kind
nor time of the event decides anything. If the pool has more connections out than are in use, one is on its way, and the
gate looks again a millisecond later.
"""

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Unpack

from apf_middleware.adapters.shared_places import SharedPlaces
from apf_middleware.exceptions import InvalidValueError, MissingExtraError, require_integer
from apf_middleware.gates.gate import CostOf, Gate, ParkDecision, Terms, TermsGiven, unit_cost
from apf_middleware.gates.registry import Gates
from apf_middleware.gates.timers import pause

try:
    from sqlalchemy import Engine, event
    from sqlalchemy.pool import QueuePool
except ImportError:
    raise MissingExtraError("sqlalchemy", "sqlalchemy") from None

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine
    from sqlalchemy.pool import ConnectionPoolEntry

    from apf_middleware.gates.gate import GateRequest

__all__ = ["EngineGate", "engine_gate"]

_LOOK_AGAIN_NS: Final = 1_000_000
_LONGEST_LOOK_NS: Final = 100_000_000  # a connection that is being made may take its time


def engine_gate(
    gates: Gates, name: str, engine: "Engine | AsyncEngine", *, cost: CostOf = unit_cost, **terms: Unpack[TermsGiven]
) -> "EngineGate":
    """Add a gate with as many places as the engine's pool has connections; a request needs ``cost`` of them at once."""
    sync_engine: Engine = engine if isinstance(engine, Engine) else engine.sync_engine
    gate = EngineGate(gates, name, sync_engine, gates.terms(terms), cost)
    gates.add(gate)
    return gate


class EngineGate(Gate):
    """A gate for the connections of the pool of ``engine``."""

    kind = "sqlalchemy"

    def __init__(self, gates: Gates, name: str, engine: Engine, terms: Terms, cost: CostOf) -> None:
        super().__init__(name, terms, cost=cost)
        self._limit = _size(engine)
        self._engine = engine
        self._gates = gates
        self._places = SharedPlaces()
        self._out: set[ConnectionPoolEntry] = set()
        self._looks = 0
        self._is_wanted = False
        event.listen(engine, "checkout", self._note_out)
        for back in ("checkin", "detach"):
            event.listen(engine, back, self._note_back)
        event.listen(engine, "engine_disposed", self._note_disposed)

    @property
    def limit(self) -> int:
        return self._limit

    def resize(self, limit: int) -> None:
        self._limit = require_integer("limit", limit, least=0)

    def _taken(self) -> int:
        """Return how many connections are in use in the engine's present pool: disposing of the engine replaces its
        pool.
        """
        pool: Any = self._engine.pool
        found: int = pool.checkedout()
        return found

    def used(self, key: Hashable) -> int:
        return self._places.used(key, self._taken())

    def is_full(self, key: Hashable) -> bool:
        return self.used(key) >= self._limit

    def acquire(self, now: int, request: "GateRequest", key: Hashable, cost: int) -> object:  # noqa: ARG002
        self._is_wanted = True  # before the pool is read, or a connection that comes back meanwhile would be missed
        answer = self._places.acquire(key, cost, limit=self._limit, taken=self._taken())
        if isinstance(answer, ParkDecision):
            return replace(answer, retry_at=self._look_again_at(now, key))
        if isinstance(answer, int):
            self._looks = 0
            self._is_wanted = self.parked > 0
        return answer

    def _look_again_at(self, now: int, key: Hashable) -> int | None:
        """Return the next time to read the pool if a connection is on its way from or to a user without a lease."""
        in_hands = sum(1 for entry in tuple(self._out) if entry.in_use)
        if self._places.leased(key) >= self._limit or self._taken() <= in_hands:
            return None
        self._looks += 1
        return now + pause(self._looks, _LOOK_AGAIN_NS, _LONGEST_LOOK_NS)

    def release(self, key: Hashable, lease: object) -> None:
        self._places.release(key, lease)

    def check(self) -> None:
        self._places.check()

    # Called by the pool, in any thread

    def _note_out(self, _connection: object, entry: "ConnectionPoolEntry", _proxy: object) -> None:
        self._out.add(entry)
        self._looks = 0
        self._places.note_use("")

    def _note_back(self, _connection: object, entry: "ConnectionPoolEntry | None") -> None:
        if entry is not None:
            self._out.discard(entry)
        if self._is_wanted:
            self._looks = 0
            self._gates.emit_threadsafe(self.name)

    def _note_disposed(self, _engine: Engine) -> None:
        """Forget the connections that are still in use: they don't return to the new pool."""
        self._out.clear()


def _size(engine: Engine) -> int:
    """Return how many connections the pool of ``engine`` gives out at most."""
    pool = engine.pool
    if not isinstance(pool, QueuePool):
        raise InvalidValueError(
            "engine", engine, f"a {type(pool).__name__} has no limit that a gate could keep", "Use gates.capacity"
        )
    most_more: int = pool._max_overflow  # noqa: SLF001 - there is no other way to know
    if pool.size() == 0 or most_more < 0:
        raise InvalidValueError("engine", engine, "its pool must be limited", "Set pool_size and max_overflow")
    return pool.size() + most_more
