"""Places of a resource that others use too: background tasks, other schemas, threads that outlive their client.

If the gate counted only its own leases, requests would pass it, take seats, and then wait for the other users. If it
counted only the places that the resource reports as taken, it would miss requests that passed a moment ago. So the gate
adds up two numbers: the places that are taken, and those that are *promised*: leased, and not yet seen to be taken. The
sum never counts as less than the leased places, because a request may take a place again that it has put back.

The users of places can't be distinguished. If another user takes a promised place, a request waits once in the
resource's own queue.
"""

from collections import Counter
from collections.abc import Hashable
from threading import Lock

from apf_middleware.gates.gate import ParkDecision, Reject

__all__ = ["SharedPlaces"]


class SharedPlaces:
    """The places of a resource by key: how many are leased, and how many of these are promised."""

    def __init__(self) -> None:
        self._leased: Counter[Hashable] = Counter()
        self._promised: Counter[Hashable] = Counter()
        self._lock = Lock()  # use is noted in the thread where it happens

    def leased(self, key: Hashable) -> int:
        """Return how many places are leased to requests that have passed the gate."""
        return self._leased.get(key, 0)

    def promised(self, key: Hashable) -> int:
        """Return how many of the leased places are not yet seen to be taken."""
        return self._promised.get(key, 0)

    def used(self, key: Hashable, taken: int) -> int:
        """Return how many places count as used if the resource reports ``taken`` places."""
        return max(self.leased(key), taken + self.promised(key))

    def acquire(self, key: Hashable, cost: int, *, limit: int, taken: int) -> int | ParkDecision | Reject:
        """Return a lease of ``cost`` places, or the gate's answer if there are too few."""
        if cost > limit > 0:
            return Reject()
        free = limit - self.used(key, taken)
        if cost > free:
            return ParkDecision(below=max(0, free) + 1)
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
        """Note that ``amount`` more places are taken, promised or not; any thread may call this."""
        with self._lock:
            self._promise_at_most(key, self.promised(key) - amount)

    def _promise_at_most(self, key: Hashable, most: int) -> None:
        if self.promised(key) > most:
            self._promised[key] = most
        if self._promised.get(key, 1) <= 0:
            del self._promised[key]

    def check(self) -> None:
        """Raise AssertionError if the numbers are inconsistent."""
        assert all(leased > 0 for leased in self._leased.values()), f"{self!r} keeps keys that are not in use"

    def __repr__(self) -> str:
        return f"<SharedPlaces: {self._leased.total()} leased>"
