"""The weights of a schema's flows in ``apf/v1``: four keys of a FlowSchema, which are one `FlowWeights`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, PlainSerializer

from apf_middleware.classification.flow_weights import LEAST_WEIGHT, MOST_WEIGHT, FlowWeights
from apf_middleware.config.settings import Violation, key_of
from apf_middleware.config.values import callable_name

__all__ = ["Weight", "WeightsByName", "build_weights", "given_weights", "weight_values", "weights_violations"]

_EQUAL = FlowWeights()


def _written(weight: float) -> float:
    """Return a whole number without the fraction, as people write it."""
    return int(weight) if weight == int(weight) else weight


Weight = Annotated[float, Field(ge=LEAST_WEIGHT, le=MOST_WEIGHT), PlainSerializer(_written, return_type=Any)]
WeightsByName = dict[str, Weight]
"""Weights by the names of flows or groups, which may end with ``*``."""


def weights_violations(field: str, weights: Mapping[str, float], *, nameless: str = "") -> Iterator[Violation]:
    """Yield the names that can't match: those with ``*`` before their end.

    ``nameless`` is the rule that an empty name breaks, if it breaks one.
    """
    for name in weights:
        if "*" in name[:-1]:
            yield Violation((field, name), name, "'*' can only be the last character of a name")
        elif not name and nameless:
            yield Violation((field,), weights, nameless)


def build_weights(
    weight: float,
    flows: Mapping[str, float],
    groups: Mapping[str, float],
    function: Callable[..., Any] | None,
) -> FlowWeights | None:
    """Return the weights of a schema; None if all of its flows have the weight 1.

    Names are sorted: their order has no meaning, so that it must not make two configurations different.
    """
    weights = FlowWeights(weight, tuple(sorted(flows.items())), tuple(sorted(groups.items())), function)
    return None if weights == _EQUAL else weights


def weight_values(weights: FlowWeights | None) -> dict[str, object]:
    """Return the values of the four fields."""
    found = weights or _EQUAL
    return {
        "weight": _written(found.default),
        "weights": {name: _written(weight) for name, weight in found.flows},
        "group_weights": {name: _written(weight) for name, weight in found.groups},
        "weight_function": found.function,
    }


def given_weights(weights: FlowWeights | None) -> dict[str, object]:
    """Return the keys that differ from their defaults, with their values; of a function its name, if it has one."""
    usual = weight_values(None)
    given = {name: value for name, value in weight_values(weights).items() if value != usual[name]}
    return {key_of(name): (callable(value) and callable_name(value)) or value for name, value in given.items()}
