"""A plain twin of the guarantee: what its documentation says, with a look at every queue for every question.

It adds up the shortfall of each queue at each step of time, by progressive filling with fractions. It has no heap, no
log and no categories, and it rounds nothing. The guarantee rounds its meter down at each step, so the two agree to
within as many grains as there were steps, multiplied by the greatest weight.
"""

from fractions import Fraction
from math import inf

from apf_middleware.fairqueuing import QueueSet
from apf_middleware.fairqueuing.ticket import Queue
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from tests.support.discipline_twins import max_min_shares

__all__ = ["PlainGuarantee"]

_GRAINS = 2**20
_ROUNDING = 1000  # grains, a thousandth of a seat-nanosecond: more than the steps of a world come to
_BLOCK = 1000


class PlainGuarantee:
    """The shortfalls of the queues of ``queueset``, in grains of a seat-nanosecond."""

    def __init__(self, queueset: QueueSet, now: int = 0) -> None:
        self._queueset = queueset
        self.rounding = _ROUNDING
        self.threshold = 0
        self._longest = 0  # the longest duration of a recent request
        self._is_wide = False  # whether a request of more than one seat has waited
        self._now = now
        self._seats = 0
        self._r = Fraction(0)
        self._held: list[tuple[int, int]] = []  # width and time of all requests that have given their seats back
        self._had_enough: dict[Queue, Fraction] = {}  # the latest r at which a queue had enough seats
        self.shortfalls: dict[Queue, Fraction] = {}  # of the queues in which something waits

    def fair_share(self) -> Fraction | float:
        """Return the seats of a queue of the usual weight that can't have all it demands: any number if none."""
        queues = list(self._queueset.deck)
        demands = [queue.seats_in_use + sum(ticket.width for ticket in queue) for queue in queues]
        shares = max_min_shares(self._seats, demands, [queue.weight for queue in queues])
        limited = (
            share * WEIGHT_ONE / queue.weight
            for queue, share, demand in zip(queues, shares, demands, strict=True)
            if share < demand
        )
        return max(limited, default=inf)

    def _share_with_idle(self) -> Fraction | float:
        """Return the fair share, and an equal part of the seats that haven't been in use until now."""
        share, queues = self.fair_share(), list(self._queueset.deck)
        if not isinstance(share, Fraction):
            return share
        limited = sum(
            queue.weight
            for queue in queues
            if (queue.seats_in_use + sum(ticket.width for ticket in queue)) * WEIGHT_ONE > share * queue.weight
        )
        idle = max(0, self._queueset.concurrency - self._seats)
        return share + Fraction(idle * WEIGHT_ONE, limited)

    def has_enough(self, queue: Queue, share: Fraction | float, shortfall: Fraction) -> bool:
        """Return whether the queue has its share; if there are wide requests, also whether it will catch up.

        That is, it would with one more seat, if this and those beyond its share are in use for the longest time.
        """
        if not isinstance(share, Fraction):
            return False
        beyond = queue.seats_in_use - share * queue.weight / WEIGHT_ONE
        may_catch_up = shortfall <= self.threshold + (beyond + 1) * self._longest * _GRAINS
        return beyond >= 0 and (may_catch_up or not self._is_wide)

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
            own = due * queue.weight / WEIGHT_ONE
            self.shortfalls[queue] = max(Fraction(0), shortfall + own - queue.seats_in_use * elapsed * _GRAINS)
            self._note_enough(queue, share)

    def _note_enough(self, queue: Queue, share: Fraction | float) -> None:
        if self.has_enough(queue, share, self.shortfalls[queue] - self.rounding):
            self._had_enough[queue] = self._r

    def _since_enough(self, queue: Queue) -> Fraction:
        """Return what the fair share of the queue has added up to since the queue had enough seats."""
        return (self._r - self._had_enough[queue]) * queue.weight / WEIGHT_ONE

    def wait(self, queue: Queue) -> None:
        if queue not in self.shortfalls:
            self.shortfalls[queue] = Fraction(0)
            self._had_enough[queue] = self._r

    def leave(self, queue: Queue) -> None:
        if not queue.length:
            self.shortfalls.pop(queue, None)

    def reweigh(self, queue: Queue) -> None:
        """Let the queue, which has another weight now, lack the same work; it may be looked at later than otherwise."""
        self._had_enough[queue] = self._r

    def vacate(self, width: int, held_ns: int) -> None:
        self._held.append((width, held_ns))

    def verdict(self) -> tuple[dict[Queue, Fraction], dict[Queue, Fraction]]:
        """Return the shortfalls of the queues that may be served out of turn, and of those that must be.

        A queue may be that has fallen behind and hasn't enough seats. It must be once it has had too few for longer
        than the guarantee may look away: until its share has added up to the threshold.
        """
        blocks = len(self._held) // _BLOCK
        recent = self._held[max(0, blocks - 1) * _BLOCK :]
        work = max((width * held for width, held in recent), default=0)
        self._longest = max((held for _, held in recent), default=0)
        self.threshold = threshold = (2 * work + self._queueset.ceiling * self._longest) * _GRAINS // 4
        self._is_wide = self._is_wide or any(ticket.width > 1 for queue in self._queueset.deck for ticket in queue)
        share = self._share_with_idle()
        for queue in self.shortfalls:
            self._note_enough(queue, share)
        may = {
            queue: shortfall
            for queue, shortfall in self.shortfalls.items()
            if shortfall > threshold - self.rounding and not self.has_enough(queue, share, shortfall + self.rounding)
        }
        must = {
            queue: shortfall - self.rounding
            for queue, shortfall in may.items()
            if min(shortfall, self._since_enough(queue)) > threshold + self.rounding
        }
        return may, must
