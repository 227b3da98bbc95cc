"""No flow starves: a bound on how far a queue falls behind its max-min fair share, whatever the discipline does.

A queue *demands* the seats that its requests occupy or wait for. Its *fair share* at each instant is the max-min fair
part of the seats in use for the demands of that instant. While something waits in a queue, its *shortfall* is how much
service it lacks: the largest value that the integral of fair share minus seats has over any interval up to now. The
discipline decides which queue is served next as long as every shortfall is small. A queue is *overdue* when its
shortfall exceeds half of the greatest work of a request and a quarter of what C seats do in the longest time of a
request, and it has fewer seats than its fair share at the moment. An overdue queue is served before all others, the
largest shortfall first.

From then on more shortfall arises only while requests that have been seated go on running. The shortfall of no queue
exceeds C + 1 of the longest requests, over any interval and whatever happened before; random worlds come to nine tenths
of that. Only demand and seats at each instant count, neither guesses nor history, so no credit or debt builds up. The
threshold is as high as the bound allows, because a queue that begins to wait has no shortfall: it would stand behind
all that are overdue.

**Meters.** ``r`` is the integral of the fair share of a queue that cannot have all it demands (see `MaxMinShares`), in
grains of 2**-20 seat-nanoseconds. A waiting queue counts as one of these. (A queue whose whole demand is within the
fair share lacks less than that; serving it early costs nobody more than it is entitled to.) The service of a queue is
``seats x now + offset``, where only a change of seats changes the offset. The shortfall is the distance of
``r - service`` from its least value, and that is reached when seats come free.

**Cost.** Waiting queues stand on an agenda under the ``r`` at which their shortfall was zero at the earliest. An entry
may be outdated, but only so that it overstates the shortfall; it is put right when it comes to the top. Usually one
comparison tells that no queue lacks much. Each call is O(log n) amortised. Demands are tracked only while there is
competition: tracking begins with a look at all queues, and ends after as many requests without competition.
"""

from collections.abc import Iterable
from typing import Final

from apf_middleware.fairqueuing.agenda import Agenda
from apf_middleware.fairqueuing.claim import Claim
from apf_middleware.fairqueuing.max_min_shares import MaxMinShares
from apf_middleware.fairqueuing.queue import Queue

__all__ = ["Guarantee"]

_GRAIN_BITS: Final = 20
_REMEMBERED: Final = 1000  # requests for which the longest one is remembered, at least


class Guarantee:
    """The shortfalls of one queue set's queues."""

    __slots__ = (
        "_agenda",
        "_claims",
        "_former",
        "_free_claims",
        "_is_decided",
        "_longest",
        "_most_work",
        "_now",
        "_overdue",
        "_queues",
        "_quiet",
        "_remaining",
        "_seats",
        "_seats_at_most",
        "_shares",
        "_threshold",
        "_waiting_queues",
        "is_tracking",
        "overridden",
        "r",
    )

    def __init__(self, seats: int, now: int = 0) -> None:
        self.r: int = 0
        self.is_tracking: bool = False
        self.overridden: int = 0  # how often a queue was served out of turn
        self._now = now
        self._seats = 0
        self._waiting_queues = 0
        self._quiet = 0
        self._seats_at_most = seats
        self._most_work = self._longest = self._threshold = 0
        self._former = (0, 0)  # the greatest work and the longest time among the requests before
        self._remaining = _REMEMBERED
        self._overdue: Queue | None = None
        self._is_decided = True
        self._forget()

    def _forget(self) -> None:
        self._claims: list[Claim] = []
        self._queues: list[Queue] = []  # whose claim it is, or was last
        self._free_claims: list[Claim] = []
        self._shares = MaxMinShares(0, self._claims)
        self._agenda = Agenda()

    # Time

    def advance(self, now: int, seats: int) -> None:
        """Let time pass until ``now``, with so many ``seats`` in use since the latest call."""
        if self._waiting_queues:
            shares = self._shares
            if seats != self._seats:
                self._seats = seats
                shares.resize(seats)
            if shares.limited:
                self.r += (shares.free * (now - self._now) << _GRAIN_BITS) // shares.limited
        self._now = now

    # What happens to queues

    def _claim(self, queue: Queue) -> Claim:
        """Return a claim of ``queue``, which has none."""
        if self._free_claims:
            claim = self._free_claims.pop()
            self._queues[claim.index] = queue
            claim.offset = 0
        else:
            claim = Claim(len(self._claims))
            self._claims.append(claim)
            self._queues.append(queue)
        queue.claim = claim
        return claim

    def _demand(self, claim: Claim, rho: int) -> None:
        if claim.is_limited and rho >= claim.at_least:
            claim.rho = rho  # it stays limited
            return
        self._shares.change(claim, rho)
        if not rho:
            self._queues[claim.index].claim = None
            self._free_claims.append(claim)

    def wait(self, queue: Queue, width: int, queues: Iterable[Queue]) -> None:
        """A request of this ``width`` has joined ``queue``, one of ``queues``, to wait there."""
        if not self.is_tracking:
            self._track(queues)
        claim = queue.claim or self._claim(queue)
        self._demand(claim, claim.rho + width)
        if queue.length == 1:
            self._waiting_queues += 1
            claim.least = self._ahead(queue, claim)
            claim.debt = 0
            self._list(claim, self.r)
        self._is_decided = False

    def _track(self, queues: Iterable[Queue]) -> None:
        """Begin to keep demands."""
        self.is_tracking = True
        self._quiet = 0
        for queue in queues:
            if queue.seats_in_use:
                self._demand(self._claim(queue), queue.seats_in_use)

    def occupy(self, queue: Queue, width: int, queues: int) -> None:
        """A request has been seated that did not have to wait, and there are so many ``queues``."""
        claim = queue.claim or self._claim(queue)
        claim.offset -= width * self._now
        self._demand(claim, claim.rho + width)
        self._quiet += 1
        if self._quiet > queues:
            self._stop()

    def _stop(self) -> None:
        """There has been no competition for long: keep demands no longer."""
        self.is_tracking = False
        for queue in self._queues:
            queue.claim = None
        self._seats = 0
        self._forget()

    def leave(self, queue: Queue, width: int) -> None:
        """A request has left ``queue`` unserved."""
        claim = queue.claim
        assert claim is not None, "a queue where a request waits has a claim"
        self._end_wait(queue, claim)
        self._demand(claim, claim.rho - width)

    def dispatch(self, queue: Queue, width: int, cut: int) -> None:
        """A request has left ``queue`` for seats: ``width`` of them, and ``cut`` fewer than it waited for."""
        claim = queue.claim
        assert claim is not None, "a queue where a request waits has a claim"
        claim.offset -= width * self._now
        self._end_wait(queue, claim)
        if cut:
            self._demand(claim, claim.rho - cut)

    def _end_wait(self, queue: Queue, claim: Claim) -> None:
        """One request fewer waits in ``queue``."""
        self._is_decided = False
        if not queue.length:
            self._waiting_queues -= 1
            self._quiet = 0
            self._agenda.drop(claim.index)

    def vacate(self, queue: Queue, width: int, held_ns: int) -> None:
        """A request is about to give back the seats of ``queue`` that it has held for so long."""
        work = width * held_ns
        if work > self._most_work or held_ns > self._longest:
            self._most_work, self._longest = max(work, self._most_work), max(held_ns, self._longest)
            self._set_threshold()
        self._remaining -= 1
        if not self._remaining:
            self._remaining = _REMEMBERED
            self._former = (self._most_work, self._longest)
            self._most_work = self._longest = 0
            self._set_threshold()
        claim = queue.claim
        if claim is None:
            return
        if queue.length:
            ahead = self._ahead(queue, claim)
            claim.least = min(claim.least, ahead)
            at = self.r - (ahead - claim.least - claim.debt)
            if at < claim.listed:
                self._list(claim, at)
        claim.offset += width * self._now
        self._demand(claim, claim.rho - width)
        self._is_decided = False

    def bill(self, queue: Queue, work: int) -> None:
        """``queue`` is charged for so much ``work`` beyond the seats that it held, or for less if negative.

        The work counts as service of this queue, and so all have a part in it as in the seats in use.
        """
        claim = queue.claim
        if claim is None or not queue.length:
            return
        claim.debt += work << _GRAIN_BITS
        if self._shares.limited:
            self.r += (work << _GRAIN_BITS) // self._shares.limited
        at = self.r - (self._ahead(queue, claim) - claim.least - claim.debt)
        if at < claim.listed:
            self._list(claim, at)
        self._is_decided = False

    def _set_threshold(self) -> None:
        work, longest = max(self._most_work, self._former[0]), max(self._longest, self._former[1])
        self._threshold = (2 * work + self._seats_at_most * longest) << _GRAIN_BITS - 2

    def resize(self, seats: int) -> None:
        """The level has at most so many ``seats`` from now on."""
        self._seats_at_most = seats
        self._set_threshold()

    # Which queue lacks service

    def _ahead(self, queue: Queue, claim: Claim) -> int:
        """Return ``r - service`` of ``queue``, but for a constant."""
        return self.r - (queue.seats_in_use * self._now + claim.offset << _GRAIN_BITS)

    def _list(self, claim: Claim, at: int) -> None:
        claim.listed = at
        self._agenda.put(claim.index, at)

    def overdue(self) -> Queue | None:
        """Return the queue that has to be served next although it may not be its turn, if there is one."""
        if not self._is_decided:
            self._is_decided = True
            self._overdue = self._find_overdue()
        return self._overdue

    def _find_overdue(self) -> Queue | None:
        agenda, shares, latest = self._agenda, self._shares, self.r - self._threshold
        while self._waiting_queues and agenda.floor() < latest:
            index = agenda.least()
            assert index is not None, "waiting queues are listed"
            claim, queue = self._claims[index], self._queues[index]
            if claim.listed >= latest:
                break  # what stood before it on the agenda was outdated
            ahead = self._ahead(queue, claim)
            claim.least = min(claim.least, ahead)
            at = self.r - (ahead - claim.least - claim.debt)
            if queue.seats_in_use * shares.limited >= shares.free:
                # It has its fair share now. Look again when the share has added up to an eighth of the threshold.
                self._list(claim, max(at, latest + (self._threshold >> 3)))
                continue
            if at <= claim.listed:
                self.overridden += 1
                return queue
            self._list(claim, at)
        return None

    def check(self) -> None:
        """Raise AssertionError where the claims are not those of the queues."""
        self._shares.check()
        self._agenda.check()
        for claim, queue in zip(self._claims, self._queues, strict=True):
            if queue.claim is claim:
                waiting = sum(ticket.width for ticket in queue)
                assert claim.rho == waiting + queue.seats_in_use, f"the claim of {queue!r}"
            else:
                assert not claim.rho, f"a claim that was of {queue!r}"

    def __repr__(self) -> str:
        return f"<Guarantee: {self._waiting_queues} queues wait, {self.overridden} served out of turn>"
