"""A memory that can't grow without bound, and whose hits cost one look-up.

Two generations: what is asked for lives in the young one; when that is full it becomes the old one, which is forgotten
when the next is full. So what was used among the last ``generation`` different keys is always there, about twice as
many are held at most, and nothing is reordered by a hit, as a least-recently-used list would have to.
"""

from typing import Generic, TypeVar

from apf_middleware.exceptions import require_integer

__all__ = ["BoundedCache"]

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Remembers at least the last ``generation`` keys and at most twice as many."""

    __slots__ = ("_generation", "_old", "young")

    def __init__(self, generation: int) -> None:
        self._generation = require_integer("generation", generation, least=1)
        self.young: dict[K, V] = {}  # for those who can't afford a call: look here first
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self.young) + len(self._old)

    def __repr__(self) -> str:
        return f"BoundedCache({self._generation}): {len(self)} entries"

    def get(self, key: K) -> V | None:
        """Return the value for ``key``, if it is remembered."""
        found = self.young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        """Remember it, which may be at the cost of older ones."""
        if len(self.young) >= self._generation:
            self._old = self.young
            self.young = {}
        self.young[key] = value

    def clear(self) -> None:
        """Forget everything."""
        self.young, self._old = {}, {}
