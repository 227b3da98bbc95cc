"""What operators have changed in a fleet, known to all its members: a board of notices, each under a key.

A notice replaces an earlier one of the same key. Its version is larger by one than all versions that its author knew,
so of two notices with the same key all members keep the same one, in whatever order they learn of them. Boards are
compared by their digests, and exchanged only when these differ.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError

__all__ = ["LONGEST_VALUE", "MOST_NOTICES", "Board", "Notice"]

MOST_NOTICES: Final = 5_000
"""The number of notices that a board can have."""

LONGEST_VALUE: Final = 16_384
"""The longest text of a notice, in characters."""


@dataclass(frozen=True, slots=True)
class Notice(Value):
    """A text, and the ``version`` and author by which notices of the same key are ordered."""

    version: int
    author: str
    value: str

    def is_newer(self, other: "Notice | None") -> bool:
        """Return whether this notice replaces ``other``."""
        return other is None or (self.version, self.author, self.value) > (other.version, other.author, other.value)


class Board:
    """The notices that one member, or the allocator, knows."""

    __slots__ = ("digest", "notices")

    def __init__(self) -> None:
        self.notices: dict[str, Notice] = {}
        self.digest: str = ""

    def post(self, author: str, key: str, value: str) -> None:
        """Write a notice.

        Raises:
            InvalidValueError: the board is full, or the text is too long.
        """
        if len(value) > LONGEST_VALUE:
            raise InvalidValueError("length of a notice", len(value), f"it must be at most {LONGEST_VALUE} characters")
        if key not in self.notices and len(self.notices) >= MOST_NOTICES:
            raise InvalidValueError("number of notices", MOST_NOTICES, "the fleet can't tell its members about more")
        version = 1 + max((one.version for one in self.notices.values()), default=0)
        self._take({key: Notice(version, author, value)})

    def merge(self, notices: Mapping[str, Notice]) -> dict[str, str]:
        """Take the notices that are newer than those known, and return their texts."""
        newer = {key: one for key, one in notices.items() if one.is_newer(self.notices.get(key))}
        if not newer or len(self.notices.keys() | newer.keys()) > MOST_NOTICES:
            return {}
        self._take(newer)
        return {key: one.value for key, one in newer.items()}

    def _take(self, notices: Mapping[str, Notice]) -> None:
        self.notices.update(notices)
        found = sorted((key, one.version, one.author, one.value) for key, one in self.notices.items())
        self.digest = hashlib.sha256(repr(found).encode()).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"<Board with {len(self.notices)} notices>"
