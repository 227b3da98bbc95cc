"""The heaviest of any number of flows, in bounded memory.

**Space-saving, in batches.** If every flow were counted, a client that always uses new names could fill the memory, so
only some flows are counted. When there are four times as many as are to be kept, the heaviest are kept and the others
forgotten, and the ``floor`` rises to the largest total that was forgotten. A new or returning flow begins at the floor,
because up to this amount may have been forgotten, and the floor is recorded as its error. For each counted flow

    total - error <= its true amount <= total.

No uncounted flow had more than the floor, and the floor is at most the sum of all amounts divided by the number of
flows that are kept. A flow with a larger amount is therefore always counted. (The original sketch of Metwally, Agrawal
and El Abbadi evicts one flow for each new one. Its argument about sums holds for batches too, because a new flow never
begins with more than the flows had that were forgotten for it.) A batch costs a sort, and batches are rare.

**Ageing.** The current load matters rather than the past. All totals are halved in each half-life and rounded down, so
that a heavy flow without further requests is soon forgotten. The bounds hold for amounts that age in the same way.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from apf_middleware.exceptions import InvalidValueError, require_integer

__all__ = ["HALF_LIFE_NS", "KEPT", "FlowKey", "HeavyFlow", "TopFlows"]

FlowKey = tuple[str, str, str]
"""A flow by its level, its schema and its distinguisher."""

KEPT: Final = 256
"""The default number of flows to keep."""

HALF_LIFE_NS: Final = 60 * 10**9
"""The default time after which an amount is halved."""

_BATCH: Final = 4  # times ``kept`` flows are counted before the lightest are forgotten

FlowT = TypeVar("FlowT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class HeavyFlow(Generic[FlowT]):
    """A flow's total, which exceeds the true amount by at most ``error``."""

    flow: FlowT
    total: int
    error: int


class TopFlows(Generic[FlowT]):
    """Totals of the heaviest flows: of too many, ``kept`` or fewer remain. Ageing starts at the time ``now``.

    Amounts are integers of any unit: seat-nanoseconds, or requests.
    """

    __slots__ = ("_aged_at", "_errors", "_half_life_ns", "_most", "_totals", "floor", "kept")

    def __init__(self, now: int, *, kept: int = KEPT, half_life_ns: int = HALF_LIFE_NS) -> None:
        self._aged_at = require_integer("now", now)
        self.kept: int = require_integer("kept", kept, least=1)
        self._half_life_ns = require_integer("half_life_ns", half_life_ns, least=1)
        self._most = kept * _BATCH
        self._totals: dict[FlowT, int] = {}
        self._errors: dict[FlowT, int] = {}  # only of flows that began above 0
        self.floor: int = 0

    def add(self, flow: FlowT, amount: int) -> None:
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
        """Keep the heaviest flows, except those with totals that equal the new floor."""
        self.floor = floor = sorted(self._totals.values())[-self.kept - 1]
        self._totals = {flow: total for flow, total in self._totals.items() if total > floor}
        errors = self._errors
        self._errors = {flow: errors[flow] for flow in self._totals if flow in errors}

    def age(self, now: int) -> None:
        """Halve all amounts for each half-life that has passed since the last call; early calls do nothing."""
        ages = (now - self._aged_at) // self._half_life_ns
        if ages <= 0:
            return
        self._aged_at += ages * self._half_life_ns
        self.floor = floor = self.floor >> ages
        totals: dict[FlowT, int] = {}
        errors: dict[FlowT, int] = {}
        for flow, total in self._totals.items():
            own = (total - self._errors.get(flow, 0)) >> ages
            aged = total >> ages
            if own or aged > floor:
                totals[flow] = aged
                if aged > own:
                    errors[flow] = aged - own
        self._totals, self._errors = totals, errors

    def top(self, most: int) -> list[HeavyFlow[FlowT]]:
        """Return the ``most`` heaviest flows, the heaviest first; flows of equal totals stay in order of arrival."""
        if most < 0:
            raise InvalidValueError("most", most, "it must be at least 0")
        by_total = sorted(self._totals.items(), key=_total, reverse=True)[:most]
        return [HeavyFlow(flow, total, self._errors.get(flow, 0)) for flow, total in by_total]

    def of(self, flow: FlowT) -> HeavyFlow[FlowT] | None:
        """Return the total of one flow; None if it isn't counted, which means that it had no more than the floor."""
        total = self._totals.get(flow)
        return None if total is None else HeavyFlow(flow, total, self._errors.get(flow, 0))

    def __len__(self) -> int:
        return len(self._totals)

    def check(self) -> None:
        """Raise AssertionError if the totals are inconsistent."""
        assert len(self._totals) <= self._most, f"more than {self._most} flows in {self!r}"
        assert set(self._errors) <= set(self._totals), f"errors without flows in {self!r}"
        assert all(0 < error <= self._totals[flow] for flow, error in self._errors.items()), f"errors in {self!r}"

    def __repr__(self) -> str:
        return f"<TopFlows: {len(self._totals)} of at most {self._most} flows, none other above {self.floor}>"


def _total(item: tuple[object, int]) -> int:
    return item[1]
