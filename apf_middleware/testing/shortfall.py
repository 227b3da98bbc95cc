"""The measure of starvation: the shortfall of a flow's service behind its max-min fair share, over any interval.

At each instant a flow demands the seats that its requests occupy or wait for. Its *fair share* is the max-min fair part
of the level's seats for the demands of that instant (progressive filling: all shares rise alike until the demand is met
or the seats are used up). Its *service* is the seats that its requests occupy, lingering ones included, by their width.

**Shortfall.** For each interval in which requests of the flow wait throughout, the shortfall is the integral of the
fair share minus the integral of the service; the largest over all intervals is kept, in seat-nanoseconds, exactly. It
depends on no choice of windows and on nothing that happened before the interval. Its bound is C + 1 times the longest
work, that is width x time occupied, of the requests that have been seated so far, where C is the most seats that the
level has had. (Dozens of flows with one request each can exceed it on one or two seats, in any order of service.)

**Drought.** A waiting flow is short of seats while it has none, or while its widest waiting request would fit into its
fair share beside those that it has. A drought is an interval in which that holds throughout: it ends when the flow
reaches its fair share, to within one request. Its bound is C + n times the longest time for which a request has
occupied its seats so far (for a request that is wider than the level, the time that its work takes on C seats), where n
is the most flows that had something waiting at once during the drought.

**Seats that can't be used.** While a request waits that is wider than the free seats, seats may have to be kept free
for it, and no other request can be served with them. Then the seats that are shared out are those in use (never more
than C). While every waiting request would fit into the free seats, all C seats are shared out.

An interval ends as soon as no request of the flow waits, even if another one begins to wait at the same instant: in
between the discipline had nothing to serve.
"""

from collections import Counter
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd

from apf_middleware.exceptions import ClockError, InvalidValueError, require_integer

__all__ = ["Finding", "Shortfall"]

_NS = 10**9


@dataclass(frozen=True, slots=True)
class Finding:
    """The worst case of one flow: an ``amount`` in seat-nanoseconds or nanoseconds, and its ``bound`` at that time."""

    flow: Hashable
    at: int
    amount: Fraction
    bound: int

    @property
    def ratio(self) -> float:
        """The amount as a part of its bound; more than 1 is a violation."""
        return float(self.amount / self.bound)

    @property
    def seconds(self) -> float:
        """The amount in seat-seconds or seconds."""
        return float(self.amount) / _NS

    def __str__(self) -> str:
        return f"flow {self.flow} at {self.at / _NS:.6f} s: {self.seconds:.6f} of {self.bound / _NS:.6f}"


@dataclass(slots=True, eq=False)
class _Account:
    """The demand of one flow, and its shortfall (in fractions of a scale) and drought up to now."""

    seats: int = 0
    waiting: int = 0
    widths: Counter[int] = field(default_factory=Counter)
    shortfall: int = 0
    drought: int = 0
    crowd: int = 0


class Shortfall:
    """Follows the flows of one level of ``capacity`` seats, from time ``now`` on.

    Report changes in the order of time: `wait` and `occupy` with what is added (or taken away, if negative), `serve`
    for each request that is seated, `resize` when the seats of the level change. With ``watched``, only these
    flows are judged, while the demand of all counts; each event costs O(watched flows + different demands).
    """

    def __init__(self, capacity: int, watched: Collection[Hashable] | None = None, now: int = 0) -> None:
        self._capacity = self._most = require_integer("capacity", capacity, least=0)
        self._now = require_integer("now", now)
        self._watched = watched
        self._accounts: dict[Hashable, _Account] = {}
        self._judged: dict[Hashable, _Account] = {}
        self._demands: Counter[int] = Counter()  # the number of flows by the seats that they demand
        self._widths: Counter[int] = Counter()  # the number of waiting requests by width
        self._waiting_flows = self._in_use = 0
        self._level: tuple[int, int] | None = None
        self._scale = 1
        self._longest = self._most_work = 1
        self.largest: dict[Hashable, Finding] = {}
        """The largest shortfall of each flow that ever fell behind."""
        self.longest_drought: dict[Hashable, Finding] = {}
        """The longest drought of each flow that ever had one."""
        self.worst: Finding | None = None
        """The shortfall that was the largest part of its bound."""
        self.worst_drought: Finding | None = None
        """The drought that was the largest part of its bound."""

    @property
    def seat_seconds(self) -> float:
        """The largest shortfall of any flow."""
        return max((finding.seconds for finding in self.largest.values()), default=0.0)

    @property
    def bound(self) -> int:
        """C + 1 times the longest work so far, in seat-nanoseconds."""
        return (self._most + 1) * self._most_work

    def wait(self, now: int, flow: Hashable, width: int, requests: int = 1) -> None:
        """Add ``requests`` to the number of requests of this width that wait in ``flow``."""
        account = self._begin(now, flow)
        was_waiting = account.waiting > 0
        account.widths[width] += requests
        self._widths[width] += requests
        if not account.widths[width]:
            del account.widths[width]
        if not self._widths[width]:
            del self._widths[width]
        account.waiting += requests * width
        self._waiting_flows += (account.waiting > 0) - was_waiting
        if not account.waiting:
            account.shortfall = account.drought = account.crowd = 0  # the interval has ended
        self._end(account)

    def occupy(self, now: int, flow: Hashable, seats: int) -> None:
        """Add ``seats`` to the seats of ``flow``."""
        account = self._begin(now, flow)
        account.seats += seats
        self._in_use += seats
        self._end(account)

    def serve(self, width: int, held_ns: int) -> None:
        """Note that a request is seated that occupies ``width`` seats for ``held_ns``, its linger included."""
        self._longest = max(self._longest, -(-width * held_ns // max(min(width, self._capacity), 1)))
        self._most_work = max(self._most_work, width * held_ns)

    def resize(self, now: int, capacity: int) -> None:
        """Change the seats of the level."""
        self.advance(now)
        self._capacity = require_integer("capacity", capacity, least=0)
        self._most = max(self._most, capacity)
        self._level = None

    def advance(self, now: int) -> None:
        """Move to ``now``; nothing has changed in between."""
        elapsed = now - self._now
        if not elapsed:
            return
        if elapsed < 0:
            raise ClockError.between(self._now, now)
        self._now = now
        if self._level is None:
            self._level = self._fill()
        numerator, denominator = self._level
        self._refine(denominator)
        level = numerator * (self._scale // denominator)
        for flow, account in self._judged.items():
            if account.waiting:
                self._judge(flow, account, level, elapsed)

    def _judge(self, flow: Hashable, account: _Account, level: int, elapsed: int) -> None:
        """Account for a waiting flow over a time in which nothing changed."""
        scale, seats = self._scale, account.seats
        share = min((account.waiting + seats) * scale, level)
        before = account.shortfall
        account.shortfall = max(0, before + (share - seats * scale) * elapsed)
        if account.shortfall > before:
            self._note_shortfall(flow, account.shortfall)
        if not seats or (seats + max(account.widths)) * scale <= share:
            account.drought += elapsed
            account.crowd = max(account.crowd, self._waiting_flows)
            self._note_drought(flow, account)
        else:
            account.drought = account.crowd = 0

    def _note_shortfall(self, flow: Hashable, shortfall: int) -> None:
        known, worst, bound = self.largest.get(flow), self.worst, self.bound
        # Integers are compared, not fractions: this happens at almost every event.
        if known is None or shortfall * known.amount.denominator > known.amount.numerator * self._scale:
            self.largest[flow] = Finding(flow, self._now, Fraction(shortfall, self._scale), bound)
        if worst is None or (
            shortfall * worst.bound * worst.amount.denominator > worst.amount.numerator * self._scale * bound
        ):
            self.worst = Finding(flow, self._now, Fraction(shortfall, self._scale), bound)

    def _note_drought(self, flow: Hashable, account: _Account) -> None:
        bound = (self._most + account.crowd) * self._longest
        known, worst, drought = self.longest_drought.get(flow), self.worst_drought, account.drought
        if known is None or drought > known.amount.numerator:
            self.longest_drought[flow] = Finding(flow, self._now, Fraction(drought), bound)
        if worst is None or drought * worst.bound > worst.amount.numerator * bound:
            self.worst_drought = Finding(flow, self._now, Fraction(drought), bound)

    def _fill(self) -> tuple[int, int]:
        """Return the fair share of each flow that wants more, as a fraction: progressive filling, demand by demand."""
        free = self._capacity - self._in_use
        left = min(self._capacity, self._in_use) if self._widths and max(self._widths) > free else self._capacity
        unfilled = sum(self._demands.values())
        for demand in sorted(self._demands):
            if demand * unfilled >= left:
                return left, unfilled
            left -= demand * self._demands[demand]
            unfilled -= self._demands[demand]
        return self._capacity, 1  # all demands are met

    def _refine(self, denominator: int) -> None:
        """Make the scale a multiple of ``denominator``, so that every share is a whole number of its parts."""
        finer = denominator // gcd(self._scale, denominator)
        if finer > 1:
            self._scale *= finer
            for account in self._judged.values():
                account.shortfall *= finer

    def _begin(self, now: int, flow: Hashable) -> _Account:
        """Return the account of ``flow``, up to date and taken out of the demands, so that it can change."""
        self.advance(now)
        account = self._accounts.get(flow)
        if account is None:
            account = self._accounts[flow] = _Account()
            if self._watched is None or flow in self._watched:
                self._judged[flow] = account
        demand = account.waiting + account.seats
        if demand:
            self._demands[demand] -= 1
            if not self._demands[demand]:
                del self._demands[demand]
        return account

    def _end(self, account: _Account) -> None:
        """Add a changed account to the demands again."""
        if account.waiting < 0 or account.seats < 0:
            raise InvalidValueError("requests", account.waiting, "more requests left than came")
        demand = account.waiting + account.seats
        if demand:
            self._demands[demand] += 1
        self._level = None
