"""What a second configuration decides about requests, and how often the real server decides the same.

Everything is bounded: the flows and the pairs of schemas that are told apart, and the examples of each pair. The
numbers of levels and schemas that a real server would have, too, are in the counters of the second controller.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from apf_middleware.classification import Classification
from apf_middleware.counters import DURATION_BOUNDS_NS, Histogram
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime.top_flows import FlowKey
from apf_middleware.snapshots.shadow import ShadowExample

__all__ = [
    "AT_ONCE",
    "DECISIONS",
    "MOST_EXAMPLES",
    "PASSED",
    "REJECTED",
    "WAITED",
    "FlowTally",
    "PlacementDifference",
    "SchemaTally",
    "ShadowTallies",
]

DECISIONS: Final = ("at-once", "waited", "rejected", "passed")
"""What becomes of a request; it passes only if the real server doesn't limit requests at that moment."""

AT_ONCE: Final = 0
WAITED: Final = 1
REJECTED: Final = 2
PASSED: Final = 3

MOST_EXAMPLES: Final = 5
"""The number of examples of requests that are classified otherwise, for each pair of classifications."""

_KINDS: Final = len(DECISIONS)
_MOST_PAIRS: Final = 256
_MOST_FLOWS: Final = 512  # that are certainly kept; up to twice as many are


class SchemaTally:
    """The requests of one schema at one level of the second configuration.

    ``numbers`` counts those about which both servers have decided, by the two decisions; the first is about requests
    that both admit at once. ``otherwise`` are those that the real server has at another level or under another schema.
    """

    __slots__ = ("assumed", "level", "numbers", "otherwise", "requests", "schema")

    def __init__(self, level: str, schema: str) -> None:
        self.level: str = level
        self.schema: str = schema
        self.requests: int = 0
        self.otherwise: int = 0
        self.assumed: int = 0
        self.numbers: list[int] = [0] * (_KINDS * _KINDS)

    def compare(self, real: int, shadow: int) -> None:
        """Count a request about which both servers have decided."""
        self.numbers[real * _KINDS + shadow] += 1

    def decisions(self) -> Iterator[tuple[str, str, int]]:
        """Yield the decisions of the real server and of the second configuration, and how many requests had them."""
        for place, number in enumerate(self.numbers):
            if number:
                yield DECISIONS[place // _KINDS], DECISIONS[place % _KINDS], number

    def __repr__(self) -> str:
        return f"<SchemaTally {self.schema} at {self.level}: {self.requests} requests>"


class FlowTally:
    """The requests of one flow of the second configuration."""

    __slots__ = ("is_kept", "otherwise", "rejected", "requests", "waits")

    def __init__(self) -> None:
        self.is_kept: bool = True  # until others have more requests
        self.requests: int = 0
        self.otherwise: int = 0
        self.waits: Histogram = Histogram(DURATION_BOUNDS_NS)  # of requests that get seats after a wait
        self.rejected: dict[Reason, int] = {}

    def reject(self, reason: Reason) -> None:
        """Count a request that would be rejected."""
        self.rejected[reason] = self.rejected.get(reason, 0) + 1

    def __repr__(self) -> str:
        return f"<FlowTally: {self.requests} requests>"


@dataclass(slots=True)
class PlacementDifference:
    """The requests that the real server places under one schema, and the second configuration under another."""

    real: Classification
    shadow: Classification
    requests: int = 0
    examples: list[ShadowExample] = field(default_factory=list)


class ShadowTallies:
    """The decisions of a second configuration, by schema and by flow; ``requests`` are all that were seen.

    ``forgotten`` counts the flows that are not kept, because others have more requests.
    """

    def __init__(self) -> None:
        self.requests: int = 0
        self.forgotten: int = 0
        self._schemas: dict[tuple[str, str], SchemaTally] = {}
        self._flows: dict[FlowKey, FlowTally] = {}
        self._differences: dict[tuple[str, str, str, str], PlacementDifference] = {}

    @property
    def schemas(self) -> Mapping[tuple[str, str], SchemaTally]:
        """The tallies by level and schema."""
        return self._schemas

    @property
    def flows(self) -> Mapping[FlowKey, FlowTally]:
        """The tallies of the flows with the most requests."""
        return self._flows

    @property
    def differences(self) -> list[PlacementDifference]:
        """The pairs of schemas under which requests are placed, those with the most requests first."""
        return sorted(self._differences.values(), key=lambda one: -one.requests)

    def schema(self, level: str, schema: str) -> SchemaTally:
        """Return the tally of a schema at a level."""
        found = self._schemas.get((level, schema))
        if found is None:
            found = self._schemas[level, schema] = SchemaTally(level, schema)
        return found

    def flow(self, place: Classification) -> FlowTally:
        """Return the tally of a flow, in which the caller counts a request."""
        key = place.level, place.schema, place.flow
        found = self._flows.get(key)
        if found is None:
            if len(self._flows) >= 2 * _MOST_FLOWS:
                self._forget_small_flows()
            found = self._flows[key] = FlowTally()
        return found

    def _forget_small_flows(self) -> None:
        """Keep the flows with the most requests; this happens so seldom that a new flow costs little on average."""
        by_size = sorted(self._flows.items(), key=lambda item: -item[1].requests)
        self._flows = dict(by_size[:_MOST_FLOWS])
        for _, flow in by_size[_MOST_FLOWS:]:
            flow.is_kept = False
        self.forgotten += len(by_size) - len(self._flows)

    def differ(self, real: Classification, shadow: Classification) -> PlacementDifference | None:
        """Count a request that is classified otherwise; return where to keep it as an example, if it is one."""
        key = real.schema, real.level, shadow.schema, shadow.level
        found = self._differences.get(key)
        if found is None:
            if len(self._differences) >= _MOST_PAIRS:
                return None
            found = self._differences[key] = PlacementDifference(real, shadow)
        found.requests += 1
        return found if len(found.examples) < MOST_EXAMPLES else None

    def __repr__(self) -> str:
        return f"<ShadowTallies of {self.requests} requests: {len(self._flows)} flows>"
