"""Cooperative reclaiming of seats: running requests are asked to give way to the owner of their seats.

A queue below what it deserves is served first whenever a seat comes free, and with short requests that is soon. Where
some take minutes (exports, generated text), their handlers may opt in to be asked: `Admission.revocable` gives them a
`Revocation` to look at or to wait for. Nothing is ever cancelled; a request that is asked ends, or goes on.

Requests are asked that run in *other*, reclaimable queues which have more than they deserve, also after the request has
ended: first those of the queue with the lowest priority, then with the highest share, then the youngest. Seats that are
free or already asked back count first, and no request is asked unless the seats are enough together.
"""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from apf_middleware.fairqueuing import TicketState
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
        self._known: dict[Admission, None] = {}  # in the order of their opting in; a handler may opt in again
        self._limit = 64
        self.asked: dict[str, int] = {}

    def enter(self, admission: "Admission") -> None:
        """Allow ``admission`` to be asked, at once if a queue waits already."""
        self._known[admission] = None
        # The limit grows with what is left, so that forgetting costs O(1) for each request, amortised.
        if len(self._known) > self._limit:
            self._forget()
            self._limit = 64 + 2 * len(self._known)
        for runtime in self._levels.levels.values():
            if runtime.shared.waits:
                self.claim(runtime)

    def _forget(self) -> None:
        self._known = {one: None for one in self._known if one.state is TicketState.SEATED}
        self.asked = {name: number for name, number in self.asked.items() if name in self._levels.levels}

    def claim(self, runtime: "LevelRuntime") -> None:
        """Ask for the seats that a queue with waiting requests lacks, if it deserves them and enough can be had."""
        shared = runtime.shared
        if not self._known or shared.exempt or shared.is_held or shared.is_closing or not shared.waits:
            return
        if self._levels.configuration.server.borrowing != "immediate":
            return  # until the next adjustment its limit is what it is
        deserves = find_deserved(self._levels)
        queueset = shared.queueset
        # a wider request runs on as many seats as its level can have
        width = min(queueset.head().width, shared.most)
        most = min(int(deserves[runtime.name]), shared.most)
        wanted = min(queueset.seats_waiting, most - queueset.seats_in_use)
        if wanted < width:
            return
        self._forget()
        revoked = self._revoked_seats()
        coming = max(0, shared.current - queueset.seats_in_use) + revoked.total() - revoked[runtime.name]
        for victim in self._choose(runtime, deserves, revoked, width=width, wanted=wanted, coming=coming):
            victim.revoked.set()
            self.asked[victim.level] = self.asked.get(victim.level, 0) + 1

    def _revoked_seats(self) -> Counter[str]:
        """Return the seats of the running requests that were asked, by queue."""
        revoked = Counter[str]()
        for admission in self._known:
            if admission.revoked.is_set():
                revoked[admission.level] += admission.width
        return revoked

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
        """Return as few requests as give ``claimant`` seats for as many of this width as it wants.

        ``coming`` seats come free anyway.
        """
        # Seats help in multiples of the width: fewer would make a request end without seating another.
        target = (coming // width + 1) * width
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
        # The requests after the last full multiple would end without seating another.
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
            # A draining level is left out: its name may belong to another one.
            if runtime is claimant or levels.get(name) is not runtime or admission.revoked.is_set():
                continue
            used = self._left(name, revoked)
            if level.reclaimable and not level.exempt and used > deserves[name]:
                # a queue that deserves nothing comes before all that deserve something
                share = used / deserves[name] if deserves[name] else Fraction(used * 10**9)
                yield _Victim((level.priority, -share, -admission.seated_at), admission)

    def __repr__(self) -> str:
        return f"<Reclaimer: {len(self._known)} may be asked>"
