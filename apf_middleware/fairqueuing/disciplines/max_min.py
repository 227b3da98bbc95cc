"""Max-min fair shares of one server's seats, kept up to date while the demands change one by one.

With capacity C and demands rho, a queue gets mu = min(rho, mu_fair), and mu_fair is the least number that solves

    min(C, sum of rho) = sum of min(rho, mu_fair).

So the queues fall into two categories: the *granted* get all they ask for, and the *limited* get mu_fair each, which
is less than they ask for. Sorted by demand, the granted come first, and all that has to be kept is where the boundary
runs: ``free``, the capacity that the granted leave, and ``limited``, how many share it. mu_fair is the fraction
``free / limited``, and it is never written as anything else, so nothing is rounded and no sum can drift.

The boundary is right exactly if rho * limited <= free for every granted queue and rho * limited > free for every
limited one. When a demand changes, the greatest granted and the least limited tell whether it must move; queues cross
it one by one until it is right. That costs O((1 + crossings) log n). A limited queue that stays limited changes nothing
at all.
"""

from typing import TYPE_CHECKING, Final

from apf_middleware.fairqueuing.disciplines.agenda import Agenda
from apf_middleware.fairqueuing.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MaxMinQueue", "MaxMinShares"]

_NONE: Final[tuple["MaxMinQueue", ...]] = ()


class MaxMinQueue(Queue):
    """A queue, what it asks for, and how far it has come in the virtual world (see `virtual_world`)."""

    __slots__ = (
        "base",
        "end",
        "finish",
        "is_closed",
        "is_limited",
        "key",
        "key_of_end",
        "listed",
        "mark",
        "on_r",
        "rho",
        "width",
    )

    base: int
    mark: int

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.rho: int = 0
        self.is_limited: bool = False
        self.listed: int = (
            0  # its rho in the sorted structure: not less than the true one if granted, not more if limited
        )
        self.is_closed: bool = False
        self.base = self.mark = 0
        self.on_r: bool = False
        self.finish: int | None = None
        self.width: int = 1  # of the ticket whose finish it is
        self.end: int | None = None
        self.key: int | None = None
        self.key_of_end: int | None = None


class MaxMinShares:
    """Divides ``capacity`` among ``queues`` by their ``rho``. A queue stands in the list at its index."""

    __slots__ = ("_demanding", "_least", "_most", "_queues", "capacity", "free", "limited")

    capacity: int
    free: int

    def __init__(self, capacity: int, queues: "Sequence[MaxMinQueue]") -> None:
        self.capacity = self.free = capacity
        self.limited: int = 0
        self._queues = queues
        self._most = Agenda()  # the granted by falling demand
        self._least = Agenda()  # the limited by rising demand
        self._demanding = 0  # granted queues on the agenda

    def change(self, queue: MaxMinQueue, rho: int) -> "Sequence[MaxMinQueue]":
        """``queue`` asks for ``rho`` from now on. Returns the queues that are in the other category now."""
        if queue.is_limited:
            queue.rho = rho
            if rho < queue.listed:
                queue.listed = rho
                self._least.put(queue.index, rho)
            return _NONE if rho * self.limited > self.free else self._balance()
        left = self.free + queue.rho
        if rho * (self.limited + 1) > left:  # more than the fair share, be it divided with this one
            return self._limit_at_once(queue, rho)
        self.free = left - rho
        queue.rho = rho
        if rho > queue.listed:
            if not queue.listed:
                self._demanding += 1
            queue.listed = rho
            self._most.put(queue.index, -rho)
        return self._balance() if self.limited or self.free < 0 else _NONE

    def _limit_at_once(self, queue: MaxMinQueue, rho: int) -> "Sequence[MaxMinQueue]":
        """A granted queue asks for more than it can be granted: it needn't be listed among the granted first."""
        self.free += queue.rho
        queue.rho = rho
        if queue.listed:
            self._unlist(queue)
        queue.is_limited = True
        queue.listed = rho
        self.limited += 1
        self._least.put(queue.index, rho)
        crossed = self._balance()
        return [queue, *crossed] if crossed else (queue,)

    def resize(self, capacity: int) -> "Sequence[MaxMinQueue]":
        """There are ``capacity`` seats from now on. Returns the queues that are in the other category now."""
        self.free += capacity - self.capacity
        self.capacity = capacity
        return self._balance() if self.limited or self.free < 0 else _NONE

    def _balance(self) -> "Sequence[MaxMinQueue]":
        crossed: list[MaxMinQueue] = []
        while (greatest := self._greatest_granted()) is not None and greatest.rho * self.limited > self.free:
            self._limit(greatest)
            crossed.append(greatest)
        while self.limited and (least := self._least_limited()).rho * self.limited <= self.free:
            self._grant(least)
            crossed.append(least)
        return crossed

    def _greatest_granted(self) -> MaxMinQueue | None:
        while self._demanding:
            queue = self._queues[self._most.least()]
            if queue.rho == queue.listed:
                return queue
            queue.listed = queue.rho  # it fell meanwhile
            if queue.rho:
                self._most.put(queue.index, -queue.rho)
            else:
                self._unlist(queue)
        return None

    def _least_limited(self) -> MaxMinQueue:
        while True:
            queue = self._queues[self._least.least()]
            if queue.rho == queue.listed:
                return queue
            queue.listed = queue.rho  # it rose meanwhile
            self._least.put(queue.index, queue.rho)

    def _unlist(self, queue: MaxMinQueue) -> None:
        self._most.drop(queue.index)
        self._demanding -= 1
        queue.listed = 0

    def _limit(self, queue: MaxMinQueue) -> None:
        self._unlist(queue)
        queue.is_limited = True
        self.free += queue.rho
        self.limited += 1
        queue.listed = queue.rho
        self._least.put(queue.index, queue.rho)

    def _grant(self, queue: MaxMinQueue) -> None:
        self._least.drop(queue.index)
        queue.is_limited = False
        self.free -= queue.rho
        self.limited -= 1
        queue.listed = queue.rho
        if queue.rho:
            self._demanding += 1
            self._most.put(queue.index, -queue.rho)

    def forget(self, queue: MaxMinQueue, *, closing_up: bool) -> "Sequence[MaxMinQueue]":
        """``queue`` is closed. When ``closing_up``, those behind it have moved up, in the list of queues as well."""
        if queue.is_limited:
            self._least.drop(queue.index)
            queue.is_limited = False
            self.limited -= 1
        else:
            self.free += queue.rho
            if queue.listed:
                self._unlist(queue)
        queue.rho = queue.listed = 0
        if closing_up:
            self._most.close_up(queue.index)
            self._least.close_up(queue.index)
        return self._balance()

    def check(self) -> None:
        """Raise AssertionError unless the boundary is right."""
        self._most.check()
        self._least.check()
        queues = [queue for queue in self._queues if not queue.is_closed]
        limited = [queue for queue in queues if queue.is_limited]
        granted = [queue for queue in queues if not queue.is_limited]
        assert self.limited == len(limited), f"{len(limited)} queues are limited, not {self.limited}"
        assert self.free == self.capacity - sum(queue.rho for queue in granted), "what the granted leave"
        assert self.limited or self.free >= 0, "more is granted than there is"
        assert self._demanding == sum(queue.listed > 0 for queue in granted), "granted queues on the agenda"
        for queue in granted:
            assert queue.listed >= queue.rho, f"{queue!r} is listed with too little"
            assert queue.rho * self.limited <= self.free, f"{queue!r} is granted more than the fair share"
        for queue in limited:
            assert queue.listed <= queue.rho, f"{queue!r} is listed with too much"
            assert queue.rho * self.limited > self.free, f"{queue!r} is limited, but could have all"

    def __repr__(self) -> str:
        return f"<MaxMinShares of {self.capacity} seats: {self.free} for {self.limited} limited queues>"
