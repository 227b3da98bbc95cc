"""The service gap: how far apart the service of two flows drifts while both want more.

Theorems about fair queuing bound this measure: two flows that are backlogged all the time are served alike over any
interval, not only on average. For each pair of flows, and each interval in which requests of both wait, the difference
of their seat-seconds is followed; the gap is the most that it changed in one interval. A gap of one request's work
can't be avoided.
"""

from collections.abc import Iterable
from itertools import combinations

__all__ = ["ServiceGap"]

_NS = 10**9


class ServiceGap:
    """The largest gap among these ``flows``, in seat-nanoseconds: ``largest``. Other flows are ignored.

    Each event costs O(flows).
    """

    __slots__ = ("_range", "_seats", "_served", "_since", "_waiting", "largest")

    def __init__(self, flows: Iterable[int]) -> None:
        self._seats = dict.fromkeys(sorted(flows), 0)
        self._served = dict.fromkeys(self._seats, 0)
        self._since = dict.fromkeys(self._seats, 0)
        self._waiting = dict.fromkeys(self._seats, 0)
        self._range: dict[tuple[int, int], tuple[int, int] | None] = dict.fromkeys(combinations(self._seats, 2))
        self.largest: int = 0

    @property
    def seat_seconds(self) -> float:
        return self.largest / _NS

    def occupy(self, now: int, flow: int, seats: int) -> None:
        """Add ``seats`` to the seats of ``flow``."""
        if flow in self._seats:
            self._served[flow] = self._service(now, flow)
            self._since[flow] = now
            self._seats[flow] += seats
            self._update(now, flow)

    def wait(self, now: int, flow: int, requests: int) -> None:
        """Add ``requests`` to the number of waiting requests of ``flow``."""
        if flow in self._seats:
            self._update(now, flow)
            self._waiting[flow] += requests
            self._update(now, flow)

    def _service(self, now: int, flow: int) -> int:
        return self._served[flow] + self._seats[flow] * (now - self._since[flow])

    def _update(self, now: int, flow: int) -> None:
        mine = self._service(now, flow)
        for other in self._seats:
            if other == flow:
                continue
            pair = (flow, other) if flow < other else (other, flow)
            if not (self._waiting[flow] and self._waiting[other]):  # an idle flow ends the interval of the pair
                self._range[pair] = None
                continue
            ahead = mine - self._service(now, other)
            ahead = ahead if flow < other else -ahead  # the lead of the pair's first flow
            known = self._range[pair]
            least, most = (ahead, ahead) if known is None else (min(known[0], ahead), max(known[1], ahead))
            self._range[pair] = (least, most)
            self.largest = max(self.largest, most - least)
