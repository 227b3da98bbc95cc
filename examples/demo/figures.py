"""The figures of a run, from the arrival of the elephant on.

A request that wasn't served in time counts with the whole time that its client waited. Without these requests, a server
that serves none would look fast.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from examples.demo.load import Asked, Run

__all__ = ["Figures", "Party", "percentile", "summarise"]


@dataclass(frozen=True, slots=True)
class Party:
    """All mice, or the elephant: requests by outcome, and latencies in milliseconds."""

    asked: int
    served: int
    refused: int
    unanswered: int
    p50_ms: float
    p99_ms: float

    @property
    def success(self) -> float:
        return self.served / self.asked if self.asked else 0.0

    @classmethod
    def of(cls, requests: Sequence[Asked], deadline: float) -> "Party":
        served = sum(one.is_served for one in requests)
        unanswered = sum(not one.status for one in requests)
        latencies = sorted(1000 * (one.took if one.is_served else deadline) for one in requests)
        refused = len(requests) - served - unanswered
        return cls(len(requests), served, refused, unanswered, percentile(latencies, 0.5), percentile(latencies, 0.99))


@dataclass(frozen=True, slots=True)
class Figures:
    """One run. ``goodput`` is the number of requests served in a second, those of all clients together.

    ``late_ms`` is the 99th percentile of how late the mice's requests were sent.
    """

    mice: Party
    elephant: Party
    goodput: float
    late_ms: float

    def as_json(self) -> dict[str, object]:
        """Return the figures as JSON types."""
        parties = {"mice": self.mice, "elephant": self.elephant}
        shown: dict[str, object] = {name: _party_as_json(party) for name, party in parties.items()}
        return {**shown, "goodput": round(self.goodput, 1), "late_ms": round(self.late_ms, 2)}


def summarise(run: Run) -> Figures:
    begin, end, deadline = run.load.calm, run.load.seconds, run.load.deadline
    mice = [one for one in run.mice if begin <= one.due < end]
    elephant = [one for one in run.elephant if one.due + one.took < end]
    return Figures(
        mice=Party.of(mice, deadline),
        elephant=Party.of(elephant, deadline),
        goodput=_served_between(begin, end, (*run.mice, *elephant)) / (end - begin),
        late_ms=percentile(sorted(1000 * late for late in run.lateness), 0.99),
    )


def _served_between(begin: float, end: float, requests: Iterable[Asked]) -> int:
    return sum(one.is_served and begin <= one.due + one.took < end for one in requests)


def percentile(ascending: Sequence[float], fraction: float) -> float:
    """Return the smallest value that this fraction doesn't exceed; 0 if there are no values."""
    return ascending[max(math.ceil(fraction * len(ascending)), 1) - 1] if ascending else 0.0


def _party_as_json(party: Party) -> dict[str, object]:
    return {
        "asked": party.asked,
        "served": party.served,
        "refused": party.refused,
        "unanswered": party.unanswered,
        "success": round(party.success, 4),
        "p50_ms": round(party.p50_ms, 1),
        "p99_ms": round(party.p99_ms, 1),
    }
