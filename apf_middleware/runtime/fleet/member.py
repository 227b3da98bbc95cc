"""One process as a member of its fleet: it reports the demand of its levels, and applies the grants that it gets.

A report is sent at each interval; while requests wait, at shorter intervals. It is sent at once when

- a request begins to wait in a queue where none did, because the member has no free seat,
- a grant has lowered the limit: its seats are free for others only when the member has confirmed that,
- requests that ran beyond a lowered limit have ended,
- the member has seats that it doesn't need, or saves up for a wide request, and another member needs some: a request
  has ended, or a grant has more seats than the member has requests by now,
- the same is true of its part of a level's max.

In the last four cases seats are idle until the report has arrived. So a store that can sends the report in the same
turn of the event loop.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from apf_middleware.counters import DURATION_BOUNDS_NS, Histogram
from apf_middleware.fairqueuing import Lending
from apf_middleware.fairqueuing.sharing.grant import SeatGrant
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from apf_middleware.fleet.flow_labels import FlowLabels
from apf_middleware.fleet.membership import UNKNOWN_CONFIGURATION, MemberConfiguration, Membership
from apf_middleware.fleet.messages import Grant, Report
from apf_middleware.runtime.duration_sampler import DurationSampler
from apf_middleware.runtime.fleet.granted_maxes import GrantedMaxes
from apf_middleware.runtime.fleet.usage import UsageReader
from apf_middleware.runtime.log import log_event
from apf_middleware.snapshots.fleet import FleetFlowSnapshot, FleetLevelSnapshot, FleetMemberSnapshot

__all__ = ["FleetMember", "GrantTarget"]

_SECOND: Final = 10**9
_BUSY: Final = 5  # while requests wait, reports are this many times as frequent
_GAP_NS: Final = 1_000_000  # between two reports that don't wait for the interval, for each
_GAP_MEMBERS: Final = 8  # members, so that the reports of a large fleet don't keep the allocator busy
_BURST: Final = 8  # reports of free seats that are sent without a gap, if none were for as many gaps


def _ignore(news: Mapping[str, str], is_first: bool) -> None:  # noqa: FBT001 - a callback
    """Do nothing with what others tell."""


class GrantTarget(Protocol):
    """The part of the controller that a member uses; ``sampler`` is None if the total of seats doesn't adapt."""

    sampler: DurationSampler | None

    def restrict(self, grant: SeatGrant, factors: Mapping[str, Mapping[int, int]]) -> None:
        """Use at most the seats of ``grant``; set the ``factors`` of the weights of flows, by level."""
        ...

    def adopt_total(self, seats: int) -> None:
        """Share ``seats``, those of the whole fleet, among the levels from now on."""
        ...


class FleetMember:
    """The member ``membership`` with the seats of ``sharing``; ``target`` applies grants to them.

    ``wake`` and ``send_now`` are set by the store: the one makes the store exchange messages soon, the other makes it
    send a report at once, and returns False if it can't. ``configured`` returns the configuration in
    force, and ``on_notices`` is called with what other members tell, and whether this was told before this member
    joined. Reports name flows by ``labels``, if there are any, and logs name the ``fleet``. ``exchanges`` are the times
    from a report to its answer. ``on_limit``, too, is set later, and is called when the limits in force have changed.
    """

    def __init__(
        self,
        membership: Membership,
        sharing: Lending,
        target: GrantTarget,
        *,
        now: Callable[[], int],
        interval_ns: int,
        configured: Callable[[], MemberConfiguration] = lambda: UNKNOWN_CONFIGURATION,
        on_notices: Callable[[Mapping[str, str], bool], None] = _ignore,
        labels: FlowLabels | None = None,
        fleet: str = "",
    ) -> None:
        self.membership: Membership = membership
        self._configured = configured
        self._on_notices = on_notices
        self._labels, self._fleet = labels, fleet
        self.wake: Callable[[], None] = _nothing
        self.send_now: Callable[[], bool] = _nothing_now
        self.on_limit: Callable[[], None] = _nothing
        self._sharing = sharing
        self._target = target
        self._now = now
        self._interval_ns = interval_ns
        self.exchanges: Histogram = Histogram(DURATION_BOUNDS_NS)
        self._fallback_ns = 0
        self._began_at = now()
        self._usage = UsageReader(sharing, now())
        self._maxes = GrantedMaxes(sharing)
        self._reported_at = self._next_burst_at = now() - interval_ns
        self._is_over = False
        self._is_contended = False
        self._is_urgent = False  # seats are idle until the next report
        self._is_sending = self._is_due = False  # a report is being sent at once, and the limit is to be applied then
        self._keep = self._demand = 0  # the demand at the last report
        self._outdated_until: int | None = None  # if it is so for longer, that is no reload on its way to all members
        self._has_warned = self._asks = False
        self._rows: Grant | None = None
        self._factors: Mapping[str, Mapping[int, int]] = {}
        target.restrict(membership.limit, self._factors)

    def _restrict(self) -> None:
        """Apply the limit in force to the levels.

        While a report is being sent at once, wait until it has been sent, because seats are idle until then. That is
        the same turn of the event loop, so no request can begin in between.
        """
        if self._is_sending:
            self._is_due = True
        else:
            self._target.restrict(self.membership.limit, self._factors)
            self.on_limit()

    # What the controller notes

    def note_waiting(self, length: int) -> None:
        """Note that a request has begun to wait, in a queue of this ``length``."""
        if length == 1:  # requests of a flow that waits already can't be served earlier than its first one
            self.wake()

    def note_released(self) -> None:
        """Note that seats have been given back."""
        sharing = self._sharing
        if sharing.ledger.withheld:  # there may be enough free seats for what the grant promises now
            self._restrict()
        is_free = self._is_contended and (not sharing.waiting or sharing.ledger.free > 0)
        if self._is_over or is_free or self._maxes.has_news():
            self._hand_back()

    def _hand_back(self) -> None:
        """Report seats that are free for others, at once unless there have been many such reports."""
        now, gap_ns = self._now(), self._gap_ns
        begin = max(now, self._next_burst_at)
        if begin <= now + _BURST * gap_ns:
            self._next_burst_at = begin + gap_ns
            if self._report_now():
                return
            self._is_urgent = True
        self.wake()

    def _report_now(self) -> bool:
        """Send a report at once, and apply afterwards what follows from it; return False if the store can't send it."""
        self._is_sending = True
        try:
            return self.send_now()
        finally:
            self._is_sending = False
            if self._is_due:
                self._is_due = False
                self._restrict()

    def note_reconfigured(self) -> None:
        """Note that another configuration is in force.

        Until the allocator has divided the maxes that are new in it, no request begins at their levels: each member
        could use the whole of them.
        """
        membership, budget = self.membership, self._configured().budget
        if budget is not None and membership.grant is not None and self._now() < membership.limit.lease_until:
            new = budget.maxes.keys() - membership.limit.maxes.keys()
            membership.hold_maxes(self._maxes.in_use(new))
            self._restrict()
        self.wake()

    # What the store exchanges

    def report(self) -> Report:
        """Return a report to be sent now."""
        now, limit = self._now(), self.membership.limit
        in_use = self._usage.in_use()
        if self._is_over and in_use <= self.membership.seats(now):
            # The levels' promises were suspended while more seats were in use than granted.
            self._is_over = False
            if now < limit.lease_until:
                self._restrict()
                in_use = self._usage.in_use()
        self._give_back(now, in_use)
        self._reported_at, self._is_urgent = now, False
        usages = self._usage.read(now)
        self._demand = sum(usage.demand for usage in usages.values())
        if self._labels is not None:
            usages = self._labels.labelled(usages)
        sampler = self._target.sampler
        samples = None if sampler is None else sampler.take(now)
        floor = self.membership.floor
        report = self.membership.report(
            now,
            in_use,
            usages,
            self._configured(),
            asks=self._asks,
            samples=samples,
            used=self._maxes.report(),
            leaving=self._usage.leaving(),
        )
        if self.membership.floor != floor:
            self._restrict()
        return report

    def _give_back(self, now: int, in_use: int) -> None:
        """Use no more than now, where another member can have the rest as soon as the allocator has the next report."""
        membership = self.membership
        is_less = self._is_contended and not self._sharing.waiting and membership.lower(now, in_use + self._keep)
        if now < membership.limit.lease_until and (maxes := self._maxes.give_back()):
            membership.lower_maxes(maxes)
            is_less = True
        if is_less:
            self._restrict()

    def receive(self, grant: Grant) -> None:
        """Apply ``grant``, unless it is outdated."""
        now = self._now()
        membership = self.membership
        before, fallback_ns, is_first = membership.seats(now), self.fallback_ns, membership.grant is None
        if not membership.receive(now, grant):
            return
        self._fallback_ns = fallback_ns
        self.exchanges.observe(membership.waited(now))
        if grant.total:
            self._adopt_total(grant)
        self._factors = {name: self._known(part.factors) for name, part in grant.levels.items() if part.factors}
        self._restrict()
        self._is_contended, self._keep = grant.is_contended, grant.keep
        in_use = self._usage.in_use()
        self._is_over = in_use > grant.seats
        if grant.rows:
            self._asks, self._rows = False, grant
        if grant.board != membership.board.digest:
            self._take_notices(grant, is_first=is_first)
        self._note_configuration(now)
        is_spare = grant.is_contended and in_use < min(self._demand, grant.seats) and not self._sharing.waiting
        has_less = self._maxes.adopt(grant.maxes, grant.scarce)
        if has_less or (not self._is_over and (grant.seats < before or is_spare)):
            self._hand_back()

    def _adopt_total(self, grant: Grant) -> None:
        sampler = self._target.sampler
        if sampler is not None:
            sampler.learn(grant.members, grant.reason)
        self._target.adopt_total(grant.total)

    def _known(self, factors: Mapping[int, int]) -> Mapping[int, int]:
        return factors if self._labels is None else self._labels.found(factors)

    def _note_configuration(self, now: int) -> None:
        """Log once that the seats have been divided by another configuration for longer than a lease."""
        if not self.is_outdated:
            self._outdated_until, self._has_warned = None, False
        elif self._outdated_until is None:
            self._outdated_until = self.membership.limit.lease_until
        elif now >= self._outdated_until and not self._has_warned:
            self._has_warned = True
            member = self.membership.member
            log_event(logging.WARNING, "apf.fleet-configuration-differs", fleet=self._fleet, member=member)

    def _take_notices(self, grant: Grant, *, is_first: bool) -> None:
        """Take what the allocator knows and this member doesn't, and let the next report tell what it lacks."""
        board = self.membership.board
        news = board.merge(grant.notices)
        self.wake()
        if news:
            self._on_notices(news, is_first)

    def tell(self, key: str, value: str) -> None:
        """Tell all members something that replaces what was told under the same ``key``."""
        self.membership.board.post(self.membership.member, key, value)
        self.wake()

    def ask(self) -> None:
        """Ask the allocator about all members; `members` tells when it has answered."""
        self._asks, self._rows = True, None
        self.wake()

    def members(self) -> tuple[FleetMemberSnapshot, ...]:
        """Return all members, as the allocator has answered since they were asked about; none until then."""
        found = self._rows
        if found is None:
            return ()
        return tuple(
            FleetMemberSnapshot(
                row.member,
                row.member == found.allocator,
                row.seats,
                row.in_use,
                row.demand,
                row.age_ns / _SECOND,
                row.configuration != found.configuration,
            )
            for row in found.rows
        )

    def levels(self, names: Mapping[int, str]) -> tuple[FleetLevelSnapshot, ...]:
        """Return the levels of the whole fleet, as the allocator has answered since it was asked; none until then.

        ``names`` are those of the flows that this member knows, by their hashes.
        """
        found = self._rows
        if found is None:
            return ()
        return tuple(
            FleetLevelSnapshot(
                name,
                one.in_use,
                one.demand,
                one.arrivals,
                tuple(
                    FleetFlowSnapshot(names.get(self._flow_of(label)), f"{label:016x}", seats, weight / WEIGHT_ONE)
                    for label, seats, weight in one.flows.rows()
                ),
            )
            for name, one in found.sums.items()
        )

    def _flow_of(self, label: int) -> int:
        """Return the hash of a flow; -1, which is none, if its label isn't known here."""
        if self._labels is None:
            return label
        flow = self._labels.flow(label)
        return -1 if flow is None else flow

    @property
    def is_outdated(self) -> bool:
        """Whether the seats are divided by another configuration than this member's."""
        grant = self.membership.grant
        return grant is not None and grant.configuration not in {"", self._configured().digest}

    def give_up(self) -> bool:
        """Give up all seats, the floor too, unless requests use some; return whether none is in use."""
        if self.in_use:
            return False
        self._target.restrict(SeatGrant(0), {})
        return True

    # What metrics read

    @property
    def in_use(self) -> int:
        """The seats in use at limited levels."""
        return self._usage.in_use()

    @property
    def fallback_ns(self) -> int:
        """The time for which the member had no lease."""
        ended_at = self._began_at if self.membership.grant is None else self.membership.limit.lease_until
        return self._fallback_ns + max(0, self._now() - ended_at)

    # When the store exchanges

    def pause_s(self) -> float:
        """Return the time until the next regular report, in seconds."""
        interval_ns = self._interval_ns // _BUSY if self._sharing.waiting else self._interval_ns
        return max(0, self._reported_at + interval_ns - self._now()) / _SECOND

    def gap_s(self) -> float:
        """Return the time for which the next report must wait, although the bell was rung, in seconds."""
        return 0 if self._is_urgent else max(0, self._reported_at + self._gap_ns - self._now()) / _SECOND

    @property
    def _gap_ns(self) -> int:
        grant = self.membership.grant
        gap_ns = _GAP_NS * max(1, 0 if grant is None else grant.members // _GAP_MEMBERS)
        return min(gap_ns, self._interval_ns // _BUSY)

    def __repr__(self) -> str:
        return f"<FleetMember {self.membership!r}>"


def _nothing() -> None:
    """Do nothing; this is the callback until a store sets another."""


def _nothing_now() -> bool:
    """Send nothing; this is the callback of stores that can't send at once."""
    return False
