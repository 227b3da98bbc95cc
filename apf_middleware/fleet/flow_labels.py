"""The names of flows in a store that shouldn't learn which flows they are."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from apf_middleware.fleet.messages import FlowTable, LevelUsage

__all__ = ["FlowLabels"]

_BYTES: Final = 8
_MOST: Final = 100_000  # flows that are remembered


class FlowLabels:
    """Label flows by hashes with a ``key``, and find the flows of labels.

    Members with the same key give a flow the same label. Without the key nobody can tell whose label it is, even by
    trying names. A flow is found again if it has been labelled lately.
    """

    __slots__ = ("_flows", "_key", "_labels")

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.sha256(key).digest()  # a key of any length
        self._labels: dict[int, int] = {}
        self._flows: dict[int, int] = {}

    def label(self, flow: int) -> int:
        """Return the label of a flow, which is given by its hash."""
        found = self._labels.get(flow)
        if found is None:
            if len(self._labels) >= _MOST:  # the next report labels what is needed again
                self._labels.clear()
                self._flows.clear()
            digest = hashlib.blake2b(flow.to_bytes(_BYTES, "big"), digest_size=_BYTES, key=self._key)
            found = self._labels[flow] = int.from_bytes(digest.digest(), "big")
            self._flows[found] = flow
        return found

    def labelled(self, usages: Mapping[str, LevelUsage]) -> dict[str, LevelUsage]:
        """Return the usages with labels for flows."""
        return {name: replace(usage, flows=self._labelled(usage.flows)) for name, usage in usages.items()}

    def _labelled(self, table: FlowTable) -> FlowTable:
        return FlowTable(tuple(map(self.label, table.flows)), table.seats, table.weights)

    def flow(self, label: int) -> int | None:
        """Return the flow that has this label, if it is known."""
        return self._flows.get(label)

    def found(self, factors: Mapping[int, int]) -> dict[int, int]:
        """Return the factors by flow, of those by label whose flows are known."""
        flows = self._flows
        return {flows[label]: factor for label, factor in factors.items() if label in flows}

    def __repr__(self) -> str:
        return f"<FlowLabels: {len(self._labels)} flows>"
