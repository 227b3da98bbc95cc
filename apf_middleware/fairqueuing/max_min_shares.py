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

**Weights.** A queue of weight w counts as w queues of weight 1: it gets mu = min(rho, w * mu_fair), and ``limited`` is
the sum of the weights of the limited queues. The queues are sorted by rho / w, in integers of 2**-40 seats, rounded
down; whether a queue crosses the boundary is decided exactly, by comparing rho * limited with free * w. Only queues
with ratios that differ by less than such a unit may be examined in the wrong order, and then the shares are wrong by
less than that. As long as all queues have the usual weight, it counts as 1, and numbers stay small; from `weigh` on,
the unit is `WEIGHT_ONE`.
"""

from collections.abc import Sequence
from typing import Final

from apf_middleware.fairqueuing.queue_heap import QueueHeap
from apf_middleware.fairqueuing.queue_share import Share
from apf_middleware.fairqueuing.work import WEIGHT_BITS, WEIGHT_ONE

__all__ = ["MaxMinShares"]

_NONE: Final = ()
_KEY_BITS: Final = 40
"""The ratios of weighted queues are compared in units of 2**-40 seats for each unit of weight."""


class MaxMinShares:
    """The division of ``capacity`` among ``queues`` by their ``rho``. A queue is in the list at its ``index``."""

    __slots__ = (
        "_bound",
        "_greatest",
        "_key_bits",
        "_least",
        "_most",
        "_queues",
        "_slack",
        "capacity",
        "free",
        "limited",
        "unit",
    )

    capacity: int
    free: int

    def __init__(self, capacity: int, queues: Sequence[Share]) -> None:
        self.capacity = self.free = capacity
        self.limited: int = 0
        self.unit: int = 1  # the weight of a usual queue
        self._queues = queues
        self._key_bits = 0  # the keys of the heaps are demands in units of 2**-_key_bits, divided by weights
        self._slack = 0  # 1 if keys are rounded down
        self._most = QueueHeap()  # by falling demand: all granted queues with demand, and outdated entries
        self._least = QueueHeap()  # by rising demand: all limited queues, and outdated entries
        self._greatest = 0  # no granted queue has a greater key
        self._bound = 1  # no limited queue has a lesser one

    def change(self, queue: Share, rho: int) -> Sequence[Share]:
        """Set the demand of ``queue`` to ``rho``, and return the queues that have changed category."""
        if queue.is_limited:
            queue.rho = rho
            if not rho:
                queue.is_limited = False
                self.limited -= queue.weight
                return self._with_others(queue)
            if rho < queue.at_least:
                self._list_limited(queue, rho)
            return _NONE if rho * self.limited > self.free * queue.weight else self._balance()
        left = self.free + queue.rho
        queue.rho = rho
        weight = queue.weight
        if rho * (self.limited + weight) > left * weight:  # more than its share, even if the queue is limited
            self.free = left
            self.limited += weight
            queue.is_limited = True
            if not 0 < queue.at_least <= rho:  # if it is still listed under no more, its entry can stay
                self._list_limited(queue, rho)
            return self._with_others(queue)
        self.free = left - rho
        if rho > queue.at_most:
            self._list_granted(queue, rho)
        return self._balance() if self.limited or self.free < 0 else _NONE

    def resize(self, capacity: int) -> Sequence[Share]:
        """Set the capacity, and return the queues that have changed category."""
        self.free += capacity - self.capacity
        self.capacity = capacity
        return self._balance() if self.limited or self.free < 0 else _NONE

    # Weights

    def weigh(self) -> None:
        """Let the unit of weights be `WEIGHT_ONE` from now on, so that queues can have other weights."""
        if self._key_bits:
            return
        self.unit = WEIGHT_ONE
        self._key_bits = _KEY_BITS
        self._slack = 1
        self.limited <<= WEIGHT_BITS
        self._greatest <<= _KEY_BITS - WEIGHT_BITS
        self._bound <<= _KEY_BITS - WEIGHT_BITS
        for queue in self._queues:
            queue.weight = WEIGHT_ONE
            if queue.at_least:
                self._list_limited(queue, queue.at_least)
            if queue.at_most:
                self._list_granted(queue, queue.at_most)

    def reweigh(self, queue: Share, weight: int) -> Sequence[Share]:
        """Set the weight of ``queue``, and return the queues that have changed category; `weigh` comes first."""
        if queue.at_least:  # its entries have the keys for the former weight
            self._least.drop(queue.index)
            queue.at_least = 0
        if queue.at_most:
            self._most.drop(queue.index)
            queue.at_most = 0
        former, queue.weight = queue.weight, weight
        if queue.is_limited:
            self.limited += weight - former
            self._list_limited(queue, queue.rho)
        elif queue.rho:
            self._list_granted(queue, queue.rho)
        return self._balance() if self.limited else _NONE

    def _key(self, queue: Share, rho: int) -> int:
        return (rho << self._key_bits) // queue.weight if self._key_bits else rho

    # The boundary

    def _with_others(self, queue: Share) -> Sequence[Share]:
        """Return ``queue``, which has crossed the boundary, and the others that have to cross it as well."""
        crossed = self._balance()
        return [queue, *crossed] if crossed else (queue,)

    def _balance(self) -> Sequence[Share]:
        limited, free, slack = self.limited, self.free << self._key_bits, self._slack
        if (self._greatest + slack) * limited <= free and (free < self._bound * limited or not limited):
            return _NONE  # usually decided without looking at any queue
        crossed: list[Share] = []
        while (self._greatest + slack) * self.limited > self.free << self._key_bits:
            greatest = self._greatest_granted()
            if greatest is None or greatest.rho * self.limited <= self.free * greatest.weight:
                break
            self._limit(greatest)
            crossed.append(greatest)
        while self.limited and self._bound * self.limited <= self.free << self._key_bits:
            least = self._least_limited()
            if least.rho * self.limited > self.free * least.weight:
                break
            self._grant(least)
            crossed.append(least)
        return crossed

    def _greatest_granted(self) -> Share | None:
        most = self._most
        while (index := most.least()) is not None:
            queue = self._queues[index]
            if queue.is_limited or not queue.rho:
                most.drop(index)
                queue.at_most = 0
            elif queue.rho == queue.at_most:
                self._greatest = self._key(queue, queue.rho)
                return queue
            else:  # its demand has fallen since
                queue.at_most = queue.rho
                most.put(index, -self._key(queue, queue.rho))
        self._greatest = 0
        return None

    def _least_limited(self) -> Share:
        least = self._least
        while (index := least.least()) is not None:
            queue = self._queues[index]
            if not queue.is_limited:
                least.drop(index)
                queue.at_least = 0
            elif queue.rho == queue.at_least:
                self._bound = self._key(queue, queue.rho)
                return queue
            else:  # its demand has risen since
                queue.at_least = queue.rho
                least.put(index, self._key(queue, queue.rho))
        raise LookupError("no queue is limited")

    def _list_limited(self, queue: Share, rho: int) -> None:
        queue.at_least = rho
        key = self._key(queue, rho)
        self._least.put(queue.index, key)
        self._bound = min(self._bound, key)

    def _list_granted(self, queue: Share, rho: int) -> None:
        queue.at_most = rho
        key = self._key(queue, rho)
        self._most.put(queue.index, -key)
        self._greatest = max(self._greatest, key)

    def _limit(self, queue: Share) -> None:
        queue.is_limited = True
        self.free += queue.rho
        self.limited += queue.weight
        self._list_limited(queue, queue.rho)

    def _grant(self, queue: Share) -> None:
        queue.is_limited = False
        self.free -= queue.rho
        self.limited -= queue.weight
        self._list_granted(queue, queue.rho)

    def forget(self, queue: Share, *, closing_up: bool) -> Sequence[Share]:
        """Remove a closed queue. If ``closing_up``, the queues behind it have moved up in the list as well."""
        if queue.is_limited:
            queue.is_limited = False
            self.limited -= queue.weight
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

    def check(self, except_for: Share | None = None) -> None:
        """Raise AssertionError unless the boundary is right; the demand of one queue may not be included yet."""
        self._most.check()
        self._least.check()
        queues = [queue for queue in self._queues if not queue.is_closed and queue is not except_for]
        limited = [queue for queue in queues if queue.is_limited]
        granted = [queue for queue in queues if not queue.is_limited]
        weights, free = sum(queue.weight for queue in limited), self.free << self._key_bits
        assert self.limited == weights, f"the weights of limited queues are {weights}, not {self.limited}"
        assert self.free == self.capacity - sum(queue.rho for queue in granted), "what the granted leave"
        assert self.limited or self.free >= 0, "more is granted than there is"
        for queue in granted:
            assert not queue.rho or queue.rho <= queue.at_most, f"{queue!r} is listed with too little"
            key = self._key(queue, queue.rho)
            assert key <= self._greatest, f"{queue!r} asks for more than any"
            assert key * self.limited <= free, f"{queue!r} is granted more than the fair share"
        for queue in limited:
            key = self._key(queue, queue.at_least)
            assert 0 < queue.at_least <= queue.rho, f"{queue!r} is listed with too much"
            assert self._bound <= key, f"{queue!r} asks for less than any"
            assert (key + self._slack) * self.limited > free, f"{queue!r} is limited, but could have all"
        for listed, queues_there in ((self._most, granted), (self._least, limited)):
            missing = {queue.index for queue in queues_there if queue.rho} - listed.members()
            assert not missing, f"queues {missing} are not listed"

    def __repr__(self) -> str:
        return f"<MaxMinShares of {self.capacity} seats: {self.free} for {self.limited / self.unit:g} limited queues>"
