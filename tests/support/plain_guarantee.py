"""A plain twin of the guarantee: what its documentation says, with a look at every queue for every question.

It adds up the shortfall of each queue at each step of time, by progressive filling with fractions. It has no agenda, no
claims and no categories. Only the grain in which the fair share is rounded is that of the guarantee.
"""

from collections.abc import Iterable
from fractions import Fraction
from math import floor, inf

from apf_middleware.fairqueuing import QueueSet
from apf_middleware.fairqueuing.queue import Queue
from tests.differential.discipline_twins import max_min_shares

__all__ = ["PlainGuarantee"]

_GRAINS = 2**20
_BLOCK = 1000


class PlainGuarantee:
    """The shortfalls of the queues of ``queueset``, in grains of a seat-nanosecond."""

    def __init__(self, queueset: QueueSet, now: int = 0) -> None:
        self._queueset = queueset
        self._now = now
        self._seats = 0
        self._r = 0
        self._held: list[tuple[int, int]] = []  # width and time of all requests that have given their seats back
        self._had_share: dict[Queue, int] = {}  # the latest r at which a queue had its fair share
        self.shortfalls: dict[Queue, int] = {}  # of the queues in which something waits

    def fair_share(self) -> Fraction | float:
        """Return the seats of a queue that can't have all it demands: any number if there is no such queue."""
        demands = [queue.seats_in_use + sum(ticket.width for ticket in queue) for queue in self._queueset.deck]
        shares = max_min_shares(self._seats, demands)
        return max((share for share, demand in zip(shares, demands, strict=True) if share < demand), default=inf)

    def advance(self, now: int, seats: int) -> None:
        self._seats = seats
        elapsed, self._now = now - self._now, now
        if not self.shortfalls:
            return
        share = self.fair_share()
        due = floor(share * elapsed * _GRAINS) if share != inf else 0
        self._r += due
        for queue, shortfall in self.shortfalls.items():
            self.shortfalls[queue] = max(0, shortfall + due - queue.seats_in_use * elapsed * _GRAINS)
            self._note_share(queue, share)

    def _note_share(self, queue: Queue, share: Fraction | float) -> None:
        if queue.seats_in_use >= share:
            self._had_share[queue] = self._r

    def wait(self, queue: Queue, width: int, queues: Iterable[Queue]) -> None:  # noqa: ARG002 - as the guarantee
        if queue not in self.shortfalls:
            self.shortfalls[queue] = 0
            self._had_share[queue] = self._r

    def leave(self, queue: Queue, width: int) -> None:  # noqa: ARG002
        if not queue.length:
            self.shortfalls.pop(queue, None)

    def dispatch(self, queue: Queue, width: int, cut: int) -> None:  # noqa: ARG002
        self.leave(queue, width)

    def vacate(self, queue: Queue, width: int, held_ns: int) -> None:  # noqa: ARG002
        self._held.append((width, held_ns))

    def verdict(self) -> tuple[dict[Queue, int], dict[Queue, int]]:
        """Return the shortfalls of the queues that may be served out of turn, and of those that must be.

        A queue may be that has fallen behind and has less than its fair share. It must be once it has had less for
        longer than the guarantee may look away: until its share has added up to the threshold.
        """
        blocks = len(self._held) // _BLOCK
        recent = self._held[max(0, blocks - 1) * _BLOCK :]
        work = max((width * held for width, held in recent), default=0)
        longest = max((held for _, held in recent), default=0)
        threshold = (2 * work + self._queueset.ceiling * longest) * _GRAINS // 4
        share = self.fair_share()
        for queue in self.shortfalls:
            self._note_share(queue, share)
        may = {
            queue: shortfall
            for queue, shortfall in self.shortfalls.items()
            if shortfall > threshold and queue.seats_in_use < share
        }
        return may, {queue: lack for queue, lack in may.items() if self._r - self._had_share[queue] > threshold}
