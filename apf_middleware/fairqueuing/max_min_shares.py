"""Max-min fair shares of a level's seats, kept up to date while the demands change one by one.

With capacity C and demands rho, a queue gets mu = min(rho, mu_fair), and mu_fair is the least number that solves

    min(C, sum of rho) = sum of min(rho, mu_fair).

There are two categories of queues: the *granted* get their whole demand, and the *limited* get mu_fair each, which is
less than their demand. Sorted by demand, the granted come first, so only the boundary has to be kept: ``free``, the
capacity that the granted leave, and ``limited``, the number of queues that share it. mu_fair is ``free / limited``. It
is only kept as these two integers, so nothing is rounded and no sum can drift.

The boundary is right exactly if rho * limited <= free for every granted queue and rho * limited > free for every
limited one. When a demand changes, the greatest granted demand and the least limited one show whether the boundary must
move; queues cross it one by one until it is right. That costs O((1 + crossings) log n). A limited queue may be listed
under less than its actual demand, if it would be limited with that as well. So a change that leaves its demand above
the listed one costs nothing.
"""

from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

from apf_middleware.fairqueuing.queue_heap import QueueHeap

__all__ = ["Demander", "MaxMinShares"]

_NONE: Final = ()


class Demander(Protocol):
    """A queue that gets a share: it is in a list at its ``index``, and its demand is ``rho``.

    It is listed among the limited queues under the demand ``at_least``, and among the granted ones under ``at_most``; 0
    means that it isn't listed there. While it is limited, its ``rho`` is not below ``at_least``; while it is granted,
    not above ``at_most``.
    """

    index: int
    rho: int
    is_limited: bool
    is_closed: bool
    at_least: int
    at_most: int


DemanderT = TypeVar("DemanderT", bound=Demander)


class MaxMinShares(Generic[DemanderT]):
    """The division of ``capacity`` among ``queues`` by their ``rho``. A queue is in the list at its ``index``."""

    __slots__ = ("_bound", "_greatest", "_least", "_most", "_queues", "capacity", "free", "limited")

    capacity: int
    free: int

    def __init__(self, capacity: int, queues: Sequence[DemanderT]) -> None:
        self.capacity = self.free = capacity
        self.limited: int = 0
        self._queues = queues
        self._most = QueueHeap()  # by falling demand: all granted queues with demand, and outdated entries
        self._least = QueueHeap()  # by rising demand: all limited queues, and outdated entries
        self._greatest = 0  # no granted queue demands more
        self._bound = 1  # no limited queue demands less

    def change(self, queue: DemanderT, rho: int) -> Sequence[DemanderT]:
        """Set the demand of ``queue`` to ``rho``, and return the queues that have changed category."""
        if queue.is_limited:
            queue.rho = rho
            if not rho:
                queue.is_limited = False
                self.limited -= 1
                return self._with_others(queue)
            if rho < queue.at_least:
                self._list_limited(queue, rho)
            return _NONE if rho * self.limited > self.free else self._balance()
        left = self.free + queue.rho
        queue.rho = rho
        if rho * (self.limited + 1) > left:  # more than the fair share, even if the queue is limited
            self.free = left
            self.limited += 1
            queue.is_limited = True
            if not 0 < queue.at_least <= rho:  # if it is still listed under no more, its entry can stay
                self._list_limited(queue, rho)
            return self._with_others(queue)
        self.free = left - rho
        if rho > queue.at_most:
            self._list_granted(queue, rho)
        elif rho > self._greatest:
            self._greatest = rho
        return self._balance() if self.limited or self.free < 0 else _NONE

    def resize(self, capacity: int) -> Sequence[DemanderT]:
        """Set the capacity, and return the queues that have changed category."""
        self.free += capacity - self.capacity
        self.capacity = capacity
        return self._balance() if self.limited or self.free < 0 else _NONE

    # The boundary

    def _with_others(self, queue: DemanderT) -> Sequence[DemanderT]:
        """Return ``queue``, which has crossed the boundary, and the others that have to cross it as well."""
        crossed = self._balance()
        return [queue, *crossed] if crossed else (queue,)

    def _balance(self) -> Sequence[DemanderT]:
        limited, free = self.limited, self.free
        if self._greatest * limited <= free and (free < self._bound * limited or not limited):
            return _NONE  # usually decided without looking at any queue
        crossed: list[DemanderT] = []
        while self._greatest * self.limited > self.free:
            greatest = self._greatest_granted()
            if greatest is None or greatest.rho * self.limited <= self.free:
                break
            self._limit(greatest)
            crossed.append(greatest)
        while self.limited and self._bound * self.limited <= self.free:
            least = self._least_limited()
            if least.rho * self.limited > self.free:
                break
            self._grant(least)
            crossed.append(least)
        return crossed

    def _greatest_granted(self) -> DemanderT | None:
        most = self._most
        while (index := most.least()) is not None:
            queue = self._queues[index]
            if queue.is_limited or not queue.rho:
                most.drop(index)
                queue.at_most = 0
            elif queue.rho == queue.at_most:
                self._greatest = queue.rho
                return queue
            else:  # its demand has fallen since
                queue.at_most = queue.rho
                most.put(index, -queue.rho)
        self._greatest = 0
        return None

    def _least_limited(self) -> DemanderT:
        least = self._least
        while (index := least.least()) is not None:
            queue = self._queues[index]
            if not queue.is_limited:
                least.drop(index)
                queue.at_least = 0
            elif queue.rho == queue.at_least:
                self._bound = queue.rho
                return queue
            else:  # its demand has risen since
                queue.at_least = queue.rho
                least.put(index, queue.rho)
        raise LookupError("no queue is limited")

    def _list_limited(self, queue: DemanderT, rho: int) -> None:
        queue.at_least = rho
        self._least.put(queue.index, rho)
        if rho < self._bound:  # noqa: PLR1730 - min() is slower
            self._bound = rho

    def _list_granted(self, queue: DemanderT, rho: int) -> None:
        queue.at_most = rho
        self._most.put(queue.index, -rho)
        if rho > self._greatest:  # noqa: PLR1730 - max() is slower
            self._greatest = rho

    def _limit(self, queue: DemanderT) -> None:
        queue.is_limited = True
        self.free += queue.rho
        self.limited += 1
        self._list_limited(queue, queue.rho)

    def _grant(self, queue: DemanderT) -> None:
        queue.is_limited = False
        self.free -= queue.rho
        self.limited -= 1
        self._list_granted(queue, queue.rho)

    def forget(self, queue: DemanderT, *, closing_up: bool) -> Sequence[DemanderT]:
        """Remove a closed queue. If ``closing_up``, the queues behind it have moved up in the list as well."""
        if queue.is_limited:
            queue.is_limited = False
            self.limited -= 1
        else:
            self.free += queue.rho
        if queue.at_least:
            self._least.drop(queue.index)
        if queue.at_most:
            self._most.drop(queue.index)
        queue.rho = queue.at_least = queue.at_most = 0
        if closing_up:
            self._most.close_up(queue.index)
            self._least.close_up(queue.index)
        return self._balance()

    def check(self, except_for: DemanderT | None = None) -> None:
        """Raise AssertionError unless the boundary is right; the demand of one queue may not be included yet."""
        self._most.check()
        self._least.check()
        queues = [queue for queue in self._queues if not queue.is_closed and queue is not except_for]
        limited = [queue for queue in queues if queue.is_limited]
        granted = [queue for queue in queues if not queue.is_limited]
        assert self.limited == len(limited), f"{len(limited)} queues are limited, not {self.limited}"
        assert self.free == self.capacity - sum(queue.rho for queue in granted), "what the granted leave"
        assert self.limited or self.free >= 0, "more is granted than there is"
        for queue in granted:
            assert not queue.rho or queue.rho <= queue.at_most, f"{queue!r} is listed with too little"
            assert queue.rho <= self._greatest, f"{queue!r} asks for more than any"
            assert queue.rho * self.limited <= self.free, f"{queue!r} is granted more than the fair share"
        for queue in limited:
            assert 0 < queue.at_least <= queue.rho, f"{queue!r} is listed with too much"
            assert self._bound <= queue.rho, f"{queue!r} asks for less than any"
            assert queue.at_least * self.limited > self.free, f"{queue!r} is limited, but could have all"
        for listed, queues_there in ((self._most, granted), (self._least, limited)):
            missing = {queue.index for queue in queues_there if queue.rho} - listed.members()
            assert not missing, f"queues {missing} are not listed"

    def __repr__(self) -> str:
        return f"<MaxMinShares of {self.capacity} seats: {self.free} for {self.limited} limited queues>"
