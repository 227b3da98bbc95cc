"""The lookup of weights: by the name of a flow, and by a request's caller or the app's own function."""

from collections.abc import Callable, Iterable

from apf_middleware.classification.digest import RequestDigest
from apf_middleware.classification.flow_weights import WeightEntries, require_weight
from apf_middleware.classification.schema import FlowSchema

__all__ = ["FlowWeight", "RequestWeight", "WeightLookup", "compile_flow_weight", "compile_request_weight"]

FlowWeight = Callable[[str], float]
"""A function from a flow's name to its weight."""

RequestWeight = Callable[[RequestDigest], float | None]
"""A function from a request to its weight, or to None if the weight of its flow applies."""


class WeightLookup:
    """The weights of names: exact names come before prefixes, and longer prefixes before shorter ones."""

    __slots__ = ("_by_name", "_by_prefix", "_lengths")

    def __init__(self, entries: WeightEntries) -> None:
        self._by_name: dict[str, float] = {name: weight for name, weight in entries if name[-1:] != "*"}
        self._by_prefix: dict[str, float] = {name[:-1]: weight for name, weight in entries if name[-1:] == "*"}
        # Only the different lengths of prefixes are tried, so that thousands of prefixes cost no more than a few.
        self._lengths: list[int] = sorted({len(prefix) for prefix in self._by_prefix}, reverse=True)

    def find(self, name: str) -> float | None:
        """Return the weight of this name, or None."""
        found = self._by_name.get(name)
        if found is not None:
            return found
        for length in self._lengths:
            # A name that isn't longer than this stays whole. If it is a prefix itself, none that is longer fits.
            found = self._by_prefix.get(name[:length])
            if found is not None:
                return found
        return None

    def most(self, names: Iterable[str]) -> float | None:
        """Return the highest weight of these names, or None."""
        found = [weight for name in names if (weight := self.find(name)) is not None]
        return max(found) if found else None


def compile_flow_weight(schema: FlowSchema) -> FlowWeight | None:
    """Return the function from a flow's name to its weight; None if the weights of all flows are 1."""
    weights = schema.weights
    if weights is None or (weights.default == 1 and not weights.flows):
        return None
    default, lookup = weights.default, WeightLookup(weights.flows)

    def read(flow: str) -> float:
        weight = lookup.find(flow)
        return default if weight is None else weight

    return read


def compile_request_weight(schema: FlowSchema) -> RequestWeight | None:
    """Return the function from a request to its weight; None if weights only depend on the names of flows."""
    weights = schema.weights
    if weights is None or (weights.function is None and not weights.groups):
        return None
    function: Callable[[RequestDigest], object] | None = weights.function  # it may return anything
    groups = WeightLookup(weights.groups)
    name = f"weight of the schema {schema.name!r}"

    def read(digest: RequestDigest) -> float | None:
        weight = None if function is None else function(digest)
        if weight is not None:
            return require_weight(f"{name} by its function", weight)
        return groups.most(digest.identity.groups)

    return read
