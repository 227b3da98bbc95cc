"""Weights through several levels: what six flows get that are always backlogged, two in each of three levels.

The levels lend all that they have and borrow all that is there, so seats are shared in proportion to their shares, and
within a level between its two flows, of which one sends longer requests than the other.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

from apf_middleware.fairqueuing import Discipline, Lending, LevelLimits, QueueSetSettings, Ticket, Work
from apf_middleware.testing import ServiceGap

__all__ = ["EXPECTED", "play_levels"]

_MS: Final = 10**6
_WEIGHTS: Final = (1, 2, 5)
_SEATS: Final = 16
_BACKLOG: Final = 30
_SETTLING_NS, _END_NS = 10_000 * _MS, 40_000 * _MS
EXPECTED: Final = tuple(_SEATS * weight / sum(_WEIGHTS) / 2 for weight in _WEIGHTS for _ in range(2))
"""The seats of each flow."""


def play_levels(
    discipline: Callable[[int, int], Discipline[Any]], exact: int, backfill: int
) -> tuple[list[float], float]:
    """Average seats of each flow, and the largest service gap between two of the same level."""
    settings = QueueSetSettings(_SEATS, 64, 1, 1000, exact=exact, backfill=backfill)
    limits = [LevelLimits(_SEATS * weight // sum(_WEIGHTS), 0, _SEATS) for weight in _WEIGHTS]
    lending = Lending(_SEATS, {str(place): (settings, one) for place, one in enumerate(limits)}, discipline=discipline)
    gaps = [ServiceGap(range(2 * place, 2 * place + 2)) for place in range(len(_WEIGHTS))]
    served = [0] * len(EXPECTED)
    agenda: list[tuple[int, int, Ticket]] = []
    serial = count()

    def arrive(now: int, flow: int) -> None:
        ticket = Ticket(str(flow), flow + 1, Work())
        gaps[flow // 2].wait(now, flow, 1)
        seat(now, lending.arrive(now, lending.levels[str(flow // 2)], ticket))

    def seat(now: int, seated: Any) -> None:  # noqa: ANN401 - a sequence of tickets
        for ticket in seated:
            flow = int(ticket.flow)
            gaps[flow // 2].wait(now, flow, -1)
            gaps[flow // 2].occupy(now, flow, 1)
            heappush(agenda, (now + (50 if flow % 2 else 130) * _MS + flow, next(serial), ticket))

    for flow in range(len(EXPECTED)):
        for _ in range(_BACKLOG):
            arrive(0, flow)
    while agenda[0][0] < _END_NS:
        now, _, ticket = heappop(agenda)
        flow = int(ticket.flow)
        served[flow] += max(0, now - max(ticket.seated_at, _SETTLING_NS))
        gaps[flow // 2].occupy(now, flow, -1)
        seat(now, lending.release(now, lending.levels[str(flow // 2)], ticket))
        arrive(now, flow)
    return [work / (_END_NS - _SETTLING_NS) for work in served], max(gap.seat_seconds for gap in gaps)
