"""A plain twin of the guarantee: what its documentation says, with a look at every queue for every question.

It adds up the shortfall of each queue at each step of time, by progressive filling with fractions. It has no heap, no
log and no categories, and it rounds nothing. The guarantee rounds its meter down at each step, so the two agree to
within as many grains as there were steps.
"""

from fractions import Fraction
from math import inf

from apf_middleware.fairqueuing import QueueSet
from apf_middleware.fairqueuing.ticket import Queue
from tests.differential.discipline_twins import max_min_shares

__all__ = ["PlainGuarantee"]

_GRAINS = 2**20
_ROUNDING = 1000  # grains, a thousandth of a seat-nanosecond: more than the steps of a world come to
_BLOCK = 1000


class PlainGuarantee:
    """The shortfalls of the queues of ``queueset``, in grains of a seat-nanosecond."""

    def __init__(self, queueset: QueueSet, now: int = 0) -> None:
        self._queueset = queueset
        self._now = now
        self._seats = 0
        self._r = Fraction(0)
        self._held: list[tuple[int, int]] = []  # width and time of all requests that have given their seats back
        self._had_share: dict[Queue, Fraction] = {}  # the latest r at which a queue had its fair share
        self.shortfalls: dict[Queue, Fraction] = {}  # of the queues in which something waits

    def fair_share(self) -> Fraction | float:
        """Return the seats of a queue that can't have all it demands: any number if there is no such queue."""
        demands = [queue.seats_in_use + sum(ticket.width for ticket in queue) for queue in self._queueset.deck]
        shares = max_min_shares(self._seats, demands)
        return max((share for share, demand in zip(shares, demands, strict=True) if share < demand), default=inf)

    def advance(self, now: int) -> None:
        """Let time pass until ``now``, before anything changes then."""
        self._seats = min(sum(queue.seats_in_use for queue in self._queueset.deck), self._queueset.ceiling)
        elapsed, self._now = now - self._now, now
        if not self.shortfalls:
            return
        share = self.fair_share()
        due = share * elapsed * _GRAINS if isinstance(share, Fraction) else Fraction(0)
        self._r += due
        for queue, shortfall in self.shortfalls.items():
            self.shortfalls[queue] = max(Fraction(0), shortfall + due - queue.seats_in_use * elapsed * _GRAINS)
            self._note_share(queue, share)

    def _note_share(self, queue: Queue, share: Fraction | float) -> None:
        if queue.seats_in_use >= share:
            self._had_share[queue] = self._r

    def wait(self, queue: Queue) -> None:
        if queue not in self.shortfalls:
            self.shortfalls[queue] = Fraction(0)
            self._had_share[queue] = self._r

    def leave(self, queue: Queue) -> None:
        if not queue.length:
            self.shortfalls.pop(queue, None)

    def vacate(self, width: int, held_ns: int) -> None:
        self._held.append((width, held_ns))

    def verdict(self) -> tuple[dict[Queue, Fraction], dict[Queue, Fraction]]:
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
            if shortfall > threshold - _ROUNDING and queue.seats_in_use < share
        }
        must = {
            queue: shortfall - _ROUNDING
            for queue, shortfall in may.items()
            if min(shortfall, self._r - self._had_share[queue]) > threshold + _ROUNDING
        }
        return may, must
