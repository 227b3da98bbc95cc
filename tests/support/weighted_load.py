"""Flows of different weights that always wait, at one queue set in virtual time."""

import heapq
import random
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final

from apf_middleware.fairqueuing import QueueSet, QueueSetSettings, Ticket, Work
from apf_middleware.fairqueuing.work import WEIGHT_ONE

__all__ = ["LONGEST", "SEATS", "WeightedLoad", "weighted_settings"]

_MS: Final = 10**6
_LENGTHS: Final = 4
SEATS: Final = 6
LONGEST: Final = _LENGTHS * 25 * _MS
"""The nanoseconds of the longest request."""


def weighted_settings(*, exact: bool) -> QueueSetSettings:
    """Return the settings of a level with a queue for each flow, or with so many that few flows meet."""
    return QueueSetSettings(SEATS, 512, 1, 1000, exact=64 if exact else 0)


class WeightedLoad:
    """Flows that keep a backlog at one queue set, of 30 requests or as told; ``used`` are their seat-nanoseconds."""

    def __init__(
        self,
        queueset: QueueSet,
        weights: Mapping[int, float],
        seed: int,
        backlogs: Mapping[int, int] | None = None,
        widths: Mapping[int, int] | None = None,
    ) -> None:
        self.queueset = queueset
        widths = widths or {flow: 1 + flow % 2 for flow in weights}
        self.work = {flow: Work(width) for flow, width in widths.items()}
        self.weights = dict(weights)
        self.random = random.Random(seed)
        self.now = 0
        self.used = dict.fromkeys(weights, 0)
        self.order = count()
        self.running: list[tuple[int, int, Ticket]] = []
        for flow in weights:
            for _ in range((backlogs or {}).get(flow, 30)):
                self.arrive(flow)

    def arrive(self, flow: int) -> None:
        ticket = Ticket(str(flow), flow, self.work[flow], round(self.weights[flow] * WEIGHT_ONE))
        self.begin(self.queueset.arrive(self.now, ticket))

    def begin(self, seated: Sequence[Ticket]) -> None:
        for ticket in seated:
            duration = self.random.randint(1, _LENGTHS) * (5 + 10 * (ticket.entropy % 3)) * _MS
            self.used[ticket.entropy] += ticket.width * duration
            heapq.heappush(self.running, (self.now + duration, next(self.order), ticket))

    def run(self, until: int) -> None:
        while self.running[0][0] <= until:
            self.now, _, ticket = heapq.heappop(self.running)
            self.begin(self.queueset.release(self.now, ticket))
            self.arrive(ticket.entropy)
            if self.random.random() < 0.001:  # what is wrong once stays wrong
                self.queueset.check()

    def worst_shortfall(self, until: int) -> float:
        """Return the greatest work that any flow has lacked, of what its weight gives it of the seats in use."""
        lacking = dict.fromkeys(self.weights, 0.0)
        worst, unit = 0.0, sum(self.weights.values())
        while self.now < until:
            used = dict.fromkeys(self.weights, 0)
            for _, _, ticket in self.running:
                used[ticket.entropy] += ticket.width
            seats, before = sum(used.values()), self.now
            self.run(self.running[0][0])
            for flow, weight in self.weights.items():
                fair = seats * weight / unit
                lacking[flow] = max(0.0, lacking[flow] + (fair - used[flow]) * (self.now - before))
            worst = max(worst, *lacking.values())
        return worst

    def renew(self, flow: int) -> None:
        """Replace the waiting requests of this flow by others, which have its present weight."""
        waiting = [ticket for queue in self.queueset.deck for ticket in queue if ticket.entropy == flow]
        for ticket in waiting:
            self.begin(self.queueset.abandon(self.now, ticket))
        for _ in waiting:
            self.arrive(flow)

    def measure(self, duration: int) -> dict[int, float]:
        """Return the part of the service that each flow gets, for each unit of its weight, relative to the average."""
        self.used = dict.fromkeys(self.weights, 0)
        self.run(self.now + duration)
        unit = sum(self.used.values()) / sum(self.weights.values())
        return {flow: used / self.weights[flow] / unit for flow, used in self.used.items()}
