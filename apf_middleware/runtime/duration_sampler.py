"""What a member of a fleet tells the allocator about the durations of its requests, when the fleet's total adapts.

The number of requests that are kept for one report is bounded. When it is reached, every second one is forgotten, and
from then on only every second request is kept, and so on. So the requests that are kept are spread evenly over the time
since the last report.
"""

import zlib
from typing import Final

from apf_middleware.adaptive import RequestOutcome
from apf_middleware.config.adaptive_seats import SeatBounds
from apf_middleware.fairqueuing import Reason
from apf_middleware.fleet.samples import DurationSamples
from apf_middleware.metrics.reading import AdaptiveReading
from apf_middleware.runtime.adaptive_runner import FOR_LACK_OF_SEATS
from apf_middleware.runtime.admission import Admission

__all__ = ["DurationSampler"]

_OUTCOMES: Final = {outcome: number for number, outcome in enumerate(RequestOutcome)}
_MOST: Final = 512  # for all members together
_LEAST: Final = 8  # for each

_Row = tuple[str, int, int, int]  # route, duration, time of the end, outcome


class DurationSampler:
    """Sample the requests of a member of a fleet with these ``bounds``; ``reason`` is that of the last decision."""

    __slots__ = ("_most", "_rejected", "_rows", "_seen", "_stride", "bounds", "reason")

    def __init__(self, bounds: SeatBounds) -> None:
        self.bounds: SeatBounds = bounds
        self.reason: str = ""
        self._most = _MOST
        self._clear()

    def _clear(self) -> None:
        self._rows: list[_Row] = []
        self._rejected = self._seen = 0
        self._stride = 1

    def observe(self, now: int, route: str, duration: int, admission: Admission) -> None:
        """Note a request that has ended after ``duration``."""
        self._seen += 1
        if self._seen % self._stride:
            return
        self._rows.append((route, duration, now, _OUTCOMES[admission.outcome]))
        if len(self._rows) >= 2 * self._most:
            del self._rows[::2]
            self._stride *= 2

    def note_rejected(self, now: int, reason: Reason) -> None:  # noqa: ARG002 - as an `AdaptiveRunner` has it
        """Count a request that was rejected, perhaps for lack of seats."""
        if reason in FOR_LACK_OF_SEATS:
            self._rejected += 1

    def take(self, now: int) -> DurationSamples:
        """Return what has been noted since the last call."""
        rows = self._rows
        while len(rows) > self._most:
            del rows[::2]
        found = DurationSamples(
            self._rejected,
            # well-formed requests have no surrogates, and an ill-formed one must not end the member's reports
            tuple([zlib.crc32(route.encode("utf-8", "surrogatepass")) for route, _, _, _ in rows]),
            tuple([duration for _, duration, _, _ in rows]),
            tuple([max(0, now - ended) for _, _, ended, _ in rows]),
            tuple([outcome for _, _, _, outcome in rows]),
        )
        self._clear()
        return found

    def learn(self, members: int, reason: str) -> None:
        """Take the number of ``members`` of the fleet, and the ``reason`` of the last decision, from a grant."""
        self._most = max(_LEAST, _MOST // max(1, members))
        self.reason = reason

    def reading(self) -> AdaptiveReading | None:
        """Return None: the process that allocates has the numbers that metrics show."""
        return None

    def __repr__(self) -> str:
        return f"<DurationSampler: {len(self._rows)} requests>"
