"""Cooperative reclaiming of seats: running requests are asked to give their seats to a queue that deserves them.

A queue with fewer seats than it deserves is served first when seats become free. If requests are short, that is soon.
If some take minutes (exports, generated text), their handlers may opt in: `Admission.revocable` returns a `Revocation`,
which a handler can check or wait for. No request is ever cancelled; a request that is asked may end early, or continue.

Only requests of other queues are asked. Their queue must be reclaimable and have more seats than it deserves, and must
still have what it deserves after the request has ended. Requests of the queue with the lowest priority are asked first,
then those of the queue with the highest share, then the youngest. Seats that are free or have already been asked back
are counted first, except those that were asked back for another queue that still waits for them. No request is asked if
all seats together aren't enough.
"""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from apf_middleware.fairqueuing import Lending, TicketState
from apf_middleware.runtime.queues.status import find_deserved

if TYPE_CHECKING:
    from apf_middleware.runtime.admission import Admission
    from apf_middleware.runtime.level import LevelRuntime
    from apf_middleware.runtime.registry import LevelRegistry

__all__ = ["Reclaimer"]


class _Victim(NamedTuple):
    order: tuple[int, Fraction, int]
    admission: "Admission"


class Reclaimer:
    """Keep the running requests that opted in, and ask some of them when a queue waits for seats that it deserves.

    Requests that have ended are forgotten now and then, so that their end costs nothing. ``asked`` counts by queue.

    A claim costs O(levels). If the queue has less than it deserves, a claim also costs O(n log n) in the n running
    requests that opted in.
    """

    __slots__ = ("_known", "_levels", "_limit", "asked")

    def __init__(self, levels: "LevelRegistry") -> None:
        self._levels = levels
        # In the order of their opting in, each with the queue for which it was asked; a handler may opt in again.
        self._known: dict[Admission, str] = {}
        self._limit = 64
        self.asked: dict[str, int] = {}

    def enter(self, admission: "Admission") -> None:
        """Add a request that may be asked, and claim seats for the queues that wait already."""
        self._known.setdefault(admission, "")
        # The limit is in proportion to the requests that are left, so forgetting costs amortised O(1) for each request.
        if len(self._known) > self._limit:
            self._forget()
            self._limit = 64 + 2 * len(self._known)
        self.claim_all()

    def claim_all(self) -> None:
        """Claim seats for all queues with waiting requests, because one has opted in or the levels have changed."""
        for runtime in self._levels.levels.values():
            if runtime.shared.waits:
                self.claim(runtime)

    def _forget(self) -> None:
        self._known = {one: queue for one, queue in self._known.items() if one.state is TicketState.SEATED}
        self.asked = {name: number for name, number in self.asked.items() if name in self._levels.levels}

    def claim(self, runtime: "LevelRuntime") -> None:
        """Ask for the seats that a queue with waiting requests lacks, if it deserves them and enough can be freed."""
        shared = runtime.shared
        if not self._known or shared.exempt or shared.is_held or shared.is_closing or not shared.waits:
            return
        sharing = self._levels.sharing
        if not isinstance(sharing, Lending):
            return  # until the next adjustment its limit is what it is
        if self._levels.levels.get(runtime.name) is not runtime:
            return  # a draining level keeps its own seats, and deserves no others
        deserves = find_deserved(self._levels, sharing.grant)
        queueset = shared.queueset
        # a wider request runs on as many seats as its level can have
        width = min(queueset.head().width, shared.ceiling)
        wanted = _wanted(runtime, deserves)
        if not 0 < width <= wanted:  # a level that has just lost all its seats has no use for any
            return
        self._forget()
        revoked = self._revoked_seats()
        # While more seats are in use than there are, as after a reduction, these have to come free first.
        free = max(0, shared.current - queueset.seats_in_use) + min(0, sharing.ledger.free)
        coming = free + self._coming(runtime, deserves)
        for victim in self._choose(runtime, deserves, revoked, width=width, wanted=wanted, coming=coming):
            self._known[victim] = runtime.name
            victim.revoked.set()
            self.asked[victim.level] = self.asked.get(victim.level, 0) + 1

    def _revoked_seats(self) -> Counter[str]:
        """Return the seats of the running requests that were asked, by queue."""
        revoked = Counter[str]()
        for admission in self._known:
            if admission.revoked.is_set():
                revoked[admission.level] += admission.width
        return revoked

    def _coming(self, claimant: "LevelRuntime", deserves: dict[str, Fraction]) -> int:
        """Return the seats that other queues have been asked for, unless they are for a queue that waits for them."""
        asked = Counter[str]()
        for admission, queue in self._known.items():
            if admission.revoked.is_set() and admission.level != claimant.name:
                asked[queue] += admission.width
        levels = self._levels.levels
        others = [levels[name] for name in asked if name in levels and name != claimant.name]
        return asked.total() - sum(min(asked[one.name], _wanted(one, deserves)) for one in others)

    def _choose(
        self,
        claimant: "LevelRuntime",
        deserves: dict[str, Fraction],
        revoked: Counter[str],
        *,
        width: int,
        wanted: int,
        coming: int,
    ) -> "list[Admission]":
        """Return the fewest requests whose seats let ``claimant`` seat as many requests of ``width`` as possible.

        ``claimant`` has a use for ``wanted`` seats. ``coming`` seats become free anyway.
        """
        # Only multiples of the width help: with fewer seats, a request would end without another being seated.
        target = max(coming // width + 1, 1) * width
        if target > wanted:
            return []
        chosen: list[Admission] = []
        enough = 0
        taken: dict[str, int] = {}
        for victim in sorted(self._victims(claimant, deserves, revoked), key=lambda one: one.order):
            admission, level = victim.admission, victim.admission.level
            gone = taken.get(level, 0) + admission.width
            # no queue is asked for seats that it deserves itself
            if self._left(level, revoked) - gone < int(deserves[level]):
                continue
            chosen.append(admission)
            taken[level] = gone
            coming += admission.width
            if coming >= target:
                enough, target = len(chosen), (coming // width + 1) * width
            if target > wanted:
                break
        # The requests after the last full multiple would end without another being seated.
        return chosen[:enough]

    def _left(self, level: str, revoked: Counter[str]) -> int:
        """Return the seats that a queue has when the requests that were asked have gone."""
        shared = self._levels.levels[level].shared
        return shared.queueset.seats_in_use + bool(shared.alone) - revoked[level]

    def _victims(
        self, claimant: "LevelRuntime", deserves: dict[str, Fraction], revoked: Counter[str]
    ) -> Iterator[_Victim]:
        levels = self._levels.levels
        for admission in self._known:
            runtime = admission.destination.runtime
            level, name = runtime.level, runtime.name
            # A draining level is left out: its name may now belong to another level.
            if runtime is claimant or levels.get(name) is not runtime or admission.revoked.is_set():
                continue
            used = self._left(name, revoked)
            if level.reclaimable and not level.exempt and used > deserves[name]:
                # a queue that deserves nothing comes before all queues that deserve something
                share = used / deserves[name] if deserves[name] else Fraction(used * 10**9)
                yield _Victim((level.priority, -share, -admission.seated_at), admission)

    def __repr__(self) -> str:
        return f"<Reclaimer: {len(self._known)} may be asked>"


def _wanted(runtime: "LevelRuntime", deserves: dict[str, Fraction]) -> int:
    """Return for how many seats a queue waits that it deserves."""
    shared = runtime.shared
    if not shared.waits:
        return 0
    missing = min(int(deserves[runtime.name]), shared.most) - shared.queueset.seats_in_use
    return max(0, min(shared.queueset.seats_waiting, missing))
