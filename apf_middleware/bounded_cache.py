"""A bounded cache, in which a hit costs one look-up.

The cache has two generations. Keys that are used are in the young one; when that is full it becomes the old one, and
the previous old one is dropped. The last ``generation`` different keys are therefore always there, at most about twice
as many are held, and a hit reorders nothing, unlike in a list of least recently used keys.
"""

from typing import Generic, TypeVar

from apf_middleware.exceptions import require_integer

__all__ = ["BoundedCache"]

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Values of at least the last ``generation`` keys and at most twice as many."""

    __slots__ = ("_generation", "_old", "young")

    def __init__(self, generation: int) -> None:
        self._generation = require_integer("generation", generation, least=1)
        self.young: dict[K, V] = {}  # public, for callers on the hot path that save the call of a hit
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
                self.put(key, found)  # a used key moves to the young generation
        return found

    def put(self, key: K, value: V) -> None:
        """Keep ``value``, which may drop older ones."""
        # At most one entry is added per call, so together both generations never exceed twice the bound.
        if len(self.young) >= self._generation:
            self._old = self.young
            self.young = {}
        self.young[key] = value

    def clear(self) -> None:
        """Drop all values."""
        self.young, self._old = {}, {}
