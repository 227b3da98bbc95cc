"""Places of a resource that others use too: background tasks, other schemas, threads that outlive their client.

Leases alone would let in as many requests as there is room for by the gate's own count, and these would then wait for
the others with a seat. What the resource itself says isn't enough either: it doesn't know yet of requests that were let
in a moment ago. So two numbers count: what the resource says is in use, and what is *promised*, which is leased and not
yet seen to be in use. And never less than what is leased counts, because a request may take again what it has put back.

The users of places can't be distinguished. If another user takes what was promised, a request waits once in the
resource's own queue, which is what such queues are for.
"""

from collections import Counter
from collections.abc import Hashable
from threading import Lock

from apf_middleware.gates.gate import Hold, Reject

__all__ = ["SharedPlaces"]


class SharedPlaces:
    """The places of a resource by key: how many are leased, and how many of these are promised."""

    def __init__(self) -> None:
        self._leased: Counter[Hashable] = Counter()
        self._promised: Counter[Hashable] = Counter()
        self._lock = Lock()  # use is noted in the thread where it happens

    def leased(self, key: Hashable) -> int:
        """Return how many places are in the hands of requests that the gate has let in."""
        return self._leased.get(key, 0)

    def used(self, key: Hashable, taken: int) -> int:
        """Return how many places count as used, where the resource says that so many are ``taken``."""
        return max(self.leased(key), taken + self._promised.get(key, 0))

    def acquire(self, key: Hashable, cost: int, *, limit: int, taken: int) -> int | Hold | Reject:
        """Return a lease of ``cost`` places, or a gate's answer where there are too few."""
        if cost > limit > 0:
            return Reject()
        free = limit - self.used(key, taken)
        if cost > free:
            return Hold(below=max(0, free) + 1)
        self._leased[key] += cost
        with self._lock:
            self._promised[key] += cost
        return cost

    def release(self, key: Hashable, lease: object) -> None:
        """Take a lease back."""
        assert isinstance(lease, int), "a lease of places is a number"
        left = self._leased[key] - lease
        assert left >= 0, f"more is given back to {self!r} than was taken"
        if left:
            self._leased[key] = left
        else:
            del self._leased[key]
        with self._lock:
            self._promise_at_most(key, left)

    def note_use(self, key: Hashable, amount: int = 1) -> None:
        """Note that so much more is in use, whether or not it was promised; may be called in any thread."""
        with self._lock:
            self._promise_at_most(key, self._promised.get(key, 0) - amount)

    def _promise_at_most(self, key: Hashable, most: int) -> None:
        if self._promised.get(key, 0) > most:
            self._promised[key] = most
        if self._promised.get(key, 1) <= 0:
            del self._promised[key]

    def forget_promises(self) -> None:
        """Count only what the resource says, because it knows of every lease."""
        self._promised.clear()

    def check(self) -> None:
        """Raise AssertionError where the numbers don't add up."""
        assert all(leased > 0 for leased in self._leased.values()), f"{self!r} keeps keys that are not in use"

    def __repr__(self) -> str:
        return f"<SharedPlaces: {self._leased.total()} leased>"
