"""Names replaced by hashes, with a key that belongs to one recording.

The same name has the same hash everywhere in the recording, so requests of one caller stay together. Without the key a
hash can't be compared with the hashes of guessed names; the key isn't part of the recording.
"""

from hashlib import blake2b
from typing import Final

from apf_middleware.bounded_cache import BoundedCache

__all__ = ["MARK", "Pseudonyms"]

MARK: Final = "~"
"""The first character of a hash; it may stand in paths, headers and names."""

_BYTES: Final = 8
_ALL: Final = 2.0 ** (8 * _BYTES)
_REMEMBERED: Final = 4096
_LONGEST: Final = 512  # characters of a name whose hash is remembered


class Pseudonyms:
    """The hashes of names under one ``key``."""

    __slots__ = ("_key", "_known")

    def __init__(self, key: bytes) -> None:
        self._key = key[:64]
        self._known: BoundedCache[str, str] = BoundedCache(_REMEMBERED)

    def of(self, name: str) -> str:
        """Return the hash of a name; the empty name stays empty."""
        if not name:
            return ""
        found = self._known.get(name)
        if found is None:
            digest = blake2b(name.encode("utf-8", "surrogatepass"), key=self._key, digest_size=_BYTES)
            found = MARK + digest.hexdigest()
            if len(name) <= _LONGEST:
                self._known.put(name, found)
        return found

    def part_of(self, name: str) -> float:
        """Return a number from 0 to 1 that belongs to a name, evenly spread over all names."""
        digest = blake2b(name.encode("utf-8", "surrogatepass"), key=self._key, digest_size=_BYTES, person=b"sample")
        return int.from_bytes(digest.digest()) / _ALL

    def __repr__(self) -> str:
        return "<Pseudonyms>"
