"""The demand of one member, read from its levels for a report.

A flow's demand is the seats that its waiting requests ask for, and those in use in its queues, also while none of its
requests waits here: it may be held back because it waits at other members. Where flows share a queue, the seats in use
there are divided among the flows that wait, in proportion to their waiting requests. If none waits there, the requests
that run are taken for a flow of their own, because it isn't known whose they are.

A flow's weight is the configured one, that of its classification. The weights of tickets and queues may be reduced by
the factors of an earlier grant; if a member reported these, the flow would lose the same part of its weight twice. The
weight of a flow that doesn't wait isn't known here.

Requests that wait at a held level want no seats, because none of them begins.
"""

import heapq
from collections.abc import Iterable

from apf_middleware.fairqueuing import SharedLevel, Sharing
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fairqueuing.ticket import Queue, Ticket
from apf_middleware.fleet.messages import MOST_FLOWS, FlowTable, LevelUsage
from apf_middleware.runtime.admission import Admission

__all__ = ["UsageReader"]

_SECOND = 10**9


class UsageReader:
    """Read the usage of the levels of ``sharing``; arrivals are counted from one reading to the next."""

    __slots__ = ("_arrived", "_arrived_at", "_began", "_next", "_rates", "_sharing")

    def __init__(self, sharing: Sharing, now: int) -> None:
        self._sharing = sharing
        self._arrived: dict[str, int] = {}
        self._arrived_at = now
        self._rates: dict[str, int] = {}
        self._next: dict[str, Ticket] = {}  # the wide requests that are next in their levels
        self._began: dict[str, int] = {}  # how many of these don't wait any more

    def in_use(self) -> int:
        """Return the seats in use at limited levels."""
        return sum(level.in_use for level in self._limited())

    def leaving(self) -> dict[str, SeatDemand]:
        """Return the claims of the levels that drain, which may be in no configuration any more."""
        sharing = self._sharing
        return {
            level.name: SeatDemand(
                level.limits.nominal if level.shares is None else level.shares.shares,
                0,
                level.limits.min,
                most=level.limits.max,
                parent=None if level.parent is None else level.parent.name,
            )
            for level in sharing.draining
            if not level.exempt
        }

    def _limited(self) -> Iterable[SharedLevel]:
        levels = [*self._sharing.levels.values(), *self._sharing.draining]
        return (level for level in levels if not level.exempt)

    def read(self, now: int) -> dict[str, LevelUsage]:
        """Return the usage of all limited levels with requests, now or recently."""
        self._count_arrivals(now)
        self._count_turns()
        usages: dict[str, LevelUsage] = {}
        for level in self._limited():
            arrivals = self._rates.get(level.name, 0)
            if not (arrivals or level.in_use or level.queueset.waiting):
                continue
            usage = _usage(level, arrivals, self._began.get(level.name, 0))
            if level.name in usages:  # a draining level has the name of another
                usage = _sum(usages[level.name], usage)
            usages[level.name] = usage
        return usages

    def _count_turns(self) -> None:
        """Count the wide requests that were next at the last reading and don't wait any more, and find them anew."""
        for name, ticket in self._next.items():
            if not ticket.is_waiting:
                self._began[name] = self._began.get(name, 0) + 1
        following = ((level.name, _next(level)) for level in self._limited())
        self._next = {name: ticket for name, ticket in following if ticket is not None and ticket.width > 1}

    def _count_arrivals(self, now: int) -> None:
        """Update the rates of arrivals, at most once a second."""
        elapsed = now - self._arrived_at
        if elapsed < _SECOND:
            return
        self._arrived_at = now
        for name, level in self._sharing.levels.items():
            queueset = level.queueset
            arrived = queueset.dispatched + queueset.waiting + level.alone_count - level.settled_count
            new = max(0, arrived - self._arrived.get(name, arrived)) * _SECOND // elapsed
            self._arrived[name] = arrived
            # an average over a few seconds, so that seats don't move for a moment's silence
            self._rates[name] = (3 * self._rates.get(name, 0) + new + 3) // 4


def _next(level: SharedLevel) -> Ticket | None:
    """Return the next request; None if none waits, or if the max of the level stops it."""
    if not level.waits:
        return None
    head = level.queueset.head()
    return head if level.queueset.seats_in_use + min(head.width, level.ceiling) <= level.ceiling else None


def _usage(level: SharedLevel, arrivals: int, turns: int) -> LevelUsage:
    queueset = level.queueset
    width = queueset.seats_waiting / queueset.waiting if queueset.waiting else 0.0
    demands: dict[int, float] = {}
    weights: dict[int, int] = {}
    rest_flows = rest_seats = 0
    if level.alone is not None:
        demands[level.alone.entropy] = 1
        weights[level.alone.entropy] = _weight(level.alone)
    for queue in queueset.deck:
        oldest, flow = None if level.is_held else queue.oldest, queue.owner
        if oldest is not None:
            if queue.length == 1 or flow is not None:
                flow = oldest.entropy
                demands[flow] = demands.get(flow, 0) + queue.length * width + queue.seats_in_use
                weights[flow] = max(_weight(oldest), weights.get(flow, 0))
            else:
                _add_demands(demands, queue, width)
                _add_weights(weights, queue)
        elif flow is not None and queue.seats_in_use:
            demands[flow] = demands.get(flow, 0) + queue.seats_in_use
            weights.setdefault(flow, 0)
        elif queue.seats_in_use:
            rest_flows += 1
            rest_seats += queue.seats_in_use
    seats = {flow: max(1, round(demand)) for flow, demand in demands.items()}
    if len(seats) > MOST_FLOWS:
        heaviest = {flow: seats[flow] for flow in heapq.nlargest(MOST_FLOWS, seats, key=lambda flow: seats[flow])}
        rest_flows += len(seats) - MOST_FLOWS
        rest_seats += sum(seats.values()) - sum(heaviest.values())
        seats = heaviest
    flows, following = FlowTable.of(seats, weights), _next(level)
    widest = 0 if following is None else following.width
    return LevelUsage(level.in_use, arrivals, widest, flows, rest_flows, rest_seats, turns)


def _add_demands(demands: dict[int, float], queue: Queue, width: float) -> None:
    """Add the demands of the flows that wait in ``queue``; their requests are ``width`` seats wide on average."""
    in_use = queue.seats_in_use
    for flow, tickets in queue.flows().items():
        demands[flow] = demands.get(flow, 0) + tickets * width + in_use * tickets / queue.length


def _add_weights(weights: dict[int, int], queue: Queue) -> None:
    """Add the weights of the flows that wait in ``queue``: each flow has that of its oldest request there."""
    missing = len(queue.flows())
    ticket = queue.oldest
    # The search ends early: most queues have one flow.
    seen: set[int] = set()
    while missing and ticket is not None:
        if ticket.entropy not in seen:
            seen.add(ticket.entropy)
            weights[ticket.entropy] = max(_weight(ticket), weights.get(ticket.entropy, 0))
            missing -= 1
        ticket = ticket.newer


def _weight(ticket: Ticket) -> int:
    return ticket.destination.weight if isinstance(ticket, Admission) else ticket.weight


def _sum(one: LevelUsage, other: LevelUsage) -> LevelUsage:
    return LevelUsage(
        one.in_use + other.in_use,
        one.arrivals + other.arrivals,
        max(one.widest, other.widest),
        _joined(one.flows, other.flows),
        one.rest_flows + other.rest_flows,
        one.rest_seats + other.rest_seats,
        one.turns,
    )


def _joined(one: FlowTable, other: FlowTable) -> FlowTable:
    return FlowTable((*one.flows, *other.flows), (*one.seats, *other.seats), (*one.weights, *other.weights))
