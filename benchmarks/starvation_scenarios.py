"""Scenarios in which a flow may starve because of what happened before, as data.

Each has a moment at which something changes: a flow comes or comes back. From then on every flow should get its max-min
fair share, whatever it had before. All flows have queues of their own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from apf_middleware.fairqueuing import QueueSetSettings
from apf_middleware.testing import Caller, max_min_fair

__all__ = ["HISTORIES_S", "STARVATION_SCENARIOS", "WINDOW_NS", "StarvationCase"]

SECOND: Final = 10**9
_MS: Final = 10**6
WINDOW_NS: Final = 3 * SECOND
HISTORIES_S: Final = (10, 60, 150, 600)
_SEATS: Final = 4
_AFTERWARDS_NS: Final = 15 * WINDOW_NS


@dataclass(frozen=True, slots=True)
class StarvationCase:
    """Callers before four seats; something ``changes_at``, and the first caller has been there before."""

    name: str
    callers: Sequence[Caller]
    changes_at: int

    @property
    def settings(self) -> QueueSetSettings:
        return QueueSetSettings(_SEATS, 1, 1, 1000, exact=64)

    @property
    def windows(self) -> Sequence[int]:
        """The times from the change on at which windows begin, and the end of the last one."""
        return range(self.changes_at, self.changes_at + _AFTERWARDS_NS + 1, WINDOW_NS)

    @property
    def expected(self) -> list[float]:
        """The max-min fair seats of each flow after the change."""
        active = [any(begin <= self.changes_at < end for begin, end in caller.phases) for caller in self.callers]
        demands = [caller.connections * is_active for caller, is_active in zip(self.callers, active, strict=True)]
        return max_min_fair(_SEATS, demands)


def _flow(connections: int, duration_ns: int, *phases: tuple[int, int], later_ns: int = 0, at: int = 0) -> Caller:
    return Caller(connections, (duration_ns,), phases, later_ns=(later_ns,) if later_ns else (), later_from_ns=at)


def _histories() -> Iterator[StarvationCase]:
    """Eight connections beside one, for so long; then seven more of a third flow."""
    for seconds in HISTORIES_S:
        change = seconds * SECOND
        end = change + _AFTERWARDS_NS
        before = [_flow(connections, 50 * _MS, (0, end)) for connections in (8, 1)]
        yield StarvationCase(f"history of {seconds} s", (*before, _flow(7, 50 * _MS, (change, end))), change)


def _arrivals() -> Iterator[StarvationCase]:
    """Elephants come one by one, every ten seconds; a mouse is there all the time."""
    for elephants in range(2, 7):
        change = (elephants - 1) * 10 * SECOND
        end = change + _AFTERWARDS_NS
        crowd = [_flow(8, 50 * _MS, (place * 10 * SECOND, end)) for place in range(elephants)]
        yield StarvationCase(f"arrival of elephant {elephants}", (*crowd, _flow(1, 50 * _MS, (0, end))), change)


def _pauses() -> Iterator[StarvationCase]:
    """Let an elephant work for six seconds of eleven, beside a steady one and a mouse."""
    begins = range(0, 110 * SECOND, 11 * SECOND)
    change = begins[-1]
    end = change + _AFTERWARDS_NS
    phases = [(begin, begin + 6 * SECOND) for begin in begins[:-1]]
    steady, mouse = _flow(8, 50 * _MS, (0, end)), _flow(1, 50 * _MS, (0, end))
    yield StarvationCase("elephant that pauses", (steady, _flow(8, 50 * _MS, *phases, (change, end)), mouse), change)


def _lengths() -> Iterator[StarvationCase]:
    """Long and short requests beside steady ones, then silence, then both again, or each with the other's length."""
    change = 80 * SECOND
    end = change + _AFTERWARDS_NS
    phases = ((0, 20 * SECOND), (change, end))
    long, short, steady = 3 * SECOND, 30 * _MS, _flow(8, 100 * _MS, (0, end))
    same = (_flow(8, short, *phases), _flow(8, long, *phases), steady)
    yield StarvationCase("long and short after silence", same, change)
    other = (_flow(8, long, *phases, later_ns=short, at=change), _flow(8, short, *phases, later_ns=long, at=change))
    yield StarvationCase("lengths exchanged after silence", (*other, steady), change)


STARVATION_SCENARIOS: Final[Sequence[StarvationCase]] = (*_histories(), *_arrivals(), *_pauses(), *_lengths())
"""All of them."""
