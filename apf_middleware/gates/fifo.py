"""Strict order, for levels that want it: while one of a flow is kept waiting, no later one of that flow and queue may
pass, whatever it needs. Other flows in the same queue are free to go.
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from apf_middleware.gates.passage import Stage

if TYPE_CHECKING:
    from collections import deque

    from apf_middleware.gates.passage import Passage

__all__ = ["Turnstiles"]

_GONE = {Stage.PASSED, Stage.ENDED}


class _Turnstile:
    """One flow in one queue: who goes first, and who is ``behind``; heaps by number."""

    __slots__ = ("behind", "first")

    def __init__(self) -> None:
        self.first: list[tuple[int, Passage]] = []
        self.behind: list[tuple[int, Passage]] = []


class Turnstiles:
    """Of all flows where somebody is kept waiting."""

    def __init__(self) -> None:
        self._turnstiles: dict[tuple[int, str], _Turnstile] = {}

    @staticmethod
    def _key(passage: "Passage") -> tuple[int, str]:
        return id(passage.ticket.queue), passage.flow

    def bars(self, passage: "Passage") -> bool:
        """Whether an earlier one is kept waiting."""
        if not self._turnstiles or not passage.level.queueset.settings.fifo:
            return False
        turnstile = self._turnstiles.get(self._key(passage))
        first = None if turnstile is None else self._first(turnstile)
        return first is not None and first.number < passage.number

    @staticmethod
    def _first(turnstile: _Turnstile) -> "Passage | None":
        while turnstile.first and turnstile.first[0][1].stage in _GONE:
            heappop(turnstile.first)
        return turnstile.first[0][1] if turnstile.first else None

    def block(self, passage: "Passage") -> None:
        """It is kept waiting."""
        if passage.level.queueset.settings.fifo:
            turnstile = self._turnstiles.setdefault(self._key(passage), _Turnstile())
            if all(one is not passage for _, one in turnstile.first):
                heappush(turnstile.first, (passage.number, passage))

    def stand_behind(self, passage: "Passage") -> None:
        """It waits until those before it have passed or left."""
        heappush(self._turnstiles[self._key(passage)].behind, (passage.number, passage))

    def leave(self, passage: "Passage", ready: "deque[Passage]") -> None:
        """It has passed or left: the next one may try."""
        if not self._turnstiles:
            return
        key = self._key(passage)
        turnstile = self._turnstiles.get(key)
        if turnstile is None:
            return
        first = self._first(turnstile)
        while turnstile.behind and turnstile.behind[0][1].stage is not Stage.BEHIND:
            heappop(turnstile.behind)
        if turnstile.behind and (first is None or turnstile.behind[0][0] <= first.number):
            number, first = heappop(turnstile.behind)
            heappush(turnstile.first, (number, first))
        if first is None:
            del self._turnstiles[key]
        elif first.stage is Stage.BEHIND:
            ready.append(first)

    def __len__(self) -> int:
        return len(self._turnstiles)

    def __repr__(self) -> str:
        return f"<Turnstiles of {len(self)} flows>"
