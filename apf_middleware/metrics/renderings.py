"""Renderings of the metrics that are repeated if they are asked for very often.

Rendering the metrics takes some milliseconds, and a client may ask for them at any rate. So only a burst of renderings
is made anew, and as many as one every tenth of a second on average; beyond that, the last one is repeated. A scrape
after a tenth of a second without scrapes has the numbers of its moment.
"""

from dataclasses import dataclass
from typing import Final

__all__ = ["Rendering", "Renderings"]

_GAP_NS: Final = 100_000_000
_BURST: Final = 20
_OLDEST_NS: Final = 1_000_000_000
"""The age of a repeated rendering at most, also if other formats use up all renderings."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """Metrics as text in one format, and the content type and encoding of the text."""

    body: bytes
    content_type: str
    is_gzip: bool


class Renderings:
    """The last rendering in each of the few formats and encodings, whose pairs are the keys."""

    __slots__ = ("_kept", "_next_at")

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bool], tuple[int, Rendering]] = {}
        self._next_at = 0  # when one more rendering is free if they came one by one

    def find(self, now: int, key: tuple[str, bool]) -> Rendering | None:
        """Return a rendering to be repeated; None if one must be made, which counts as made from now on."""
        latest = now + (_BURST - 1) * _GAP_NS
        if self._next_at > latest:
            made_at, found = self._kept.get(key, (now - _OLDEST_NS, None))
            if now - made_at < _OLDEST_NS:
                return found
        self._next_at = min(max(now, self._next_at), latest) + _GAP_NS
        return None

    def keep(self, now: int, key: tuple[str, bool], rendering: Rendering) -> None:
        """Keep a rendering that was begun at ``now``."""
        self._kept[key] = now, rendering

    def __repr__(self) -> str:
        return f"<Renderings of {len(self._kept)} formats>"
