"""One level among those that share seats: its queue set, its limits, and the request that is alone in it.

**A request that is alone.** Most levels are idle most of the time, and often have only one request. If no request
waits, runs or lingers in a level, and the level is promised at least one seat, a request for one seat is seated at
once: that seat is within the level's min, so no other request could have it. Therefore neither the queue set nor the
sharing has to be called. The request is recorded here as *alone*; of earlier such requests, only the number and the
total time are kept. An exempt level seats every request anyway; there the sharing only has to count the seat.

At any other event, or when a snapshot is taken, the queue set is brought up to date (`SharedLevel.settle_alone`). A
request that still runs alone arrives there, with its own time of arrival. Requests that have ended are booked with
their totals. This is exact: each of them found the level idle and left it idle, so only their number, their total time
and the flow of the last one matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.demand import DemandStatistics
from apf_middleware.fairqueuing.queueset import QueueSet
from apf_middleware.fairqueuing.queueset_settings import QueueSetSettings, require_settings
from apf_middleware.fairqueuing.sharing.borrowing import LevelAdjustment
from apf_middleware.fairqueuing.sharing.hierarchy import MOST_PRIORITY
from apf_middleware.fairqueuing.sharing.limits import LevelLimits
from apf_middleware.fairqueuing.ticket import Ticket, TicketState
from apf_middleware.fairqueuing.work import Work
from apf_middleware.snapshots import LevelSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from apf_middleware.fairqueuing.sharing.hierarchy import Parent
    from apf_middleware.fairqueuing.sharing.limits import LevelShares

__all__ = ["NO_CAP", "LevelRecord", "SharedLevel", "require_level"]

NO_CAP: Final = 2**62 - 1
"""The cap of a level that has none; the largest integer that the compiled build keeps without an object."""

_NEW: Final = TicketState.NEW
_SEATED: Final = TicketState.SEATED
_RELEASED: Final = TicketState.RELEASED
_NONE: Final[tuple[Ticket, ...]] = ()
_NO_PARENT: "Parent | None" = None


@dataclass(frozen=True, slots=True)
class LevelRecord(Value):
    """The demand of one level at the last adjustment, and its result."""

    demand: DemandStatistics
    adjustment: LevelAdjustment


class SharedLevel:
    """One level of a server, with its ``queueset``; a `Sharing` owns it and changes its fields.

    ``least`` seats are promised to the level at any time, and it never gets more than ``most``. A wider ticket than the
    ``ceiling`` counts as that; ``most`` is smaller only at a member of a fleet that has a part of the level's max.
    ``counted`` is the count of the level at this moment (see `ledger`). ``turn`` is the serial number of its last
    dispatch while other levels waited. ``weight`` is its proportion when several levels want the same seats;
    ``entitled``, ``deserved`` and ``lag`` are computed from it (see `balance`). While another level drains, no more
    than ``kept`` is promised: the min that the level had before. While this one drains, it deserves so many seats
    ``before_others``.

    While a level ``is_held`` no request is seated, and while it ``is_closing`` none may arrive. If a level ``is_over``,
    it has been deleted: it is held when it begins to drain, and never revived. A level that ``is_common`` is neither
    held nor closing nor draining, and has neither a cap nor a parent; it is served in fewer steps. Levels that borrow
    are served in the order of ``borrows_as``, the lowest first.

    While as many seats as its ``cap`` are in use, or more, the level seats no request, as if it were held; but it
    always has its min. A wide request may exceed the cap, because otherwise it might wait for ever. The seats of
    requests that arrive while there is a cap stay taken for ``pause_ns`` after their end.

    If ``may_rest`` is false, every request is passed to the queue set at once. ``limit_of`` returns the limit in force;
    without it, that is the concurrency of the queue set.
    """

    __slots__ = (
        "_idle_since",
        "_last_entropy",
        "_limit_of",
        "_may_rest",
        "_settled_ns",
        "alone",
        "alone_count",
        "alone_ns",
        "alone_width",
        "before_others",
        "borrows_as",
        "cap",
        "ceiling",
        "counted",
        "deserved",
        "entitled",
        "exempt",
        "is_closing",
        "is_common",
        "is_draining",
        "is_held",
        "is_over",
        "kept",
        "lag",
        "least",
        "left_at",
        "limits",
        "most",
        "name",
        "parent",
        "pause_ns",
        "queueset",
        "record",
        "settings",
        "settled_count",
        "shares",
        "turn",
        "used_before",
        "waits",
        "weight",
    )

    is_closing: bool
    is_common: bool
    is_held: bool
    is_over: bool
    parent: "Parent | None"
    shares: "LevelShares | None"

    alone_count: int
    before_others: int
    alone_ns: int
    cap: int
    ceiling: int
    pause_ns: int
    settled_count: int
    counted: int
    deserved: int
    entitled: int
    is_draining: bool
    kept: int
    lag: int
    least: int
    left_at: int
    most: int
    turn: int
    used_before: int
    waits: bool
    weight: int

    def __init__(
        self,
        name: str,
        settings: QueueSetSettings,
        limits: LevelLimits,
        queueset: QueueSet,
        *,
        may_rest: bool = True,
        limit_of: "Callable[[SharedLevel], int] | None" = None,
        now: int = 0,
    ) -> None:
        self.name: str = name
        self.settings: QueueSetSettings = settings
        self.limits: LevelLimits = limits
        self.exempt: bool = settings.exempt
        self.queueset: QueueSet = queueset
        self._limit_of = limit_of
        self.is_draining = self.is_held = self.is_closing = self.is_over = self.waits = False
        self.is_common, self.parent, self.shares = True, _NO_PARENT, None
        self.weight = limits.nominal
        self.rank_borrower(0)
        self.set_cap(NO_CAP)
        self.turn = self.deserved = self.entitled = self.lag = self.used_before = 0  # see `balance`
        self.record: LevelRecord | None = None  # set where limits are adjusted
        self.least = self.most = self.ceiling = self.counted = self.kept = self.before_others = 0
        # Traces of upstream must replay bit by bit, so with ``strict_upstream`` the queue set gets every request.
        self._may_rest = may_rest and not queueset.strict_upstream
        self.alone_width: int = 0  # the width up to which a request may be seated alone: 1 while the level is idle
        self.alone: Ticket | None = None
        self.alone_count = self.alone_ns = self.settled_count = self._settled_ns = 0  # of requests that were alone
        self._idle_since = self.left_at = now
        self._last_entropy = 0

    @property
    def in_use(self) -> int:
        """The seats that requests use, also one that was seated alone."""
        return self.queueset.seats_in_use + (self.alone is not None)

    @property
    def current(self) -> int:
        """The limit in force now."""
        limit = self.queueset.concurrency if self._limit_of is None else self._limit_of(self)
        return min(limit, max(self.cap, self.least))

    @property
    def is_idle(self) -> bool:
        """True if no request waits, runs or lingers."""
        return self.alone is None and self.queueset.is_idle

    @property
    def is_open(self) -> bool:
        """True if the level isn't held, and has no cap, and its queue set accepts new requests."""
        return not (self.is_held or self.queueset.is_quiescing or self.cap < NO_CAP)

    @property
    def is_stopped(self) -> bool:
        """True if the level seats no request now: it is held, or uses as many seats as its cap."""
        used = self.queueset.seats_in_use
        return self.is_held or (used >= self.cap and used >= self.least)

    @property
    def wants_seats(self) -> bool:
        """True if requests wait for seats, and the level may seat them."""
        return self.queueset.waiting > 0 and not self.is_stopped

    def set_cap(self, cap: int, pause_ns: int = 0) -> None:
        """Set another cap; its owner then counts the seats again. The lowest cap is 1."""
        self.cap = max(1, cap)
        self.pause_ns = 0 if cap >= NO_CAP else pause_ns

    def lengthen(self, ticket: Ticket) -> None:
        """Let the seats of ``ticket``, which arrives, stay taken for ``pause_ns`` after its end."""
        work = ticket.work
        if self.pause_ns and not work.linger_ns:
            ticket.work = Work(work.seats, work.final_seats, self.pause_ns)

    def rank_borrower(self, priority: int) -> None:
        """Set the rank among borrowers: by ``priority``; of the same priority, levels without a weight come last."""
        self.borrows_as: int = 2 + 2 * (MOST_PRIORITY - priority) + (0 if self.weight else 1)

    # A request that is alone

    def seat_alone(self, now: int, ticket: Ticket) -> bool:
        """Seat ``ticket``, which is no wider than ``alone_width``, as the only one; return False if that fails."""
        # The queue set is needed for lingers, and raises the errors for a wrong state or a time that goes back.
        if ticket.work.linger_ns or ticket.state is not _NEW or now < self._idle_since:
            return False
        self.alone_width = 0
        self.alone = ticket
        ticket.state = _SEATED
        ticket.queueset = self.queueset
        ticket.arrived_at = ticket.seated_at = now
        return True

    def release_alone(self, now: int, ticket: Ticket) -> Sequence[Ticket]:
        """End the run of ``ticket``, which is ``alone``."""
        if now < ticket.seated_at:
            self.settle_alone()
            return self.queueset.release(now, ticket)  # which raises the error
        ticket.state = _RELEASED
        self.alone = None
        self.alone_count += 1
        self.alone_ns += now - ticket.seated_at
        self._last_entropy = ticket.entropy
        self._idle_since = now
        # The conditions of `allow_alone` still hold: each call that could change them settles the lone request first.
        self.alone_width = 1
        return _NONE

    def allow_alone(self, now: int) -> None:
        """Allow the next request to be alone, if the level is idle and promised a seat."""
        is_promised = self.least or self.exempt
        if self.queueset.parked:
            return  # a parked request returns to the queue set, which must then know all other requests
        # In the model of a discipline, requests that have ended may still run; `book` assumes that none does.
        if self._may_rest and is_promised and self.is_open and self.queueset.discipline.is_at_rest:
            self.alone_width = 1
            self._idle_since = now

    def settle_alone(self) -> None:
        """Account in the queue set for the requests that were alone, and for the one that is."""
        count = self.alone_count - self.settled_count
        queueset = self.queueset
        # those that have ended came before the one that still runs
        if count:
            held = self.alone_ns - self._settled_ns
            queueset.book(self._idle_since, self._last_entropy, times=count, held_ns=held)
            self.settled_count, self._settled_ns = self.alone_count, self.alone_ns
        ticket = self.alone
        if ticket is not None:
            self.alone = None
            ticket.state = _NEW
            queueset.concurrency = max(queueset.concurrency, 1)  # because its seat is within the level's min
            queueset.arrive(ticket.arrived_at, ticket)

    def charge(self, ticket: Ticket, seats: float) -> None:
        """Bill ``ticket`` for this number of ``seats``."""
        self.settle_alone()  # the totals of requests that were alone assume one seat for each
        self.queueset.charge(ticket, seats)

    # Looking

    def snapshot(self, receiving: int = 0) -> LevelSnapshot:
        """Return a frozen snapshot; ``receiving`` is the number of requests with bodies that are still on their way."""
        self.settle_alone()
        queueset, limits = self.queueset, self.limits
        return LevelSnapshot(
            level=self.name,
            exempt=self.exempt,
            idle=self.is_idle,
            quiescing=self.is_draining,
            active_queues=sum(queue.length > 0 for queue in queueset.deck),
            waiting=queueset.waiting,
            parked=queueset.parked,
            receiving=receiving,
            seats_waiting=queueset.seats_waiting,
            executing=queueset.executing,
            lingering=sum(1 for _ in queueset.lingering),
            seats_in_use=queueset.seats_in_use,
            dispatched=queueset.dispatched,
            rejected={reason.value: number for reason, number in queueset.rejected.items()},
            nominal=limits.nominal,
            min=limits.min,
            max=None if self.exempt else limits.max,
            current=None if self.exempt else self.current,
            cap=None if self.cap == NO_CAP else self.cap,
            discipline=queueset.discipline.name,
            meters=dict(queueset.discipline.meters()),
        )

    def check(self) -> None:
        """Raise AssertionError if the level's state is inconsistent."""
        self.queueset.check()
        assert not (self.alone_width and self.alone), f"two requests could be alone in {self!r}"
        if self.alone_width or self.alone:
            assert self.least or self.exempt, f"nothing is promised to {self!r}"
            assert self.queueset.is_idle, f"{self!r} isn't idle"

    def __repr__(self) -> str:
        alone = ", one alone" if self.alone else ""
        return f"<SharedLevel {self.name!r}: {self.least} to {self.most} seats{alone}, {self.queueset!r}>"


def require_level(name: object, settings: object, limits: object) -> None:
    """Raise InvalidValueError unless a level can be made of these."""
    if not isinstance(name, str):
        raise InvalidValueError("name", name, "it must be a string")
    require_settings(settings)
    if not isinstance(limits, LevelLimits):
        raise InvalidValueError(f"limits of {name}", limits, "they must be LevelLimits")
