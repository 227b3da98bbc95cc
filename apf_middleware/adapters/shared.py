"""A capacity that others use too, who haven't come through the gate: background tasks, other schemas, threads that go
on when their client has gone.

Leases alone would let in as many as there is room for by our own count, and these would then wait for the others with a
seat. What the resource itself says isn't enough either: it doesn't know yet of those who were let in a moment ago. So
what it says is in use counts, and what is *promised*: leased, and not yet seen to be used. And never less than what is
leased, for a request may take again what it has put back.

Who uses what can't be told. If somebody else takes what was promised, a request waits in the resource's own queue for
once. That is what such queues are for.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable
from threading import Lock

from apf_middleware.gates.gate import CostOf, GateRequest, Hold, KeyOf, Reject, Terms
from apf_middleware.gates.kinds import Capacity

__all__ = ["SharedCapacity"]


class SharedCapacity(Capacity):
    """At most ``limit`` at a time, of each key, whoever takes it."""

    def __init__(self, name: str, limit: int, terms: Terms, key: KeyOf, cost: CostOf) -> None:
        super().__init__(name, limit, terms, key, cost)
        self._promised: Counter[Hashable] = Counter()
        self._lock = Lock()  # what is used may be used in other threads

    @abstractmethod
    def taken(self, key: Hashable) -> int:
        """How much the resource says is in use, no matter by whom."""

    def limit_of(self, key: Hashable) -> int:  # noqa: ARG002 - for those that have several
        return self._limit

    def leased(self, key: Hashable) -> int:
        """How much of it is in the hands of requests that the gate has let in."""
        return super().used(key)

    def used(self, key: Hashable) -> int:
        return max(self.leased(key), self.taken(key) + self._promised.get(key, 0))

    def is_full(self, key: Hashable) -> bool:
        return self.used(key) >= self.limit_of(key)

    def acquire(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:  # noqa: ARG002
        limit = self.limit_of(key)
        if cost > limit > 0:
            return Reject()
        free = limit - self.used(key)
        if cost > free:
            return Hold(retry_at=self.look_again_at(now, key), below=max(0, free) + 1)
        self._used[key] += cost
        with self._lock:
            self._promised[key] += cost
        return cost

    def release(self, key: Hashable, lease: object) -> None:
        super().release(key, lease)
        with self._lock:
            self._keep_promises(key, self.leased(key))

    def note_use(self, key: Hashable, amount: int = 1) -> None:
        """So much more is in use, as was promised or not; in any thread."""
        with self._lock:
            self._keep_promises(key, self._promised.get(key, 0) - amount)

    def _keep_promises(self, key: Hashable, most: int) -> None:
        if self._promised.get(key, 0) > most:
            self._promised[key] = most
        if self._promised.get(key, 1) <= 0:
            del self._promised[key]

    def look_again_at(self, now: int, key: Hashable) -> int | None:  # noqa: ARG002 - for those that know
        """When it may be worth while to look again though nothing is told; None if nobody knows."""
        return None
