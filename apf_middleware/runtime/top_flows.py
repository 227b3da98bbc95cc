"""The heaviest of any number of flows, in a bounded memory.

**Space-saving, in batches.** Counting every flow would let a client that invents names fill the memory, so only some
are counted. When there are four times as many as are to be kept, the heaviest are kept and the others forgotten, and
the ``floor`` rises to the most that any of the forgotten ones had. A flow that comes (back) begins there, because so
much may have been forgotten of it, and that is recorded as its error. So for each flow that is counted

    total - error <= its true amount <= total,

no flow that isn't counted had more than the floor, and the floor is at most the sum of all amounts divided by the
number of flows that are kept: a flow that had more than that is surely among them. (The classic sketch of Metwally,
Agrawal and El Abbadi evicts one flow for each that comes; its sum argument holds for batches too, because newcomers
never begin with more than the flows had that were forgotten for them.) A batch costs as much as the sorting, rarely.

**Ageing.** What counts is which flows are heavy now. All totals are halved once in each half-life, and rounded down, so
that a heavy flow that has gone is soon forgotten. The bounds hold for amounts that have aged in the same way.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from apf_middleware.exceptions import InvalidValueError, require_integer

__all__ = ["HALF_LIFE_NS", "KEPT", "FlowKey", "HeavyFlow", "TopFlows"]

FlowKey = tuple[str, str, str]
"""A flow by its level, its schema and its distinguisher."""

KEPT: Final = 256
"""The number of flows that are kept by default."""

HALF_LIFE_NS: Final = 60 * 10**9
"""The time after which an amount counts half, by default."""

_BATCH: Final = 4  # times as many are counted before those that are light are forgotten

Flow = TypeVar("Flow", bound=Hashable)


@dataclass(frozen=True, slots=True)
class HeavyFlow(Generic[Flow]):
    """A flow's total, of which at most ``error`` was never its own."""

    flow: Flow
    total: int
    error: int


class TopFlows(Generic[Flow]):
    """Sum up amounts by flow, and keep at least the heaviest ``kept``; ``now`` is the time to begin with.

    Amounts are integers of any unit: seat-nanoseconds, or requests.
    """

    __slots__ = ("_aged_at", "_errors", "_half_life_ns", "_most", "_totals", "floor", "kept")

    def __init__(self, now: int, *, kept: int = KEPT, half_life_ns: int = HALF_LIFE_NS) -> None:
        self._aged_at = require_integer("now", now)
        self.kept: int = require_integer("kept", kept, least=1)
        self._half_life_ns = require_integer("half_life_ns", half_life_ns, least=1)
        self._most = kept * _BATCH
        self._totals: dict[Flow, int] = {}
        self._errors: dict[Flow, int] = {}  # of those that began above 0
        self.floor: int = 0

    def add(self, flow: Flow, amount: int) -> None:
        """Add ``amount`` to the total of ``flow``.

        This is called for each request, so the caller must ensure that ``amount`` is an integer and not negative.
        """
        totals = self._totals
        total = totals.get(flow)
        if total is not None:
            totals[flow] = total + amount
            return
        if len(totals) >= self._most:
            self._forget_the_light()
            totals = self._totals
        floor = self.floor
        totals[flow] = floor + amount
        if floor:
            self._errors[flow] = floor

    def _forget_the_light(self) -> None:
        """Keep the heaviest flows, without those that have just as much as the heaviest of the others."""
        self.floor = floor = sorted(self._totals.values())[-self.kept - 1]
        self._totals = {flow: total for flow, total in self._totals.items() if total > floor}
        errors = self._errors
        self._errors = {flow: errors[flow] for flow in self._totals if flow in errors}

    def age(self, now: int) -> None:
        """Halve all amounts for each half-life that has passed since the last time; early calls do nothing."""
        ages = (now - self._aged_at) // self._half_life_ns
        if ages <= 0:
            return
        self._aged_at += ages * self._half_life_ns
        self.floor = floor = self.floor >> ages
        totals: dict[Flow, int] = {}
        errors: dict[Flow, int] = {}
        for flow, total in self._totals.items():
            own = (total - self._errors.get(flow, 0)) >> ages
            aged = total >> ages
            if own or aged > floor:
                totals[flow] = aged
                if aged > own:
                    errors[flow] = aged - own
        self._totals, self._errors = totals, errors

    def top(self, most: int) -> list[HeavyFlow[Flow]]:
        """Return the heaviest flows, at most so many, the heaviest first; of equals the one that came first."""
        if most < 0:
            raise InvalidValueError("most", most, "it must be at least 0")
        by_total = sorted(self._totals.items(), key=_total, reverse=True)[:most]
        return [HeavyFlow(flow, total, self._errors.get(flow, 0)) for flow, total in by_total]

    def of(self, flow: Flow) -> HeavyFlow[Flow] | None:
        """Return the total of one flow; None if it isn't counted, so that it had no more than the floor."""
        total = self._totals.get(flow)
        return None if total is None else HeavyFlow(flow, total, self._errors.get(flow, 0))

    def __len__(self) -> int:
        return len(self._totals)

    def check(self) -> None:
        """Raise AssertionError where what is kept doesn't add up."""
        assert len(self._totals) <= self._most, f"more than {self._most} flows in {self!r}"
        assert set(self._errors) <= set(self._totals), f"errors of nobody in {self!r}"
        assert all(0 < error <= self._totals[flow] for flow, error in self._errors.items()), f"errors in {self!r}"

    def __repr__(self) -> str:
        return f"<TopFlows: {len(self._totals)} of at most {self._most} flows, none other above {self.floor}>"


def _total(item: tuple[object, int]) -> int:
    return item[1]
